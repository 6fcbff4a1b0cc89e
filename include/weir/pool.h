/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: one stream-aware caching allocator a device, in which a stream is a tag on idle memory, not a pool of its
 * own, so that nothing is stranded.
 *
 * Words. live: bytes handed out, rounded. requested: as asked. held: bytes taken from the driver. idle: mapped and free.
 * stranded: idle bytes of other streams while the asking stream is short of memory. page: one physical handle of the device's granularity.
 * tag: (stream, position) after which an idle block is really unused. memory call: create, release, reserve, map, unmap,
 * set access, alloc, free. order call: event record, stream wait.
 *
 * Promises. (1) A block is never given to a stream that is not ordered after all its tags, or made to wait for them.
 * (2) live <= held <= max(limit, held when the limit was lowered) <= capacity. (3) Out of memory is an answer only when
 * the pages that hold a live byte, plus the pages asked for, plus what others hold, exceed the limit, or the wait limit
 * passed; after it the pool is as it was. (6) Any call may come from any thread; no lock is held across a driver call
 * except queries. docs/design.md section 4 has the whole list.
 *
 * Streams: 0 and 1 name the legacy stream, 2 the calling thread's default stream, another one in each thread (not in host
 * functions). A stream of weir_stream_create that was named to a pool is destroyed by weir_stream_destroy, so that the pool
 * hears of it: it records events on streams, also on behalf of others. A stream made elsewhere may be destroyed elsewhere: the
 * pool touches it in calls that name it alone, and asks the driver at each request whether its handle is still the same
 * stream's (before CUDA 12.0 it can't: there such streams too end by weir_stream_destroy). Of streams that capture a
 * graph see weir_pool_capture_begin.
 *
 * Ownership: the pool owns its memory; a block belongs to the caller from alloc to free. Destroying a pool waits for
 * the device and takes back what is live. */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/device.h"
#include "weir/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

struct weir_pool;

/* ---- create and destroy ---------------------------------------------------------------------------------------- */

enum weir_policy {
    WEIR_POLICY_DEFAULT = 0, /* WEIR_OPTIONS policy:..., else latency */
    WEIR_POLICY_LATENCY,     /* takes new pages while there are any, then waits for other streams' idle blocks */
    WEIR_POLICY_FOOTPRINT,   /* waits (on the device) for other streams' idle blocks first, then takes new pages */
    WEIR_POLICY_PER_STREAM,  /* one pool a stream, as caching allocators do today; to compare with */
};

enum weir_movable {
    WEIR_MOVABLE_DEFAULT = 0, /* WEIR_OPTIONS movable:..., else on */
    WEIR_MOVABLE_ON,          /* idle pages may be mapped at other addresses */
    WEIR_MOVABLE_OFF, /* an address keeps its page until that is given back to the driver, as with plain allocations */
};

/* size: that of the program's own header. Fields beyond it count as 0, so programs built with an older header go on. */
struct weir_pool_options {
    size_t size; /* sizeof(struct weir_pool_options) */
    enum weir_policy policy;
    size_t limit_bytes;     /* most bytes taken from the driver; 0: WEIR_OPTIONS limit:..., else the capacity */
    uint64_t wait_limit_ns; /* longest host wait of one call; 0: WEIR_OPTIONS wait_limit:..., else 10 s */
    const char *trace_path; /* record all calls in weir-trace 1 (%p in the name: process id, %d: device, %%: a percent
                             * sign; see docs/trace.md); NULL: WEIR_TRACE, else no trace; "": none */
    bool deterministic;     /* addresses depend on the order of calls alone, see below; false: WEIR_OPTIONS, else not */
    double limit_fraction;  /* the limit as a fraction of the capacity, above 0, at most 1; 0: limit_bytes says it */
    enum weir_movable movable;
    const char *name; /* of 1 to 63 characters, for reports; NULL: WEIR_OPTIONS name:..., else "pool" */
    size_t
        history; /* how many of its last events a snapshot tells, at most 1048576; 0: WEIR_OPTIONS history:..., else none */
};

