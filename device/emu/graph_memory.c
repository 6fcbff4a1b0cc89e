/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/graph_memory.h"

#include <stdlib.h>

#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/settings.h"

static struct emu_graph_memory *all;

static CUresult take_pages(struct emu_graph_memory *memory, CUdevice device) {
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    size_t handles = 0;
    CUresult code = emu_memory_create(&properties, memory->bytes, &memory->page);
    if (code != CUDA_SUCCESS) return code;
    code = emu_memory_map(memory->start, memory->bytes, memory->page);
    if (code == CUDA_SUCCESS) {
        code =
            emu_memory_set_access(memory->start, memory->bytes, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &handles);
        if (code != CUDA_SUCCESS) emu_memory_unmap(memory->start, memory->bytes, &handles);
    }
    if (code != CUDA_SUCCESS) emu_memory_release(memory->page);
    return code;
}

CUresult emu_graph_memory_make(CUdevice device, size_t bytes, struct emu_graph_memory **out) {
    const size_t granule = emu_settings()->granularity_bytes;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX / 2) return CUDA_ERROR_OUT_OF_MEMORY;
    struct emu_graph_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memory->references = 1;
    memory->bytes = (bytes + granule - 1) / granule * granule;
    CUresult code = emu_memory_reserve(0, memory->bytes, 0, &memory->start);
    if (code == CUDA_SUCCESS) {
        code = take_pages(memory, device);
        if (code != CUDA_SUCCESS) emu_memory_unreserve(memory->start, memory->bytes);
    }
    if (code != CUDA_SUCCESS) {
        free(memory);
        return code;
    }
    memory->next = all;
    all = memory;
    *out = memory;
    return CUDA_SUCCESS;
}

void emu_graph_memory_drop(struct emu_graph_memory *memory) {
    size_t handles = 0;
    if (--memory->references > 0) return;
    struct emu_graph_memory **at = &all;
    while (*at != memory) at = &(*at)->next;
    *at = memory->next;
    emu_running_wait(memory->start, memory->bytes);
    emu_memory_unmap(memory->start, memory->bytes, &handles);
    emu_memory_unreserve(memory->start, memory->bytes);
    emu_memory_release(memory->page);
    free(memory);
}

struct emu_graph_memory *emu_graph_memory_at(uintptr_t start) {
    struct emu_graph_memory *memory = all;
    while (memory != NULL && memory->start != start) memory = memory->next;
    return memory;
}
