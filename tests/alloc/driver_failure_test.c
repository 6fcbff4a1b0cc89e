/* SPDX-License-Identifier: Apache-2.0 */
/* Every driver call that the pool makes is made to fail, once at each turn: the call that needed it says so or does
 * without, the walk holds after it, no byte is wrong, and later work succeeds. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

/* The entries that a pool calls, by number; a wrapper of each counts down to its failure. */
#define WRAPPED(X)                                                                                                     \
    X(memory_alloc, (CUdeviceptr * address, size_t bytes), (address, bytes))                                           \
    X(memory_free, (CUdeviceptr address), (address))                                                                   \
    X(page_create,                                                                                                     \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,                     \
       unsigned long long flags),                                                                                      \
      (handle, bytes, properties, flags))                                                                              \
    X(page_release, (CUmemGenericAllocationHandle handle), (handle))                                                   \
    X(page_map,                                                                                                        \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,                          \
       unsigned long long flags),                                                                                      \
      (address, bytes, offset, handle, flags))                                                                         \
    X(page_unmap, (CUdeviceptr address, size_t bytes), (address, bytes))                                               \
    X(page_set_access, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count),               \
      (address, bytes, access, count))                                                                                 \
    X(stream_create, (CUstream * stream, unsigned flags), (stream, flags))                                             \
    X(stream_query, (CUstream stream), (stream))                                                                       \
    X(stream_wait, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))                           \
    X(event_create, (CUevent * event, unsigned flags), (event, flags))                                                 \
    X(event_record, (CUevent event, CUstream stream), (event, stream))                                                 \
    X(event_query, (CUevent event), (event))                                                                           \
    X(context_synchronize, (void), ())

enum {
#define NUMBER(member, parameters, arguments) ENTRY_##member,
    WRAPPED(NUMBER)
#undef NUMBER
        ENTRY_COUNT
};
static const char *const entry_names[] = {
#define NAME(member, parameters, arguments) #member,
    WRAPPED(NAME)
#undef NAME
};

static const struct weir__driver *real;
static int failing_entry, calls_left; /* the call at which calls_left reaches 0 fails */
static CUresult failing_code;
static bool armed;

static int always_failing = ENTRY_COUNT; /* once armed */

static bool fails(int entry) {
    return armed && (entry == always_failing || (entry == failing_entry && --calls_left == 0));
}

#define WRAPPER(member, parameters, arguments)                                                                         \
    static CUresult wrapped_##member parameters {                                                                      \
        return fails(ENTRY_##member) ? failing_code : real->member arguments;                                          \
    }
WRAPPED(WRAPPER)
#undef WRAPPER

static struct weir__driver faulty_table(void) {
    struct weir__driver table = *real;
#define REPLACE(member, parameters, arguments) table.member = wrapped_##member;
    WRAPPED(REPLACE)
#undef REPLACE
    return table;
}

/* ---- a small program that uses every way -------------------------------------------------------------------------- */

#define BLOCKS 12

struct program {
    struct weir_pool *pool;
    weir_stream streams[2];
    weir_event event;
    void *blocks[BLOCKS];
    int used_by[BLOCKS]; /* the stream */
};

/* A call may fail, for want of memory or of the driver; then nothing has changed. */
static bool done(struct program *program, enum weir_status status) {
    enum weir_status holds = weir_pool_check(program->pool);
    if (holds != WEIR_OK) fail_msg("after %s fails: %s", entry_names[failing_entry], weir_last_error()->message);
    assert_true(status == WEIR_OK || status == WEIR_DRIVER || status == WEIR_OUT_OF_MEMORY);
    return status == WEIR_OK;
}

static void allocate(struct program *program, int block, size_t bytes, int stream) {
    struct weir_pool_stats before = stats_of(program->pool);
    if (done(program, weir_pool_alloc(program->pool, bytes, program->streams[stream], &program->blocks[block]))) {
        program->used_by[block] = stream;
        queue_fill(program->streams[stream], program->blocks[block], bytes, (unsigned char)(block + 1));
        queue_check(program->streams[stream], program->blocks[block], bytes, (unsigned char)(block + 1));
        return;
    }
    assert_null(program->blocks[block]);
    assert_int_equal(stats_of(program->pool).live_bytes, before.live_bytes);
    if (always_failing == ENTRY_COUNT) assert_true(stats_of(program->pool).held_bytes <= before.held_bytes);
}

static void give_back(struct program *program, int block) {
    if (program->blocks[block] == NULL) return;
    const int stream = program->used_by[block];
    done(program, weir_pool_free(program->pool, program->blocks[block], program->streams[stream]));
    program->blocks[block] = NULL;
}

