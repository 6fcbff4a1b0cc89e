/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/sub_pool.h"

#include <string.h>

#include "alloc/check.h"
#include "alloc/pool.h"

static void lock(const struct weir__family *family) { pthread_mutex_lock((pthread_mutex_t *)&family->lock); }
static void unlock(const struct weir__family *family) { pthread_mutex_unlock((pthread_mutex_t *)&family->lock); }

/* Until something has changed, or for a while. Needs the family's lock. */
static void wait_for_change(struct weir__family *family, const struct weir_pool *pool) {
    if (!weir__device_takes_turns(pool->device)) {
        pthread_cond_wait(&family->changed, &family->lock);
        return;
    }
    unlock(family);
    weir__device_pause(pool->device, WEIR__TURN_NS);
    lock(family);
}

/* ---- members ---------------------------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Needs the family's lock. */
static void settle_limit(struct weir__family *family) {
    family->most_held_bytes = larger(family->held_bytes, family->limit_bytes);
    __atomic_store_n(&family->over, family->held_bytes > family->limit_bytes, __ATOMIC_RELEASE);
}

void weir__family_open(struct weir_pool *root) {
    struct weir__family *family = &root->own_family;
    pthread_mutex_init(&family->lock, NULL);
    pthread_cond_init(&family->changed, NULL);
    family->root = root;
    root->family = family;
}

void weir__family_close(struct weir_pool *root) {
    pthread_cond_destroy(&root->own_family.changed);
    pthread_mutex_destroy(&root->own_family.lock);
}

static void join(struct weir_pool *pool) {
    struct weir__family *family = pool->family;
    lock(family);
    struct weir_pool **link = &family->first;
    while (*link != NULL) link = &(*link)->member.next;
    *link = pool;
    pool->member.number = ++family->joined;
    if (pool->is_graph) __atomic_fetch_add(&family->graphs, 1, __ATOMIC_RELEASE);
    unlock(family);
}

bool weir__family_may_close(struct weir_pool *pool) {
    struct weir__family *family = pool->family;
    lock(family);
    const bool has_sub_pools = family->root == pool && family->first != NULL;
    pool->member.closing = !has_sub_pools;
    family->leaving += !has_sub_pools;
    while (!has_sub_pools && pool->member.users > 0) wait_for_change(family, pool);
    unlock(family);
    if (!has_sub_pools) return true;
    weir__fail(WEIR_INVALID, 0, NULL, "weir_pool_destroy: the pool has sub-pools, which are destroyed before it");
    weir__log(WEIR__LOG_ERROR, "pool: %s", weir_last_error()->message);
    return false;
}

void weir__family_stay(struct weir_pool *pool) {
    struct weir__family *family = pool->family;
    lock(family);
    family->leaving--;
    family->changes++;
    unlock(family);
}

void weir__family_leave(struct weir_pool *pool) {
    struct weir__family *family = pool->family;
    if (family->root == pool) return;
    lock(family);
    family->leaving--;
    struct weir_pool **link = &family->first;
    while (*link != pool) link = &(*link)->member.next;
    *link = pool->member.next;
    if (pool->is_graph) __atomic_fetch_sub(&family->graphs, 1, __ATOMIC_RELEASE);
    family->held_bytes -= pool->held_bytes;
    family->changes++;
    settle_limit(family);
    unlock(family);
}

/* The member that joined first after `number`, the root first of all, kept from closing; NULL at the end. */
static struct weir_pool *use_next(struct weir__family *family, const struct weir_pool *but, uint64_t from) {
    lock(family);
    struct weir_pool *member = from == 0 ? family->root : family->first;
    while (member != NULL && (member == but || member->member.closing || member->member.number < from))
        member = member == family->root ? family->first : member->member.next;
    if (member != NULL) member->member.users++;
    unlock(family);
    return member;
}

static void unuse(struct weir__family *family, struct weir_pool *member) {
    lock(family);
    member->member.users--;
    pthread_cond_broadcast(&family->changed);
    unlock(family);
}

void weir__family_each(struct weir__family *family, void (*visit)(struct weir_pool *pool, weir_stream stream),
                       weir_stream stream) {
    uint64_t from = 0;
    for (struct weir_pool *member; (member = use_next(family, NULL, from)) != NULL;) {
        from = member->member.number + 1;
        if (!member->is_graph) visit(member, stream);
        unuse(family, member);
    }
}

