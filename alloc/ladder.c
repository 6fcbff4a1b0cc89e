/* SPDX-License-Identifier: Apache-2.0 */
/* The ladder: which step serves a request. Steps are tried in the order of the policy; the first that can does. */
#include <assert.h>

#include "alloc/pool.h"

#define PROBES       8   /* extents of one index tried for a request, from the best fit on */
#define RECENT_FREES 60u /* freed, or begun, so shortly before it may well hold the asking stream back */

static bool usable_if_ordered(const void *context, const struct weir__extent *extent) {
    const struct weir__asker *asker = context;
    return weir__order_extent_is_ordered(asker->order, asker->slot, extent);
}

static bool usable_if_likely(const void *context, const struct weir__extent *extent) {
    const struct weir__asker *asker = context;
    return weir__order_extent_is_likely(asker->order, asker->slot, extent) &&
           weir__order_extent_can_be_waited_for(asker->order, extent);
}

static bool usable_if_ripe(const void *context, const struct weir__extent *extent) {
    const struct weir__asker *asker = context;
    return weir__order_extent_is_ripe(asker->order, asker->slot, extent, RECENT_FREES) &&
           weir__order_extent_can_be_waited_for(asker->order, extent);
}

static bool usable_if_complete(const void *context, const struct weir__extent *extent) {
    const struct weir__asker *asker = context;
    return weir__order_extent_is_complete(asker->order, extent);
}

/* Unmapping is a call of the host, which waits for no stream. */
static bool can_unmap(const void *context, const struct weir__extent *stale) {
    const struct weir__asker *asker = context;
    return weir__order_extent_is_complete(asker->order, stale) || weir__mutated(WEIR__SITE_PAGE_MOVE);
}

static bool usable_after_a_wait(const void *context, const struct weir__extent *extent) {
    const struct weir__asker *asker = context;
    return weir__order_extent_can_be_waited_for(asker->order, extent);
}

static struct weir__usable usable_of(const struct weir__asker *asker, enum weir__use use) {
    static bool (*const kinds[])(const void *, const struct weir__extent *) = {
        usable_if_complete, usable_if_ordered, usable_if_likely, usable_if_ripe, usable_after_a_wait};
    return (struct weir__usable){kinds[use], asker};
}

/* ---- idle extents that fit as they are -------------------------------------------------------------------------- */

static bool fits(const struct weir_pool *pool, const struct weir__request *request, const struct weir__extent *extent) {
    return request->alignment <= WEIR__ALIGNMENT ||
           weir__place_within(extent, request->bytes, request->alignment, pool->granule) != 0;
}

static struct weir__extent *best_of(const struct weir_pool *pool, const struct weir__request *request, uint32_t home,
                                    struct weir__usable usable) {
    const struct weir__index *index = &pool->order.slots[home]->idle[0];
    struct weir__extent *extent = weir__index_at_least(index, request->bytes, 0);
    for (int i = 0; extent != NULL && i < PROBES; i++, extent = weir__index_after(index, extent))
        if (fits(pool, request, extent) && usable.usable(usable.context, extent)) return extent;
    return NULL;
}

/* Among equals the lower address, never the lower slot, counts: which number a stream has says nothing of it. */
static bool smaller(const struct weir__extent *a, const struct weir__extent *b) {
    return b == NULL || a->bytes < b->bytes || (a->bytes == b->bytes && a->address < b->address);
}

static struct weir__extent *best(const struct weir_pool *pool, const struct weir__request *request,
                                 enum weir__use use) {
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    struct weir__extent *best = best_of(pool, request, request->slot, usable_of(&asker, use));
    if (best != NULL && best->bytes == request->bytes) return best;
    for (uint32_t home = 0; home < pool->order.count; home++) {
        if (home == request->slot || pool->order.slots[home]->idle[0].root == NULL) continue;
        struct weir__extent *extent = best_of(pool, request, home, usable_of(&asker, use));
        if (extent != NULL && smaller(extent, best)) best = extent;
    }
    return best;
}