/* Deterministic mode. Where blocks lie, as offsets from the pool's first address, depends on the order of the pool's calls
 * alone (and on what is destroyed by weir_stream_destroy), never on how far the device has got: the same calls give the
 * same offsets. So nothing is learned by asking the device; only what the pool has made a stream, or the host, wait for is
 * known to be over, and a request that needs pages waits on the host for those that were freed first. Calls of several
 * threads are made one after another, also while one waits; trim waits too. Policy per-stream waits, oldest first, for
 * blocks with noted uses before it takes more memory; its addresses are the driver's.
 * Not covered: what a wait limit cut short, a device that has less to give than the limit (set it to what is there), and
 * calls inside host functions, which come when the device runs them. */

/* Creates a pool on an open device. Keys of WEIR_OPTIONS (key:value,... with file:PATH for a file of `key = value` lines;
 * docs/options.md) apply where the struct says 0 or NULL.
 * Fails: WEIR_INVALID (unknown key: the nearest known one is named; limit_bytes and limit_fraction both given),
 * WEIR_DRIVER, WEIR_SYSTEM, WEIR_OUT_OF_HOST_MEMORY. *out is NULL. */
WEIR_API enum weir_status weir_pool_create(struct weir_device *device, const struct weir_pool_options *options,
                                           struct weir_pool **out);
/* NULL is allowed. Inside a host function it is an error, which is logged, and nothing happens. */
WEIR_API void weir_pool_destroy(struct weir_pool *pool);
/* Gives: the keys of WEIR_OPTIONS, what they take and do, for a program's --help. Static storage. Threads: any. */
WEIR_API const char *weir_pool_options_help(void);
/* Reads a text as weir_pool_create reads WEIR_OPTIONS, files that it names too, and does nothing with it. Threads: any.
 * Fails: as weir_pool_create does for its options, but for what only the device can tell (a limit above its memory). */
WEIR_API enum weir_status weir_pool_options_check(const char *text);

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

/* Gives at least `bytes` bytes that are ready for use on `stream`. The host waits where nothing else serves, at most the wait
 * limit, for whichever memory comes first: of any stream, freed by any thread. Of several requests that wait the one that has
 * waited longest comes first.
 *
 * Needs:   a stream of the pool's device, or 0 for the default stream.
 * Gives:   *out, aligned to 512; contents undefined. bytes == 0 gives a unique address of no size.
 * Fails:   WEIR_OUT_OF_MEMORY when idle memory of every stream has been tried (see weir_pool_report), at once for more than the limit;
 *          WEIR_DRIVER with the driver's code in weir_last_error(); WEIR_OUT_OF_HOST_MEMORY; WEIR_NOT_SUPPORTED inside a
 *          host function when it would take a driver call. *out is NULL and the pool as it was. */
WEIR_API enum weir_status weir_pool_alloc(struct weir_pool *pool, size_t bytes, weir_stream stream, void **out);

/* The same at an address that is a multiple of `alignment`, a power of two from 1 to 1 GiB. The rest of a page that it leaves
 * before it is not lost. A trace has the alignment too (docs/trace.md).
 * Fails: as weir_pool_alloc; WEIR_INVALID for another alignment; WEIR_NOT_SUPPORTED when none of the pool's addresses, 32 times
 * as many bytes as the device has, is aligned so and has room behind it (WEIR_OUT_OF_MEMORY when all that are are in use). Policy per-stream asks for that much more and gives what is
 * before and behind to its pools. */
WEIR_API enum weir_status weir_pool_alloc_aligned(struct weir_pool *pool, size_t bytes, size_t alignment,
                                                  weir_stream stream, void **out);

/* Gives a block that stands alone on a handle of its own, so that it can be exported: its bytes are rounded up to whole pages of the
 * device, and it is never a part of others' memory. Freed as any other; then it is idle until the memory is needed, and
 * goes back to the driver. It does not grow, and keeps its pages when it becomes smaller.
 * Fails: as weir_pool_alloc; WEIR_NOT_SUPPORTED where the device's memory can't be exported, in a capture, in a host function. */
WEIR_API enum weir_status weir_pool_alloc_exportable(struct weir_pool *pool, size_t bytes, weir_stream stream,
                                                     void **out);
