/* SPDX-License-Identifier: Apache-2.0 */
/* The ladder: which step serves a request. Steps are tried in the order of the policy; the first that can does. */
#include <assert.h>

#include "alloc/pool.h"

#define PROBES 8 /* extents of one index tried for a request, from the best fit on */

struct asker {
    const struct weir__order *order;
    uint32_t slot;
};

static bool usable_if_ordered(const void *context, const struct weir__extent *extent) {
    const struct asker *asker = context;
    return weir__order_extent_is_ordered(asker->order, asker->slot, extent);
}

static bool usable_if_complete(const void *context, const struct weir__extent *extent) {
    const struct asker *asker = context;
    return weir__order_extent_is_complete(asker->order, extent) || weir__mutated(WEIR__SITE_PAGE_MOVE);
}

static bool usable_always(const void *context, const struct weir__extent *extent) {
    (void)context;
    (void)extent;
    return true;
}

/* ---- idle extents that fit as they are -------------------------------------------------------------------------- */

static struct weir__extent *best_ordered_of(const struct weir_pool *pool, const struct weir__request *request,
                                            uint32_t home) {
    const struct weir__index *index = &pool->order.slots[home]->idle[0];
    struct weir__extent *extent = weir__index_at_least(index, request->bytes, 0);
    for (int i = 0; extent != NULL && i < PROBES; i++, extent = weir__index_after(index, extent))
        if (weir__order_extent_is_ordered(&pool->order, request->slot, extent)) return extent;
    return NULL;
}

/* Among equals the lower address, never the lower slot, counts: which number a stream has says nothing of it. */
static bool smaller(const struct weir__extent *a, const struct weir__extent *b) {
    return b == NULL || a->bytes < b->bytes || (a->bytes == b->bytes && a->address < b->address);
}

static struct weir__extent *best_ordered(const struct weir_pool *pool, const struct weir__request *request) {
    struct weir__extent *best = best_ordered_of(pool, request, request->slot);
    if (best != NULL && best->bytes == request->bytes) return best;
    for (uint32_t home = 0; home < pool->order.count; home++) {
        if (home == request->slot || pool->order.slots[home]->idle[0].root == NULL) continue;
        struct weir__extent *extent = best_ordered_of(pool, request, home);
        if (extent != NULL && smaller(extent, best)) best = extent;
    }
    return best;
}

static bool take_ordered(struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice) {
    choice->idle = best_ordered(pool, request);
    choice->step = WEIR__TAKE;
    return choice->idle != NULL;
}

static bool take_complete(struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice) {
    return (weir__order_poll(&pool->order) && take_ordered(pool, request, choice)) ||
           (weir__order_poll_streams(&pool->order) && take_ordered(pool, request, choice));
}

/* Of the best fits that other streams have, the one that has been idle the longest: its mark is likely to have passed
 * by the time the asking stream gets there. */
static bool wait_on_device(struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice) {
    struct weir__extent *oldest = NULL;
    for (uint32_t home = 0; home < pool->order.count; home++) {
        struct weir__extent *extent = weir__index_at_least(&pool->order.slots[home]->idle[0], request->bytes, 0);
        if (extent != NULL && (oldest == NULL || extent->number < oldest->number)) oldest = extent;
    }
    if (oldest == NULL) return false;
    choice->step = WEIR__MAP;
    choice->window = (struct weir__window){
        .first = oldest, .begin = weir__place_within(oldest, request->bytes, pool->granule), .bytes = request->bytes};
    return true;
}

/* ---- windows that lack pages ------------------------------------------------------------------------------------ */

#define MOST_MAP_REFUSALS 3 /* of one request; then it is served from what is mapped, or not at all */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Pages that the pool may still take from the driver, as far as is known. */
static size_t creatable_pages(const struct weir_pool *pool, const struct weir__request *request) {
    return least(weir__untaken_bytes(pool) / pool->granule, request->most_created);
}

/* Deals out what a window lacks: spare pages, then new ones; no more than the driver is known to map beside what is
 * mapped now, for a donor's page gives its mapping up. Gives: what is still missing. */
