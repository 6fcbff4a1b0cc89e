/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input gets an error that names the thing, changes nothing, and the next good call succeeds. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

static const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
#define EACH_POLICY(i)                                                                                                 \
    size_t i = 0;                                                                                                      \
    i < sizeof policies / sizeof *policies;                                                                            \
    i++

static void expect_invalid(enum weir_status status, const char *words) {
    assert_int_equal(status, WEIR_INVALID);
    assert_int_equal(weir_last_error()->status, WEIR_INVALID);
    if (strstr(weir_last_error()->message, words) == NULL)
        fail_msg("'%s' does not say '%s'", weir_last_error()->message, words);
}

static void a_block_is_taken_back_once_and_by_its_start(void **state) {
    (void)state;
    for (EACH_POLICY(i)) {
        struct weir_pool *pool = open_pool(policies[i], 256);
        weir_stream stream = new_stream();
        char *p = alloc(pool, 512 * 1024, stream);
        OK(weir_pool_free(pool, p, stream));
        struct weir_pool_stats before = stats_of(pool);
        expect_invalid(weir_pool_free(pool, p, stream), "weir_pool_free");
        assert_int_equal(stats_of(pool).frees, before.frees);
        char *q = alloc(pool, 512 * 1024, stream), *r = alloc(pool, 512 * 1024, stream);
        assert_ptr_not_equal(q, r);
        before = stats_of(pool);
        expect_invalid(weir_pool_free(pool, q + 512, stream), "not the start of a live block");
        expect_invalid(weir_pool_free(pool, &before, stream), "not the start of a live block");
        expect_invalid(weir_pool_note(pool, q + 1, stream), "weir_pool_note");
        assert_int_equal(stats_of(pool).live_bytes, before.live_bytes);
        OK(weir_pool_free(pool, NULL, stream));
        OK(weir_pool_free(pool, q, stream));
        OK(weir_pool_free(pool, r, stream));
        close_pool(pool);
    }
}

static void blocks_of_no_bytes_have_addresses_of_their_own(void **state) {
    (void)state;
    for (EACH_POLICY(i)) {
        struct weir_pool *pool = open_pool(policies[i], 16);
        weir_stream stream = new_stream(), other = new_stream();
        void *a = alloc(pool, 0, stream), *b = alloc(pool, 0, stream), *c = alloc(pool, 1, stream);
        assert_true(a != b && b != c && a != c);
        assert_int_equal(stats_of(pool).live_blocks, 3);
        assert_int_equal(stats_of(pool).requested_bytes, 1);
        OK(weir_pool_note(pool, a, other));
        OK(weir_pool_free(pool, a, other));
        expect_invalid(weir_pool_free(pool, a, stream), "weir_pool_free");
        void *d = alloc(pool, 0, stream);
        assert_true(d != b && d != c);
        OK(weir_pool_free(pool, b, stream));
        OK(weir_pool_free(pool, d, stream));
        OK(weir_pool_free(pool, c, stream));
        assert_int_equal(stats_of(pool).live_blocks, 0);
        close_pool(pool);
    }
}

static void a_pool_within_the_device_is_asked_for(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .trace_path = ""};
    options.limit_bytes = PAGE - 1;
    expect_invalid(weir_pool_create(test_device(), &options, &pool), "below one page of 16384");
    options.limit_bytes = (size_t)1 << 40;
    expect_invalid(weir_pool_create(test_device(), &options, &pool), "above the device's capacity of 67108864");
    options.limit_bytes = 0;
    options.policy = (enum weir_policy)77;
    expect_invalid(weir_pool_create(test_device(), &options, &pool), "77");
    options.policy = WEIR_POLICY_DEFAULT;
    options.size = 3;
    expect_invalid(weir_pool_create(test_device(), &options, &pool), "options->size is 3");
    expect_invalid(weir_pool_create(NULL, NULL, &pool), "device is NULL");
    expect_invalid(weir_pool_create(test_device(), NULL, NULL), "out is NULL");
    options.size = sizeof options;
    options.trace_path = "/nowhere/at/all.trace";
    assert_int_equal(weir_pool_create(test_device(), &options, &pool), WEIR_SYSTEM);
    assert_non_null(strstr(weir_last_error()->message, "/nowhere/at/all.trace"));
    assert_null(pool);
    options.trace_path = "";
    OK(weir_pool_create(test_device(), &options, &pool));
    assert_int_equal(stats_of(pool).limit_bytes, 64u << 20);
    close_pool(pool);
}

static enum weir_status create_with(const char *text, struct weir_pool **pool) {
    assert_int_equal(setenv("WEIR_OPTIONS", text, 1), 0);
    enum weir_status status = weir_pool_create(test_device(), NULL, pool);
    assert_int_equal(unsetenv("WEIR_OPTIONS"), 0);
    return status;
}

