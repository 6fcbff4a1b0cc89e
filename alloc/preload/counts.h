/* SPDX-License-Identifier: Apache-2.0 */
/* What the preloaded library counts, for the summary that weir-run reads. X(name, text) */
#ifndef WEIR_ALLOC_PRELOAD_COUNTS_H
#define WEIR_ALLOC_PRELOAD_COUNTS_H

#define WEIR__PRELOAD_SERVED(X)                                                                                        \
    X(plain_allocs, "plain allocations")                                                                               \
    X(plain_frees, "plain frees")                                                                                      \
    X(stream_allocs, "stream-ordered allocations")                                                                     \
    X(stream_frees, "stream-ordered frees")
/* Pinned host memory, where it is served; and what that took of the driver. */
#define WEIR__PRELOAD_HOST(X)                                                                                          \
    X(host_allocs, "pinned allocations")                                                                               \
    X(host_frees, "pinned frees")                                                                                      \
    X(host_calls, "calls of the driver that pin or unpin")                                                             \
    X(host_peak_live_bytes, "most pinned bytes that the program had at once, rounded up")                              \
    X(host_peak_held_bytes, "most that were pinned")
/* Allocations that are the driver's business, by why. */
#define WEIR__PRELOAD_LEFT(X)                                                                                          \
    X(foreign_context, "in a context of the program's own")                                                            \
    X(foreign_capture, "in a graph's capture")                                                                         \
    X(foreign_pool, "from a memory pool of the program's own")                                                         \
    X(foreign_option, "plain ones, by option")                                                                         \
    X(foreign_failed, "since weir has no pool for the device")
#define WEIR__PRELOAD_COUNTS(X)                                                                                        \
    WEIR__PRELOAD_SERVED(X)                                                                                            \
    WEIR__PRELOAD_HOST(X)                                                                                              \
    WEIR__PRELOAD_LEFT(X)                                                                                              \
    X(foreign_frees, "frees of memory that is not weir's")                                                             \
    X(refused, "requests answered with out of memory")

#endif
