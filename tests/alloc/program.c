/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "device/emulated.h"
#include "model.h"
#include "support.h"

enum { ITERATION_ENDS = 2 }; /* the way of a look */
enum { SLOTS = 64, SPARE_SLOT = SLOTS, LOOK_EVERY = 64 };
enum { REGISTRATIONS = 6 };
#define WAIT_LIMIT_NS UINT64_C(100000000000) /* no work takes so long */

/* A block and who may use it. Uses on streams that are not noted are before `home`'s position. */
struct slot {
    unsigned char *at;
    size_t bytes;
    unsigned home, writer;     /* writer: of the last write */
    unsigned noted;            /* streams, a bit each */
    bool written, busy, alone; /* alone: exportable */
};

struct registration {
    const unsigned char *at;
    size_t bytes;
};

struct stream {
    weir_stream handle;
    unsigned users; /* calls of threads */
    bool closing, late_frees;
};

struct late_free {
    struct weir_pool *pool;
    void *at;
    weir_stream stream;
};

static struct {
    const struct plan *plan;
    struct journal *journal;
    struct weir_device *device;
    struct weir_pool *pool;
    size_t others_bytes, limit_bytes;
    size_t most_held_bytes; /* max(limit, held when it was lowered) */
    struct stream streams[PROGRAM_MOST_STREAMS];
    struct slot slots[SLOTS + 1];
    struct registration registrations[REGISTRATIONS];
    size_t registered, unregistered; /* so far; the oldest goes first */
    weir_event events[PROGRAM_MOST_THREADS];
    uint64_t chance[PROGRAM_MOST_THREADS];
    const void *freed; /* the last one */
    uint64_t refusals;
    struct model_empty empty;
    const struct operation *given;
    size_t given_count, done;
} world;

/* ---- faults ----------------------------------------------------------------------------------------------------- */

static void on_fault(const char *text) {
    snprintf(world.journal->fault, sizeof world.journal->fault, "%s", text);
    fprintf(stderr, "%s\n", text);
    _exit(PROGRAM_FAULT_EXIT);
}

static void expect_status(enum weir_status status, enum weir_status wanted, const char *call) {
    if (status == wanted) return;
    model_fail("%s gave %s in place of %s: %s", call, weir_status_name(status), weir_status_name(wanted),
               status == WEIR_OK ? "" : weir_last_error()->message);
}
#define EXPECT(wanted, call) expect_status((call), (wanted), #call)

