/* SPDX-License-Identifier: Apache-2.0 */
/* The pool inside. Glossary: extent.h (extent, tag), order.h (slot, tick, mark), pages.h (page, arena, spare),
 * placement.h (window, donor). Here:
 *
 * policy   how requests are served: the shared pool (latency, footprint), or one pool a stream
 * ladder   the steps that the shared pool tries, in order, for one request; after any wait it starts again
 * claim    extents taken out of all indexes and marked moving, so that a driver call can be made with the lock let go;
 *          then committed or rolled back
 * refusal  the last request that was answered with out of memory
 * turn     deterministic mode: a call that changes a pool of the family (sub_pool.h) has it from its begin to its end, also while the lock is let go
 *
 * Invariants (weir_pool_check walks them).
 *   extents tile the arena; no two neighbours are both bare and not stale
 *   live + idle + moving + unmapped == held <= most_held, which limit.h explains
 *   live == sum(used.bytes) == sum(slot.live_bytes);  idle == sum(idle.bytes) == sum(slot.idle_bytes)
 *   a page is at home exactly where an extent that is not bare touches the arena; bare ones that are not stale are not mapped
 *   every used extent, and nothing else, is in `blocks`; what fronts have kept is among them (front.h)
 *
 * Lock. `lock` protects everything but the trace and the fronts, which have their own, taken inside it. It is never held across a driver
 * call except queries. */
#ifndef WEIR_ALLOC_POOL_H
#define WEIR_ALLOC_POOL_H

#include <pthread.h>

#include "alloc/alone.h"
#include "alloc/extent.h"
#include "alloc/front.h"
#include "alloc/index.h"
#include "alloc/inside.h"
#include "alloc/limit.h"
#include "alloc/options.h"
#include "alloc/order.h"
#include "alloc/pages.h"
#include "alloc/placement.h"
#include "alloc/plan.h"
#include "alloc/reclaim.h"
#include "alloc/registered.h"
#include "alloc/spent.h"
#include "alloc/sub_pool.h"
#include "alloc/table.h"
#include "alloc/waiting.h"
#include "weir/pool.h"

struct weir__history;
struct weir__trace;

struct weir__request {
    size_t bytes; /* rounded */
    size_t requested_bytes;
    size_t alignment;
    uint32_t slot;
    bool host_function; /* no driver call may be made */
    bool alone;         /* on a handle of its own */
    /* What the driver refused below the limit, for want of memory; others hold the rest, and the ladder goes on. */
    size_t most_created; /* new pages that it gave before it refused one; SIZE_MAX before that */
    size_t most_mapped;  /* places that were mapped when it refused to map one more; SIZE_MAX */
    unsigned map_refusals;
    bool donors_in_use; /* pages would have to be unmapped first that are in use: the host is to wait */
    uint64_t wait_limit_ns;
    uint64_t deadline_ns; /* of all host waits together; 0 before the first */
    bool host_waited;     /* and is counted so */
    bool waited_out;      /* the wait limit passed, and what was waited for was in use still */
    bool waited_in_vain;  /* for memory that it can do without */
    struct weir__waiter waiter;
};

struct weir__policy {
    enum weir_policy name;
    const char *text;
    enum weir_status (*open)(struct weir_pool *pool);
    void (*close)(struct weir_pool *pool); /* the device has been waited for */
    /* (unlocks) Gives a used extent with its home, sizes and accounts set, or the pool as it was. */
    enum weir_status (*alloc)(struct weir_pool *pool, struct weir__request *request, struct weir__extent **out);
    /* Takes a used extent back; its tags say after what it is unused. Cannot fail, calls no driver. */
    void (*release)(struct weir_pool *pool, struct weir__extent *extent);
    /* (unlocks) After a release: marks that are due. */
    void (*after_release)(struct weir_pool *pool, uint32_t slot);
    enum weir_status (*trim)(struct weir_pool *pool, size_t target_bytes); /* (unlocks) */
    size_t (*largest_idle)(const struct weir_pool *pool, uint32_t slot);
    /* Calls `visit` for every extent that names slots. NULL: slots of streams that are gone are kept while any block is
     * accounted to them. */
    void (*each_extent)(struct weir_pool *pool, void (*visit)(struct weir_pool *pool, struct weir__extent *extent));
    enum weir_status (*check)(struct weir_pool *pool);
};
extern const struct weir__policy weir__policy_latency, weir__policy_footprint, weir__policy_per_stream,
    weir__policy_graph;

