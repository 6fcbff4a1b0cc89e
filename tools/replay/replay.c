/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <stdio.h>
#include <stdlib.h>

struct run {
    struct weir_device *device;
    struct weir_pool *pool;
    const struct trace *trace;
    void **blocks;
    weir_stream *streams;
    bool *stream_open;
    weir_event *events;
};

/* ---- streams and events, made when first used ------------------------------------------------------------------- */

static enum weir_status stream_of(struct run *run, uint32_t number, weir_stream *stream) {
    if (!run->stream_open[number]) {
        enum weir_status status = weir_stream_create(run->device, &run->streams[number]);
        if (status != WEIR_OK) return status;
        run->stream_open[number] = true;
        if (run->trace->stream_names[number][0] != 0)
            weir_pool_name_stream(run->pool, run->streams[number], run->trace->stream_names[number]);
    }
    *stream = run->streams[number];
    return WEIR_OK;
}

static enum weir_status destroy_stream(struct run *run, uint32_t number) {
    if (!run->stream_open[number]) return WEIR_OK;
    run->stream_open[number] = false;
    return weir_stream_destroy(run->device, run->streams[number]);
}

static enum weir_status destroy_event(struct run *run, uint32_t number) {
    if (run->events[number] == NULL) return WEIR_OK;
    weir_event event = run->events[number];
    run->events[number] = NULL;
    return weir_event_destroy(run->device, event);
}

static enum weir_status record(struct run *run, const struct op *op, weir_stream stream) {
    enum weir_status status = WEIR_OK;
    if (run->events[op->event] == NULL) status = weir_event_create(run->device, false, &run->events[op->event]);
    return status == WEIR_OK ? weir_event_record(run->device, run->events[op->event], stream) : status;
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

/* A free that names no stream: every stream that is there may have used the block. */
static enum weir_status free_any(struct run *run, const struct op *op, weir_stream stream) {
    enum weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < run->trace->stream_count && status == WEIR_OK; i++)
        if (run->stream_open[i]) status = weir_pool_note(run->pool, run->blocks[op->block], run->streams[i]);
    return status == WEIR_OK ? weir_pool_free(run->pool, run->blocks[op->block], stream) : status;
}

/* An event destroyed before has passed as far as the trace tells: then the free is the stream's own. */
static enum weir_status free_after(struct run *run, const struct op *op, weir_stream stream) {
    weir_event event = run->events[op->event];
    return event != NULL ? weir_pool_free_after(run->pool, run->blocks[op->block], event)
                         : weir_pool_free(run->pool, run->blocks[op->block], stream);
}

static bool needs_stream(unsigned kind) { return kind <= OP_SYNC_STREAM; }

static enum weir_status perform(struct run *run, const struct op *op) {
    weir_stream stream = NULL;
    if (needs_stream(op->kind)) {
        enum weir_status status = stream_of(run, op->stream, &stream);
        if (status != WEIR_OK) return status;
    }
    switch ((enum op_kind)op->kind) {
    case OP_ALLOC:
    case OP_LIVE:
        return weir_pool_alloc(run->pool, op->bytes, stream, &run->blocks[op->block]);
    case OP_FREE:
        return weir_pool_free(run->pool, run->blocks[op->block], stream);
    case OP_FREE_ANY:
        return free_any(run, op, stream);
    case OP_FREE_AFTER:
        return free_after(run, op, stream);
    case OP_NOTE:
        return weir_pool_note(run->pool, run->blocks[op->block], stream);
    case OP_RECORD:
        return record(run, op, stream);
    case OP_WAIT:
        return run->events[op->event] == NULL ? WEIR_OK : weir_stream_wait(run->device, stream, run->events[op->event]);
    case OP_HOST_WAIT:
        return run->events[op->event] == NULL ? WEIR_OK : weir_event_synchronize(run->device, run->events[op->event]);
    case OP_SYNC_STREAM:
        return weir_stream_synchronize(run->device, stream);
    case OP_SYNC_DEVICE:
        return weir_device_synchronize(run->device);
    case OP_DESTROY_STREAM:
        return destroy_stream(run, op->stream);
    case OP_DESTROY_EVENT:
        return destroy_event(run, op->event);
    case OP_WORK:
        return WEIR_OK;
    case OP_ITERATION:
        return weir_pool_mark_iteration(run->pool);
    }
    return WEIR_OK;
}