/* Gives: a file descriptor by which another process can import such a block (cuMemImportFromShareableHandle) and map all of its
 * rounded bytes; the caller closes it. What another process has imported stays there until it has given it up too, whatever
 * becomes of the block here; order between the processes is theirs to make.
 * Fails: WEIR_INVALID when the block is none of weir_pool_alloc_exportable; WEIR_DRIVER; WEIR_NOT_SUPPORTED in host functions.
 * *fd is -1. */
WEIR_API enum weir_status weir_pool_export(struct weir_pool *pool, const void *block, int *fd);

/* Makes a block larger or smaller where it is, or not at all. Its first bytes stay as they are. A part that is new is ready for use
 * on `stream`, contents undefined; one that is cut off is unused after the noted uses and what is queued on `stream` now, so
 * every use that was not noted precedes the position of `stream`, as with a free. From then on the block counts as allocated on
 * `stream`, with a new number: in a trace it was freed and allocated anew.
 * Gives:   WEIR_NOT_READY, which is no failure, when there is no room behind the block or no memory for it, or when what is new
 *          is in use by a stream that captures; nothing has changed. A block of no bytes, and any under the policy per-stream, does not grow.
 * Fails:   as weir_pool_free and weir_pool_alloc, but for WEIR_OUT_OF_MEMORY; WEIR_NOT_SUPPORTED for a graph's block, on the legacy
 *          stream while another one captures, and inside a host function. Nothing changes. No other call may free or resize the
 *          block meanwhile. */
WEIR_API enum weir_status weir_pool_resize(struct weir_pool *pool, void *block, size_t bytes, weir_stream stream);

/* Takes a block back. Promises that every use that was not noted precedes the position of `stream` now.
 * NULL is allowed. Inside a host function it is only queued; what is wrong with it is then logged at the next call.
 * A stream that is gone is the same as none: all that is queued comes before. Fails: WEIR_INVALID for an address that is no
 * block's start or is free already, or for another device's stream; WEIR_OUT_OF_HOST_MEMORY; nothing changes. */
WEIR_API enum weir_status weir_pool_free(struct weir_pool *pool, void *block, weir_stream stream);

/* Gives a block that names no stream: ready for use on any stream, at once. So it is only given what is complete, new or moved;
 * the host may wait, at most the wait limit. Fails as weir_pool_alloc. */
WEIR_API enum weir_status weir_pool_alloc_any(struct weir_pool *pool, size_t bytes, void **out);

/* Takes a block back without naming a stream: it is unused once all that is queued now in the context of the pool's device has
 * passed, on streams that the pool has never seen too. The host does not wait. Where the driver has no event for a whole
 * context (before CUDA 12.5) the request that needs the memory waits for the context, and the wait limit does not bound that.
 * Nothing is recorded while a stream is seen to capture (the legacy stream says so of blocking ones; of others those that weir made,
 * and those between weir_pool_capture_begin and _end): a request that needs the memory then waits for the device in the same way.
 * Fails as weir_pool_free. */
WEIR_API enum weir_status weir_pool_free_any(struct weir_pool *pool, void *block);

/* Takes a block back; it is unused once `event`, as recorded latest before this call, has passed (and the noted uses).
 * Needs: an event that has been recorded. The event may be recorded again right after. */
WEIR_API enum weir_status weir_pool_free_after(struct weir_pool *pool, void *block, weir_event event);

/* Tells the pool that `stream` uses the block too; the position is taken when the block is freed. */
WEIR_API enum weir_status weir_pool_note(struct weir_pool *pool, void *block, weir_stream stream);

/* The addresses [address, address + bytes), inside one live block, keep their pages from now on: while the block lives and after its
 * free too, until they are unregistered as often, by the same address and size. For what remembers addresses: networks,
 * communication libraries. Freed, they serve requests as ever, but their pages are neither moved nor given back, and count
 * as unmovable when memory is short. Whole pages are kept, and of an exportable block, which has one handle and serves no other request,
 * all of them; weir_pool_destroy ends it. In no trace.
 * Fails: WEIR_INVALID when the range is empty, or not inside one live block, or was not registered; WEIR_OUT_OF_HOST_MEMORY.
 * Nothing changes. */
