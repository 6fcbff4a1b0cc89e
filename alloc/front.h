/* SPDX-License-Identifier: Apache-2.0 */
/* Fronts: what a stream frees and asks for again in the same size goes through no index, is neither cut nor merged, and, unless the
 * pool is traced or deterministic, takes no lock but the front's own.
 *
 * front   of one stream that cannot go unheard; has a lock of its own, taken inside the pool's
 * own     blocks that went through a front: in its table, until a call other than an alloc or a free on that stream
 *         touches them (let go)
 * kept    an own block that is free, unused after the stream's tick at its free, and its tags, which are those of noted uses. To
 *         all but the front it is a used extent: it stays in the tables, and counts as live in the pool's accounts
 * bin     kept blocks without noted uses, by size; those with are taken in the order in which they were freed, and are few: tied
 *         to one size and one place, they would lie scattered among what large blocks need
 * drain   kept blocks become idle extents, as after any free; it comes before anything that the pool itself can't do without
 *         the driver, and before anything is refused
 * withheld  so many bytes of what a front keeps are not taken without the pool's lock, since that might make a new peak that
 *         nobody sees
 * pause   nothing at all is, until peaks are counted and what is withheld is dealt out anew
 *
 * Invariants.
 *   a kept block's number says when it was freed, as an idle extent's
 *   pool.live_bytes - sum(front.kept_bytes) is live, pool.idle_bytes + sum(front.kept_bytes) is idle; so by stream
 *   what is live, with all that is kept and not withheld, is at most the peak, of the pool and by stream: so no alloc without the
 *   pool's lock makes a new one
 *
 * While any stream is captured, and for a stream that captures, which the driver is asked before each alloc, the pool's lock is taken.
 *
 * Under a front's lock no driver call is made (the emulated device's watch is told, which is none). What lies in an extent for
 * the front is under the front's lock; `front` itself is written under both, and read under either. */
#ifndef WEIR_ALLOC_FRONT_H
#define WEIR_ALLOC_FRONT_H

#include "alloc/extent.h"
#include "alloc/table.h"
#include "weir/device.h"

struct weir_pool;
struct weir__slot;

#define WEIR__FRONT_LARGEST  32u   /* granules of a block that may be kept, */
#define WEIR__FRONT_GRANULES 2048u /* of all that a front keeps, */
#define WEIR__FRONT_NOTED    128u  /* of those with noted uses, */
#define WEIR__FRONT_BLOCKS   1024u /* and how many blocks that may be */

enum { WEIR__FRONT_BINS = 64, WEIR__FRONT_PLACES = 64, WEIR__FRONT_PROBES = 4 };

struct weir__front {
    _Alignas(64) bool locked; /* see front.c */
    bool fast;                /* blocks may be kept and taken without the pool's lock */
    bool ended;               /* its stream is gone */
    bool can_capture;         /* the driver is to be asked whether it does; read without the lock */
    unsigned kept;            /* blocks; read without the lock too */
    weir_stream stream;       /* read without the lock too */
    struct weir__slot *slot;
    size_t most_bytes, most_noted_bytes; /* that may be kept; of those with noted uses */
    size_t kept_bytes;                   /* read without the lock too */
    size_t kept_requested_bytes;
    size_t withheld_bytes, withheld_requested_bytes; /* of those; changed under both locks */
    uint64_t allocs, frees;                          /* made here that the pool has not counted yet */
    struct weir__table own;
    struct weir__extent *oldest, *newest;    /* kept */
    struct weir__extent *noted, *noted_last; /* of those, with noted uses: the oldest, the newest */
    size_t noted_bytes;                      /* of those */
    unsigned noted_since_look;               /* frees of such, since their streams were asked */
    struct weir__front *next;                /* of the pool */
    struct weir__extent *bins[WEIR__FRONT_BINS];
};

struct weir__fronts {
    bool on;       /* this pool has any */
    bool fast;     /* without the pool's lock */
    bool shut;     /* more is held than may be: what is free is given back */
    bool waited;   /* a request waits for what is freed */
    bool recorded; /* where requests go is written down: none goes without the pool's lock */
    bool paused;
    size_t withheld_bytes, withheld_requested_bytes; /* of all */
    struct weir__front *first;
    struct weir__front *by_stream[WEIR__FRONT_PLACES];
};

/* ---- without the pool's lock ------------------------------------------------------------------------------------ */

/* An alloc or a free that the stream's front can do alone. False: it can't, nothing has changed.
 * *requested_bytes: what was asked for, if it is not NULL. */
bool weir__front_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out);
bool weir__front_free(struct weir_pool *pool, void *block, weir_stream stream, size_t *requested_bytes);

/* ---- under it ---------------------------------------------------------------------------------------------------- */

/* Gives: a block that the slot's front has kept, live again but for its number; NULL if there is none of this size that is
 * ordered before the slot. */
struct weir__extent *weir__front_take(struct weir_pool *pool, uint32_t slot, size_t bytes);
/* A block that has been freed on a slot: the front keeps it. False: it is not one for fronts, and it is no front's own any more. */
bool weir__front_keep(struct weir_pool *pool, struct weir__extent *extent, uint32_t slot);
/* Whether a block of the table is one no more, since a front has kept it. */
bool weir__front_has(const struct weir__extent *extent);
/* Notes a use of a block of the table. Fails: WEIR_INVALID when it is none any more, without a sentence;
 * WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status weir__front_note(struct weir__extent *extent, uint32_t slot);
/* A block of the table that a call other than its stream's alloc or free touches is an ordinary one from now on. False: it is
 * none any more, a front has kept it. */
bool weir__front_let_go(struct weir__extent *extent);
/* Kept blocks become idle. Gives: whether there was any. */
bool weir__fronts_drain(struct weir_pool *pool);
/* The stream of a slot goes, or has gone. */
void weir__front_end(struct weir_pool *pool, uint32_t slot);
/* Nothing is taken from fronts, or kept, without the pool's lock. Gives: what is kept. */
void weir__fronts_pause(struct weir_pool *pool, size_t *bytes, size_t *requested_bytes);
/* Ends a pause: what may go past a peak if it were taken is withheld. */
void weir__fronts_resume(struct weir_pool *pool);
/* Nothing is kept while the pool holds more than it may; nor while a request waits. */
void weir__fronts_shut(struct weir_pool *pool, bool shut);
void weir__fronts_waited(struct weir_pool *pool, bool waited);
/* Nothing is taken from fronts, or kept, without the pool's lock while requests are written down. */
void weir__fronts_recorded(struct weir_pool *pool, bool recorded);
/* Gives: whether any front keeps something, without a look at what other threads do right now; and how much all do. */
bool weir__fronts_keep_any(const struct weir_pool *pool);
size_t weir__fronts_kept_bytes(const struct weir_pool *pool);
/* Of the slot's front, 0 without one. */
size_t weir__front_kept_bytes(const struct weir__slot *slot);
size_t weir__front_withheld_bytes(const struct weir__slot *slot);
void weir__fronts_lock(struct weir_pool *pool);
void weir__fronts_unlock(struct weir_pool *pool);
/* Around what reads accounts and extents: between them all accounts are as if kept blocks were idle, and nothing changes. */
void weir__fronts_show(struct weir_pool *pool);
void weir__fronts_hide(struct weir_pool *pool);
/* The walk. Needs: shown. */
enum weir_status weir__fronts_check(const struct weir_pool *pool);
void weir__fronts_close(struct weir_pool *pool);

#endif
