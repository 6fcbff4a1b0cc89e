/* SPDX-License-Identifier: Apache-2.0 */
/* Streams by generation: handles are given again by the driver, and streams end behind the pool's back. Memory that a dead
 * stream may still be using is not given away, and nothing is asked of a dead handle. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define BYTES (4 * PAGE) /* fills the pool, so that it must be given again */

static weir_stream unheard_stream(void) { return driver_stream(CU_STREAM_NON_BLOCKING); }

/* Creates streams until one has the handle; the others end again. */
static weir_stream again(weir_stream handle, weir_stream (*create)(void), void (*destroy)(weir_stream)) {
    weir_stream others[64], made;
    size_t count = 0;
    while ((made = create()) != handle && count < 64) others[count++] = made;
    assert_ptr_equal(made, handle);
    while (count > 0) destroy(others[--count]);
    return made;
}

static void end_weir_stream(weir_stream stream) { OK(weir_stream_destroy(test_device(), stream)); }

/* ---- a handle that is another stream's by now ---------------------------------------------------------------------- */

static void reuse(weir_stream (*first)(void), weir_stream (*second)(void), void (*end)(weir_stream)) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream old = first();
    void *a = alloc(pool, BYTES, old);
    struct gate *gate = put_gate(old);
    queue_fill(old, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, old));
    end_driver_stream(old); /* unheard */
    weir_stream fresh = again(old, second, end);
    pass_on(pool, a, BYTES, fresh, gate);
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_free(pool, a, fresh));
    end(fresh);
    finish_pool(pool);
}

static void a_handle_given_again_is_another_stream(void **state) {
    (void)state;
    reuse(unheard_stream, unheard_stream, end_driver_stream);
}

static void also_when_weir_makes_the_new_one(void **state) {
    (void)state;
    reuse(unheard_stream, new_stream, end_weir_stream);
    reuse(new_stream, new_stream, end_weir_stream);
}

struct inside {
    struct weir_pool *pool;
    weir_stream stream;
    void **block;
    enum weir_status *status;
};

static void ask_inside(void *argument) {
    const struct inside *inside = argument;
    *inside->status = weir_pool_alloc(inside->pool, BYTES, inside->stream, inside->block);
}

/* In a host function the driver can't be asked which stream it is; what the old one has done may be over or not. */
static void in_a_host_function_it_may_be_either(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream old = unheard_stream();
    void *a = alloc(pool, BYTES, old), *b = NULL;
    struct gate *gate = put_gate(old);
    queue_fill(old, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, old));
    end_driver_stream(old);
    weir_stream fresh = again(old, unheard_stream, end_driver_stream);
    enum weir_status status = WEIR_OK;
    struct inside inside = {pool, fresh, &b, &status};
    struct weir_work work = {.name = "ask", .run = ask_inside, .argument = &inside, .argument_bytes = sizeof inside};
    OK(weir_device_submit(test_device(), &work, fresh));
    OK(weir_stream_synchronize(test_device(), fresh));
    assert_int_equal(status, WEIR_NOT_SUPPORTED);
    assert_null(b);
    open_gate(gate);
    finish_pool(pool);
    end_driver_stream(fresh);
}

/* The note by the new stream is not taken for one by the old, whose work is over. */
static void a_note_is_of_the_stream_that_is_there(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), old = unheard_stream();
    void *a = alloc(pool, 512, old);
    OK(weir_pool_free(pool, a, old));
    end_driver_stream(old);
    weir_stream fresh = again(old, unheard_stream, end_driver_stream);
    a = alloc(pool, BYTES, s0);
    OK(weir_pool_note(pool, a, fresh));
    OK(weir_pool_free(pool, alloc(pool, 0, fresh), fresh));
    OK(weir_device_synchronize(test_device()));
    weir__pool_lock(pool);
    weir__order_reach(&pool->order);
    weir__pool_unlock(pool);
    struct gate *gate = put_gate(fresh);
    queue_fill(fresh, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, s0));
    pass_on(pool, a, BYTES, s0, gate);
    finish_pool(pool);
    end_driver_stream(fresh);
    OK(weir_stream_destroy(test_device(), s0));
}

static void a_stream_that_is_gone_unheard_is_waited_for(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), old = unheard_stream();
    void *a = alloc(pool, BYTES, s0);
    OK(weir_pool_note(pool, a, old));
    struct gate *gate = put_gate(old);
    queue_fill(old, a, BYTES, 0xAA);
    end_driver_stream(old);
    OK(weir_pool_free(pool, a, s0));
    pass_on(pool, a, BYTES, s0, gate);
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s0));
}

