/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of the pool, passes that repeat, and what is asked of a whole pool. */
#include <inttypes.h>

#include "stress.h"

static bool create_sub_pool(struct worker *worker, size_t limit_bytes, const char *name, struct weir_pool **out) {
    const struct weir_sub_pool_options options = {.size = sizeof options, .limit_bytes = limit_bytes, .name = name};
    return worker_good(worker, weir_pool_create_sub(worker->stress->target.pool, &options, out), "a sub-pool");
}

/* The debug walk of a pool that goes. */
static void walk(struct worker *worker, struct weir_pool *pool) {
    if (weir_pool_check(pool) != WEIR_OK)
        faults_add(&worker->stress->faults, FAULT_BROKEN, "a sub-pool: %s", weir_last_error()->message);
}

/* ---- sub-pools -------------------------------------------------------------------------------------------------- */

enum { SUB_POOL_ENDS_ONCE_IN = 16, LEFT_TO_POOL = 64 };

/* Every other block is freed before; the rest is the pool's to take back. */
static bool empty_sub_pool(struct worker *worker, struct block **left, unsigned *left_count) {
    bool going = true, other = false;
    for (uint32_t at = worker->block_count; at > 0 && going; at--) {
        struct block *block = worker->blocks[at - 1];
        if (block->pool != worker->extras.sub_pool) continue;
        worker_remove(worker, at - 1);
        other = !other && *left_count < LEFT_TO_POOL;
        going = other ? worker_look(worker, block, block->home) : worker_free(worker, block, TARGET_STREAM);
        if (!other) continue;
        live_take(worker->stress->live, block);
        left[(*left_count)++] = block;
    }
    return going;
}

/* Needs: it may be destroyed. */
static bool destroy_sub_pool(struct worker *worker) {
    struct block *left[LEFT_TO_POOL];
    unsigned left_count = 0;
    const bool going = empty_sub_pool(worker, left, &left_count);
    walk(worker, worker->extras.sub_pool);
    extra_destroy_end(worker, worker->extras.sub_pool);
    worker->extras.sub_pool = NULL;
    for (unsigned i = 0; i < left_count; i++) live_end(worker->stress->live, left[i]);
    return going;
}

bool sub_pool_close(struct worker *worker) {
    if (worker->extras.sub_pool == NULL) return true;
    extra_destroy_wait(worker);
    return destroy_sub_pool(worker);
}

bool extra_sub_pool(struct worker *worker, struct draw *draw) {
    struct extras *extras = &worker->extras;
    const bool ends = random_once_in(&draw->random, SUB_POOL_ENDS_ONCE_IN);
    if (extras->sub_pool == NULL) {
        extras->sub_pool_limited = random_once_in(&draw->random, 2);
        size_t limit = worker->stress->level_bytes / 4;
        if (limit < worker->stress->device->granularity_bytes) limit = worker->stress->device->granularity_bytes;
        return create_sub_pool(worker, extras->sub_pool_limited ? limit : 0, "stress: sub-pool", &extras->sub_pool);
    }
    if (ends && extra_destroy_may(worker)) return destroy_sub_pool(worker);
    struct block *block;
    const struct request request = {.bytes = extra_size(worker, draw, 16),
                                    .stream = extra_stream(worker, draw),
                                    .way = random_once_in(&draw->random, 8) ? TARGET_ANY : TARGET_STREAM,
                                    .pool = extras->sub_pool,
                                    .limited = extras->sub_pool_limited,
                                    .stays = true};
    if (!worker_ask(worker, &request, &block)) return false;
    if (block != NULL) worker_add(worker, block);
    return true;
}

/* ---- iterations ------------------------------------------------------------------------------------------------- */

enum { PASSES = 12, OUTLIVES_ONCE_IN = 4 };

static bool write_script(struct worker *worker, struct draw *draw) {
    struct script *script = &worker->extras.script;
    *script = (struct script){0};
    for (unsigned i = 0; i < SCRIPT; i++) {
        script->bytes[i] = extra_size(worker, draw, 64);
        script->streams[i] = extra_stream(worker, draw);
        script->outlives[i] = random_once_in(&draw->random, OUTLIVES_ONCE_IN);
    }
    return create_sub_pool(worker, 0, "stress: iterations", &script->pool);
}

