/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of other kinds, on other streams, and other ways to hold and free them. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

/* One more block among the thread's. */
static bool take(struct worker *worker, const struct request *request) {
    struct block *block;
    if (!worker_ask(worker, request, &block)) return false;
    if (block != NULL) worker_add(worker, block);
    return true;
}

/* ---- aligned ---------------------------------------------------------------------------------------------------- */

enum { MOST_PAGES = 4 };

/* From 512 bytes to a few pages. */
bool extra_aligned(struct worker *worker, struct draw *draw) {
    const size_t most = MOST_PAGES * worker->stress->device->granularity_bytes;
    size_t alignment = worker->stress->target.alignment;
    for (uint64_t up = random_below(&draw->random, 20); up > 0 && alignment < most; up--) alignment *= 2;
    return take(worker, &(struct request){.bytes = extra_size(worker, draw, 8),
                                          .stream = extra_stream(worker, draw),
                                          .way = TARGET_ALIGNED,
                                          .alignment = alignment});
}

/* ---- resize ----------------------------------------------------------------------------------------------------- */

enum { AGAIN_ONCE_IN = 2, LAGS_ONCE_IN = 2, STREAMS_ASKED = 4 };

/* Half of them by little, mostly within what a block's bytes are rounded up to. */
static size_t resized(const struct worker *worker, struct draw *draw, const struct block *block) {
    const bool less = random_once_in(&draw->random, 2) && !block->exportable, little = random_once_in(&draw->random, 2);
    const size_t by = little ? 1 + (size_t)random_below(&draw->random, worker->stress->target.alignment)
                      : less ? 1 + (size_t)random_below(&draw->random, block->bytes)
                             : extra_size(worker, draw, 32);
    if (!less) return block->bytes + by;
    return by < block->bytes ? block->bytes - by : 1;
}

/* Gives back a part or asks for more, in one call: the block stays the same one, with the same contents. */
static enum weir_status resize(struct worker *worker, struct block *block, size_t bytes, uint32_t stream, bool *sound) {
    struct stress *stress = worker->stress;
    struct weir_pool *pool = block->pool != NULL ? block->pool : stress->target.pool;
    struct live_moment moment;
    struct block *stands = live_begin(stress->live, bytes, stream, &moment); /* for what it may hold meanwhile */
    *sound = true;
    if (stands == NULL) return WEIR_NOT_READY;
    live_take(stress->live, block);
    const enum weir_status status = weir_pool_resize(pool, block->address, bytes, worker_stream(worker, stream));
    if (status == WEIR_OK) {
        stands->bytes = block->bytes;
        block->bytes = bytes;
        block->home = stream;
    }
    *sound = worker_put(worker, block, stress->target.alignment);
    live_end(stress->live, stands);
    return status;
}

/* Whichever stream is given what was cut off: `bytes`, and what was rounded up. */
static bool ask_for_cut_off(struct worker *worker, struct draw *draw, size_t bytes) {
    const size_t rounded = worker->stress->target.alignment;
    bool going = true;
    if (bytes <= rounded) return true;
    for (int i = 0; i < STREAMS_ASKED && going; i++)
        going = take(worker, &(struct request){.bytes = bytes - rounded, .stream = extra_stream(worker, draw)});
    return going;
}

static bool hold_home(struct worker *worker, struct draw *draw, const struct block *block) {
    const uint64_t ns = random_below(&draw->random, worker->stress->options->hold_ns + 1);
    return block->home >= worker->stress->options->streams || worker_hold(worker, block->home, ns);
}

/* Gives: false when there is no going on; *at: it is there now; *again: it has another size now. While the last look at all of
 * it lags, what it gave up is asked for. */
static bool resize_one(struct worker *worker, struct draw *draw, uint32_t *at, bool *again) {
    struct block *block = worker->blocks[*at];
    const uint32_t stream = random_once_in(&draw->random, 2) ? block->home : extra_stream(worker, draw);
    const size_t before = block->bytes, bytes = resized(worker, draw, block);
    const bool lags = random_once_in(&draw->random, LAGS_ONCE_IN);
    *again = false;
    if (lags && !hold_home(worker, draw, block)) return false;
    if (!worker_look(worker, block, block->home)) return false;
    if (stream != block->home && !worker_order(worker, block->home, stream)) return false;
    worker_remove(worker, *at);
    bool sound;
    const enum weir_status status = resize(worker, block, bytes, stream, &sound);
    worker_digest(worker, 6, status == WEIR_OK ? block->number : 0, bytes);
    if (sound) worker_add(worker, block);
    *at = worker->block_count - 1;
    /* nothing of the legacy stream can be resized while another one captures */
    const bool legacy = stream == worker->stress->options->streams + STREAM_LEGACY;
    if (!sound || status == WEIR_NOT_READY || (legacy && status == WEIR_NOT_SUPPORTED)) return true;
    if (!worker_good(worker, status, "a resize")) return false;
    *again = true;
    if (bytes <= before) return !lags || ask_for_cut_off(worker, draw, before - bytes);
    const weir_stream home = worker_stream(worker, stream);
    return worker_good(worker, contents_fill_rest(&worker->stress->contents, block, before, home),
                       "a copy to the device");
}

/* Some again at once, while the uses of what it was lag. */
bool extra_resize(struct worker *worker, struct draw *draw) {
    uint32_t at;
    bool again = extra_block(worker, draw, &at), going = true;
    while (going && again) {
        if (random_once_in(&draw->random, 2))
            going = worker_use(worker, worker->blocks[at], extra_stream(worker, draw));
        going = going && resize_one(worker, draw, &at, &again);
        again = again && random_once_in(&draw->random, AGAIN_ONCE_IN);
    }
    return going;
}

