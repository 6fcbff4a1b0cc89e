/* SPDX-License-Identifier: Apache-2.0 */
/* The policy per-stream does what caching allocators do, in granules: it exists to be compared with fairly. */
#include "support.h"

struct scene {
    struct weir_pool *pool;
    weir_stream s0, s1;
};

static struct scene open_scene(size_t pages) {
    return (struct scene){.pool = open_pool(WEIR_POLICY_PER_STREAM, pages), .s0 = new_stream(), .s1 = new_stream()};
}

static void close_scene(struct scene *scene) {
    OK(weir_device_synchronize(test_device()));
    close_pool(scene->pool);
    OK(weir_stream_destroy(test_device(), scene->s0));
    OK(weir_stream_destroy(test_device(), scene->s1));
}

static size_t held_pages(const struct scene *scene) { return stats_of(scene->pool).held_bytes / PAGE; }

static void segments_have_the_sizes_of_the_rules(void **state) {
    (void)state;
    struct scene scene = open_scene(200);
    alloc(scene.pool, PAGE / 2, scene.s0); /* small: a segment of 1 */
    assert_int_equal(held_pages(&scene), 1);
    alloc(scene.pool, PAGE / 2, scene.s0); /* the other half */
    assert_int_equal(held_pages(&scene), 1);
    alloc(scene.pool, PAGE / 2 + 1, scene.s0); /* large, below 5: a segment of 10 */
    assert_int_equal(held_pages(&scene), 11);
    alloc(scene.pool, 5 * PAGE - 512, scene.s0); /* from its rest */
    assert_int_equal(held_pages(&scene), 11);
    alloc(scene.pool, 5 * PAGE, scene.s0); /* 5 and more: rounded up to granules, here 5 */
    assert_int_equal(held_pages(&scene), 16);
    alloc(scene.pool, 7 * PAGE + 1, scene.s0);
    assert_int_equal(held_pages(&scene), 24);
    alloc(scene.pool, 1, scene.s1); /* each stream has segments of its own */
    assert_int_equal(held_pages(&scene), 25);
    close_scene(&scene);
}

static void a_large_block_is_split_when_more_than_half_a_granule_remains(void **state) {
    (void)state;
    struct scene scene = open_scene(200);
    void *a = alloc(scene.pool, 20 * PAGE, scene.s0);
    OK(weir_pool_free(scene.pool, a, scene.s0));
    void *b = alloc(scene.pool, 20 * PAGE - PAGE / 2, scene.s0);
    assert_ptr_equal(a, b);
    assert_int_equal(stats_of(scene.pool).live_bytes, 20 * PAGE); /* the rest stays with it */
    OK(weir_pool_free(scene.pool, b, scene.s0));
    b = alloc(scene.pool, 20 * PAGE - PAGE / 2 - 512, scene.s0);
    assert_int_equal(stats_of(scene.pool).live_bytes, 20 * PAGE - PAGE / 2 - 512);
    void *small = alloc(scene.pool, PAGE / 4, scene.s0);
    assert_int_equal(stats_of(scene.pool).live_bytes, 20 * PAGE - PAGE / 4 - 512);
    OK(weir_pool_free(scene.pool, small, scene.s0));
    OK(weir_pool_free(scene.pool, b, scene.s0));
    close_scene(&scene);
}

static void what_a_stream_freed_stays_with_it(void **state) {
    (void)state;
    struct scene scene = open_scene(100);
    void *a = alloc(scene.pool, 30 * PAGE, scene.s1);
    OK(weir_pool_free(scene.pool, a, scene.s1));
    void *b = alloc(scene.pool, 30 * PAGE, scene.s0);
    assert_ptr_not_equal(a, b);
    assert_int_equal(held_pages(&scene), 60);
    assert_ptr_equal(alloc(scene.pool, 30 * PAGE, scene.s1), a); /* and is used again there, in order */
    close_scene(&scene);
}

static void a_noted_block_is_pending_until_its_event_is_seen(void **state) {
    (void)state;
    struct scene scene = open_scene(100);
    void *a = alloc(scene.pool, 10 * PAGE, scene.s0);
    OK(weir_pool_note(scene.pool, a, scene.s1));
    struct gate *gate = put_gate(scene.s1);
    OK(weir_pool_free(scene.pool, a, scene.s0));
    assert_int_equal(stats_of(scene.pool).idle_bytes, 10 * PAGE);
    void *b = alloc(scene.pool, 10 * PAGE, scene.s0);
    assert_ptr_not_equal(a, b);
    open_gate(gate);
    OK(weir_stream_synchronize(test_device(), scene.s1));
    assert_ptr_equal(alloc(scene.pool, 10 * PAGE, scene.s0), a);
    close_scene(&scene);
}

