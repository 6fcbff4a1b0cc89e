/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that name no stream: what they free is given again only after all that was queued, on streams that the pool has
 * never seen too; what they are given is ready on every stream at once; and no capture is touched. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/emu_types.h"
#include "support.h"

#define BYTES (4 * PAGE) /* fills the pool, so that it must be given again */

static struct weir_pool *open_full(void) { return open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE); }

static void *alloc_any(struct weir_pool *pool, size_t bytes) {
    void *block = NULL;
    OK(weir_pool_alloc_any(pool, bytes, &block));
    assert_non_null(block);
    return block;
}

/* ---- opens a gate once the pool waits ---------------------------------------------------------------------------- */

struct opener {
    struct weir_pool *pool;
    struct gate *gate;
    unsigned fills;
};

static void *open_when_waiting(void *argument) {
    struct opener *opener = argument;
    uint64_t until_ns = now_ns() + 1000000000u;
    while (stats_of(opener->pool).host_waits == 0 && now_ns() < until_ns) {
    }
    let_mutant_run(opener->fills + 1);
    open_gate(opener->gate);
    return NULL;
}

static pthread_t start_opener(struct opener *opener) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_when_waiting, opener), 0);
    return thread;
}

/* ---- frees ------------------------------------------------------------------------------------------------------ */

static void a_block_freed_without_a_stream_waits_on_the_host_for_a_stream_never_seen(void **state) {
    (void)state;
    struct weir_pool *pool = open_full();
    weir_stream s1 = driver_stream(CU_STREAM_NON_BLOCKING), s2 = driver_stream(CU_STREAM_NON_BLOCKING);
    void *p = alloc_any(pool, BYTES);
    struct gate *gate = put_gate(s1);
    struct opener opener = {.pool = pool, .gate = gate, .fills = fills_run()};
    queue_fill(s1, p, BYTES, 0xAA);
    OK(weir_pool_free_any(pool, p));
    assert_int_equal(stats_of(pool).host_waits, 0);
    pthread_t thread = start_opener(&opener);
    void *q = alloc_any(pool, BYTES);
    assert_ptr_equal(p, q);
    queue_fill(s2, q, BYTES, 0xBB);
    pthread_join(thread, NULL);
    OK(weir_device_synchronize(test_device()));
    queue_check(s2, q, BYTES, 0xBB);
    assert_int_equal(stats_of(pool).host_waits, 1);
    finish_pool(pool);
    end_driver_stream(s1);
    end_driver_stream(s2);
}

static void stream_waits(unsigned flags) {
    struct weir_pool *pool = open_full();
    weir_stream s1 = driver_stream(flags), s2 = new_stream();
    void *p = alloc(pool, BYTES, s2);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, p, BYTES, 0xAA);
    OK(weir_pool_free_any(pool, p));
    pass_on(pool, p, BYTES, s2, gate); /* its own stream has nothing queued: that proves nothing */
    assert_int_equal(stats_of(pool).device_waits, 1);
    assert_int_equal(stats_of(pool).host_waits, 0);
    finish_pool(pool);
    end_driver_stream(s1);
    OK(weir_stream_destroy(test_device(), s2));
}

static void a_stream_waits_on_the_device_for_a_stream_never_seen(void **state) {
    (void)state;
    stream_waits(CU_STREAM_NON_BLOCKING);
}

static void a_stream_waits_on_the_device_for_a_blocking_stream_never_seen(void **state) {
    (void)state;
    stream_waits(CU_STREAM_DEFAULT);
}

static void a_stream_waits_for_the_legacy_stream(void **state) {
    (void)state;
    struct weir_pool *pool = open_full();
    weir_stream s2 = new_stream();
    void *p = alloc(pool, BYTES, s2);
    struct gate *gate = put_gate(NULL);
    queue_fill(NULL, p, BYTES, 0xAA);
    OK(weir_pool_free_any(pool, p));
    pass_on(pool, p, BYTES, s2, gate);
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s2));
}

