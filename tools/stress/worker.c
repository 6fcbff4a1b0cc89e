/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/emulated.h"
#include "stress.h"

/* Once in so many steps, beside what the pattern says. */
enum { LOOK_ONCE_IN = 16, USE_ONCE_IN = 16, GIVE_ONCE_IN = 16, HOLD_ONCE_IN = 64, OTHER_WAY_ONCE_IN = 16 };
enum { WALK_ONCE_IN = 4096, TRIM_ONCE_IN = 4096, WATCH_ONCE_IN = 64 };

#define WAIT_LIMIT_NS                                                                                                  \
    UINT64_C(9000000000) /* a pool that waited nearly as long as it may has another reason to refuse */

/* ---- small parts ------------------------------------------------------------------------------------------------ */

static uint64_t now(const struct worker *worker) { return weir__device_now_ns(worker->stress->device); }

/* A call of the device or the allocator failed: there is no going on. */
static bool good(struct worker *worker, enum weir_status status, const char *what) {
    if (status == WEIR_OK) return true;
    faults_add(&worker->stress->faults, FAULT_FAILED, "%s: %s", what, weir_last_error()->message);
    return false;
}

static void digest(struct worker *worker, uint64_t kind, uint64_t a, uint64_t b) {
    struct random mixed = {worker->digest ^ kind << 56 ^ a << 8 ^ b};
    worker->digest = random_next(&mixed);
}

static weir_stream stream_of(const struct worker *worker, uint32_t stream) { return worker->stress->streams[stream]; }

/* Later work of `stream` comes after what is queued on `before`. */
static bool order(struct worker *worker, uint32_t before, uint32_t stream) {
    struct weir_device *device = worker->stress->device;
    return good(worker, weir_event_record(device, worker->event, stream_of(worker, before)), "an event's record") &&
           good(worker, weir_stream_wait(device, stream_of(worker, stream), worker->event), "a stream's wait");
}

static bool look(struct worker *worker, const struct block *block, uint32_t stream) {
    worker->counts.looks++;
    return good(worker, checker_look(&worker->checker, block, stream_of(worker, stream), stream), "a copy to the host");
}

static void remove_block(struct worker *worker, uint32_t at) {
    worker->live_bytes -= worker->blocks[at]->bytes;
    worker->blocks[at] = worker->blocks[--worker->block_count];
}

static void add_block(struct worker *worker, struct block *block) {
    worker->live_bytes += block->bytes;
    worker->blocks[worker->block_count++] = block;
}

/* ---- allocation ------------------------------------------------------------------------------------------------- */

static void judge_refusal(struct worker *worker, struct block *block, const struct live_moment *moment, uint64_t took) {
    struct stress *stress = worker->stress;
    const uint64_t bytes = block->bytes, live = live_bytes(stress->live) + bytes;
    const double usable = (double)stress->target.usable_bytes, margin = stress->options->margin;
    const uint32_t home = block->home;
    const uint64_t needed = live_refused(stress->live, block, moment);
    worker->counts.refused++;
    if (worker->counts.refused == 1 || live < worker->counts.least_refused_bytes)
        worker->counts.least_refused_bytes = live;
    if (margin < 0 || took >= WAIT_LIMIT_NS || (double)needed > usable * (1 - margin)) return;
    faults_add(&stress->faults, FAULT_REFUSED,
               "%" PRIu64 " bytes on stream %" PRIu32 ", though the pages of what was live and asked for are %" PRIu64
               " of %zu bytes, with a margin of %.1f %%",
               bytes, home, needed, stress->target.usable_bytes, 100 * margin);
}

