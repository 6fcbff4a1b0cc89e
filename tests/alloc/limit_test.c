/* SPDX-License-Identifier: Apache-2.0 */
/* The limit may change: held <= max(limit, held when the limit was lowered). What lies above a lower one is given back when
 * it is idle and complete, nothing is ever told as a wrapped difference, and what is cached is no reason for a refusal. */
#include <math.h>
#include <pthread.h>

#include "alloc/pool.h"
#include "support.h"

static const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
enum { POLICIES = sizeof policies / sizeof *policies };

static void check_parts(struct weir_pool *pool) {
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(pool, &refusal));
    struct weir_pool_stats stats = stats_of(pool);
    const size_t whole = stats.held_bytes > stats.limit_bytes ? stats.held_bytes : stats.limit_bytes;
    assert_int_equal(refusal.live_bytes + refusal.idle_asker_bytes + refusal.idle_others_bytes + refusal.moving_bytes +
                         refusal.unmapped_bytes + refusal.untaken_bytes,
                     whole);
    assert_int_equal(refusal.limit_bytes, stats.limit_bytes);
    assert_int_equal(refusal.untaken_bytes, whole - stats.held_bytes);
}

static void refused(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    void *none = pool;
    assert_int_equal(weir_pool_alloc(pool, bytes, stream, &none), WEIR_OUT_OF_MEMORY);
    assert_null(none);
    check_parts(pool);
    OK(weir_pool_check(pool));
}

static void cached_bytes_are_given_up_before_a_request_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *pool = open_pool(policies[i], 64);
        weir_stream stream = new_stream();
        OK(weir_pool_free(pool, alloc(pool, 32 * PAGE, stream), stream));
        OK(weir_pool_free(pool, alloc(pool, 48 * PAGE, stream), stream));
        OK(weir_device_synchronize(test_device()));
        assert_true(stats_of(pool).held_bytes >= 48 * PAGE);
        OK(weir_pool_trim(pool, 0));
        assert_int_equal(stats_of(pool).held_bytes, 0);
        assert_int_equal(stats_of(pool).idle_bytes, 0);
        close_pool(pool);
    }
}

static void what_is_idle_above_a_lower_limit_is_given_back_at_once(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *pool = open_pool(policies[i], 64);
        weir_stream stream = new_stream();
        void *kept = alloc(pool, 8 * PAGE, stream), *idle = alloc(pool, 40 * PAGE, stream);
        OK(weir_pool_free(pool, idle, stream));
        OK(weir_device_synchronize(test_device()));
        OK(weir_pool_set_limit(pool, 16 * PAGE + 5));
        assert_int_equal(stats_of(pool).limit_bytes, 16 * PAGE); /* whole pages */
        assert_true(stats_of(pool).held_bytes <= 16 * PAGE);
        OK(weir_pool_check(pool));
        refused(pool, 12 * PAGE, stream);
        OK(weir_pool_free(pool, alloc(pool, 8 * PAGE, stream), stream));
        OK(weir_pool_set_limit(pool, 64 * PAGE));
        OK(weir_pool_free(pool, alloc(pool, 48 * PAGE, stream), stream));
        OK(weir_pool_free(pool, kept, stream));
        close_pool(pool);
    }
}

static void a_limit_below_live_leaves_nothing_untaken(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *pool = open_pool(policies[i], 64);
        weir_stream stream = new_stream();
        void *blocks[2] = {alloc(pool, 20 * PAGE, stream), alloc(pool, 20 * PAGE, stream)};
        OK(weir_pool_set_limit(pool, 10 * PAGE));
        assert_int_equal(stats_of(pool).held_bytes, 40 * PAGE);
        refused(pool, PAGE, stream);
        OK(weir_pool_free(pool, blocks[0],
                          stream)); /* 20 pages are live still: none of the 20 idle ones is for anybody */
        refused(pool, PAGE, stream);
        OK(weir_device_synchronize(test_device()));
        refused(pool, PAGE, stream);
        assert_int_equal(stats_of(pool).held_bytes, 20 * PAGE);
        char text[4096];
        assert_true(weir_pool_report(pool, text, sizeof text) < sizeof text);
        OK(weir_pool_free(pool, blocks[1], stream));
        OK(weir_device_synchronize(test_device()));
        OK(weir_pool_free(pool, alloc(pool, 10 * PAGE, stream), stream));
        assert_true(stats_of(pool).held_bytes <= 10 * PAGE);
        close_pool(pool);
    }
}