/* The work of a stream that has been destroyed since is queued still. */
static void a_destroyed_stream_is_waited_for_too(void **state) {
    (void)state;
    struct weir_pool *pool = open_full();
    weir_stream s1 = driver_stream(CU_STREAM_NON_BLOCKING), s2 = new_stream();
    void *p = alloc_any(pool, BYTES);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, p, BYTES, 0xAA);
    end_driver_stream(s1);
    OK(weir_pool_free_any(pool, p));
    pass_on(pool, p, BYTES, s2, gate);
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s2));
}

static void marks_of_the_context_are_made_every_64_frees(void **state) {
    (void)state;
    struct weir_pool *pool = open_full();
    void *blocks[WEIR__MARK_SOON];
    for (unsigned i = 0; i < WEIR__MARK_SOON; i++) blocks[i] = alloc_any(pool, 512);
    for (unsigned i = 0; i < WEIR__MARK_SOON; i++) {
        assert_int_equal(stats_of(pool).order_calls, 0);
        OK(weir_pool_free_any(pool, blocks[i]));
    }
    assert_int_equal(stats_of(pool).order_calls, 1);
    finish_pool(pool);
}

static void free_it(void *argument) {
    void **of = argument;
    assert_int_equal(weir_pool_free_any(of[0], of[1]), WEIR_OK);
}

static void a_free_inside_a_host_function_is_queued(void **state) {
    (void)state;
    struct weir_pool *pool = open_full();
    weir_stream s1 = new_stream();
    void *p = alloc_any(pool, BYTES), *of[] = {pool, p};
    struct weir_work work = {.name = "free", .run = free_it, .argument = of};
    OK(weir_device_submit(test_device(), &work, s1));
    OK(weir_stream_synchronize(test_device(), s1));
    assert_ptr_equal(alloc_any(pool, BYTES), p);
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s1));
}

static void a_wait_for_the_context_ends_with_the_wait_limit(void **state) {
    (void)state;
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = BYTES, .wait_limit_ns = 20000000u, .trace_path = ""};
    struct weir_pool *pool;
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream s1 = driver_stream(CU_STREAM_NON_BLOCKING);
    void *p = alloc_any(pool, BYTES), *q;
    struct gate *gate = put_gate(s1);
    queue_fill(s1, p, BYTES, 0xAA);
    OK(weir_pool_free_any(pool, p));
    assert_int_equal(weir_pool_alloc_any(pool, BYTES, &q), WEIR_OUT_OF_MEMORY);
    assert_null(q);
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(pool, &refusal));
    assert_null(refusal.stream);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    assert_ptr_equal(alloc_any(pool, BYTES), p);
    finish_pool(pool);
    end_driver_stream(s1);
}

/* ---- a driver without events for a context ------------------------------------------------------------------------ */

static const struct weir__driver *real;
static struct gate *held;

static CUresult open_and_synchronize(void) {
    if (held != NULL) open_gate(held);
    held = NULL;
    return real->context_synchronize();
}

static CUresult refuse(CUcontext context, CUevent event) {
    (void)context;
    (void)event;
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void host_waits_for_context(CUresult (*record)(CUcontext, CUevent), bool named) {
    struct weir__driver older = *(real = test_device()->driver);
    struct weir_pool *pool = open_full();
    weir_stream s1 = driver_stream(CU_STREAM_NON_BLOCKING), s2 = new_stream();
    older.context_record = record;
    older.context_synchronize = open_and_synchronize;
    test_device()->driver = &older;
    void *p = alloc_any(pool, BYTES);
    held = put_gate(s1);
    queue_fill(s1, p, BYTES, 0xAA);
    OK(weir_pool_free_any(pool, p));
    assert_non_null(held); /* the free has not waited */
    void *q = named ? alloc(pool, BYTES, s2) : alloc_any(pool, BYTES);
    assert_null(held);
    assert_ptr_equal(p, q);
    queue_fill(s2, q, BYTES, 0xBB);
    queue_check(s2, q, BYTES, 0xBB);
    finish_pool(pool);
    test_device()->driver = real;
    end_driver_stream(s1);
    OK(weir_stream_destroy(test_device(), s2));
}

static void without_such_events_the_host_waits_for_the_context(void **state) {
    (void)state;
    host_waits_for_context(NULL, false);
    host_waits_for_context(NULL, true);
}

static void where_they_are_refused_the_host_waits_too(void **state) {
    (void)state;
    host_waits_for_context(refuse, false);
    host_waits_for_context(refuse, true);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void a_request_without_a_stream_is_given_nothing_that_is_in_use(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_FOOTPRINT, 2 * BYTES / PAGE);
    weir_stream s1 = new_stream(), s2 = new_stream();
    void *a = alloc(pool, BYTES, s1);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    void *b = alloc_any(pool, BYTES); /* new pages, though a stream could be made to wait for the old ones */
    assert_ptr_not_equal(a, b);
    queue_fill(s2, b, BYTES, 0xBB);
    queue_check(s2, b, BYTES, 0xBB);
    struct opener opener = {.pool = pool, .gate = gate, .fills = fills_run()};
    pthread_t thread = start_opener(&opener);
    void *c = alloc_any(pool, BYTES);
    assert_ptr_equal(a, c);
    queue_fill(s2, c, BYTES, 0xCC);
    pthread_join(thread, NULL);
    OK(weir_device_synchronize(test_device()));
    queue_check(s2, c, BYTES, 0xCC);
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s1));
    OK(weir_stream_destroy(test_device(), s2));
}

