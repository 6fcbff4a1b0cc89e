/* SPDX-License-Identifier: Apache-2.0 */
/* Graph capture: no pool of the process breaks a capture in any mode, also one that nobody has announced, and memory is reused
 * within one capture on one stream alone. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/alloc/graphs.h"

enum { PAGES = 192, TIMES = 3, SMALL = 20000, LARGE = 40000 };
enum {
    MANY = WEIR__FRONT_BLOCKS + WEIR__MARK_FREES + 64
};                                         /* frees, after which a mark is due, though a front keeps some */
enum { UNKEPT = WEIR__FRONT_LARGEST + 1 }; /* pages of a block that no front keeps */

struct scene {
    struct weir_pool *pool, *graph;
    weir_stream stream, other;
    unsigned char *result; /* of the launches, in the pool */
};

static struct scene open_scene(size_t pages) {
    struct scene scene = {.pool = open_pool(WEIR_POLICY_LATENCY, pages), .stream = new_stream(), .other = new_stream()};
    scene.graph = open_graph_pool(scene.pool);
    scene.result = alloc(scene.pool, LARGE, scene.stream);
    return scene;
}

static void begin(const struct scene *scene, CUstreamCaptureMode mode) {
    OK(weir_pool_capture_begin(scene->pool, scene->graph, scene->stream));
    begin_capture(scene->stream, mode);
}

static graph_exec end(const struct scene *scene) {
    graph_exec exec = end_capture(scene->stream);
    OK(weir_pool_capture_end(scene->pool, scene->graph));
    return exec;
}

static void set(void *at, unsigned char value, size_t bytes, weir_stream stream) {
    OK(weir_set(test_device(), at, value, bytes, stream));
}

/* p is written and freed, q reuses it or not, and is copied out: 1s and 2s. */
static void capture_work(const struct scene *scene, void *p[2]) {
    p[0] = alloc(scene->pool, SMALL, scene->stream);
    set(p[0], 1, SMALL, scene->stream);
    OK(weir_copy(test_device(), scene->result, p[0], SMALL, scene->stream));
    OK(weir_pool_free(scene->pool, p[0], scene->stream));
    p[1] = alloc(scene->pool, LARGE, scene->stream);
    set(p[1], 2, LARGE, scene->stream);
    OK(weir_copy(test_device(), scene->result + SMALL, p[1], LARGE - SMALL, scene->stream));
    OK(weir_pool_free(scene->pool, p[1], scene->stream));
}

static void launch(const struct scene *scene, graph_exec exec) {
    set(scene->result, 0, LARGE, scene->stream);
    launch_graph(exec, scene->stream);
    queue_check(scene->stream, scene->result, SMALL, 1);
    queue_check(scene->stream, scene->result + SMALL, LARGE - SMALL, 2);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
}

static void close_scene(struct scene *scene) {
    OK(weir_device_synchronize(test_device()));
    if (scene->graph != NULL) close_pool(scene->graph);
    OK(weir_pool_free(scene->pool, scene->result, scene->stream));
    close_pool(scene->pool);
    OK(weir_stream_destroy(test_device(), scene->stream));
    OK(weir_stream_destroy(test_device(), scene->other));
}

/* Events are due, streams are to be asked, marks to be recorded: none of it touches the capture. */
static void work_beside(struct weir_pool *pool, weir_stream stream) {
    void *eager = alloc(pool, 40 * PAGE, stream), *none;
    OK(weir_pool_free(pool, eager, stream));
    for (int i = 0; i < MANY; i++)
        OK(weir_pool_free(pool, alloc(pool, (size_t)(UNKEPT + i % 8) * PAGE, stream), stream));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(weir_pool_alloc(pool, PAGES * PAGE, stream, &none), WEIR_OUT_OF_MEMORY);
}

static void work_before(struct weir_pool *pool, weir_stream stream) {
    for (int i = 0; i < 4 * MANY; i++) /* some marks */
        OK(weir_pool_free(pool, alloc(pool, UNKEPT * PAGE, stream), stream));
}

static void go_on_beside(CUstreamCaptureMode mode) {
    struct scene scene = open_scene(PAGES);
    void *early = alloc(scene.pool, PAGE, scene.stream), *p[2];
    work_before(scene.pool, scene.stream);
    begin(&scene, mode);
    capture_work(&scene, p);
    OK(weir_pool_free(scene.pool, early, scene.stream)); /* an eager block, freed on the stream that captures */
    work_beside(scene.pool, scene.other);
    graph_exec exec = end(&scene);
    for (int i = 0; i < TIMES; i++) launch(&scene, exec);
    destroy_graph(exec);
    close_scene(&scene);
}

