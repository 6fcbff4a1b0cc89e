/* SPDX-License-Identifier: Apache-2.0 */
/* Families: a pool and its sub-pools, which share what the pool may hold.
 *
 * root    the pool that was made by weir_pool_create; every pool has a family, mostly of itself alone
 * member  the root, or a sub-pool of it
 * turn    in deterministic mode one call of the whole family has it, so that the order of all calls says who gets what
 *
 * Invariants.
 *   sum(member.held) == family.held <= family.most_held == max(root.limit, held ever since that was lowered)
 *   a member is not closed while another one's request uses it
 *
 * Locks. The family's lock is taken inside any pool's lock, and nothing is taken or called inside it. A member's held_bytes
 * changes under both, so either is enough to read it. Of pools' locks a thread holds one at a time. */
#ifndef WEIR_ALLOC_SUB_POOL_H
#define WEIR_ALLOC_SUB_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/device.h"

struct weir_pool;
struct weir__request;
struct weir__reclaim_round;

struct weir__family {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a turn ended, a request is through with a member */
    struct weir_pool *root;
    struct weir_pool *first; /* the other members, oldest first */
    uint64_t joined;         /* so far */
    size_t limit_bytes, held_bytes, most_held_bytes;
    uint64_t changes; /* there may be more to take */
    bool over;        /* it holds more than its limit; atomic, so that who asks takes no lock where it does not */
    bool deterministic;
    bool busy;        /* a call has the turn */
    unsigned graphs;  /* atomic: members that are for graphs */
    unsigned leaving; /* members that are being destroyed: what they hold is there soon */
};

/* What a pool knows of its place in the family. */
struct weir__member {
    struct weir_pool *next;
    uint64_t number; /* of joining; the root has 0 */
    unsigned users;  /* other members' requests that look here for memory */
    bool closing;
};

void weir__family_open(struct weir_pool *root);
void weir__family_close(struct weir_pool *root);
/* Calls `visit` for each member that is no graph's. Needs no lock. */
void weir__family_each(struct weir__family *family, void (*visit)(struct weir_pool *pool, weir_stream stream),
                       weir_stream stream);
/* Before a pool is destroyed. False: it has sub-pools, which is said and logged; else no other member comes near it. */
bool weir__family_may_close(struct weir_pool *pool);
/* Its memory will not be given back: it stays. */
void weir__family_stay(struct weir_pool *pool);
/* After its memory has been given back. */
void weir__family_leave(struct weir_pool *pool);

/* Takes `bytes` of the family's allowance for a member. False: there is not so much; nothing has changed. */
bool weir__family_hold(struct weir_pool *pool, size_t bytes);
void weir__family_unhold(struct weir_pool *pool, size_t bytes);
/* What the family may still take, and what it holds above a lowered limit. */
size_t weir__family_untaken(const struct weir_pool *pool);
size_t weir__family_excess(const struct weir_pool *pool);
/* What its other members hold. */
size_t weir__family_others(const struct weir_pool *pool);
/* After the root's limit has changed. */
void weir__family_set_limit(struct weir_pool *root);
/* (unlocks, keeps the turn) All members give back what the family holds above its limit, as far as it is idle and complete. */
void weir__family_give_excess_back(struct weir_pool *pool);
/* (unlocks, keeps the turn) When it is the family's allowance that a request lacks: other members give back what they have
 * idle, what is not complete is waited for. Gives: whether there is more now. */
bool weir__family_give(struct weir_pool *pool, struct weir__request *request);
/* (unlocks, lets the turn go) When it is the family's allowance that a request lacks, but a graph's: asks the callbacks of the other
 * members, the root's first, until one gives that it is worth looking again. Gives: whether one did. */
bool weir__family_reclaim(struct weir_pool *pool, const struct weir__request *request,
                          struct weir__reclaim_round *round);
/* (unlocks) For a request that waits already: when something has changed with the others since it asked last, asks them again.
 * Gives: whether there is a change. */
bool weir__family_has_changed(struct weir_pool *pool, struct weir__request *request);

void weir__family_take_turn(struct weir__family *family, const struct weir_pool *pool);
void weir__family_end_turn(struct weir__family *family);
bool weir__family_is_busy(const struct weir__family *family);

/* The family's part of the debug walk. */
enum weir_status weir__family_check(const struct weir_pool *pool);

#endif
