/* SPDX-License-Identifier: Apache-2.0 */
/* weir's pool under one of its policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/pool.h"
#include "target.h"

enum { MOST_STREAMS = 64 /* whose idle bytes are asked for */ };

struct of_pool {
    struct weir_pool *pool;
    uintptr_t base; /* of the arena, from which the recorder counts */
    bool compares;
    uint64_t compared, equal;
    struct weir_stream_stats stats[MOST_STREAMS]; /* room for its answer, */
    uint32_t numbers[MOST_STREAMS];               /* and the trace's numbers of those streams then */
};

static struct of_pool *of(struct run *run) { return run->target; }
static struct weir_pool *pool_of(struct run *run) { return of(run)->pool; }

/* ---- open and close --------------------------------------------------------------------------------------------- */

static bool find_policy(const char *name, enum weir_policy *policy) {
    static const char *const names[] = {"latency", "footprint", "per-stream"};
    static const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *policy = policies[i];
            return true;
        }
    return false;
}

static bool open_pool(struct run *run, char *why, size_t room) {
    const struct setup *setup = run->setup;
    struct weir_pool_options options = {.size = sizeof options, .trace_path = ""};
    if (!find_policy(setup->policy, &options.policy)) {
        snprintf(why, room, "policy %s is not one of latency, footprint, per-stream", setup->policy);
        return false;
    }
    options.limit_bytes = run->device->capacity_bytes;
    options.deterministic = setup->deterministic;
    struct of_pool *made = calloc(1, sizeof *made);
    if (made == NULL) {
        snprintf(why, room, "no host memory for a pool");
        return false;
    }
    if (weir_pool_create(run->device, &options, &made->pool) != WEIR_OK) {
        snprintf(why, room, "%s", weir_last_error()->message);
        free(made);
        return false;
    }
    made->base = made->pool->pages.arena;
    made->compares = setup->deterministic && run->trace->offsets != NULL && made->base != 0;
    run->target = made;
    return true;
}

static void close_pool(struct run *run) {
    weir_pool_destroy(pool_of(run));
    free(run->target);
}

/* Without a name it gets the trace's own id, so that the report speaks of the stream as the trace does. */
static void stream_opened(struct run *run, uint32_t stream) {
    char name[sizeof run->trace->stream_names[stream]];
    snprintf(name, sizeof name, "%s", run->trace->stream_names[stream]);
    if (name[0] == 0) snprintf(name, sizeof name, "stream %llu", (unsigned long long)run->trace->stream_ids[stream]);
    weir_pool_name_stream(pool_of(run), run->streams[stream], name);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void compare(struct run *run, const struct op *op) {
    struct of_pool *own = of(run);
    const uint64_t recorded = run->trace->offsets[op->block];
    if (recorded == UINT64_MAX) return;
    own->compared++;
    own->equal += (uintptr_t)run->blocks[op->block] - own->base == recorded;
}

static enum weir_status alloc_block(struct run *run, const struct op *op, weir_stream stream) {
    const enum weir_status status =
        weir_pool_alloc_aligned(pool_of(run), op->bytes, (size_t)1 << op->align, stream, &run->blocks[op->block]);
    if (status == WEIR_OK && of(run)->compares) compare(run, op);
    return status;
}

static enum weir_status free_block(struct run *run, const struct op *op, weir_stream stream) {
    return weir_pool_free(pool_of(run), run->blocks[op->block], stream);
}

static enum weir_status note_use(struct run *run, const struct op *op, weir_stream stream) {
    return weir_pool_note(pool_of(run), run->blocks[op->block], stream);
}

static enum weir_status free_any(struct run *run, const struct op *op, weir_stream stream) {
    (void)stream;
    return weir_pool_free_any(pool_of(run), run->blocks[op->block]);
}

/* Who can't name events says that the stream on which it was recorded uses the block, up to now. */
static enum weir_status free_after(struct run *run, const struct op *op, weir_stream stream, weir_event event) {
    if (!run->setup->blind) return weir_pool_free_after(pool_of(run), run->blocks[op->block], event);
    const uint32_t on = run->recorded_on[op->event];
    const enum weir_status status = run->stream_open[on] ? note_use(run, op, run->streams[on]) : WEIR_OK;
    return status == WEIR_OK ? free_block(run, op, stream) : status;
}

static enum weir_status iteration(struct run *run) { return weir_pool_mark_iteration(pool_of(run)); }

/* ---- what it tells ---------------------------------------------------------------------------------------------- */

static void figures(struct run *run, struct outcome *so_far) {
    const struct of_pool *own = of(run);
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (weir_pool_get_stats(own->pool, &stats) != WEIR_OK) return;
    so_far->peak_held_bytes = stats.peak_held_bytes;
    so_far->peak_stranded_bytes = stats.peak_stranded_bytes;
    so_far->memory_calls = stats.memory_calls;
    so_far->order_calls = stats.order_calls;
    so_far->page_moves = stats.pages_moved;
    so_far->moved_bytes = stats.moved_bytes;
    so_far->device_waits = stats.device_waits;
    so_far->host_waits = stats.host_waits;
    so_far->host_wait_ns = stats.host_wait_ns;
    so_far->uses_not_told = 0;
    so_far->addresses_compared = own->compared;
    so_far->addresses_equal = own->equal;
    if (so_far->ending == ENDED_OUT_OF_MEMORY) weir_pool_report(own->pool, so_far->report, sizeof so_far->report);
}

/* The trace's number of a stream that the pool knows and that is open there; stream_count: none. Mostly it is as for the
 * last time. */
static uint32_t number_of(const struct run *run, weir_stream stream, uint32_t guess) {
    const uint32_t count = run->trace->stream_count;
    if (guess < count && run->stream_open[guess] && run->streams[guess] == stream) return guess;
    for (uint32_t i = 0; i < count; i++)
        if (run->stream_open[i] && run->streams[i] == stream) return i;
    return count;
}

/* Of streams beyond the table it is not known. */
static void idle_by_stream(struct run *run, uint64_t *bytes, uint64_t *stranded) {
    struct of_pool *own = of(run);
    const uint32_t streams = run->trace->stream_count;
    size_t count = 0;
    own->stats->size = sizeof *own->stats;
    const bool told = weir_pool_get_stream_stats(own->pool, own->stats, MOST_STREAMS, &count) == WEIR_OK;
    *stranded = own->pool->stranded_bytes;
    own->pool->stranded_bytes = 0;
    for (uint32_t i = 0; i < streams; i++) bytes[i] = told && count <= MOST_STREAMS ? 0 : NOT_KNOWN;
    for (size_t k = 0; told && k < count && k < MOST_STREAMS; k++) {
        const struct weir_stream_stats *entry = &own->stats[k];
        const uint32_t i = entry->destroyed ? streams : number_of(run, entry->stream, own->numbers[k]);
        own->numbers[k] = i;
        if (i < streams) bytes[i] = entry->idle_bytes;
    }
}

const struct target target_pool = {.name = "pool",
                                   .open = open_pool,
                                   .close = close_pool,
                                   .alloc = alloc_block,
                                   .free = free_block,
                                   .free_any = free_any,
                                   .free_after = free_after,
                                   .use = note_use,
                                   .iteration = iteration,
                                   .stream_opened = stream_opened,
                                   .figures = figures,
                                   .idle_by_stream = idle_by_stream};
