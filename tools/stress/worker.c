/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/emulated.h"
#include "stress.h"

/* Once in so many steps, beside what the pattern says. */
enum { LOOK_ONCE_IN = 16, USE_ONCE_IN = 16, GIVE_ONCE_IN = 16, HOLD_ONCE_IN = 64, OTHER_WAY_ONCE_IN = 16 };
enum { WALK_ONCE_IN = 4096, TRIM_ONCE_IN = 4096, WATCH_ONCE_IN = 64 };

/* ---- requests, frees and uses ----------------------------------------------------------------------------------- */

static bool allocate(struct worker *worker, size_t bytes, uint32_t stream, enum target_way way) {
    struct block *block;
    if (!worker_ask(worker, &(struct request){.bytes = bytes, .stream = stream, .way = way}, &block)) return false;
    if (block != NULL) worker_add(worker, block);
    return true;
}

static bool release(struct worker *worker, uint32_t at, enum target_way way) {
    struct block *block = worker->blocks[at];
    worker_remove(worker, at);
    return worker_free(worker, block, way);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

/* A block for one that another thread has left, if there is one. */
static void exchange(struct worker *worker, uint32_t at, uint32_t place) {
    struct block *mine = worker->blocks[at];
    worker->counts.gifts++;
    worker_remove(worker, at);
    const size_t bytes = mine->bytes;
    struct block *theirs = atomic_exchange(&worker->stress->exchange[place], mine);
    atomic_fetch_add(&worker->stress->exchanged_bytes, bytes - (theirs != NULL ? theirs->bytes : 0));
    if (theirs != NULL) worker_add(worker, theirs);
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
        return worker_use(worker, worker->blocks[step->block], step->stream);
    default:
        return worker_hold(worker, step->stream, longest / 2 + random_below(&draw->random, longest / 2 + 1));
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
        going = worker_hold(worker, stream, random_below(random, options->hold_ns + 1));
    if (going && random_once_in(random, TRIM_ONCE_IN))
        going = worker_good(worker, target_trim(&worker->stress->target), "a trim");
    if (worker->block_count == 0 || !going) return going;
    if (random_once_in(random, USE_ONCE_IN)) going = worker_use(worker, worker->blocks[at], stream);
    if (going && random_once_in(random, LOOK_ONCE_IN))
        going = worker_look(worker, worker->blocks[at], worker->blocks[at]->home);
    if (going && options->threads > 1 && random_once_in(random, GIVE_ONCE_IN) && !worker->blocks[at]->stays)
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
    return stress->end_ns > 0 && worker_now(worker) >= stress->end_ns;
}

static bool make_step(struct worker *worker, struct pattern *pattern, struct draw *draw) {
    struct stress *stress = worker->stress;
    const size_t exchanged = atomic_load(&stress->exchanged_bytes) / stress->options->threads;
    const struct view view = {.live_bytes = worker->live_bytes + exchanged,
                              .level_bytes = stress->level_bytes,
                              .blocks = worker->block_count,
                              .most_blocks = worker->most_blocks,
                              .streams = stress->options->streams,
                              .refused = worker->refused};
    const struct step step = pattern_next(pattern, &view, draw);
    return make(worker, &step, draw) && make_other(worker, draw) && extras_make(worker);
}

static void work(struct worker *worker) {
    struct stress *stress = worker->stress;
    const struct options *options = stress->options;
    struct draw draw = {.random = {options->seed + worker->number * UINT64_C(0xd1342543de82ef95)},
                        .law = &options->law,
                        .cursor = options->law.count / options->threads * worker->number};
    struct pattern pattern = {.over = true};
    unsigned turn = worker->number;
    extras_begin(worker, &draw);
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
        if (left != NULL) worker_add(worker, left);
    }
    bool going = true;
    while (going && worker->block_count > 0) going = release(worker, worker->block_count - 1, TARGET_STREAM);
    if (going) worker_good(worker, checker_finish(&worker->checker), "a wait for copies");
}

static void take_part(struct worker *worker) {
    struct stress *stress = worker->stress;
    char name[32];
    CUcontext none;
    snprintf(name, sizeof name, "stress %u", worker->number);
    if (stress->takes_turns &&
        !worker_good(worker, weir__thread_begin(stress->device, name, stress->options->threads), "the clock"))
        return;
    stress->device->driver->context_push(stress->device->context); /* a library finds the device by it */
    work(worker);
    extras_end(worker);
    clean_up(worker);
    /* The last one, since none may capture. Host functions free too; and here it is seen that work hangs. */
    if (atomic_fetch_add(&stress->cleaned, 1) + 1 == stress->options->threads) weir_device_synchronize(stress->device);
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
