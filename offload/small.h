/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocks: a private jemalloc arena whose extents are pieces of the host pool's runs.
 *
 * jemalloc rounds a size up to one of four classes a doubling: little for small blocks, up to a quarter of a large one
 * (33 MiB take 40). So it serves what is at most WEIR__SMALL_MAX; larger blocks are cut from the runs exactly. Its
 * metadata lies in ordinary memory, its extents go back to the runs as soon as they are empty (decay 0, no retention),
 * and pages are never purged or decommitted: they are pinned.
 *
 * Threads: the owner's lock is held in every call; the hooks run inside these calls, under it, and never grow a slab. */
#ifndef WEIR_OFFLOAD_SMALL_H
#define WEIR_OFFLOAD_SMALL_H

#include <stdbool.h>
#include <stddef.h>

#include "offload/runs.h"
#include "weir/status.h"

enum { WEIR__SMALL_MAX = 8 << 10 };

struct weir__small;

/* `runs` gives offsets from `base`. Fails: WEIR_SYSTEM when jemalloc is unusable here (as on a kernel with larger pages
 * than it was built for). */
enum weir_status weir__small_create(struct weir__runs *runs, char *base, struct weir__small **out);
/* Frees what is live, too. */
void weir__small_destroy(struct weir__small *small);
/* NULL when the runs have no room for another extent. */
void *weir__small_alloc(struct weir__small *small, size_t bytes, size_t alignment);
void weir__small_free(struct weir__small *small, void *address);

#endif
