/* SPDX-License-Identifier: Apache-2.0 */
/* What the test's plug-in (plugin_library.c) tells: shared memory, whose address PLUGIN_SEEN says. */
#ifndef WEIR_TESTS_REPLAY_PLUGIN_LIBRARY_H
#define WEIR_TESTS_REPLAY_PLUGIN_LIBRARY_H

#include <stdint.h>

struct seen {
    int allocs, frees, uses;
    int64_t alloc_bytes, free_bytes;                     /* sums */
    const void *alloc_stream, *free_stream, *use_stream; /* of the latest call */
    int devices;                                         /* calls that named another than device 0 */
};

#endif
