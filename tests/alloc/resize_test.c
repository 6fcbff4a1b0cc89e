/* SPDX-License-Identifier: Apache-2.0 */
/* A block grows and shrinks in place or not at all: what it has stays, what is new is ready for the stream that is named, what is cut
 * off is not given to others before the block's uses are over, and when there is no room nothing changes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

enum { PAGES = 16 };

static weir_stream a, b;

static int open_streams(void **state) {
    (void)state;
    a = new_stream();
    b = new_stream();
    return 0;
}

static void expect_sizes(struct weir_pool *pool, size_t live, size_t requested) {
    const struct weir_pool_stats stats = stats_of(pool);
    OK(weir_pool_check(pool));
    assert_int_equal(stats.live_bytes, live);
    assert_int_equal(stats.requested_bytes, requested);
}

/* Into new pages, idle ones, and pages from elsewhere. */
static void go_up_and_down(enum weir_policy policy) {
    struct weir_pool *pool = open_pool(policy, PAGES);
    void *away = alloc(pool, 4 * PAGE, a), *wall = alloc(pool, PAGE, a);
    unsigned char *block = alloc(pool, 3 * PAGE / 2, a);
    assert_true((unsigned char *)away < block && (unsigned char *)wall < block);
    OK(weir_pool_free(pool, away, a));
    queue_fill(a, block, 3 * PAGE / 2, 5);
    const size_t sizes[] = {3 * PAGE / 2 + 1, 4 * PAGE, 6 * PAGE + 100, 15 * PAGE, 2 * PAGE, 512, 100, 15 * PAGE, 1};
    size_t kept = 3 * PAGE / 2;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        weir_stream stream = i % 3 == 2 ? b : a;
        if (i > 0) OK(weir_stream_synchronize(test_device(), i % 3 == 0 ? b : a));
        OK(weir_pool_resize(pool, block, sizes[i], stream));
        if (sizes[i] < kept) kept = sizes[i];
        expect_sizes(pool, (sizes[i] + 511) / 512 * 512 + PAGE, sizes[i] + PAGE);
        queue_check(stream, block, kept, 5);
        queue_fill(stream, block + kept, sizes[i] - kept, 6);
        struct weir_block found = {.size = sizeof found};
        OK(weir_pool_find(pool, block + sizes[i] - 1, &found));
        assert_ptr_equal(found.start, block);
        assert_int_equal(found.requested_bytes, sizes[i]);
        assert_ptr_equal(found.stream, stream);
    }
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_free(pool, block, a));
    OK(weir_pool_free(pool, wall, a));
    expect_sizes(pool, 0, 0);
    OK(weir_pool_free(pool, alloc(pool, PAGES * PAGE, b), b));
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    finish_pool(pool);
}

static void a_block_grows_and_shrinks_in_place(void **state) {
    (void)state;
    go_up_and_down(WEIR_POLICY_LATENCY);
    go_up_and_down(WEIR_POLICY_FOOTPRINT);
}

/* What is behind was freed by another stream, which uses it still. */
static void what_is_new_is_ready_for_the_stream(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    unsigned char *block = alloc(pool, 4 * PAGE, a), *behind = alloc(pool, 4 * PAGE, b);
    assert_ptr_equal(behind, block + 4 * PAGE);
    struct gate *gate = put_gate(b);
    queue_fill(b, behind, 4 * PAGE, 1);
    OK(weir_pool_free(pool, behind, b));
    OK(weir_pool_resize(pool, block, 8 * PAGE, a));
    queue_fill(a, behind, 4 * PAGE, 2);
    let_mutant_run(1);
    assert_int_equal(stats_of(pool).device_waits, 1);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    queue_check(a, behind, 4 * PAGE, 2);
    finish_pool(pool);
}