static void whole_free_segments_of_every_stream_are_given_up_before_a_refusal(void **state) {
    (void)state;
    struct scene scene = open_scene(100);
    void *a = alloc(scene.pool, 60 * PAGE, scene.s1);
    struct gate *gate = put_gate(scene.s1);
    OK(weir_pool_free(scene.pool, a, scene.s1));
    void *b = NULL;
    struct weir_pool_stats before = stats_of(scene.pool);
    open_gate(gate);
    OK(weir_pool_alloc(scene.pool, 70 * PAGE, scene.s0, &b));
    assert_int_equal(stats_of(scene.pool).host_waits, before.host_waits + 1);
    assert_int_equal(held_pages(&scene), 70);
    OK(weir_pool_free(scene.pool, b, scene.s0));
    close_scene(&scene);
}

static void a_split_segment_is_stranded_with_its_stream(void **state) {
    (void)state;
    struct scene scene = open_scene(100);
    void *a = alloc(scene.pool, 60 * PAGE, scene.s1), *b = NULL;
    OK(weir_pool_free(scene.pool, a, scene.s1));
    void *handle = alloc(scene.pool, PAGE, scene.s1); /* cut from the large segment by best fit */
    assert_ptr_equal(handle, a);
    assert_int_equal(weir_pool_alloc(scene.pool, 50 * PAGE, scene.s0, &b), WEIR_OUT_OF_MEMORY);
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(scene.pool, &refusal));
    assert_int_equal(refusal.idle_others_bytes, 59 * PAGE);
    assert_int_equal(refusal.untaken_bytes, 40 * PAGE);
    OK(weir_pool_free(scene.pool, handle, scene.s1));
    OK(weir_pool_alloc(scene.pool, 50 * PAGE, scene.s0, &b)); /* whole again, it can go back */
    close_scene(&scene);
}

static void what_destroyed_streams_left_can_be_given_back(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 64);
    weir_stream stream = new_stream(), other = new_stream();
    void *freed = alloc(pool, 8 * PAGE, stream), *live = alloc(pool, 8 * PAGE, stream);
    OK(weir_pool_free(pool, freed, stream));
    OK(weir_stream_destroy(test_device(), stream));
    OK(weir_pool_free(pool, live, other));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), other));
}

static void a_note_of_a_destroyed_stream_is_forgotten_with_it(void **state) {
    (void)state;
    struct scene scene = open_scene(100);
    weir_stream gone = new_stream();
    void *a = alloc(scene.pool, PAGE, scene.s0);
    OK(weir_pool_note(scene.pool, a, gone));
    OK(weir_stream_destroy(test_device(), gone));
    alloc(scene.pool, PAGE, new_stream()); /* a stream that is new to the pool: time to forget */
    OK(weir_pool_check(scene.pool));
    OK(weir_pool_free(scene.pool, a, scene.s0));
    assert_ptr_equal(alloc(scene.pool, PAGE, scene.s0), a);
    close_scene(&scene);
}

/* An idle block that stands alone bears notes too. */
static void a_note_of_a_destroyed_stream_goes_from_a_block_alone(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 64);
    weir_stream home = new_stream(), users[4];
    void *block = NULL;
    OK(weir_pool_alloc_exportable(pool, PAGE, home, &block));
    for (int i = 0; i < 4; i++) {
        users[i] = new_stream();
        OK(weir_pool_note(pool, block, users[i]));
    }
    OK(weir_pool_free(pool, block, home));
    for (int i = 0; i < 4; i++) OK(weir_stream_destroy(test_device(), users[i]));
    alloc(pool, PAGE, new_stream()); /* time to forget */
    close_pool(pool);
}

/* A new segment takes three parts of the pool's own memory, of which it has more or less left. */
static void segments_are_cut_as_long_as_there_is_memory(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 4000);
    weir_stream stream = new_stream();
    for (int i = 0; i < 300; i++) {
        void *block = NULL;
        alloc(pool, 512, stream);
        OK(weir_pool_alloc_aligned(pool, PAGE, 256 * PAGE, stream, &block));
        OK(weir_pool_free(pool, block, stream));
        OK(weir_pool_trim(pool, 0));
    }
    close_pool(pool);
    pool = open_pool(WEIR_POLICY_PER_STREAM, 4000);
    alloc(pool, 2 * PAGE, stream); /* so that the last part is not taken by the last block of a segment */
    for (int i = 0; i < 300; i++) alloc(pool, 512, stream);
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_have_the_sizes_of_the_rules),
        cmocka_unit_test(a_large_block_is_split_when_more_than_half_a_granule_remains),
        cmocka_unit_test(what_a_stream_freed_stays_with_it),
        cmocka_unit_test(a_noted_block_is_pending_until_its_event_is_seen),
        cmocka_unit_test(whole_free_segments_of_every_stream_are_given_up_before_a_refusal),
        cmocka_unit_test(a_split_segment_is_stranded_with_its_stream),
        cmocka_unit_test(what_destroyed_streams_left_can_be_given_back),
        cmocka_unit_test(a_note_of_a_destroyed_stream_is_forgotten_with_it),
        cmocka_unit_test(a_note_of_a_destroyed_stream_goes_from_a_block_alone),
        cmocka_unit_test(segments_are_cut_as_long_as_there_is_memory),
    };
    return cmocka_run_group_tests_name("per_stream", tests, NULL, NULL);
}
