/* SPDX-License-Identifier: Apache-2.0 */
/* A refusal says what fills the whole device: its parts sum to the capacity, whoever holds the memory and wherever the limit
 * is. The report says it in words, and ends with what to try. */
#include <stdio.h>
#include <string.h>

#include "support.h"

#define CAPACITY ((size_t)64 << 20)

static struct weir_pool *open_patient(const char *name, enum weir_policy policy, size_t pages, uint64_t wait_limit_ns) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .policy = policy,
                                        .limit_bytes = pages * PAGE,
                                        .wait_limit_ns = wait_limit_ns,
                                        .trace_path = "",
                                        .name = name};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

static struct weir_pool *open_named(const char *name, enum weir_policy policy, size_t pages) {
    return open_patient(name, policy, pages, 2000000000u);
}

static struct weir_pool_refusal refusal_of(struct weir_pool *pool) {
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(pool, &refusal));
    assert_int_equal(refusal.capacity_bytes, CAPACITY);
    assert_int_equal(refusal.live_bytes + refusal.idle_asker_bytes + refusal.idle_others_bytes + refusal.moving_bytes +
                         refusal.unmapped_bytes + refusal.untaken_bytes + refusal.others_bytes +
                         refusal.above_limit_bytes,
                     CAPACITY);
    return refusal;
}

static struct weir_pool_refusal refused(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    void *none = pool;
    assert_int_equal(weir_pool_alloc(pool, bytes, stream, &none), WEIR_OUT_OF_MEMORY);
    assert_null(none);
    const struct weir_pool_refusal refusal = refusal_of(pool);
    assert_int_equal(refusal.asked_bytes, bytes);
    return refusal;
}

static void expect_report(struct weir_pool *pool, const char *words) {
    static char text[8192];
    assert_true(weir_pool_report(pool, text, sizeof text) < sizeof text);
    if (strstr(text, words) == NULL) fail_msg("\"%s\" is not in\n%s", words, text);
}

static void what_is_free_above_the_limit_is_told_apart(void **state) {
    (void)state;
    struct weir_pool *pool = open_named("small", WEIR_POLICY_LATENCY, 20);
    weir_stream asker = new_stream(), other = new_stream();
    alloc(pool, 6 * PAGE, asker);
    OK(weir_pool_free(pool, alloc(pool, 4 * PAGE, other), other));
    const struct weir_pool_refusal refusal = refused(pool, 15 * PAGE, asker);
    assert_int_equal(refusal.live_bytes, 6 * PAGE);
    assert_int_equal(refusal.idle_others_bytes, 4 * PAGE);
    assert_int_equal(refusal.untaken_bytes, 10 * PAGE);
    assert_int_equal(refusal.others_bytes, 0);
    assert_int_equal(refusal.above_limit_bytes, CAPACITY - 20 * PAGE);
    expect_report(pool, "(small, policy latency)");
    expect_report(pool, "  free, but above the limit       63.69 MiB   99.5 %");
    expect_report(pool, "  all: the device's capacity      64.00 MiB  100.0 %");
    expect_report(pool, "  a higher limit: beyond it the device has 63.69 MiB free");
    close_pool(pool);
}

static void what_another_pool_holds_is_told(void **state) {
    (void)state;
    struct weir_pool *other = open_named("other", WEIR_POLICY_LATENCY, 4000);
    struct weir_pool *pool = open_named("whole", WEIR_POLICY_LATENCY, CAPACITY / PAGE);
    weir_stream stream = new_stream();
    alloc(other, 3000 * PAGE, stream);
    alloc(pool, 90 * PAGE, stream);
    const struct weir_pool_refusal refusal = refused(pool, 2000 * PAGE, stream);
    assert_int_equal(refusal.others_bytes, 3000 * PAGE);
    assert_int_equal(refusal.live_bytes, 90 * PAGE);
    assert_int_equal(refusal.untaken_bytes, CAPACITY - 3090 * PAGE); /* not all that the limit would allow */
    assert_int_equal(refusal.above_limit_bytes, 0);
    expect_report(pool, "the driver had no more memory, though the limit was not reached; others hold 46.88 MiB");
    close_pool(pool);
    pool = open_named("half", WEIR_POLICY_PER_STREAM, 50);
    assert_int_equal(refused(pool, 60 * PAGE, stream).others_bytes, 3000 * PAGE);
    expect_report(pool, "  fewer other users of the device: other pools and programs hold 46.88 MiB");
    expect_report(pool, "  held by others                  46.88 MiB   73.2 %");
    close_pool(pool);
    close_pool(other);
}