/* On a stream that is behind; and where a third stream's use was noted. */
static void what_is_cut_off_waits_for_the_uses(void **state) {
    (void)state;
    for (int noted = 0; noted < 2; noted++) {
        struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
        unsigned char *block = alloc(pool, 8 * PAGE, a);
        weir_stream user = noted ? new_stream() : a;
        struct gate *gate = put_gate(user);
        queue_fill(user, block, 8 * PAGE, 1);
        if (noted) OK(weir_pool_note(pool, block, user));
        OK(weir_pool_resize(pool, block, 4 * PAGE, a));
        unsigned char *next = alloc(pool, 4 * PAGE, b);
        assert_ptr_equal(next, block + 4 * PAGE);
        assert_int_equal(stats_of(pool).device_waits, 1);
        queue_fill(b, next, 4 * PAGE, 2);
        open_gate(gate);
        OK(weir_device_synchronize(test_device()));
        queue_check(b, next, 4 * PAGE, 2);
        finish_pool(pool);
    }
}

/* A block that gives up bytes and keeps them behind its end, while another stream's use of them lags, has them again: within its rounded
 * bytes, and with more behind them. That use was noted, or lies on the stream on which they were given up. */
static void what_was_cut_off_and_is_new_again_waits_too(void **state) {
    (void)state;
    const struct {
        enum weir_policy policy;
        size_t bytes, less, more;
        bool exportable, noted;
    } kinds[] = {
        {WEIR_POLICY_LATENCY, 500, 100, 400, false, true},
        {WEIR_POLICY_LATENCY, 1500, 1100, 3 * PAGE, false, true},
        {WEIR_POLICY_LATENCY, 1500, 1100, 1300, false, false},
        {WEIR_POLICY_FOOTPRINT, 3 * PAGE, 2 * PAGE + 1, 3 * PAGE, false, false},
        {WEIR_POLICY_FOOTPRINT, 3 * PAGE, 2 * PAGE + 1, 2 * PAGE + 512, false, true},
        {WEIR_POLICY_PER_STREAM, PAGE, 100, PAGE, false, true},
        {WEIR_POLICY_LATENCY, PAGE, 100, PAGE, true, true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct weir_pool *pool = open_pool(kinds[i].policy, kinds[i].policy == WEIR_POLICY_PER_STREAM ? 64 : 8);
        const size_t less = kinds[i].less, rest = kinds[i].more - less;
        const unsigned before = fills_run();
        void *at = NULL;
        OK(kinds[i].exportable ? weir_pool_alloc_exportable(pool, kinds[i].bytes, a, &at)
                               : weir_pool_alloc(pool, kinds[i].bytes, a, &at));
        unsigned char *block = at;
        struct gate *gate = put_gate(b);
        queue_fill(b, block, kinds[i].bytes, 1);
        if (kinds[i].noted) OK(weir_pool_note(pool, block, b));
        OK(weir_pool_resize(pool, block, less, kinds[i].noted ? a : b));
        assert_int_equal(stats_of(pool).device_waits, 0);
        OK(weir_pool_resize(pool, block, kinds[i].more, a));
        assert_int_equal(stats_of(pool).device_waits, 1);
        queue_fill(a, block + less, rest, 2);
        let_mutant_run(before + 1);
        open_gate(gate);
        OK(weir_device_synchronize(test_device()));
        queue_check(a, block + less, rest, 2);
        OK(weir_device_synchronize(test_device()));
        OK(weir_pool_free(pool, block, a));
        finish_pool(pool);
    }
}

/* Nor does a growth for which there is no room. */
static void a_growth_that_is_refused_holds_nothing_back(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    void *block = alloc(pool, 3000, a), *wall = alloc(pool, 512, a);
    struct gate *gate = put_gate(b);
    OK(weir_pool_note(pool, block, b));
    OK(weir_pool_resize(pool, block, 2900, a));
    assert_int_equal(weir_pool_resize(pool, block, 2 * PAGE, a), WEIR_NOT_READY);
    assert_int_equal(weir_pool_resize(pool, block, 64 * PAGE, a), WEIR_NOT_READY);
    assert_int_equal(stats_of(pool).device_waits, 0);
    open_gate(gate);
    OK(weir_pool_free(pool, wall, a));
    finish_pool(pool);
}

/* On a stream of its own; a free on yet another one has room for its tag. */
static void a_block_of_many_streams_gives_bytes_up(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    for (size_t notes = 0; notes < 9; notes++) {
        void *block = alloc(pool, 1500, a);
        for (size_t i = 0; i < notes; i++) OK(weir_pool_note(pool, block, new_stream()));
        OK(weir_pool_resize(pool, block, 1300, new_stream()));
        OK(weir_pool_resize(pool, block, 1100, new_stream()));
        OK(weir_pool_free(pool, block, new_stream()));
    }
    finish_pool(pool);
}

/* The device has nothing to do, or the host has waited for what it had. */
static void what_is_over_is_not_waited_for(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    unsigned char *block = alloc(pool, 500, a);
    queue_fill(b, block, 500, 1);
    OK(weir_pool_note(pool, block, b));
    OK(weir_stream_synchronize(test_device(), b));
    OK(weir_pool_resize(pool, block, 100, a));
    OK(weir_pool_resize(pool, block, 400, a));
    assert_int_equal(stats_of(pool).device_waits, 0);
    finish_pool(pool);
}

static struct weir_pool *asked;
static _Atomic(void *) asked_for;

static void *ask_for_a_block(void *argument) {
    (void)argument;
    for (void *block; (block = atomic_load(&asked_for)) != &asked_for;) {
        struct weir_block found = {.size = sizeof found};
        if (block != NULL) weir_pool_find(asked, block, &found);
    }
    return NULL;
}

/* One that a front has handed out, and that has no number before it is asked for. */
static void a_question_for_a_block_that_grows_changes_nothing(void **state) {
    (void)state;
    enum { TIMES = 1500 };
    pthread_t thread;
    asked = open_pool(WEIR_POLICY_LATENCY, 16);
    assert_int_equal(pthread_create(&thread, NULL, ask_for_a_block, NULL), 0);
    for (int i = 0; i < TIMES; i++) {
        OK(weir_pool_free(asked, alloc(asked, 3000, a), a));
        void *block = alloc(asked, 3000, a);
        atomic_store(&asked_for, block);
        OK(weir_pool_resize(asked, block, 6 * PAGE, a));
        atomic_store(&asked_for, NULL);
        OK(weir_pool_free(asked, block, a));
        if (i % 8 == 0) OK(weir_pool_trim(asked, 0));
    }
    atomic_store(&asked_for, &asked_for);
    pthread_join(thread, NULL);
    finish_pool(asked);
}

/* Bytes that nobody had, or that left the block, or that were given up before the use was noted. */
static void what_is_new_and_was_not_used_waits_for_nobody(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    void *fresh = alloc(pool, 100, a), *smaller = alloc(pool, 500, a), *whole = alloc(pool, 1024, a);
    OK(weir_pool_resize(pool, smaller, 100, a));
    struct gate *gate = put_gate(b);
    void *const blocks[] = {fresh, smaller, whole};
    for (size_t i = 0; i < 3; i++) OK(weir_pool_note(pool, blocks[i], b));
    OK(weir_pool_resize(pool, whole, 512, a));
    OK(weir_pool_resize(pool, fresh, 200, a));
    OK(weir_pool_resize(pool, smaller, 400, a));
    assert_int_equal(weir_pool_resize(pool, whole, SIZE_MAX, a), WEIR_NOT_READY);
    assert_int_equal(stats_of(pool).device_waits, 0);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    finish_pool(pool);
}

static void without_room_nothing_changes(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    void *block = alloc(pool, PAGE, a), *behind = alloc(pool, PAGE, a), *last = alloc(pool, PAGE, a);
    const struct weir_pool_stats before = stats_of(pool);
    assert_int_equal(weir_pool_resize(pool, block, PAGE + 1, a), WEIR_NOT_READY);
    assert_int_equal(weir_pool_resize(pool, last, 7 * PAGE, a), WEIR_NOT_READY); /* six there could be */
    assert_int_equal(weir_pool_resize(pool, last, SIZE_MAX, a), WEIR_NOT_READY);
    assert_int_equal(weir_pool_resize(pool, last, SIZE_MAX / 4, a), WEIR_NOT_READY);
    OK(weir_pool_free(pool, behind, a));
    assert_int_equal(weir_pool_resize(pool, behind, PAGE, a), WEIR_INVALID);
    assert_int_equal(weir_pool_resize(pool, (char *)block + 512, PAGE, a), WEIR_INVALID);
    assert_int_equal(weir_pool_resize(pool, block, 2 * PAGE + 1, a), WEIR_NOT_READY);
    struct weir_pool_stats after = stats_of(pool);
    assert_int_equal(after.live_bytes, before.live_bytes - PAGE);
    assert_int_equal(after.held_bytes, before.held_bytes);
    assert_int_equal(after.out_of_memory, 0);
    OK(weir_pool_resize(pool, last, 6 * PAGE, a));
    void *none = NULL, *empty = alloc(pool, 0, a);
    OK(weir_pool_resize(pool, empty, 0, a));
    assert_int_equal(weir_pool_resize(pool, empty, 1, a), WEIR_NOT_READY);
    assert_int_equal(weir_pool_alloc(pool, 2 * PAGE, a, &none), WEIR_OUT_OF_MEMORY);
    finish_pool(pool);
}

/* More is held than the limit that was lowered allows: a block does not grow into it. */
static void a_lowered_limit_holds_here_too(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    void *block = alloc(pool, 2 * PAGE, a), *behind = alloc(pool, 6 * PAGE, a);
    struct gate *gate = put_gate(a);
    OK(weir_pool_free(pool, behind, a));
    OK(weir_pool_set_limit(pool, 3 * PAGE));
    assert_int_equal(stats_of(pool).held_bytes, 8 * PAGE);
    assert_int_equal(weir_pool_resize(pool, block, 4 * PAGE, a), WEIR_NOT_READY);
    open_gate(gate);
    OK(weir_pool_resize(pool, block, 3 * PAGE, a));
    finish_pool(pool);
}

static void a_pool_a_stream_keeps_its_sizes(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 64);
    void *block = alloc(pool, PAGE, a);
    const size_t live = stats_of(pool).live_bytes;
    OK(weir_pool_resize(pool, block, 100, a));
    expect_sizes(pool, live, 100);
    OK(weir_pool_resize(pool, block, PAGE, a));
    assert_int_equal(weir_pool_resize(pool, block, PAGE, b), WEIR_NOT_READY);
    assert_int_equal(weir_pool_resize(pool, block, live + 1, a), WEIR_NOT_READY);
    expect_sizes(pool, live, PAGE);
    OK(weir_pool_free(pool, block, a));
    finish_pool(pool);
}