/* Whether it is memory that nobody else has. What is not is touched by nobody, nor freed. */
static bool is_sound(struct worker *worker, struct block *block) {
    struct stress *stress = worker->stress;
    const uintptr_t address = (uintptr_t)block->address;
    struct past other;
    const char *wrong = NULL;
    if (address % stress->target.alignment != 0) wrong = "is not aligned";
    if (!plugin_is_device_memory(&stress->target.calls, address, block->bytes)) wrong = "is not the device's memory";
    if (wrong != NULL) {
        faults_add(&stress->faults, FAULT_WRONG_ADDRESS, "block %" PRIu64 ", %zu bytes at 0x%" PRIxPTR ", %s",
                   block->number, block->bytes, address, wrong);
        return false;
    }
    if (live_put(stress->live, block, &other)) return true;
    faults_add(&stress->faults, FAULT_DOUBLE_HAND_OUT,
               "block %" PRIu64 " (%zu bytes at 0x%" PRIxPTR ", stream %" PRIu32 ") lies where block %" PRIu64
               " (%zu bytes at 0x%" PRIxPTR ", stream %" PRIu32 ") is live",
               block->number, block->bytes, address, block->home, other.number, other.bytes, other.address, other.home);
    return false;
}

static bool allocate(struct worker *worker, size_t bytes, uint32_t stream, enum target_way way) {
    struct stress *stress = worker->stress;
    struct live_moment moment;
    void *address = NULL;
    struct block *block = live_begin(stress->live, bytes, stream, &moment);
    if (block == NULL) return worker->refused = true; /* as many blocks as there may be */
    const uint64_t begin = now(worker);
    const enum weir_status status = target_alloc(&stress->target, bytes, stream_of(worker, stream), way, &address);
    const uint64_t took = now(worker) - begin;
    histogram_add(&worker->counts.alloc_ns, took);
    worker->refused = status == WEIR_OUT_OF_MEMORY;
    digest(worker, worker->refused ? 2 : 1, bytes, stream);
    if (worker->refused) judge_refusal(worker, block, &moment, took);
    if (worker->refused) return true;
    if (!good(worker, status, "an allocation")) return false;
    worker->counts.allocs++;
    block->address = address;
    if (!is_sound(worker, block)) return true;
    add_block(worker, block);
    return good(worker, contents_fill(&stress->contents, block, stream_of(worker, stream)), "a copy to the device");
}

/* ---- frees and uses --------------------------------------------------------------------------------------------- */

static bool wait_for_users(struct worker *worker, const struct block *block) {
    for (uint32_t stream = 0; stream < worker->stress->options->streams; stream++)
        if ((block->users >> stream & 1) != 0 && !order(worker, stream, block->home)) return false;
    return true;
}

static bool release(struct worker *worker, uint32_t at, enum target_way way) {
    struct stress *stress = worker->stress;
    struct block *block = worker->blocks[at];
    const weir_stream home = stream_of(worker, block->home);
    digest(worker, 3, block->number, way);
    if (!look(worker, block, block->home)) return false;
    if (!stress->target.takes_uses && !wait_for_users(worker, block)) return false;
    if (way == TARGET_EVENT &&
        !good(worker, weir_event_record(stress->device, worker->event, home), "an event's record"))
        return false;
    remove_block(worker, at);
    worker->refused = false;
    live_take(stress->live, block);
    const uint64_t begin = now(worker);
    const enum weir_status status =
        target_free(&stress->target, block->address, block->bytes, home, way, worker->event);
    histogram_add(&worker->counts.free_ns, now(worker) - begin);
    live_end(stress->live, block);
    worker->counts.frees++;
    return good(worker, status, "a free");
}

static bool use(struct worker *worker, uint32_t at, uint32_t stream) {
    struct block *block = worker->blocks[at];
    digest(worker, 4, block->number, stream);
    if (stream == block->home) return look(worker, block, stream);
    worker->counts.uses++;
    block->users |= UINT64_C(1) << stream;
    if (!order(worker, block->home, stream) || !look(worker, block, stream)) return false;
    const struct target *target = &worker->stress->target;
    return !target->takes_uses || good(worker, target_use(target, block->address, stream_of(worker, stream)), "a use");
}

/* ---- streams held back ------------------------------------------------------------------------------------------ */

static void sleep_here(void *argument) {
    uint64_t ns;
    memcpy(&ns, argument, sizeof ns);
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
}

static void pass(void *argument) { (void)argument; }