/* ---- exportable ------------------------------------------------------------------------------------------------- */

/* No other process is there to import it: the descriptor alone holds the memory, and is closed. */
bool extra_exportable(struct worker *worker, struct draw *draw) {
    struct block *block;
    int descriptor = -1;
    const struct request request = {
        .bytes = extra_size(worker, draw, 8), .stream = extra_stream(worker, draw), .way = TARGET_EXPORTABLE};
    if (!worker_ask(worker, &request, &block)) return false;
    if (block == NULL) return true;
    worker_add(worker, block);
    if (random_once_in(&draw->random, 2)) return true;
    if (!worker_good(worker, weir_pool_export(worker->stress->target.pool, block->address, &descriptor), "an export"))
        return false;
    close(descriptor);
    return true;
}

/* ---- registered ------------------------------------------------------------------------------------------------- */

bool registered_close(struct worker *worker, struct registered *registered) {
    struct stress *stress = worker->stress;
    const struct registered was = *registered;
    if (was.stands == NULL) return true;
    *registered = (struct registered){0};
    const enum weir_status status = weir_pool_unregister(stress->target.pool, was.address, was.bytes);
    live_end(stress->live, was.stands);
    return worker_good(worker, status, "an end of a registration");
}

/* A part of a block, which may be freed before it is registered no more. One that is exportable then stays as a whole: it has one
 * handle. */
bool extra_registered(struct worker *worker, struct draw *draw) {
    struct stress *stress = worker->stress;
    struct registered *registered = &worker->extras.registered[random_below(&draw->random, REGISTERED)];
    struct live_moment moment;
    uint32_t at;
    if (registered->stands != NULL) return registered_close(worker, registered);
    if (!extra_block(worker, draw, &at) || worker->blocks[at]->pool != NULL) return true;
    const struct block *block = worker->blocks[at];
    const size_t from = (size_t)random_below(&draw->random, block->bytes);
    const size_t bytes = 1 + (size_t)random_below(&draw->random, block->bytes - from);
    struct block *stands = live_begin(stress->live, block->exportable ? block->bytes : bytes, block->home, &moment);
    if (stands == NULL) return true;
    *registered = (struct registered){block->address + from, bytes, stands};
    return worker_good(worker, weir_pool_register(stress->target.pool, registered->address, bytes), "a registration");
}

/* ---- frees by host functions ------------------------------------------------------------------------------------ */

struct late_free {
    struct stress *stress;
    struct block *block;
    weir_stream stream;
};

static void free_late(void *argument) {
    struct late_free late;
    memcpy(&late, argument, sizeof late);
    struct stress *stress = late.stress;
    if (weir_pool_free(stress->target.pool, late.block->address, late.stream) != WEIR_OK)
        faults_add(&stress->faults, FAULT_FAILED, "a free in a host function: %s", weir_last_error()->message);
    live_end(stress->live, late.block);
}

/* The driver may run it after the thread has ended, and before the run has. */
bool extra_host_free(struct worker *worker, struct draw *draw) {
    struct stress *stress = worker->stress;
    const struct weir_access none = {0};
    uint32_t at;
    if (!extra_block(worker, draw, &at)) return true;
    struct block *block = worker->blocks[at];
    if (block->pool != NULL || block->stays) return true;
    struct late_free late = {stress, block, worker_stream(worker, block->home)};
    const struct weir_work work = {
        .name = "a free", .run = free_late, .argument = &late, .argument_bytes = sizeof late, .accesses = &none};
    worker_digest(worker, 7, block->number, 0);
    if (!worker_look(worker, block, block->home)) return false;
    worker_remove(worker, at);
    worker->refused = false;
    worker->counts.frees++;
    live_take(stress->live, block);
    return worker_good(worker, weir_device_submit(stress->device, &work, late.stream), "work");
}

/* ---- other streams ---------------------------------------------------------------------------------------------- */

bool extra_default_stream(struct worker *worker, struct draw *draw) {
    const uint32_t shared = worker->stress->options->streams;
    const bool legacy = random_once_in(&draw->random, 2);
    return take(worker, &(struct request){.bytes = extra_size(worker, draw, 8),
                                          .stream = shared + (legacy ? STREAM_LEGACY : STREAM_OF_THREAD),
                                          .stays = !legacy});
}

/* Blocks of a stream that is destroyed while work lags on it, and one that it uses: they live on. */
static bool use_short_stream(struct worker *worker, struct draw *draw) {
    const uint32_t own = worker->stress->options->streams + STREAM_OWN, heir = extra_stream(worker, draw);
    uint32_t at;
    if (extra_block(worker, draw, &at) && !worker_use(worker, worker->blocks[at], own)) return false;
    if (!worker_hold(worker, own, random_below(&draw->random, worker->stress->options->hold_ns + 1))) return false;
    const uint32_t before = worker->block_count;
    for (uint64_t i = random_below(&draw->random, 4) + 1; i > 0; i--)
        if (!take(worker, &(struct request){.bytes = extra_size(worker, draw, 16), .stream = own})) return false;
    if (worker->block_count > before) { /* one is freed on it */
        struct block *block = worker->blocks[before];
        worker_remove(worker, before);
        if (!worker_free(worker, block, TARGET_STREAM)) return false;
    }
    for (uint32_t i = before; i < worker->block_count; i++) worker->blocks[i]->home = heir;
    return worker_order(worker, own, heir);
}

bool extra_short_stream(struct worker *worker, struct draw *draw) {
    struct weir_device *device = worker->stress->device;
    if (!worker_good(worker, weir_stream_create(device, &worker->own_stream), "a stream")) return false;
    const bool going = use_short_stream(worker, draw);
    return worker_good(worker, weir_stream_destroy(device, worker->own_stream), "a stream's end") && going;
}
