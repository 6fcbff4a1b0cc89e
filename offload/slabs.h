/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: where the host pool's memory comes from. One address range of the whole budget is reserved at the start and made
 * real from its low end upwards, a slab at a time: mapped, bound to the NUMA node, touched by several threads at once,
 * registered with the driver. One range means that a block may lie across slabs, so that no slab's end is lost.
 *
 * slab:  what one growth adds.
 * chunk: one registration, at most chunk_bytes long. A copy must not cross from one chunk into the next; see
 *        weir__slabs_span.
 *
 *   taken_bytes <= budget_bytes; [0, taken_bytes) of the range is mapped, and all of it is registered
 *   ends[] is sorted, and its last entry is taken_bytes
 *
 * A growth that fails leaves nothing behind: its chunks are unregistered and its pages given back.
 *
 * Threads: reserve, prepare and commit of a growth are one thread's, one growth at a time. weir__slabs_prepare makes the
 * driver calls and changes nothing that readers use, so the owner holds its lock for all but this one. */
#ifndef WEIR_OFFLOAD_SLABS_H
#define WEIR_OFFLOAD_SLABS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/device.h"

struct weir__slabs {
    struct weir_device *device;
    char *base;
    size_t budget_bytes;
    size_t chunk_bytes;
    int node; /* -1: unbound */
    bool bound;
    size_t taken_bytes;
    size_t *ends; /* of the registrations, as offsets */
    size_t end_count, end_room;
    uint64_t slabs, register_calls, register_failures;
    void *mapping;
    size_t mapping_bytes;
};

enum {
    WEIR__SLABS_CHUNK_MAX = 1 << 30
}; /* one call of 512 GiB fails on current drivers, and each holds a driver lock */

/* Reserves the range. `node` is what weir__numa_choose gave. Fails: WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status weir__slabs_init(struct weir__slabs *slabs, struct weir_device *device, size_t budget_bytes,
                                  size_t chunk_bytes, int node);

/* What one growth did, for the owner to commit under its lock. */
struct weir__growth {
    size_t offset, bytes;
    bool bound;
    uint64_t register_calls, register_failures;
};

/* Makes sure that a growth by `bytes` can be committed. False without memory. */
bool weir__slabs_reserve(struct weir__slabs *slabs, size_t bytes);
/* Makes [taken_bytes, taken_bytes + bytes) usable; bytes is a multiple of the system's page and within the budget.
 * Fails: WEIR_OUT_OF_HOST_MEMORY (the machine or the cgroup has not that much left), WEIR_DRIVER (a registration; the
 * message says which chunk). Nothing is left behind; growth->register_* say what was tried. */
enum weir_status weir__slabs_prepare(const struct weir__slabs *slabs, size_t bytes, struct weir__growth *growth);
/* Makes a prepared growth part of the range. */
void weir__slabs_commit(struct weir__slabs *slabs, const struct weir__growth *growth);

/* How many bytes from `offset` on lie in the same registration. */
size_t weir__slabs_span(const struct weir__slabs *slabs, size_t offset);

/* Unregisters every chunk and unmaps the range. */
void weir__slabs_destroy(struct weir__slabs *slabs);

#endif
