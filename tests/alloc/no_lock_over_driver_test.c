/* SPDX-License-Identifier: Apache-2.0 */
/* Promise 6: no lock is held across a driver call. One thread is held inside each kind of call; the others allocate and
 * free meanwhile. What the held call claimed is waited for before memory is refused. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum held {
    PAGE_CREATE,
    PAGE_MAP,
    PAGE_UNMAP,
    SET_ACCESS,
    EVENT_RECORD,
    STREAM_WAIT,
    PAGE_RELEASE,
    MEMORY_FREE,
    MEMORY_INFO,
    STREAM_QUERY,
    NONE
};

static const struct weir__driver *real;
static struct weir__driver slow;
static enum held held_call = NONE; /* the call whose next turn is held, then NONE again */
static bool reached, opened, destroyed_while_held;
static CUresult held_result; /* what the held call answers when it is let go; CUDA_SUCCESS: what the driver says */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Gives: the code to fail with, or CUDA_SUCCESS to go on. */
static CUresult hold(enum held call) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (held_call == call) {
        held_call = NONE;
        reached = true;
        pthread_cond_broadcast(&changed);
        while (!opened) pthread_cond_wait(&changed, &lock);
        result = held_result;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

#define SLOW(name, call, parameters, arguments)                                                                        \
    static CUresult slow_##name parameters {                                                                           \
        CUresult result = hold(call);                                                                                  \
        return result != CUDA_SUCCESS ? result : real->name arguments;                                                 \
    }
SLOW(page_create, PAGE_CREATE,
     (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,
      unsigned long long flags),
     (handle, bytes, properties, flags))
SLOW(page_map, PAGE_MAP,
     (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),
     (address, bytes, offset, handle, flags))
SLOW(page_unmap, PAGE_UNMAP, (CUdeviceptr address, size_t bytes), (address, bytes))
SLOW(page_set_access, SET_ACCESS, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count),
     (address, bytes, access, count))
SLOW(page_release, PAGE_RELEASE, (CUmemGenericAllocationHandle handle), (handle))
SLOW(memory_free, MEMORY_FREE, (CUdeviceptr address), (address))
SLOW(memory_info, MEMORY_INFO, (size_t * free_bytes, size_t *total_bytes), (free_bytes, total_bytes))
SLOW(stream_query, STREAM_QUERY, (CUstream stream), (stream))
SLOW(event_record, EVENT_RECORD, (CUevent event, CUstream stream), (event, stream))
SLOW(stream_wait, STREAM_WAIT, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))

static CUresult watched_stream_destroy(CUstream stream) {
    pthread_mutex_lock(&lock);
    destroyed_while_held = reached && !opened;
    pthread_mutex_unlock(&lock);
    return real->stream_destroy(stream);
}

static void use_slow_driver(void) {
    real = test_device()->driver;
    slow = *real;
    slow.page_create = slow_page_create;
    slow.page_map = slow_page_map;
    slow.page_unmap = slow_page_unmap;
    slow.page_set_access = slow_page_set_access;
    slow.page_release = slow_page_release;
    slow.memory_free = slow_memory_free;
    slow.memory_info = slow_memory_info;
    slow.stream_query = slow_stream_query;
    slow.event_record = slow_event_record;
    slow.stream_wait = slow_stream_wait;
    slow.stream_destroy = watched_stream_destroy;
    test_device()->driver = &slow;
}

static void use_real_driver(void) { test_device()->driver = real; }

/* ---- a thread that is held ----------------------------------------------------------------------------------------- */

struct request {
    struct weir_pool *pool;
    bool trim; /* give everything back instead */
    size_t bytes;
    weir_stream stream;
    void *block;
    enum weir_status status;
    bool started, ended;
};

