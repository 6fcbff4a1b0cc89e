/* SPDX-License-Identifier: Apache-2.0 */
/* Every driver call of a program that uses all that a pool has is made to fail, once at each turn, from the pool's creation
 * to its end: the call that needed it says so or does without, the walk holds after each, no byte is wrong, later work
 * succeeds, and nothing is left behind. So are all calls from each turn on; and every entry of the driver, all the time. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/emu/entries.h"
#include "device/emulated.h"
#include "support.h"
#include "tests/sanitized.h"

enum { PAGES = 20, BLOCKS = 12, STREAMS = 3, ALL_TURNS = 2000, DRAWN_TURNS = 500, STRIDE = SANITIZED ? 16 : 1 };

/* ---- what was made and not unmade ------------------------------------------------------------------------------- */

static struct {
    long events, streams, ranges, plain; /* made, less those that the driver was asked to unmake */
    long refused_pages;                  /* that it would not unmap or take back when asked */
    long refused_enters;                 /* calls that could not even begin */
} left;

static const struct weir__driver *real;

static CUresult event_create(CUevent *event, unsigned flags) {
    CUresult code = real->event_create(event, flags);
    left.events += code == CUDA_SUCCESS;
    return code;
}
static CUresult event_destroy(CUevent event) {
    left.events--;
    return real->event_destroy(event);
}
static CUresult stream_create(CUstream *stream, unsigned flags) {
    CUresult code = real->stream_create(stream, flags);
    left.streams += code == CUDA_SUCCESS;
    return code;
}
static CUresult stream_destroy(CUstream stream) {
    left.streams--;
    return real->stream_destroy(stream);
}
static CUresult address_reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                unsigned long long flags) {
    CUresult code = real->address_reserve(address, bytes, alignment, wanted, flags);
    left.ranges += code == CUDA_SUCCESS;
    return code;
}
static CUresult address_free(CUdeviceptr address, size_t bytes) {
    left.ranges--;
    return real->address_free(address, bytes);
}
static CUresult memory_alloc(CUdeviceptr *address, size_t bytes) {
    CUresult code = real->memory_alloc(address, bytes);
    left.plain += code == CUDA_SUCCESS;
    return code;
}
static CUresult memory_free(CUdeviceptr address) {
    CUresult code = real->memory_free(address);
    left.plain -= code == CUDA_SUCCESS;
    return code;
}
static CUresult page_release(CUmemGenericAllocationHandle handle) {
    CUresult code = real->page_release(handle);
    left.refused_pages += code != CUDA_SUCCESS;
    return code;
}
static CUresult page_unmap(CUdeviceptr address, size_t bytes) {
    CUresult code = real->page_unmap(address, bytes);
    if (code != CUDA_SUCCESS) left.refused_pages += (long)(bytes / PAGE);
    return code;
}

static CUresult context_push(CUcontext context) {
    CUresult code = real->context_push(context);
    left.refused_enters += code != CUDA_SUCCESS;
    return code;
}

static struct weir__driver counting;
static void count_what_is_made(void) {
    real = test_device()->driver;
    counting = *real;
    counting.event_create = event_create;
    counting.event_destroy = event_destroy;
    counting.stream_create = stream_create;
    counting.stream_destroy = stream_destroy;
    counting.address_reserve = address_reserve;
    counting.address_free = address_free;
    counting.memory_alloc = memory_alloc;
    counting.memory_free = memory_free;
    counting.page_release = page_release;
    counting.page_unmap = page_unmap;
    counting.context_push = context_push;
    test_device()->driver = &counting;
}

