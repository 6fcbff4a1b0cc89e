/* SPDX-License-Identifier: Apache-2.0 */
/* An operation is queued, not done: it waits for its turn on the stream, keeps its own arguments, and operations of
 * different streams do not disturb each other. */
#include <pthread.h>
#include <string.h>

#include "tests/trainer/ops_fixture.h"

/* Holds a stream until the test opens it. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
};

static void wait_at_gate(void *argument) {
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open) pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void close_gate(struct rig *rig, struct gate *gate, weir_stream stream) {
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->opened, NULL);
    gate->open = false;
    const struct weir_work work = {.name = "gate", .run = wait_at_gate, .argument = gate};
    assert_int_equal(weir_device_submit(rig->device, &work, stream), WEIR_OK);
}

static void open_gate(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

static void an_operation_waits_for_its_turn(void **state) {
    (void)state;
    struct rig rig;
    struct gate gate;
    rig_open(&rig, WIRE_REAL);
    real *a = rig_values(&rig, 1, (const double[1]){1}), *out = rig_zeros(&rig, 1);
    close_gate(&rig, &gate, rig.stream);
    assert_int_equal(rig.table->add(&rig.ops, out, a, a, 1, rig.stream), WEIR_OK);
    assert_true(*out == 0);
    *a = 5;
    open_gate(&gate);
    rig_done(&rig, WEIR_OK);
    assert_true(*out == 10);
    rig_close(&rig);
}

static void the_callers_offsets_may_go_right_after_the_call(void **state) {
    (void)state;
    struct rig rig;
    struct gate gate;
    rig_open(&rig, WIRE_REAL);
    real *x = rig_values(&rig, 2, (const double[2]){1, 1}), *w = rig_values(&rig, 2, (const double[2]){2, 3});
    real *y = rig_zeros(&rig, 2);
    int64_t offsets[3] = {0, 1, 2};
    close_gate(&rig, &gate, rig.stream);
    assert_int_equal(
        rig.table->linear_forward(&rig.ops, y, false, x, w, (struct row_groups){2, offsets}, 1, 1, rig.stream),
        WEIR_OK);
    memset(offsets, 0, sizeof offsets);
    open_gate(&gate);
    rig_done(&rig, WEIR_OK);
    assert_true(y[0] == 2 && y[1] == 3);
    rig_close(&rig);
}

enum { S = 96, HEADS = 2, D = 8, N = S * HEADS * D, ROUNDS = 20 };

/* Both streams use their thread's scratch at once; one result alone is the reference. */
static void two_streams_at_once_give_the_same_bits(void **state) {
    (void)state;
    struct rig rig;
    struct gate gates[2];
    rig_open(&rig, WIRE_BF16);
    weir_stream streams[2] = {rig.stream, NULL};
    assert_int_equal(weir_stream_create(rig.device, &streams[1]), WEIR_OK);
    real *q = rig_random(&rig, N), *k = rig_random(&rig, N), *v = rig_random(&rig, N), *expected = rig_dirty(&rig, N);
    real *lse = rig_dirty(&rig, S * HEADS), *out[2] = {rig_dirty(&rig, N), rig_dirty(&rig, N)};
    real *sums[2] = {rig_dirty(&rig, S * HEADS), rig_dirty(&rig, S * HEADS)};
    rig_done(&rig, rig.table->attention_forward(&rig.ops, expected, lse, q, k, v, S, S, HEADS, HEADS, D, rig.stream));
    for (int i = 0; i < 2; i++) close_gate(&rig, &gates[i], streams[i]);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(
                rig.table->attention_forward(&rig.ops, out[i], sums[i], q, k, v, S, S, HEADS, HEADS, D, streams[i]),
                WEIR_OK);
    for (int i = 0; i < 2; i++) open_gate(&gates[i]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_stream_synchronize(rig.device, streams[i]), WEIR_OK);
        assert_memory_equal(out[i], expected, N * sizeof *expected);
        assert_memory_equal(sums[i], lse, S * HEADS * sizeof *lse);
    }
    assert_int_equal(weir_stream_destroy(rig.device, streams[1]), WEIR_OK);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_waits_for_its_turn),
        cmocka_unit_test(the_callers_offsets_may_go_right_after_the_call),
        cmocka_unit_test(two_streams_at_once_give_the_same_bits),
    };
    return cmocka_run_group_tests_name("trainer ops: queue", tests, NULL, NULL);
}
