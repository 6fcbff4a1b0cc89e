/* SPDX-License-Identifier: Apache-2.0 */
/* Fronts: a block that a stream frees comes back to it whole; to everybody else it is as free as any other memory. */
#include <pthread.h>
#include <stdlib.h>

#include "support.h"

#define BYTES (2 * PAGE)

static struct weir__front *front_of(struct weir_pool *pool, weir_stream stream) {
    return pool->order.slots[weir__order_find(&pool->order, stream)]->front;
}

static unsigned kept(struct weir_pool *pool, weir_stream stream) {
    const struct weir__front *front = front_of(pool, stream);
    return front == NULL ? 0 : front->kept;
}

static struct weir_stream_stats stats_of_stream(struct weir_pool *pool, weir_stream stream) {
    struct weir_stream_stats stats[16] = {{.size = sizeof *stats}};
    size_t count = 0;
    OK(weir_pool_get_stream_stats(pool, stats, 16, &count));
    for (size_t i = 0; i < count; i++)
        if (stats[i].stream == stream && !stats[i].destroyed) return stats[i];
    fail();
    return stats[0];
}

/* ---- what comes back --------------------------------------------------------------------------------------------- */

static void the_block_freed_last_of_a_size_comes_back_first(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 32);
    weir_stream stream = new_stream();
    void *a = alloc(pool, BYTES, stream), *b = alloc(pool, BYTES, stream), *c = alloc(pool, BYTES - 1, stream);
    OK(weir_pool_free(pool, a, stream));
    OK(weir_pool_free(pool, b, stream));
    OK(weir_pool_free(pool, c, stream));
    assert_int_equal(kept(pool, stream), 3);
    OK(weir_pool_check(pool));
    assert_ptr_equal(alloc(pool, BYTES, stream), b); /* c was asked for as another size */
    assert_ptr_equal(alloc(pool, BYTES, stream), a);
    assert_ptr_equal(alloc(pool, BYTES - 1, stream), c);
    assert_int_equal(stats_of(pool).allocs, 6);
    assert_int_equal(stats_of(pool).frees, 3);
    close_pool(pool);
}

static void what_is_kept_is_no_block_to_anybody(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 32);
    weir_stream stream = new_stream(), other = new_stream();
    char *a = alloc(pool, BYTES, stream);
    void *beside = alloc(pool, 4 * BYTES, stream);
    OK(weir_pool_free(pool, beside, stream));
    OK(weir_pool_free(pool, a, stream)); /* the front takes it in, */
    assert_ptr_equal(alloc(pool, 4 * BYTES, stream),
                     beside); /* less is idle than was before, so that no free makes a peak */
    assert_ptr_equal(alloc(pool, BYTES, stream), a);
    OK(weir_pool_free(pool, a, stream)); /* and does it alone from here on */
    struct weir_block found = {.size = sizeof found};
    assert_int_equal(weir_pool_free(pool, a, stream), WEIR_INVALID);
    assert_int_equal(weir_pool_free(pool, a, other), WEIR_INVALID);
    assert_int_equal(weir_pool_free_any(pool, a), WEIR_INVALID);
    assert_int_equal(weir_pool_note(pool, a, other), WEIR_INVALID);
    assert_int_equal(weir_pool_find(pool, a, &found), WEIR_INVALID);
    assert_int_equal(weir_pool_find(pool, a + 1, &found), WEIR_INVALID);
    assert_int_equal(kept(pool, stream), 1);
    assert_ptr_equal(alloc(pool, BYTES, stream), a);
    OK(weir_pool_find(pool, a + 1, &found));
    assert_ptr_equal(found.start, a);
    const uint64_t number = found.number;
    OK(weir_pool_free(pool, a, stream));
    assert_ptr_equal(alloc(pool, BYTES, stream), a);
    OK(weir_pool_find(pool, a, &found));
    assert_true(found.number > number); /* another block at the same place */
    close_pool(pool);
}

/* ---- accounts ----------------------------------------------------------------------------------------------------- */