static struct weir_emu_counts counts(void) {
    struct weir_emu_counts now = {.size = sizeof now};
    OK(weir__device_counts(test_device(), &now));
    return now;
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

static char faults[128]; /* for messages */
static bool once;        /* one call fails, no more */
static bool can_unmap = true;

/* Gives: whether there is such an entry that can be made to fail. */
static bool add_fault(const char *text) {
    snprintf(faults, sizeof faults, "%s", text);
    return real->emu_fault(text, NULL, 0) == CUDA_SUCCESS;
}

/* The call of whichever entry that comes as number `turn` from now fails; and, where said so, all after it. */
static void fail_at(unsigned turn, const char *code, bool after_too, const char *more) {
    char text[128];
    /* cuInit is counted among the calls, but is no call that a fault's number counts */
    snprintf(text, sizeof text, "*@%llu%s=%s%s", (unsigned long long)counts().calls - 1 + turn, after_too ? "+" : "",
             code, more);
    once = !after_too && more[0] == 0;
    assert_true(add_fault(text));
}

/* ---- a program that uses every way ------------------------------------------------------------------------------ */

struct program {
    struct weir_pool *pool, *graph;
    weir_stream captured;
    bool announced; /* captured has begun for the pool */
    weir_stream streams[STREAMS];
    weir_event event;
    void *blocks[BLOCKS];
    size_t bytes[BLOCKS];
    int used_by[BLOCKS]; /* the stream */
    bool filled[BLOCKS];
};

/* A call may fail, for want of memory or of the driver; then nothing has changed. */
static bool done(struct program *program, enum weir_status status, const char *call) {
    if (status != WEIR_OK && status != WEIR_DRIVER && status != WEIR_OUT_OF_MEMORY)
        fail_msg("with %s, %s gives %s: %s", faults, call, weir_status_name(status), weir_last_error()->message);
    if (program->pool != NULL && weir_pool_check(program->pool) != WEIR_OK)
        fail_msg("with %s, after %s: %s", faults, call, weir_last_error()->message);
    return status == WEIR_OK;
}
#define DONE(program, call) done((program), (call), #call)

/* Also where the device can't be waited for by one call: it is asked again. */
static bool synchronize(struct program *program) {
    return DONE(program, weir_device_synchronize(test_device())) ||
           DONE(program, weir_device_synchronize(test_device()));
}

/* What is queued on `to` later runs after what is queued on `from` now. False: it may not. */
static bool order(struct program *program, int from, int to) {
    if (DONE(program, weir_event_record(test_device(), program->event, program->streams[from])) &&
        DONE(program, weir_stream_wait(test_device(), program->streams[to], program->event)))
        return true;
    return synchronize(program);
}

static void nothing(void *argument) { (void)argument; }

/* So that streams are behind, and waits are needed: 0.2 ms. */
static void take_time(struct program *program, int stream) {
    const struct weir_access none = {0};
    const struct weir_work work = {.name = "time", .run = nothing, .accesses = &none, .flops = 1e9};
    DONE(program, weir_device_submit(test_device(), &work, program->streams[stream]));
}

struct bytes {
    unsigned char *at;
    size_t count;
    unsigned char value;
};
static size_t wrong;

static void fill(void *argument) {
    const struct bytes *bytes = argument;
    memset(bytes->at, bytes->value, bytes->count);
}

static void look_at(void *argument) {
    const struct bytes *bytes = argument;
    for (size_t i = 0; i < bytes->count; i++) wrong += bytes->at[i] != bytes->value;
}

static bool use(struct program *program, int block, int stream, bool write) {
    struct bytes bytes = {program->blocks[block], program->bytes[block], (unsigned char)(block + 1)};
    const struct weir_access access = {bytes.at, bytes.count, write};
    const struct weir_work work = {.name = write ? "fill" : "look",
                                   .run = write ? fill : look_at,
                                   .argument = &bytes,
                                   .argument_bytes = sizeof bytes,
                                   .accesses = &access,
                                   .access_count = 1};
    return bytes.count > 0 && DONE(program, weir_device_submit(test_device(), &work, program->streams[stream]));
}

static void allocate(struct program *program, int block, size_t bytes, int stream) {
    const struct weir_pool_stats before = stats_of(program->pool);
    if (program->blocks[block] != NULL) return;
    weir_stream on = program->streams[stream];
    enum weir_status status = WEIR_NOT_SUPPORTED;
    if (block == 2 && bytes > 0) /* where the device will not say that it can export, it can't */
        status = weir_pool_alloc_exportable(program->pool, bytes, on, &program->blocks[block]);
    if (status == WEIR_NOT_SUPPORTED)
        status =
            weir_pool_alloc_aligned(program->pool, bytes, block % 4 == 3 ? 4 * PAGE : 1, on, &program->blocks[block]);
    if (done(program, status, "an alloc")) {
        program->used_by[block] = stream;
        program->bytes[block] = bytes;
        program->filled[block] = use(program, block, stream, true);
        return;
    }
    assert_null(program->blocks[block]);
    assert_true(stats_of(program->pool).live_bytes <= before.live_bytes); /* less: a host function freed some */
    if (once) assert_true(stats_of(program->pool).held_bytes <= before.held_bytes);
}

/* What it has is there still; what is new is written. */
static void resize(struct program *program, int block, size_t bytes) {
    if (program->blocks[block] == NULL) return;
    if (program->filled[block]) use(program, block, program->used_by[block], false);
    const size_t before = program->bytes[block];
    const struct weir_pool_stats stats = stats_of(program->pool);
    enum weir_status status =
        weir_pool_resize(program->pool, program->blocks[block], bytes, program->streams[program->used_by[block]]);
    const bool resized = status != WEIR_NOT_READY && done(program, status, "weir_pool_resize");
    program->bytes[block] = resized && bytes < before ? bytes : before;
    if (program->filled[block]) use(program, block, program->used_by[block], false);
    if (!resized) assert_true(stats_of(program->pool).live_bytes <= stats.live_bytes);
    if (!resized) return;
    program->bytes[block] = bytes;
    program->filled[block] = use(program, block, program->used_by[block], true);
}

static void read_elsewhere(struct program *program, int block, int stream) {
    if (program->blocks[block] == NULL || !program->filled[block]) return;
    if (!order(program, program->used_by[block], stream)) return;
    if (DONE(program, weir_pool_note(program->pool, program->blocks[block], program->streams[stream])))
        use(program, block, stream, false);
}

static void give_back(struct program *program, int block) {
    if (program->blocks[block] == NULL) return;
    const int stream = program->used_by[block];
    if (program->filled[block]) use(program, block, stream, false);
    if (!DONE(program, weir_pool_free(program->pool, program->blocks[block], program->streams[stream])))
        fail_msg("with %s a free fails: %s", faults, weir_last_error()->message); /* it takes no driver call */
    program->blocks[block] = NULL;
}

static void give_back_elsewhere(struct program *program, int block, int stream) {
    if (program->blocks[block] == NULL || !order(program, program->used_by[block], stream)) return;
    program->used_by[block] = stream;
    give_back(program, block);
}

static void give_back_after(struct program *program, int block) {
    if (program->blocks[block] == NULL ||
        !DONE(program, weir_event_record(test_device(), program->event, program->streams[program->used_by[block]])))
        return;
    if (DONE(program, weir_pool_free_after(program->pool, program->blocks[block], program->event)))
        program->blocks[block] = NULL;
}

struct late_free {
    struct weir_pool *pool;
    void *at;
    weir_stream stream;
};

static void free_now(void *argument) {
    const struct late_free *late = argument;
    assert_int_equal(weir_pool_free(late->pool, late->at, late->stream), WEIR_OK);
}

static void give_back_late(struct program *program, int block) {
    if (program->blocks[block] == NULL) return;
    struct late_free late = {program->pool, program->blocks[block], program->streams[program->used_by[block]]};
    const struct weir_access none = {0};
    const struct weir_work work = {
        .name = "late free", .run = free_now, .argument = &late, .argument_bytes = sizeof late, .accesses = &none};
    if (DONE(program, weir_device_submit(test_device(), &work, late.stream))) program->blocks[block] = NULL;
}

/* Asks the driver once; where the call did not get there, again. */
static void destroy_stream(struct program *program, weir_stream stream) {
    const long streams = left.streams;
    if (stream != NULL && !DONE(program, weir_stream_destroy(test_device(), stream)) && left.streams == streams)
        DONE(program, weir_stream_destroy(test_device(), stream));
}

static void destroy_event(struct program *program, weir_event event) {
    const long events = left.events;
    if (event != NULL && !DONE(program, weir_event_destroy(test_device(), event)) && left.events == events)
        DONE(program, weir_event_destroy(test_device(), event));
}

/* Its blocks go on as if of another stream. */
static void replace_stream(struct program *program, int stream, int by) {
    if (program->streams[stream] == NULL || !order(program, stream, by)) return;
    for (int i = 0; i < BLOCKS; i++)
        if (program->used_by[i] == stream) program->used_by[i] = by;
    destroy_stream(program, program->streams[stream]);
    if (!DONE(program, weir_stream_create(test_device(), &program->streams[stream])))
        program->streams[stream] = NULL; /* the default stream does as well */
}

/* ---- captures ---------------------------------------------------------------------------------------------------- */

static struct {
    CUresult (*begin)(CUstream, CUstreamCaptureMode);
    CUresult (*end)(CUstream, CUgraph *);
    CUresult (*status)(CUstream, CUstreamCaptureStatus *);
    CUresult (*destroy)(CUgraph);
} cu;

static bool begins(weir_stream stream) {
    if (weir__device_enter(test_device()) != WEIR_OK) return false;
    const CUresult code = cu.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    weir__device_leave(test_device());
    return code == CUDA_SUCCESS;
}

/* Gives: whether the stream captures no more. */
static bool ends(weir_stream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CUgraph graph = NULL;
    if (weir__device_enter(test_device()) != WEIR_OK) return false;
    if (cu.end(stream, &graph) == CUDA_SUCCESS) {
        if (cu.destroy(graph) != CUDA_SUCCESS) (void)cu.destroy(graph);
        status = CU_STREAM_CAPTURE_STATUS_NONE;
    } else if (cu.status(stream, &status) != CUDA_SUCCESS) {
        status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    }
    weir__device_leave(test_device());
    return status == CU_STREAM_CAPTURE_STATUS_NONE;
}

/* False: it can't be ended before the driver is well again. */
static bool end_capture(struct program *program) {
    if (program->captured != NULL && !ends(program->captured) && !ends(program->captured)) return false;
    program->captured = NULL;
    if (!program->announced) return true;
    const enum weir_status status = weir_pool_capture_end(program->pool, program->graph);
    program->announced = status == WEIR_INVALID; /* the stream could not be asked */
    return program->announced ? false : DONE(program, status);
}

/* A device that can't be waited for would keep its memory for ever. */
static void destroy_graph(struct program *program) {
    if (program->graph == NULL) return;
    if (!end_capture(program)) fail_msg("with %s a capture does not end", faults);
    OK(weir_pool_check(program->graph));
    weir_pool_destroy(program->graph);
}

static void work_in_capture(struct program *program) {
    void *first = NULL, *second = NULL;
    const weir_stream stream = program->captured;
    if (DONE(program, weir_pool_alloc(program->pool, 3 * PAGE, stream, &first)))
        DONE(program, weir_set(test_device(), first, 1, 3 * PAGE, stream));
    OK(weir_pool_free(program->pool, first, stream));
    if (DONE(program, weir_pool_alloc(program->pool, 2 * PAGE, stream, &second)) && first != NULL)
        assert_ptr_equal(second, first);
    OK(weir_pool_free(program->pool, second, stream));
}

static void capture(struct program *program, int stream) {
    const struct weir_sub_pool_options options = {.size = sizeof options, .graph = true};
    const weir_stream handle = program->streams[stream];
    if (handle == NULL || !DONE(program, weir_pool_create_sub(program->pool, &options, &program->graph))) return;
    program->announced = DONE(program, weir_pool_capture_begin(program->pool, program->graph, handle));
    if (program->announced && begins(handle)) {
        program->captured = handle;
        work_in_capture(program);
        allocate(program, 1, 2 * PAGE, 0); /* beside it */
        give_back(program, 1);
        DONE(program, weir_pool_trim(program->pool, 0));
    }
    end_capture(program);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void run(struct program *program) {
    for (int i = 0; i < 8; i++) allocate(program, i, PAGE, i % 2); /* fills a part with single pages */
    take_time(program, 1);
    read_elsewhere(program, 2, 1);
    read_elsewhere(program, 3, 2);
    give_back_after(program, 1);
    for (int i = 2; i < 8; i += 2) give_back(program, i); /* every other one: holes */
    allocate(program, 8, 6 * PAGE, 1);                    /* new pages, then moved ones */
    allocate(program, 9, 5 * PAGE + 100, 0);
    allocate(program, 2, 0, 2);
    take_time(program, 1);
    resize(program, 9, 7 * PAGE + 100); /* moved pages behind it */
    resize(program, 9, 5 * PAGE + 100);
    give_back(program, 8);
    allocate(program, 10, 6 * PAGE, 0);  /* another stream's idle block */
    allocate(program, 11, 60 * PAGE, 0); /* never fits */
    replace_stream(program, 1, 2);
    give_back_elsewhere(program, 9, 1);
    take_time(program, 1);
    allocate(program, 4, 300, 1);
    allocate(program, 6, 2 * PAGE - 100, 0);
    give_back_late(program, 6); /* its stream stays */
    take_time(program, 0);
    give_back(program, 10);
    allocate(program, 8, 13 * PAGE, 2); /* the host waits */
    DONE(program, weir_pool_trim(program->pool, 4 * PAGE));
    read_elsewhere(program, 3, 0);
    give_back(program, 3);
    replace_stream(program, 2, 0);
    give_back(program, 8);
    allocate(program, 9, 3 * PAGE, 1);
    DONE(program, weir_pool_mark_iteration(program->pool));
    DONE(program, weir_pool_trim(program->pool, 0));
    allocate(program, 10, 2 * PAGE, 2);
    resize(program, 10, 5 * PAGE);      /* new pages */
    if (can_unmap) capture(program, 1); /* else it waits for others of the family, in vain, up to the limit */
}

/* With the driver well again: everything goes back, and all of the limit can be had. */
static void recover(struct program *program) {
    for (int i = 0; i < BLOCKS; i++) give_back(program, i);
    OK(weir_device_synchronize(test_device()));
    if (wrong > 0) fail_msg("with %s %zu bytes are wrong", faults, wrong);
    struct weir_pool_stats stats = stats_of(program->pool);
    assert_int_equal(stats.live_bytes, 0);
    const size_t stuck = stats.moving_bytes / PAGE; /* pages that the driver would not unmap stay held */
    allocate(program, 0, (PAGES - stuck) * PAGE, 0);
    if (program->blocks[0] == NULL) fail_msg("after %s not all can be had: %s", faults, weir_last_error()->message);
    give_back(program, 0);
    OK(weir_device_synchronize(test_device()));
}

/* Fails with what the fault left behind that the driver would have taken. */
static void check_nothing_is_left(uint64_t held_bytes) {
    const uint64_t held = counts().held_bytes - held_bytes;
    if (left.refused_enters > 0) return;
    if (left.events != 0 || left.streams != 0 || left.ranges != 0)
        fail_msg("with %s, %ld events, %ld streams and %ld ranges are left", faults, left.events, left.streams,
                 left.ranges);
    if (held > 0 && left.refused_pages == 0 && left.plain == 0)
        fail_msg("with %s, %llu bytes are left", faults, (unsigned long long)held);
}

static struct weir_pool *open_failing_pool(struct program *program, enum weir_policy policy, bool deterministic) {
    struct weir_pool *pool = NULL;
    const struct weir_pool_options options = {.size = sizeof options,
                                              .policy = policy,
                                              .limit_bytes = PAGES * PAGE,
                                              .wait_limit_ns = 2000000000u,
                                              .trace_path = "",
                                              .deterministic = deterministic};
    if (!DONE(program, weir_pool_create(test_device(), &options, &pool))) assert_null(pool);
    return pool;
}

/* And with them the contexts whose pop was made to fail. */
static void end_faults(void) {
    CUcontext popped;
    assert_int_equal(real->emu_fault("", NULL, 0), CUDA_SUCCESS);
    while (real->context_pop(&popped) == CUDA_SUCCESS) continue;
}

struct setting {
    enum weir_policy policy;
    bool deterministic;
};

/* Runs with the faults that `arm` has set. Gives: whether one struck; *calls: how many calls of the driver there were. */
static bool run_with_faults(const struct setting *setting, uint64_t *calls) {
    struct program program = {.pool = NULL};
    const struct weir_emu_counts before = counts();
    memset(&left, 0, sizeof left);
    program.pool = open_failing_pool(&program, setting->policy, setting->deterministic);
    for (int i = 0; i < STREAMS; i++)
        if (!DONE(&program, weir_stream_create(test_device(), &program.streams[i]))) program.streams[i] = NULL;
    if (!DONE(&program, weir_event_create(test_device(), false, &program.event))) program.event = NULL;
    if (program.pool != NULL && program.event != NULL) run(&program);
    const bool goes_on = !once, opened = program.pool != NULL;
    if (goes_on) end_faults();
    destroy_graph(&program);
    if (program.pool != NULL) {
        if (goes_on) recover(&program);
        weir_pool_destroy(program.pool);
        program.pool = NULL;
    }
    for (int i = 0; i < STREAMS; i++) destroy_stream(&program, program.streams[i]);
    destroy_event(&program, program.event);
    *calls = counts().calls - before.calls;
    end_faults();
    OK(weir_device_synchronize(test_device()));
    if (opened || once) check_nothing_is_left(before.held_bytes); /* else the driver took nothing back */
    return counts().faults > before.faults;
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

static const struct setting settings[] = {{WEIR_POLICY_LATENCY, false},
                                          {WEIR_POLICY_FOOTPRINT, false},
                                          {WEIR_POLICY_PER_STREAM, false},
                                          {WEIR_POLICY_LATENCY, true},
                                          {WEIR_POLICY_FOOTPRINT, true}};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* Each class of what a driver may say and go on; what it says when it is over, over_test has. */
static const char *const codes[] = {"CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_LAUNCH_FAILED",
                                    "CUDA_ERROR_UNKNOWN"};
enum { CODES = sizeof codes / sizeof *codes };

static uint64_t calls_of(const struct setting *setting) {
    uint64_t calls;
    once = true;
    snprintf(faults, sizeof faults, "no fault");
    assert_false(run_with_faults(setting, &calls));
    return calls;
}

/* Runs `strike` for every turn of a program; for some, drawn, where there are many. It gives whether a fault struck. */
static void each_turn(const struct setting *setting, unsigned stride,
                      bool (*strike)(const struct setting *, unsigned)) {
    const uint64_t calls = calls_of(setting);
    uint64_t chance = 77;
    unsigned struck = 0, turns = 0;
    assert_true(calls > 100);
    for (unsigned turn = 1; turn <= calls && turns < ALL_TURNS; turn++) {
        if (calls > ALL_TURNS && draw(&chance) % calls >= DRAWN_TURNS) continue;
        if (turn % stride != 0) continue;
        turns++;
        struck += strike(setting, turn);
    }
    assert_true(struck >= turns / 3); /* a program that fails early makes fewer calls, and its end may be spared */
    print_message("%u of %u turns of %llu calls struck\n", struck, turns, (unsigned long long)calls);
}

static bool lack_memory(const struct setting *setting, unsigned turn) {
    uint64_t calls;
    fail_at(turn, "CUDA_ERROR_OUT_OF_MEMORY", false, "");
    return run_with_faults(setting, &calls);
}

static void the_driver_lacks_memory_for_one_call(void **state) {
    (void)state;
    for (int s = 0; s < SETTINGS; s++) each_turn(&settings[s], STRIDE, lack_memory);
}

/* The codes take turns, each setting with another one. */
static bool fail_once(const struct setting *setting, unsigned turn) {
    uint64_t calls;
    fail_at(turn, codes[(turn + (unsigned)(setting - settings)) % CODES], false, "");
    return run_with_faults(setting, &calls);
}

static void one_call_of_any_entry_fails(void **state) {
    (void)state;
    for (int s = 0; s < SETTINGS; s++) each_turn(&settings[s], STRIDE, fail_once);
}

/* As an error that the context never gets over. */
static bool fail_for_good(const struct setting *setting, unsigned turn) {
    uint64_t calls;
    fail_at(turn, "CUDA_ERROR_LAUNCH_FAILED", true, "");
    return run_with_faults(setting, &calls);
}

static void all_calls_fail_from_some_turn_on(void **state) {
    (void)state;
    for (int s = 0; s < SETTINGS; s++) each_turn(&settings[s], 5 * STRIDE, fail_for_good);
}

/* Two failures at once: pages that could be neither used nor unmapped again. */
static bool fail_and_unmap_nothing(const struct setting *setting, unsigned turn) {
    uint64_t calls;
    fail_at(turn, "CUDA_ERROR_UNKNOWN", false, ";cuMemUnmap@1+=CUDA_ERROR_UNKNOWN");
    return run_with_faults(setting, &calls);
}

static void pages_that_the_driver_will_not_unmap_stay_counted(void **state) {
    (void)state;
    can_unmap = false;
    for (int s = 0; s < SETTINGS; s++) each_turn(&settings[s], 3 * STRIDE, fail_and_unmap_nothing);
    can_unmap = true;
}

/* The driver's table has them all, also those that are called tomorrow. */
static void an_entry_fails_all_the_time(void **state) {
    (void)state;
    static const char *const entries[] = {
#define NAME(member, symbol, parameters) #symbol,
        WEIR__DRIVER_LIST(NAME)
#undef NAME
    };
    unsigned struck = 0;
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
        can_unmap = strcmp(entries[e], "cuMemUnmap") != 0;
        for (int c = 0; c < CODES; c++) {
            char text[128];
            uint64_t calls;
            snprintf(text, sizeof text, "%s@1+=%s", entries[e], codes[c]);
            once = false;
            if (add_fault(text)) struck += run_with_faults(&settings[(e + (size_t)c) % SETTINGS], &calls);
        }
    }
    assert_true(struck >= 14 * CODES);
}

static int set_up(void **state) {
    (void)state;
    void *library = dlopen(test_device()->driver->path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return -1;
    *(void **)&cu.begin = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)&cu.end = dlsym(library, "cuStreamEndCapture");
    *(void **)&cu.status = dlsym(library, "cuStreamIsCapturing");
    *(void **)&cu.destroy = dlsym(library, "cuGraphDestroy");
    count_what_is_made();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_device()->driver = real;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_lacks_memory_for_one_call),
        cmocka_unit_test(one_call_of_any_entry_fails),
        cmocka_unit_test(all_calls_fail_from_some_turn_on),
        cmocka_unit_test(pages_that_the_driver_will_not_unmap_stay_counted),
        cmocka_unit_test(an_entry_fails_all_the_time),
    };
    return cmocka_run_group_tests_name("driver_failure", tests, set_up, tear_down);
}
