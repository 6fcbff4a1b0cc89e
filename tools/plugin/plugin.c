/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
enum { MEMORY_TYPE_ATTRIBUTE = 2, DEVICE_MEMORY = 2, ORDINAL_ATTRIBUTE = 9 };

static const char *const runtime_names[PLUGIN_RUNTIMES] = {"libcudart.so.13", "libcudart.so.12"};

/* ---- the option ------------------------------------------------------------------------------------------------- */

/* A ':' before the last '/' is the path's own. */
bool plugin_names_read(const char *value, struct plugin_names *names, char *why, size_t room) {
    const char *slash = strrchr(value, '/'), *at = strchr(slash != NULL ? slash : value, ':');
    char **const part[] = {&names->alloc, &names->free, &names->use};
    bool whole = at != NULL && at != value;
    *names = (struct plugin_names){0};
    if (whole) names->library = strndup(value, (size_t)(at - value));
    for (int i = 0; i < 3 && whole && *at == ':'; i++) {
        size_t length = strcspn(at + 1, ":");
        *part[i] = strndup(at + 1, length);
        whole = length > 0;
        at += 1 + length;
    }
    if (!whole || *at != 0 || names->free == NULL) {
        snprintf(why, room, "--allocator %.100s: expected LIB.so:ALLOC:FREE or LIB.so:ALLOC:FREE:USE", value);
        return false;
    }
    if (slash == NULL || access(names->library, R_OK) == 0) return true;
    snprintf(why, room, "--allocator %.200s: the library can't be read: %s", names->library, strerror(errno));
    return false;
}

void plugin_names_free(struct plugin_names *names) {
    free(names->library);
    free(names->alloc);
    free(names->free);
    free(names->use);
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bits are the same. */
static bool find(void *library, const char *symbol, void *member) {
    void *found = dlsym(library, symbol);
    memcpy(member, &found, sizeof found);
    return found != NULL;
}

static bool find_driver(const struct weir__driver *driver, char *path, size_t room) {
    Dl_info info;
    void *entry;
    memcpy(&entry, &driver->init, sizeof entry);
    if (dladdr(entry, &info) == 0) return false;
    snprintf(path, room, "%s", info.dli_fname);
    return true;
}

bool plugin_find_attribute(const struct weir__driver *driver, struct plugin_calls *calls, char *why, size_t room) {
    const char *kind = driver->emulated ? "emulated driver" : "driver";
    char path[4096];
    if (!find_driver(driver, path, sizeof path)) {
        snprintf(why, room, "the %s's file is not known", kind);
        return false;
    }
    void *loaded = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    if (loaded != NULL && find(loaded, "cuPointerGetAttribute", &calls->attribute)) return true;
    snprintf(why, room, "the %s %s does not tell what lies at an address", kind, path);
    return false;
}

static bool load_runtimes(const struct weir__driver *driver, struct plugin_calls *calls, char *why, size_t room) {
    char file[4096], path[4200];
    bool loaded = false;
    if (!find_driver(driver, file, sizeof file)) file[0] = 0;
    const char *folder = dirname(file);
    for (int i = 0; i < PLUGIN_RUNTIMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, runtime_names[i]);
        void *runtime = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (runtime != NULL) loaded |= find(runtime, "cudaGetLastError", &calls->clear_last_error[i]);
    }
    if (!loaded)
        snprintf(why, room, "the emulated runtime %s/%s can't be loaded: %s", folder, runtime_names[0], dlerror());
    return loaded;
}

static void *load_library(const char *name, char *why, size_t room) {
    char path[4200];
    const bool here = strchr(name, '/') == NULL && access(name, F_OK) == 0;
    snprintf(path, sizeof path, "%s%s", here ? "./" : "", name);
    if (strchr(path, '/') != NULL && access(path, F_OK) != 0) {
        snprintf(why, room, "the allocator's library %s does not exist", name);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) snprintf(why, room, "the allocator's library can't be loaded: %s", dlerror());
    return library;
}

static bool need_symbol(void *library, const char *name, const char *symbol, void *member, char *why, size_t room) {
    if (find(library, symbol, member)) return true;
    snprintf(why, room, "the allocator's library %s has no symbol %s", name, symbol);
    return false;
}

bool plugin_load(const struct weir__driver *driver, const char *library, const char *alloc, const char *free,
                 const char *use, struct plugin_calls *calls, char *why, size_t room) {
    if (!plugin_find_attribute(driver, calls, why, room)) return false;
    if (driver->emulated && !load_runtimes(driver, calls, why, room)) return false;
    void *loaded = load_library(library, why, room);
    return loaded != NULL && need_symbol(loaded, library, alloc, &calls->alloc, why, room) &&
           need_symbol(loaded, library, free, &calls->free, why, room) &&
           (use == NULL || need_symbol(loaded, library, use, &calls->use, why, room));
}

/* ---- afterwards ------------------------------------------------------------------------------------------------- */

void plugin_clear_errors(const struct plugin_calls *calls) {
    for (int i = 0; i < PLUGIN_RUNTIMES; i++)
        if (calls->clear_last_error[i] != NULL) calls->clear_last_error[i]();
}

static bool is_device_memory(const struct plugin_calls *calls, int ordinal, uintptr_t address) {
    const CUdeviceptr at = (CUdeviceptr)address;
    unsigned type = 0;
    int owner = -1;
    return calls->attribute(&type, MEMORY_TYPE_ATTRIBUTE, at) == CUDA_SUCCESS && type == DEVICE_MEMORY &&
           calls->attribute(&owner, ORDINAL_ATTRIBUTE, at) == CUDA_SUCCESS && owner == ordinal;
}

bool plugin_is_device_memory(const struct plugin_calls *calls, int ordinal, uintptr_t address, size_t bytes) {
    const uintptr_t last = address + bytes - 1;
    return last >= address && is_device_memory(calls, ordinal, address) && is_device_memory(calls, ordinal, last);
}