/* Frees made inside host functions wait here, without the lock, for the next call from outside. */
struct weir__inbox_entry {
    struct weir__inbox_entry *next;
    uintptr_t address;
    weir_stream stream;
};

struct weir_pool {
    struct weir_device *device;
    const struct weir__policy *policy;
    size_t granule, capacity_bytes, limit_bytes;
    size_t most_held_bytes; /* the limit, or what is still held above a lowered one */
    uint64_t wait_limit_ns;
    bool
        waits_out_frees; /* while what was freed without a stream is in use no wait is too long: the driver's free would wait */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a claim ended; while a request waits, every change */
    bool deterministic;
    bool movable; /* idle pages may be mapped at other addresses; else only be given back */
    char name[WEIR__NAME_ROOM];
    uint32_t gone_kept; /* deterministic mode: slots of destroyed streams that could not be forgotten the last time */
    struct weir__order order;
    struct weir__extent_store store;
    struct weir__table blocks; /* used extents by address */
    struct weir__fronts fronts;
    struct weir__inside inside;   /* and by inner address, once somebody has asked */
    struct weir_pool *next_known; /* of all pools of the process */
    struct weir__observer observer;
    struct weir__reclaims reclaims;
    struct weir__registered registered;
    struct weir__alone *alone; /* blocks, and what was one */
    size_t alone_bytes;        /* that they hold */
    struct weir__waiters waiters;
    struct weir__family *family, own_family; /* own_family: of a root */
    struct weir__member member;
    bool is_graph;             /* for captured graphs: capture.h */
    struct weir__trace *trace; /* NULL: off */
    size_t history_room;       /* events; 0: off */
    struct weir__history *history;
    struct weir__inbox_entry *inbox;
    weir_stream helper; /* carries the waits of weir_pool_free_after; NULL until the first */
    bool has_helper;

    /* The shared pool. */
    struct weir__pages pages;
    struct weir__extent *first; /* of the arena */
    struct weir__index bare;
    struct weir__queue incomplete; /* idle extents that were not complete when they came, or not one with a complete
                                      neighbour, oldest first */
    struct weir__queue stale;      /* bare extents with old mappings, oldest first */
    uint32_t *seen, round;         /* of windows, see placement.h */
    struct weir__plan plan;        /* what the iterations repeat */
    double page_ns;                /* what mapping a page takes, of late; 0: not known */
    size_t idle_pages;             /* whole pages of idle extents that are not fixed, */
    size_t fixed_pages;            /* and of those that are */
    unsigned in_flight;            /* claims of other calls that are not settled yet */
    size_t stuck_bytes;            /* in moving: pages that the driver would not unmap */

    /* The per-stream pool. */
    struct weir__segment *segments;
    struct weir__table segment_at;               /* by address */
    struct weir__extent *pending, *pending_last; /* linked through `right`, oldest first */

    /* Blocks of no bytes: addresses without pages. */
    uintptr_t zero_base;
    size_t zero_count; /* addresses handed out so far */
    struct weir__extent *zero_spare;

    uint64_t frees_stamped; /* numbers idle extents by age */
    uint64_t blocks_numbered;
    uint64_t iteration;
    size_t live_bytes, requested_bytes, idle_bytes, moving_bytes, unmapped_bytes, held_bytes;
    size_t peak_live_bytes, peak_requested_bytes, peak_held_bytes, peak_stranded_bytes;
    uint64_t live_blocks, allocs, frees, out_of_memory, device_waits, host_waits, host_wait_ns, pages_moved;
    uint64_t pages_returned, memory_call_ns, order_call_ns;
    size_t stranded_bytes;            /* most since it was set to 0, which who looks after each request does */
    uint64_t plain_memory_calls;      /* atomic; those that `pages` does not count */
    uint64_t refused_allocs;          /* `allocs` at the last refusal */
    bool was_refused, driver_refused; /* driver_refused: so that the last refusal is not the limit's alone */
    bool waited_out;                  /* so that the last refusal came of the wait limit */
    struct weir_pool_refusal refusal;
    size_t refused_family_bytes; /* of its others' bytes */
    char refused_stream[32];
};