static size_t deal_out(const struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice) {
    size_t lacking = choice->window.lacking, most = least(lacking, request->most_mapped);
    choice->spare = least(most, pool->pages.spare_count);
    choice->created = least(most - choice->spare, creatable_pages(pool, request));
    choice->step = WEIR__MAP;
    return lacking - choice->spare - choice->created;
}

static bool take_new_pages(struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice) {
    struct asker asker = {.order = &pool->order, .slot = request->slot};
    if (pool->pages.spare_count == 0 && creatable_pages(pool, request) == 0) return false;
    choice->window = weir__place_window(&pool->bare, request->bytes, pool->granule,
                                        (struct weir__usable){usable_if_ordered, &asker});
    return choice->window.first != NULL && deal_out(pool, request, choice) == 0 &&
           (choice->window.lacking == 0 || request->map_refusals < MOST_MAP_REFUSALS);
}

size_t weir__ladder_donors(const struct weir_pool *pool, size_t pages, const struct weir__window *window,
                           struct weir__donation *out, size_t room, size_t *found) {
    struct asker asker = {.order = &pool->order};
    const struct weir__index *indexes[pool->order.count];
    for (uint32_t i = 0; i < pool->order.count; i++) indexes[i] = &pool->order.slots[i]->idle[0];
    return weir__place_donors(indexes, pool->order.count, pool->granule, pages, window,
                              (struct weir__usable){usable_if_complete, &asker}, out, room, found);
}

struct weir__extent *weir__ladder_oldest_incomplete(const struct weir_pool *pool) {
    struct weir__extent *oldest = NULL;
    for (uint32_t home = 0; home < pool->order.count; home++) {
        const struct weir__index *index = &pool->order.slots[home]->idle[0];
        struct weir__extent *extent = weir__index_at_least(index, pool->granule, 0);
        for (; extent != NULL; extent = weir__index_after(index, extent))
            if ((oldest == NULL || extent->number < oldest->number) &&
                weir__extent_whole_pages(extent, pool->granule) > 0 &&
                !weir__order_extent_is_complete(&pool->order, extent))
                oldest = extent;
    }
    return oldest;
}

/* Pages of complete idle extents, else the host waits until more are complete. */
static bool move_pages(struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice) {
    choice->window =
        weir__place_window(&pool->bare, request->bytes, pool->granule, (struct weir__usable){usable_always, NULL});
    if (choice->window.first == NULL) return false;
    size_t missing = deal_out(pool, request, choice);
    if (choice->window.lacking > 0 && request->map_refusals == MOST_MAP_REFUSALS) return false;
    if (missing == 0) return true;
    if (pool->idle_pages < choice->window.idle_pages + missing) return false;
    size_t found = 0;
    weir__ladder_donors(pool, missing, &choice->window, NULL, 0, &found);
    if (found == missing) return true;
    choice->idle = weir__ladder_oldest_incomplete(pool);
    choice->step = WEIR__WAIT_HOST;
    return choice->idle != NULL;
}

/* ---- the ladder ------------------------------------------------------------------------------------------------- */

typedef bool step_fn(struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice);
#define DRIVERLESS_STEPS 1

static step_fn *const latency_steps[] = {take_ordered, take_complete, take_new_pages, wait_on_device, move_pages, NULL};
static step_fn *const footprint_steps[] = {take_ordered,   take_complete, wait_on_device,
                                           take_new_pages, move_pages,    NULL};

struct weir__choice weir__ladder_next(struct weir_pool *pool, const struct weir__request *request) {
    struct weir__choice choice = {0};
    step_fn *const *steps = pool->policy->name == WEIR_POLICY_FOOTPRINT ? footprint_steps : latency_steps;
    for (int i = 0; steps[i] != NULL; i++) {
        if (request->host_function && i == DRIVERLESS_STEPS) return (struct weir__choice){.step = WEIR__NO_DRIVER};
        choice = (struct weir__choice){0};
        if (steps[i](pool, request, &choice)) return choice;
    }
    return (struct weir__choice){.step = WEIR__GIVE_UP};
}
