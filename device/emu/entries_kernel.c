/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for modules, libraries and kernels. */
#include <stdio.h>
#include <string.h>

#include "device/emu/emu.h"
#include "device/emu/figures.h"
#include "device/emu/kernel.h"

/* ---- modules and libraries -------------------------------------------------------------------------------------- */

/* Needs the lock. */
static CUresult load(CUcontext context, void *place, const void *image) {
    if (place == NULL || image == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct emu_image *loaded = emu_image_load(context);
    if (loaded == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(place, &loaded, sizeof loaded); /* a CUmodule or a CUlibrary */
    return CUDA_SUCCESS;
}

/* `checked`: what was wrong with the other arguments. */
static CUresult load_module(enum emu_entry entry, CUmodule *module, const void *image, CUresult checked) {
    CUcontext context;
    const CUresult code = emu_enter(entry, &context);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(checked != CUDA_SUCCESS ? checked : load(context, module, image));
}

static CUresult check_file(const char *path) {
    if (path == NULL) return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "re");
    if (file == NULL) return CUDA_ERROR_FILE_NOT_FOUND;
    fclose(file);
    return CUDA_SUCCESS;
}

static CUresult check_options(unsigned count, const void *options, const void *values) {
    return count > 0 && (options == NULL || values == NULL) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* A compiler's logs are empty: nothing was compiled. */
static void empty_logs(unsigned count, const CUjit_option *options, void **values) {
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            values[i] = NULL;
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    return load_module(EMU_AT_cuModuleLoad, module, path, check_file(path));
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return load_module(EMU_AT_cuModuleLoadData, module, image, CUDA_SUCCESS);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
    const CUresult code = load_module(EMU_AT_cuModuleLoadDataEx, module, image, check_options(count, options, values));
    if (code == CUDA_SUCCESS) empty_logs(count, options, values);
    return code;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    return load_module(EMU_AT_cuModuleLoadFatBinary, module, image, CUDA_SUCCESS);
}

static CUresult unload(enum emu_entry entry, const void *handle, bool module) {
    CUcontext context;
    const CUresult code = emu_enter(entry, module ? &context : NULL);
    if (code != CUDA_SUCCESS) return code;
    struct emu_image *image = emu_image_of(handle, module);
    if (image == NULL || (image->context != NULL) != module) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    emu_image_unload(image);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuModuleUnload(CUmodule module) { return unload(EMU_AT_cuModuleUnload, module, true); }

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    const CUresult code = emu_enter(EMU_AT_cuModuleGetLoadingMode, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (mode == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *mode = CU_MODULE_LAZY_LOADING;
    return emu_leave(CUDA_SUCCESS);
}

/* Needs the lock. */
static CUresult get_kernel(const void *handle, bool module, const char *name, void *place) {
    if (place == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (name[0] == '\0') return CUDA_ERROR_NOT_FOUND;
    struct emu_image *image = emu_image_of(handle, module);
    if (image == NULL) return CUDA_ERROR_INVALID_HANDLE;
    const struct emu_kernel *kernel = emu_kernel_get(image, name);
    if (kernel == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(place, &kernel, sizeof kernel); /* a CUfunction or a CUkernel */
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    const CUresult code = emu_enter(EMU_AT_cuModuleGetFunction, NULL);
    return code != CUDA_SUCCESS ? code : emu_leave(get_kernel(module, true, name, function));
}

/* Images are not read, so their variables are not known. */
static CUresult get_variable(enum emu_entry entry, const void *handle, bool module, const char *name) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (emu_image_of(handle, module) == NULL) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    return emu_leave(name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    (void)address;
    (void)bytes;
    return get_variable(EMU_AT_cuModuleGetGlobal_v2, module, true, name);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    (void)address;
    (void)bytes;
    return get_variable(EMU_AT_cuLibraryGetGlobal, library, false, name);
}

static CUresult load_library(enum emu_entry entry, CUlibrary *library, const void *image, CUresult checked) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(checked != CUDA_SUCCESS ? checked : load(NULL, library, image));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit_options, void **jit_values,
                           unsigned jit_count, CUlibraryOption *options, void **values, unsigned count) {
    CUresult checked = check_options(jit_count, jit_options, jit_values);
    if (checked == CUDA_SUCCESS) checked = check_options(count, options, values);
    return load_library(EMU_AT_cuLibraryLoadData, library, image, checked);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit_options, void **jit_values,
                               unsigned jit_count, CUlibraryOption *options, void **values, unsigned count) {
    CUresult checked = check_options(jit_count, jit_options, jit_values);
    if (checked == CUDA_SUCCESS) checked = check_options(count, options, values);
    if (checked == CUDA_SUCCESS) checked = check_file(path);
    return load_library(EMU_AT_cuLibraryLoadFromFile, library, path, checked);
}

CUresult cuLibraryUnload(CUlibrary library) { return unload(EMU_AT_cuLibraryUnload, library, false); }

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    const CUresult code = emu_enter(EMU_AT_cuLibraryGetKernel, NULL);
    return code != CUDA_SUCCESS ? code : emu_leave(get_kernel(library, false, name, kernel));
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuLibraryGetModule, &context);
    if (code != CUDA_SUCCESS) return code;
    if (module == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (emu_image_of(library, false) == NULL) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    *module = (CUmodule)(void *)library;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- linking ---------------------------------------------------------------------------------------------------- */

/* What is linked is accepted as images are, unread; the result is an image too. */
struct CUlinkState_st {
    struct emu_slot slot;
    unsigned count;
    CUjit_option *options; /* the program's, which keeps them until the link is destroyed */
    void **values;
};

static struct emu_slots links = EMU_SLOTS_INITIALIZER(struct CUlinkState_st);
static char linked_image[] = "linked by weir's emulated driver";

CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *state) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuLinkCreate_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    if (state == NULL || check_options(count, options, values) != CUDA_SUCCESS)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    CUlinkState made = emu_slots_take(&links);
    if (made == NULL) return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->count = count;
    made->options = options;
    made->values = values;
    *state = made;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult add_to_link(enum emu_entry entry, CUlinkState state, CUjitInputType type, CUresult checked) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_slots_alive(&links, state)) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    return emu_leave((unsigned)type > CU_JIT_INPUT_NVVM ? CUDA_ERROR_INVALID_VALUE : checked);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
                          unsigned count, CUjit_option *options, void **values) {
    (void)name;
    const bool valid = data != NULL && bytes > 0 && check_options(count, options, values) == CUDA_SUCCESS;
    return add_to_link(EMU_AT_cuLinkAddData_v2, state, type, valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned count,
                          CUjit_option *options, void **values) {
    const CUresult checked = check_options(count, options, values);
    return add_to_link(EMU_AT_cuLinkAddFile_v2, state, type, checked != CUDA_SUCCESS ? checked : check_file(path));
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes) {
    const CUresult code = emu_enter(EMU_AT_cuLinkComplete, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_slots_alive(&links, state)) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (image == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *image = linked_image;
    if (bytes != NULL) *bytes = sizeof linked_image;
    empty_logs(state->count, state->options, state->values);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuLinkDestroy(CUlinkState state) {
    const CUresult code = emu_enter(EMU_AT_cuLinkDestroy, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_slots_alive(&links, state)) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    emu_slots_give(&links, state);
    return emu_leave(CUDA_SUCCESS);
}

/* ---- what kernels are ------------------------------------------------------------------------------------------- */

/* Enters a call that names a kernel, as a CUfunction or a CUkernel. */
static CUresult enter_kernel(enum emu_entry entry, const void *handle, struct emu_kernel **kernel) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    *kernel = emu_kernel_of(handle);
    return *kernel != NULL ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel handle) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuKernelGetFunction, &context);
    if (code != CUDA_SUCCESS) return code;
    if (function == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (emu_kernel_of(handle) == NULL) return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    *function = (CUfunction)(void *)handle;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel handle) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuKernelGetLibrary, handle, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (library == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *library = (CUlibrary)(void *)kernel->image;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction handle) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuFuncGetModule, handle, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (module == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *module = (CUmodule)(void *)kernel->image;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult get_name(enum emu_entry entry, const char **name, const void *handle) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(entry, handle, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (name == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *name = emu_kernel_text(kernel);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
    return get_name(EMU_AT_cuFuncGetName, name, function);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) { return get_name(EMU_AT_cuKernelGetName, name, kernel); }

CUresult cuFuncLoad(CUfunction function) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuFuncLoad, function, &kernel);
    return code != CUDA_SUCCESS ? code : emu_leave(CUDA_SUCCESS);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuFuncIsLoaded, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (state == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult get_attribute(enum emu_entry entry, int *value, CUfunction_attribute attribute, const void *handle,
                              CUdevice device) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(entry, handle, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (value == NULL || (unsigned)attribute >= CU_FUNC_ATTRIBUTE_MAX) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *value = kernel->attributes[attribute];
    return emu_leave(CUDA_SUCCESS);
}

static bool settable(CUfunction_attribute attribute, int value) {
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return value >= 0 && value <= EMU_BLOCK_SHARED_MOST_BYTES;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return value >= -1 && value <= 100;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return value >= 0;
    default:
        return false; /* the code itself tells the others */
    }
}

static CUresult set_attribute(enum emu_entry entry, const void *handle, CUfunction_attribute attribute, int value,
                              CUdevice device) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(entry, handle, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!settable(attribute, value)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    kernel->attributes[attribute] = value;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    return get_attribute(EMU_AT_cuFuncGetAttribute, value, attribute, function, 0);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return set_attribute(EMU_AT_cuFuncSetAttribute, function, attribute, value, 0);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    return get_attribute(EMU_AT_cuKernelGetAttribute, value, attribute, kernel, device);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    return set_attribute(EMU_AT_cuKernelSetAttribute, kernel, attribute, value, device);
}

/* Preferences, and there is no cache to prefer. */
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuFuncSetCacheConfig, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuKernelSetCacheConfig, handle, &kernel);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    return emu_leave((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
    struct emu_kernel *kernel;
    const CUresult code = enter_kernel(EMU_AT_cuFuncSetSharedMemConfig, function, &kernel);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                                                  : CUDA_SUCCESS);
}