/* Idle pieces that have no whole page: they can't be moved, only waited for. */
static void a_request_smaller_than_a_page_waits_for_a_piece_that_fits(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 1);
    weir_stream s1 = new_stream();
    void *a = alloc(pool, PAGE / 2, s1), *b = alloc(pool, PAGE / 2, s1);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, a, PAGE / 2, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    struct opener opener = {.pool = pool, .gate = gate, .fills = fills_run()};
    pthread_t thread = start_opener(&opener);
    assert_ptr_equal(alloc_any(pool, PAGE / 2), a);
    pthread_join(thread, NULL);
    OK(weir_pool_free_any(pool, b));
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s1));
}

/* New pages beside idle ones that are in use: the window must not hold those. */
static void a_request_beside_memory_in_use_takes_none_of_it(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 6);
    weir_stream s1 = new_stream(), s2 = new_stream();
    void *a = alloc(pool, 2 * PAGE, s1), *b = alloc(pool, 2 * PAGE, s1);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, b, 2 * PAGE, 0xAA);
    OK(weir_pool_free(pool, b, s1));
    void *c = NULL;
    struct opener opener = {.pool = pool, .gate = gate, .fills = fills_run()};
    pthread_t thread = start_opener(&opener);
    OK(weir_pool_alloc_any(pool, 4 * PAGE, &c));
    queue_fill(s2, c, 4 * PAGE, 0xBB);
    pthread_join(thread, NULL);
    OK(weir_device_synchronize(test_device()));
    queue_check(s2, c, 4 * PAGE, 0xBB);
    OK(weir_pool_free(pool, a, s1));
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s1));
    OK(weir_stream_destroy(test_device(), s2));
}

/* ---- policy per-stream ------------------------------------------------------------------------------------------ */

/* Freed memory counts as in use until the host has seen otherwise, so each round finds nothing of what the round before freed. */
static void a_host_that_runs_ahead_takes_about_twice_what_is_live(void **state) {
    enum { SIZES = 4, LARGEST = 64, LIVE = 2 * LARGEST - LARGEST / 8, ROUNDS = 200, MARK = WEIR__MARK_GRANULES };
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 2000);
    for (int round = 0; round < ROUNDS; round++) {
        void *block[SIZES];
        for (int i = 0; i < SIZES; i++) block[i] = alloc_any(pool, (LARGEST >> i) * PAGE);
        for (int i = 0; i < SIZES; i++) OK(weir_pool_free_any(pool, block[i]));
    }
    assert_in_range(stats_of(pool).peak_held_bytes / PAGE, LIVE, 2 * LIVE + MARK + LARGEST);
    assert_in_range(stats_of(pool).host_waits, 0, ROUNDS * 3 / 4); /* one wait serves more than one round */
    finish_pool(pool);
}

