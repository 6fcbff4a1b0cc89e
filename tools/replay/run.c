/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/emulated.h"
#include "target.h"
#include "timeline.h"

#define ENOUGH_FOR_NOTHING ((uint64_t)1 << 40) /* a device on which nothing is taken */

/* A moment of the run: what was queued by then has passed, and the host was there. */
struct moment {
    uint64_t host_ns;
    weir_event *events; /* by stream: recorded at the moment, or when the stream was destroyed before it */
    bool taken;
};

struct replay {
    struct run run; /* first: targets see this part */
    const struct target *target;
    const struct weir__driver *driver;
    struct outcome *outcome;
    struct moment steady, end;
    struct outcome before_steady; /* the target's figures at that moment */
    uint64_t begin_ns, call_ns;
    uint32_t iterations, streams_made;
    bool timed;
};

/* ---- the driver ------------------------------------------------------------------------------------------------- */

/* The replay calls the driver as the program would: the device's context is current for the whole run, and a call is one
 * call. The library's own functions would make it current each time, which costs. */

static enum weir_status check(const struct replay *replay, CUresult code, const char *call) {
    const char *name = NULL;
    if (code == CUDA_SUCCESS) return WEIR_OK;
    if (replay->driver->error_name(code, &name) != CUDA_SUCCESS || name == NULL) name = "unknown code";
    return weir__fail(WEIR_DRIVER, (int)code, call, "%s failed with %d, %s", call, (int)code, name);
}

/* Pools hear of it, unless they are to be blind. */
#define TELL(replay, call, arguments)                                                                                  \
    do {                                                                                                               \
        if (!(replay)->run.setup->blind) WEIR__DEVICE_TELL((replay)->run.device, call, arguments);                     \
    } while (0)

void run_charging(struct run *run, bool on) {
    if (run->setup->clock == CLOCK_VIRTUAL) run->device->driver->emu_charging(on);
}

/* ---- moments ---------------------------------------------------------------------------------------------------- */

static enum weir_status record_moment(struct replay *replay, struct moment *moment, uint32_t stream) {
    enum weir_status status = WEIR_OK;
    if (moment->events[stream] == NULL)
        status =
            check(replay, replay->driver->event_create(&moment->events[stream], CU_EVENT_DEFAULT), "cuEventCreate");
    if (status != WEIR_OK) return status;
    return check(replay, replay->driver->event_record(moment->events[stream], replay->run.streams[stream]),
                 "cuEventRecord");
}

/* The host may be far ahead of the device, so the moment is not when the host gets there but when all that was queued before
 * has passed; so it is at both ends of what is measured. */
static enum weir_status take_moment(struct replay *replay, struct moment *moment) {
    if (!replay->timed) return WEIR_OK;
    moment->host_ns = weir__device_now_ns(replay->run.device);
    enum weir_status status = WEIR_OK;
    run_charging(&replay->run, false);
    for (uint32_t i = 0; i < replay->run.trace->stream_count && status == WEIR_OK; i++)
        if (replay->run.stream_open[i]) status = record_moment(replay, moment, i);
    run_charging(&replay->run, true);
    moment->taken = true;
    return status;
}

/* A stream that is about to go can't be recorded on later. */
static enum weir_status take_moments_of(struct replay *replay, uint32_t stream) {
    if (!replay->timed) return WEIR_OK;
    run_charging(&replay->run, false);
    enum weir_status status = replay->steady.taken ? WEIR_OK : record_moment(replay, &replay->steady, stream);
    if (status == WEIR_OK) status = record_moment(replay, &replay->end, stream);
    run_charging(&replay->run, true);
    return status;
}

/* Needs: the device has been waited for. */
static uint64_t moment_ns(const struct replay *replay, const struct moment *moment) {
    uint64_t latest = moment->host_ns, ns;
    for (uint32_t i = 0; i < replay->run.trace->stream_count; i++)
        if (moment->events[i] != NULL && replay->driver->emu_event_time(moment->events[i], &ns) == CUDA_SUCCESS &&
            ns > latest)
            latest = ns;
    return latest;
}

