/* SPDX-License-Identifier: Apache-2.0 */
/* Promise 1: a block is never given to a stream that is not ordered after all its tags, or made to wait for them. One
 * test a way in which memory changes hands; each holds the old user back with a gate, lets the new one write, and looks
 * whose bytes are there at the end. mutation_test shows that each fails when its wait is taken out. */
#include <pthread.h>
#include <stdlib.h>

#include "support.h"

#define BYTES (4 * PAGE) /* the block that changes hands fills the pool, so that it must be given again */

struct scene {
    struct weir_pool *pool;
    weir_stream s0, s1;
    unsigned fills;
};

static struct scene open_scene(enum weir_policy policy, size_t pages) {
    return (struct scene){
        .pool = open_pool(policy, pages), .s0 = new_stream(), .s1 = new_stream(), .fills = fills_run()};
}

static void close_scene(struct scene *scene) {
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(scene->pool);
    OK(weir_stream_destroy(test_device(), scene->s0));
    OK(weir_stream_destroy(test_device(), scene->s1));
}

/* The new owner writes 0xBB on `stream`; the old user, behind the gate, 0xAA before. */
static void new_owner_writes(struct scene *scene, void *block, weir_stream stream, struct gate *gate) {
    queue_fill(stream, block, BYTES, 0xBB);
    let_mutant_run(scene->fills + 1);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    queue_check(stream, block, BYTES, 0xBB);
}

static void another_stream_waits_for_the_stream_that_freed(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_LATENCY, BYTES / PAGE);
    void *a = alloc(scene.pool, BYTES, scene.s1);
    struct gate *gate = put_gate(scene.s1);
    queue_fill(scene.s1, a, BYTES, 0xAA);
    OK(weir_pool_free(scene.pool, a, scene.s1));
    void *b = alloc(scene.pool, BYTES, scene.s0);
    assert_ptr_equal(a, b);
    assert_int_equal(stats_of(scene.pool).device_waits, 1);
    new_owner_writes(&scene, b, scene.s0, gate);
    close_scene(&scene);
}

static void the_allocating_stream_waits_for_a_noted_one(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_LATENCY, BYTES / PAGE);
    void *a = alloc(scene.pool, BYTES, scene.s0);
    OK(weir_pool_note(scene.pool, a, scene.s1));
    struct gate *gate = put_gate(scene.s1);
    queue_fill(scene.s1, a, BYTES, 0xAA); /* after the note: the position is taken at the free */
    OK(weir_pool_free(scene.pool, a, scene.s0));
    void *b = alloc(scene.pool, BYTES, scene.s0);
    assert_ptr_equal(a, b);
    new_owner_writes(&scene, b, scene.s0, gate);
    close_scene(&scene);
}

static void the_allocating_stream_waits_for_the_stream_named_in_the_free(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_FOOTPRINT, BYTES / PAGE);
    void *a = alloc(scene.pool, BYTES, scene.s0);
    struct gate *gate = put_gate(scene.s1);
    queue_fill(scene.s1, a, BYTES, 0xAA);
    OK(weir_pool_free(scene.pool, a, scene.s1));
    void *b = alloc(scene.pool, BYTES, scene.s0);
    assert_ptr_equal(a, b);
    new_owner_writes(&scene, b, scene.s0, gate);
    close_scene(&scene);
}

static void a_block_freed_after_an_event_waits_for_it(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    void *a = alloc(scene.pool, BYTES, scene.s0);
    struct gate *gate = put_gate(scene.s1);
    queue_fill(scene.s1, a, BYTES, 0xAA);
    OK(weir_event_record(test_device(), event, scene.s1));
    OK(weir_pool_free_after(scene.pool, a, event));
    OK(weir_event_record(test_device(), event, scene.s0)); /* recorded again right after, elsewhere */
    void *b = alloc(scene.pool, BYTES, scene.s0);
    assert_ptr_equal(a, b);
    new_owner_writes(&scene, b, scene.s0, gate);
    close_scene(&scene);
    OK(weir_event_destroy(test_device(), event));
}

/* The driver may give the handle of a destroyed stream to a new one. */
static void a_new_stream_with_the_handle_of_a_destroyed_one_waits_for_it(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream old = new_stream(), fresh[64];
    void *a = alloc(scene.pool, BYTES, old);
    struct gate *gate = put_gate(old);
    queue_fill(old, a, BYTES, 0xAA);
    OK(weir_pool_free(scene.pool, a, old));
    OK(weir_stream_destroy(test_device(), old));
    size_t count = 0;
    do fresh[count] = new_stream();
    while (fresh[count++] != old && count < 64);
    void *b = alloc(scene.pool, BYTES, fresh[count - 1]);
    assert_ptr_equal(a, b);
    new_owner_writes(&scene, b, fresh[count - 1], gate);
    OK(weir_device_synchronize(test_device()));
    while (count > 0) OK(weir_stream_destroy(test_device(), fresh[--count]));
    close_scene(&scene);
}

/* ---- moves: a page keeps the mappings that work in flight goes through -------------------------------------------- */

#define HOLES 4