/* ---- dead handles ------------------------------------------------------------------------------------------------ */

static const struct weir__driver *real;
static struct weir__driver careful;
static weir_stream dead[16];
static size_t dead_count, dead_calls;
static unsigned id_calls;

static void look(weir_stream stream) {
    for (size_t i = 0; i < dead_count; i++) dead_calls += dead[i] == stream;
}

static CUresult careful_record(CUevent event, CUstream stream) {
    look(stream);
    return real->event_record(event, stream);
}
static CUresult careful_wait(CUstream stream, CUevent event, unsigned flags) {
    look(stream);
    return real->stream_wait(stream, event, flags);
}
static CUresult careful_query(CUstream stream) {
    look(stream);
    return real->stream_query(stream);
}
static CUresult careful_id(CUstream stream, unsigned long long *id) {
    look(stream);
    id_calls++;
    return real->stream_id(stream, id);
}
static CUresult careful_capturing(CUstream stream, CUstreamCaptureStatus *status) {
    look(stream);
    return real->stream_is_capturing(stream, status);
}

static void be_careful(void) {
    careful = *(real = test_device()->driver);
    careful.event_record = careful_record;
    careful.stream_wait = careful_wait;
    careful.stream_query = careful_query;
    careful.stream_id = careful_id;
    careful.stream_is_capturing = careful_capturing;
    dead_count = dead_calls = id_calls = 0;
    test_device()->driver = &careful;
}

static void be_as_before(void) { test_device()->driver = real; }

static void die(weir_stream stream) {
    end_driver_stream(stream);
    dead[dead_count++] = stream;
}

enum { STREAMS = 8, BLOCKS = 4 };

static void nothing_is_asked_of_dead_streams(enum weir_policy policy) {
    struct weir_pool *pool = open_pool(policy, 140);
    weir_stream streams[STREAMS], s0 = new_stream();
    void *blocks[STREAMS][BLOCKS];
    be_careful();
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = unheard_stream();
        for (int k = 0; k < BLOCKS; k++) {
            blocks[i][k] = alloc(pool, 2 * PAGE, streams[i]);
            queue_fill(streams[i], blocks[i][k], 2 * PAGE, 0xAA);
        }
        for (int k = 0; k < BLOCKS; k += 2) OK(weir_pool_free(pool, blocks[i][k], streams[i]));
    }
    for (int i = 0; i < STREAMS; i++) die(streams[i]);
    void *large = alloc(pool, 64 * PAGE, s0);
    queue_fill(s0, large, 64 * PAGE, 0xBB);
    OK(weir_device_synchronize(test_device())); /* the free below promises that the dead ones' uses are over */
    for (int i = 0; i < STREAMS; i++)
        for (int k = 1; k < BLOCKS; k += 2) OK(weir_pool_free(pool, blocks[i][k], s0));
    for (int i = 0; i < 10 && stats_of(pool).held_bytes > stats_of(pool).live_bytes; i++) {
        OK(weir_pool_trim(pool, 0));
        OK(weir_device_synchronize(test_device()));
    }
    assert_int_equal(stats_of(pool).held_bytes, stats_of(pool).live_bytes);
    OK(weir_pool_free(pool, large, s0));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    finish_pool(pool);
    assert_int_equal(dead_calls, 0);
    be_as_before();
    OK(weir_stream_destroy(test_device(), s0));
}

static void the_shared_pool_asks_nothing_of_dead_streams(void **state) {
    (void)state;
    nothing_is_asked_of_dead_streams(WEIR_POLICY_LATENCY);
    nothing_is_asked_of_dead_streams(WEIR_POLICY_FOOTPRINT);
}

static void a_note_by_a_dead_stream_asks_nothing_of_it(void **state) {
    (void)state;
    enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_PER_STREAM};
    for (int i = 0; i < 2; i++) {
        struct weir_pool *pool = open_pool(policies[i], 10);
        weir_stream s0 = new_stream(), old = unheard_stream();
        be_careful();
        void *a = alloc(pool, 10 * PAGE, s0);
        OK(weir_pool_note(pool, a, old));
        queue_fill(old, a, 10 * PAGE, 0xAA);
        die(old);
        OK(weir_pool_free(pool, a, s0));
        void *b = alloc(pool, 10 * PAGE, s0);
        queue_fill(s0, b, 10 * PAGE, 0xBB);
        finish_pool(pool);
        assert_int_equal(dead_calls, 0);
        be_as_before();
        OK(weir_stream_destroy(test_device(), s0));
    }
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