static void what_is_kept_is_told_as_idle(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 32);
    weir_stream stream = new_stream();
    void *a = alloc(pool, BYTES - 5, stream), *b = alloc(pool, 3 * PAGE, stream);
    for (int i = 0; i < 3; i++) {
        OK(weir_pool_free(pool, a, stream));
        assert_int_equal(kept(pool, stream), 1);
        assert_int_equal(stats_of(pool).live_bytes, 3 * PAGE);
        assert_int_equal(stats_of(pool).requested_bytes, 3 * PAGE);
        assert_int_equal(stats_of(pool).live_blocks, 1);
        assert_int_equal(stats_of(pool).idle_bytes, BYTES);
        const struct weir_stream_stats own = stats_of_stream(pool, stream);
        assert_int_equal(own.live_bytes, 3 * PAGE);
        assert_int_equal(own.idle_bytes, BYTES);
        assert_int_equal(own.peak_idle_bytes, BYTES);
        OK(weir_pool_check(pool));
        assert_ptr_equal(alloc(pool, BYTES - 5, stream), a);
        assert_int_equal(stats_of(pool).live_bytes, 5 * PAGE);
        assert_int_equal(stats_of(pool).requested_bytes, 5 * PAGE - 5);
        assert_int_equal(stats_of(pool).idle_bytes, 0);
    }
    OK(weir_pool_free(pool, b, stream));
    close_pool(pool);
}

static void a_peak_is_of_what_is_live(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    void *beside = alloc(pool, 40 * PAGE, stream); /* too large to be kept */
    OK(weir_pool_free(pool, beside, stream));
    void *a = alloc(pool, 4 * PAGE, stream), *c = alloc(pool, 2 * PAGE, stream);
    OK(weir_pool_reset_peaks(pool));
    OK(weir_pool_free(pool, a, stream));
    OK(weir_pool_free(pool, c, stream));
    void *b = alloc(pool, 3 * PAGE, stream); /* less than the peak; with what is kept it is more */
    assert_int_equal(kept(pool, stream), 2);
    assert_int_equal(stats_of(pool).peak_live_bytes, 6 * PAGE);
    assert_int_equal(stats_of_stream(pool, stream).peak_live_bytes, 6 * PAGE);
    OK(weir_pool_check(pool));
    assert_ptr_equal(alloc(pool, 2 * PAGE, stream), c);
    assert_int_equal(stats_of(pool).peak_live_bytes, 6 * PAGE);
    OK(weir_pool_free(pool, c, stream));
    assert_ptr_equal(alloc(pool, 4 * PAGE, stream), a); /* a front's, and a new peak */
    assert_int_equal(kept(pool, stream), 1);            /* c */
    assert_int_equal(stats_of(pool).peak_live_bytes, 7 * PAGE);
    assert_int_equal(stats_of(pool).peak_requested_bytes, 7 * PAGE);
    assert_int_equal(stats_of_stream(pool, stream).peak_live_bytes, 7 * PAGE);
    OK(weir_pool_free(pool, b, stream));
    OK(weir_pool_check(pool));
    OK(weir_pool_reset_peaks(pool));
    assert_int_equal(stats_of(pool).peak_live_bytes, 4 * PAGE);
    b = alloc(pool, 3 * PAGE, stream);
    assert_int_equal(stats_of(pool).peak_live_bytes, 7 * PAGE);
    OK(weir_pool_free(pool, b, stream));
    OK(weir_pool_free(pool, a, stream));
    close_pool(pool);
}

static void a_peak_is_of_what_was_requested(void **state) {
    enum { SMALL = 8, KEPT = 3 };
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    void *small[SMALL];
    for (int i = 0; i < SMALL; i++) small[i] = alloc(pool, 1, stream); /* of 512 bytes */
    for (int i = KEPT; i < SMALL; i++) OK(weir_pool_free(pool, small[i], stream));
    OK(weir_pool_trim(pool, 0)); /* those are kept no more */
    for (int i = 0; i < KEPT; i++) OK(weir_pool_free(pool, small[i], stream));
    void *whole = alloc(pool, 512, stream);
    assert_int_equal(stats_of(pool).peak_requested_bytes, 512);
    for (int i = 0; i <= KEPT; i++) { /* the last when nothing is kept, or withheld */
        small[i] = alloc(pool, 1, stream);
        assert_int_equal(stats_of(pool).peak_requested_bytes, 513 + i);
        assert_int_equal(stats_of(pool).peak_live_bytes, SMALL * 512);
    }
    OK(weir_pool_check(pool));
    OK(weir_pool_free(pool, whole, stream));
    for (int i = 0; i <= KEPT; i++) OK(weir_pool_free(pool, small[i], stream));
    close_pool(pool);
}

