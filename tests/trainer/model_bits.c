/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory comes from changes no number: the same bits with any policy of the pool, with offload, in a device that is
 * just large enough, and when memory was dirty before. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/model_fixture.h"

enum { STEPS = 3 };

static struct weir_device *device;

static int open_device(void **state) {
    (void)state;
    OK(weir_device_open(NULL, &device));
    return 0;
}
static int close_device(void **state) {
    (void)state;
    weir_device_close(device);
    return 0;
}

struct course {
    double loss[STEPS], squares[STEPS], last;
    uint64_t weights; /* a hash of their bits */
    size_t peak_bytes;
};

static uint64_t hash_weights(struct rig *rig) {
    uint64_t hash = 14695981039346656037u;
    EACH_PACK_OF(rig, pack) {
        real *weights = malloc((size_t)pack->shard * sizeof *weights);
        assert_non_null(weights);
        rig_read(rig, weights, pack->master, pack->shard);
        const unsigned char *bytes = (const unsigned char *)weights;
        for (size_t i = 0; i < (size_t)pack->shard * sizeof *weights; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
        free(weights);
    }
    return hash;
}

static struct course run(const struct config *config) {
    struct rig rig;
    struct course course;
    struct weir_pool_stats stats = {.size = sizeof stats};
    rig_open(&rig, config, comm_alone(), device);
    for (int i = 0; i < STEPS; i++) {
        course.loss[i] = rig_step(&rig, i);
        course.squares[i] = rig.model.host_sums[1];
    }
    course.last = rig_loss(&rig, STEPS);
    course.weights = hash_weights(&rig);
    OK(weir_pool_get_stats(rig.pool, &stats));
    course.peak_bytes = stats.peak_live_bytes;
    rig_close(&rig);
    return course;
}

static void assert_same(const struct course *a, const struct course *b) {
    for (int i = 0; i < STEPS; i++) {
        assert_true(isfinite(a->loss[i]));
        assert_memory_equal(&a->loss[i], &b->loss[i], sizeof(double));
        assert_memory_equal(&a->squares[i], &b->squares[i], sizeof(double));
    }
    assert_memory_equal(&a->last, &b->last, sizeof(double));
    assert_true(a->weights == b->weights);
}

static struct config course_config(const char *wire) {
    struct config c = small_config();
    c.layers = 3;
    strcpy(c.wire, wire);
    return c;
}

static void every_policy_of_the_pool_gives_the_same_bits(void **state) {
    (void)state;
    static const char *const policies[] = {"latency", "footprint", "per-stream"};
    struct config c = course_config("bf16");
    struct course first = run(&c);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        strcpy(c.policy, policies[i]);
        struct course again = run(&c);
        assert_same(&first, &again);
    }
}

static void offload_gives_the_same_bits(void **state) {
    (void)state;
    struct config c = course_config("bf16");
    struct course kept = run(&c);
    c.offload = true;
    struct course away = run(&c);
    assert_same(&kept, &away);
}

static void a_device_that_is_just_large_enough_gives_the_same_bits(void **state) {
    (void)state;
    struct config c = course_config("bf16");
    struct course roomy = run(&c);
    c.limit = roomy.peak_bytes + roomy.peak_bytes / 20 + 24 * (16 << 10);
    struct course tight = run(&c);
    assert_same(&roomy, &tight);
}

static void what_memory_held_before_does_not_matter(void **state) {
    (void)state;
    struct config c = course_config("fp32");
    struct course fresh = run(&c);
    rig_soil = true;
    struct course dirty = run(&c);
    rig_soil = false;
    assert_same(&fresh, &dirty);
}

static void a_stream_that_comes_late_changes_nothing(void **state) {
    (void)state;
    static const enum queue late[] = {COMPUTE, GATHER, REDUCE, EXCHANGE};
    struct config c = course_config("bf16");
    struct course in_time = run(&c);
    c.offload = true;
    c.limit = in_time.peak_bytes + in_time.peak_bytes / 4; /* memory goes from stream to stream */
    strcpy(c.policy, "footprint");
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        rig_late = late[i];
        struct course course = run(&c);
        rig_late = QUEUES;
        assert_same(&in_time, &course);
    }
}

static void the_first_step_needs_no_more_memory_than_the_second(void **state) {
    (void)state;
    struct config c = course_config("bf16");
    struct rig rig;
    struct weir_pool_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    rig_open(&rig, &c, comm_alone(), device);
    OK(weir_pool_get_stats(rig.pool, &before));
    rig_step(&rig, 0);
    OK(weir_pool_get_stats(rig.pool, &after));
    assert_int_equal(before.live_bytes, after.live_bytes); /* the optimizer's state was there */
    size_t peak = after.peak_live_bytes;
    rig_step(&rig, 0);
    OK(weir_pool_get_stats(rig.pool, &after));
    assert_int_equal(before.live_bytes, after.live_bytes);
    assert_int_equal(peak, after.peak_live_bytes);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_of_the_pool_gives_the_same_bits),
        cmocka_unit_test(offload_gives_the_same_bits),
        cmocka_unit_test(a_device_that_is_just_large_enough_gives_the_same_bits),
        cmocka_unit_test(what_memory_held_before_does_not_matter),
        cmocka_unit_test(a_stream_that_comes_late_changes_nothing),
        cmocka_unit_test(the_first_step_needs_no_more_memory_than_the_second),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
