/* SPDX-License-Identifier: Apache-2.0 */
/* The per-thread default stream: one handle, another stream in each thread. A block that one thread's stream used is not
 * given to another's before it is through, whoever asks, and whether its thread is there or not. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define BYTES (4 * PAGE) /* fills the pool, so that it must be given again */
#define OWN   CU_STREAM_PER_THREAD

/* Runs a step in a thread of its own, which then stays until it is let go: its streams live as long. */
struct thread {
    pthread_t thread;
    sem_t done, go;
    void (*step)(void *);
    void *argument;
};

static void *run_thread(void *argument) {
    struct thread *thread = argument;
    thread->step(thread->argument);
    sem_post(&thread->done);
    sem_wait(&thread->go);
    return NULL;
}

static void start(struct thread *thread, void (*step)(void *), void *argument) {
    thread->step = step;
    thread->argument = argument;
    sem_init(&thread->done, 0, 0);
    sem_init(&thread->go, 0, 0);
    assert_int_equal(pthread_create(&thread->thread, NULL, run_thread, thread), 0);
    sem_wait(&thread->done);
}

static void end(struct thread *thread) {
    sem_post(&thread->go);
    pthread_join(thread->thread, NULL);
    sem_destroy(&thread->done);
    sem_destroy(&thread->go);
}

struct scene {
    struct weir_pool *pool;
    struct gate *gate;
    void *block;
};

static void open_scene(struct scene *scene, enum weir_policy policy, size_t pages) {
    *scene = (struct scene){.pool = open_pool(policy, pages)};
}

/* Takes all of the pool, writes behind a gate, and gives it back. */
static void use_and_free(void *argument) {
    struct scene *scene = argument;
    scene->block = alloc(scene->pool, BYTES, OWN);
    scene->gate = put_gate(OWN);
    queue_fill(OWN, scene->block, BYTES, 0xAA);
    OK(weir_pool_free(scene->pool, scene->block, OWN));
}

/* The new owner writes, too early if nobody made it wait. */
static void take_over(struct scene *scene, weir_stream stream) {
    pass_on(scene->pool, scene->block, BYTES, stream, scene->gate);
    OK(weir_pool_free(scene->pool, scene->block, stream));
}

static void a_thread_has_its_own_memory_at_once(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    void *a = alloc(pool, BYTES, OWN);
    queue_fill(OWN, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, OWN));
    void *b = alloc(pool, BYTES, OWN);
    assert_ptr_equal(a, b);
    queue_fill(OWN, b, BYTES, 0xBB);
    queue_check(OWN, b, BYTES, 0xBB);
    OK(weir_pool_free(pool, b, OWN));
    assert_int_equal(stats_of(pool).order_calls, 0);
    finish_pool(pool);
}

static void another_thread_with_the_same_handle_waits(void **state) {
    (void)state;
    struct scene scene;
    struct thread thread;
    open_scene(&scene, WEIR_POLICY_LATENCY, BYTES / PAGE);
    start(&thread, use_and_free, &scene);
    take_over(&scene, OWN);
    assert_int_equal(stats_of(scene.pool).device_waits, 1);
    assert_int_equal(stats_of(scene.pool).host_waits, 0);
    end(&thread);
    finish_pool(scene.pool);
}

static void another_stream_waits(void **state) {
    (void)state;
    struct scene scene;
    struct thread thread;
    weir_stream stream = new_stream();
    open_scene(&scene, WEIR_POLICY_LATENCY, BYTES / PAGE);
    start(&thread, use_and_free, &scene);
    take_over(&scene, stream);
    end(&thread);
    finish_pool(scene.pool);
    OK(weir_stream_destroy(test_device(), stream));
}

static void what_a_thread_left_behind_is_waited_for(void **state) {
    (void)state;
    struct scene scene;
    struct thread thread;
    open_scene(&scene, WEIR_POLICY_LATENCY, BYTES / PAGE);
    start(&thread, use_and_free, &scene);
    end(&thread);
    take_over(&scene, OWN);
    finish_pool(scene.pool);
}

/* Two halves. */
static void use_and_free_in_two(void *argument) {
    struct scene *scene = argument;
    unsigned char *halves[2] = {alloc(scene->pool, BYTES / 2, OWN), alloc(scene->pool, BYTES / 2, OWN)};
    scene->gate = put_gate(OWN);
    for (int i = 0; i < 2; i++) queue_fill(OWN, halves[i], BYTES / 2, 0xAA);
    for (int i = 0; i < 2; i++) OK(weir_pool_free(scene->pool, halves[i], OWN));
}

static void one_mark_stands_for_all_that_a_thread_left_behind(void **state) {
    (void)state;
    struct scene scene;
    struct thread thread;
    weir_stream streams[2] = {new_stream(), new_stream()};
    open_scene(&scene, WEIR_POLICY_LATENCY, BYTES / PAGE);
    start(&thread, use_and_free_in_two, &scene);
    end(&thread);
    for (int i = 0; i < 2; i++) alloc(scene.pool, BYTES / 2, streams[i]);
    assert_int_equal(stats_of(scene.pool).device_waits, 2);
    assert_int_equal(stats_of(scene.pool).order_calls, 3); /* a record, and a wait each */
    open_gate(scene.gate);
    finish_pool(scene.pool);
    for (int i = 0; i < 2; i++) OK(weir_stream_destroy(test_device(), streams[i]));
}