/* Of which each stream may take its share of what is left until there is a new peak. */
static void a_peak_of_several_streams_is_of_what_is_live(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream streams[3] = {new_stream(), new_stream(), new_stream()};
    void *beside = alloc(pool, 40 * PAGE, streams[0]), *blocks[3]; /* too large to be kept */
    OK(weir_pool_free(pool, beside, streams[0]));
    for (int i = 0; i < 3; i++)
        blocks[i] = alloc(pool, 3 * PAGE - (size_t)i, streams[i]); /* of one size in all but the request */
    OK(weir_pool_reset_peaks(pool));                               /* 9 pages are live, and 3 of each stream */
    OK(weir_pool_free(pool, blocks[0], streams[0]));
    OK(weir_pool_free(pool, blocks[1], streams[1]));
    OK(weir_pool_free(pool, blocks[2], streams[2]));
    beside = alloc(pool, 5 * PAGE, streams[0]); /* leaves 4 for what fronts keep, 9 in all */
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(alloc(pool, 3 * PAGE - (size_t)i, streams[i]), blocks[i]);
        const size_t live = (size_t)(5 + 3 * (i + 1)) * PAGE;
        assert_int_equal(stats_of(pool).live_bytes, live);
        assert_int_equal(stats_of(pool).peak_live_bytes, live > 9 * PAGE ? live : 9 * PAGE);
        const size_t requested = live - (size_t)(i * (i + 1) / 2), before = 9 * PAGE - 3;
        assert_int_equal(stats_of(pool).peak_requested_bytes, requested > before ? requested : before);
        assert_int_equal(stats_of_stream(pool, streams[i]).peak_live_bytes, (i == 0 ? 8 : 3) * PAGE);
        OK(weir_pool_check(pool));
    }
    OK(weir_pool_free(pool, beside, streams[0]));
    for (int i = 0; i < 3; i++) OK(weir_pool_free(pool, blocks[i], streams[i]));
    close_pool(pool);
}

/* ---- drained ------------------------------------------------------------------------------------------------------ */

static void what_is_kept_serves_other_sizes_before_memory_is_taken(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    char *parts[4];
    for (int i = 0; i < 4; i++) parts[i] = alloc(pool, BYTES, stream);
    for (int i = 0; i < 4; i++) OK(weir_pool_free(pool, parts[i], stream));
    assert_int_equal(kept(pool, stream), 4);
    const size_t held = stats_of(pool).held_bytes;
    assert_ptr_equal(alloc(pool, 4 * BYTES, stream), parts[0]);
    assert_int_equal(kept(pool, stream), 0);
    assert_int_equal(stats_of(pool).held_bytes, held);
    close_pool(pool);
}

static void what_is_kept_serves_other_streams_in_order(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 2);
    weir_stream stream = new_stream(), other = new_stream();
    void *a = alloc(pool, BYTES, stream);
    OK(weir_pool_free(pool, a, stream));
    assert_ptr_equal(alloc(pool, BYTES, stream), a); /* from the front */
    struct gate *gate = put_gate(stream);
    queue_fill(stream, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, stream));
    void *b = alloc(pool, BYTES, other);
    assert_ptr_equal(a, b);
    assert_int_equal(stats_of(pool).device_waits, 1);
    queue_fill(other, b, BYTES, 0xBB);
    open_gate(gate);
    queue_check(other, b, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    OK(weir_pool_free(pool, b, other));
    close_pool(pool);
}