WEIR_API enum weir_status weir_pool_register(struct weir_pool *pool, const void *address, size_t bytes);
WEIR_API enum weir_status weir_pool_unregister(struct weir_pool *pool, const void *address, size_t bytes);

/* The block that an address lies in. */
struct weir_block {
    size_t size; /* in: sizeof(struct weir_block) */
    void *start;
    size_t bytes, requested_bytes; /* rounded, as asked */
    weir_stream stream;            /* it was allocated on; 0 with any_stream, and when the stream is no more */
    bool any_stream;
    uint64_t number; /* as in the trace */
};
/* Gives: *out for any address inside a live block, and for the address of one of no bytes. The time does not depend on how many
 * blocks there are; the first call builds the table, which later requests and frees keep.
 * Fails: WEIR_INVALID when the address lies in no live block of this pool, WEIR_OUT_OF_HOST_MEMORY; *out is as it was. */
WEIR_API enum weir_status weir_pool_find(struct weir_pool *pool, const void *address, struct weir_block *out);

/* Marks the start of an iteration (a training step), for the trace and the reports, and so that the pool learns: from the third
 * iteration on that makes the same requests in the same order (the fifth, where blocks outlive their iteration), each goes where it
 * went before, and no memory call is made. Where iterations are not marked, or differ, nothing is learned. */
WEIR_API enum weir_status weir_pool_mark_iteration(struct weir_pool *pool);

/* Gives held memory that is idle and complete back to the driver until held <= target_bytes, or no more can be given.
 * Waits for no work (in deterministic mode: at most until the wait limit). */
WEIR_API enum weir_status weir_pool_trim(struct weir_pool *pool, size_t target_bytes);

/* Changes the limit, also below what is live or held. What is held above a lower limit is given back to the driver: now as
 * far as it is idle and complete, the rest when requests or trims come by; until then held <= what was held when the
 * limit was lowered, nothing more is taken, and requests fail that what is live leaves no room for.
 * Gives:   the limit rounded down to whole pages.
 * Fails:   WEIR_INVALID below one page or above the capacity; WEIR_NOT_SUPPORTED in deterministic mode, where the limit is
 *          fixed at the start, and inside a host function. Nothing changes. */
WEIR_API enum weir_status weir_pool_set_limit(struct weir_pool *pool, size_t bytes);
/* The same as a fraction of the capacity, above 0, at most 1. */
WEIR_API enum weir_status weir_pool_set_limit_fraction(struct weir_pool *pool, double fraction);

/* Called for a request that would else be refused, in its thread and before the refusal: frees what it can of `wanted_bytes`,
 * by the pool's own calls or others. No lock of the pool is held; other threads' calls go on.
 * Gives: whether it is worth looking again. */
typedef bool weir_reclaim_fn(void *self, struct weir_pool *pool, size_t wanted_bytes);
/* Adds a callback. For a request all are called in the order in which they were added, each once at most, until the request
 * can be served; never from inside a callback, of this pool or another: a request made there is refused without them. None is
 * called for what exceeds the limit by itself. Where it is a family's allowance that is short (sub-pools, below), the callbacks of its
 * other pools are asked after those of the request's own, the parent's first, each with the pool that it was added to; none of
 * them for a graph's request. A callback may destroy neither pool. In deterministic mode a callback's calls come before the
 * request in the order of calls.
 * Fails: WEIR_INVALID when it is there already with this `self`; WEIR_OUT_OF_HOST_MEMORY; WEIR_NOT_SUPPORTED inside a host
 * function. */
WEIR_API enum weir_status weir_pool_add_reclaim(struct weir_pool *pool, weir_reclaim_fn *reclaim, void *self);
/* Removes a callback; when this returns, no call of it runs in another thread. A callback may remove itself; two that remove
 * each other at the same time wait for ever. Fails: WEIR_INVALID when it is not there; WEIR_NOT_SUPPORTED as above. */
WEIR_API enum weir_status weir_pool_remove_reclaim(struct weir_pool *pool, weir_reclaim_fn *reclaim, void *self);