static bool hold(struct worker *worker, uint32_t stream, uint64_t ns) {
    const struct stress *stress = worker->stress;
    const struct weir_access none = {0};
    if (ns == 0) return true;
    worker->counts.holds++;
    digest(worker, 5, stream, ns);
    const struct weir_work work = {.name = "held back",
                                   .run = stress->held_flops > 0 ? pass : sleep_here,
                                   .argument = &ns,
                                   .argument_bytes = sizeof ns,
                                   .accesses = &none, /* it touches nothing, which is said */
                                   .flops = stress->held_flops * (double)ns};
    return good(worker, weir_device_submit(stress->device, &work, stream_of(worker, stream)), "work");
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

/* A block for one that another thread has left, if there is one. */
static void exchange(struct worker *worker, uint32_t at, uint32_t place) {
    struct block *mine = worker->blocks[at];
    worker->counts.gifts++;
    remove_block(worker, at);
    struct block *theirs = atomic_exchange(&worker->stress->exchange[place], mine);
    if (theirs != NULL) add_block(worker, theirs);
}

static bool make(struct worker *worker, const struct step *step, struct draw *draw) {
    const uint64_t longest = worker->stress->options->hold_ns;
    const bool other_way = random_once_in(&draw->random, OTHER_WAY_ONCE_IN);
    const enum target_way other = random_once_in(&draw->random, 2) ? TARGET_ANY : TARGET_EVENT;
    switch (step->kind) {
    case STEP_ALLOC:
        return allocate(worker, step->bytes, step->stream, other_way ? TARGET_ANY : TARGET_STREAM);
    case STEP_FREE:
        return release(worker, step->block, other_way ? other : TARGET_STREAM);
    case STEP_USE:
        return use(worker, step->block, step->stream);
    default:
        return hold(worker, step->stream, longest / 2 + random_below(&draw->random, longest / 2 + 1));
    }
}

/* What comes beside the pattern. */
static bool make_other(struct worker *worker, struct draw *draw) {
    const struct options *options = worker->stress->options;
    struct random *random = &draw->random;
    const uint32_t stream = (uint32_t)random_below(random, options->streams);
    const uint32_t at = worker->block_count > 0 ? (uint32_t)random_below(random, worker->block_count) : 0;
    bool going = true;
    if (options->hold_ns > 0 && random_once_in(random, HOLD_ONCE_IN))
        going = hold(worker, stream, random_below(random, options->hold_ns + 1));
    if (going && random_once_in(random, TRIM_ONCE_IN))
        going = good(worker, target_trim(&worker->stress->target), "a trim");
    if (worker->block_count == 0 || !going) return going;
    if (random_once_in(random, USE_ONCE_IN)) going = use(worker, at, stream);
    if (going && random_once_in(random, LOOK_ONCE_IN))
        going = look(worker, worker->blocks[at], worker->blocks[at]->home);
    if (going && options->threads > 1 && random_once_in(random, GIVE_ONCE_IN))
        exchange(worker, at, (uint32_t)random_below(random, EXCHANGE_PLACES));
    return going;
}

static bool walk(struct worker *worker) {
    const enum weir_status status = target_check(&worker->stress->target);
    if (status == WEIR_OK) return true;
    faults_add(&worker->stress->faults, FAULT_BROKEN, "%s", weir_last_error()->message);
    return false;
}

void stress_ask_watch(struct stress *stress) {
    struct weir_emu_counts counts;
    struct weir_emu_report report;
    if (!stress->watched || weir__device_counts(stress->device, &counts) != WEIR_OK) return;
    for (; stress->watch_reports < counts.reports; stress->watch_reports++) {
        const bool kept = weir__device_report(stress->device, stress->watch_reports, &report) == WEIR_OK;
        faults_add(&stress->faults, FAULT_WATCH, "%s", kept ? report.text : "one of more than it keeps");
    }
}

static bool is_over(const struct worker *worker, uint64_t made) {
    const struct stress *stress = worker->stress;
    const struct options *options = stress->options;
    const uint64_t rest = worker->number < options->operations % options->threads;
    if (atomic_load_explicit(&stress->over, memory_order_relaxed) || atomic_load(&stress->faults.enough)) return true;
    if (options->operations > 0 && made >= options->operations / options->threads + rest) return true;
    return stress->end_ns > 0 && now(worker) >= stress->end_ns;
}

static bool make_step(struct worker *worker, struct pattern *pattern, struct draw *draw) {
    const struct view view = {.live_bytes = worker->live_bytes,
                              .level_bytes = worker->stress->level_bytes,
                              .blocks = worker->block_count,
                              .most_blocks = worker->most_blocks,
                              .streams = worker->stress->options->streams,
                              .refused = worker->refused};
    const struct step step = pattern_next(pattern, &view, draw);
    return make(worker, &step, draw) && make_other(worker, draw);
}

static void work(struct worker *worker) {
    struct stress *stress = worker->stress;
    const struct options *options = stress->options;
    struct draw draw = {.random = {options->seed + worker->number * UINT64_C(0xd1342543de82ef95)},
                        .law = &options->law,
                        .cursor = options->law.count / options->threads * worker->number};
    struct pattern pattern = {.over = true};
    unsigned turn = worker->number;
    for (uint64_t made = 0; !is_over(worker, made); made++) {
        if (pattern.over) pattern_begin(&pattern, options->patterns[turn++ % options->pattern_count]);
        if (!make_step(worker, &pattern, &draw)) break;
        atomic_fetch_add_explicit(&stress->operations, 1, memory_order_relaxed);
        if (worker->number == 0 && made % WATCH_ONCE_IN == 0) stress_ask_watch(stress);
        if (random_once_in(&draw.random, WALK_ONCE_IN) && !walk(worker)) break;
    }
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* What the other threads have left too: a thread that takes part in the clock must come to none of this alone. */
static void clean_up(struct worker *worker) {
    struct stress *stress = worker->stress;
    for (uint32_t i = 0; i < EXCHANGE_PLACES; i++) {
        struct block *left = atomic_exchange(&stress->exchange[i], NULL);
        if (left != NULL) add_block(worker, left);
    }
    bool going = true;
    while (going && worker->block_count > 0) going = release(worker, worker->block_count - 1, TARGET_STREAM);
    if (going) good(worker, checker_finish(&worker->checker), "a wait for copies");
}

static void take_part(struct worker *worker) {
    struct stress *stress = worker->stress;
    char name[32];
    CUcontext none;
    snprintf(name, sizeof name, "stress %u", worker->number);
    if (stress->takes_turns &&
        !good(worker, weir__thread_begin(stress->device, name, stress->options->threads), "the clock"))
        return;
    stress->device->driver->context_push(stress->device->context); /* a library finds the device by it */
    work(worker);
    clean_up(worker);
    stress->device->driver->context_pop(&none);
    if (stress->takes_turns) weir__thread_end(stress->device);
}

void *worker_run(void *argument) {
    struct worker *worker = argument;
    take_part(worker);
    atomic_fetch_add(&worker->stress->ended, 1);
    return NULL;
}

bool worker_open(struct worker *worker, struct stress *stress, unsigned number) {
    const struct options *options = stress->options;
    *worker = (struct worker){.stress = stress, .number = number};
    /* those of the exchange, and those that other threads leave there, come to one thread at the end */
    worker->most_blocks = LIVE_MOST_BLOCKS / options->threads - EXCHANGE_PLACES;
    worker->blocks = calloc((size_t)worker->most_blocks + EXCHANGE_PLACES + 1, sizeof *worker->blocks);
    return worker->blocks != NULL && checker_open(&worker->checker, &stress->contents, options->seed + number) &&
           weir_event_create(stress->device, false, &worker->event) == WEIR_OK;
}

void worker_close(struct worker *worker) {
    checker_close(&worker->checker);
    if (worker->event != NULL) weir_event_destroy(worker->stress->device, worker->event);
    free(worker->blocks);
}