static void what_is_kept_is_given_back_by_trim_and_under_a_lower_limit(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    for (int lower = 0; lower < 2; lower++) {
        void *a = alloc(pool, BYTES, stream), *none = NULL;
        OK(weir_pool_free(pool, a, stream));
        OK(weir_device_synchronize(test_device()));
        assert_int_equal(stats_of(pool).held_bytes, BYTES);
        if (lower)
            OK(weir_pool_set_limit(pool, PAGE));
        else
            OK(weir_pool_trim(pool, 0));
        assert_true(stats_of(pool).held_bytes <= (lower ? PAGE : 0));
        if (lower) assert_int_equal(weir_pool_alloc(pool, BYTES, stream, &none), WEIR_OUT_OF_MEMORY);
    }
    close_pool(pool);
}

static void under_a_limit_below_what_is_held_nothing_is_kept(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    void *a = alloc(pool, BYTES, stream), *b = alloc(pool, BYTES, stream), *none = NULL;
    OK(weir_pool_free(pool, a, stream));
    OK(weir_pool_set_limit(pool, PAGE));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(weir_pool_alloc(pool, BYTES, stream, &none), WEIR_OUT_OF_MEMORY);
    OK(weir_pool_free(pool, b, stream));
    assert_int_equal(kept(pool, stream), 0);
    assert_int_equal(weir_pool_alloc(pool, BYTES, stream, &none), WEIR_OUT_OF_MEMORY);
    OK(weir_pool_set_limit(pool, 64 * PAGE));
    a = alloc(pool, BYTES, stream);
    OK(weir_pool_free(pool, a, stream));
    assert_int_equal(kept(pool, stream), 1);
    close_pool(pool);
}

static void a_destroyed_stream_keeps_nothing(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    void *a = alloc(pool, BYTES, stream), *b = alloc(pool, BYTES, stream);
    OK(weir_pool_free(pool, b, stream));
    b = alloc(pool, BYTES, stream);
    OK(weir_pool_free(pool, a, stream));
    const struct weir__front *front = front_of(pool, stream);
    assert_int_equal(front->kept, 1);
    OK(weir_stream_destroy(test_device(), stream));
    assert_int_equal(front->kept, 0);
    assert_int_equal(front->own.count, 0); /* b is live, and nobody's own */
    OK(weir_pool_check(pool));
    weir_stream next = new_stream();
    OK(weir_pool_free(pool, b, next));
    close_pool(pool);
}

/* ---- noted uses --------------------------------------------------------------------------------------------------- */

static void a_block_with_a_noted_use_comes_back_once_that_is_over(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream(), user = new_stream();
    void *a = alloc(pool, 512, stream);
    OK(weir_pool_note(pool, a, user));
    struct gate *gate = put_gate(user);
    queue_fill(user, a, 512, 0xAA);
    OK(weir_pool_free(pool, a, stream));
    assert_int_equal(kept(pool, stream), 1);
    void *b = alloc(pool, 512, stream); /* there is other memory, of the same page */
    assert_ptr_not_equal(a, b);
    queue_fill(stream, b, 512, 0xBB);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    for (int i = 0; i < 40; i++) { /* the front asks some time */
        OK(weir_pool_note(pool, b, user));
        OK(weir_pool_free(pool, b, stream));
        b = alloc(pool, 512, stream);
        if (a == b) break;
    }
    assert_ptr_equal(a, b);
    assert_int_equal(stats_of(pool).device_waits, 0);
    OK(weir_pool_free(pool, b, stream));
    close_pool(pool);
}

/* However many there are: a front looks at some of them only. */
static void a_block_with_a_noted_use_serves_no_other_size(void **state) {
    (void)state;
    enum { BLOCKS = 40 };
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream(), user = new_stream();
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = alloc(pool, 512, stream);
    for (int i = 0; i < BLOCKS; i++) {
        OK(weir_pool_note(pool, blocks[i], user));
        OK(weir_pool_free(pool, blocks[i], stream));
    }
    assert_int_equal(kept(pool, stream), BLOCKS);
    OK(weir_device_synchronize(test_device()));
    void *large = alloc(pool, BYTES, stream);
    struct weir_block found = {.size = sizeof found};
    OK(weir_pool_find(pool, large, &found));
    assert_int_equal(found.requested_bytes, BYTES);
    queue_fill(stream, large, BYTES, 0xAA);
    OK(weir_pool_free(pool, large, stream));
    close_pool(pool);
}