static void other_streams_go_on_beside_a_capture(void **state) {
    (void)state;
    with_capture_modes(go_on_beside);
}

struct opener {
    struct weir_pool *pool;
    struct gate *gate;
};

static void *open_when_waiting(void *argument) {
    const struct opener *opener = argument;
    while (stats_of(opener->pool).host_waits == 0) sched_yield();
    open_gate(opener->gate);
    return NULL;
}

/* No mark can be made there before the capture ends, which waits for the block: so the host waits for what was freed. */
static void wait_for_the_legacy_stream(CUstreamCaptureMode mode) {
    struct scene scene = open_scene(PAGES);
    void *early = alloc(scene.pool, (PAGES - 16) * PAGE, NULL);
    struct opener opener = {.pool = scene.graph, .gate = put_gate(NULL)};
    queue_fill(NULL, early, (PAGES - 16) * PAGE, 0xAA);
    begin(&scene, mode);
    OK(weir_pool_free(scene.pool, early, NULL));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_when_waiting, &opener), 0);
    void *block = alloc(scene.pool, 48 * PAGE, scene.stream);
    pthread_join(thread, NULL);
    set(block, 1, 48 * PAGE, scene.stream);
    OK(weir_pool_free(scene.pool, block, scene.stream));
    graph_exec exec = end(&scene);
    launch_graph(exec, scene.stream);
    OK(weir_device_synchronize(test_device()));
    destroy_graph(exec);
    close_scene(&scene);
}

static void what_was_freed_on_the_legacy_stream_is_waited_for_in_a_capture(void **state) {
    (void)state;
    with_capture_modes(wait_for_the_legacy_stream);
}

/* What has been freed on the stream since it is captured is had by others when the capture has ended, and not before. */
static void wait_for_the_end(enum weir_policy policy) {
    struct scene scene = open_scene(PAGES);
    struct weir_pool *pool = open_pool(policy, 8);
    void *blocks[8], *none;
    for (int i = 0; i < 8; i++) blocks[i] = alloc(pool, PAGE, scene.stream);
    OK(weir_pool_capture_begin(scene.pool, scene.graph, scene.stream));
    begin_capture(scene.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < 8; i++) OK(weir_pool_free(pool, blocks[i], scene.stream));
    assert_int_equal(weir_pool_alloc(pool, PAGE, scene.other, &none), WEIR_OUT_OF_MEMORY);
    assert_int_equal(weir_pool_alloc_any(pool, PAGE, &none), WEIR_OUT_OF_MEMORY);
    destroy_graph(end(&scene));
    OK(weir_pool_free(pool, alloc(pool, 8 * PAGE, scene.other), scene.other));
    close_pool(pool);
    close_scene(&scene);
}

/* What has been freed there before is had at once, though it is in use still. */
static void what_was_freed_before_can_be_waited_for(void **state) {
    (void)state;
    struct scene scene = open_scene(64);
    struct weir_pool *pool = scene.pool;
    struct gate *gate = put_gate(scene.stream);
    void *block = alloc(pool, 40 * PAGE, scene.stream);
    set(block, 1, 40 * PAGE, scene.stream);
    OK(weir_pool_free(pool, block, scene.stream));
    begin(&scene, CU_STREAM_CAPTURE_MODE_GLOBAL);
    void *next = alloc(pool, 40 * PAGE, scene.other);
    set(next, 2, 40 * PAGE, scene.other);
    assert_int_equal(stats_of(pool).device_waits, 1);
    graph_exec exec = end(&scene);
    open_gate(gate);
    queue_check(scene.other, next, 40 * PAGE, 2);
    OK(weir_device_synchronize(test_device()));
    destroy_graph(exec);
    OK(weir_pool_free(pool, next, scene.other));
    close_scene(&scene);
}

/* ---- from begin on, also before the driver's ---------------------------------------------------------------------- */

static const struct weir__driver *real;
static weir_stream left_alone;
static unsigned touched;

static CUresult counted_query(CUstream stream) {
    touched += stream == left_alone;
    return real->stream_query(stream);
}
static CUresult counted_record(CUevent event, CUstream stream) {
    touched += stream == left_alone;
    return real->event_record(event, stream);
}

