/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/host.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/emu/memory.h"
#include "device/emu/ranges.h"
#include "device/emu/settings.h"
#include "device/emu/watch.h"

struct pinned {
    struct emu_range range;
    struct emu_pinned as;
};

static struct emu_ranges pinned;

static CUresult add(uintptr_t start, size_t bytes, struct emu_pinned as) {
    struct pinned *made = malloc(sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    as.start = start;
    as.bytes = bytes;
    as.id = emu_memory_new_id();
    *made = (struct pinned){{start, bytes}, as};
    CUresult code = CUDA_SUCCESS;
    if (emu_ranges_overlap(&pinned, start, bytes))
        code = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!emu_ranges_insert(&pinned, &made->range))
        code = CUDA_ERROR_OUT_OF_MEMORY;
    if (code != CUDA_SUCCESS) free(made);
    return code;
}

/* Forgets the piece that starts there, if it is of that kind. */
static bool forget(uintptr_t start, bool own, const char *entry) {
    struct pinned *piece = emu_ranges_at(&pinned, start);
    const bool found = piece != NULL && piece->range.start == start && piece->as.own == own;
    if (!found) return false;
    emu_watch_host_memory_gone(start, piece->range.bytes, entry);
    emu_ranges_remove(&pinned, &piece->range);
    free(piece);
    return true;
}

/* More than the machine has can't be pinned; where device memory is addresses only, it is not really to be. */
static bool beyond_machine(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size_t)sysconf(_SC_PHYS_PAGES);
    return emu_settings()->backed && bytes / page > pages;
}

CUresult emu_host_alloc(CUcontext context, size_t bytes, unsigned flags, void **address) {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (beyond_machine(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (posix_memalign(address, (size_t)sysconf(_SC_PAGESIZE), bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult code =
        add((uintptr_t)*address, bytes, (struct emu_pinned){.own = true, .flags = flags, .context = context});
    if (code == CUDA_SUCCESS) return CUDA_SUCCESS;
    free(*address);
    *address = NULL;
    return code;
}

CUresult emu_host_free(void *address) {
    if (!forget((uintptr_t)address, true, "cuMemFreeHost")) return CUDA_ERROR_INVALID_VALUE;
    free(address);
    return CUDA_SUCCESS;
}

/* Memory that can't be read can't be pinned. msync with MS_ASYNC does nothing but look. */
bool emu_host_exists(uintptr_t start, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = start / page * page;
    return msync((void *)first, start + bytes - first, MS_ASYNC) == 0;
}

CUresult emu_host_register(CUcontext context, uintptr_t start, size_t bytes, unsigned flags) {
    if (start == 0 || bytes == 0 || bytes > UINTPTR_MAX - start) return CUDA_ERROR_INVALID_VALUE;
    if (!emu_host_exists(start, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return add(start, bytes, (struct emu_pinned){.flags = flags, .context = context});
}

CUresult emu_host_unregister(uintptr_t start) {
    return forget(start, false, "cuMemHostUnregister") ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

bool emu_host_pinned(uintptr_t start, size_t bytes) {
    const struct pinned *piece = emu_ranges_at(&pinned, start);
    return piece != NULL && bytes <= emu_range_end(&piece->range) - start;
}

const struct emu_pinned *emu_host_find(uintptr_t address) {
    const struct pinned *piece = emu_ranges_at(&pinned, address);
    return piece != NULL ? &piece->as : NULL;
}
