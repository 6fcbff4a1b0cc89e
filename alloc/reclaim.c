/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/reclaim.h"

#include <stdlib.h>

#include "alloc/pool.h"

struct weir__reclaim {
    struct weir__reclaim *next;
    uint64_t number;
    weir_reclaim_fn *call;
    void *self;
    unsigned running; /* calls of it, in all threads */
    bool removed;     /* by its own call, which frees it at its end */
};

/* The one that runs in this thread, of whichever pool. */
static _Thread_local struct weir__reclaim *running_here;

/* ---- calls ------------------------------------------------------------------------------------------------------ */

struct weir__reclaim_round weir__reclaim_start(const struct weir_pool *pool) {
    return (struct weir__reclaim_round){.asks = pool, .last = pool->reclaims.added};
}

static struct weir__reclaim *next_of(const struct weir_pool *pool, struct weir__reclaim_round *round) {
    struct weir__reclaim *reclaim = pool->reclaims.first;
    while (reclaim != NULL && reclaim->number <= round->asked) reclaim = reclaim->next;
    if (reclaim == NULL || reclaim->number > round->last) return NULL;
    round->asked = reclaim->number;
    return reclaim;
}

static bool call(struct weir_pool *pool, struct weir__reclaim *reclaim, size_t wanted_bytes) {
    reclaim->running++;
    running_here = reclaim;
    weir__pool_end(pool);
    const bool worth_it = reclaim->call(reclaim->self, pool, wanted_bytes);
    weir__pool_begin(pool);
    running_here = NULL;
    reclaim->running--;
    pthread_cond_broadcast(&pool->changed);
    if (reclaim->removed) free(reclaim);
    return worth_it;
}

/* What the driver refused is asked for again; the time that callbacks took is none of waiting. */
static void renew(const struct weir_pool *pool, struct weir__request *request, uint64_t since_ns) {
    request->most_created = request->most_mapped = SIZE_MAX;
    request->map_refusals = 0;
    if (request->deadline_ns != 0) request->deadline_ns += weir__device_now_ns(pool->device) - since_ns;
}

bool weir__reclaim_ask(struct weir_pool *pool, size_t wanted_bytes, struct weir__reclaim_round *round) {
    if (round->asks != pool) {
        const uint64_t from = round->from;
        *round = weir__reclaim_start(pool);
        round->from = from;
    }
    struct weir__reclaim *reclaim = next_of(pool, round);
    while (reclaim != NULL && !call(pool, reclaim, wanted_bytes)) reclaim = next_of(pool, round);
    return reclaim != NULL;
}

bool weir__reclaim_next(struct weir_pool *pool, struct weir__request *request, struct weir__reclaim_round *round) {
    if (running_here != NULL || request->host_function || request->bytes > pool->limit_bytes) return false;
    const uint64_t since_ns = weir__device_now_ns(pool->device);
    weir__charge(pool, request->slot);
    const bool worth_it = (round->asks == pool && weir__reclaim_ask(pool, request->bytes, round)) ||
                          weir__family_reclaim(pool, request, round);
    if (worth_it) renew(pool, request, since_ns);
    return worth_it;
}

void weir__reclaims_clear(struct weir__reclaims *reclaims) {
    while (reclaims->first != NULL) {
        struct weir__reclaim *reclaim = reclaims->first;
        reclaims->first = reclaim->next;
        free(reclaim);
    }
}

/* ---- add and remove --------------------------------------------------------------------------------------------- */

/* Gives: the link to the callback, or the last link, to NULL. */
static struct weir__reclaim **find(struct weir_pool *pool, weir_reclaim_fn *function, void *self) {
    struct weir__reclaim **link = &pool->reclaims.first;
    while (*link != NULL && ((*link)->call != function || (*link)->self != self)) link = &(*link)->next;
    return link;
}

static enum weir_status check(const struct weir_pool *pool, const char *name, weir_reclaim_fn *function) {
    enum weir_status status = weir__pool_usable(pool, name);
    if (status == WEIR_OK && function == NULL) status = WEIR__INVALID("%s: reclaim is NULL", name);
    if (status == WEIR_OK && weir__in_host_function())
        status = weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s can't be called inside a host function", name);
    return status;
}

enum weir_status weir_pool_add_reclaim(struct weir_pool *pool, weir_reclaim_fn *reclaim, void *self) {
    enum weir_status status = check(pool, "weir_pool_add_reclaim", reclaim);
    if (status != WEIR_OK) return status;
    struct weir__reclaim *added = calloc(1, sizeof *added);
    if (added == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a reclaim callback");
    weir__pool_lock(pool);
    struct weir__reclaim **link = find(pool, reclaim, self);
    if (*link == NULL) {
        *added = (struct weir__reclaim){.call = reclaim, .self = self};
        added->number = __atomic_add_fetch(&pool->reclaims.added, 1, __ATOMIC_RELEASE);
        *link = added;
    } else {
        free(added);
        status = WEIR__INVALID("weir_pool_add_reclaim: this callback with this self (%p) is there already", self);
    }
    weir__pool_unlock(pool);
    return status;
}

/* Until a call of it may have ended. */
static void wait_for_calls(struct weir_pool *pool) {
    if (!weir__device_takes_turns(pool->device)) {
        pthread_cond_wait(&pool->changed, &pool->lock);
        return;
    }
    pthread_mutex_unlock(&pool->lock);
    weir__device_pause(pool->device, WEIR__TURN_NS);
    pthread_mutex_lock(&pool->lock);
}

enum weir_status weir_pool_remove_reclaim(struct weir_pool *pool, weir_reclaim_fn *reclaim, void *self) {
    enum weir_status status = check(pool, "weir_pool_remove_reclaim", reclaim);
    if (status != WEIR_OK) return status;
    weir__pool_lock(pool);
    struct weir__reclaim **link = find(pool, reclaim, self), *removed = *link;
    if (removed == NULL) {
        status = WEIR__INVALID("weir_pool_remove_reclaim: there is no such callback with this self (%p)", self);
    } else {
        const bool inside = removed == running_here;
        *link = removed->next;
        while (removed->running > (inside ? 1 : 0)) wait_for_calls(pool);
        removed->removed = inside;
        if (!inside) free(removed);
    }
    weir__pool_unlock(pool);
    return status;
}
