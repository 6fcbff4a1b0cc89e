/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel handles, and libraries of device code that a program loads itself. */
#include "device/emu/runtime/rt.h"

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
    cudaError_t code = rt_begin();
    if (code == cudaSuccess) code = kernel != NULL ? rt_find_kernel(stub, kernel) : cudaErrorInvalidValue;
    return rt_end(code);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) { return cudaGetKernel(kernel, stub); }

RT_PASS_DEVICE(cudaKernelSetAttributeForDevice,
               (cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int device), device,
               cuKernelSetAttribute, ((int)attribute, value, kernel, device))

RT_PASS(cudaLibraryLoadData,
        (cudaLibrary_t * library, const void *image, enum cudaJitOption *jit_options, void **jit_values,
         unsigned jit_count, enum cudaLibraryOption *options, void **values, unsigned count),
        cuLibraryLoadData, (library, image, jit_options, jit_values, jit_count, options, values, count))
RT_PASS(cudaLibraryLoadFromFile,
        (cudaLibrary_t * library, const char *path, enum cudaJitOption *jit_options, void **jit_values,
         unsigned jit_count, enum cudaLibraryOption *options, void **values, unsigned count),
        cuLibraryLoadFromFile, (library, path, jit_options, jit_values, jit_count, options, values, count))
RT_PASS(cudaLibraryUnload, (cudaLibrary_t library), cuLibraryUnload, (library))
RT_PASS(cudaLibraryGetGlobal, (void **address, size_t *bytes, cudaLibrary_t library, const char *name),
        cuLibraryGetGlobal, (address, bytes, library, name))
RT_PASS(cudaLibraryGetManaged, (void **address, size_t *bytes, cudaLibrary_t library, const char *name),
        cuLibraryGetManaged, (address, bytes, library, name))
RT_PASS(cudaLibraryGetUnifiedFunction, (void **function, cudaLibrary_t library, const char *name),
        cuLibraryGetUnifiedFunction, (function, library, name))
RT_PASS(cudaLibraryGetKernelCount, (unsigned *count, cudaLibrary_t library), cuLibraryGetKernelCount, (count, library))

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    cudaError_t code = rt_begin();
    if (code == cudaSuccess) code = RT_CALL(cuLibraryGetKernel, (kernel, library, name));
    return rt_end(code == cudaSuccess ? rt_kernel_given(*kernel) : code);
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned count, cudaLibrary_t library) {
    cudaError_t code = rt_begin();
    if (code == cudaSuccess) code = RT_CALL(cuLibraryEnumerateKernels, (kernels, count, library));
    for (unsigned i = 0; code == cudaSuccess && i < count; i++)
        if (kernels[i] != NULL) code = rt_kernel_given(kernels[i]);
    return rt_end(code);
}