static void options_of_the_environment_are_read_and_checked(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"polcy:latency", "did you mean 'policy'"},
        {"zzzzzzzz:1", "known are policy, limit, wait_limit, deterministic"},
        {"policy:fast", "latency, footprint, per-stream"},
        {"limit", "not key:value"},
        {"limit:lots", "limit:lots"},
        {"limit:0", "limit:0"},
        {"limit:1.5", "at most 1"},
        {"limit:0.0", "above 0"},
        {"limit:120%", "at most 1"},
        {"limit:1T", "WEIR_OPTIONS: limit:1T: the pool's limit of 1099511627776 bytes is above the device's capacity"},
        {"limit:0.0001", "WEIR_OPTIONS: limit:0.0001: the pool's limit of 6710 bytes is below one page of 16384"},
        {"limit:1", "below one page of 16384; the whole device is 1.0 or 100%"},
        {"wait_limit:10", "unit"},
        {"wait_limit:-1s", "wait_limit:-1s"},
        {"policy:latency,limit:64M,wait_limit:soon", "soon"},
        {"deterministic:maybe", "neither on nor off"},
        {"deterministc:on", "did you mean 'deterministic'"},
    };
    struct weir_pool *pool = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_invalid(create_with(wrong[i].text, &pool), wrong[i].words);
        assert_null(pool);
    }
    OK(create_with("policy:footprint,limit:0.5,wait_limit:1.5ms", &pool));
    assert_int_equal(stats_of(pool).limit_bytes, 32u << 20);
    assert_int_equal(pool->policy->name, WEIR_POLICY_FOOTPRINT);
    assert_int_equal(pool->wait_limit_ns, 1500000);
    close_pool(pool);
    OK(create_with("limit:25%,,limit:1.5MiB,", &pool)); /* the later one counts */
    assert_int_equal(stats_of(pool).limit_bytes, 96 * PAGE);
    close_pool(pool);
}

static void answers_need_a_place_to_go(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 16);
    struct weir_pool_stats stats = {0};
    struct weir_pool_refusal refusal = {0};
    size_t count = 0;
    void *block = NULL;
    weir_event event = NULL;
    expect_invalid(weir_pool_get_stats(pool, &stats), "stats->size");
    expect_invalid(weir_pool_get_stats(pool, NULL), "stats is NULL");
    expect_invalid(weir_pool_get_refusal(pool, &refusal), "refusal->size");
    expect_invalid(weir_pool_get_stream_stats(pool, NULL, 0, NULL), "count is NULL");
    expect_invalid(weir_pool_get_stream_stats(pool, NULL, 4, &count), "room for 4");
    struct weir_stream_stats by_stream = {0};
    expect_invalid(weir_pool_get_stream_stats(pool, &by_stream, 1, &count), "stats[0].size is 0");
    by_stream.size = sizeof by_stream + 4;
    expect_invalid(weir_pool_get_stream_stats(pool, &by_stream, 1, &count), "stats[0].size is");
    by_stream.size = (size_t)1 << 60; /* of a struct that nobody has set */
    expect_invalid(weir_pool_get_stream_stats(pool, &by_stream, 1, &count), "stats[0].size is 1152921504606846976");
    expect_invalid(weir_pool_get_stream_stats(NULL, &by_stream, 1, &count), "pool is NULL");
    expect_invalid(weir_pool_get_refusal(pool, NULL), "refusal is NULL");
    expect_invalid(weir_pool_alloc(pool, 1, NULL, NULL), "out is NULL");
    expect_invalid(weir_pool_alloc(NULL, 1, NULL, &block), "pool is NULL");
    stats.size = sizeof stats;
    expect_invalid(weir_pool_get_stats(NULL, &stats), "pool is NULL");
    expect_invalid(weir_pool_check(NULL), "pool is NULL");
    assert_int_equal(weir_pool_report(NULL, NULL, 0), 0);
    expect_invalid(weir_pool_free_after(pool, pool, event), "event is NULL");
    refusal.size = sizeof refusal;
    assert_int_equal(weir_pool_get_refusal(pool, &refusal), WEIR_NOT_READY);
    OK(weir_pool_get_stream_stats(pool, NULL, 0, &count));
    assert_int_equal(count, 0);
    weir_pool_destroy(NULL);
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_taken_back_once_and_by_its_start),
        cmocka_unit_test(blocks_of_no_bytes_have_addresses_of_their_own),
        cmocka_unit_test(a_pool_within_the_device_is_asked_for),
        cmocka_unit_test(options_of_the_environment_are_read_and_checked),
        cmocka_unit_test(answers_need_a_place_to_go),
    };
    return cmocka_run_group_tests_name("bad_input", tests, NULL, NULL);
}
