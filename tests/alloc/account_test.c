/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool tells: bytes by stream, waits, calls, trim; streams that come and go; and calls in host functions. */
#include <string.h>

#include "support.h"

static struct weir_stream_stats of_stream(struct weir_pool *pool, const char *name) {
    struct weir_stream_stats stats[16] = {{.size = sizeof *stats}};
    size_t count = 0;
    OK(weir_pool_get_stream_stats(pool, stats, 16, &count));
    assert_true(count <= 16);
    for (size_t i = 0; i < count; i++)
        if (strcmp(stats[i].name, name) == 0) return stats[i];
    return (struct weir_stream_stats){0};
}

static void bytes_are_told_by_stream(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 40);
    weir_stream compute = new_stream(), comm = new_stream();
    weir_pool_name_stream(pool, compute, "compute");
    weir_pool_name_stream(pool, comm, "a name that is longer than there is room for");
    void *a = alloc(pool, 10 * PAGE, compute), *b = alloc(pool, 6 * PAGE + 100, comm);
    assert_int_equal(of_stream(pool, "compute").live_bytes, 10 * PAGE);
    assert_int_equal(of_stream(pool, "a name that is longer than ther").live_bytes, 6 * PAGE + 512);
    assert_int_equal(stats_of(pool).requested_bytes, 16 * PAGE + 100);
    OK(weir_pool_free(pool, a, comm)); /* used last by the stream that frees */
    OK(weir_pool_free(pool, b, comm));
    struct weir_stream_stats stats = of_stream(pool, "a name that is longer than ther");
    assert_int_equal(stats.idle_bytes, 17 * PAGE); /* and the rest of the page that was mapped for it */
    assert_int_equal(stats.peak_live_bytes, 6 * PAGE + 512);
    assert_int_equal(of_stream(pool, "compute").peak_live_bytes, 10 * PAGE);
    assert_int_equal(stats_of(pool).idle_bytes, 17 * PAGE);
    assert_int_equal(stats_of(pool).live_bytes, 0);
    close_pool(pool);
}

/* What is idle on the giver's stream while the asker's requests are short of memory, one shortage after the other. */
static void what_is_idle_elsewhere_in_a_shortage_is_told(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 40);
    weir_stream giver = new_stream(), asker = new_stream();
    weir_pool_name_stream(pool, giver, "giver");
    weir_pool_name_stream(pool, asker, "asker");
    void *large = alloc(pool, 10 * PAGE, giver), *parts[4];
    for (int i = 0; i < 4; i++) parts[i] = alloc(pool, 4 * PAGE, giver);
    struct gate *gate = put_gate(giver);
    OK(weir_pool_free(pool, large, giver));
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 0); /* nobody was short of memory yet */
    alloc(pool, 2 * PAGE, giver);
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 0); /* nor was the stream that has it */
    void *taken = alloc(pool, 12 * PAGE, asker);             /* takes new pages */
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 8 * PAGE);
    OK(weir_pool_free(pool, parts[0], giver));
    OK(weir_pool_free(pool, parts[2], giver));
    void *waited = alloc(pool, 4 * PAGE, asker); /* new pages are there no more, so the stream waits for idle ones */
    assert_int_equal(stats_of(pool).device_waits, 1);
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 8 * PAGE);
    void *none = NULL;
    assert_int_equal(weir_pool_alloc(pool, 30 * PAGE, asker, &none), WEIR_OUT_OF_MEMORY);
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 12 * PAGE);
    assert_int_equal(of_stream(pool, "asker").peak_stranded_bytes, 12 * PAGE);
    assert_int_equal(of_stream(pool, "giver").peak_stranded_bytes, 0);
    assert_int_equal(stats_of(pool).moved_bytes, 0);
    open_gate(gate);
    OK(weir_stream_synchronize(test_device(), giver));
    OK(weir_pool_free(pool, taken, asker));
    OK(weir_pool_free(pool, waited, asker));
    alloc(pool, 20 * PAGE, asker);
    struct weir_pool_stats stats = stats_of(pool);
    assert_true(stats.pages_moved > 0);
    assert_int_equal(stats.moved_bytes, stats.pages_moved * PAGE);
    close_pool(pool);
}

static void what_other_pools_keep_is_told_under_per_stream(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 60);
    weir_stream giver = new_stream(), asker = new_stream();
    void *large = alloc(pool, 20 * PAGE, giver), *none = NULL;
    OK(weir_pool_free(pool, large, giver));
    large = alloc(pool, 20 * PAGE, giver); /* from its own pool */
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 0);
    OK(weir_pool_free(pool, large, giver));
    alloc(pool, 30 * PAGE, asker);
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 20 * PAGE);
    alloc(pool, PAGE, giver); /* keeps the segment split */
    assert_int_equal(weir_pool_alloc(pool, 60 * PAGE, asker, &none), WEIR_OUT_OF_MEMORY);
    assert_int_equal(stats_of(pool).peak_stranded_bytes, 20 * PAGE);
    close_pool(pool);
}

