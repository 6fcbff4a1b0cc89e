/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/small.h"

#include <jemalloc/jemalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"

/* The private copy's entries: cmake/private_jemalloc.sh puts the prefix before every name that the archive defines. */
void *weir__je_mallocx(size_t bytes, int flags);
void weir__je_dallocx(void *address, int flags);
int weir__je_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);

/* Read by jemalloc when it starts; of its sources of options this one is the last, so that the MALLOC_CONF which a
 * program sets for a jemalloc of its own changes nothing here. */
extern const char *weir__je_malloc_conf_2_conf_harder;
const char *weir__je_malloc_conf_2_conf_harder =
    "abort:false,abort_conf:false,background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1,retain:false,"
    "tcache:false,thp:default";

struct weir__small {
    extent_hooks_t hooks; /* first: the hooks find the rest behind it */
    struct weir__runs *runs;
    char *base;
    unsigned arena;
};

static struct weir__small *of(extent_hooks_t *hooks) { return (struct weir__small *)(void *)hooks; }

/* A hook answers true for "no". */

static void *hook_alloc(extent_hooks_t *hooks, void *wanted, size_t bytes, size_t alignment, bool *zero, bool *commit,
                        unsigned arena) {
    (void)arena;
    struct weir__small *small = of(hooks);
    size_t offset;
    if (wanted != NULL || !weir__runs_take(small->runs, bytes, alignment, &offset)) return NULL;
    if (*zero) memset(small->base + offset, 0, bytes);
    *commit = true;
    return small->base + offset;
}

static bool hook_dalloc(extent_hooks_t *hooks, void *address, size_t bytes, bool committed, unsigned arena) {
    (void)committed, (void)arena;
    struct weir__small *small = of(hooks);
    weir__runs_give(small->runs, (size_t)((char *)address - small->base), bytes);
    return false;
}

static void hook_destroy(extent_hooks_t *hooks, void *address, size_t bytes, bool committed, unsigned arena) {
    (void)hook_dalloc(hooks, address, bytes, committed, arena);
}

static bool hook_commit(extent_hooks_t *hooks, void *address, size_t bytes, size_t offset, size_t length,
                        unsigned arena) {
    (void)hooks, (void)address, (void)bytes, (void)offset, (void)length, (void)arena;
    return false;
}

static bool hook_refuse(extent_hooks_t *hooks, void *address, size_t bytes, size_t offset, size_t length,
                        unsigned arena) {
    (void)hooks, (void)address, (void)bytes, (void)offset, (void)length, (void)arena;
    return true;
}

static bool hook_split(extent_hooks_t *hooks, void *address, size_t bytes, size_t first, size_t second, bool committed,
                       unsigned arena) {
    (void)address, (void)bytes, (void)first, (void)second, (void)committed, (void)arena;
    return !weir__runs_split(of(hooks)->runs);
}

/* Extents that touch may always merge: the pool's memory is one range of addresses. */
static bool hook_merge(extent_hooks_t *hooks, void *a, size_t a_bytes, void *b, size_t b_bytes, bool committed,
                       unsigned arena) {
    (void)a, (void)a_bytes, (void)b, (void)b_bytes, (void)committed, (void)arena;
    weir__runs_merge(of(hooks)->runs);
    return false;
}

/* The arena is made first and gets its hooks then: so its own metadata stays in ordinary memory. */
static int create_arena(struct weir__small *small) {
    char name[64];
    size_t size = sizeof small->arena;
    int error = weir__je_mallctl("arenas.create", &small->arena, &size, NULL, 0);
    if (error != 0) return error;
    extent_hooks_t *hooks = &small->hooks;
    snprintf(name, sizeof name, "arena.%u.extent_hooks", small->arena);
    return weir__je_mallctl(name, NULL, NULL, (void *)&hooks, sizeof hooks);
}

enum weir_status weir__small_create(struct weir__runs *runs, char *base, struct weir__small **out) {
    *out = NULL;
    struct weir__small *small = calloc(1, sizeof *small);
    if (small == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "host pool: no memory for its arena");
    small->runs = runs;
    small->base = base;
    small->hooks = (extent_hooks_t){
        .alloc = hook_alloc,
        .dalloc = hook_dalloc,
        .destroy = hook_destroy,
        .commit = hook_commit,
        .decommit = hook_refuse,
        .purge_lazy = hook_refuse,
        .purge_forced = hook_refuse,
        .split = hook_split,
        .merge = hook_merge,
    };
    int error = create_arena(small);
    if (error != 0) {
        free(small);
        return weir__fail(WEIR_SYSTEM, 0, "mallctl", "host pool: the jemalloc arena can't be made: %s",
                          strerror(error));
    }
    *out = small;
    return WEIR_OK;
}

void weir__small_destroy(struct weir__small *small) {
    char name[64];
    snprintf(name, sizeof name, "arena.%u.destroy", small->arena);
    int error = weir__je_mallctl(name, NULL, NULL, NULL, 0);
    if (error != 0) {
        weir__log(WEIR__LOG_ERROR, "host pool: the jemalloc arena can't be destroyed: %s", strerror(error));
        return; /* it still refers to the hooks */
    }
    free(small);
}

static int flags(const struct weir__small *small) { return (int)MALLOCX_ARENA(small->arena) | MALLOCX_TCACHE_NONE; }

void *weir__small_alloc(struct weir__small *small, size_t bytes, size_t alignment) {
    return weir__je_mallocx(bytes, flags(small) | MALLOCX_ALIGN(alignment));
}

void weir__small_free(struct weir__small *small, void *address) { weir__je_dallocx(address, flags(small)); }