/* ---- streams and events, made when first used ------------------------------------------------------------------- */

/* Of a blind pool's the device knows nothing. */
static enum weir_status create_stream(struct replay *replay, weir_stream *out) {
    enum weir_status status =
        check(replay, replay->driver->stream_create(out, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status == WEIR_OK && !replay->run.setup->blind && !weir__device_add_stream(replay->run.device, *out))
        status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for a stream");
    return status;
}

static enum weir_status end_stream(struct replay *replay, weir_stream stream) {
    TELL(replay, stream_destroyed, (told->self, stream));
    weir__device_take_stream(replay->run.device, stream);
    return check(replay, replay->driver->stream_destroy(stream), "cuStreamDestroy");
}

static enum weir_status make_stream(struct replay *replay, uint32_t number) {
    struct run *run = &replay->run;
    enum weir_status status = create_stream(replay, &run->streams[number]);
    if (status != WEIR_OK) return status;
    run->stream_open[number] = true;
    if (replay->target->stream_opened != NULL) replay->target->stream_opened(run, number);
    return WEIR_OK;
}

/* Once each, in the order of the trace's numbers, which is that of first sight: one that was destroyed is not made again. */
static enum weir_status open_stream(struct replay *replay, uint32_t number) {
    enum weir_status status = WEIR_OK;
    run_charging(&replay->run, false);
    for (; status == WEIR_OK && replay->streams_made <= number; replay->streams_made += status == WEIR_OK)
        status = make_stream(replay, replay->streams_made);
    run_charging(&replay->run, true);
    return status;
}

static enum weir_status destroy_stream(struct replay *replay, uint32_t number) {
    struct run *run = &replay->run;
    if (!run->stream_open[number]) return WEIR_OK;
    enum weir_status status = take_moments_of(replay, number);
    if (status != WEIR_OK) return status;
    run->stream_open[number] = false;
    return end_stream(replay, run->streams[number]);
}

static enum weir_status make_event(struct replay *replay, uint32_t number) {
    struct run *run = &replay->run;
    run_charging(run, false);
    CUresult code = replay->driver->event_create(&run->events[number], CU_EVENT_DISABLE_TIMING);
    run_charging(run, true);
    run->event_kept[number] = false;
    return check(replay, code, "cuEventCreate");
}

static enum weir_status record(struct replay *replay, const struct op *op, weir_stream stream) {
    struct run *run = &replay->run;
    if (run->events[op->event] == NULL || run->event_kept[op->event]) {
        enum weir_status status = make_event(replay, op->event);
        if (status != WEIR_OK) return status;
    }
    weir_event event = run->events[op->event];
    run->recorded_on[op->event] = op->stream;
    run->recorded_at[op->event] = ++run->records;
    enum weir_status status = check(replay, replay->driver->event_record(event, stream), "cuEventRecord");
    if (status == WEIR_OK) TELL(replay, event_recorded, (told->self, event, stream));
    return status;
}

/* In the place of a kept event another one is destroyed, which costs the same. */
static enum weir_status destroy_event(struct replay *replay, uint32_t number) {
    struct run *run = &replay->run;
    if (run->events[number] == NULL) return WEIR_OK;
    enum weir_status status = run->event_kept[number] ? make_event(replay, number) : WEIR_OK;
    if (status != WEIR_OK) return status;
    weir_event event = run->events[number];
    run->events[number] = NULL;
    TELL(replay, event_destroyed, (told->self, event));
    return check(replay, replay->driver->event_destroy(event), "cuEventDestroy");
}

/* ---- order and waits -------------------------------------------------------------------------------------------- */

/* An event that was destroyed, and not recorded since, holds nothing back. */
static enum weir_status wait_on_device(struct replay *replay, const struct op *op, weir_stream stream) {
    weir_event event = replay->run.events[op->event];
    if (event == NULL) return WEIR_OK;
    enum weir_status status = check(replay, replay->driver->stream_wait(stream, event, 0), "cuStreamWaitEvent");
    if (status == WEIR_OK) TELL(replay, stream_waited, (told->self, stream, event));
    return status;
}

static enum weir_status wait_on_host(struct replay *replay, const struct op *op) {
    weir_event event = replay->run.events[op->event];
    if (event == NULL) return WEIR_OK;
    enum weir_status status = check(replay, replay->driver->event_synchronize(event), "cuEventSynchronize");
    if (status == WEIR_OK) TELL(replay, event_synchronized, (told->self, event));
    return status;
}

static enum weir_status synchronize_stream(struct replay *replay, weir_stream stream) {
    enum weir_status status = check(replay, replay->driver->stream_synchronize(stream), "cuStreamSynchronize");
    if (status == WEIR_OK) TELL(replay, stream_synchronized, (told->self, stream));
    return status;
}

static enum weir_status synchronize_device(struct replay *replay) {
    enum weir_status status = check(replay, replay->driver->context_synchronize(), "cuCtxSynchronize");
    if (status == WEIR_OK) TELL(replay, device_synchronized, (told->self));
    return status;
}

static enum weir_status submit(struct replay *replay, const struct op *op, weir_stream stream) {
    struct weir_emu_work work = {.size = sizeof work, .name = "k", .alone_ns = (double)op->ns};
    if (!replay->timed || op->ns == 0) return WEIR_OK;
    if (replay->run.timeline != NULL) timeline_work(&replay->run, op, &work);
    return check(replay, replay->driver->emu_submit(&work, stream), "weirEmuSubmit");
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static enum weir_status charge_call(struct replay *replay) {
    if (replay->call_ns == 0) return WEIR_OK;
    return check(replay, replay->driver->emu_pause(replay->call_ns), "weirEmuPause");
}

static enum weir_status alloc(struct replay *replay, const struct op *op, weir_stream stream) {
    struct run *run = &replay->run;
    enum weir_status status = replay->target->alloc(run, op, stream);
    if (status == WEIR_OK) run->live_bytes += op->bytes;
    return status;
}

/* A handle of a destroyed stream may be another stream's by now: who frees after that names any that is there. */
static weir_stream living_stream(const struct run *run, const struct op *op) {
    if (run->stream_open[op->stream]) return run->streams[op->stream];
    for (uint32_t i = 0; i < run->trace->stream_count; i++)
        if (run->stream_open[i]) return run->streams[i];
    return NULL;
}

/* An event that was destroyed has passed as far as the trace tells: then the free is the stream's own; or, where that is
 * gone, one that any stream may come before. */
static enum weir_status give_back(struct replay *replay, const struct op *op) {
    struct run *run = &replay->run;
    const struct target *target = replay->target;
    weir_event event = op->kind == OP_FREE_AFTER ? run->events[op->event] : NULL;
    weir_stream stream = living_stream(run, op);
    enum weir_status status;
    if (event != NULL)
        status = target->free_after(run, op, stream, event);
    else if (op->kind == OP_FREE_ANY || !run->stream_open[op->stream])
        status = target->free_any(run, op, stream);
    else
        status = target->free(run, op, stream);
    run->blocks[op->block] = NULL;
    run->live_bytes -= op->bytes;
    return status;
}

/* How long the block would have lived where the recorded run was refused is not known. */
static enum weir_status ask_again(struct replay *replay, const struct op *op, weir_stream stream) {
    const enum weir_status status = alloc(replay, op, stream);
    return status == WEIR_OK ? give_back(replay, op) : status;
}

static enum weir_status request(struct replay *replay, const struct op *op, weir_stream stream) {
    enum weir_status status = charge_call(replay);
    if (status != WEIR_OK) return status;
    if (op->kind == OP_ALLOC) return alloc(replay, op, stream);
    if (op->kind == OP_REFUSED) return ask_again(replay, op, stream);
    if (op->kind == OP_NOTE) return replay->target->use(&replay->run, op, stream);
    return give_back(replay, op);
}

static enum weir_status iteration(struct replay *replay) {
    struct run *run = &replay->run;
    enum weir_status status = replay->target->iteration != NULL ? replay->target->iteration(run) : WEIR_OK;
    if (status != WEIR_OK || ++replay->iterations != run->setup->steady_from) return status;
    replay->target->figures(run, &replay->before_steady);
    return take_moment(replay, &replay->steady);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static bool needs_stream(unsigned kind) { return kind <= OP_SYNC_STREAM && kind != OP_LIVE; }

static enum weir_status perform(struct replay *replay, const struct op *op) {
    weir_stream stream = NULL;
    if (needs_stream(op->kind)) {
        if (!replay->run.stream_open[op->stream]) {
            enum weir_status status = open_stream(replay, op->stream);
            if (status != WEIR_OK) return status;
        }
        stream = replay->run.streams[op->stream];
    }
    switch ((enum op_kind)op->kind) {
    case OP_LIVE:
        return WEIR_OK; /* it was there before */
    case OP_ALLOC:
    case OP_REFUSED:
    case OP_FREE:
    case OP_FREE_ANY:
    case OP_FREE_AFTER:
    case OP_NOTE:
        return request(replay, op, stream);
    case OP_WORK:
        return submit(replay, op, stream);
    case OP_RECORD:
        return record(replay, op, stream);
    case OP_WAIT:
        return wait_on_device(replay, op, stream);
    case OP_HOST_WAIT:
        return wait_on_host(replay, op);
    case OP_SYNC_STREAM:
        return synchronize_stream(replay, stream);
    case OP_SYNC_DEVICE:
        return synchronize_device(replay);
    case OP_DESTROY_STREAM:
        return destroy_stream(replay, op->stream);
    case OP_DESTROY_EVENT:
        return destroy_event(replay, op->event);
    case OP_ITERATION:
        return iteration(replay);
    }
    return WEIR_OK;
}

/* True: the run goes on. */
static bool judge(struct replay *replay, const struct op *op, enum weir_status status) {
    struct outcome *outcome = replay->outcome;
    if (status == WEIR_OK) return true;
    outcome->failed_line = op->line;
    outcome->ending = status == WEIR_OUT_OF_MEMORY ? ENDED_OUT_OF_MEMORY : ENDED_FAILED;
    if (status == WEIR_OUT_OF_MEMORY) return false;
    snprintf(outcome->why, sizeof outcome->why, "line %u: %s", op->line, weir_last_error()->message);
    return false;
}

/* What is live before the trace begins is there before time counts. */
static bool place_live(struct replay *replay) {
    const struct trace *trace = replay->run.trace;
    for (const struct op *op = trace->ops; op < trace->ops + trace->op_count; op++) {
        if (op->kind != OP_LIVE) continue;
        enum weir_status status = replay->run.stream_open[op->stream] ? WEIR_OK : open_stream(replay, op->stream);
        run_charging(&replay->run, false);
        if (status == WEIR_OK) status = alloc(replay, op, replay->run.streams[op->stream]);
        run_charging(&replay->run, true);
        if (!judge(replay, op, status)) return false;
    }
    return true;
}

static size_t perform_all(struct replay *replay) {
    const struct trace *trace = replay->run.trace;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct op *op = &trace->ops[i];
        const enum weir_status status = perform(replay, op);
        if (replay->run.timeline != NULL) timeline_note(&replay->run, replay->target, op);
        if (!judge(replay, op, status)) return i + 1;
    }
    return trace->op_count;
}

/* ---- what came of it -------------------------------------------------------------------------------------------- */

static uint64_t since(uint64_t now, uint64_t before) {
    return now != NOT_KNOWN && before != NOT_KNOWN ? now - before : now;
}

static void forget_figures(struct outcome *outcome) {
    outcome->peak_held_bytes = outcome->peak_stranded_bytes = NOT_KNOWN;
    outcome->memory_calls = outcome->memory_calls_steady = NOT_KNOWN;
    outcome->order_calls = outcome->order_calls_steady = NOT_KNOWN;
    outcome->page_moves = outcome->moved_bytes = outcome->device_waits = NOT_KNOWN;
    outcome->host_waits = outcome->host_waits_steady = NOT_KNOWN;
    outcome->host_wait_ns = outcome->uses_not_told = NOT_KNOWN;
}

static void settle_figures(struct replay *replay) {
    struct outcome *outcome = replay->outcome;
    const bool steady = replay->iterations >= replay->run.setup->steady_from;
    replay->target->figures(&replay->run, outcome);
    if (!steady && outcome->ending != ENDED_COMPLETED) return; /* it has no steady part */
    outcome->memory_calls_steady =
        steady ? since(outcome->memory_calls, replay->before_steady.memory_calls) : outcome->memory_calls;
    outcome->order_calls_steady =
        steady ? since(outcome->order_calls, replay->before_steady.order_calls) : outcome->order_calls;
    outcome->host_waits_steady =
        steady ? since(outcome->host_waits, replay->before_steady.host_waits) : outcome->host_waits;
}

static void settle_times(struct replay *replay) {
    struct outcome *outcome = replay->outcome;
    enum weir_status status = take_moment(replay, &replay->end);
    run_charging(&replay->run, false);
    if (status == WEIR_OK) status = check(replay, replay->driver->context_synchronize(), "cuCtxSynchronize");
    if (status != WEIR_OK && outcome->ending != ENDED_FAILED) {
        outcome->ending = ENDED_FAILED;
        snprintf(outcome->why, sizeof outcome->why, "after the last operation: %s", weir_last_error()->message);
    }
    if (!replay->timed) return;
    const uint64_t end_ns = moment_ns(replay, &replay->end);
    outcome->run_ns = end_ns - replay->begin_ns;
    outcome->steady_ns = replay->steady.taken ? end_ns - moment_ns(replay, &replay->steady) : outcome->run_ns;
}

/* ---- open and close --------------------------------------------------------------------------------------------- */

static bool fail(struct replay *replay, const char *text) {
    replay->outcome->ending = ENDED_FAILED;
    snprintf(replay->outcome->why, sizeof replay->outcome->why, "%s", text);
    return false;
}

/* All that WEIR_EMU could say otherwise, but faults: those may be asked for. */
static bool open_device(struct replay *replay) {
    const struct setup *setup = replay->run.setup;
    char settings[1024], profile[600] = "";
    if (setup->profile != NULL) snprintf(profile, sizeof profile, "profile:%.512s,", setup->profile);
    snprintf(settings, sizeof settings,
             "%scapacity:%llu,devices:1,clock:virtual,memory:unbacked,law:%s,watch:off,seed:0,jitter:0,others:0,"
             "refuse:full,delay:0ns",
             profile, (unsigned long long)(setup->target == TARGET_FREE ? ENOUGH_FOR_NOTHING : setup->capacity_bytes),
             setup->law != NULL ? setup->law : "measured");
    struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .emu = settings};
    if (weir_device_open(&options, &replay->run.device) != WEIR_OK) return fail(replay, weir_last_error()->message);
    replay->driver = replay->run.device->driver;
    struct weir_emu_machine machine;
    enum weir_status status = weir__device_machine(replay->run.device, &machine);
    if (status == WEIR_OK)
        status = check(replay, replay->driver->context_push(replay->run.device->context), "cuCtxPushCurrent");
    if (status != WEIR_OK) return fail(replay, weir_last_error()->message);
    const bool asks = setup->target != TARGET_FREE && setup->target != TARGET_FLUID;
    replay->call_ns = replay->timed && asks ? (uint64_t)(machine.pool_call_ns + 0.5) : 0;
    replay->driver->emu_charging(replay->timed);
    return true;
}

static bool make_tables(struct replay *replay) {
    struct run *run = &replay->run;
    const size_t streams = (size_t)run->trace->stream_count + 1, events = (size_t)run->trace->event_count + 1;
    run->blocks = calloc((size_t)run->trace->block_count + 1, sizeof *run->blocks);
    run->streams = calloc(streams, sizeof *run->streams);
    run->stream_open = calloc(streams, sizeof *run->stream_open);
    run->events = calloc(events, sizeof *run->events);
    run->recorded_on = calloc(events, sizeof *run->recorded_on);
    run->recorded_at = calloc(events, sizeof *run->recorded_at);
    run->event_kept = calloc(events, sizeof *run->event_kept);
    replay->steady.events = calloc(streams, sizeof *replay->steady.events);
    replay->end.events = calloc(streams, sizeof *replay->end.events);
    if (run->blocks != NULL && run->streams != NULL && run->stream_open != NULL && run->events != NULL &&
        run->recorded_on != NULL && run->recorded_at != NULL && run->event_kept != NULL &&
        replay->steady.events != NULL && replay->end.events != NULL)
        return true;
    return fail(replay, "no host memory for the run's tables");
}

static void free_tables(struct replay *replay) {
    struct run *run = &replay->run;
    free(run->blocks);
    free(run->streams);
    free(run->stream_open);
    free(run->events);
    free(run->recorded_on);
    free(run->recorded_at);
    free(run->event_kept);
    free(replay->steady.events);
    free(replay->end.events);
}

static bool open_target(struct replay *replay) {
    struct outcome *outcome = replay->outcome;
    run_charging(&replay->run, false);
    const bool opened = replay->target->open(&replay->run, outcome->why, sizeof outcome->why);
    run_charging(&replay->run, true);
    if (!opened) outcome->ending = ENDED_FAILED;
    return opened;
}

/* Nothing of it counts, and the device's own end follows: what the driver answers does not matter any more. */
static void close_handles(struct replay *replay) {
    struct run *run = &replay->run;
    const struct weir__driver *driver = replay->driver;
    for (uint32_t i = 0; i < run->trace->event_count; i++)
        if (run->events[i] != NULL && !run->event_kept[i]) driver->event_destroy(run->events[i]);
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        if (replay->steady.events[i] != NULL) driver->event_destroy(replay->steady.events[i]);
        if (replay->end.events[i] != NULL) driver->event_destroy(replay->end.events[i]);
        if (run->stream_open[i]) driver->stream_destroy(run->streams[i]);
    }
}

