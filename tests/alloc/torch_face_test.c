/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that PyTorch's pluggable allocator takes: weir's own record of a block wins over the caller's, what is flushed goes back to
 * the driver, memory that a noted stream uses serves others after it, and a graph's memory is the graph's for as long as PyTorch
 * has it. */
#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/faces/process.h"
#include "tests/alloc/graphs.h"
#include "weir/faces.h"

enum { UNIT = 16384 }; /* a page stands for a MiB */

static weir_stream s1, s2;

static struct weir_pool *pool_of(int device) {
    struct weir_pool *pool = NULL;
    OK(weir_process_pool(device, &pool));
    return pool;
}

static struct weir_face_counts counts(void) {
    struct weir_face_counts counts = {.size = sizeof counts};
    OK(weir_face_get_counts(&counts));
    return counts;
}

static int set_up(void **state) {
    test_device();
    s1 = new_stream();
    s2 = new_stream();
    return load_graphs(state);
}

/* Every test has a pool of its own. */
static int forget(void **state) {
    open_gates_left_shut(state);
    OK(weir_pool_check(pool_of(0)));
    weir__process_pool_forget(0);
    return 0;
}

static void finish(size_t live_blocks) {
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    assert_int_equal(stats_of(pool_of(0)).live_blocks, live_blocks);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

static void an_odd_size_at_free_is_counted_and_weirs_own_record_wins(void **state) {
    (void)state;
    const uint64_t before = counts().odd_sizes;
    for (int i = 0; i < 3; i++) weir_torch_free(weir_torch_alloc(1000, 0, s1), 1024, 0, s1);
    assert_int_equal(counts().odd_sizes, before + 3); /* by the ladder and by the front */
    weir_torch_free(weir_torch_alloc(1000, 0, s1), 1000, 0, s1);
    weir_torch_free(weir_torch_alloc(0, 0, s1), 0, 0, s1);
    assert_int_equal(counts().odd_sizes, before + 3);
    const struct weir_pool_stats stats = stats_of(pool_of(0));
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.frees, 5);
}

static void sizes_near_the_top_are_refused_and_nothing_has_changed(void **state) {
    (void)state;
    void *p = weir_torch_alloc(512, 0, s1);
    assert_non_null(p);
    const struct weir_pool_stats before = stats_of(pool_of(0));
    const ssize_t sizes[] = {-1, -511, -512, -SSIZE_MAX - 1, SSIZE_MAX, -8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t since_ns = now_ns();
        assert_null(weir_torch_alloc(sizes[i], 0, s1));
        assert_int_equal(weir_last_error()->status, WEIR_OUT_OF_MEMORY);
        assert_true(now_ns() - since_ns < 100000000u);
    }
    const struct weir_pool_stats after = stats_of(pool_of(0));
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.held_bytes, before.held_bytes);
    void *q = weir_torch_alloc(512, 0, s1);
    assert_non_null(q);
    assert_ptr_not_equal(p, q);
    weir_torch_free(p, 512, 0, s1);
    weir_torch_free(q, 512, 0, s1);
}

static void blocks_of_no_size_have_addresses_of_their_own(void **state) {
    (void)state;
    void *p = weir_torch_alloc(0, 0, s1), *q = weir_torch_alloc(0, 0, s1);
    assert_non_null(p);
    assert_non_null(q);
    assert_ptr_not_equal(p, q);
    assert_int_equal(stats_of(pool_of(0)).requested_bytes, 0);
    weir_torch_free(p, 0, 0, s1);
    weir_torch_free(q, 0, 0, s1);
    weir_torch_free(NULL, 0, 0, s1);
    assert_int_equal(stats_of(pool_of(0)).live_blocks, 0);
}

/* ---- the limit -------------------------------------------------------------------------------------------------- */