/* ---- accounts (stats.c) ----------------------------------------------------------------------------------------- */

/* False: the family's allowance does not have so much; nothing has changed. Needs: bytes <= weir__untaken_bytes. */
bool weir__account_hold(struct weir_pool *pool, size_t bytes);
void weir__account_unhold(struct weir_pool *pool, size_t bytes);
void weir__account_live(struct weir_pool *pool, const struct weir__extent *used);
void weir__account_dead(struct weir_pool *pool, const struct weir__extent *used);
/* A block was taken from the slot's front of which nothing was to be taken without the pool's lock. */
void weir__account_taken(struct weir_pool *pool, struct weir__slot *slot);
/* A slot's front keeps more. */
void weir__account_kept(struct weir__slot *slot);
/* What a front has counted is the pool's. Needs: its lock. */
void weir__fronts_count(struct weir_pool *pool, struct weir__front *front);
/* What a front keeps is told as idle, or, as ever, as live. Needs: its lock. */
void weir__account_shown(struct weir_pool *pool, struct weir__front *front, bool shown);
void weir__account_idle(struct weir_pool *pool, uint32_t slot, size_t bytes);
void weir__account_unidle(struct weir_pool *pool, uint32_t slot, size_t bytes);
/* A request on this slot is short of memory: it is about to take some, to wait on the host, to move pages, or is refused. */
void weir__account_short(struct weir_pool *pool, uint32_t slot);
/* A slot's stream was made to wait for others. */
void weir__account_device_wait(struct weir_pool *pool, uint32_t slot);
/* The host is going to wait for a request on this slot, or for no stream (WEIR__SLOT_NONE); and it has, from since_ns on. */
void weir__account_host_wait(struct weir_pool *pool, uint32_t slot);
void weir__account_host_waited(struct weir_pool *pool, uint32_t slot, uint64_t since_ns);
/* Live bytes of a slot are another one's from now on. */
void weir__account_rename(struct weir_pool *pool, uint32_t from, uint32_t to, size_t bytes);
/* What a slot has counted is the business of the slot of those that are gone. */
void weir__account_gone(struct weir_pool *pool, uint32_t slot);
/* What this thread has spent in the driver was for a slot; WEIR__SLOT_NONE: for no stream. */
void weir__charge(struct weir_pool *pool, uint32_t slot);
const char *weir__slot_name(const struct weir_pool *pool, uint32_t slot, char *room, size_t bytes);

/* Gives: the statistics now. */
struct weir_pool_stats weir__tell_stats(const struct weir_pool *pool);
/* Fills at most `room` entries of `size` bytes each. Gives: how many streams there are. */
size_t weir__tell_streams(const struct weir_pool *pool, size_t size, void *entries, size_t room);

/* Calls `visit` with the first extent of each segment of the per-stream pool (per_stream.c), in no order. */
void weir__per_stream_each_segment(const struct weir_pool *pool,
                                   void (*visit)(void *self, const struct weir_pool *pool,
                                                 const struct weir__extent *first),
                                   void *self);

/* ---- the refusal (refusal.c) ------------------------------------------------------------------------------------ */

#define WEIR__FREE_NOT_KNOWN SIZE_MAX

/* Gives: what is free on the device as its driver says now, or WEIR__FREE_NOT_KNOWN: in host functions, and where the
 * driver does not answer. Needs: the lock is not held. Only for what is told; nothing is decided by it. */
size_t weir__device_free_bytes(const struct weir_pool *pool);
/* Gives: what fills the device now; no asker: WEIR__SLOT_NONE. */
struct weir_pool_refusal weir__parts(const struct weir_pool *pool, uint32_t slot, size_t free_bytes);
/* Gives: how much of the others' bytes, of now, the other pools of the family hold. */
size_t weir__parts_of_family(const struct weir_pool *pool, const struct weir_pool_refusal *parts);
/* Counts and keeps a refusal. Gives: WEIR_OUT_OF_MEMORY, with a sentence. */
enum weir_status weir__refuse(struct weir_pool *pool, const struct weir__request *request, size_t free_bytes);

