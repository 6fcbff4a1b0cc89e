/* SPDX-License-Identifier: Apache-2.0 */
/* What small programs over the shared runtime have in common. */
#ifndef WEIR_TESTS_PRELOAD_SCENES_H
#define WEIR_TESTS_PRELOAD_SCENES_H

#include <string.h>

#include "tests/runtime/runtime.h"

enum { MEBI = 1 << 20 };

static inline void fill(void *block, int value) { CUDA(cudaMemset(block, value, MEBI)); }

static inline void holds(const void *block, int value) {
    unsigned char back[16];
    CUDA(cudaMemcpy(back, (const char *)block + MEBI - sizeof back, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(back[0] == value && back[15] == value);
}

#endif