static void streams_of_weir_are_never_asked_who_they_are(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 16);
    weir_stream known = new_stream(), foreign = unheard_stream();
    be_careful();
    for (int i = 0; i < 10; i++) OK(weir_pool_free(pool, alloc(pool, 512, known), known));
    assert_int_equal(id_calls, 0);
    for (int i = 0; i < 10; i++) OK(weir_pool_free(pool, alloc(pool, 512, foreign), foreign));
    assert_int_equal(id_calls, 11); /* once at first sight, once a request */
    be_as_before();
    finish_pool(pool);
    end_driver_stream(foreign);
    OK(weir_stream_destroy(test_device(), known));
}

/* ---- many side streams ------------------------------------------------------------------------------------------- */

static void side_streams(weir_stream (*create)(void), void (*destroy)(weir_stream)) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream side[32], s0 = new_stream();
    for (int i = 0; i < 32; i++) {
        side[i] = create();
        void *a = alloc(pool, 4 * PAGE, side[i]);
        queue_fill(side[i], a, 4 * PAGE, 0xAA);
        OK(weir_pool_free(pool, a, side[i]));
        OK(weir_stream_synchronize(test_device(), side[i]));
    }
    assert_in_range(stats_of(pool).held_bytes, 0, 8 * PAGE);
    void *b = alloc(pool, 32 * PAGE, s0);
    queue_fill(s0, b, 32 * PAGE, 0xBB);
    OK(weir_pool_free(pool, b, s0));
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    finish_pool(pool);
    for (int i = 0; i < 32; i++) destroy(side[i]);
    OK(weir_stream_destroy(test_device(), s0));
}

static void idle_side_streams_give_their_blocks_up(void **state) {
    (void)state;
    side_streams(new_stream, end_weir_stream);
    side_streams(unheard_stream, end_driver_stream);
}

/* ---- a stream that ends under a request --------------------------------------------------------------------------- */

struct asking {
    struct weir_pool *pool;
    weir_stream stream;
    void *block;
    enum weir_status status;
    uint64_t driver_code;
};

static void *ask(void *argument) {
    struct asking *asking = argument;
    asking->status = weir_pool_alloc(asking->pool, HALVES_ASKED * PAGE, asking->stream, &asking->block);
    asking->driver_code = (uint64_t)weir_last_error()->driver_code;
    return NULL;
}

/* It waits on the host; its stream is destroyed, and its slot would be the next stream's. */
static void a_request_whose_stream_is_destroyed_meanwhile_is_refused(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, HALVES_PAGES);
    weir_stream s1 = new_stream(), s2 = new_stream();
    struct halves halves = make_halves(pool, s1, s2);
    struct gate *gate = put_gate(s1);
    struct asking asking = {.pool = pool, .stream = new_stream()};
    OK(weir_pool_free(pool, halves.first, s1));
    OK(weir_pool_free(pool, halves.second, s2));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
    while (stats_of(pool).host_waits == 0) continue;
    OK(weir_stream_destroy(test_device(), asking.stream));
    weir_stream next = new_stream();
    OK(weir_pool_note(pool, halves.post, next)); /* has a slot now */
    open_gate(gate);
    pthread_join(thread, NULL);
    assert_int_equal(asking.status, WEIR_DRIVER);
    assert_int_equal(asking.driver_code, CUDA_ERROR_INVALID_HANDLE);
    assert_null(asking.block);
    OK(weir_pool_free(pool, halves.post, s1));
    OK(weir_stream_destroy(test_device(), next));
    OK(weir_pool_free(pool, alloc(pool, HALVES_ASKED * PAGE, s2), s2));
    finish_pool(pool);
    OK(weir_stream_destroy(test_device(), s1));
    OK(weir_stream_destroy(test_device(), s2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_given_again_is_another_stream),
        cmocka_unit_test(also_when_weir_makes_the_new_one),
        cmocka_unit_test(in_a_host_function_it_may_be_either),
        cmocka_unit_test(a_note_is_of_the_stream_that_is_there),
        cmocka_unit_test(a_stream_that_is_gone_unheard_is_waited_for),
        cmocka_unit_test(the_shared_pool_asks_nothing_of_dead_streams),
        cmocka_unit_test(a_note_by_a_dead_stream_asks_nothing_of_it),
        cmocka_unit_test(streams_of_weir_are_never_asked_who_they_are),
        cmocka_unit_test(idle_side_streams_give_their_blocks_up),
        cmocka_unit_test(a_request_whose_stream_is_destroyed_meanwhile_is_refused),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests_name("stream_identity", tests, NULL, NULL);
}