/* ---- the arena's extents (arena.c) ------------------------------------------------------------------------------ */

enum weir_status weir__arena_open(struct weir_pool *pool, uintptr_t base, size_t bytes);
void weir__idle_insert(struct weir_pool *pool, struct weir__extent *extent);
void weir__idle_remove(struct weir_pool *pool, struct weir__extent *extent);
/* Makes an extent that is in no index idle (its tags are set) or bare (stale when it says so; its tags tell when the old mappings
 * are used no more), and merges it with its like neighbours. Gives: the extent that it is part of now. */
struct weir__extent *weir__settle_idle(struct weir_pool *pool, struct weir__extent *extent);
struct weir__extent *weir__settle_bare(struct weir_pool *pool, struct weir__extent *extent);
/* Merges idle extents that have become complete with their like neighbours. Gives: whether there were any. */
bool weir__settle_complete(struct weir_pool *pool);
/* When a free is made, for the age of idle extents; fronts look at the last one without the pool's lock. */
static inline uint64_t weir__stamp(struct weir_pool *pool) {
    return __atomic_add_fetch(&pool->frees_stamped, 1, __ATOMIC_RELAXED);
}
/* Takes an idle or bare extent out of its index. */
void weir__unused_remove(struct weir_pool *pool, struct weir__extent *extent);
/* Writes an extent down as the one over its pages. */
void weir__own(struct weir_pool *pool, struct weir__extent *extent);
/* Cuts [begin, begin + bytes) out of an unused extent and takes it out of its index; what is left stays there.
 * Needs: a reserve of two. Gives: the middle; NULL without host memory, nothing has changed. */
struct weir__extent *weir__carve(struct weir_pool *pool, struct weir__extent *extent, uintptr_t begin, size_t bytes);

/* ---- the ladder (ladder.c): what to do next; reads the pool, changes nothing ----------------------------------- */

enum weir__step {
    WEIR__TAKE,      /* hand out a part of `idle`, from window.begin on */
    WEIR__MAP,       /* claim `window`, make the stream wait for its idle pieces, map pages where it lacks them */
    WEIR__GIVE_BACK, /* give `created` complete pages back to the driver, so that as many can be taken elsewhere */
    WEIR__WAIT_HOST, /* the host waits until `idle` is complete */
    WEIR__GIVE_UP,   /* out of memory */
    WEIR__NO_DRIVER, /* it would take a driver call, and none may be made here */
};

/* What a request may use of what is idle, from the best on. */
enum weir__use { WEIR__USE_COMPLETE, WEIR__USE_ORDERED, WEIR__USE_LIKELY, WEIR__USE_RIPE, WEIR__USE_ANY, WEIR__USES };

struct weir__choice {
    enum weir__step step;
    struct weir__extent *idle;
    struct weir__window window;
    size_t spare, created; /* pages to take from the spare ones, and to create; donors give the rest */
    enum weir__use use;    /* what the window was looked for with */
    bool may_go_on;        /* WEIR__WAIT_HOST: there is more to try if that fails */
};

struct weir__choice weir__ladder_next(struct weir_pool *pool, const struct weir__request *request);
/* The request's bytes right behind a used extent: WEIR__MAP, or WEIR__GIVE_UP. */
struct weir__choice weir__ladder_behind(struct weir_pool *pool, const struct weir__request *request,
                                        const struct weir__extent *block);
/* The idle extent with whole pages that was freed first of those that are not complete, or NULL. */
struct weir__extent *weir__ladder_oldest_incomplete(const struct weir_pool *pool);
/* Where windows for a request are looked for; `asker` must outlive the ground. */
struct weir__asker {
    const struct weir__order *order;
    uint32_t slot;
};
struct weir__ground weir__ladder_ground(struct weir_pool *pool, const struct weir__asker *asker, enum weir__use use);
/* Donors for `pages` pages, as weir__place_donors, over all idle extents of that kind. */
size_t weir__ladder_donors(const struct weir_pool *pool, const struct weir__asker *asker, enum weir__use use,
                           size_t pages, struct weir__donation *out, size_t room, size_t *found);