/* ---- the allowance ---------------------------------------------------------------------------------------------- */

bool weir__family_hold(struct weir_pool *pool, size_t bytes) {
    struct weir__family *family = pool->family;
    lock(family);
    const bool fits =
        bytes == 0 || (family->held_bytes <= family->limit_bytes && bytes <= family->limit_bytes - family->held_bytes);
    if (fits) {
        family->held_bytes += bytes;
        pool->held_bytes += bytes;
    }
    unlock(family);
    return fits;
}

void weir__family_unhold(struct weir_pool *pool, size_t bytes) {
    struct weir__family *family = pool->family;
    lock(family);
    family->held_bytes -= bytes;
    settle_limit(family);
    family->changes++;
    pool->held_bytes -= bytes;
    unlock(family);
}

size_t weir__family_untaken(const struct weir_pool *pool) {
    const struct weir__family *family = pool->family;
    lock(family);
    const size_t held = family->held_bytes, limit = family->limit_bytes;
    unlock(family);
    return held < limit ? limit - held : 0;
}

size_t weir__family_excess(const struct weir_pool *pool) {
    const struct weir__family *family = pool->family;
    if (!__atomic_load_n(&family->over, __ATOMIC_ACQUIRE)) return 0; /* the usual case */
    lock(family);
    const size_t held = family->held_bytes, limit = family->limit_bytes;
    unlock(family);
    return held > limit ? held - limit : 0;
}

size_t weir__family_others(const struct weir_pool *pool) {
    lock(pool->family);
    const size_t others = pool->family->held_bytes - pool->held_bytes;
    unlock(pool->family);
    return others;
}

void weir__family_set_limit(struct weir_pool *root) {
    struct weir__family *family = root->family;
    lock(family);
    family->limit_bytes = root->limit_bytes;
    family->changes++;
    settle_limit(family);
    unlock(family);
}

enum weir_status weir__family_check(const struct weir_pool *pool) {
    const struct weir__family *family = pool->family;
    lock(family);
    size_t sum = family->root->held_bytes;
    for (const struct weir_pool *member = family->first; member != NULL; member = member->member.next)
        sum += member->held_bytes;
    const size_t held = family->held_bytes, most = family->most_held_bytes;
    unlock(family);
    WEIR__HOLDS(sum == held, "the family holds %zu, its members %zu", held, sum);
    WEIR__HOLDS(held <= most, "the family holds %zu, at most %zu", held, most);
    return WEIR_OK;
}

/* ---- giving ----------------------------------------------------------------------------------------------------- */

static void trim(struct weir_pool *pool, size_t target_bytes) {
    if (weir__trim(pool, target_bytes) != WEIR_OK)
        weir__log(WEIR__LOG_WARN, "pool: memory for another pool could not be given back: %s",
                  weir_last_error()->message);
}

void weir__family_give_excess_back(struct weir_pool *pool) {
    uint64_t from = 0;
    for (struct weir_pool *other; (other = use_next(pool->family, pool, from)) != NULL;) {
        from = other->member.number + 1;
        pthread_mutex_unlock(&pool->lock);
        pthread_mutex_lock(&other->lock);
        weir__give_excess_back(other);
        pthread_mutex_unlock(&other->lock);
        unuse(pool->family, other);
        pthread_mutex_lock(&pool->lock);
    }
}

/* (unlocks) Deterministic mode: waits for the uses of the largest idle extent of each stream. */
static void wait_for_idle(struct weir_pool *pool, uint64_t deadline_ns) {
    for (uint32_t i = 1; i < pool->order.count; i++) {
        const struct weir__extent *extent = weir__index_largest(&pool->order.slots[i]->idle[0]);
        const uint32_t count = extent == NULL ? 0 : extent->tag_count;
        struct weir__tag tags[count + 1];
        for (uint32_t t = 0; t < count; t++) tags[t] = extent->tags[t];
        for (uint32_t t = 0; t < count; t++)
            if (weir__order_wait_host(&pool->order, tags[t], deadline_ns) == WEIR_NOT_READY) return;
    }
}

