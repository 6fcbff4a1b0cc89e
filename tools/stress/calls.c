/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/emulated.h"
#include "stress.h"

#define WAIT_LIMIT_NS                                                                                                  \
    UINT64_C(9000000000) /* a pool that waited nearly as long as it may has another reason to refuse */

/* ---- small parts ------------------------------------------------------------------------------------------------ */

uint64_t worker_now(const struct worker *worker) { return weir__device_now_ns(worker->stress->device); }

bool worker_good(struct worker *worker, enum weir_status status, const char *what) {
    if (status == WEIR_OK) return true;
    faults_add(&worker->stress->faults, FAULT_FAILED, "%s: %s", what, weir_last_error()->message);
    return false;
}

void worker_digest(struct worker *worker, uint64_t kind, uint64_t a, uint64_t b) {
    struct random mixed = {worker->digest ^ kind << 56 ^ a << 8 ^ b};
    worker->digest = random_next(&mixed);
}

weir_stream worker_stream(const struct worker *worker, uint32_t stream) {
    const uint32_t shared = worker->stress->options->streams;
    if (stream < shared) return worker->stress->streams[stream];
    if (stream == shared + STREAM_LEGACY) return NULL;
    return stream == shared + STREAM_OF_THREAD ? (weir_stream)CU_STREAM_PER_THREAD : worker->own_stream;
}

bool worker_order(struct worker *worker, uint32_t before, uint32_t stream) {
    struct weir_device *device = worker->stress->device;
    return worker_good(worker, weir_event_record(device, worker->event, worker_stream(worker, before)),
                       "an event's record") &&
           worker_good(worker, weir_stream_wait(device, worker_stream(worker, stream), worker->event),
                       "a stream's wait");
}

bool worker_look(struct worker *worker, const struct block *block, uint32_t stream) {
    worker->counts.looks++;
    return worker_good(worker, checker_look(&worker->checker, block, worker_stream(worker, stream), stream),
                       "a copy to the host");
}

void worker_remove(struct worker *worker, uint32_t at) {
    worker->live_bytes -= worker->blocks[at]->bytes;
    worker->blocks[at] = worker->blocks[--worker->block_count];
}

void worker_add(struct worker *worker, struct block *block) {
    worker->live_bytes += block->bytes;
    worker->blocks[worker->block_count++] = block;
}

/* ---- allocation ------------------------------------------------------------------------------------------------- */

/* `excused`: there may be less memory than at the start. */
static void judge_refusal(struct worker *worker, struct block *block, const struct live_moment *moment, bool excused) {
    struct stress *stress = worker->stress;
    const uint64_t bytes = block->bytes, live = live_bytes(stress->live) + bytes;
    const double usable = (double)stress->target.usable_bytes, margin = stress->options->margin;
    const uint32_t home = block->home;
    const uint64_t needed = live_refused(stress->live, block, moment);
    worker->counts.refused++;
    if (worker->counts.refused == 1 || live < worker->counts.least_refused_bytes)
        worker->counts.least_refused_bytes = live;
    if (margin < 0 || excused || (double)needed > usable * (1 - margin)) return;
    faults_add(&stress->faults, FAULT_REFUSED,
               "%" PRIu64 " bytes on stream %" PRIu32 ", though the pages of what was live and asked for are %" PRIu64
               " of %zu bytes, with a margin of %.1f %%%s%s",
               bytes, home, needed, stress->target.usable_bytes, 100 * margin, stress->target.pool != NULL ? ": " : "",
               stress->target.pool != NULL ? weir_last_error()->message : "");
}