static bool free_scripted(struct worker *worker, unsigned i) {
    struct block *block = worker->extras.script.blocks[i];
    worker->extras.script.blocks[i] = NULL;
    return block == NULL || worker_free(worker, block, TARGET_STREAM);
}

/* A block is used by the next one's stream, and freed half a pass later, or where the next pass asks for it. */
static bool make_pass(struct worker *worker) {
    struct script *script = &worker->extras.script;
    bool going = worker_good(worker, weir_pool_mark_iteration(script->pool), "an iteration's mark");
    for (unsigned i = 0; i < SCRIPT + SCRIPT / 2 && going; i++) {
        const unsigned old = i - SCRIPT / 2;
        if (i >= SCRIPT / 2 && !script->outlives[old]) going = free_scripted(worker, old);
        if (i >= SCRIPT || !going) continue;
        const struct request request = {.bytes = script->bytes[i], .stream = script->streams[i], .pool = script->pool};
        going = free_scripted(worker, i) && worker_ask(worker, &request, &script->blocks[i]) &&
                (script->blocks[i] == NULL || worker_use(worker, script->blocks[i], script->streams[(i + 1) % SCRIPT]));
    }
    script->passes++;
    return going;
}

/* Needs: it may be destroyed. */
static bool destroy_script(struct worker *worker) {
    struct script *script = &worker->extras.script;
    bool going = true;
    for (unsigned i = 0; i < SCRIPT && going; i++) going = free_scripted(worker, i);
    walk(worker, script->pool);
    extra_destroy_end(worker, script->pool);
    script->pool = NULL;
    return going;
}

bool script_close(struct worker *worker) {
    if (worker->extras.script.pool == NULL) return true;
    extra_destroy_wait(worker);
    return destroy_script(worker);
}

