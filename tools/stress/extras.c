/* SPDX-License-Identifier: Apache-2.0 */
#include "extras.h"

#include "device/emulated.h"
#include "stress.h"

#define EXTRA_NAME(name, text, once_in, function)   text,
#define EXTRA_ONCE(name, text, once_in, function)   once_in,
#define EXTRA_CALLED(name, text, once_in, function) function,
const char *const extra_names[EXTRAS] = {EXTRA_LIST(EXTRA_NAME)};
static const unsigned once[EXTRAS] = {EXTRA_LIST(EXTRA_ONCE)};
static bool (*const called[EXTRAS])(struct worker *, struct draw *) = {EXTRA_LIST(EXTRA_CALLED)};

/* ---- chance ----------------------------------------------------------------------------------------------------- */

size_t extra_size(const struct worker *worker, struct draw *draw, size_t part) {
    return law_size(draw->law, &draw->random, &draw->cursor, worker->stress->level_bytes / part + 1);
}

uint32_t extra_stream(const struct worker *worker, struct draw *draw) {
    return (uint32_t)random_below(&draw->random, worker->stress->options->streams);
}

bool extra_block(const struct worker *worker, struct draw *draw, uint32_t *at) {
    if (worker->block_count == 0) return false;
    *at = (uint32_t)random_below(&draw->random, worker->block_count);
    return true;
}

/* ---- captures and destroys keep apart --------------------------------------------------------------------------- */

/* Adds `change` to what is under way of one kind, unless some of the other kind is. */
static bool join(struct stress *stress, int change) {
    int there = atomic_load(&stress->captures);
    while (there * change >= 0)
        if (atomic_compare_exchange_weak(&stress->captures, &there, there + change)) return true;
    return false;
}

bool extra_capture_may(struct worker *worker) { return join(worker->stress, 1); }
void extra_capture_end(struct worker *worker) { atomic_fetch_sub(&worker->stress->captures, 1); }
bool extra_destroy_may(struct worker *worker) { return join(worker->stress, -1); }

void extra_destroy_wait(struct worker *worker) {
    while (!extra_destroy_may(worker)) weir__device_pause(worker->stress->device, WEIR__TURN_NS);
}

void extra_destroy_end(struct worker *worker, struct weir_pool *pool) {
    weir_pool_destroy(pool);
    atomic_fetch_add(&worker->stress->captures, 1);
}

/* ---- the thread's ----------------------------------------------------------------------------------------------- */

void extras_begin(struct worker *worker, const struct draw *draw) {
    struct random random = {draw->random.state ^ UINT64_C(0x9e3779b97f4a7c15)};
    for (unsigned i = 0; i < EXTRAS; i++) {
        worker->extras.draws[i] = *draw;
        worker->extras.draws[i].random.state = random_next(&random);
    }
}

bool extras_make(struct worker *worker) {
    const uint32_t selected = worker->stress->options->extras;
    bool going = true;
    for (unsigned i = 0; i < EXTRAS && going; i++) {
        struct draw *draw = &worker->extras.draws[i];
        if ((selected >> i & 1) == 0 || worker->block_count >= worker->most_blocks ||
            !random_once_in(&draw->random, once[i]))
            continue;
        worker->counts.extras[i]++;
        going = called[i](worker, draw);
    }
    return going;
}

void extras_end(struct worker *worker) {
    bool going = limit_close(worker) && reclaim_close(worker) && graph_close(worker) && script_close(worker) &&
                 sub_pool_close(worker);
    for (unsigned i = 0; i < REGISTERED && going; i++) going = registered_close(worker, &worker->extras.registered[i]);
}