/* The gate keeps the freed bytes in use: they stay mapped, and are given back by the first request after it. */
static void what_is_in_use_is_given_back_later_and_no_page_is_added(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream writer = new_stream(), asker = new_stream();
    void *block = alloc(pool, 32 * PAGE, writer);
    struct gate *gate = put_gate(writer);
    queue_fill(writer, block, 32 * PAGE, 0xAA);
    queue_check(writer, block, 32 * PAGE, 0xAA);
    OK(weir_pool_free(pool, block, writer));
    OK(weir_pool_set_limit(pool, 8 * PAGE));
    assert_int_equal(stats_of(pool).held_bytes, 32 * PAGE);
    void *small = alloc(pool, 4 * PAGE, asker); /* the limit has room for it: it waits for the writer on the device */
    queue_fill(asker, small, 4 * PAGE, 0xBB);
    assert_int_equal(stats_of(pool).held_bytes, 32 * PAGE);
    refused(pool, 6 * PAGE, asker);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_free(pool, alloc(pool, PAGE, asker), asker));
    assert_int_equal(stats_of(pool).held_bytes, 8 * PAGE);
    queue_check(asker, small, 4 * PAGE, 0xBB);
    OK(weir_pool_free(pool, small, asker));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(pool);
}

static void it_may_rise_above_what_it_was_at_the_start(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *pool = open_pool(policies[i], 1);
        weir_stream stream = new_stream();
        refused(pool, 200 * PAGE, stream);
        OK(weir_pool_set_limit(pool, 200 * PAGE));
        void *block = alloc(pool, 200 * PAGE, stream);
        queue_fill(stream, block, 200 * PAGE, 0xCC);
        OK(weir_pool_free(pool, block, stream));
        OK(weir_device_synchronize(test_device()));
        OK(weir_pool_trim(pool, 0));
        assert_int_equal(stats_of(pool).held_bytes, 0);
        close_pool(pool);
    }
}

static void limits_that_make_no_sense_change_nothing(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    const size_t capacity = stats_of(pool).capacity_bytes, sizes[] = {0, PAGE - 1, capacity + 1, SIZE_MAX};
    const double fractions[] = {0, -1, 1.0000001, 1e-12, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(weir_pool_set_limit(pool, sizes[i]), WEIR_INVALID);
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++)
        assert_int_equal(weir_pool_set_limit_fraction(pool, fractions[i]), WEIR_INVALID);
    assert_int_equal(weir_pool_set_limit(NULL, PAGE), WEIR_INVALID);
    assert_int_equal(stats_of(pool).limit_bytes, 64 * PAGE);
    OK(weir_pool_set_limit_fraction(pool, 0.5));
    assert_int_equal(stats_of(pool).limit_bytes, capacity / 2 / PAGE * PAGE);
    OK(weir_pool_set_limit(pool, capacity));
    close_pool(pool);
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = 64 * PAGE, .trace_path = "", .deterministic = true};
    OK(weir_pool_create(test_device(), &options, &pool));
    assert_int_equal(weir_pool_set_limit(pool, 32 * PAGE), WEIR_NOT_SUPPORTED);
    assert_int_equal(weir_pool_set_limit_fraction(pool, 0.5), WEIR_NOT_SUPPORTED);
    assert_int_equal(stats_of(pool).limit_bytes, 64 * PAGE);
    close_pool(pool);
}

static void peaks_count_from_what_is_there(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    void *kept = alloc(pool, 3 * PAGE, stream);
    OK(weir_pool_free(pool, alloc(pool, 40 * PAGE, stream), stream));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).peak_live_bytes, 43 * PAGE);
    OK(weir_pool_reset_peaks(pool));
    struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.peak_live_bytes, 3 * PAGE);
    assert_int_equal(stats.peak_requested_bytes, 3 * PAGE);
    assert_int_equal(stats.peak_held_bytes, stats.held_bytes);
    assert_int_equal(stats.peak_stranded_bytes, 0);
    void *more = alloc(pool, 5 * PAGE, stream);
    assert_int_equal(stats_of(pool).peak_live_bytes, 8 * PAGE);
    OK(weir_pool_free(pool, more, stream));
    OK(weir_pool_free(pool, kept, stream));
    close_pool(pool);
}