struct look;

static bool take_ordered(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                         struct weir__choice *choice) {
    (void)seen;
    choice->idle = best(pool, request, WEIR__USE_ORDERED);
    if (choice->idle == NULL) return false;
    choice->step = WEIR__TAKE;
    choice->window.begin = weir__place_within(choice->idle, request->bytes, request->alignment, pool->granule);
    return true;
}

/* What fronts keep may be what fits, or become it with its neighbours. */
static bool take_drained(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                         struct weir__choice *choice) {
    return weir__fronts_drain(pool) && take_ordered(pool, request, seen, choice);
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

struct weir__ground weir__ladder_ground(struct weir_pool *pool, const struct weir__asker *asker, enum weir__use use) {
    return (struct weir__ground){.first = pool->first,
                                 .granule = pool->granule,
                                 .pages = &pool->pages,
                                 .seen = pool->seen,
                                 .round = &pool->round,
                                 .keeps = pool->plan.repeats,
                                 .usable = usable_of(asker, use),
                                 .can_unmap = can_unmap};
}

enum reach { WITHOUT_CALLS, LITTLE_WORK, ANY_WORK }; /* how much a window may take */

/* What has been looked at for one request since the pool last changed. */
struct look {
    bool known[WEIR__USES][3]; /* by use and reach */
    struct weir__window window[WEIR__USES][3];
};

#define WORTH_NS 4e6  /* so much mapping a device's wait for what was used just before is worth */
#define PAGE_NS  40e3 /* of a page, where time must not count, or nothing is known yet */

static size_t most_cost(const struct weir_pool *pool, const struct weir__ground *ground, size_t bytes,
                        enum reach reach) {
    const double page_ns = pool->deterministic || pool->page_ns == 0 ? PAGE_NS : pool->page_ns;
    switch (reach) {
    case WITHOUT_CALLS:
        return weir__cost_of_returning(ground, bytes);
    case LITTLE_WORK:
        return (size_t)(WORTH_NS / page_ns * WEIR__COST_OF_MAPPING);
    case ANY_WORK:
        break;
    }
    return SIZE_MAX;
}

/* False when what may be used is too little for a window without driver calls. Pages across two idle extents are in doubt. */
static bool may_suffice(const struct weir_pool *pool, const struct weir__request *request,
                        const struct weir__ground *ground) {
    size_t pages = pool->idle_pages + pool->fixed_pages + 2;
    for (const struct weir__extent *extent = pool->incomplete.oldest; extent != NULL; extent = extent->newer)
        if (ground->usable.usable(ground->usable.context, extent))
            pages++;
        else
            pages -= weir__extent_whole_pages(extent, pool->granule);
    return pages * pool->granule >= request->bytes;
}

static const struct weir__window *look(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                                       enum weir__use use, enum reach reach) {
    struct weir__window *window = &seen->window[use][reach];
    if (seen->known[use][reach]) return window;
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    const struct weir__ground ground = weir__ladder_ground(pool, &asker, use);
    seen->known[use][reach] = true;
    if (reach == WITHOUT_CALLS && !may_suffice(pool, request, &ground)) return window;
    *window = weir__place_window(&ground, request->bytes, request->alignment,
                                 most_cost(pool, &ground, request->bytes, reach));
    return window;
}

/* A window that needs no driver call: what it lacks are pages that come back. */
static bool return_pages(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                         enum weir__use use, struct weir__choice *choice) {
    choice->use = use;
    choice->window = *look(pool, request, seen, use, WITHOUT_CALLS);
    choice->step = WEIR__MAP;
    return choice->window.first != NULL && choice->window.lacking == 0;
}

static bool return_ordered(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                           struct weir__choice *choice) {
    return return_pages(pool, request, seen, WEIR__USE_ORDERED, choice);
}

/* All of an extent's addresses that the request needs, behind a wait on the device. */
static void wait_for(const struct weir_pool *pool, const struct weir__request *request, struct weir__extent *extent,
                     struct weir__choice *choice) {
    choice->step = WEIR__MAP;
    choice->window =
        (struct weir__window){.first = extent,
                              .begin = weir__place_within(extent, request->bytes, request->alignment, pool->granule),
                              .bytes = request->bytes};
}

/* What the program has ordered before the stream itself. */
static bool take_likely(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                        struct weir__choice *choice) {
    if (pool->order.heard.events.count == 0) return false;
    struct weir__extent *extent = best(pool, request, WEIR__USE_LIKELY);
    if (extent == NULL) return return_pages(pool, request, seen, WEIR__USE_LIKELY, choice);
    choice->use = WEIR__USE_LIKELY;
    wait_for(pool, request, extent, choice);
    return true;
}

static bool take_again(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                       struct weir__choice *choice) {
    *seen = (struct look){0};
    weir__settle_complete(pool);
    return take_ordered(pool, request, seen, choice) || return_ordered(pool, request, seen, choice);
}

static bool take_complete(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                          struct weir__choice *choice) {
    return (weir__order_poll(&pool->order) && take_again(pool, request, seen, choice)) ||
           (weir__order_poll_streams(&pool->order) && take_again(pool, request, seen, choice));
}

/* ---- where the pass before went --------------------------------------------------------------------------------- */

static bool take_again_at(struct weir_pool *pool, const struct weir__request *request, uintptr_t begin,
                          enum weir__use use, struct weir__choice *choice) {
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    const struct weir__ground ground = weir__ladder_ground(pool, &asker, use);
    const struct weir__window window = weir__place_again(&ground, begin, request->bytes);
    if (window.first == NULL) return false;
    const bool inside = window.first->state == WEIR__IDLE && weir__extent_end(window.first) >= begin + request->bytes;
    choice->step = inside && use == WEIR__USE_ORDERED ? WEIR__TAKE : WEIR__MAP;
    choice->idle = window.first;
    choice->window = window;
    choice->use = use;
    return true;
}

static bool go_again(struct weir_pool *pool, const struct weir__request *request, uintptr_t begin,
                     struct weir__choice *choice) {
    if (begin == 0 || begin % request->alignment != 0) return false;
    if (take_again_at(pool, request, begin, WEIR__USE_ORDERED, choice)) return true;
    if (weir__order_poll(&pool->order)) {
        weir__settle_complete(pool);
        if (take_again_at(pool, request, begin, WEIR__USE_ORDERED, choice)) return true;
    }
    return request->slot != pool->order.any && take_again_at(pool, request, begin, WEIR__USE_ANY, choice);
}

/* What the pass before did, if it takes no memory call; another place would be in the way of those that are planned. */
static bool as_before(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                      struct weir__choice *choice) {
    (void)seen;
    const struct weir__planned *planned = weir__plan_next(&pool->plan, request->bytes, request->slot);
    if (planned == NULL || request->host_function) return false;
    return go_again(pool, request, weir__plan_address(&pool->plan, planned, 0), choice) ||
           go_again(pool, request, weir__plan_address(&pool->plan, planned, 1), choice);
}

/* ---- windows that lack pages ------------------------------------------------------------------------------------ */

#define MOST_MAP_REFUSALS 3 /* of one request; then it is served from what is mapped, or not at all */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Pages that the pool may still take from the driver, as far as is known. */
static size_t creatable_pages(const struct weir_pool *pool, const struct weir__request *request) {
    return least(weir__untaken_bytes(pool) / pool->granule, request->most_created);
}

/* Places that may be mapped without taking a mapping from a donor, as far as is known. */
static size_t mappable_places(const struct weir_pool *pool, const struct weir__request *request) {
    if (request->most_mapped == SIZE_MAX) return SIZE_MAX;
    const size_t homes = pool->pages.held - pool->pages.spare_count;
    return request->most_mapped > homes ? request->most_mapped - homes : 0;
}

/* Deals out what a window lacks: spare pages, then new ones. Gives: what is still missing. */
static size_t deal_out(const struct weir_pool *pool, const struct weir__request *request, struct weir__choice *choice) {
    size_t lacking = choice->window.lacking, most = least(lacking, mappable_places(pool, request));
    choice->spare = least(most, pool->pages.spare_count);
    choice->created = least(most - choice->spare, creatable_pages(pool, request));
    choice->step = WEIR__MAP;
    return lacking - choice->spare - choice->created;
}

static bool take_new_pages(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                           struct weir__choice *choice) {
    if (pool->pages.spare_count == 0 && creatable_pages(pool, request) == 0) return false;
    choice->use = WEIR__USE_ORDERED;
    choice->window = *look(pool, request, seen, choice->use, ANY_WORK);
    return choice->window.first != NULL && deal_out(pool, request, choice) == 0 &&
           (choice->window.lacking == 0 || request->map_refusals < MOST_MAP_REFUSALS);
}

size_t weir__ladder_donors(const struct weir_pool *pool, const struct weir__asker *asker, enum weir__use use,
                           size_t pages, struct weir__donation *out, size_t room, size_t *found) {
    const struct weir__index *indexes[pool->order.count];
    for (uint32_t i = 0; i < pool->order.count; i++) indexes[i] = &pool->order.slots[i]->idle[0];
    return weir__place_donors(indexes, pool->order.count, pool->granule, pages, usable_of(asker, use), out, room,
                              found);
}

struct weir__extent *weir__ladder_oldest_incomplete(const struct weir_pool *pool) {
    struct weir__extent *extent = pool->incomplete.oldest;
    while (extent != NULL && (weir__order_extent_is_complete(&pool->order, extent) ||
                              !weir__order_extent_can_be_waited_for(&pool->order, extent)))
        extent = extent->newer;
    return extent;
}

/* Whole pages that would be idle if everything pending were complete, so that all idle neighbours were one. */
static size_t idle_pages_in_the_end(const struct weir_pool *pool) {
    size_t pages = 0;
    for (const struct weir__extent *extent = pool->first; extent != NULL; extent = extent->next) {
        if (extent->state != WEIR__IDLE) continue;
        const uintptr_t begin = extent->address;
        while (extent->next != NULL && extent->next->state == WEIR__IDLE) extent = extent->next;
        pages += weir__whole_pages(begin, weir__extent_end(extent), pool->granule);
    }
    return pages;
}

static bool wait_on_host(struct weir__extent *extent, struct weir__choice *choice) {
    choice->idle = extent;
    choice->step = WEIR__WAIT_HOST;
    return extent != NULL;
}

/* ---- what other streams have ------------------------------------------------------------------------------------ */

/* Of the best fits that other streams have, the one that has been idle the longest: its mark is likely to have passed
 * by the time the asking stream gets there. */
static struct weir__extent *oldest_fit(const struct weir_pool *pool, const struct weir__request *request) {
    struct weir__extent *oldest = NULL;
    for (uint32_t home = 0; home < pool->order.count; home++) {
        const struct weir__index *index = &pool->order.slots[home]->idle[0];
        struct weir__extent *extent = weir__index_at_least(index, request->bytes, 0);
        for (int i = 0; extent != NULL && i < PROBES; i++, extent = weir__index_after(index, extent))
            if ((oldest == NULL || extent->number < oldest->number) && fits(pool, request, extent) &&
                weir__order_extent_can_be_waited_for(&pool->order, extent))
                oldest = extent;
    }
    return oldest;
}

/* Pages that the stream may have without being held back for long, where that is little work. */
static bool move_little(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                        enum weir__use use, struct weir__choice *choice) {
    const struct weir__window *window = look(pool, request, seen, use, LITTLE_WORK);
    if (window->first == NULL || request->map_refusals > 0 || (window->lacking > 0 && !pool->movable)) return false;
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    const size_t needed = window->lacking + window->returned + window->idle_pages;
    size_t found = 0;
    weir__ladder_donors(pool, &asker, use, needed, NULL, 0, &found);
    choice->step = WEIR__MAP;
    choice->use = use;
    choice->window = *window;
    return found == needed;
}

static bool wait_on_device(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                           struct weir__choice *choice) {
    struct weir__extent *oldest = oldest_fit(pool, request);
    if (oldest == NULL) return return_pages(pool, request, seen, WEIR__USE_ANY, choice);
    const bool recent = pool->frees_stamped - oldest->number < RECENT_FREES;
    if (recent && move_little(pool, request, seen, WEIR__USE_LIKELY, choice)) return true;
    struct weir__extent *ripe = best(pool, request, WEIR__USE_RIPE);
    if (ripe == NULL && recent && move_little(pool, request, seen, WEIR__USE_RIPE, choice)) return true;
    choice->use = ripe != NULL ? WEIR__USE_RIPE : WEIR__USE_ANY;
    wait_for(pool, request, ripe != NULL ? ripe : oldest, choice);
    return true;
}

/* Whole idle pages that the stream may have, if need be by a wait, up to `most`. */
static size_t idle_pages_after_a_wait(const struct weir_pool *pool, const struct weir__request *request, size_t most) {
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    size_t found = 0;
    if (!weir__captures_any()) return pool->idle_pages;
    weir__ladder_donors(pool, &asker, WEIR__USE_ANY, most, NULL, 0, &found);
    return found;
}

/* Pages of idle extents, wherever they are. */
static bool move_pages(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                       struct weir__choice *choice) {
    choice->use = WEIR__USE_ANY;
    choice->window = *look(pool, request, seen, choice->use, ANY_WORK);
    if (choice->window.first == NULL) return wait_on_host(weir__ladder_oldest_incomplete(pool), choice);
    size_t missing = deal_out(pool, request, choice);
    if (choice->window.lacking > 0 && request->map_refusals >= MOST_MAP_REFUSALS) return false;
    const size_t needed = choice->window.idle_pages + choice->window.returned + missing;
    if (missing == 0 || (pool->movable && idle_pages_after_a_wait(pool, request, needed) >= needed)) return true;
    if (!pool->movable) return false;
    return idle_pages_in_the_end(pool) >= needed && wait_on_host(weir__ladder_oldest_incomplete(pool), choice);
}

struct weir__choice weir__ladder_behind(struct weir_pool *pool, const struct weir__request *request,
                                        const struct weir__extent *block) {
    const struct weir__choice none = {.step = WEIR__GIVE_UP};
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    const struct weir__ground ground = weir__ladder_ground(pool, &asker, WEIR__USE_ANY);
    struct weir__choice choice = {.use = WEIR__USE_ANY, .window = weir__place_at(&ground, block->next, request->bytes)};
    if (choice.window.first == NULL) return none;
    const size_t missing = deal_out(pool, request, &choice);
    const size_t needed = choice.window.idle_pages + choice.window.returned + missing;
    const bool movable = pool->movable && idle_pages_after_a_wait(pool, request, needed) >= needed;
    return missing == 0 || movable ? choice : none;
}

/* ---- requests that name no stream: none can wait on the device, so what they get is complete --------------------- */

/* The driver's plain free waits for the device, so a host that frees without a stream never gets far ahead of it. Here it may: by as
 * much as is live, and what a mark is made for. Beyond that it waits, or each request would take new pages until none are left. */
static bool wait_for_unnamed(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                             struct weir__choice *choice) {
    const struct weir__slot *unnamed = pool->order.slots[pool->order.any];
    (void)seen;
    const size_t ahead = pool->live_bytes + WEIR__MARK_GRANULES * pool->granule;
    if (unnamed->idle_bytes <= ahead || request->waited_in_vain) return false;
    struct weir__extent *extent = weir__index_at_least(&unnamed->idle[0], request->bytes, 0);
    choice->may_go_on = true;
    return extent != NULL && fits(pool, request, extent) &&
           weir__order_extent_can_be_waited_for(&pool->order, extent) && wait_on_host(extent, choice);
}

/* Pages of complete idle extents. */
static bool move_complete(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                          struct weir__choice *choice) {
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    choice->use = WEIR__USE_COMPLETE;
    choice->window = *look(pool, request, seen, choice->use, ANY_WORK);
    if (choice->window.first == NULL) return false;
    const size_t missing = deal_out(pool, request, choice);
    if (choice->window.lacking > 0 && request->map_refusals >= MOST_MAP_REFUSALS) return false;
    const size_t needed = choice->window.idle_pages + choice->window.returned + missing;
    size_t found = 0;
    if (missing > 0 && !pool->movable) return false;
    if (missing > 0) weir__ladder_donors(pool, &asker, choice->use, needed, NULL, 0, &found);
    return missing == 0 || found == needed;
}

/* For what a stream would get by waiting, the host waits. */
static bool wait_in_place(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                          struct weir__choice *choice) {
    struct weir__extent *fit = oldest_fit(pool, request);
    if (fit != NULL) return wait_on_host(fit, choice);
    return (return_pages(pool, request, seen, WEIR__USE_ANY, choice) || move_pages(pool, request, seen, choice)) &&
           wait_on_host(weir__ladder_oldest_incomplete(pool), choice);
}

/* ---- pages that must not move ----------------------------------------------------------------------------------- */

/* They may be given back, though, and new ones taken in their place: those that are complete, else the host waits. */
static bool give_pages_back(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                            struct weir__choice *choice) {
    const struct weir__asker asker = {.order = &pool->order, .slot = request->slot};
    if (pool->movable) return false;
    const struct weir__window *window = look(pool, request, seen, WEIR__USE_ANY, ANY_WORK);
    if (window->first == NULL) return false;
    choice->window = *window;
    size_t found = 0;
    const size_t missing = deal_out(pool, request, choice);
    weir__ladder_donors(pool, &asker, WEIR__USE_COMPLETE, missing, NULL, 0, &found);
    *choice = (struct weir__choice){.step = WEIR__GIVE_BACK, .created = found};
    return found > 0 || wait_on_host(weir__ladder_oldest_incomplete(pool), choice);
}

/* ---- the ladder ------------------------------------------------------------------------------------------------- */

typedef bool step_fn(struct weir_pool *pool, const struct weir__request *request, struct look *seen,
                     struct weir__choice *choice);
#define DRIVERLESS_STEPS 3

static step_fn *const latency_steps[] = {as_before,     take_ordered,   take_drained,   return_ordered, take_likely,
                                         take_complete, take_new_pages, wait_on_device, move_pages,     give_pages_back,
                                         NULL};
static step_fn *const footprint_steps[] = {
    as_before,      take_ordered,   take_drained, return_ordered,  take_likely, take_complete,
    wait_on_device, take_new_pages, move_pages,   give_pages_back, NULL};
static step_fn *const any_steps[] = {as_before,        take_ordered,  take_drained,  return_ordered,  take_complete,
                                     wait_for_unnamed, move_complete, wait_in_place, give_pages_back, NULL};

/* What was freed in the same capture on the same stream, and new pages: nothing is asked of the device. */
static step_fn *const graph_steps[] = {as_before, take_ordered, take_drained, take_new_pages, NULL};

struct weir__choice weir__ladder_next(struct weir_pool *pool, const struct weir__request *request) {
    struct weir__choice choice = {0};
    struct look seen = {0};
    step_fn *const *steps = pool->policy->name == WEIR_POLICY_FOOTPRINT ? footprint_steps : latency_steps;
    if (request->slot == pool->order.any) steps = any_steps;
    if (pool->is_graph) steps = graph_steps;
    for (int i = 0; steps[i] != NULL; i++) {
        if (request->host_function && i == DRIVERLESS_STEPS) return (struct weir__choice){.step = WEIR__NO_DRIVER};
        choice = (struct weir__choice){0};
        if (steps[i](pool, request, &seen, &choice)) return choice;
    }
    return (struct weir__choice){.step = WEIR__GIVE_UP};
}