/* ---- a run ------------------------------------------------------------------------------------------------------ */

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void play(struct replay *replay) {
    struct outcome *outcome = replay->outcome;
    if (place_live(replay)) {
        const double begin = cpu_ns();
        replay->begin_ns = weir__device_now_ns(replay->run.device);
        const size_t done = perform_all(replay);
        outcome->cpu_ns_per_op = done > 0 ? (cpu_ns() - begin) / (double)done : 0;
        settle_times(replay);
    }
    settle_figures(replay);
}

static void play_and_show(struct replay *replay) {
    struct outcome *outcome = replay->outcome;
    struct run *run = &replay->run;
    const bool shown = run->setup->timeline_path != NULL || run->setup->timeline_text != NULL;
    if (shown && !timeline_open(run, replay->target, outcome->why, sizeof outcome->why)) {
        outcome->ending = ENDED_FAILED;
        return;
    }
    play(replay);
    char why[sizeof outcome->why];
    if (run->timeline != NULL && !timeline_close(run, outcome, why, sizeof why) && outcome->ending != ENDED_FAILED)
        fail(replay, why);
}

void run_here(const struct setup *setup, struct outcome *outcome) {
    static const struct target *const targets[] = {[TARGET_POOL] = &target_pool,
                                                   [TARGET_PLUGIN] = &target_plugin,
                                                   [TARGET_FREE] = &target_free,
                                                   [TARGET_FLUID] = &target_fluid};
    struct replay replay = {.run = {.setup = setup, .trace = setup->trace},
                            .target = targets[setup->target],
                            .outcome = outcome,
                            .timed = setup->clock == CLOCK_VIRTUAL};
    memset(outcome, 0, sizeof *outcome);
    forget_figures(outcome);
    forget_figures(&replay.before_steady);
    if (make_tables(&replay) && open_device(&replay)) {
        if (open_target(&replay)) {
            play_and_show(&replay);
            run_charging(&replay.run, false);
            replay.target->close(&replay.run);
        }
        run_charging(&replay.run, false);
        close_handles(&replay);
    }
    if (replay.driver != NULL) {
        CUcontext popped;
        replay.driver->context_pop(&popped);
    }
    weir_device_close(replay.run.device);
    free_tables(&replay);
}
