/* SPDX-License-Identifier: Apache-2.0 */
/* What the program's own events tell of order chooses between idle memory of other streams, and is never relied on. */
#include <stdlib.h>

#include "alloc/heard.h"
#include "support.h"

/* ---- the clocks --------------------------------------------------------------------------------------------------- */

static weir_event handle(uintptr_t number) { return (weir_event)number; }

static void a_wait_comes_after_what_the_record_came_after(void **state) {
    (void)state;
    struct weir__heard heard = {0};
    weir__heard_record(&heard, 1, handle(1), 10);
    assert_false(weir__heard_before(&heard, 1, 10, 2));
    weir__heard_wait(&heard, 2, handle(1));
    assert_true(weir__heard_before(&heard, 1, 10, 2));
    assert_false(weir__heard_before(&heard, 1, 11, 2));
    weir__heard_record(&heard, 2, handle(2), 20); /* and so on, from stream to stream */
    weir__heard_wait(&heard, 3, handle(2));
    assert_true(weir__heard_before(&heard, 1, 10, 3));
    assert_true(weir__heard_before(&heard, 2, 20, 3));
    weir__heard_record(&heard, 1, handle(1), 30); /* anew, after the wait */
    assert_false(weir__heard_before(&heard, 1, 30, 2));
    weir__heard_clear(&heard);
}

static void nothing_is_heard_of_events_that_are_gone_and_of_many_streams(void **state) {
    (void)state;
    struct weir__heard heard = {0};
    weir__heard_record(&heard, 1, handle(1), 10);
    weir__heard_forget(&heard, handle(1));
    weir__heard_wait(&heard, 2, handle(1));
    assert_false(weir__heard_before(&heard, 1, 1, 2));
    weir__heard_record(&heard, 1, handle(1), 10);
    weir__heard_record(&heard, WEIR__HEARD_SLOTS, handle(1), 11); /* what it was recorded on before does not count */
    weir__heard_wait(&heard, 2, handle(1));
    weir__heard_wait(&heard, WEIR__HEARD_SLOTS, handle(1));
    assert_false(weir__heard_before(&heard, 1, 1, 2));
    for (uintptr_t i = 1; i <= 2 * WEIR__HEARD_EVENTS + 1; i++) weir__heard_record(&heard, 1, handle(i), 10);
    assert_int_equal(heard.events.count, 1);
    weir__heard_clear(&heard);
}

static void what_waits_for_a_stream_begins_where_that_stood(void **state) {
    (void)state;
    struct weir__heard heard = {0};
    weir__heard_record(&heard, 1, handle(1), 10);
    assert_false(weir__heard_begun(&heard, 2, 1, 0)); /* it waits for nothing */
    weir__heard_wait(&heard, 2, handle(1));
    assert_true(weir__heard_begun(&heard, 2, 1, 0));
    assert_false(weir__heard_begun(&heard, 2, 1, 5));
    weir__heard_record(&heard, 3, handle(2), 15);
    assert_true(weir__heard_begun(&heard, 2, 1, 5));
    assert_false(weir__heard_begun(&heard, 2, WEIR__HEARD_SLOTS, 0));
    assert_false(weir__heard_begun(&heard, WEIR__HEARD_SLOTS, 1, 0));
    weir__heard_clear(&heard);
}

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

enum { BLOCK = 40 }; /* pages: none for a front */

/* Two blocks, all that there is, given back by two streams that stand at gates. */
struct scene {
    struct weir_pool *pool;
    weir_stream asker, first, second;
    struct gate *gates[2];
    unsigned char *blocks[2];
    weir_event event;
};

static struct scene open_scene(void) {
    struct scene scene = {.pool = open_pool(WEIR_POLICY_LATENCY, 2 * BLOCK),
                          .asker = new_stream(),
                          .first = new_stream(),
                          .second = new_stream()};
    OK(weir_event_create(test_device(), false, &scene.event));
    weir_pool_name_stream(scene.pool, scene.asker, "asker"); /* else the pool knows of it with its first request */
    for (int i = 0; i < 2; i++) {
        weir_stream stream = i == 0 ? scene.first : scene.second;
        scene.blocks[i] = alloc(scene.pool, BLOCK * PAGE, stream);
        scene.gates[i] = put_gate(stream);
        queue_fill(stream, scene.blocks[i], BLOCK * PAGE, 0xAA);
    }
    OK(weir_pool_free(scene.pool, scene.blocks[0], scene.first));
    OK(weir_pool_free(scene.pool, scene.blocks[1], scene.second));
    return scene;
}