static void mix(uint64_t value) {
    world.journal->hash = (world.journal->hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    world.journal->hash ^= world.journal->hash >> 29;
}

static void compare(void) {
    if (!world.plan->real_threads) model_compare(world.pool, world.refusals, world.empty);
    if (model_now().held_bytes > world.most_held_bytes)
        model_fail("%zu bytes are held, when the most is %zu", model_now().held_bytes, world.most_held_bytes);
}

static void walk(void) { EXPECT(WEIR_OK, weir_pool_check(world.pool)); }

/* ---- streams ---------------------------------------------------------------------------------------------------- */

/* So that no thread destroys a stream while another one names it. */
static bool take_streams(unsigned streams) {
    for (unsigned i = 0; i < world.plan->streams; i++)
        if (streams >> i & 1 && world.streams[i].closing) return false;
    for (unsigned i = 0; i < world.plan->streams; i++) world.streams[i].users += streams >> i & 1;
    return true;
}

static void leave_streams(unsigned streams) {
    for (unsigned i = 0; i < world.plan->streams; i++) world.streams[i].users -= streams >> i & 1;
}

/* What is queued on `to` later runs after what is queued on `from` now. */
static void order(unsigned thread, unsigned from, unsigned to) {
    if (from == to) return;
    model_own_calls(true);
    EXPECT(WEIR_OK, weir_event_record(world.device, world.events[thread], world.streams[from].handle));
    EXPECT(WEIR_OK, weir_stream_wait(world.device, world.streams[to].handle, world.events[thread]));
    model_own_calls(false);
}

static void record(unsigned thread, unsigned stream) {
    model_own_calls(true);
    EXPECT(WEIR_OK, weir_event_record(world.device, world.events[thread], world.streams[stream].handle));
    model_own_calls(false);
}

static void synchronize_all(void) {
    EXPECT(WEIR_OK, weir_device_synchronize(world.device));
    for (unsigned i = 0; i < world.plan->streams; i++)
        if (world.streams[i].users == 0) world.streams[i].late_frees = false;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

static void nothing(void *argument) { (void)argument; }

/* Most work is short; one of sixteen takes a millisecond. */
static void use(const struct slot *slot, unsigned stream, bool write, uint32_t length) {
    const struct weir_access access = {slot->at, slot->bytes, write};
    const double flops = length % 16 == 0 ? 5e9 : length % 4 == 0 ? 1e8 : 0;
    const struct weir_work work = {
        .name = "use", .run = nothing, .accesses = &access, .access_count = 1, .flops = flops};
    EXPECT(WEIR_OK, weir_device_submit(world.device, &work, world.streams[stream].handle));
}

static void note(struct slot *slot, unsigned stream) {
    if (stream == slot->home || slot->noted >> stream & 1) return;
    model_will_note(slot->at, world.streams[stream].handle);
    EXPECT(WEIR_OK, weir_pool_note(world.pool, slot->at, world.streams[stream].handle));
    slot->noted |= 1u << stream;
}

static size_t limit_pages(void) {
    const size_t left = world.plan->capacity_bytes - world.others_bytes;
    return (left < world.limit_bytes ? left : world.limit_bytes) / PAGE;
}

static void check_refusal(size_t bytes, const struct model_request *request) {
    const size_t demand = world.plan->real_threads ? request->most : request->last;
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    const size_t live_bytes = model_now().live_bytes; /* the walk takes back what host functions have freed since */
    world.refusals++;
    if (demand <= limit_pages())
        model_fail("%zu bytes were refused, when at most %zu pages were in demand, of %zu", bytes, demand,
                   limit_pages());
    walk();
    EXPECT(WEIR_OK, weir_pool_get_refusal(world.pool, &refusal));
    if (world.plan->real_threads) return;
    if (refusal.asked_bytes != bytes || refusal.live_bytes != live_bytes)
        model_fail("the refusal of %zu bytes says %zu, and that %zu are live of %zu", bytes, refusal.asked_bytes,
                   refusal.live_bytes, live_bytes);
    if (refusal.live_bytes + refusal.idle_asker_bytes + refusal.idle_others_bytes + refusal.moving_bytes +
            refusal.unmapped_bytes + refusal.untaken_bytes + refusal.others_bytes + refusal.above_limit_bytes !=
        refusal.capacity_bytes)
        model_fail("the parts of the refusal of %zu bytes don't sum to the capacity", bytes);
    if (refusal.others_bytes != world.others_bytes)
        model_fail("the refusal of %zu bytes says that others hold %zu, which is %zu", bytes, refusal.others_bytes,
                   world.others_bytes);
}

static void filled(struct slot *slot, const struct operation *operation) {
    slot->home = slot->writer = operation->stream;
    slot->bytes = operation->bytes;
    slot->noted = 0;
    slot->written = slot->bytes > 0 && operation->way % 8 != 0;
    mix((uintptr_t)slot->at);
    if (slot->bytes == 0) {
        world.empty.live++;
        world.empty.allocs++;
        return;
    }
    model_allocated(slot->at, slot->bytes, slot->alone);
    if (slot->written) use(slot, slot->home, true, operation->work);
}

/* One request of eight, of more than nothing, has one: to 64 pages. */
static size_t alignment_of(const struct operation *operation) {
    return operation->way / 8 % 8 == 0 && operation->bytes > 0 ? (size_t)1024 << operation->way / 64 * 3 : 1;
}

/* One of sixteen can be exported, and is. */
static bool is_exportable(const struct operation *operation) {
    return operation->way / 8 % 16 == 1 && operation->bytes > 0;
}

static void export(void *at) {
    int file = -1;
    EXPECT(WEIR_OK, weir_pool_export(world.pool, at, &file));
    close(file);
}

static void allocate(struct slot *slot, const struct operation *operation) {
    struct model_request request;
    void *at = NULL;
    weir_stream stream = world.streams[operation->stream].handle;
    model_request_begin(&request, operation->bytes);
    const size_t alignment = alignment_of(operation);
    slot->alone = is_exportable(operation);
    enum weir_status status = slot->alone
                                  ? weir_pool_alloc_exportable(world.pool, operation->bytes, stream, &at)
                                  : weir_pool_alloc_aligned(world.pool, operation->bytes, alignment, stream, &at);
    model_request_end(&request);
    if ((uintptr_t)at % alignment != 0) model_fail("%p is not aligned to %zu", at, alignment);
    slot->at = at;
    if (status == WEIR_OK) {
        filled(slot, operation);
        if (slot->alone) export(at);
        return;
    }
    if (at != NULL) model_fail("a request that failed gave %p", at);
    expect_status(status, WEIR_OUT_OF_MEMORY, slot->alone ? "weir_pool_alloc_exportable" : "weir_pool_alloc_aligned");
    check_refusal(operation->bytes, &request);
    mix(1);
}

static void read_block(struct slot *slot, const struct operation *operation) {
    if (!slot->written) return;
    order(operation->thread, slot->writer, operation->stream);
    note(slot, operation->stream);
    use(slot, operation->stream, false, operation->work);
}

/* After all uses so far, on whatever streams they were. */
static void write_block(struct slot *slot, const struct operation *operation) {
    if (slot->bytes == 0) return;
    for (unsigned i = 0; i < world.plan->streams; i++)
        if (i == slot->home || slot->noted >> i & 1) order(operation->thread, i, operation->stream);
    note(slot, operation->stream);
    use(slot, operation->stream, true, operation->work);
    slot->writer = operation->stream;
    slot->written = true;
}

static void emptied(struct slot *slot) {
    world.freed = slot->at;
    if (slot->bytes == 0) {
        world.empty.live--;
        world.empty.frees++;
    }
    slot->at = NULL;
}

static void free_block(struct slot *slot, unsigned stream) {
    if (slot->bytes > 0) model_will_free(slot->at, world.streams[stream].handle);
    EXPECT(WEIR_OK, weir_pool_free(world.pool, slot->at, world.streams[stream].handle));
    emptied(slot);
}

static void free_elsewhere(struct slot *slot, const struct operation *operation) {
    order(operation->thread, slot->home, operation->stream);
    free_block(slot, operation->stream);
}

static void free_after(struct slot *slot, const struct operation *operation) {
    record(operation->thread, slot->home);
    if (slot->bytes > 0) model_will_free_after(slot->at, world.events[operation->thread]);
    EXPECT(WEIR_OK, weir_pool_free_after(world.pool, slot->at, world.events[operation->thread]));
    emptied(slot);
}

static void free_now(void *argument) {
    const struct late_free *late = argument;
    if (weir_pool_free(late->pool, late->at, late->stream) != WEIR_OK) model_fail("a free in a host function failed");
    model_is_given(late->at);
}

static void free_late(struct slot *slot) {
    if (slot->bytes == 0) {
        free_block(slot, slot->home);
        return;
    }
    struct late_free late = {world.pool, slot->at, world.streams[slot->home].handle};
    const struct weir_access none = {0};
    const struct weir_work work = {
        .name = "late free", .run = free_now, .argument = &late, .argument_bytes = sizeof late, .accesses = &none};
    model_will_free(slot->at, late.stream);
    world.streams[slot->home].late_frees = true;
    EXPECT(WEIR_OK, weir_device_submit(world.device, &work, late.stream));
    slot->at = NULL; /* when it comes back is for the device to say */
}

/* After the uses by the stream that it was on; those by others are noted. What is new is written. */
static void resize_block(struct slot *slot, const struct operation *operation) {
    const size_t before = slot->bytes, now = operation->bytes;
    weir_stream stream = world.streams[operation->stream].handle;
    struct model_request request;
    if (before == 0 || now == 0) return;
    order(operation->thread, slot->home, operation->stream);
    model_request_begin(&request, now > before ? now - before : 0);
    model_will_resize(slot->at, now, stream);
    enum weir_status status = weir_pool_resize(world.pool, slot->at, now, stream);
    model_request_end(&request);
    mix((uint64_t)status);
    if (status == WEIR_NOT_READY && (slot->alone || (now + 511) / 512 > (before + 511) / 512)) return;
    expect_status(status, WEIR_OK, "weir_pool_resize");
    model_resized(slot->at, now);
    slot->bytes = now;
    slot->home = operation->stream;
    if (slot->written) write_block(slot, operation);
}

/* ---- registrations ---------------------------------------------------------------------------------------------- */

static void unregister_one(void) {
    const struct registration oldest = world.registrations[world.unregistered++ % REGISTRATIONS];
    model_registered(oldest.at, oldest.bytes, false);
    EXPECT(WEIR_OK, weir_pool_unregister(world.pool, oldest.at, oldest.bytes));
}

static void unregister_all(void) {
    while (world.unregistered < world.registered) unregister_one();
}

/* A part of the block. Of several threads none can be sure that the call of another one has ended. */
static void register_block(struct slot *slot, const struct operation *operation) {
    if (slot->bytes == 0 || world.plan->real_threads) return;
    if (operation->way % 2 == 0 || world.registered - world.unregistered == REGISTRATIONS) {
        if (world.unregistered < world.registered) unregister_one();
        return;
    }
    const size_t begin = operation->work % slot->bytes, bytes = 1 + operation->bytes % (slot->bytes - begin);
    EXPECT(WEIR_OK, weir_pool_register(world.pool, slot->at + begin, bytes));
    model_registered(slot->at + begin, bytes, true);
    world.registrations[world.registered++ % REGISTRATIONS] = (struct registration){slot->at + begin, bytes};
}

/* ---- operations on a block -------------------------------------------------------------------------------------- */

static void do_to_block(struct slot *slot, const struct operation *operation) {
    switch (operation->kind) {
    case PROGRAM_READ:
        read_block(slot, operation);
        break;
    case PROGRAM_WRITE:
        write_block(slot, operation);
        break;
    case PROGRAM_RESIZE:
        resize_block(slot, operation);
        break;
    case PROGRAM_REGISTER:
        register_block(slot, operation);
        break;
    case PROGRAM_FREE:
        free_block(slot, slot->home);
        break;
    case PROGRAM_FREE_ELSEWHERE:
        free_elsewhere(slot, operation);
        break;
    case PROGRAM_FREE_AFTER:
        free_after(slot, operation);
        break;
    default:
        free_late(slot);
    }
}

static void block_operation(struct slot *slot, const struct operation *operation) {
    const bool live = slot->at != NULL;
    unsigned streams = 1u << operation->stream;
    if (live) streams |= slot->noted | 1u << slot->home | 1u << slot->writer;
    if (slot->busy || live != (operation->kind != PROGRAM_ALLOCATE) || !take_streams(streams)) return;
    slot->busy = true;
    if (live)
        do_to_block(slot, operation);
    else
        allocate(slot, operation);
    slot->busy = false;
    leave_streams(streams);
}

/* All that promise 3 leaves free must be had, whatever has happened before. */
static void take_what_is_free(const struct operation *operation) {
    const size_t limit = limit_pages(), live = model_now().live_pages;
    if (limit <= live || !take_streams(1u << operation->stream)) return;
    struct operation request = *operation;
    request.bytes = (limit - live - operation->way / 8 % (limit - live)) * PAGE;
    allocate(&world.slots[SPARE_SLOT], &request);
    if (world.slots[SPARE_SLOT].at != NULL) free_block(&world.slots[SPARE_SLOT], operation->stream);
    leave_streams(1u << operation->stream);
}

/* ---- operations on the machine ---------------------------------------------------------------------------------- */

static bool concerns(const struct slot *slot, unsigned stream) {
    return slot->at != NULL && (slot->home == stream || slot->writer == stream || slot->noted >> stream & 1);
}

/* What a stream that goes has done to a block is taken over by another one that has waited for it. */
static void take_over(struct slot *slot, unsigned from, unsigned to) {
    const bool noted = slot->noted >> from & 1;
    slot->noted &= ~(1u << from);
    if (noted) note(slot, to);
    if (slot->home == from) slot->home = to;
    if (slot->writer == from) slot->writer = to;
}

static weir_stream new_handle(void) {
    weir_stream handle = NULL;
    if (model_free_lanes() < 3) synchronize_all();
    EXPECT(WEIR_OK, weir_stream_create(world.device, &handle));
    return handle;
}

static void replace(const struct operation *operation) {
    const unsigned from = operation->stream, to = operation->way % world.plan->streams;
    struct stream *stream = &world.streams[from];
    if (from == 0 || from == to || stream->users > 0 || stream->closing) return; /* 0 is the default stream */
    for (int i = 0; i < SLOTS; i++)
        if (world.slots[i].busy && (world.slots[i].at == NULL || concerns(&world.slots[i], from))) return;
    if (!take_streams(1u << to)) return;
    stream->closing = true;
    bool taken[SLOTS] = {false};
    for (int i = 0; i < SLOTS; i++) {
        taken[i] = concerns(&world.slots[i], from);
        world.slots[i].busy |= taken[i];
    }
    if (stream->late_frees) EXPECT(WEIR_OK, weir_stream_synchronize(world.device, stream->handle));
    order(operation->thread, from, to);
    for (int i = 0; i < SLOTS; i++)
        if (taken[i]) take_over(&world.slots[i], from, to);
    EXPECT(WEIR_OK, weir_stream_destroy(world.device, stream->handle));
    *stream = (struct stream){.handle = new_handle()};
    for (int i = 0; i < SLOTS; i++) world.slots[i].busy &= !taken[i];
    leave_streams(1u << to);
}

static void hold(const struct operation *operation) {
    struct weir_emu_gate *gate = NULL;
    if (!take_streams(1u << operation->stream)) return;
    EXPECT(WEIR_OK, weir__gate_create(world.device, &gate));
    EXPECT(WEIR_OK, weir__gate_hold(world.device, gate, world.streams[operation->stream].handle));
    EXPECT(WEIR_OK, weir__gate_open(world.device, gate, operation->work % 5000000)); /* ns */
    EXPECT(WEIR_OK, weir__gate_destroy(world.device, gate));
    leave_streams(1u << operation->stream);
}

static void synchronize_stream(const struct operation *operation) {
    if (!take_streams(1u << operation->stream)) return;
    EXPECT(WEIR_OK, weir_stream_synchronize(world.device, world.streams[operation->stream].handle));
    leave_streams(1u << operation->stream);
}

static void order_streams(const struct operation *operation) {
    const unsigned to = operation->way % world.plan->streams, streams = 1u << operation->stream | 1u << to;
    if (!take_streams(streams)) return;
    order(operation->thread, operation->stream, to);
    leave_streams(streams);
}

/* What is idle and complete goes back: after a synchronise that is every page without a live byte. */
static void trim(const struct operation *operation) {
    const size_t target = operation->way % 2 == 0 ? 0 : operation->bytes % world.plan->limit_bytes;
    if (operation->way % 4 == 0) synchronize_all();
    EXPECT(WEIR_OK, weir_pool_trim(world.pool, target));
    if (operation->way % 4 != 0 || world.plan->real_threads) return;
    struct weir_pool_stats stats = stats_of(world.pool);
    if (stats.held_bytes > target + PAGE && stats.held_bytes > model_now().live_pages * PAGE)
        model_fail("trimmed to %zu, the pool holds %zu; %zu pages are in use", target, stats.held_bytes,
                   model_now().live_pages);
}

static void others(const struct operation *operation) {
    size_t free_bytes = 0, all_bytes = 0;
    if (world.plan->real_threads) return;
    EXPECT(WEIR_OK, weir_device_memory(world.device, &free_bytes, &all_bytes));
    const size_t most = (free_bytes + world.others_bytes) / PAGE;
    const size_t bytes = operation->way % 2 == 0 ? 0 : operation->work % (most + 1) * PAGE;
    if (world.device->driver->emu_others(world.device->handle, bytes) != CUDA_SUCCESS)
        model_fail("other processes can't have %zu of %zu free bytes", bytes, free_bytes);
    world.others_bytes = bytes;
}

/* Only where no other call can be under way. */
static void limit(const struct operation *operation) {
    size_t bytes = world.plan->limit_bytes;
    if (world.plan->real_threads) return;
    if (operation->way % 4 == 0) {
        EXPECT(WEIR_OK, weir_pool_reset_peaks(world.pool));
        model_reset_peaks();
        return;
    }
    if (operation->way % 4 == 1) bytes = (1 + operation->work % (bytes / PAGE)) * PAGE;
    EXPECT(WEIR_INVALID, weir_pool_set_limit(world.pool, world.plan->capacity_bytes + 1));
    EXPECT(WEIR_OK, weir_pool_set_limit(world.pool,
                                        bytes + operation->work % PAGE % (bytes < world.plan->limit_bytes ? PAGE : 1)));
    world.limit_bytes = bytes;
    world.most_held_bytes = model_now().held_bytes > bytes ? model_now().held_bytes : bytes;
}

static void try_limit(const struct operation *operation) {
    if (!world.plan->deterministic)
        limit(operation);
    else
        EXPECT(WEIR_NOT_SUPPORTED, weir_pool_set_limit(world.pool, world.plan->limit_bytes));
}

/* ---- bad calls -------------------------------------------------------------------------------------------------- */

/* Also of no bytes, or freed in a host function that has not run yet. */
static bool is_live(const void *at) {
    for (int i = 0; i <= SLOTS; i++)
        if (world.slots[i].at == at) return true;
    return model_has_block(at);
}

static void ask_for_too_much(const struct operation *operation) {
    void *at = &world;
    EXPECT(WEIR_OUT_OF_MEMORY, weir_pool_alloc(world.pool, SIZE_MAX - operation->work % 2048, NULL, &at));
    world.refusals++;
    at = at == NULL ? &world : NULL;
    EXPECT(WEIR_OUT_OF_MEMORY, weir_pool_alloc(world.pool, SIZE_MAX / 4 - operation->work % 2048, NULL, &at));
    world.refusals++;
    if (at != NULL) model_fail("a request that was refused gave an address");
}

static void give_back_wrongly(const struct operation *operation, const struct slot *slot) {
    int here;
    weir_event event = world.events[operation->thread];
    if (slot->at != NULL && slot->bytes > 512) {
        EXPECT(WEIR_INVALID, weir_pool_free(world.pool, slot->at + 512, NULL));
        EXPECT(WEIR_INVALID, weir_pool_free_after(world.pool, slot->at + 1, event));
        EXPECT(WEIR_INVALID, weir_pool_note(world.pool, slot->at + slot->bytes - 1, NULL));
    }
    EXPECT(WEIR_INVALID, weir_pool_free(world.pool, &here, NULL));
    EXPECT(WEIR_INVALID, weir_pool_note(world.pool, &here, NULL));
    EXPECT(WEIR_INVALID, weir_pool_free_after(world.pool, &here, event));
    if (world.freed != NULL && !is_live(world.freed) && !world.plan->real_threads) {
        EXPECT(WEIR_INVALID, weir_pool_free(world.pool, (void *)(uintptr_t)world.freed, NULL));
        EXPECT(WEIR_INVALID, weir_pool_note(world.pool, (void *)(uintptr_t)world.freed, NULL));
    }
}

static void name_nothing(const struct slot *slot) {
    void *at = &world;
    EXPECT(WEIR_OK, weir_pool_free(world.pool, NULL, NULL));
    EXPECT(WEIR_INVALID, weir_pool_alloc(world.pool, 1, NULL, NULL));
    EXPECT(WEIR_INVALID, weir_pool_alloc(world.pool, 1, WEIR__ANY_STREAM, &at));
    if (at != NULL) model_fail("a request that was refused gave an address");
    if (slot->at == NULL) return;
    EXPECT(WEIR_INVALID, weir_pool_free_after(world.pool, slot->at, NULL));
    EXPECT(WEIR_INVALID, weir_pool_free(world.pool, slot->at, WEIR__ANY_STREAM));
    EXPECT(WEIR_INVALID, weir_pool_note(world.pool, slot->at, WEIR__ANY_STREAM));
}

static void bad_call(struct slot *slot, const struct operation *operation) {
    if (slot->busy) return;
    slot->busy = true;
    switch (operation->way % 4) {
    case 0:
        ask_for_too_much(operation);
        break;
    case 1:
        name_nothing(slot);
        break;
    default:
        give_back_wrongly(operation, slot);
    }
    slot->busy = false;
    walk();
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

static void same_sum(const char *what, uint64_t streams, uint64_t pool) {
    if (streams != pool)
        model_fail("%s: the streams have %llu, the pool %llu", what, (unsigned long long)streams,
                   (unsigned long long)pool);
}

static void sum_of_streams(void) {
    enum { MOST = 128 };
    struct weir_stream_stats stats[MOST] = {{.size = sizeof *stats}}, sum = {0};
    size_t count = 0;
    EXPECT(WEIR_OK, weir_pool_get_stream_stats(world.pool, stats, MOST, &count));
    if (count > MOST) model_fail("the pool knows %zu streams, of %u", count, world.plan->streams);
    for (size_t i = 0; i < count; i++) {
#define ADD(type, name, text) sum.name += stats[i].name;
        WEIR_STREAM_STATS_LIST(ADD)
#undef ADD
    }
    const struct weir_pool_stats all = stats_of(world.pool);
    same_sum("live bytes", sum.live_bytes, all.live_bytes);
    same_sum("idle bytes", sum.idle_bytes, all.idle_bytes);
    same_sum("allocs", sum.allocs, all.allocs);
    same_sum("frees", sum.frees, all.frees);
    same_sum("refusals", sum.refusals, all.out_of_memory);
    same_sum("device waits", sum.device_waits, all.device_waits);
    same_sum("pages moved", sum.pages_moved, all.pages_moved);
}

static void free_all(void) {
    unregister_all();
    for (int i = 0; i < SLOTS; i++)
        if (world.slots[i].at != NULL) free_block(&world.slots[i], world.slots[i].home);
}

static void look(const struct operation *operation) {
    char text[4096];
    walk();
    if (!world.plan->real_threads) sum_of_streams();
    if (weir_pool_report(world.pool, text, sizeof text) == 0) model_fail("the report is empty");
    if (operation->way % 2 == 0) EXPECT(WEIR_OK, weir_pool_mark_iteration(world.pool));
    if (operation->way == ITERATION_ENDS && !world.plan->real_threads)
        free_all(); /* the next one finds what this one found */
}

/* ---- one operation ---------------------------------------------------------------------------------------------- */

static void operate(const struct operation *operation) {
    struct slot *slot = &world.slots[operation->slot];
    const uint64_t refusals = world.refusals;
    switch (operation->kind) {
    case PROGRAM_ORDER:
        order_streams(operation);
        break;
    case PROGRAM_SYNCHRONIZE_STREAM:
        synchronize_stream(operation);
        break;
    case PROGRAM_SYNCHRONIZE_DEVICE:
        synchronize_all();
        break;
    case PROGRAM_REPLACE:
        replace(operation);
        break;
    case PROGRAM_HOLD:
        hold(operation);
        break;
    case PROGRAM_TRIM:
        trim(operation);
        break;
    case PROGRAM_OTHERS:
        others(operation);
        break;
    case PROGRAM_LIMIT:
        try_limit(operation);
        break;
    case PROGRAM_BAD:
        bad_call(slot, operation);
        break;
    case PROGRAM_LOOK:
        look(operation);
        break;
    default:
        block_operation(slot, operation);
    }
    compare();
    if (world.refusals > refusals && operation->way % 2 == 0 && !world.plan->real_threads) {
        take_what_is_free(operation);
        compare();
    }
}

/* ---- drawing ---------------------------------------------------------------------------------------------------- */

static size_t below(uint64_t *chance, size_t limit) { return (size_t)(draw(chance) % limit); }

/* All magnitudes: none, parts of a page, pages, a good part of the limit, all of it, more. */
static size_t draw_bytes(uint64_t *chance) {
    const size_t limit = world.plan->limit_bytes, kind = below(chance, 100);
    if (kind < 2) return 0;
    if (kind < 15) return 1 + below(chance, 1024);
    if (kind < 45) return 1 + below(chance, PAGE);
    if (kind < 60) return (1 + below(chance, 4)) * PAGE;
    if (kind < 85) return 1 + below(chance, limit / 12);
    if (kind < 97) return 1 + below(chance, limit / 4);
    return 1 + below(chance, kind < 99 ? limit : 2 * limit);
}

static enum program_operation draw_use(uint64_t *chance) {
    static const uint8_t uses[] = {PROGRAM_RESIZE,    PROGRAM_READ,          PROGRAM_READ, PROGRAM_READ,
                                   PROGRAM_WRITE,     PROGRAM_REGISTER,      PROGRAM_FREE, PROGRAM_FREE,
                                   PROGRAM_FREE,      PROGRAM_FREE,          PROGRAM_FREE, PROGRAM_FREE_AFTER,
                                   PROGRAM_FREE_LATE, PROGRAM_FREE_ELSEWHERE};
    return uses[below(chance, sizeof uses)];
}

static enum program_operation draw_kind(uint64_t *chance, const struct slot *slot) {
    size_t kind = below(chance, 1000);
    static const struct {
        enum program_operation operation;
        size_t share; /* of a thousand */
    } rare[] = {{PROGRAM_ORDER, 30},
                {PROGRAM_SYNCHRONIZE_STREAM, 10},
                {PROGRAM_SYNCHRONIZE_DEVICE, 2},
                {PROGRAM_REPLACE, 8},
                {PROGRAM_HOLD, 10},
                {PROGRAM_TRIM, 4},
                {PROGRAM_OTHERS, 1},
                {PROGRAM_LIMIT, 2},
                {PROGRAM_BAD, 10}};
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++) {
        if (kind < rare[i].share) return rare[i].operation;
        kind -= rare[i].share;
    }
    return slot->at == NULL ? PROGRAM_ALLOCATE : draw_use(chance);
}

/* What an iteration does that the next one does not find undone. */
static bool is_for_good(uint8_t kind) {
    return kind == PROGRAM_REPLACE || kind == PROGRAM_OTHERS || kind == PROGRAM_LIMIT;
}

static struct operation draw_operation(unsigned thread) {
    uint64_t *chance = &world.chance[thread];
    struct operation operation = {.thread = (uint8_t)thread,
                                  .slot = (uint16_t)below(chance, SLOTS),
                                  .stream = (uint8_t)below(chance, world.plan->streams),
                                  .way = (uint8_t)below(chance, 256),
                                  .work = (uint32_t)draw(chance),
                                  .bytes = draw_bytes(chance)};
    operation.kind = (uint8_t)draw_kind(chance, &world.slots[operation.slot]);
    if (world.plan->period > 0 && is_for_good(operation.kind)) operation.kind = PROGRAM_ORDER;
    if (world.done % LOOK_EVERY == LOOK_EVERY - 1) {
        operation.kind = PROGRAM_LOOK;
        operation.way = 0;
        if (world.plan->period > 0) operation.way = (world.done + 1) % world.plan->period == 0 ? ITERATION_ENDS : 1;
    }
    return operation;
}

static struct operation next_operation(unsigned thread) {
    if (world.plan->period == 0 || world.done < world.plan->period) return draw_operation(thread);
    struct operation operation = world.journal->operations[world.done - world.plan->period];
    operation.thread = (uint8_t)thread;
    return operation;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void draw_and_do(unsigned thread) {
    const struct operation operation = next_operation(thread);
    world.journal->operations[world.journal->count++] = operation;
    world.done++;
    operate(&operation);
}

static void run_alone(void) {
    uint64_t turns = world.plan->seed * 2 + 1;
    for (size_t i = 0; i < world.given_count; i++) operate(&world.given[i]);
    for (size_t i = 0; world.given == NULL && i < world.plan->operations; i++)
        draw_and_do((unsigned)below(&turns, world.plan->threads));
}

static void *run_thread(void *argument) {
    const unsigned thread = *(unsigned *)argument;
    char name[16];
    snprintf(name, sizeof name, "thread %u", thread);
    EXPECT(WEIR_OK, weir__thread_begin(world.device, name, world.plan->threads));
    for (size_t i = 0; i < world.given_count; i++)
        if (world.given[i].thread == thread) operate(&world.given[i]);
    while (world.given == NULL && world.done < world.plan->operations) draw_and_do(thread);
    EXPECT(WEIR_OK, weir__thread_end(world.device));
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[PROGRAM_MOST_THREADS];
    unsigned numbers[PROGRAM_MOST_THREADS];
    EXPECT(WEIR_OK, weir__thread_end(world.device)); /* before the others begin, so that when it ends is no chance */
    for (unsigned i = 0; i < world.plan->threads; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, run_thread, &numbers[i]) != 0) model_fail("no thread could be made");
    }
    for (unsigned i = 0; i < world.plan->threads; i++) pthread_join(threads[i], NULL);
    EXPECT(WEIR_OK, weir__thread_begin(world.device, "main", 1));
}

static void open_world(void) {
    const struct plan *plan = world.plan;
    char machine[160], device[64];
    snprintf(machine, sizeof machine, "memory:unbacked,clock:virtual,jitter:0.3,watch:%s,seed:%llu", plan->watch,
             (unsigned long long)plan->seed + 1);
    setenv("WEIR_EMU", machine, 1);
    snprintf(device, sizeof device, "profile:demo,capacity:%zu", plan->capacity_bytes);
    struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .emu = device};
    EXPECT(WEIR_OK, weir_device_open(&options, &world.device));
    model_begin(world.device, on_fault);
    struct weir_pool_options wanted = {.size = sizeof wanted,
                                       .policy = plan->policy,
                                       .limit_bytes = plan->limit_bytes,
                                       .wait_limit_ns = WAIT_LIMIT_NS,
                                       .trace_path = "",
                                       .deterministic = plan->deterministic,
                                       .movable = plan->movable ? WEIR_MOVABLE_ON : WEIR_MOVABLE_OFF};
    EXPECT(WEIR_OK, weir_pool_create(world.device, &wanted, &world.pool));
    for (unsigned i = 1; i < plan->streams; i++) world.streams[i].handle = new_handle();
    for (unsigned i = 0; i < plan->threads; i++) {
        uint64_t seed = (plan->seed * PROGRAM_MOST_THREADS + i) * UINT64_C(0x9E3779B97F4A7C15);
        world.chance[i] = seed | 1;
        EXPECT(WEIR_OK, weir_event_create(world.device, false, &world.events[i]));
        record(i, 0);
    }
}

