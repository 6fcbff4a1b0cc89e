/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/slabs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/error.h"
#include "offload/budget.h"
#include "offload/numa.h"
#include "offload/prefault.h"

enum {
    HUGE_PAGE = 2 << 20
}; /* alignment of the range, so that transparent huge pages can back it where they are small */

static enum weir_status system_error(const char *call, size_t bytes) {
    int error = errno;
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, call, "host pool: %s of %zu bytes failed: %s", call, bytes,
                      strerror(error));
}

enum weir_status weir__slabs_init(struct weir__slabs *slabs, struct weir_device *device, size_t budget_bytes,
                                  size_t chunk_bytes, int node) {
    size_t mapping_bytes = budget_bytes + HUGE_PAGE;
    void *mapping = mmap(NULL, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return system_error("mmap", mapping_bytes);
    size_t ahead = (HUGE_PAGE - (uintptr_t)mapping % HUGE_PAGE) % HUGE_PAGE;
    *slabs = (struct weir__slabs){
        .device = device,
        .base = (char *)mapping + ahead,
        .budget_bytes = budget_bytes,
        .chunk_bytes = chunk_bytes,
        .node = node,
        .bound = node >= 0,
        .mapping = mapping,
        .mapping_bytes = mapping_bytes,
    };
    return WEIR_OK;
}

static size_t chunk_size(const struct weir__slabs *slabs, size_t left) {
    return left < slabs->chunk_bytes ? left : slabs->chunk_bytes;
}

/* Unregisters the first `bytes` bytes of a range that was registered in chunks. A failure is said, and no more can be
 * done: the pages stay pinned until the context goes. */
static void unregister(const struct weir__slabs *slabs, size_t offset, size_t bytes) {
    for (size_t done = 0; done < bytes; done += chunk_size(slabs, bytes - done))
        if (weir_host_unregister(slabs->device, slabs->base + offset + done) != WEIR_OK)
            weir__log(WEIR__LOG_ERROR, "host pool: a chunk could not be unregistered: %s", weir_last_error()->message);
}

/* Gives the pages back and forbids access again. */
static void unmap(const struct weir__slabs *slabs, size_t offset, size_t bytes) {
    void *at =
        mmap(slabs->base + offset, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) (void)madvise(slabs->base + offset, bytes, MADV_DONTNEED);
}

static enum weir_status map(const struct weir__slabs *slabs, struct weir__growth *growth) {
    char *at = slabs->base + growth->offset;
    if (mprotect(at, growth->bytes, PROT_READ | PROT_WRITE) != 0) return system_error("mprotect", growth->bytes);
    (void)madvise(at, growth->bytes, MADV_HUGEPAGE); /* a wish: faster to touch and to pin */
    (void)madvise(at, growth->bytes, MADV_DONTFORK); /* a child must not share pages that a device writes to */
    if (growth->bound) {
        int error = weir__numa_bind(at, growth->bytes, slabs->node);
        if (error != 0) {
            growth->bound = false;
            weir__log(WEIR__LOG_WARN, "host pool: binding to NUMA node %d was refused (%s); it goes on unbound",
                      slabs->node, strerror(error));
        }
    }
    return WEIR_OK;
}

static enum weir_status touch(const struct weir__slabs *slabs, struct weir__growth *growth) {
    char *at = slabs->base + growth->offset;
    int error = weir__prefault(at, growth->bytes, growth->bound ? slabs->node : -1);
    if (error != 0) {
        errno = error;
        return system_error("madvise", growth->bytes);
    }
    if (growth->bound && weir__numa_strays(at, growth->bytes, slabs->node) > 0) {
        growth->bound = false;
        weir__log(WEIR__LOG_WARN, "host pool: pages bound to NUMA node %d are on other nodes", slabs->node);
    }
    return WEIR_OK;
}

static enum weir_status pin(const struct weir__slabs *slabs, struct weir__growth *growth) {
    size_t done = 0;
    while (done < growth->bytes) {
        size_t bytes = chunk_size(slabs, growth->bytes - done);
        growth->register_calls++;
        if (weir_host_register(slabs->device, slabs->base + growth->offset + done, bytes) != WEIR_OK) {
            struct weir_error error = *weir_last_error();
            growth->register_failures++;
            unregister(slabs, growth->offset, done);
            return weir__fail(error.status, error.driver_code, error.call,
                              "host pool: pinning bytes %zu to %zu of a slab of %zu bytes failed (%zu of the budget of "
                              "%zu bytes are pinned): %.120s",
                              done, done + bytes, growth->bytes, slabs->taken_bytes, slabs->budget_bytes,
                              error.message);
        }
        done += bytes;
    }
    return WEIR_OK;
}

bool weir__slabs_reserve(struct weir__slabs *slabs, size_t bytes) {
    size_t wanted = slabs->end_count + (bytes + slabs->chunk_bytes - 1) / slabs->chunk_bytes;
    if (wanted <= slabs->end_room) return true;
    size_t room = 2 * wanted;
    size_t *ends = realloc(slabs->ends, room * sizeof *ends);
    if (ends == NULL) return false;
    slabs->ends = ends;
    slabs->end_room = room;
    return true;
}

enum weir_status weir__slabs_prepare(const struct weir__slabs *slabs, size_t bytes, struct weir__growth *growth) {
    assert(bytes > 0 && bytes <= slabs->budget_bytes - slabs->taken_bytes);
    *growth = (struct weir__growth){.offset = slabs->taken_bytes, .bytes = bytes, .bound = slabs->bound};
    size_t available = weir__memory_available("");
    if (bytes > available) { /* touching it would bring the kernel's OOM killer, not an error */
        return weir__fail(
            WEIR_OUT_OF_HOST_MEMORY, 0, NULL,
            "host pool: a slab of %zu bytes does not fit in the %zu bytes that the machine and the cgroup "
            "have available",
            bytes, available);
    }
    enum weir_status status = map(slabs, growth);
    if (status == WEIR_OK) status = touch(slabs, growth);
    if (status == WEIR_OK) status = pin(slabs, growth);
    if (status != WEIR_OK) unmap(slabs, growth->offset, bytes);
    return status;
}

void weir__slabs_commit(struct weir__slabs *slabs, const struct weir__growth *growth) {
    assert(growth->offset == slabs->taken_bytes);
    for (size_t done = 0; done < growth->bytes;) {
        done += chunk_size(slabs, growth->bytes - done);
        assert(slabs->end_count < slabs->end_room);
        slabs->ends[slabs->end_count++] = growth->offset + done;
    }
    slabs->taken_bytes += growth->bytes;
    slabs->bound = slabs->bound && growth->bound;
    slabs->slabs++;
}

size_t weir__slabs_span(const struct weir__slabs *slabs, size_t offset) {
    assert(offset < slabs->taken_bytes);
    size_t low = 0;
    size_t high = slabs->end_count - 1;
    while (low < high) { /* the first end past the offset */
        size_t middle = low + (high - low) / 2;
        if (slabs->ends[middle] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return slabs->ends[low] - offset;
}

void weir__slabs_destroy(struct weir__slabs *slabs) {
    size_t begin = 0;
    for (size_t i = 0; i < slabs->end_count; i++) {
        unregister(slabs, begin, slabs->ends[i] - begin);
        begin = slabs->ends[i];
    }
    if (munmap(slabs->mapping, slabs->mapping_bytes) != 0)
        weir__log(WEIR__LOG_ERROR, "host pool: munmap failed: %s", strerror(errno));
    free(slabs->ends);
    *slabs = (struct weir__slabs){0};
}
