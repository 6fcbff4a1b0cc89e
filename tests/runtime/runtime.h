/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime's interface as a program sees it: by the Toolkit's headers, or by weir's own where there is none. */
#ifndef WEIR_TESTS_RUNTIME_RUNTIME_H
#define WEIR_TESTS_RUNTIME_RUNTIME_H

#ifdef WITH_TOOLKIT
#include <cuda_runtime_api.h>
#else
#include "device/emu/runtime/version.h"
#endif

#include <stdio.h>
#include <stdlib.h>

/* Programs that are no cmocka tests, since they stand for any program: the first thing that is wrong ends them. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t cuda_code = (call);                                                                          \
        if (cuda_code != cudaSuccess) {                                                                                \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(cuda_code),             \
                    cudaGetErrorString(cuda_code));                                                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