static void what_is_freed_serves_a_larger_request_and_the_flush_gives_back(void **state) {
    (void)state;
    struct weir_pool *pool = pool_of(0);
    OK(weir_pool_set_limit(pool, (size_t)1024 * UNIT));
    void *p = weir_torch_alloc(600 * UNIT, 0, s1);
    assert_non_null(p);
    weir_torch_free(p, 600 * UNIT, 0, s1);
    p = weir_torch_alloc(700 * UNIT, 0, s2);
    assert_non_null(p);
    assert_null(weir_torch_alloc(1025 * UNIT, 0, s1));
    assert_int_equal(weir_last_error()->status, WEIR_OUT_OF_MEMORY);
    char report[256];
    assert_true(weir_pool_report(pool, report, sizeof report) > 0);
    assert_int_equal(stats_of(pool).out_of_memory, 1);
    weir_torch_free(p, 700 * UNIT, 0, s2);
    weir_torch_reset();
    assert_int_equal(stats_of(pool).held_bytes, 0);
}

static void what_exceeds_the_limit_is_refused_without_a_wait_for_work(void **state) {
    (void)state;
    void *p = weir_torch_alloc(100 * UNIT, 0, s1);
    struct gate *gate = put_gate(s1);
    weir_torch_free(p, 100 * UNIT, 0, s1);
    assert_null(weir_torch_alloc((ssize_t)stats_of(pool_of(0)).limit_bytes + 1, 0, s2));
    assert_int_equal(stats_of(pool_of(0)).host_waits, 0);
    open_gate(gate);
}

static void a_flush_gives_back_what_work_still_uses_once_it_is_over(void **state) {
    (void)state;
    void *p = weir_torch_alloc(100 * UNIT, 0, s1);
    queue_fill(s1, p, 100 * UNIT, 1);
    weir_torch_free(p, 100 * UNIT, 0, s1);
    weir_torch_reset();
    assert_int_equal(stats_of(pool_of(0)).held_bytes, 0);
}

static void the_fraction_is_the_limit(void **state) {
    (void)state;
    struct weir_pool *pool = pool_of(0);
    const size_t capacity = stats_of(pool).capacity_bytes;
    weir_torch_memory_fraction(0.5, 0);
    assert_int_equal(stats_of(pool).limit_bytes, capacity / 2);
    assert_null(weir_torch_alloc((ssize_t)(capacity / 2 + 1), 0, s1));
    void *p = weir_torch_alloc((ssize_t)(capacity / 2), 0, s1);
    assert_non_null(p);
    weir_torch_memory_fraction(1.5, 0); /* is refused */
    weir_torch_memory_fraction(-0.1, 0);
    assert_int_equal(stats_of(pool).limit_bytes, capacity / 2);
    weir_torch_memory_fraction(0, 0);
    assert_int_equal(stats_of(pool).limit_bytes, PAGE); /* below what is live */
    assert_null(weir_torch_alloc(1, 0, s1));
    weir_torch_free(p, (ssize_t)(capacity / 2), 0, s1);
    weir_torch_memory_fraction(1, 0);
    assert_int_equal(stats_of(pool).limit_bytes, capacity);
}

/* ---- addresses -------------------------------------------------------------------------------------------------- */

static void strangers_and_double_frees_are_counted_and_change_nothing(void **state) {
    (void)state;
    int foreign = 0;
    const uint64_t before = counts().strangers;
    weir_torch_free(&foreign, 4, 0, s1);
    weir_torch_free(&foreign, 4, 7, s1);  /* of a device that has no pool, */
    weir_torch_free(&foreign, 4, -1, s1); /* and of none */
    weir_torch_record_stream(&foreign, s1);
    assert_int_equal(counts().strangers, before + 4);
    assert_null(weir_torch_alloc(1, -1, s1));
    assert_null(weir_torch_alloc(1, 64, s1));

    char *p = weir_torch_alloc(32 * UNIT, 0, s1);
    weir_torch_free(p, 32 * UNIT, 0, s1);
    weir_torch_free(p, 32 * UNIT, 0, s1);
    char *q = weir_torch_alloc(32 * UNIT, 0, s1), *r = weir_torch_alloc(32 * UNIT, 0, s1);
    assert_ptr_not_equal(q, r);
    weir_torch_free(q + 512, 32 * UNIT, 0, s1);
    assert_int_equal(counts().strangers, before + 6);
    assert_int_equal(stats_of(pool_of(0)).live_bytes, 64 * UNIT);
    weir_torch_free(q, 32 * UNIT, 0, s1);
    weir_torch_free(r, 32 * UNIT, 0, s1);
    finish(0);
}