static void close_scene(struct scene *scene) {
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(scene->pool);
    OK(weir_event_destroy(test_device(), scene->event));
    OK(weir_stream_destroy(test_device(), scene->asker));
    OK(weir_stream_destroy(test_device(), scene->first));
    OK(weir_stream_destroy(test_device(), scene->second));
}

static void use_and_free(struct scene *scene, unsigned char *block) {
    queue_fill(scene->asker, block, BLOCK * PAGE, 0xBB);
    queue_check(scene->asker, block, BLOCK * PAGE, 0xBB);
    OK(weir_pool_free(scene->pool, block, scene->asker));
}

/* Without a word of the program the older one is taken. */
static void what_the_program_has_ordered_is_taken_first(void **state) {
    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        struct scene scene = open_scene();
        OK(weir_event_record(test_device(), scene.event, scene.second));
        if (heard) OK(weir_stream_wait(test_device(), scene.asker, scene.event));
        unsigned char *block = alloc(scene.pool, BLOCK * PAGE, scene.asker);
        assert_ptr_equal(block, scene.blocks[heard]);
        open_gate(scene.gates[0]);
        open_gate(scene.gates[1]);
        use_and_free(&scene, block);
        close_scene(&scene);
    }
}

/* The second stream's work waits for where the asker stood then: long ago, it is likely to be done, and nothing is known of the first's. */
static void what_could_begin_long_ago_is_taken_first(void **state) {
    (void)state;
    enum { NOT_HEARD, SHORTLY, LONG_AGO };
    for (int when = NOT_HEARD; when <= LONG_AGO; when++) {
        struct scene scene = open_scene();
        OK(weir_event_record(test_device(), scene.event, scene.asker));
        if (when != NOT_HEARD) OK(weir_stream_wait(test_device(), scene.second, scene.event));
        for (int i = 0; i < 100 && when != SHORTLY; i++) OK(weir_event_record(test_device(), scene.event, scene.asker));
        unsigned char *block = alloc(scene.pool, BLOCK * PAGE, scene.asker);
        assert_ptr_equal(block, scene.blocks[when == LONG_AGO]);
        assert_int_equal(stats_of(scene.pool).device_waits, 1);
        open_gate(scene.gates[0]);
        open_gate(scene.gates[1]);
        use_and_free(&scene, block);
        close_scene(&scene);
    }
}

/* The event is recorded anew by a way that weir does not hear of, on a stream that stands at no gate. */
static void what_was_heard_wrong_is_waited_for_all_the_same(void **state) {
    (void)state;
    struct scene scene = open_scene();
    weir_stream other = new_stream();
    const unsigned fills = fills_run();
    OK(weir_event_record(test_device(), scene.event, scene.second));
    OK(weir__device_enter(test_device()));
    assert_int_equal(test_device()->driver->event_record(scene.event, other), CUDA_SUCCESS);
    weir__device_leave(test_device());
    OK(weir_stream_wait(test_device(), scene.asker, scene.event));
    unsigned char *block = alloc(scene.pool, BLOCK * PAGE, scene.asker);
    assert_ptr_equal(block, scene.blocks[1]);
    assert_int_equal(stats_of(scene.pool).device_waits, 1);
    use_and_free(&scene, block);
    let_mutant_run(fills + 1);
    assert_int_equal(fills_run(), fills + (is_mutant() ? 1 : 0));
    open_gate(scene.gates[0]);
    open_gate(scene.gates[1]);
    close_scene(&scene);
    OK(weir_stream_destroy(test_device(), other));
}

int main(void) {
    setenv("WEIR_EMU", "watch:abort", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_comes_after_what_the_record_came_after),
        cmocka_unit_test(what_waits_for_a_stream_begins_where_that_stood),
        cmocka_unit_test(nothing_is_heard_of_events_that_are_gone_and_of_many_streams),
        cmocka_unit_test(what_the_program_has_ordered_is_taken_first),
        cmocka_unit_test(what_could_begin_long_ago_is_taken_first),
        cmocka_unit_test(what_was_heard_wrong_is_waited_for_all_the_same),
    };
    return cmocka_run_group_tests_name("what is heard of order", tests, NULL, NULL);
}