/* Hole, post, hole, post: no two holes are neighbours. The holes are free, behind the gate. */
static struct gate *free_holes(struct scene *scene, void *posts[HOLES]) {
    void *holes[HOLES];
    for (int i = 0; i < HOLES; i++) {
        holes[i] = alloc(scene->pool, PAGE, scene->s1);
        posts[i] = alloc(scene->pool, PAGE, scene->s1);
    }
    OK(weir_stream_synchronize(test_device(), scene->s1));
    struct gate *gate = put_gate(scene->s1);
    for (int i = 0; i < HOLES; i++) {
        queue_fill(scene->s1, holes[i], PAGE, 0xAA);
        OK(weir_pool_free(scene->pool, holes[i], scene->s1));
    }
    return gate;
}

static void moved_pages_are_used_only_after_their_last_use(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_LATENCY, 9);
    void *posts[HOLES];
    struct gate *gate = free_holes(&scene, posts);
    void *b = alloc(scene.pool, BYTES, scene.s0);
    assert_int_equal(stats_of(scene.pool).host_waits, 0);
    assert_true(stats_of(scene.pool).pages_moved >= 3);
    new_owner_writes(&scene, b, scene.s0, gate);
    for (int i = 0; i < HOLES; i++) OK(weir_pool_free(scene.pool, posts[i], scene.s1));
    close_scene(&scene);
}

struct opener {
    struct weir_pool *pool;
    struct gate *gate;
};

/* Opens the gate once the pool waits. */
static void *open_when_waiting(void *argument) {
    struct opener *opener = argument;
    uint64_t until_ns = now_ns() + 1000000000u;
    while (stats_of(opener->pool).host_waits == 0 && now_ns() < until_ns) {
    }
    open_gate(opener->gate);
    return NULL;
}

static void a_page_across_two_idle_blocks_is_moved_only_once_both_are_complete(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_LATENCY, HALVES_PAGES);
    weir_stream s2 = new_stream();
    struct halves halves = make_halves(scene.pool, scene.s1, s2);
    struct gate *gate = put_gate(scene.s1);
    queue_fill(scene.s1, halves.first, HALF_BYTES, 0xAA);
    OK(weir_pool_free(scene.pool, halves.first, scene.s1));
    OK(weir_pool_free(scene.pool, halves.second, s2));
    struct opener opener = {.pool = scene.pool, .gate = gate};
    pthread_t thread;
    if (!is_mutant()) assert_int_equal(pthread_create(&thread, NULL, open_when_waiting, &opener), 0);
    void *b = alloc(scene.pool, HALVES_ASKED * PAGE, scene.s0);
    queue_fill(scene.s0, b, HALVES_ASKED * PAGE, 0xBB);
    if (is_mutant()) {
        let_mutant_run(scene.fills + 1);
        open_gate(gate);
        OK(weir_device_synchronize(test_device()));
    } else {
        pthread_join(thread, NULL);
    }
    assert_int_equal(stats_of(scene.pool).pages_moved, 3);
    queue_check(scene.s0, b, HALVES_ASKED * PAGE, 0xBB);
    close_scene(&scene);
    OK(weir_stream_destroy(test_device(), s2));
}

/* Between two idle blocks lies a page's old place, through which work in flight still writes. The shortest way to a block
 * over all three is to unmap it; then the work's bytes would go to whatever is mapped there next. */
static void an_old_place_is_unmapped_only_once_its_work_is_complete(void **state) {
    (void)state;
    struct scene scene = open_scene(WEIR_POLICY_LATENCY, 6);
    weir_stream s2 = new_stream();
    void *before = alloc(scene.pool, PAGE, scene.s0), *a = alloc(scene.pool, PAGE, scene.s1);
    void *behind = alloc(scene.pool, 3 * PAGE, scene.s0);
    assert_ptr_equal(behind, (char *)a + PAGE);
    struct gate *gate = put_gate(scene.s1);
    queue_fill(scene.s1, a, PAGE, 0xAA);
    OK(weir_pool_free(scene.pool, a, scene.s1));
    void *b = alloc(scene.pool, 2 * PAGE, s2); /* one page is new, the other one was a's */
    assert_int_equal(stats_of(scene.pool).pages_moved, 1);
    OK(weir_pool_free(scene.pool, before, scene.s0));
    OK(weir_pool_free(scene.pool, behind, scene.s0));
    void *c = alloc(scene.pool, BYTES, scene.s0);
    assert_int_equal(stats_of(scene.pool).host_waits, 0);
    queue_fill(s2, b, 2 * PAGE, 0xCC);
    new_owner_writes(&scene, c, scene.s0, gate);
    queue_check(s2, b, 2 * PAGE, 0xCC);
    close_scene(&scene);
    OK(weir_stream_destroy(test_device(), s2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_stream_waits_for_the_stream_that_freed),
        cmocka_unit_test(the_allocating_stream_waits_for_a_noted_one),
        cmocka_unit_test(the_allocating_stream_waits_for_the_stream_named_in_the_free),
        cmocka_unit_test(a_block_freed_after_an_event_waits_for_it),
        cmocka_unit_test(a_new_stream_with_the_handle_of_a_destroyed_one_waits_for_it),
        cmocka_unit_test(moved_pages_are_used_only_after_their_last_use),
        cmocka_unit_test(a_page_across_two_idle_blocks_is_moved_only_once_both_are_complete),
        cmocka_unit_test(an_old_place_is_unmapped_only_once_its_work_is_complete),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests_name("order_promise", tests, NULL, NULL);
}