static void the_start_of_a_block_is_told_for_any_address_in_it(void **state) {
    (void)state;
    int foreign = 0;
    size_t bytes = 0;
    char *p = weir_torch_alloc(1000, 0, s1);
    assert_ptr_equal(weir_torch_base_alloc(p, &bytes), p);
    assert_int_equal(bytes, 1024);
    assert_ptr_equal(weir_torch_base_alloc(p + 999, NULL), p);
    assert_ptr_equal(weir_torch_base_alloc(&foreign, &bytes), &foreign);
    assert_int_equal(bytes, 0);
    weir_torch_free(p, 1000, 0, s1);
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static void a_recorded_stream_is_waited_for(void **state) {
    (void)state;
    enum { BYTES = 64 * UNIT };
    struct weir_pool *pool = pool_of(0);
    OK(weir_pool_set_limit(pool, BYTES));
    void *p = weir_torch_alloc(BYTES, 0, s1);
    weir_torch_record_stream(p, s2);
    struct gate *gate = put_gate(s2);
    queue_fill(s2, p, BYTES, 1);
    queue_check(s2, p, BYTES, 1);
    weir_torch_free(p, BYTES, 0, s1);
    void *q = weir_torch_alloc(BYTES, 0, s1); /* waits on the device, the watch sees that it does */
    assert_ptr_equal(q, p);
    queue_fill(s1, q, BYTES, 2);
    open_gate(gate);
    weir_torch_free(q, BYTES, 0, s1);
    finish(0);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

struct filter {
    weir_stream stream;
    int asked, dropped;
    void *block;
};

static bool is_its(void *self, weir_stream stream) {
    struct filter *filter = self;
    filter->asked++;
    return stream == filter->stream;
}

static void drop(void *self) { ((struct filter *)self)->dropped++; }

static const struct weir_torch_pool id = {1, 7};

/* A capture in which a block is written, freed, asked for again, and one stays. */
static graph_exec capture(struct filter *filter, unsigned char **kept, bool end_first) {
    weir_torch_begin_pool(0, id, is_its, drop, filter);
    begin_capture(s1, CU_STREAM_CAPTURE_MODE_GLOBAL);
    unsigned char *p = weir_torch_alloc(4 * UNIT, 0, s1);
    OK(weir_set(test_device(), p, 1, 4 * UNIT, s1));
    weir_torch_free(p, 4 * UNIT, 0, s1);
    *kept = weir_torch_alloc(4 * UNIT, 0, s1);
    OK(weir_set(test_device(), *kept, 2, 4 * UNIT, s1));
    assert_ptr_equal(*kept, p);
    void *beside = weir_torch_alloc(UNIT, 0, s2); /* none of the graph's business */
    assert_true(lie_apart(beside, UNIT, p, 4 * UNIT));
    weir_torch_free(beside, UNIT, 0, s2);
    assert_true(captures_well(s1));
    if (end_first) weir_torch_end_pool(0, id);
    graph_exec exec = end_capture(s1);
    if (!end_first) weir_torch_end_pool(0, id);
    return exec;
}

static void graphs_have_memory_of_their_own_until_released(void **state) {
    (void)state;
    struct filter filter = {.stream = s1};
    unsigned char *kept;
    graph_exec exec = capture(&filter, &kept, false);
    assert_int_equal(filter.dropped, 1);
    const int asked = filter.asked;
    void *p = weir_torch_alloc(4 * UNIT, 0, s1); /* outside: not the graph's */
    assert_true(lie_apart(p, 4 * UNIT, kept, 4 * UNIT));
    assert_int_equal(filter.asked, asked);
    launch_graph(exec, s1);
    queue_check(s1, kept, 4 * UNIT, 2);
    weir_torch_free(p, 4 * UNIT, 0, s1);
    const size_t held = stats_of(pool_of(0)).held_bytes;
    destroy_graph(exec);
    weir_torch_release_pool(0, id);
    queue_check(s1, kept, 4 * UNIT, 2); /* a result outlives its graph */
    OK(weir_device_synchronize(test_device()));
    weir_torch_free(kept, 4 * UNIT, 0, s1); /* the last one: the memory goes back */
    void *all = weir_torch_alloc((ssize_t)stats_of(pool_of(0)).limit_bytes, 0, s1);
    assert_non_null(all);
    weir_torch_free(all, (ssize_t)stats_of(pool_of(0)).limit_bytes, 0, s1);
    assert_true(held > 0);
    finish(0);
}

static void the_pools_end_may_come_before_the_captures(void **state) {
    (void)state;
    struct filter filter = {.stream = s1};
    unsigned char *kept;
    graph_exec exec = capture(&filter, &kept, true);
    void *p = weir_torch_alloc(4 * UNIT, 0, s1);
    assert_true(lie_apart(p, 4 * UNIT, kept, 4 * UNIT));
    weir_torch_free(p, 4 * UNIT, 0, s1);
    weir_torch_free(kept, 4 * UNIT, 0, s1);
    destroy_graph(exec);
    weir_torch_release_pool(0, id);
    finish(0);
}

static void several_captures_share_a_pool_until_all_are_released(void **state) {
    (void)state;
    struct filter first = {.stream = s1}, second = {.stream = s1};
    unsigned char *kept[2];
    graph_exec exec = capture(&first, &kept[0], false);
    graph_exec other = capture(&second, &kept[1], false);
    assert_true(lie_apart(kept[0], 4 * UNIT, kept[1], 4 * UNIT));
    weir_torch_free(kept[0], 4 * UNIT, 0, s1);
    weir_torch_free(kept[1], 4 * UNIT, 0, s1);
    destroy_graph(exec);
    weir_torch_release_pool(0, id);
    assert_null(weir_torch_alloc((ssize_t)stats_of(pool_of(0)).limit_bytes, 0, s2));
    launch_graph(other, s1); /* its memory is there still */
    OK(weir_device_synchronize(test_device()));
    destroy_graph(other);
    weir_torch_release_pool(0, id);
    finish(0);
}

static void a_pool_without_a_capture_changes_nothing(void **state) {
    (void)state;
    struct filter filter = {.stream = s1};
    weir_torch_begin_pool(0, id, is_its, drop, &filter);
    void *p = weir_torch_alloc(4 * UNIT, 0, s1);
    assert_non_null(p);
    weir_torch_free(p, 4 * UNIT, 0, s1);
    assert_true(filter.asked > 0);
    weir_torch_end_pool(0, id);
    weir_torch_release_pool(0, id);
    weir_torch_release_pool(0, id); /* once too often */
    assert_int_equal(filter.dropped, 1);
    weir_torch_begin_pool(0, id, NULL, drop, &filter); /* no filter: said, and dropped */
    assert_int_equal(filter.dropped, 2);
    finish(0);
}

static void drop_and_free(void *self) {
    drop(self);
    weir_torch_free(((struct filter *)self)->block, UNIT, 0, s1);
}

/* While pools are left each free looks whether they can go. */
static void a_filter_that_is_dropped_may_free_blocks(void **state) {
    (void)state;
    struct filter filter = {.stream = s1}, freeing = {.stream = s1, .block = weir_torch_alloc(UNIT, 0, s1)};
    const struct weir_torch_pool other = {3, 4};
    unsigned char *kept;
    destroy_graph(capture(&filter, &kept, false));
    weir_torch_release_pool(0, id); /* left, with a block */
    weir_torch_begin_pool(0, other, is_its, drop_and_free, &freeing);
    weir_torch_end_pool(0, other);
    weir_torch_release_pool(0, other);
    assert_int_equal(freeing.dropped, 1);
    weir_torch_free(kept, 4 * UNIT, 0, s1);
    finish(0);
}

/* Nothing of the pool's is left: another one can have all. */
static void assert_all_is_free(void) {
    const ssize_t all = (ssize_t)stats_of(pool_of(0)).limit_bytes;
    void *p = weir_torch_alloc(all, 0, s2);
    assert_non_null(p);
    weir_torch_free(p, all, 0, s2);
}

static void a_reset_takes_the_memory_of_live_graphs_with_it(void **state) {
    (void)state;
    struct filter filter = {.stream = s1};
    unsigned char *kept;
    graph_exec exec = capture(&filter, &kept, false);
    weir__process_pool_forget(0);
    assert_all_is_free();
    destroy_graph(exec);
    const uint64_t strangers = counts().strangers;
    weir_torch_free(kept, 4 * UNIT, 0, s1);
    assert_int_equal(counts().strangers, strangers + 1);
    /* What was begun before is released after: the graph that was begun since keeps its memory. */
    exec = capture(&filter, &kept, false);
    weir_torch_free(kept, 4 * UNIT, 0, s1);
    weir_torch_release_pool(0, id);
    assert_null(weir_torch_alloc((ssize_t)stats_of(pool_of(0)).limit_bytes, 0, s2));
    launch_graph(exec, s1);
    OK(weir_device_synchronize(test_device()));
    destroy_graph(exec);
    weir_torch_release_pool(0, id);
    assert_all_is_free();
    finish(0);
}

static void a_reset_before_the_end_of_a_capture_is_heard_of_harms_no_later_one(void **state) {
    (void)state;
    struct filter filter = {.stream = s1};
    unsigned char *kept;
    weir_torch_begin_pool(0, id, is_its, drop, &filter);
    begin_capture(s1, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_non_null(weir_torch_alloc(4 * UNIT, 0, s1));
    destroy_graph(end_capture(s1));
    weir__process_pool_forget(0);
    assert_all_is_free();
    weir_torch_end_pool(0, id);
    weir_torch_release_pool(0, id);
    destroy_graph(capture(&filter, &kept, false));
    weir_torch_free(kept, 4 * UNIT, 0, s1);
    weir_torch_release_pool(0, id);
    finish(0);
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

/* What a child does with weir, while another thread of its parent, this one, has the pools' lock. */
static int live_as_a_child(void) {
    alarm(120);
    struct filter filter = {.stream = s1};
    if (weir_torch_alloc(1000, 0, s1) != NULL || weir_nccl_mem_alloc(&(void *){NULL}, 1) == 0) return 1;
    weir_torch_record_stream(&filter, s1);
    weir_torch_free(&filter, 1000, 0, s1);
    weir_torch_begin_pool(0, id, is_its, drop, &filter);
    weir_torch_end_pool(0, id);
    weir_torch_release_pool(0, id);
    weir_torch_reset();
    return filter.dropped == 1 ? 0 : 2;
}

static bool forks(void *self, weir_stream stream) {
    (void)stream;
    const pid_t child = fork();
    if (child == 0) _exit(live_as_a_child());
    waitpid(child, self, 0);
    return false;
}

static void a_child_is_refused_and_does_not_hang(void **state) {
    (void)state;
    int status = -1;
    weir_torch_begin_pool(0, id, forks, NULL, &status);
    void *p = weir_torch_alloc(1000, 0, s1);
    assert_non_null(p);
    assert_int_equal(status, 0);
    weir_torch_end_pool(0, id);
    weir_torch_release_pool(0, id);
    weir_torch_free(p, 1000, 0, s1);
    finish(0);
}

/* ---- captures to come -------------------------------------------------------------------------------------------- */

static const struct weir__driver *real;
static int queries;

static CUresult count_query(CUstream stream) {
    queries++;
    return real->stream_query(stream);
}

/* What one stream has given back another one gets, and is it idle? Gives: how often that was asked of a stream. */
static int hand_over(void) {
    const ssize_t all = (ssize_t)stats_of(pool_of(0)).limit_bytes;
    queries = 0;
    weir_torch_free(weir_torch_alloc(UNIT, 0, s2), UNIT, 0, s2); /* too little for a mark */
    weir_torch_free(weir_torch_alloc(all, 0, s1), all, 0, s1);
    return queries;
}

/* It may begin between a look whether the stream captures and the question, which would spoil it. */
static void no_stream_is_asked_while_a_capture_may_be_about_to_begin(void **state) {
    (void)state;
    struct filter never = {.stream = NULL}, its = {.stream = s1};
    hand_over();
    struct weir_device *device = pool_of(0)->device;
    real = device->driver;
    static struct weir__driver counting;
    counting = *real;
    counting.stream_query = count_query;
    device->driver = &counting;
    assert_true(hand_over() > 0);
    weir_torch_begin_pool(0, id, is_its, drop, &never);
    assert_int_equal(hand_over(), 0);
    weir_torch_end_pool(0, id);
    assert_true(hand_over() > 0);
    weir_torch_begin_pool(0, id, is_its, drop, &its); /* for no capture, as the first request shows */
    weir_torch_free(weir_torch_alloc(UNIT, 0, s1), UNIT, 0, s1);
    assert_true(hand_over() > 0);
    weir_torch_end_pool(0, id);
    weir_torch_release_pool(0, id);
    weir_torch_release_pool(0, id);
    device->driver = real;
    finish(0);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 300 };

static void *allocate_and_free(void *argument) {
    weir_stream stream = argument;
    for (int i = 0; i < TURNS; i++) {
        const ssize_t bytes = 1 + i % 7 * UNIT;
        void *block = weir_torch_alloc(bytes, 0, stream);
        if (block == NULL) {
            print_message("%s\n", weir_last_error()->message);
            return argument;
        }
        queue_fill(stream, block, (size_t)bytes, 1);
        if (i % 5 == 0) weir_torch_record_stream(block, s1);
        weir_torch_free(block, bytes, 0, stream);
    }
    return NULL;
}

static void every_call_may_come_from_any_thread(void **state) {
    (void)state;
    struct filter filter = {.stream = s1};
    weir_stream streams[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        streams[i] = new_stream();
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, streams[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        unsigned char *kept;
        if (i % 5 == 0) weir_torch_reset();
        graph_exec exec = capture(&filter, &kept, i % 2 == 0);
        weir_torch_free(kept, 4 * UNIT, 0, s1);
        destroy_graph(exec);
        weir_torch_release_pool(0, id);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
        OK(weir_stream_destroy(test_device(), streams[i]));
    }
    finish(0);
}

#undef cmocka_unit_test
#define cmocka_unit_test(test) cmocka_unit_test_teardown(test, forget)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_odd_size_at_free_is_counted_and_weirs_own_record_wins),
        cmocka_unit_test(sizes_near_the_top_are_refused_and_nothing_has_changed),
        cmocka_unit_test(blocks_of_no_size_have_addresses_of_their_own),
        cmocka_unit_test(what_is_freed_serves_a_larger_request_and_the_flush_gives_back),
        cmocka_unit_test(what_exceeds_the_limit_is_refused_without_a_wait_for_work),
        cmocka_unit_test(a_flush_gives_back_what_work_still_uses_once_it_is_over),
        cmocka_unit_test(the_fraction_is_the_limit),
        cmocka_unit_test(strangers_and_double_frees_are_counted_and_change_nothing),
        cmocka_unit_test(the_start_of_a_block_is_told_for_any_address_in_it),
        cmocka_unit_test(a_recorded_stream_is_waited_for),
        cmocka_unit_test(graphs_have_memory_of_their_own_until_released),
        cmocka_unit_test(the_pools_end_may_come_before_the_captures),
        cmocka_unit_test(several_captures_share_a_pool_until_all_are_released),
        cmocka_unit_test(a_pool_without_a_capture_changes_nothing),
        cmocka_unit_test(a_filter_that_is_dropped_may_free_blocks),
        cmocka_unit_test(a_reset_takes_the_memory_of_live_graphs_with_it),
        cmocka_unit_test(a_reset_before_the_end_of_a_capture_is_heard_of_harms_no_later_one),
        cmocka_unit_test(a_child_is_refused_and_does_not_hang),
        cmocka_unit_test(no_stream_is_asked_while_a_capture_may_be_about_to_begin),
        cmocka_unit_test(every_call_may_come_from_any_thread),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