/* What the pool itself is asked for does not repeat: nothing is to be learned there. */
bool extra_iteration(struct worker *worker, struct draw *draw) {
    const struct script *script = &worker->extras.script;
    if (!worker_good(worker, weir_pool_mark_iteration(worker->stress->target.pool), "an iteration's mark"))
        return false;
    if (script->pool == NULL && !write_script(worker, draw)) return false;
    if (script->passes >= PASSES && extra_destroy_may(worker)) return destroy_script(worker);
    return make_pass(worker);
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

enum { LOWERED_ONCE_IN = 8 };

bool limit_close(struct worker *worker) {
    struct stress *stress = worker->stress;
    if (!worker->extras.lowered) return true;
    worker->extras.lowered = false;
    const enum weir_status status = weir_pool_set_limit(stress->target.pool, stress->target.limit_bytes);
    atomic_fetch_add(&stress->limits, 1);
    return worker_good(worker, status, "a limit");
}

/* Lower for a while, also than what is live. In deterministic mode it is fixed. */
bool extra_limit(struct worker *worker, struct draw *draw) {
    struct stress *stress = worker->stress;
    uint_fast64_t limits = atomic_load(&stress->limits);
    const double share = 0.5 + (double)random_below(&draw->random, 50) / 100;
    const size_t bytes = (size_t)((double)stress->target.limit_bytes * share);
    if (worker->extras.lowered) return limit_close(worker);
    if (!random_once_in(&draw->random, LOWERED_ONCE_IN) || limits % 2 != 0 || bytes < stress->device->granularity_bytes)
        return true;
    if (!atomic_compare_exchange_strong(&stress->limits, &limits, limits + 1)) return true;
    worker->extras.lowered = true;
    const enum weir_status status = weir_pool_set_limit(stress->target.pool, bytes);
    if (status != WEIR_NOT_SUPPORTED) return worker_good(worker, status, "a limit");
    worker->extras.lowered = false;
    atomic_fetch_add(&stress->limits, 1);
    return true;
}

/* ---- reclaim ---------------------------------------------------------------------------------------------------- */

/* In the thread that lacks memory. */
static bool give_hoard(void *self, struct weir_pool *pool, size_t wanted_bytes) {
    struct worker *worker = self;
    struct stress *stress = worker->stress;
    (void)wanted_bytes;
    struct block *block = atomic_exchange(&worker->extras.hoard, NULL);
    if (block == NULL) return false;
    live_take(stress->live, block);
    if (weir_pool_free(pool, block->address, worker_stream(worker, block->home)) != WEIR_OK)
        faults_add(&stress->faults, FAULT_FAILED, "a free in a callback: %s", weir_last_error()->message);
    live_end(stress->live, block);
    return true;
}

bool reclaim_close(struct worker *worker) {
    struct extras *extras = &worker->extras;
    struct block *block = NULL;
    bool going = true;
    if (extras->reclaims)
        going = worker_good(worker, weir_pool_remove_reclaim(worker->stress->target.pool, give_hoard, worker),
                            "a callback's end");
    extras->reclaims = false;
    block = atomic_exchange(&extras->hoard, NULL);
    return block == NULL ? going : worker_free(worker, block, TARGET_STREAM) && going;
}

bool extra_reclaim(struct worker *worker, struct draw *draw) {
    struct extras *extras = &worker->extras;
    const struct request request = {.bytes = extra_size(worker, draw, 8), .stream = extra_stream(worker, draw)};
    struct block *block;
    if (extras->reclaims) return reclaim_close(worker);
    if (!worker_ask(worker, &request, &block)) return false;
    if (block == NULL) return true;
    if (!worker_look(worker, block, block->home)) return false; /* the callback only frees */
    atomic_store(&extras->hoard, block);
    extras->reclaims = true;
    return worker_good(worker, weir_pool_add_reclaim(worker->stress->target.pool, give_hoard, worker), "a callback");
}

/* ---- what it tells ---------------------------------------------------------------------------------------------- */

static struct weir_pool *some_pool(const struct worker *worker, struct draw *draw) {
    struct weir_pool *const pools[] = {worker->stress->target.pool, worker->extras.sub_pool, worker->extras.script.pool,
                                       worker->extras.graph.pool};
    struct weir_pool *pool = pools[random_below(&draw->random, sizeof pools / sizeof *pools)];
    return pool != NULL ? pool : pools[0];
}

bool extra_snapshot(struct worker *worker, struct draw *draw) {
    return worker_good(worker, weir_pool_snapshot(some_pool(worker, draw), "/dev/null"), "a snapshot");
}

/* An address inside a block leads to it. */
static bool find(struct worker *worker, struct draw *draw) {
    struct weir_block found = {.size = sizeof found};
    uint32_t at;
    if (!extra_block(worker, draw, &at)) return true;
    const struct block *block = worker->blocks[at];
    struct weir_pool *pool = block->pool != NULL ? block->pool : worker->stress->target.pool;
    const unsigned char *inside = block->address + random_below(&draw->random, block->bytes);
    if (!worker_good(worker, weir_pool_find(pool, inside, &found), "a question for an address")) return false;
    if (found.start != block->address || found.requested_bytes != block->bytes)
        faults_add(&worker->stress->faults, FAULT_BROKEN,
                   "weir_pool_find: for an address inside %zu bytes at %p it gives %zu bytes at %p", block->bytes,
                   (void *)block->address, found.requested_bytes, found.start);
    return true;
}

static bool ask_figures(struct worker *worker, struct weir_pool *pool) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (!worker_good(worker, weir_pool_get_stats(pool, &stats), "a question for figures")) return false;
    const size_t parts = stats.live_bytes + stats.idle_bytes + stats.moving_bytes + stats.unmapped_bytes;
    if (parts != stats.held_bytes)
        faults_add(&worker->stress->faults, FAULT_BROKEN,
                   "weir_pool_get_stats: %zu bytes are live, idle, moving or without an address, and %zu are held",
                   parts, stats.held_bytes);
    return true;
}

bool extra_question(struct worker *worker, struct draw *draw) {
    struct weir_pool *pool = some_pool(worker, draw);
    struct weir_stream_stats streams[8] = {{.size = sizeof *streams}};
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    const uint32_t stream = extra_stream(worker, draw);
    char text[4096], name[32];
    size_t count;
    snprintf(name, sizeof name, "stress %" PRIu32, stream);
    weir_pool_name_stream(pool, worker_stream(worker, stream), name);
    weir_pool_report(pool, text, sizeof text);
    const enum weir_status status = weir_pool_get_refusal(pool, &refusal);
    return (status == WEIR_NOT_READY || worker_good(worker, status, "a question for the last refusal")) &&
           worker_good(worker, weir_pool_get_stream_stats(pool, streams, 8, &count), "a question for streams") &&
           ask_figures(worker, pool) && find(worker, draw);
}