/* More than that when the wait is too long, or not to be made. */
static void a_wait_that_is_not_needed_refuses_nothing(void **state) {
    enum { BLOCK = WEIR__MARK_GRANULES + 8 };
    (void)state;
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = 3 * BLOCK * PAGE, .wait_limit_ns = 1000000u, .trace_path = ""};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream s = driver_stream(CU_STREAM_NON_BLOCKING);
    void *p = alloc_any(pool, BLOCK * PAGE);
    struct gate *gate = put_gate(s);
    queue_fill(s, p, PAGE, 0xAA);
    OK(weir_pool_free_any(pool, p));
    void *q = alloc_any(pool, BLOCK * PAGE);
    assert_ptr_not_equal(p, q);
    assert_int_equal(stats_of(pool).host_waits, 1);
    OK(weir_pool_free_any(pool, q));
    open_gate(gate);
    finish_pool(pool);
    end_driver_stream(s);
}

static void per_stream_keeps_a_block_back_until_all_has_passed(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 10);
    weir_stream s1 = driver_stream(CU_STREAM_NON_BLOCKING), s2 = new_stream();
    void *p = alloc_any(pool, 10 * PAGE);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, p, 10 * PAGE, 0xAA);
    OK(weir_pool_free_any(pool, p));
    struct opener opener = {.pool = pool, .gate = gate, .fills = fills_run()};
    pthread_t thread = start_opener(&opener);
    void *q = alloc_any(pool, 10 * PAGE);
    queue_fill(s2, q, 10 * PAGE, 0xBB);
    pthread_join(thread, NULL);
    OK(weir_device_synchronize(test_device()));
    queue_check(s2, q, 10 * PAGE, 0xBB);
    finish_pool(pool);
    end_driver_stream(s1);
    OK(weir_stream_destroy(test_device(), s2));
}

/* ---- captures --------------------------------------------------------------------------------------------------- */