static void a_lowered_limit_leaves_the_parts_whole(void **state) {
    (void)state;
    struct weir_pool *pool = open_named("lowered", WEIR_POLICY_LATENCY, 40);
    weir_stream stream = new_stream();
    alloc(pool, 30 * PAGE, stream);
    OK(weir_pool_set_limit(pool, 10 * PAGE));
    const struct weir_pool_refusal refusal = refused(pool, PAGE, stream);
    assert_int_equal(refusal.live_bytes, 30 * PAGE);
    assert_int_equal(refusal.untaken_bytes, 0);
    assert_int_equal(refusal.above_limit_bytes, CAPACITY - 30 * PAGE);
    close_pool(pool);
}

/* The driver's own words are wanted for what is told only; without them all that the pool does not hold counts as free. */
static CUresult no_memory_info(size_t *free_bytes, size_t *total_bytes) {
    (void)free_bytes;
    (void)total_bytes;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult more_free_than_there_is(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = 2 * CAPACITY;
    return CUDA_SUCCESS;
}

static void a_driver_without_an_answer_changes_nothing_else(void **state) {
    (void)state;
    static CUresult (*const answers[])(size_t *, size_t *) = {no_memory_info, more_free_than_there_is};
    struct weir_pool *pool = open_named("quiet", WEIR_POLICY_LATENCY, 20);
    weir_stream stream = new_stream();
    alloc(pool, 6 * PAGE, stream);
    const struct weir__driver *real = test_device()->driver;
    for (int i = 0; i < 2; i++) {
        struct weir__driver quiet = *real;
        quiet.memory_info = answers[i];
        test_device()->driver = &quiet;
        const struct weir_pool_refusal refusal = refused(pool, 15 * PAGE, stream);
        assert_int_equal(weir_last_error()->status, WEIR_OUT_OF_MEMORY);
        assert_int_equal(refusal.others_bytes, 0);
        assert_int_equal(refusal.untaken_bytes, 14 * PAGE);
        expect_report(pool, "out of memory: 240.00 KiB");
        assert_int_equal(weir_last_error()->status, WEIR_OUT_OF_MEMORY); /* a report keeps it */
        test_device()->driver = real;
    }
    close_pool(pool);
}

struct inside {
    struct weir_pool *pool;
    weir_stream stream;
    enum weir_status status;
    size_t length;
    enum weir_status last; /* after the report */
};

static void ask_for_too_much(void *argument) {
    struct inside *inside = argument;
    void *none = NULL;
    inside->status = weir_pool_alloc(inside->pool, SIZE_MAX / 2, inside->stream, &none);
    inside->length = weir_pool_report(inside->pool, NULL, 0);
    inside->last = weir_last_error()->status;
}

static void a_refusal_in_a_host_function_asks_no_driver(void **state) {
    (void)state;
    struct weir_pool *other = open_named("other", WEIR_POLICY_LATENCY, 100);
    struct inside inside = {.pool = open_named("inside", WEIR_POLICY_LATENCY, 20), .stream = new_stream()};
    alloc(other, 100 * PAGE, inside.stream);
    struct weir_work work = {.name = "inside", .run = ask_for_too_much, .argument = &inside};
    OK(weir_device_submit(test_device(), &work, inside.stream));
    OK(weir_stream_synchronize(test_device(), inside.stream));
    assert_int_equal(inside.status, WEIR_OUT_OF_MEMORY);
    assert_true(inside.length > 0);
    assert_int_equal(inside.last, WEIR_OUT_OF_MEMORY); /* not the driver's refusal to be asked here */
    assert_int_equal(refusal_of(inside.pool).others_bytes, 0);
    assert_int_equal(refused(inside.pool, SIZE_MAX / 2, inside.stream).others_bytes, 100 * PAGE);
    close_pool(inside.pool);
    close_pool(other);
}

static void a_report_ends_with_what_to_try(void **state) {
    (void)state;
    static char text[8192];
    struct weir_pool *pool = open_named("told", WEIR_POLICY_LATENCY, 20);
    weir_stream stream = new_stream();
    weir_pool_name_stream(pool, stream, "compute");
    alloc(pool, 6 * PAGE, stream);
    expect_report(pool, "told: 320.00 KiB to use (policy latency), iteration 0\n  live  ");
    expect_report(pool, "held by others");
    refused(pool, 15 * PAGE, stream);
    weir_pool_report(pool, text, sizeof text);
    const char *parts = strstr(text, "  live  "), *now = strstr(text, "by stream, now:"),
               *costs = strstr(text, "by stream, so far:"), *advice = strstr(text, "what to try:\n");
    assert_true(parts != NULL && parts < now && now < costs && costs < advice);
    assert_non_null(strstr(costs, "  compute                         2           1")); /* requests, refused */
    static const char end[] = "`weir-replay FILE --scan`: the smallest device that does\n";
    assert_string_equal(text + strlen(text) - strlen(end), end);
    close_pool(pool);
}

/* What is idle is not to be had in time: a longer wait would do. What is refused for want of room says nothing of it. */
static void a_wait_limit_that_passed_is_told(void **state) {
    (void)state;
    static const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_PER_STREAM};
    static char text[8192];
    for (int i = 0; i < 2; i++) {
        struct weir_pool *pool = open_patient("short", policies[i], 64, 300000000);
        weir_stream stream = new_stream();
        void *block = alloc(pool, 64 * PAGE, stream), *none = NULL;
        struct gate *gate = put_gate(stream);
        OK(weir_pool_free(pool, block, stream));
        assert_int_equal(weir_pool_alloc_any(pool, 64 * PAGE, &none), WEIR_OUT_OF_MEMORY);
        assert_non_null(strstr(weir_last_error()->message, "the wait limit of 0.3 s passed with idle memory in use"));
        expect_report(pool, "\nthe wait limit of 0.3 s passed, and idle memory was in use still\n");
        expect_report(pool, "  a longer wait_limit than 0.3 s");
        open_gate(gate);
        OK(weir_device_synchronize(test_device()));
        assert_int_equal(weir_pool_alloc_any(pool, 65 * PAGE, &none), WEIR_OUT_OF_MEMORY);
        assert_null(strstr(weir_last_error()->message, "wait limit"));
        weir_pool_report(pool, text, sizeof text);
        assert_null(strstr(text, "wait_limit"));
        close_pool(pool);
    }
}