static void *make_request(void *argument) {
    struct request *request = argument;
    __atomic_store_n(&request->started, true, __ATOMIC_RELEASE);
    request->status = request->trim ? weir_pool_trim(request->pool, 0)
                                    : weir_pool_alloc(request->pool, request->bytes, request->stream, &request->block);
    __atomic_store_n(&request->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static pthread_t start_held(struct request *request, enum held call, CUresult result) {
    pthread_t thread;
    held_call = call;
    held_result = result;
    reached = opened = false;
    assert_int_equal(pthread_create(&thread, NULL, make_request, request), 0);
    pthread_mutex_lock(&lock);
    while (!reached) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return thread;
}

static void let_go(pthread_t thread) {
    pthread_mutex_lock(&lock);
    opened = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

/* A pool of 12 pages: 4 single ones idle between used ones on s1, and a run of 2 idle on s0; 2 untaken. */
struct scene {
    struct weir_pool *pool;
    weir_stream s0, s1;
};

static struct scene open_scene(void) {
    struct scene scene = {.pool = open_pool(WEIR_POLICY_LATENCY, 12), .s0 = new_stream(), .s1 = new_stream()};
    void *holes[4];
    for (int i = 0; i < 4; i++) {
        holes[i] = alloc(scene.pool, PAGE, scene.s1);
        alloc(scene.pool, PAGE, scene.s1);
    }
    void *run = alloc(scene.pool, 2 * PAGE, scene.s0);
    for (int i = 0; i < 4; i++) OK(weir_pool_free(scene.pool, holes[i], scene.s1));
    OK(weir_pool_free(scene.pool, run, scene.s0));
    return scene;
}

static void other_threads_go_on_while_one_is_held(enum held call, size_t bytes, bool gated) {
    struct scene scene = open_scene();
    struct gate *gate = gated ? put_gate(scene.s1) : NULL;
    if (!gated) OK(weir_device_synchronize(test_device()));
    if (call == EVENT_RECORD || call == STREAM_WAIT) { /* take the untaken pages, so that only a wait is left */
        alloc(scene.pool, 2 * PAGE, scene.s0);
        alloc(scene.pool, 2 * PAGE, scene.s0);
    }
    use_slow_driver();
    struct request request = {.pool = scene.pool, .bytes = bytes, .stream = scene.s0};
    pthread_t thread = start_held(&request, call, CUDA_SUCCESS);
    for (int i = 0; i < 4; i++) { /* a lock held by the other thread would stop this for good */
        void *block = alloc(scene.pool, 512, scene.s1);
        OK(weir_pool_free(scene.pool, block, scene.s1));
        OK(weir_pool_check(scene.pool));
    }
    let_go(thread);
    use_real_driver();
    OK(request.status);
    if (gate != NULL) open_gate(gate);
    close_pool(scene.pool);
}

static void creating_and_mapping_pages_holds_no_lock(void **state) {
    (void)state;
    other_threads_go_on_while_one_is_held(PAGE_CREATE, 3 * PAGE, false);
    other_threads_go_on_while_one_is_held(PAGE_MAP, 3 * PAGE, false);
    other_threads_go_on_while_one_is_held(SET_ACCESS, 3 * PAGE, false);
}

/* A refusal asks what is free on the device; others go on, and are refused too, meanwhile. */
static void being_refused_holds_no_lock(void **state) {
    (void)state;
    struct scene scene = open_scene();
    OK(weir_device_synchronize(test_device()));
    use_slow_driver();
    struct request request = {.pool = scene.pool, .bytes = 11 * PAGE, .stream = scene.s0};
    pthread_t thread = start_held(&request, MEMORY_INFO, CUDA_SUCCESS);
    void *none = NULL;
    OK(weir_pool_free(scene.pool, alloc(scene.pool, 512, scene.s1), scene.s1));
    assert_int_equal(weir_pool_alloc(scene.pool, 12 * PAGE, scene.s1, &none), WEIR_OUT_OF_MEMORY);
    assert_true(weir_pool_report(scene.pool, NULL, 0) > 0);
    OK(weir_pool_check(scene.pool));
    let_go(thread);
    use_real_driver();
    assert_int_equal(request.status, WEIR_OUT_OF_MEMORY);
    assert_int_equal(stats_of(scene.pool).out_of_memory, 2);
    close_pool(scene.pool);
}

static void moving_pages_holds_no_lock(void **state) {
    (void)state;
    other_threads_go_on_while_one_is_held(PAGE_MAP, 6 * PAGE, false);
    other_threads_go_on_while_one_is_held(SET_ACCESS, 6 * PAGE, true);
}

static void waiting_for_another_stream_holds_no_lock(void **state) {
    (void)state;
    other_threads_go_on_while_one_is_held(EVENT_RECORD, PAGE, true);
    other_threads_go_on_while_one_is_held(STREAM_WAIT, PAGE, true);
}

static void a_request_about_to_fail_waits_for_what_others_have_claimed(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    struct request first = {.pool = pool, .bytes = 8 * PAGE, .stream = new_stream()};
    struct request second = {.pool = pool, .bytes = 4 * PAGE, .stream = new_stream()};
    use_slow_driver();
    pthread_t one = start_held(&first, SET_ACCESS, CUDA_ERROR_UNKNOWN), two;
    assert_int_equal(pthread_create(&two, NULL, make_request, &second), 0);
    while (!__atomic_load_n(&second.started, __ATOMIC_ACQUIRE)) sched_yield();
    for (int i = 0; i < 100 && !__atomic_load_n(&second.ended, __ATOMIC_ACQUIRE); i++) sched_yield();
    assert_false(second.ended); /* all pages are claimed; it must not have been refused */
    let_go(one);
    pthread_join(two, NULL);
    use_real_driver();
    assert_int_equal(first.status, WEIR_DRIVER);
    OK(second.status);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    close_pool(pool);
}

/* What a call that gives memory back has in hand is no lost memory, neither for the walk nor for a request. */
static void what_is_being_given_back_is_waited_for(enum weir_policy policy, enum held call) {
    struct weir_pool *pool = open_pool(policy, 8);
    weir_stream stream = new_stream();
    OK(weir_pool_free(pool, alloc(pool, 8 * PAGE, stream), stream));
    OK(weir_device_synchronize(test_device()));
    struct request first = {.pool = pool, .trim = true};
    struct request second = {.pool = pool, .bytes = 8 * PAGE, .stream = new_stream()};
    use_slow_driver();
    pthread_t one = start_held(&first, call, CUDA_SUCCESS), two;
    OK(weir_pool_check(pool));
    assert_int_equal(pthread_create(&two, NULL, make_request, &second), 0);
    while (!__atomic_load_n(&second.started, __ATOMIC_ACQUIRE)) sched_yield();
    for (int i = 0; i < 100 && !__atomic_load_n(&second.ended, __ATOMIC_ACQUIRE); i++) sched_yield();
    assert_false(second.ended);
    let_go(one);
    pthread_join(two, NULL);
    use_real_driver();
    OK(first.status);
    OK(second.status);
    close_pool(pool);
}

static void giving_memory_back_holds_no_lock(void **state) {
    (void)state;
    what_is_being_given_back_is_waited_for(WEIR_POLICY_LATENCY, PAGE_UNMAP);
    what_is_being_given_back_is_waited_for(WEIR_POLICY_LATENCY, PAGE_RELEASE);
    what_is_being_given_back_is_waited_for(WEIR_POLICY_PER_STREAM, MEMORY_FREE);
}

/* By name: a later stream may have an earlier one's handle. */
static size_t idle_bytes_of(struct weir_pool *pool, const char *name) {
    struct weir_stream_stats stats[8] = {{.size = sizeof *stats}};
    size_t count;
    OK(weir_pool_get_stream_stats(pool, stats, 8, &count));
    for (size_t i = 0; i < count && i < 8; i++)
        if (strcmp(stats[i].name, name) == 0) return stats[i].idle_bytes;
    fail_msg("no stream is called %s", name);
    return 0;
}

/* The stream is destroyed while its segment is on its way to the driver, which then does not take it. */
static void a_segment_that_comes_back_is_not_another_streams(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 32);
    weir_stream stream = new_stream();
    OK(weir_pool_free(pool, alloc(pool, 8 * PAGE, stream), stream));
    OK(weir_device_synchronize(test_device()));
    struct request trim = {.pool = pool, .trim = true};
    use_slow_driver();
    pthread_t thread = start_held(&trim, MEMORY_FREE, CUDA_ERROR_UNKNOWN);
    OK(weir_stream_destroy(test_device(), stream));
    weir_stream other = new_stream();
    alloc(pool, 6 * PAGE, other);
    weir_pool_name_stream(pool, other, "later");
    let_go(thread);
    use_real_driver();
    assert_int_equal(trim.status, WEIR_DRIVER);
    assert_int_equal(idle_bytes_of(pool, "later"), 0);
    close_pool(pool);
}

static void *destroy_stream(void *argument) {
    struct request *request = argument;
    request->status = weir_stream_destroy(test_device(), request->stream);
    __atomic_store_n(&request->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

/* The one stream is asked for a mark by a request on the other; its owner destroys it meanwhile. */
static void a_stream_is_not_destroyed_while_another_thread_records_on_it(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    struct request request = {.pool = pool, .bytes = 8 * PAGE, .stream = new_stream()};
    struct request destroy = {.pool = pool, .stream = new_stream()};
    void *old = alloc(pool, 8 * PAGE, destroy.stream);
    struct gate *gate = put_gate(destroy.stream);
    OK(weir_pool_free(pool, old, destroy.stream));
    use_slow_driver();
    pthread_t one = start_held(&request, EVENT_RECORD, CUDA_SUCCESS), two;
    assert_int_equal(pthread_create(&two, NULL, destroy_stream, &destroy), 0);
    for (int i = 0; i < 20000 && !__atomic_load_n(&destroy.ended, __ATOMIC_ACQUIRE); i++) sched_yield();
    let_go(one);
    pthread_join(two, NULL);
    use_real_driver();
    OK(request.status);
    OK(destroy.status);
    assert_false(destroyed_while_held);
    assert_ptr_equal(request.block, old);
    assert_int_equal(stats_of(pool).device_waits, 1);
    open_gate(gate);
    close_pool(pool);
}

struct begin {
    struct weir_pool *pool, *graph;
    weir_stream stream;
    enum weir_status status;
    bool ended, too_early;
};

static void *begin_capture(void *argument) {
    struct begin *begin = argument;
    begin->status = weir_pool_capture_begin(begin->pool, begin->graph, begin->stream);
    pthread_mutex_lock(&lock);
    begin->too_early = !opened;
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&begin->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Another thread records on the stream, or asks it, and took it for one that is not captured; for a request on the same pool,
 * or on one that has no part in the capture. */
static void begin_while_one_is_held(enum held call, bool by_stranger) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8), *graph = NULL;
    struct weir_pool *asked = by_stranger ? open_pool(WEIR_POLICY_LATENCY, 8) : pool;
    struct weir_sub_pool_options options = {.size = sizeof options, .graph = true};
    OK(weir_pool_create_sub(pool, &options, &graph));
    struct request request = {.pool = asked, .bytes = 8 * PAGE, .stream = new_stream()};
    struct begin begin = {.pool = pool, .graph = graph, .stream = new_stream()};
    void *old = alloc(asked, 8 * PAGE, begin.stream);
    struct gate *gate = put_gate(begin.stream);
    OK(weir_pool_free(asked, old, begin.stream));
    use_slow_driver();
    pthread_t one = start_held(&request, call, CUDA_SUCCESS), two;
    assert_int_equal(pthread_create(&two, NULL, begin_capture, &begin), 0);
    for (int i = 0; i < 20000 && !__atomic_load_n(&begin.ended, __ATOMIC_ACQUIRE); i++) sched_yield();
    let_go(one);
    pthread_join(two, NULL);
    use_real_driver();
    if (!by_stranger) OK(request.status); /* else it may come too late for a mark */
    OK(begin.status);
    assert_false(begin.too_early);
    OK(weir_pool_capture_end(pool, graph));
    open_gate(gate);
    close_pool(graph);
    if (by_stranger) close_pool(asked);
    close_pool(pool);
}

static void a_capture_begins_when_no_other_thread_touches_the_stream(void **state) {
    (void)state;
    begin_while_one_is_held(EVENT_RECORD, false);
    begin_while_one_is_held(STREAM_QUERY, false);
    begin_while_one_is_held(STREAM_QUERY, true);
}

static void *grow_block(void *argument) {
    struct request *request = argument;
    request->status = weir_pool_resize(request->pool, request->block, request->bytes, request->stream);
    return NULL;
}

/* A program that frees a block while it grows is wrong; the pool is not, and has what was to be its new part. */
static void a_block_that_goes_while_it_grows_is_no_block(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 8);
    struct request grow = {.pool = pool, .bytes = 8 * PAGE, .stream = new_stream()};
    grow.block = alloc(pool, PAGE, grow.stream);
    pthread_t thread;
    use_slow_driver();
    held_call = PAGE_MAP;
    held_result = CUDA_SUCCESS;
    reached = opened = false;
    assert_int_equal(pthread_create(&thread, NULL, grow_block, &grow), 0);
    pthread_mutex_lock(&lock);
    while (!reached) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    OK(weir_pool_free(pool, grow.block, grow.stream));
    void *other = alloc(pool, 512, grow.stream);
    let_go(thread);
    use_real_driver();
    assert_int_equal(grow.status, WEIR_INVALID);
    OK(weir_pool_check(pool));
    OK(weir_pool_free(pool, other, grow.stream));
    OK(weir_pool_free(pool, alloc(pool, 8 * PAGE, grow.stream), grow.stream));
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creating_and_mapping_pages_holds_no_lock),
        cmocka_unit_test(being_refused_holds_no_lock),
        cmocka_unit_test(moving_pages_holds_no_lock),
        cmocka_unit_test(waiting_for_another_stream_holds_no_lock),
        cmocka_unit_test(a_request_about_to_fail_waits_for_what_others_have_claimed),
        cmocka_unit_test(giving_memory_back_holds_no_lock),
        cmocka_unit_test(a_segment_that_comes_back_is_not_another_streams),
        cmocka_unit_test(a_stream_is_not_destroyed_while_another_thread_records_on_it),
        cmocka_unit_test(a_block_that_goes_while_it_grows_is_no_block),
        cmocka_unit_test(a_capture_begins_when_no_other_thread_touches_the_stream),
    };
    return cmocka_run_group_tests_name("no_lock_over_driver", tests, NULL, NULL);
}