/* ---- changes that need the driver (move.c, give_back.c) -------------------------------------------------------- */

/* (unlocks) Carries a WEIR__MAP choice out. Fails: WEIR_NOT_READY when another pool of the family took what the
 * ladder saw, or the driver has no memory for a page or for its mapping, and the request says now how far it went, or that donors are in use; WEIR_DRIVER; WEIR_OUT_OF_HOST_MEMORY. The pool is as it was, but that donors may be spare pages now. */
enum weir_status weir__move(struct weir_pool *pool, struct weir__request *request, const struct weir__choice *choice,
                            struct weir__extent **out);
/* Claims an extent that is in no index; and ends that, as what it was. */
void weir__mark_moving(struct weir_pool *pool, struct weir__extent *extent);
void weir__unclaim(struct weir_pool *pool, struct weir__extent *extent);
/* (unlocks; give_back.c) Unmaps and releases up to `pages` pages that are idle and complete. Gives: *done. */
enum weir_status weir__give_back(struct weir_pool *pool, size_t pages, size_t *done);
/* Around all that a call does with memory in hand and the lock let go: the walk makes allowance for it, and a request about
 * to be refused waits for its end. */
void weir__claim_begin(struct weir_pool *pool);
void weir__claim_end(struct weir_pool *pool);
/* (unlocks) The host waits, for a request whose deadline runs, until the tags that an unused extent bears now are complete.
 * The extent may be gone by then where it is not claimed. Fails: WEIR_OUT_OF_MEMORY past the deadline; WEIR_DRIVER. (shared.c) */
enum weir_status weir__wait_for_tags(struct weir_pool *pool, struct weir__request *request,
                                     const struct weir__extent *unused);
/* (unlocks) The same with what begins a wait, and counts its time. (shared.c) */
enum weir_status weir__wait_for_extent(struct weir_pool *pool, struct weir__request *request,
                                       const struct weir__extent *unused);
/* (unlocks) The same for whatever comes first, where that may be; there is a change, or the extent is complete. (shared.c) */
enum weir_status weir__wait_on_host(struct weir_pool *pool, struct weir__request *request,
                                    const struct weir__extent *unused);
/* Until when a request may wait; it runs from the first time on. (shared.c) */
uint64_t weir__deadline(struct weir_pool *pool, struct weir__request *request);
/* The host is going to wait for a request: counted once, and its deadline runs. (shared.c) */
void weir__begin_host_wait(struct weir_pool *pool, struct weir__request *request);
/* Waits for another call's claim to end. False past the deadline. */
bool weir__wait_for_claims(struct weir_pool *pool, uint64_t deadline_ns);

/* ---- the rest --------------------------------------------------------------------------------------------------- */

/* Registers the observer that keeps a pool's trace and its slots true (observe.c). */
void weir__pool_observe(struct weir_pool *pool);

/* For the emulated device's watch (tell.c): a block has been given to a stream; it comes back, unused after its noted
 * uses and after what is queued on the slot's stream, or, with an event, after the event's record. */
void weir__tell_handed_out(struct weir_pool *pool, const struct weir__extent *block, weir_stream stream);
void weir__tell_taken_back(struct weir_pool *pool, const struct weir__extent *block, uint32_t slot, weir_event event);

/* Fails: WEIR_INVALID or WEIR_NOT_SUPPORTED when a call names no stream that it can mean. */
enum weir_status weir__check_stream(const char *call, weir_stream stream);
/* The slot of a stream that a call names, which is the same stream still. Fails: WEIR_INVALID for another device's,
 * WEIR_DRIVER, WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status weir__named_slot(struct weir_pool *pool, const char *call, weir_stream stream, uint32_t *slot);
/* The live block that begins there, which is no front's own from now on. Fails: WEIR_INVALID. */
enum weir_status weir__block_at(struct weir_pool *pool, const char *call, const void *block, struct weir__extent **out);
/* What is given back is unused after its noted uses and what is queued on a slot, up to now. Needs: room for a tag. */
void weir__put_tags(struct weir_pool *pool, struct weir__extent *extent, uint32_t slot);
/* weir_pool_free. Gives: what had been asked for; *requested_bytes is as it was where that is not known yet, in a host function.
 * NULL: nobody asks. */