static void what_the_family_holds_is_not_others(void **state) {
    (void)state;
    struct weir_pool *parent = open_named("parent", WEIR_POLICY_LATENCY, 2000), *sub;
    struct weir_pool *other = open_named("other", WEIR_POLICY_LATENCY, 100);
    OK(weir_pool_create_sub(parent, NULL, &sub));
    weir_stream stream = new_stream();
    alloc(other, 50 * PAGE, stream);
    alloc(parent, 640 * PAGE, stream);
    alloc(sub, 1280 * PAGE, stream);
    expect_report(parent,
                  "  held by its sub-pools           20.00 MiB   31.2 %\n  held by others                 800.00 KiB");
    expect_report(sub,
                  "  held by its parent's family     10.00 MiB   15.6 %\n  held by others                 800.00 KiB");
    assert_int_equal(refused(parent, 100 * PAGE, stream).others_bytes, 1330 * PAGE);
    assert_non_null(strstr(weir_last_error()->message, "20971520 held by its family, 819200 held by others"));
    expect_report(parent, "  held by its sub-pools           20.00 MiB");
    expect_report(parent, "  less in the other pools of the family, which share one limit: they hold 20.00 MiB");
    close_pool(sub);
    close_pool(parent);
    close_pool(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_free_above_the_limit_is_told_apart),
        cmocka_unit_test(what_another_pool_holds_is_told),
        cmocka_unit_test(a_lowered_limit_leaves_the_parts_whole),
        cmocka_unit_test(a_driver_without_an_answer_changes_nothing_else),
        cmocka_unit_test(a_refusal_in_a_host_function_asks_no_driver),
        cmocka_unit_test(a_report_ends_with_what_to_try),
        cmocka_unit_test(what_the_family_holds_is_not_others),
        cmocka_unit_test(a_wait_limit_that_passed_is_told),
    };
    return cmocka_run_group_tests_name("refusal_parts", tests, NULL, NULL);
}