/* Gives: how much less the member holds. */
static size_t give(struct weir_pool *other, size_t bytes, bool wait, uint64_t deadline_ns) {
    pthread_mutex_lock(&other->lock);
    const size_t before = other->held_bytes, target = before > bytes ? before - bytes : 0;
    if (wait) wait_for_idle(other, deadline_ns);
    trim(other, target);
    const size_t after = other->held_bytes;
    pthread_mutex_unlock(&other->lock);
    return before > after ? before - after : 0;
}

static size_t ask_others(struct weir_pool *pool, size_t bytes, bool wait, uint64_t deadline_ns) {
    uint64_t from = 0;
    size_t given = 0;
    for (struct weir_pool *other; given < bytes && (other = use_next(pool->family, pool, from)) != NULL;) {
        from = other->member.number + 1;
        given += give(other, bytes - given, wait, deadline_ns);
        unuse(pool->family, other);
    }
    return given;
}

/* Of what the limit leaves to the family, where the driver has said how much of it there is. */
static size_t untaken_for(const struct weir_pool *pool, const struct weir__request *request) {
    const size_t untaken = weir__family_untaken(pool);
    const bool is_known = request->most_created < untaken / pool->granule;
    return is_known ? request->most_created * pool->granule : untaken;
}

/* Pages for the request, were it to lie across page borders; but no more than the member's own limit leaves. */
static size_t wanted_of_family(const struct weir_pool *pool, const struct weir__request *request) {
    const size_t own = pool->held_bytes < pool->limit_bytes ? pool->limit_bytes - pool->held_bytes : 0;
    size_t wanted = request->bytes / pool->granule * pool->granule + 2 * pool->granule;
    if (wanted > own) wanted = own;
    const size_t untaken = untaken_for(pool, request);
    return wanted > untaken ? wanted - untaken : 0;
}

/* (unlocks) */
static bool give_now(struct weir_pool *pool, const struct weir__request *request) {
    const size_t wanted = wanted_of_family(pool, request);
    if (wanted == 0) return false;
    pthread_mutex_unlock(&pool->lock);
    const size_t given = ask_others(pool, wanted, false, 0);
    pthread_mutex_lock(&pool->lock);
    return given > 0;
}

/* (unlocks) In the order of the members and their streams, whatever else comes. */
static bool give_in_order(struct weir_pool *pool, struct weir__request *request) {
    const uint64_t since_ns = weir__device_now_ns(pool->device);
    const size_t wanted = wanted_of_family(pool, request);
    weir__begin_host_wait(pool, request);
    pthread_mutex_unlock(&pool->lock);
    const size_t given = ask_others(pool, wanted, true, request->deadline_ns);
    pthread_mutex_lock(&pool->lock);
    weir__account_host_waited(pool, request->slot, since_ns);
    return given > 0;
}

struct others {
    uint64_t changes;  /* of all of them */
    bool have_pending; /* one has something that it may be able to give later */
};

static void listen_to(struct weir_pool *other, struct others *heard) {
    weir__pool_lock(other);
    if (weir__fronts_drain(other)) weir__waiting_change(other);
    if (weir__order_mark_all(&other->order) != WEIR_OK)
        weir__log(WEIR__LOG_WARN, "pool: a mark could not be recorded: %s", weir_last_error()->message);
    if (weir__order_poll_waited(&other->order)) weir__settle_complete(other);
    heard->changes += weir__waiting_changes(other);
    heard->have_pending |= weir__ladder_oldest_incomplete(other) != NULL ||
                           weir__alone_oldest_incomplete(other) != NULL || other->in_flight > 0;
    weir__pool_unlock(other);
}

/* (unlocks) Looks how far the others have got; a graph's pool gives nothing. */
static struct others listen(struct weir_pool *pool) {
    struct weir__family *family = pool->family;
    struct others others = {0};
    uint64_t from = 0;
    pthread_mutex_unlock(&pool->lock);
    for (struct weir_pool *other; (other = use_next(family, pool, from)) != NULL;) {
        from = other->member.number + 1;
        if (!other->is_graph) listen_to(other, &others);
        unuse(family, other);
    }
    lock(family);
    others.changes += family->changes;
    others.have_pending |= family->leaving > 0;
    unlock(family);
    pthread_mutex_lock(&pool->lock);
    return others;
}