static void a_trace_has_a_free_and_a_request(void **state) {
    (void)state;
    char path[64], text[4096] = "";
    snprintf(path, sizeof path, "/tmp/weir-resize-%d.trace", (int)getpid());
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .trace_path = path};
    OK(weir_pool_create(test_device(), &options, &pool));
    void *block = alloc(pool, PAGE, a);
    OK(weir_pool_resize(pool, block, 2 * PAGE, a));
    OK(weir_pool_resize(pool, block, 700, b));
    OK(weir_pool_free(pool, block, b));
    close_pool(pool);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    unlink(path);
    if (strstr(text, "\nm 1 16384 0\nf 1\nm 2 32768 0\n# stream 1 stream 1\nf 2 1\nm 3 700 1\nf 3\n") == NULL)
        fail_msg("%s", text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_grows_and_shrinks_in_place),
        cmocka_unit_test(what_is_new_is_ready_for_the_stream),
        cmocka_unit_test(what_is_cut_off_waits_for_the_uses),
        cmocka_unit_test(what_was_cut_off_and_is_new_again_waits_too),
        cmocka_unit_test(a_growth_that_is_refused_holds_nothing_back),
        cmocka_unit_test(a_block_of_many_streams_gives_bytes_up),
        cmocka_unit_test(what_is_over_is_not_waited_for),
        cmocka_unit_test(a_question_for_a_block_that_grows_changes_nothing),
        cmocka_unit_test(what_is_new_and_was_not_used_waits_for_nobody),
        cmocka_unit_test(without_room_nothing_changes),
        cmocka_unit_test(a_lowered_limit_holds_here_too),
        cmocka_unit_test(a_pool_a_stream_keeps_its_sizes),
        cmocka_unit_test(a_trace_has_a_free_and_a_request),
    };
    return cmocka_run_group_tests_name("resize", tests, open_streams, NULL);
}