/* A sub-pool: a pool of its own, with its own addresses, blocks, statistics and limit, that shares its parent's allowance: what
 * the parent and its sub-pools, the family, hold together stays within the parent's limit. When a request lacks what others of
 * the family hold, they give back what they have idle, the host waits for what is in use still, at most until the wait
 * limit, and their callbacks are asked; only then is it refused. All calls that take a pool take a sub-pool; policy and wait limit are the parent's. Its calls
 * are in no trace. In deterministic mode the order of the calls of the whole family counts. */
struct weir_sub_pool_options {
    size_t size;        /* sizeof(struct weir_sub_pool_options) */
    size_t limit_bytes; /* most bytes that it may hold itself; 0: as many as the parent may now */
    const char *name;   /* of 1 to 63 characters, for reports; NULL: "sub-pool" */
    bool graph;         /* for captured graphs: see below */
};
/* Creates a sub-pool of a pool that is none itself; options NULL: all defaults. A size that ends before `graph` is accepted, of programs with an older
 * header. It is destroyed by weir_pool_destroy, before its parent: to destroy a pool
 * that has sub-pools is an error, which is logged, and nothing happens.
 * Fails: as weir_pool_create. *out is NULL. */
WEIR_API enum weir_status weir_pool_create_sub(struct weir_pool *parent, const struct weir_sub_pool_options *options,
                                               struct weir_pool **out);

/* Graph capture. Memory that a graph uses comes from a sub-pool with `graph` set, which asks the device nothing and gives
 * nothing back: what was allocated in a capture is the graph's until weir_pool_destroy(graph), free or not. Between begin and
 * end, requests on `stream` to any pool of the family are served from `graph`: from what was freed in the same capture on the same
 * stream, else from new pages, for which others of the family give back what they have idle. Frees, notes and weir_pool_find
 * know a graph's block through any pool of the family; weir_pool_free_after is refused for it.
 *
 * No pool of the process breaks a capture, of any mode: on a stream that captures, on the legacy stream and of the whole context
 * nothing is recorded, waited for or asked, and where the driver is called the thread's capture mode is relaxed. Other streams go
 * on as ever. What is freed on `stream` of other pools' memory meanwhile serves other streams after the end; what was freed
 * without a stream, on the legacy one, or on one that is gone, all of them; before that once the host has waited for the device.
 *
 * begin: before or after the driver's begin; before is better, since what was freed on the stream until then can be waited for
 * meanwhile. Once more for every stream that joins. end: after the driver's end, for all streams of `graph`. The same `graph`
 * may serve several captures, one after another or side by side; they share no memory. No pool of the device can be destroyed in
 * between. A stream that is captured is destroyed after the end.
 *
 * A request on a stream that captures without begin: WEIR_NOT_SUPPORTED with a message, and the capture goes on; so does one on
 * a captured stream to a pool of another family. An event that was recorded in a capture must not be given to
 * weir_pool_free_after, and a live block that a graph reads is freed when the last launch has been queued.
 * Fails: WEIR_INVALID when `graph` is no sub-pool for graphs of the family, when the stream is captured already, or for an end
 * without begin or while a stream captures still; WEIR_NOT_SUPPORTED for the default streams and in host functions;
 * WEIR_OUT_OF_HOST_MEMORY. Nothing changes. */
WEIR_API enum weir_status weir_pool_capture_begin(struct weir_pool *pool, struct weir_pool *graph, weir_stream stream);
WEIR_API enum weir_status weir_pool_capture_end(struct weir_pool *pool, struct weir_pool *graph);

/* ---- what it tells --------------------------------------------------------------------------------------------- */