/* The oldest that can be waited for, but not by a mark. */
static const struct weir__extent *oldest_unmarked(struct weir_pool *pool) {
    (void)weir__order_mark_all(&pool->order); /* what can be marked is */
    const struct weir__extent *extent = weir__ladder_oldest_incomplete(pool),
                              *alone = weir__alone_oldest_incomplete(pool);
    for (; extent != NULL; extent = extent->newer)
        if (weir__order_extent_lacks_mark(&pool->order, extent) &&
            weir__order_extent_can_be_waited_for(&pool->order, extent))
            return extent;
    return alone != NULL && weir__order_extent_lacks_mark(&pool->order, alone) ? alone : NULL;
}

/* (unlocks) What is freed and can't be marked, as on the legacy stream while another one captures, passes without anybody hearing
 * of it: the host waits for that. Gives: whether it did. */
static bool wait_for_unmarked(struct weir_pool *pool, struct weir__request *request) {
    const uint64_t since_ns = weir__device_now_ns(pool->device);
    uint64_t from = 0;
    bool waited = false;
    weir__begin_host_wait(pool, request);
    pthread_mutex_unlock(&pool->lock);
    for (struct weir_pool *other; (other = use_next(pool->family, pool, from)) != NULL;) {
        from = other->member.number + 1;
        weir__pool_lock(other);
        const bool in_time = !other->is_graph && since_ns < request->deadline_ns;
        const struct weir__extent *unused = in_time ? oldest_unmarked(other) : NULL;
        if (unused != NULL) waited |= weir__wait_for_tags(other, request, unused) == WEIR_OK;
        weir__pool_unlock(other);
        unuse(pool->family, other);
    }
    pthread_mutex_lock(&pool->lock);
    weir__account_host_waited(pool, request->slot, since_ns);
    return waited;
}

/* There has never been another member: one that was may have left since the request looked. */
static bool is_ever_alone(const struct weir_pool *pool) {
    lock(pool->family);
    const bool alone = pool->family->joined == 0;
    unlock(pool->family);
    return alone;
}

/* Whether the others hold less than when this was asked last: what they gave back the request may not have seen. The first time
 * it is to look again in any case. */
static bool gave_meanwhile(const struct weir_pool *pool, struct weir__request *request) {
    const size_t before = request->waiter.others_bytes;
    if (pool->deterministic) return false; /* nothing comes meanwhile */
    request->waiter.others_bytes = weir__family_others(pool) + 1;
    return before == 0 || request->waiter.others_bytes < before;
}

bool weir__family_has_changed(struct weir_pool *pool, struct weir__request *request) {
    if (is_ever_alone(pool)) return false;
    const uint64_t changes = listen(pool).changes;
    if (changes == request->waiter.family) return false;
    request->waiter.family = changes;
    give_now(pool, request);
    return true;
}

static bool has_more(struct weir_pool *pool, struct weir__request *request) {
    if (wanted_of_family(pool, request) == 0) return gave_meanwhile(pool, request);
    if (give_now(pool, request)) return true;
    if (pool->deterministic) return give_in_order(pool, request);
    if (listen(pool).have_pending)
        return wait_for_unmarked(pool, request) || weir__wait_for_change(pool, request) == WEIR_OK;
    return give_now(pool, request) /* what has just become complete */ || gave_meanwhile(pool, request);
}

bool weir__family_give(struct weir_pool *pool, struct weir__request *request) {
    if (request->host_function || is_ever_alone(pool) || !has_more(pool, request)) return false;
    request->most_created = SIZE_MAX; /* the driver may have more now */
    return true;
}

static bool others_can_reclaim(const struct weir_pool *pool) {
    const struct weir__family *family = pool->family;
    bool any = pool != family->root && __atomic_load_n(&family->root->reclaims.added, __ATOMIC_ACQUIRE) > 0;
    lock(family);
    for (const struct weir_pool *member = family->first; member != NULL; member = member->member.next)
        any |= member != pool && __atomic_load_n(&member->reclaims.added, __ATOMIC_ACQUIRE) > 0;
    unlock(family);
    return any;
}