static void note_and_use(void *argument) {
    struct scene *scene = argument;
    OK(weir_pool_note(scene->pool, scene->block, OWN));
    scene->gate = put_gate(OWN);
    queue_fill(OWN, scene->block, BYTES, 0xAA);
}

static void noted(bool ends) {
    struct scene scene;
    struct thread thread;
    weir_stream stream = new_stream();
    open_scene(&scene, WEIR_POLICY_LATENCY, BYTES / PAGE);
    scene.block = alloc(scene.pool, BYTES, stream);
    start(&thread, note_and_use, &scene);
    if (ends) end(&thread);
    OK(weir_pool_free(scene.pool, scene.block, stream));
    take_over(&scene, stream);
    if (!ends) end(&thread);
    finish_pool(scene.pool);
    OK(weir_stream_destroy(test_device(), stream));
}

static void a_use_noted_by_a_thread_is_waited_for(void **state) {
    (void)state;
    noted(false);
}

static void also_when_the_thread_has_ended_before_the_free(void **state) {
    (void)state;
    noted(true);
}

static void per_stream_keeps_threads_apart(void **state) {
    (void)state;
    struct scene scene;
    struct thread thread;
    open_scene(&scene, WEIR_POLICY_PER_STREAM, 20);
    start(&thread, use_and_free, &scene);
    void *mine = alloc(scene.pool, BYTES, OWN);
    assert_ptr_not_equal(mine, scene.block);
    queue_fill(OWN, mine, BYTES, 0xBB);
    OK(weir_pool_free(scene.pool, mine, OWN));
    open_gate(scene.gate);
    end(&thread);
    finish_pool(scene.pool);
}

/* ---- many ------------------------------------------------------------------------------------------------------- */

static void touch(void *argument) {
    struct weir_pool *pool = argument;
    void *block = alloc(pool, 512, OWN);
    queue_fill(OWN, block, 512, 0xAA);
    OK(weir_pool_free(pool, block, OWN));
}

static void threads_that_ended_are_forgotten(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 512);
    size_t count = 0;
    for (int i = 0; i < 400; i++) {
        struct thread thread;
        start(&thread, touch, pool);
        end(&thread);
        if (i % 16 == 0) OK(weir_device_synchronize(test_device()));
    }
    OK(weir_pool_get_stream_stats(pool, NULL, 0, &count));
    assert_in_range(count, 0, 3 * WEIR__MOST_LOST);
    finish_pool(pool);
}

/* ---- host functions --------------------------------------------------------------------------------------------- */

struct inside {
    struct weir_pool *pool;
    void *block;
    enum weir_status alloc, free, note;
};

static void call_inside(void *argument) {
    struct inside *inside = argument;
    void *out;
    inside->alloc = weir_pool_alloc(inside->pool, 512, OWN, &out);
    inside->free = weir_pool_free(inside->pool, inside->block, OWN);
    inside->note = weir_pool_note(inside->pool, inside->block, OWN);
}

static void a_host_function_has_no_such_stream(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 4);
    struct inside inside = {.pool = pool, .block = alloc(pool, 512, OWN)};
    struct weir_work work = {.name = "inside", .run = call_inside, .argument = &inside};
    OK(weir_device_submit(test_device(), &work, OWN));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(inside.alloc, WEIR_NOT_SUPPORTED);
    assert_int_equal(inside.free, WEIR_NOT_SUPPORTED);
    assert_int_equal(inside.note, WEIR_NOT_SUPPORTED);
    OK(weir_pool_free(pool, inside.block, OWN));
    finish_pool(pool);
}

static void default_streams_can_not_be_destroyed(void **state) {
    (void)state;
    assert_int_equal(weir_stream_destroy(test_device(), NULL), WEIR_INVALID);
    assert_int_equal(weir_stream_destroy(test_device(), CU_STREAM_LEGACY), WEIR_INVALID);
    assert_int_equal(weir_stream_destroy(test_device(), OWN), WEIR_INVALID);
}

static void the_legacy_stream_has_two_names(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    void *a = alloc(pool, BYTES, NULL);
    queue_fill(NULL, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, CU_STREAM_LEGACY));
    assert_ptr_equal(alloc(pool, BYTES, CU_STREAM_LEGACY), a);
    OK(weir_pool_free(pool, a, NULL));
    assert_int_equal(stats_of(pool).order_calls, 0);
    finish_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_has_its_own_memory_at_once),
        cmocka_unit_test(another_thread_with_the_same_handle_waits),
        cmocka_unit_test(another_stream_waits),
        cmocka_unit_test(what_a_thread_left_behind_is_waited_for),
        cmocka_unit_test(one_mark_stands_for_all_that_a_thread_left_behind),
        cmocka_unit_test(a_use_noted_by_a_thread_is_waited_for),
        cmocka_unit_test(also_when_the_thread_has_ended_before_the_free),
        cmocka_unit_test(per_stream_keeps_threads_apart),
        cmocka_unit_test(threads_that_ended_are_forgotten),
        cmocka_unit_test(a_host_function_has_no_such_stream),
        cmocka_unit_test(default_streams_can_not_be_destroyed),
        cmocka_unit_test(the_legacy_stream_has_two_names),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests_name("thread_stream", tests, NULL, NULL);
}