static void nothing_is_asked_of_the_stream_from_begin_on(void **state) {
    (void)state;
    struct scene scene = open_scene(PAGES);
    struct weir__driver counted = *(real = test_device()->driver);
    counted.stream_query = counted_query;
    counted.event_record = counted_record;
    void *early[MANY], *none;
    for (int i = 0; i < MANY; i++) early[i] = alloc(scene.pool, 512, scene.stream);
    OK(weir_pool_capture_begin(scene.pool, scene.graph, scene.stream));
    left_alone = scene.stream;
    touched = 0;
    test_device()->driver = &counted;
    for (int i = 0; i < MANY; i++) {
        OK(weir_pool_free(scene.pool, early[i], scene.stream));
        if (i == 0) assert_int_equal(weir_pool_alloc(scene.pool, PAGES * PAGE, scene.other, &none), WEIR_OUT_OF_MEMORY);
    }
    work_beside(scene.pool, scene.other);
    test_device()->driver = real;
    assert_int_equal(touched, 0);
    OK(weir_pool_capture_end(scene.pool, scene.graph));
    OK(weir_pool_free(scene.pool, alloc(scene.pool, 60 * PAGE, scene.other), scene.other));
    close_scene(&scene);
}

static void what_is_freed_meanwhile_waits_for_the_end(void **state) {
    (void)state;
    wait_for_the_end(WEIR_POLICY_LATENCY);
    wait_for_the_end(WEIR_POLICY_FOOTPRINT);
}

/* The stream has a past in a pool that has no part in the capture. */
static void touch_nothing(CUstreamCaptureMode mode, enum weir_policy policy) {
    struct scene scene = open_scene(PAGES);
    struct weir_pool *strange = open_pool(policy, PAGES),
                     *far = open_pool(WEIR_POLICY_LATENCY, 4); /* it never sees the stream */
    void *of_any;
    void *early[MANY], *p[2], *none = &scene;
    for (int i = 0; i < MANY; i++) early[i] = alloc(strange, 512, scene.stream);
    work_before(strange, scene.stream);
    begin(&scene, mode);
    for (int i = 0; i < MANY; i++) OK(weir_pool_free(strange, early[i], scene.stream));
    work_beside(strange, scene.other);
    OK(weir_pool_free_any(strange, alloc(strange, PAGE, scene.other)));
    OK(weir_pool_alloc_any(far, 4 * PAGE, &of_any));
    OK(weir_pool_free_any(far, of_any));
    OK(weir_pool_free(far, alloc(far, 3 * PAGE, scene.other), scene.other)); /* the host waits for the device */
    OK(weir_pool_trim(far, 0)); /* it would like to know what is over in the whole context */
    assert_true(captures_well(scene.stream));
    assert_int_equal(weir_pool_alloc(strange, PAGE, scene.stream, &none), WEIR_NOT_SUPPORTED);
    assert_null(none);
    capture_work(&scene, p);
    graph_exec exec = end(&scene);
    for (int i = 0; i < TIMES; i++) launch(&scene, exec);
    destroy_graph(exec);
    OK(weir_pool_free(far, alloc(far, 4 * PAGE, scene.other), scene.other));
    close_pool(far);
    close_pool(strange);
    close_scene(&scene);
}

static void touch_nothing_under_all(CUstreamCaptureMode mode) {
    touch_nothing(mode, WEIR_POLICY_LATENCY);
    touch_nothing(mode, WEIR_POLICY_FOOTPRINT);
    touch_nothing(mode, WEIR_POLICY_PER_STREAM);
}

static void pools_without_a_part_in_it_touch_no_capture(void **state) {
    (void)state;
    with_capture_modes(touch_nothing_under_all);
}

static void stay_whole_unannounced(CUstreamCaptureMode mode) {
    struct scene scene = open_scene(PAGES);
    void *early[MANY], *none = &scene;
    for (int i = 0; i < MANY; i++) early[i] = alloc(scene.pool, 512, scene.stream);
    work_before(scene.pool, scene.stream);
    begin_capture(scene.stream, mode);
    for (int i = 0; i < MANY; i++) {
        OK(weir_pool_free(scene.pool, early[i], scene.stream));
        if (i == 0) OK(weir_pool_trim(scene.pool, 0)); /* it looks at streams */
    }
    assert_int_equal(weir_pool_alloc(scene.pool, PAGE, scene.stream, &none), WEIR_NOT_SUPPORTED);
    work_beside(scene.pool, scene.other);
    set(scene.result, 5, SMALL, scene.stream);
    destroy_graph(end_capture(scene.stream));
    close_scene(&scene);
}

