/* SPDX-License-Identifier: Apache-2.0 */
/* What is allocated in a capture is the graph's: the capture stays whole in its strictest mode, every launch finds its memory
 * as the launch left it, no eager block overlaps it, and with the graph it is given up. */
#include <string.h>

#include "tests/alloc/cases/scene.h"
#include "tests/alloc/graphs.h"

enum { LAUNCHES = 3 };
#define P_BYTES (1 * MIB)
#define Q_BYTES (2 * MIB)

static weir_stream stream, other;

static void set(void *at, unsigned char value, size_t bytes, weir_stream on) {
    OK(weir_set(test_device(), at, value, bytes, on));
}

/* p is written, copied out and freed, then q. */
struct captured {
    struct weir_pool *graph;
    void *p, *q;
    graph_exec exec;
};

static void capture_work(struct weir_pool *pool, struct captured *captured, unsigned char *result) {
    captured->p = alloc(pool, P_BYTES, stream);
    set(captured->p, 1, P_BYTES, stream);
    OK(weir_copy(test_device(), result, captured->p, P_BYTES, stream));
    OK(weir_pool_free(pool, captured->p, stream));
    captured->q = alloc(pool, Q_BYTES, stream);
    set(captured->q, 2, Q_BYTES, stream);
    OK(weir_copy(test_device(), result + P_BYTES, captured->q, Q_BYTES, stream));
    OK(weir_pool_free(pool, captured->q, stream));
}

static struct captured capture(struct weir_pool *pool, unsigned char *result) {
    struct captured captured = {.graph = open_graph_pool(pool)};
    OK(weir_pool_capture_begin(pool, captured.graph, stream));
    begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture_work(pool, &captured, result);
    captured.exec = end_capture(stream);
    OK(weir_pool_capture_end(pool, captured.graph));
    return captured;
}

/* Eager code takes, fills and gives back what the graph had, on its stream and on another. */
static void work_between(struct weir_pool *pool, const struct captured *captured) {
    const size_t sizes[] = {P_BYTES, Q_BYTES};
    for (int i = 0; i < 4; i++) {
        weir_stream on = i % 2 == 0 ? stream : other;
        void *block = alloc(pool, sizes[i / 2], on);
        assert_true(lie_apart(block, sizes[i / 2], captured->p, P_BYTES));
        assert_true(lie_apart(block, sizes[i / 2], captured->q, Q_BYTES));
        set(block, 0xEE, sizes[i / 2], on);
        OK(weir_pool_free(pool, block, on));
    }
}

static void launch(const struct captured *captured, unsigned char *result) {
    set(result, 0, P_BYTES + Q_BYTES, stream);
    launch_graph(captured->exec, stream);
    queue_check(stream, result, P_BYTES, 1);
    queue_check(stream, result + P_BYTES, Q_BYTES, 2);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
}

/* All that the graph's pool held serves others when it is destroyed, and not before. */
static void give_up(struct weir_pool *pool, struct captured *captured) {
    const size_t kept = stats_of(captured->graph).held_bytes;
    assert_true(kept >= Q_BYTES);
    OK(weir_pool_trim(captured->graph, 0));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(captured->graph).held_bytes, kept);
    const struct weir_pool_stats now = stats_of(pool);
    const size_t rest = now.limit_bytes - now.held_bytes;
    expect_refused(pool, rest, other);
    destroy_graph(captured->exec);
    close_pool(captured->graph);
    OK(weir_pool_free(pool, alloc(pool, rest, other), other));
}

static void launches_give_the_same(struct weir_pool *pool) {
    unsigned char *result = alloc(pool, P_BYTES + Q_BYTES, stream);
    struct captured captured = capture(pool, result);
    for (int i = 0; i < LAUNCHES; i++) {
        launch(&captured, result);
        work_between(pool, &captured);
    }
    OK(weir_pool_check(pool));
    OK(weir_pool_check(captured.graph));
    OK(weir_pool_free(pool, result, stream));
    OK(weir_device_synchronize(test_device()));
    give_up(pool, &captured);
}

/* All memory is taken, but some of it is idle: it is given back within the capture. */
static void a_full_pool_gives_to_the_graph(struct weir_pool *pool) {
    unsigned char *result = alloc(pool, P_BYTES + Q_BYTES, stream);
    void *idle = alloc(pool, 8 * MIB, other), *live = alloc(pool, stats_of(pool).limit_bytes - 12 * MIB, other);
    OK(weir_pool_free(pool, idle, other));
    OK(weir_device_synchronize(test_device()));
    struct captured captured = capture(pool, result);
    for (int i = 0; i < LAUNCHES; i++) {
        launch(&captured, result);
        work_between(pool, &captured);
    }
    OK(weir_pool_free(pool, live, other));
    OK(weir_pool_free(pool, result, stream));
    OK(weir_device_synchronize(test_device()));
    give_up(pool, &captured);
}

/* All memory is live: a plain refusal, and the capture goes on without. */
static void what_can_not_be_served_is_refused(struct weir_pool *pool) {
    unsigned char *result = alloc(pool, P_BYTES + Q_BYTES, stream);
    void *none = pool, *live = alloc(pool, stats_of(pool).limit_bytes - 4 * MIB, other);
    struct weir_pool *graph = open_graph_pool(pool);
    OK(weir_pool_capture_begin(pool, graph, stream));
    begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(weir_pool_alloc(pool, 8 * MIB, stream, &none), WEIR_OUT_OF_MEMORY);
    assert_null(none);
    assert_true(captures_well(stream));
    set(result, 7, P_BYTES, stream);
    graph_exec exec = end_capture(stream);
    OK(weir_pool_capture_end(pool, graph));
    launch_graph(exec, stream);
    queue_check(stream, result, P_BYTES, 7);
    OK(weir_device_synchronize(test_device()));
    destroy_graph(exec);
    close_pool(graph);
    OK(weir_pool_free(pool, result, stream));
    OK(weir_pool_free(pool, live, other));
    OK(weir_device_synchronize(test_device()));
}

/* Nobody has said where the graph's memory is to come from. */
static void without_a_home_there_is_a_clear_error(struct weir_pool *pool) {
    void *none = pool;
    begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(weir_pool_alloc(pool, P_BYTES, stream, &none), WEIR_NOT_SUPPORTED);
    assert_null(none);
    assert_non_null(strstr(weir_last_error()->message, "weir_pool_capture_begin"));
    destroy_graph(end_capture(stream));
}

#define UNDER_ALL_POLICIES(name)                                                                                       \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        with_shared_pools(64 * MIB, name);                                                                             \
    }
UNDER_ALL_POLICIES(launches_give_the_same)
UNDER_ALL_POLICIES(a_full_pool_gives_to_the_graph)
UNDER_ALL_POLICIES(what_can_not_be_served_is_refused)
UNDER_ALL_POLICIES(without_a_home_there_is_a_clear_error)

static int open_streams(void **state) {
    if (load_graphs(state) != 0) return -1;
    stream = new_stream();
    other = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches_give_the_same),
        cmocka_unit_test(test_a_full_pool_gives_to_the_graph),
        cmocka_unit_test(test_what_can_not_be_served_is_refused),
        cmocka_unit_test(test_without_a_home_there_is_a_clear_error),
    };
    return cmocka_run_group_tests_name("a_graph_keeps_its_memory", tests, open_streams, NULL);
}