bool weir__family_reclaim(struct weir_pool *pool, const struct weir__request *request,
                          struct weir__reclaim_round *round) {
    bool worth_it = false;
    if (pool->is_graph || wanted_of_family(pool, request) == 0 || !others_can_reclaim(pool)) return false;
    weir__pool_end(pool);
    for (struct weir_pool *other; !worth_it && (other = use_next(pool->family, pool, round->from)) != NULL;) {
        weir__pool_begin(other);
        worth_it = weir__reclaim_ask(other, request->bytes, round);
        weir__pool_end(other);
        round->from = other->member.number + (worth_it ? 0 : 1);
        unuse(pool->family, other);
    }
    weir__pool_begin(pool);
    return worth_it;
}

/* ---- the turn --------------------------------------------------------------------------------------------------- */

void weir__family_take_turn(struct weir__family *family, const struct weir_pool *pool) {
    lock(family);
    while (family->busy) wait_for_change(family, pool);
    __atomic_store_n(&family->busy, true, __ATOMIC_RELEASE);
    unlock(family);
}

void weir__family_end_turn(struct weir__family *family) {
    lock(family);
    __atomic_store_n(&family->busy, false, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&family->changed);
    unlock(family);
}

bool weir__family_is_busy(const struct weir__family *family) {
    return __atomic_load_n(&family->busy, __ATOMIC_ACQUIRE);
}

/* ---- public ----------------------------------------------------------------------------------------------------- */

/* Gives: the options, as a program with an older header may have given fewer. */
static enum weir_status read_options(const struct weir_pool *parent, const struct weir_sub_pool_options *options,
                                     struct weir_sub_pool_options *wanted) {
    *wanted = (struct weir_sub_pool_options){0};
    enum weir_status status = weir__pool_usable(parent, "weir_pool_create_sub");
    if (status != WEIR_OK) return status;
    if (options != NULL && (options->size < sizeof options->size || options->size > sizeof *options))
        return WEIR__INVALID("weir_pool_create_sub: options->size is %zu, expected %zu", options->size,
                             sizeof *options);
    if (options != NULL) memcpy(wanted, options, options->size);
    if (parent->family->root != parent)
        return WEIR__INVALID("weir_pool_create_sub: '%s' is a sub-pool itself and can't have any", parent->name);
    if (wanted->name != NULL && (*wanted->name == 0 || strlen(wanted->name) >= WEIR__NAME_ROOM))
        return WEIR__INVALID("weir_pool_create_sub: a name has 1 to %d characters, not %zu", WEIR__NAME_ROOM - 1,
                             strlen(wanted->name));
    return WEIR_OK;
}

static enum weir_status inherit(struct weir_pool *pool, struct weir_pool *parent,
                                const struct weir_sub_pool_options *options) {
    weir__pool_lock(parent);
    const size_t limit = options->limit_bytes != 0 ? options->limit_bytes : parent->limit_bytes;
    weir__pool_unlock(parent);
    pool->family = parent->family;
    pool->capacity_bytes = parent->capacity_bytes; /* of an integrated device it was what the host left then */
    pool->policy = parent->policy;
    pool->wait_limit_ns = parent->wait_limit_ns;
    pool->waits_out_frees = parent->waits_out_frees;
    pool->deterministic = parent->deterministic;
    pool->movable = parent->movable;
    pool->history_room = parent->history_room;
    strcpy(pool->name, options->name != NULL ? options->name : "sub-pool");
    if (options->graph) {
        pool->is_graph = true;
        pool->policy = &weir__policy_graph;
        pool->deterministic = false; /* it always is: nothing is learned from the device */
    }
    return weir__limit_settle(pool, (struct weir__limit){.bytes = limit}, &pool->limit_bytes);
}

enum weir_status weir_pool_create_sub(struct weir_pool *parent, const struct weir_sub_pool_options *options,
                                      struct weir_pool **out) {
    if (out == NULL) return WEIR__INVALID("weir_pool_create_sub: out is NULL");
    *out = NULL;
    struct weir_sub_pool_options wanted;
    enum weir_status status = read_options(parent, options, &wanted);
    if (status != WEIR_OK) return status;
    struct weir_pool *pool = weir__pool_new(parent->device);
    if (pool == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a pool");
    status = inherit(pool, parent, &wanted);
    status = weir__pool_open(pool, status, NULL);
    if (status != WEIR_OK) return status;
    join(pool);
    *out = pool;
    return WEIR_OK;
}