static void a_capture_that_nobody_announced_stays_whole(void **state) {
    (void)state;
    with_capture_modes(stay_whole_unannounced);
}

static void memory_is_reused_in_one_capture_on_one_stream_alone(void **state) {
    (void)state;
    struct scene scene = open_scene(PAGES);
    begin(&scene, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(weir_pool_capture_begin(scene.pool, scene.graph, scene.other)); /* it would join by a wait */
    void *first = alloc(scene.pool, 2 * PAGE, scene.stream);
    OK(weir_pool_free(scene.pool, first, scene.stream));
    void *elsewhere = alloc(scene.pool, 2 * PAGE, scene.other);
    assert_true(lie_apart(first, 2 * PAGE, elsewhere, 2 * PAGE));
    assert_ptr_equal(alloc(scene.pool, 2 * PAGE, scene.stream), first);
    OK(weir_pool_free(scene.pool, first, scene.stream));
    destroy_graph(end(&scene));
    OK(weir_pool_free(scene.pool, elsewhere,
                      scene.stream)); /* by any pool of the family, on any stream, after the end */
    begin(&scene, CU_STREAM_CAPTURE_MODE_GLOBAL);
    void *second = alloc(scene.pool, 2 * PAGE, scene.stream);
    assert_true(lie_apart(second, 2 * PAGE, first, 2 * PAGE) && lie_apart(second, 2 * PAGE, elsewhere, 2 * PAGE));
    destroy_graph(end(&scene));
    close_scene(&scene);
}

static void what_makes_no_sense_leaves_the_capture_intact(void **state) {
    (void)state;
    struct scene scene = open_scene(PAGES);
    void *none = &scene;
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    OK(weir_event_record(test_device(), event, scene.other));
    begin_capture(scene.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(weir_pool_alloc(scene.pool, PAGE, scene.stream, &none), WEIR_NOT_SUPPORTED);
    assert_null(none);
    assert_non_null(strstr(weir_last_error()->message, "weir_pool_capture_begin"));
    assert_int_equal(weir_pool_alloc(scene.graph, PAGE, scene.other, &none), WEIR_NOT_SUPPORTED);
    assert_true(captures_well(scene.stream));
    OK(weir_pool_capture_begin(scene.pool, scene.graph, scene.stream)); /* after the driver's begin does as well */
    void *block = alloc(scene.pool, PAGE, scene.stream);
    assert_int_equal(weir_pool_free_after(scene.pool, block, event), WEIR_NOT_SUPPORTED);
    assert_int_equal(weir_pool_capture_begin(scene.pool, scene.graph, scene.stream), WEIR_INVALID);
    assert_int_equal(weir_pool_capture_begin(scene.pool, scene.pool, scene.other), WEIR_INVALID);
    assert_int_equal(weir_pool_capture_begin(scene.pool, scene.graph, NULL), WEIR_NOT_SUPPORTED);
    assert_int_equal(weir_pool_capture_end(scene.pool, scene.graph), WEIR_INVALID); /* it goes on */
    weir_pool_destroy(scene.graph);                                                 /* says that it can't be */
    assert_int_equal(weir_last_error()->status, WEIR_INVALID);
    OK(weir_pool_free(scene.pool, block, scene.stream));
    assert_int_equal(weir_pool_free(scene.pool, block, scene.stream), WEIR_INVALID);
    destroy_graph(end(&scene));
    assert_int_equal(weir_pool_capture_end(scene.pool, scene.graph), WEIR_INVALID);
    OK(weir_event_destroy(test_device(), event));
    close_scene(&scene);
}

/* ---- another thread --------------------------------------------------------------------------------------------- */

struct eager {
    const struct scene *scene;
    weir_stream stream;
    bool over;
    unsigned rounds;
};

static void *allocate(void *argument) {
    struct eager *eager = argument;
    while (!__atomic_load_n(&eager->over, __ATOMIC_ACQUIRE)) {
        void *blocks[3];
        for (int i = 0; i < 3; i++) blocks[i] = alloc(eager->scene->pool, (size_t)(i + 1) * 3 * PAGE, eager->stream);
        for (int i = 0; i < 3; i++) {
            set(blocks[i], 7, PAGE, eager->stream);
            OK(weir_pool_free(eager->scene->pool, blocks[i], eager->stream));
        }
        OK(weir_pool_trim(eager->scene->pool, 0));
        __atomic_fetch_add(&eager->rounds, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void allocate_meanwhile(CUstreamCaptureMode mode) {
    struct scene scene = open_scene(PAGES);
    struct eager eager = {.scene = &scene, .stream = new_stream()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate, &eager), 0);
    for (unsigned i = 0; i < 20; i++) {
        void *p[2];
        begin(&scene, mode);
        const unsigned rounds = __atomic_load_n(&eager.rounds, __ATOMIC_ACQUIRE);
        capture_work(&scene, p);
        while (__atomic_load_n(&eager.rounds, __ATOMIC_ACQUIRE) < rounds + 2) sched_yield();
        destroy_graph(end(&scene));
        OK(weir_pool_check(scene.graph));
        close_pool(scene.graph);
        scene.graph = open_graph_pool(scene.pool);
    }
    __atomic_store_n(&eager.over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    close_scene(&scene);
    OK(weir_stream_destroy(test_device(), eager.stream));
}

static void another_thread_allocates_meanwhile(void **state) {
    (void)state;
    with_capture_modes(allocate_meanwhile);
}

/* One is small: it would be one with its neighbours, and hold them back. */
static void what_waits_for_a_capture_holds_no_neighbour_back(void **state) {
    (void)state;
    enum { PART = 450 };
    struct scene scene = open_scene(2 * PART + 100);
    const size_t bytes[3] = {PART * PAGE, UNKEPT * PAGE, PART * PAGE};
    void *parts[3], *p[2];
    for (int i = 0; i < 3; i++) parts[i] = alloc(scene.pool, bytes[i], scene.other);
    begin(&scene, CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture_work(&scene, p);
    OK(weir_pool_note(scene.pool, parts[1], scene.stream));
    for (int i = 0; i < 3; i++) OK(weir_pool_free(scene.pool, parts[i], scene.other));
    for (int i = 0; i < 3; i += 2) parts[i] = alloc(scene.pool, bytes[i], scene.other);
    graph_exec exec = end(&scene);
    launch(&scene, exec);
    for (int i = 0; i < 3; i += 2) OK(weir_pool_free(scene.pool, parts[i], scene.other));
    void *all = alloc(scene.pool, 2 * PART * PAGE, scene.other); /* they are one when it is over */
    OK(weir_pool_free(scene.pool, all, scene.other));
    destroy_graph(exec);
    close_scene(&scene);
}

static const struct weir__driver *real;
static weir_stream racing; /* a capture of it begins between a look whether it captures and a record */

static CUresult record_in_a_capture(CUevent event, CUstream stream) {
    if (stream == racing && racing != NULL) {
        racing = NULL;
        begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    }
    return real->event_record(event, stream);
}

static void a_capture_that_begins_before_a_mark_is_recorded_stays_whole(void **state) {
    (void)state;
    struct scene scene = open_scene(PAGES);
    real = test_device()->driver;
    struct weir__driver late = *real;
    late.event_record = record_in_a_capture;
    racing = scene.stream;
    test_device()->driver = &late;
    for (int i = 0; racing != NULL && i < 4 * MANY; i++)
        OK(weir_pool_free(scene.pool, alloc(scene.pool, UNKEPT * PAGE, scene.stream), scene.stream));
    test_device()->driver = real;
    assert_null(racing);
    work_beside(scene.pool, scene.other);
    assert_true(captures_well(scene.stream));
    destroy_graph(end_capture(scene.stream));
    close_scene(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_streams_go_on_beside_a_capture),
        cmocka_unit_test(what_was_freed_on_the_legacy_stream_is_waited_for_in_a_capture),
        cmocka_unit_test(what_is_freed_meanwhile_waits_for_the_end),
        cmocka_unit_test(what_was_freed_before_can_be_waited_for),
        cmocka_unit_test(nothing_is_asked_of_the_stream_from_begin_on),
        cmocka_unit_test(pools_without_a_part_in_it_touch_no_capture),
        cmocka_unit_test(a_capture_that_nobody_announced_stays_whole),
        cmocka_unit_test(memory_is_reused_in_one_capture_on_one_stream_alone),
        cmocka_unit_test(what_makes_no_sense_leaves_the_capture_intact),
        cmocka_unit_test(another_thread_allocates_meanwhile),
        cmocka_unit_test(what_waits_for_a_capture_holds_no_neighbour_back),
        cmocka_unit_test(a_capture_that_begins_before_a_mark_is_recorded_stays_whole),
    };
    return cmocka_run_group_tests_name("capture", tests, load_graphs, NULL);
}