/* One list makes the struct, the text and the JSON. X(type, name, text) */
#define WEIR_POOL_STATS_LIST(X)                                                                                        \
    X(size_t, capacity_bytes, "memory of the device")                                                                  \
    X(size_t, limit_bytes, "most that the pool may hold")                                                              \
    X(size_t, live_bytes, "handed out, rounded")                                                                       \
    X(size_t, requested_bytes, "handed out, as asked")                                                                 \
    X(size_t, held_bytes, "taken from the driver")                                                                     \
    X(size_t, idle_bytes, "mapped and free")                                                                           \
    X(size_t, moving_bytes, "being moved to another address")                                                          \
    X(size_t, unmapped_bytes, "held as pages without an address")                                                      \
    X(size_t, peak_live_bytes, "peak of live")                                                                         \
    X(size_t, peak_requested_bytes, "peak of requested")                                                               \
    X(size_t, peak_held_bytes, "peak of held")                                                                         \
    X(uint64_t, live_blocks, "blocks handed out")                                                                      \
    X(uint64_t, allocs, "successful allocations")                                                                      \
    X(uint64_t, frees, "successful frees")                                                                             \
    X(uint64_t, out_of_memory, "requests refused for lack of memory")                                                  \
    X(uint64_t, memory_calls, "driver calls that take, map or give back memory")                                       \
    X(uint64_t, order_calls, "driver calls that record or wait for events")                                            \
    X(uint64_t, device_waits, "hand-overs for which a stream was made to wait")                                        \
    X(uint64_t, host_waits, "requests for which the host waited")                                                      \
    X(uint64_t, host_wait_ns, "time the host waited")                                                                  \
    X(uint64_t, pages_moved, "pages taken from one place and mapped in another")                                       \
    X(size_t, peak_stranded_bytes, "most idle on other streams when a request was short of memory")                    \
    X(uint64_t, moved_bytes, "pages moved, in bytes")                                                                  \
    X(uint64_t, memory_call_ns, "time in memory calls")                                                                \
    X(uint64_t, order_call_ns, "time in order calls")

/* peak_stranded_bytes: the most that was idle on streams other than the asking one at a moment when a request had to take
 * memory from the driver, make the host wait or move pages, or was refused. Under the policy per-stream that is what the
 * other streams' pools keep (blocks with noted uses too) when a segment is taken, the caches are given up, or the request
 * is refused. */
struct weir_pool_stats {
    size_t size; /* in: sizeof(struct weir_pool_stats) */
#define WEIR_POOL_STATS_FIELD(type, name, text) type name;
    WEIR_POOL_STATS_LIST(WEIR_POOL_STATS_FIELD)
#undef WEIR_POOL_STATS_FIELD
};

/* The same by stream: bytes, then counts from the stream's first sight on. X(type, name, text)
 * Live, idle and each count, summed over the streams, are the pool's, but for what no stream asked for: the calls and waits
 * of weir_pool_create, weir_pool_trim and weir_pool_set_limit. */
#define WEIR_STREAM_BYTES_LIST(X)                                                                                      \
    X(size_t, live_bytes, "in blocks allocated on the stream")                                                         \
    X(size_t, idle_bytes, "idle, last used by the stream (per-stream policy: kept in the stream's pool)")              \
    X(size_t, stranded_bytes, "idle on other streams when the stream was last short of memory")                        \
    X(size_t, peak_live_bytes, "peak of live")                                                                         \
    X(size_t, peak_idle_bytes, "peak of idle")                                                                         \
    X(size_t, peak_stranded_bytes, "peak of stranded")
#define WEIR_STREAM_COUNTS_LIST(X)                                                                                     \
    X(uint64_t, allocs, "successful allocations on the stream")                                                        \
    X(uint64_t, frees, "successful frees of blocks allocated on the stream")                                           \
    X(uint64_t, refusals, "requests on the stream refused for lack of memory")                                         \
    X(uint64_t, device_waits, "times the stream was made to wait for another one's idle block")                        \
    X(uint64_t, host_waits, "requests on the stream for which the host waited")                                        \
    X(uint64_t, host_wait_ns, "time the host waited for them")                                                         \
    X(uint64_t, pages_moved, "pages moved for them")                                                                   \
    X(uint64_t, memory_calls, "driver calls for them, and for frees, that take, map or give back memory")              \
    X(uint64_t, order_calls, "driver calls for them, and for frees, that record or wait for events")                   \
    X(uint64_t, memory_call_ns, "time in these memory calls")                                                          \
    X(uint64_t, order_call_ns, "time in these order calls")
#define WEIR_STREAM_STATS_LIST(X)                                                                                      \
    WEIR_STREAM_BYTES_LIST(X)                                                                                          \
    WEIR_STREAM_COUNTS_LIST(X)