static void give_back_after(struct program *program, int block) {
    if (program->blocks[block] == NULL) return;
    if (done(program, weir_pool_free_after(program->pool, program->blocks[block], program->event)))
        program->blocks[block] = NULL;
}

static void run(struct program *program) {
    for (int i = 0; i < 8; i++) allocate(program, i, PAGE, i % 2); /* fills a part with single pages */
    armed = false;                                                 /* the program's own call */
    OK(weir_event_record(test_device(), program->event, program->streams[1]));
    armed = true;
    give_back_after(program, 1);
    for (int i = 2; i < 8; i += 2) give_back(program, i); /* every other one: holes */
    allocate(program, 8, 6 * PAGE, 1);                    /* new pages, then moved ones */
    allocate(program, 9, 5 * PAGE + 100, 0);
    give_back(program, 8);
    allocate(program, 10, 6 * PAGE, 0);  /* another stream's idle block */
    allocate(program, 11, 60 * PAGE, 0); /* never fits */
    done(program, weir_pool_trim(program->pool, 0));
}

/* With the driver well again: everything goes back, and all of the limit can be had. */
static void recover(struct program *program, size_t pages) {
    for (int i = 0; i < BLOCKS; i++) give_back(program, i);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    struct weir_pool_stats stats = stats_of(program->pool);
    assert_int_equal(stats.live_bytes, 0);
    size_t stuck = stats.moving_bytes / PAGE; /* pages that the driver would not unmap stay held */
    allocate(program, 0, (pages - stuck) * PAGE, 0);
    assert_non_null(program->blocks[0]);
    give_back(program, 0);
    OK(weir_device_synchronize(test_device()));
    close_pool(program->pool);
}

/* Gives: false when the entry is called less often than `turn` times. */
static bool run_with_failure(enum weir_policy policy, int entry, int turn, CUresult code) {
    const size_t pages = 20;
    struct weir_device *device = test_device();
    struct weir__driver faulty = faulty_table();
    struct program program = {.pool = open_pool(policy, pages), .streams = {new_stream(), new_stream()}};
    OK(weir_event_create(device, false, &program.event));
    failing_entry = entry;
    failing_code = code;
    calls_left = turn;
    device->driver = &faulty;
    armed = true;
    run(&program);
    armed = false;
    bool happened = calls_left <= 0;
    recover(&program, pages);
    device->driver = real;
    OK(weir_event_destroy(device, program.event));
    for (int i = 0; i < 2; i++) OK(weir_stream_destroy(device, program.streams[i]));
    return happened;
}

static unsigned fail_every_call(enum weir_policy policy, CUresult code) {
    unsigned failures = 0;
    real = test_device()->driver;
    for (int entry = 0; entry < ENTRY_COUNT; entry++)
        for (int turn = 1; turn <= 40 && run_with_failure(policy, entry, turn, code); turn++) failures++;
    return failures;
}

static void the_shared_pool_survives_the_failure_of_any_call(void **state) {
    (void)state;
    assert_true(fail_every_call(WEIR_POLICY_LATENCY, CUDA_ERROR_UNKNOWN) > 40); /* the count depends on timing */
    assert_true(fail_every_call(WEIR_POLICY_FOOTPRINT, CUDA_ERROR_UNKNOWN) > 40);
}

static void the_shared_pool_survives_a_driver_without_memory(void **state) {
    (void)state;
    assert_true(fail_every_call(WEIR_POLICY_LATENCY, CUDA_ERROR_OUT_OF_MEMORY) > 40);
}

static void the_per_stream_pool_survives_the_failure_of_any_call(void **state) {
    (void)state;
    assert_true(fail_every_call(WEIR_POLICY_PER_STREAM, CUDA_ERROR_UNKNOWN) > 5);
}

/* Two failures at once: pages that could be neither used nor unmapped again. */
static void pages_that_the_driver_will_not_unmap_stay_counted(void **state) {
    (void)state;
    real = test_device()->driver;
    always_failing = ENTRY_page_unmap;
    for (int turn = 1; turn <= 10; turn++)
        run_with_failure(WEIR_POLICY_LATENCY, ENTRY_page_set_access, turn, CUDA_ERROR_UNKNOWN);
    for (int turn = 1; turn <= 20; turn++)
        run_with_failure(WEIR_POLICY_LATENCY, ENTRY_page_map, turn, CUDA_ERROR_UNKNOWN);
    always_failing = ENTRY_COUNT;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shared_pool_survives_the_failure_of_any_call),
        cmocka_unit_test(the_shared_pool_survives_a_driver_without_memory),
        cmocka_unit_test(pages_that_the_driver_will_not_unmap_stay_counted),
        cmocka_unit_test(the_per_stream_pool_survives_the_failure_of_any_call),
    };
    return cmocka_run_group_tests_name("driver_failure", tests, NULL, NULL);
}