/* ---- a run ------------------------------------------------------------------------------------------------------ */

static bool open_run(struct run *run, enum weir_policy policy, size_t capacity, char *why, size_t room) {
    struct weir_pool_options options = {
        .size = sizeof options, .policy = policy, .limit_bytes = capacity, .trace_path = ""};
    run->blocks = calloc((size_t)run->trace->block_count + 1, sizeof *run->blocks);
    run->streams = calloc((size_t)run->trace->stream_count + 1, sizeof *run->streams);
    run->stream_open = calloc((size_t)run->trace->stream_count + 1, sizeof *run->stream_open);
    run->events = calloc((size_t)run->trace->event_count + 1, sizeof *run->events);
    if (run->blocks == NULL || run->streams == NULL || run->stream_open == NULL || run->events == NULL) {
        snprintf(why, room, "no host memory for %u blocks", run->trace->block_count);
        return false;
    }
    if (weir_pool_create(run->device, &options, &run->pool) == WEIR_OK) return true;
    snprintf(why, room, "%s", weir_last_error()->message);
    return false;
}

static void close_run(struct run *run) {
    weir_pool_destroy(run->pool);
    for (uint32_t i = 0; run->events != NULL && i < run->trace->event_count; i++) destroy_event(run, i);
    for (uint32_t i = 0; run->stream_open != NULL && i < run->trace->stream_count; i++) destroy_stream(run, i);
    free(run->blocks);
    free(run->streams);
    free(run->stream_open);
    free(run->events);
}

static bool perform_all(struct run *run, struct outcome *outcome, char *why, size_t room) {
    for (size_t i = 0; i < run->trace->op_count; i++) {
        const struct op *op = &run->trace->ops[i];
        /* Work takes no time, so all that was queued is done; else the answer would change from run to run. */
        enum weir_status status = weir_device_synchronize(run->device);
        if (status == WEIR_OK) status = perform(run, op);
        if (status == WEIR_OUT_OF_MEMORY) {
            outcome->failed_line = op->line;
            return true;
        }
        if (status != WEIR_OK) {
            snprintf(why, room, "line %u: %s", op->line, weir_last_error()->message);
            return false;
        }
    }
    outcome->completed = true;
    return true;
}

bool replay(struct weir_device *device, const struct trace *trace, enum weir_policy policy, size_t capacity,
            struct outcome *outcome, char *why, size_t room) {
    struct run run = {.device = device, .trace = trace};
    *outcome = (struct outcome){0};
    bool done = open_run(&run, policy, capacity, why, room) && perform_all(&run, outcome, why, room);
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (done && weir_pool_get_stats(run.pool, &stats) == WEIR_OK) outcome->peak_held_bytes = stats.peak_held_bytes;
    close_run(&run);
    return done;
}

/* ---- the smallest device ---------------------------------------------------------------------------------------- */

bool replay_scan(struct weir_device *device, const struct trace *trace, enum weir_policy policy, size_t most_bytes,
                 size_t *bytes, struct outcome *found, char *why, size_t room) {
    struct weir_device_info info = {.size = sizeof info};
    struct outcome outcome = {0};
    *bytes = 0;
    *found = outcome;
    if (weir_device_get_info(device, &info) != WEIR_OK) {
        snprintf(why, room, "%s", weir_last_error()->message);
        return false;
    }
    size_t page = info.granularity_bytes, most = most_bytes / page;
    size_t enough = (trace->peak_rounded_bytes + page - 1) / page, short_of = enough > 0 ? enough - 1 : 0;
    size_t step = enough / 512 > 0 ? enough / 512 : 1;
    if (enough == 0) enough = 1;
    while (!outcome.completed) { /* up in steps that grow, from the least that can do */
        if (enough > most) return true;
        if (!replay(device, trace, policy, enough * page, &outcome, why, room)) return false;
        if (outcome.completed) break;
        short_of = enough;
        enough = enough == most ? most + 1 : enough + enough / 4 + 1;
        if (enough > most && short_of < most) enough = most;
    }
    *found = outcome;
    while (enough - short_of > step) {
        size_t middle = short_of + (enough - short_of) / 2;
        if (!replay(device, trace, policy, middle * page, &outcome, why, room)) return false;
        *(outcome.completed ? &enough : &short_of) = middle;
        if (outcome.completed) *found = outcome;
    }
    *bytes = enough * page;
    return true;
}