/* With all blocks given back nothing is left, anywhere. */
static void close_world(void) {
    free_all();
    synchronize_all();
    walk();
    model_compare(world.pool, world.refusals, world.empty);
    struct weir_pool_stats stats = stats_of(world.pool);
    if (stats.live_bytes + stats.live_blocks + stats.requested_bytes > 0) model_fail("something is live at the end");
    const unsigned char *bytes = (const unsigned char *)&stats;
    for (size_t i = 0; i < sizeof stats; i++) mix(bytes[i]);
    world.journal->device_waits = stats.device_waits;
    world.journal->host_waits = stats.host_waits;
    world.journal->pages_moved = stats.pages_moved;
    world.journal->refusals = world.refusals;
    EXPECT(WEIR_OK, weir_pool_trim(world.pool, 0));
    if (stats_of(world.pool).held_bytes > 0) model_fail("pages are held after all was given back");
    weir_pool_destroy(world.pool);
    model_end();
    struct weir_emu_counts counts = {.size = sizeof counts};
    EXPECT(WEIR_OK, weir__device_counts(world.device, &counts));
    if (counts.held_bytes > 0) model_fail("the driver has %llu bytes of ours", (unsigned long long)counts.held_bytes);
    if (counts.reports > 0) model_fail("the watch has reported");
    weir_device_close(world.device);
}

void program_run(const struct plan *plan, const struct operation *given, size_t given_count, struct journal *journal) {
    memset(&world, 0, sizeof world);
    world.plan = plan;
    world.journal = journal;
    world.limit_bytes = world.most_held_bytes = plan->limit_bytes;
    world.given = given;
    world.given_count = given_count;
    open_world();
    if (plan->real_threads)
        run_threads();
    else
        run_alone();
    close_world();
}

void program_print(const struct operation *operation) {
    static const char *const names[] = {
#define NAME(name, text) text,
        PROGRAM_OPERATIONS(NAME)
#undef NAME
    };
    printf("  thread %u: %-34s block %-2u stream %u, %8zu bytes, way %3u, work %u\n", operation->thread,
           names[operation->kind], operation->slot, operation->stream, operation->bytes, operation->way,
           operation->work);
}