static void *entry(const char *name) {
    void *library = dlopen(test_device()->driver->path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    void *found = dlsym(library, name);
    assert_non_null(found);
    dlclose(library);
    return found;
}

static void begin_capture(weir_stream stream) {
    CUresult (*begin)(CUstream, CUstreamCaptureMode);
    *(void **)&begin = entry("cuStreamBeginCapture_v2");
    OK(weir__device_enter(test_device()));
    assert_int_equal(begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    weir__device_leave(test_device());
}

static CUresult end_capture(weir_stream stream) {
    CUresult (*end)(CUstream, CUgraph *);
    CUgraph graph = NULL;
    *(void **)&end = entry("cuStreamEndCapture");
    OK(weir__device_enter(test_device()));
    CUresult code = end(stream, &graph);
    weir__device_leave(test_device());
    return code;
}

enum { FREES = WEIR__MARK_SOON + 1 };

/* Of a stream that the pool has never seen. What was freed is to be had meanwhile, once the host has waited. */
static void captures_stay_valid(weir_stream stream) {
    struct weir_pool *pool = open_full();
    weir_stream s1 = driver_stream(CU_STREAM_NON_BLOCKING), s2 = driver_stream(CU_STREAM_NON_BLOCKING);
    void *p = alloc_any(pool, PAGE), *blocks[FREES];
    for (unsigned i = 0; i < FREES; i++) blocks[i] = alloc_any(pool, 512);
    struct opener opener = {.pool = pool, .gate = put_gate(s1), .fills = fills_run()};
    queue_fill(s1, p, PAGE, 0xAA);
    begin_capture(stream);
    for (unsigned i = 0; i < FREES; i++) OK(weir_pool_free_any(pool, blocks[i]));
    OK(weir_pool_free_any(pool, p));
    OK(weir_pool_trim(pool, 0)); /* it would like to know what is over */
    assert_int_equal(stats_of(pool).order_calls, 0);
    pthread_t thread = start_opener(&opener);
    void *q = alloc_any(pool, BYTES);
    queue_fill(s2, q, BYTES, 0xBB);
    pthread_join(thread, NULL);
    assert_int_equal(end_capture(stream), CUDA_SUCCESS);
    OK(weir_device_synchronize(test_device()));
    queue_check(s2, q, BYTES, 0xBB);
    finish_pool(pool);
    end_driver_stream(s1);
    end_driver_stream(s2);
}

static void no_capture_is_touched(void **state) {
    (void)state;
    weir_stream stream = new_stream(), blocking = driver_stream(CU_STREAM_DEFAULT);
    captures_stay_valid(stream);
    captures_stay_valid(blocking);
    OK(weir_stream_destroy(test_device(), stream));
    end_driver_stream(blocking);
}

/* ---- what is refused, and what is told -------------------------------------------------------------------------- */

static void wrong_calls_are_refused_and_change_nothing(void **state) {
    (void)state;
    struct weir_pool *pool = open_full();
    void *p = alloc_any(pool, 512), *q;
    assert_int_equal(weir_pool_alloc_any(pool, 512, NULL), WEIR_INVALID);
    assert_int_equal(weir_pool_alloc_any(NULL, 512, &q), WEIR_INVALID);
    assert_int_equal(weir_pool_free_any(NULL, p), WEIR_INVALID);
    assert_int_equal(weir_pool_alloc(pool, 512, WEIR__ANY_STREAM, &q), WEIR_INVALID);
    assert_int_equal(weir_pool_free(pool, p, WEIR__ANY_STREAM), WEIR_INVALID);
    assert_int_equal(weir_pool_note(pool, p, WEIR__ANY_STREAM), WEIR_INVALID);
    OK(weir_pool_free_any(pool, NULL));
    OK(weir_pool_free_any(pool, p));
    assert_int_equal(weir_pool_free_any(pool, p), WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, "weir_pool_free_any"));
    OK(weir_pool_alloc_any(pool, 0, &p));
    OK(weir_pool_free_any(pool, p));
    finish_pool(pool);
}

static void what_names_no_stream_is_accounted_apart(void **state) {
    (void)state;
    struct weir_pool *pool = open_full();
    struct weir_stream_stats stats[4] = {{.size = sizeof *stats}};
    size_t count;
    OK(weir_pool_get_stream_stats(pool, stats, 4, &count));
    assert_int_equal(count, 0);
    void *p = alloc_any(pool, PAGE);
    OK(weir_pool_get_stream_stats(pool, stats, 4, &count));
    assert_int_equal(count, 1);
    assert_string_equal(stats[0].name, "any stream");
    assert_null(stats[0].stream);
    assert_int_equal(stats[0].live_bytes, PAGE);
    OK(weir_pool_free_any(pool, p));
    OK(weir_pool_get_stream_stats(pool, stats, 4, &count));
    assert_int_equal(stats[0].live_bytes, 0);
    assert_int_equal(stats[0].idle_bytes, PAGE);
    finish_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_freed_without_a_stream_waits_on_the_host_for_a_stream_never_seen),
        cmocka_unit_test(a_stream_waits_on_the_device_for_a_stream_never_seen),
        cmocka_unit_test(a_stream_waits_on_the_device_for_a_blocking_stream_never_seen),
        cmocka_unit_test(a_stream_waits_for_the_legacy_stream),
        cmocka_unit_test(a_destroyed_stream_is_waited_for_too),
        cmocka_unit_test(marks_of_the_context_are_made_every_64_frees),
        cmocka_unit_test(a_free_inside_a_host_function_is_queued),
        cmocka_unit_test(a_wait_for_the_context_ends_with_the_wait_limit),
        cmocka_unit_test(without_such_events_the_host_waits_for_the_context),
        cmocka_unit_test(where_they_are_refused_the_host_waits_too),
        cmocka_unit_test(a_request_without_a_stream_is_given_nothing_that_is_in_use),
        cmocka_unit_test(a_request_smaller_than_a_page_waits_for_a_piece_that_fits),
        cmocka_unit_test(a_request_beside_memory_in_use_takes_none_of_it),
        cmocka_unit_test(a_host_that_runs_ahead_takes_about_twice_what_is_live),
        cmocka_unit_test(a_wait_that_is_not_needed_refuses_nothing),
        cmocka_unit_test(per_stream_keeps_a_block_back_until_all_has_passed),
        cmocka_unit_test(no_capture_is_touched),
        cmocka_unit_test(wrong_calls_are_refused_and_change_nothing),
        cmocka_unit_test(what_names_no_stream_is_accounted_apart),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests_name("any_stream", tests, NULL, NULL);
}