enum weir_status weir__pool_free(struct weir_pool *pool, void *block, weir_stream stream, size_t *requested_bytes);
/* The slot of a stream, made if there is none. WEIR__SLOT_NONE without host memory. */
uint32_t weir__slot_for(struct weir_pool *pool, weir_stream stream);
/* Makes room by forgetting slots whose streams are gone and whose work is complete. */
void weir__forget_gone(struct weir_pool *pool);
/* (unlocks) The same in deterministic mode, where nobody sees work complete by itself: when there are many such slots the
 * host waits for them first, at most until the call's wait limit. Otherwise nothing. */
void weir__forget_gone_in_order(struct weir_pool *pool);

/* A pool that has nothing yet but its device and its locks; NULL without host memory. */
struct weir_pool *weir__pool_new(struct weir_device *device);
/* Opens what a pool needs whose options are settled, unless `status` says that something has failed already. On failure the
 * pool is no more. */
enum weir_status weir__pool_open(struct weir_pool *pool, enum weir_status status, const char *trace_path);
/* Every pool is known from its create to its destroy (find.c). */
void weir__pool_known(struct weir_pool *pool);
void weir__pool_unknown(struct weir_pool *pool);
/* Gives: the block that an address lies in. Fails: WEIR_INVALID, WEIR_OUT_OF_HOST_MEMORY. Needs: the pool's lock. */
enum weir_status weir__find_block(struct weir_pool *pool, const char *call, const void *address,
                                  struct weir__extent **block);
/* All memory of the pool, what is mapped and what will be, can be used by another device too, from now on to its end (peer.c).
 * Fails: WEIR_DRIVER; what is there may be usable in part. */
WEIR_API enum weir_status weir__pool_add_peer(struct weir_pool *pool, CUdevice peer);
/* One request of the driver's that it has no memory for. */
struct weir__room {
    size_t bytes; /* asked for; 0: not known */
    size_t given_bytes;
    uint64_t deadline_ns; /* for the waits of all rounds; 0: there was none yet */
};
/* Gives back to the driver what is idle, all that is complete; if none is, the host waits until some is, as in the ladder. Gives:
 * whether less is held than before. False too where no round can help: what is live leaves too little, or as much as the device has
 * been given back already, and others have taken it. */
WEIR_API bool weir__pool_make_room(struct weir_pool *pool, struct weir__room *room);
/* Whether an address is the pool's: of a block, or where there was or may be one. Without the pool's lock, but where policy
 * or blocks that stand alone ask for a look. */
WEIR_API bool weir__pool_has(struct weir_pool *pool, const void *address);
/* Calls that hold a pool's lock now are past that when this returns. Needs: no pool's lock. */
void weir__pools_pass(void);
/* Says more of a call that failed with WEIR_INVALID, when what it named is a block of another pool. Needs: no pool's lock. */
enum weir_status weir__explain(struct weir_pool *pool, const char *call, const void *block, enum weir_status status);

/* Bytes of the addresses for blocks of no bytes. */
size_t weir__zero_range_bytes(const struct weir_pool *pool);
/* WEIR_OK when a call may take the pool's lock: there is a pool, and this process is the one that made it. */
enum weir_status weir__pool_usable(const struct weir_pool *pool, const char *call);
/* Takes the lock and the frees that host functions left; gives it back. For calls that read the pool. */
void weir__pool_lock(struct weir_pool *pool);
void weir__pool_unlock(struct weir_pool *pool);
/* Takes back what host functions freed. Gives: whether there was anything. */
bool weir__pool_take_inbox(struct weir_pool *pool);
/* Lock and turn, for calls that change the pool; in a host function, which must not wait, without it. */
void weir__pool_begin(struct weir_pool *pool);
void weir__pool_end(struct weir_pool *pool);

#endif