/* One entry of an array. Times are the device's clock's. */
struct weir_stream_stats {
    size_t size;        /* in, of the first entry: sizeof(struct weir_stream_stats) of the program's own header */
    weir_stream stream; /* 0 too for "any stream": what calls named that name none */
    char name[32];      /* as given by weir_pool_name_stream, else "stream N" */
    bool destroyed; /* the stream is no more, its handle may be another one's; the first such entry stands for all whose
                     * work is over, with `stream` 0 */
#define WEIR_STREAM_STATS_FIELD(type, name, text) type name;
    WEIR_STREAM_STATS_LIST(WEIR_STREAM_STATS_FIELD)
#undef WEIR_STREAM_STATS_FIELD
};

/* The last refused request: what filled the device at that moment. The parts sum to the capacity:
 * live + idle_asker + idle_others + moving + unmapped (what the pool holds) + untaken + others + above_limit.
 * What the driver has free is asked for right after the refusal; inside a host function, or where the driver does not answer,
 * all that the pool does not hold counts as free. */
struct weir_pool_refusal {
    size_t size; /* in: sizeof(struct weir_pool_refusal) */
    size_t asked_bytes;
    weir_stream stream;
    uint64_t iteration; /* marks seen before the refusal */
    size_t limit_bytes;
    size_t live_bytes;
    size_t idle_asker_bytes;  /* idle, last used by the asking stream */
    size_t idle_others_bytes; /* idle on other streams */
    size_t moving_bytes;
    size_t unmapped_bytes;
    size_t untaken_bytes;      /* free, and within the limit */
    size_t largest_idle_bytes; /* largest idle run the asking stream could have used */
    size_t capacity_bytes;     /* memory of the device */
    size_t others_bytes;       /* held by others of the device: its other pools, other programs, the driver itself */
    size_t above_limit_bytes;  /* free, but beyond the limit */
};

WEIR_API void weir_pool_name_stream(struct weir_pool *pool, weir_stream stream, const char *name);
WEIR_API enum weir_status weir_pool_get_stats(struct weir_pool *pool, struct weir_pool_stats *stats);
/* Peaks, of the pool and of each stream, count from what is there now. */
WEIR_API enum weir_status weir_pool_reset_peaks(struct weir_pool *pool);
/* Fills at most `room` entries; *count is how many streams there are.
 * Needs: stats[0].size, when there is room: entries lie that many bytes apart, so that a program and a library with headers
 * of different age agree. Fields that the program's header lacks are not written, those that the library lacks are 0. More than 65536 is refused.
 * Gives: every filled entry, with that size. Fails: WEIR_INVALID. */
WEIR_API enum weir_status weir_pool_get_stream_stats(struct weir_pool *pool, struct weir_stream_stats *stats,
                                                     size_t room, size_t *count);
/* Gives: the last refusal; WEIR_NOT_READY when there was none. */
WEIR_API enum weir_status weir_pool_get_refusal(struct weir_pool *pool, struct weir_pool_refusal *refusal);
/* Writes a report for people: the last refusal if there was one, and the state now if there was none or if more has been served since;
 * what fills the device, by stream what is there and what it cost, and after a refusal what to try. Gives: the length that the whole text has; at most room - 1 characters and a zero are written. */
WEIR_API size_t weir_pool_report(struct weir_pool *pool, char *text, size_t room);
/* Writes the pool's memory of this moment for PyTorch's memory viewer: segments, blocks, their states and streams, and what
 * the option history keeps of how it came to that (docs/snapshot.md). The file takes its name when it is whole; the lock is not held while it is written.
 * Fails: WEIR_INVALID without a path, WEIR_SYSTEM with the path and the reason, WEIR_OUT_OF_HOST_MEMORY; what had that name
 * before is still there. */
WEIR_API enum weir_status weir_pool_snapshot(struct weir_pool *pool, const char *path);
/* The debug walk: every invariant of the pool. Fails: WEIR_BROKEN, the message says which and where. */
WEIR_API enum weir_status weir_pool_check(struct weir_pool *pool);

#if defined(__cplusplus)
}
#endif
#endif