/* By the pool, and by the front alone. */
static void few_bytes_with_noted_uses_are_kept(void **state) {
    (void)state;
    enum { MOST_KEPT = WEIR__FRONT_NOTED, BLOCKS = MOST_KEPT + 8 };
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 2 * BLOCKS);
    weir_stream stream = new_stream(), user = new_stream();
    void *blocks[BLOCKS];
    for (int pass = 0; pass < 2; pass++) { /* the front alone has the second one's frees */
        for (int i = 0; i < BLOCKS; i++) blocks[i] = alloc(pool, PAGE, stream);
        for (int i = 0; i < BLOCKS; i++) {
            OK(weir_pool_note(pool, blocks[i], user));
            OK(weir_pool_free(pool, blocks[i], stream));
        }
        assert_int_equal(kept(pool, stream), MOST_KEPT);
        OK(weir_pool_check(pool));
        OK(weir_device_synchronize(test_device()));
    }
    void *plain = alloc(pool, BYTES, stream);
    OK(weir_pool_free(pool, plain, stream));
    assert_ptr_equal(alloc(pool, BYTES, stream), plain);
    close_pool(pool);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

enum { THREADS = 2, STEPS = 20000, MOST = 8 };

struct worker {
    struct weir_pool *pool;
    weir_stream stream, other;
    uint64_t random;
    bool good;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    void *blocks[MOST] = {NULL};
    worker->good = true;
    for (int i = 0; i < STEPS && worker->good; i++) {
        void **block = &blocks[draw(&worker->random) % MOST];
        if (*block != NULL && draw(&worker->random) % 4 == 0)
            worker->good = weir_pool_note(worker->pool, *block, worker->other) == WEIR_OK;
        if (*block != NULL)
            worker->good = weir_pool_free(worker->pool, *block, worker->stream) == WEIR_OK, *block = NULL;
        else
            worker->good = weir_pool_alloc(worker->pool, (size_t)512 << draw(&worker->random) % 6, worker->stream,
                                           block) == WEIR_OK;
    }
    for (int i = 0; i < MOST; i++)
        if (*(blocks + i) != NULL) weir_pool_free(worker->pool, blocks[i], worker->stream);
    return NULL;
}

static void accounts_hold_while_fronts_are_at_work(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    weir_stream streams[THREADS] = {new_stream(), new_stream()};
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .pool = pool, .stream = streams[i], .other = streams[(i + 1) % THREADS], .random = seed_of(7 + i)};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 200; i++) {
        OK(weir_pool_check(pool));
        const struct weir_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.live_bytes + stats.idle_bytes + stats.moving_bytes + stats.unmapped_bytes,
                         stats.held_bytes);
        assert_true(stats.live_bytes <= stats.peak_live_bytes && stats.allocs - stats.frees == stats.live_blocks);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_true(workers[i].good);
    assert_int_equal(stats_of(pool).live_bytes, 0);
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_block_freed_last_of_a_size_comes_back_first),
        cmocka_unit_test(what_is_kept_is_no_block_to_anybody),
        cmocka_unit_test(what_is_kept_is_told_as_idle),
        cmocka_unit_test(a_peak_is_of_what_is_live),
        cmocka_unit_test(a_peak_is_of_what_was_requested),
        cmocka_unit_test(a_peak_of_several_streams_is_of_what_is_live),
        cmocka_unit_test(what_is_kept_serves_other_sizes_before_memory_is_taken),
        cmocka_unit_test(what_is_kept_serves_other_streams_in_order),
        cmocka_unit_test(what_is_kept_is_given_back_by_trim_and_under_a_lower_limit),
        cmocka_unit_test(under_a_limit_below_what_is_held_nothing_is_kept),
        cmocka_unit_test(a_destroyed_stream_keeps_nothing),
        cmocka_unit_test(a_block_with_a_noted_use_comes_back_once_that_is_over),
        cmocka_unit_test(a_block_with_a_noted_use_serves_no_other_size),
        cmocka_unit_test(few_bytes_with_noted_uses_are_kept),
        cmocka_unit_test(accounts_hold_while_fronts_are_at_work),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}
