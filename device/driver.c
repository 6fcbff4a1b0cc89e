/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the driver: once a process and machine. A driver is never unloaded. */
#include "device/driver.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/error.h"

#define LIBRARY "libcuda.so.1"

enum machine { MACHINE_CUDA, MACHINE_EMULATED, MACHINE_AUTO, MACHINES };
static const char *const machine_names[MACHINES] = {"cuda", "emulated", "auto"};

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static struct weir__driver tables[MACHINE_AUTO]; /* cuda and emulated */
static const struct weir__driver *loaded[MACHINES];
static void *own_emulated; /* the emulated driver's handle, when it was loaded from here */

/* ---- the table -------------------------------------------------------------------------------------------------- */

static weir__find_entry *finder = dlsym;

void weir__driver_found_by(weir__find_entry *find) { __atomic_store_n(&finder, find, __ATOMIC_RELEASE); }

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bits are the same. */
static bool find_entry(void *library, const char *symbol, void *member) {
    void *entry = __atomic_load_n(&finder, __ATOMIC_ACQUIRE)(library, symbol);
    memcpy(member, &entry, sizeof entry);
    return entry != NULL;
}

static enum weir_status fill_table(struct weir__driver *table, void *library, const char *path) {
    const char *missing = NULL;
#define FIND(member, symbol, parameters)                                                                               \
    if (!find_entry(library, #symbol, &table->member)) missing = #symbol;
    WEIR__DRIVER_OPTIONAL_LIST(FIND)
    missing = NULL;
    WEIR__EMU_LIST(FIND)
    table->emulated = missing == NULL;
    missing = NULL;
    WEIR__DRIVER_LIST(FIND)
#undef FIND
    snprintf(table->path, sizeof table->path, "%s", path);
    if (missing != NULL)
        return weir__fail(WEIR_NO_DEVICE, 0, "dlsym", "the driver %s has no entry %s: it is older than CUDA 11.4", path,
                          missing);
    return WEIR_OK;
}

enum weir_status weir__driver_check(const struct weir__driver *driver, CUresult code, const char *call) {
    if (code == CUDA_SUCCESS) return WEIR_OK;
    const char *name = NULL, *text = NULL;
    if (driver->error_name(code, &name) != CUDA_SUCCESS || name == NULL) name = "unknown code";
    if (driver->error_string(code, &text) != CUDA_SUCCESS || text == NULL) text = "no text";
    return weir__fail(WEIR_DRIVER, (int)code, call, "%s failed with %d, %s: %s", call, (int)code, name, text);
}

/* ---- the emulated driver ---------------------------------------------------------------------------------------- */

/* Where the emulated driver lies, seen from the library or program that holds this code: beside a library in the build
 * tree, beside an installed library, and from a program of the build tree. */
static const char *const places[] = {"emu/" LIBRARY, "weir/emu/" LIBRARY, "../lib/emu/" LIBRARY};

static bool find_emulated(char *path, size_t room, char *folder, size_t folder_room) {
    Dl_info here;
    const void *inside = machine_names;
    char *real = dladdr(inside, &here) != 0 ? realpath(here.dli_fname, NULL) : NULL;
    if (real == NULL) real = realpath("/proc/self/exe", NULL);
    if (real == NULL) return false;
    snprintf(folder, folder_room, "%s", dirname(real));
    free(real);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, room, "%s/%s", folder, places[i]);
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

static enum weir_status configure_emulated(struct weir__driver *table, const char *settings) {
    char message[300] = "";
    if (table->emu_configure(settings != NULL ? settings : "", message, sizeof message) != CUDA_SUCCESS)
        return weir__fail(WEIR_INVALID, 0, "weirEmuConfigure", "%s", message);
    const CUresult code = table->init(0);
    return code == CUDA_ERROR_NO_DEVICE
               ? weir__fail(WEIR_NO_DEVICE, (int)code, "cuInit", "the emulated driver has no device")
               : weir__driver_check(table, code, "cuInit");
}

static enum weir_status load_emulated(const char *settings) {
    char path[4096], folder[3500];
    if (own_emulated == NULL) {
        if (!find_emulated(path, sizeof path, folder, sizeof folder))
            return weir__fail(WEIR_NO_DEVICE, 0, "dlopen",
                              "the emulated driver was not found: no %s, %s or %s from the folder %.200s", places[0],
                              places[1], places[2], folder);
        own_emulated = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (own_emulated == NULL) return weir__fail(WEIR_NO_DEVICE, 0, "dlopen", "%s", dlerror());
        enum weir_status status = fill_table(&tables[MACHINE_EMULATED], own_emulated, path);
        if (status != WEIR_OK) {
            dlclose(own_emulated);
            own_emulated = NULL;
            return status;
        }
    }
    const enum weir_status status = configure_emulated(&tables[MACHINE_EMULATED], settings);
    if (status == WEIR_OK) loaded[MACHINE_EMULATED] = &tables[MACHINE_EMULATED];
    return status;
}

/* ---- the real one ----------------------------------------------------------------------------------------------- */

/* *absent: there is no driver, or no device, as opposed to one that does not work. */
static enum weir_status load_cuda(const char *settings, bool *absent) {
    *absent = false;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* one that is loaded already wins */
    if (library == NULL) {
        const char *why = dlerror();
        *absent = strstr(why, LIBRARY ": cannot open shared object file: No such file") == why;
        return weir__fail(WEIR_NO_DEVICE, 0, "dlopen", "no CUDA driver: %s (WEIR_DEVICE=emulated runs without a GPU)",
                          why);
    }
    if (library == own_emulated) {
        *absent = true;
        return weir__fail(WEIR_NO_DEVICE, 0, "dlopen",
                          "the emulated driver is in use in this process; a CUDA driver can only be loaded before it");
    }
    struct weir__driver *table = &tables[MACHINE_CUDA];
    const enum weir_status filled = fill_table(table, library, LIBRARY);
    if (filled != WEIR_OK) return filled;
    if (table->emulated) return configure_emulated(table, settings); /* the program itself loaded it */
    const CUresult code = table->init(0);
    *absent = code == CUDA_ERROR_NO_DEVICE;
    if (*absent)
        return weir__fail(WEIR_NO_DEVICE, (int)code, "cuInit",
                          "the CUDA driver finds no device (WEIR_DEVICE=emulated runs without a GPU)");
    return weir__driver_check(table, code, "cuInit");
}

static enum weir_status load_cuda_once(const char *settings, bool *absent) {
    *absent = false;
    if (loaded[MACHINE_CUDA] != NULL) return WEIR_OK;
    const enum weir_status status = load_cuda(settings, absent);
    if (status == WEIR_OK) loaded[MACHINE_CUDA] = &tables[MACHINE_CUDA];
    return status;
}

/* ---- choice ----------------------------------------------------------------------------------------------------- */

static enum weir_status load(enum machine machine, const char *settings) {
    if (loaded[machine] != NULL) return WEIR_OK;
    bool absent;
    if (machine == MACHINE_CUDA) return load_cuda_once(settings, &absent);
    if (machine == MACHINE_EMULATED) return load_emulated(settings);
    enum weir_status status = load_cuda_once(settings, &absent);
    enum machine chosen = MACHINE_CUDA;
    if (status != WEIR_OK && absent) {
        chosen = MACHINE_EMULATED;
        status = loaded[chosen] != NULL ? WEIR_OK : load_emulated(settings);
    }
    if (status == WEIR_OK) loaded[MACHINE_AUTO] = loaded[chosen];
    return status;
}

static enum weir_status parse_machine(const char *given, enum machine *machine) {
    for (unsigned i = 0; i < MACHINES; i++) {
        if (strcmp(given, machine_names[i]) != 0) continue;
        *machine = (enum machine)i;
        return WEIR_OK;
    }
    const char *near = weir__nearest(given, machine_names, MACHINES);
    return WEIR__INVALID("machine \"%.40s\" is unknown: expected cuda, emulated or auto%s%s%s", given,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

enum weir_status weir__driver_load(const char *machine, const char *settings, const struct weir__driver **out) {
    *out = NULL;
    const char *asked = machine != NULL ? machine : getenv("WEIR_DEVICE");
    enum machine kind = MACHINE_CUDA;
    if (asked != NULL && asked[0] != '\0') {
        const enum weir_status status = parse_machine(asked, &kind);
        if (status != WEIR_OK) return status;
    }
    pthread_mutex_lock(&loading);
    const enum weir_status status = load(kind, settings);
    *out = status == WEIR_OK ? loaded[kind] : NULL;
    pthread_mutex_unlock(&loading);
    return status;
}