/* ---- several threads -------------------------------------------------------------------------------------------- */

enum { TURNS = 300, BLOCKS = 16, USERS = 2 };

struct user {
    struct weir_pool *pool;
    uint64_t chance;
    unsigned broken;
};

static void *use(void *argument) {
    struct user *user = argument;
    weir_stream stream = new_stream();
    void *blocks[BLOCKS] = {0};
    for (int i = 0; i < 20 * TURNS; i++) {
        void **block = &blocks[draw(&user->chance) % BLOCKS];
        const size_t bytes = 1 + draw(&user->chance) % (6 * PAGE);
        if (*block != NULL) {
            OK(weir_pool_free(user->pool, *block, stream));
            *block = NULL;
        } else if (weir_pool_alloc(user->pool, bytes, stream, block) == WEIR_OK) {
            queue_fill(stream, *block, bytes, (unsigned char)i);
        }
    }
    for (int i = 0; i < BLOCKS; i++) OK(weir_pool_free(user->pool, blocks[i], stream));
    OK(weir_stream_synchronize(test_device(), stream));
    return NULL;
}

static void *change(void *argument) {
    struct user *user = argument;
    for (int i = 0; i < TURNS; i++) {
        OK(weir_pool_set_limit(user->pool, (1 + draw(&user->chance) % 100) * PAGE));
        if (weir_pool_check(user->pool) != WEIR_OK) user->broken++;
    }
    return NULL;
}

/* Nothing is given back for what can't fit beside live blocks, nor once as much has been given back as there is. */
static void the_driver_gets_room_only_where_that_can_help(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *pool = open_pool(policies[i], 64);
        weir_stream stream = new_stream();
        void *live = alloc(pool, 32 * PAGE, stream);
        OK(weir_pool_free(pool, alloc(pool, 16 * PAGE, stream), stream));
        OK(weir_device_synchronize(test_device()));
        const size_t held = stats_of(pool).held_bytes, capacity = pool->capacity_bytes;
        struct weir__room too_much = {.bytes = capacity - 32 * PAGE + 1},
                          taken_by_others = {.given_bytes = capacity + 1};
        assert_false(weir__pool_make_room(pool, &too_much));
        assert_false(weir__pool_make_room(pool, &taken_by_others));
        assert_int_equal(stats_of(pool).held_bytes, held);
        struct weir__room room = {.bytes = capacity - 32 * PAGE, .given_bytes = capacity};
        assert_true(weir__pool_make_room(pool, &room));
        assert_int_equal(stats_of(pool).held_bytes, 32 * PAGE);
        assert_int_equal(room.given_bytes, capacity + held - 32 * PAGE);
        OK(weir_pool_free(pool, live, stream));
        close_pool(pool);
    }
}

static void it_changes_while_other_threads_allocate(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct user users[USERS + 1];
        pthread_t threads[USERS + 1];
        struct weir_pool *pool = open_pool(policies[i], 100);
        uint64_t seed = seed_of(43);
        for (int k = 0; k <= USERS; k++) {
            users[k] = (struct user){.pool = pool, .chance = seed + 2 * (uint64_t)k};
            assert_int_equal(pthread_create(&threads[k], NULL, k < USERS ? use : change, &users[k]), 0);
        }
        for (int k = 0; k <= USERS; k++) pthread_join(threads[k], NULL);
        assert_int_equal(users[USERS].broken, 0);
        OK(weir_device_synchronize(test_device()));
        OK(weir_pool_set_limit(pool, PAGE));
        assert_true(stats_of(pool).held_bytes <= PAGE);
        close_pool(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_bytes_are_given_up_before_a_request_is_refused),
        cmocka_unit_test(what_is_idle_above_a_lower_limit_is_given_back_at_once),
        cmocka_unit_test(a_limit_below_live_leaves_nothing_untaken),
        cmocka_unit_test(what_is_in_use_is_given_back_later_and_no_page_is_added),
        cmocka_unit_test(it_may_rise_above_what_it_was_at_the_start),
        cmocka_unit_test(limits_that_make_no_sense_change_nothing),
        cmocka_unit_test(peaks_count_from_what_is_there),
        cmocka_unit_test(the_driver_gets_room_only_where_that_can_help),
        cmocka_unit_test(it_changes_while_other_threads_allocate),
    };
    return cmocka_run_group_tests_name("limit", tests, NULL, NULL);
}