static void trim_gives_back_down_to_the_target(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 40);
    weir_stream stream = new_stream();
    void *a = alloc(pool, 20 * PAGE, stream), *b = alloc(pool, 10 * PAGE, stream);
    OK(weir_pool_free(pool, a, stream));
    struct gate *gate = put_gate(stream);
    OK(weir_pool_trim(pool, 0)); /* not complete: nothing can go, and nothing is waited for */
    open_gate(gate);
    OK(weir_stream_synchronize(test_device(), stream));
    OK(weir_pool_trim(pool, 25 * PAGE));
    assert_int_equal(stats_of(pool).held_bytes, 25 * PAGE);
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 10 * PAGE);
    OK(weir_pool_free(pool, b, stream));
    close_pool(pool);
}

static void a_new_stream_every_step_costs_no_memory(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    void *left[8] = {0};
    for (int step = 0; step < 200; step++) {
        weir_stream stream = new_stream();
        void *a = alloc(pool, 20 * PAGE, stream), *b = alloc(pool, PAGE, stream);
        queue_fill(stream, a, 20 * PAGE, 1);
        if (left[step % 8] != NULL) OK(weir_pool_free(pool, left[step % 8], stream)); /* its own stream is gone */
        left[step % 8] = b;
        OK(weir_pool_note(pool, b, stream));
        OK(weir_pool_free(pool, a, stream));
        OK(weir_stream_synchronize(test_device(), stream));
        OK(weir_stream_destroy(test_device(), stream));
        OK(weir_pool_check(pool));
    }
    size_t count;
    OK(weir_pool_get_stream_stats(pool, NULL, 0, &count));
    assert_true(count < 16);
    assert_true(stats_of(pool).peak_held_bytes <= 50 * PAGE);
    close_pool(pool);
}

static void what_only_a_free_after_event_tagged_is_told_apart(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 16);
    weir_stream compute = new_stream(), copy = new_stream();
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    void *a = alloc(pool, 4 * PAGE, compute);
    OK(weir_event_record(test_device(), event, copy));
    OK(weir_pool_free_after(pool, a, event));
    assert_int_equal(weir_pool_free_after(pool, a, event), WEIR_INVALID);
    assert_int_equal(of_stream(pool, "free_after").idle_bytes, 4 * PAGE);
    close_pool(pool);
    OK(weir_event_destroy(test_device(), event));
}

/* ---- host functions ---------------------------------------------------------------------------------------------- */

struct inside {
    struct weir_pool *pool;
    weir_stream stream;
    weir_event event;
    void *first, *second, *given;
    enum weir_status freed, after, trimmed, small, large;
};

static void call_the_pool(void *argument) {
    struct inside *inside = argument;
    void *none = NULL;
    inside->small = weir_pool_alloc(inside->pool, PAGE, inside->stream, &inside->given);
    inside->large = weir_pool_alloc(inside->pool, 12 * PAGE, inside->stream, &none);
    inside->freed = weir_pool_free(inside->pool, inside->first, inside->stream);
    inside->after = weir_pool_free_after(inside->pool, inside->second, inside->event);
    inside->trimmed = weir_pool_trim(inside->pool, 0);
}

static void inside_a_host_function_the_pool_makes_no_driver_call(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 32);
    struct inside inside = {.pool = pool, .stream = new_stream()};
    OK(weir_event_create(test_device(), false, &inside.event));
    inside.first = alloc(pool, 4 * PAGE, inside.stream);
    inside.second = alloc(pool, 4 * PAGE, inside.stream);
    void *idle = alloc(pool, PAGE, inside.stream);
    OK(weir_pool_free(pool, idle, inside.stream));
    struct weir_pool_stats before = stats_of(pool);
    struct weir_work work = {.name = "inside", .run = call_the_pool, .argument = &inside};
    OK(weir_device_submit(test_device(), &work, inside.stream));
    OK(weir_stream_synchronize(test_device(), inside.stream));
    assert_int_equal(inside.small, WEIR_OK); /* ordered and idle: needs no driver */
    assert_ptr_equal(inside.given, idle);
    assert_int_equal(inside.large, WEIR_NOT_SUPPORTED);
    assert_int_equal(inside.after, WEIR_NOT_SUPPORTED);
    assert_int_equal(inside.trimmed, WEIR_NOT_SUPPORTED);
    assert_int_equal(inside.freed, WEIR_OK);
    struct weir_pool_stats after = stats_of(pool); /* the queued free is taken in by the next call */
    assert_int_equal(after.frees, before.frees + 1);
    assert_int_equal(after.live_bytes, 5 * PAGE);
    assert_int_equal(after.memory_calls, before.memory_calls);
    assert_int_equal(after.order_calls, before.order_calls);
    close_pool(pool);
    OK(weir_event_destroy(test_device(), inside.event));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_told_by_stream),
        cmocka_unit_test(what_is_idle_elsewhere_in_a_shortage_is_told),
        cmocka_unit_test(what_other_pools_keep_is_told_under_per_stream),
        cmocka_unit_test(trim_gives_back_down_to_the_target),
        cmocka_unit_test(a_new_stream_every_step_costs_no_memory),
        cmocka_unit_test(what_only_a_free_after_event_tagged_is_told_apart),
        cmocka_unit_test(inside_a_host_function_the_pool_makes_no_driver_call),
    };
    return cmocka_run_group_tests_name("account", tests, NULL, NULL);
}