bool worker_put(struct worker *worker, struct block *block, size_t alignment) {
    struct stress *stress = worker->stress;
    const uintptr_t address = (uintptr_t)block->address;
    struct past other;
    const char *wrong = NULL;
    if (address % alignment != 0) wrong = "is not aligned";
    if (!plugin_is_device_memory(&stress->target.calls, stress->target.ordinal, address, block->bytes))
        wrong = "is not the device's memory";
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

static bool fill(struct worker *worker, const struct block *block, weir_stream stream) {
    char what[120];
    const enum weir_status status = contents_fill(&worker->stress->contents, block, stream);
    if (status == WEIR_OK) return true;
    snprintf(what, sizeof what, "a copy to block %" PRIu64 ", %zu bytes at 0x%" PRIxPTR " on stream %" PRIu32,
             block->number, block->bytes, (uintptr_t)block->address, block->home);
    return worker_good(worker, status, what);
}

bool worker_ask(struct worker *worker, const struct request *request, struct block **out) {
    struct stress *stress = worker->stress;
    struct live_moment moment;
    void *address = NULL;
    struct block *block = live_begin(stress->live, request->bytes, request->stream, &moment);
    *out = NULL;
    if (block == NULL) return worker->refused = true; /* as many blocks as there may be */
    const struct target_request asked = {.bytes = request->bytes,
                                         .stream = worker_stream(worker, request->stream),
                                         .way = request->way,
                                         .alignment = request->alignment,
                                         .pool = request->pool};
    const uint64_t begin = worker_now(worker), limits = atomic_load(&stress->limits);
    atomic_store(&worker->call, CALL_ALLOC);
    const enum weir_status status = target_alloc(&stress->target, &asked, &address);
    atomic_store(&worker->call, CALL_NONE);
    const uint64_t took = worker_now(worker) - begin;
    histogram_add(&worker->counts.alloc_ns, took);
    worker->refused = status == WEIR_OUT_OF_MEMORY;
    worker_digest(worker, worker->refused ? 2 : 1, request->bytes, request->stream);
    if (worker->refused) {
        const bool lowered = limits % 2 != 0 || limits != atomic_load(&stress->limits);
        judge_refusal(worker, block, &moment, took >= WAIT_LIMIT_NS || lowered || request->limited);
        return true;
    }
    if (status == WEIR_NOT_SUPPORTED && request->way == TARGET_EXPORTABLE) {
        live_end(stress->live, block);
        return true;
    }
    if (!worker_good(worker, status, "an allocation")) return false;
    worker->counts.allocs++;
    block->address = address;
    block->pool = request->pool;
    block->stays = request->stays;
    block->exportable = request->way == TARGET_EXPORTABLE;
    if (!worker_put(worker, block, request->alignment != 0 ? request->alignment : stress->target.alignment))
        return true;
    *out = block;
    return fill(worker, block, asked.stream);
}

/* ---- frees and uses --------------------------------------------------------------------------------------------- */

static bool wait_for_users(struct worker *worker, const struct block *block) {
    for (uint32_t stream = 0; stream < worker->stress->options->streams; stream++)
        if ((block->users >> stream & 1) != 0 && !worker_order(worker, stream, block->home)) return false;
    return true;
}

bool worker_free(struct worker *worker, struct block *block, enum target_way way) {
    struct stress *stress = worker->stress;
    const weir_stream home = worker_stream(worker, block->home);
    worker_digest(worker, 3, block->number, way);
    if (!worker_look(worker, block, block->home)) return false;
    if (!stress->target.takes_uses && !wait_for_users(worker, block)) return false;
    if (way == TARGET_EVENT &&
        !worker_good(worker, weir_event_record(stress->device, worker->event, home), "an event's record"))
        return false;
    worker->refused = false;
    live_take(stress->live, block);
    const uint64_t begin = worker_now(worker);
    atomic_store(&worker->call, CALL_FREE);
    const enum weir_status status =
        target_free(&stress->target, block->pool, block->address, block->bytes, home, way, worker->event);
    atomic_store(&worker->call, CALL_NONE);
    histogram_add(&worker->counts.free_ns, worker_now(worker) - begin);
    live_end(stress->live, block);
    worker->counts.frees++;
    return worker_good(worker, status, "a free");
}

bool worker_use(struct worker *worker, struct block *block, uint32_t stream) {
    worker_digest(worker, 4, block->number, stream);
    if (stream == block->home) return worker_look(worker, block, stream);
    worker->counts.uses++;
    if (stream < worker->stress->options->streams) block->users |= UINT64_C(1) << stream;
    if (!worker_order(worker, block->home, stream) || !worker_look(worker, block, stream)) return false;
    const struct target *target = &worker->stress->target;
    if (!target->takes_uses) return true;
    atomic_store(&worker->call, CALL_USE);
    const enum weir_status status = target_use(target, block->pool, block->address, worker_stream(worker, stream));
    atomic_store(&worker->call, CALL_NONE);
    return worker_good(worker, status, "a use");
}

/* ---- streams held back ------------------------------------------------------------------------------------------ */

static void sleep_here(void *argument) {
    uint64_t ns;
    memcpy(&ns, argument, sizeof ns);
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
}

static void pass(void *argument) { (void)argument; }

bool worker_hold(struct worker *worker, uint32_t stream, uint64_t ns) {
    const struct stress *stress = worker->stress;
    const struct weir_access none = {0};
    if (ns == 0) return true;
    worker->counts.holds++;
    worker_digest(worker, 5, stream, ns);
    const struct weir_work work = {.name = "held back",
                                   .run = stress->held_flops > 0 ? pass : sleep_here,
                                   .argument = &ns,
                                   .argument_bytes = sizeof ns,
                                   .accesses = &none, /* it touches nothing, which is said */
                                   .flops = stress->held_flops * (double)ns};
    return worker_good(worker, weir_device_submit(stress->device, &work, worker_stream(worker, stream)), "work");
}
