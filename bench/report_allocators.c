/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bench/report.h"

const char *const report_libraries[REPORT_LIBRARIES] = {"torch", "rmm"};

#define TORCH(key, name, value)                                                                                        \
    { key, name, "PYTORCH_ALLOC_CONF=" value, REPORT_TORCH, NULL, "PYTORCH_ALLOC_CONF", value, true, false }
#define RMM(kind, what)                                                                                                \
    { "rmm_" kind, "RMM, " kind, what, REPORT_RMM, NULL, "WEIR_PEER_RMM", kind, false, true }
#define HOST(name)                                                                                                     \
    {                                                                                                                  \
        name, name, "malloc and free of host memory, which know of no streams: for scale", REPORT_HOST, NULL, NULL,    \
            NULL, false, false                                                                                         \
    }

const struct report_allocator report_allocators[] = {
    {"weir", "weir", "the policy latency, its default", REPORT_OWN, "latency", NULL, NULL, true, false},
    {"per_stream", "per-stream", "weir's policy that caches for each stream apart, as today's allocators do",
     REPORT_OWN, "per-stream", NULL, NULL, true, false},
    {"torch", "PyTorch, default", "its caching allocator as it comes", REPORT_TORCH, NULL, "PYTORCH_ALLOC_CONF", "",
     true, false},
    TORCH("torch_expandable", "PyTorch, expandable", "expandable_segments:True"),
    TORCH("torch_split", "PyTorch, max split 128", "max_split_size_mb:128"),
    RMM("pool", "pool_memory_resource, given the whole device at its start"),
    RMM("arena", "arena_memory_resource, given the whole device at its start"),
    HOST("jemalloc"),
    HOST("mimalloc"),
};
const size_t report_allocator_count = sizeof report_allocators / sizeof *report_allocators;

size_t report_place(const char *key) {
    size_t i = 0;
    while (i < report_allocator_count && strcmp(report_allocators[i].key, key) != 0) i++;
    return i;
}

const char *report_name(const char *key) {
    const size_t place = report_place(key);
    return place < report_allocator_count ? report_allocators[place].name : key;
}

/* Grey is for what is of the host. */
size_t report_colour(const char *key) {
    const size_t place = report_place(key);
    return place < 7 ? place : 7;
}
