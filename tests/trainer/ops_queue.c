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

enum { S = 96, HEADS = 2, D = 8, N = S * HEADS * D, ROUNDS = 40 };

struct attention {
    weir_stream stream;
    struct gate gate;
    real *q, *out, *lse, *expected;
};

static enum weir_status attend(struct rig *rig, struct attention *a, real *out) {
    return rig->table->attention_forward(&rig->ops, out, a->lse, a->q, a->q, a->q, S, S, HEADS, HEADS, D, a->stream);
}

/* Both streams use their thread's scratch at once, for different numbers; each alone is the reference. */
static void two_streams_at_once_give_the_same_bits(void **state) {
    (void)state;
    struct rig rig;
    struct attention streams[2];
    rig_open(&rig, WIRE_REAL);
    for (int i = 0; i < 2; i++) {
        struct attention *a = &streams[i];
        assert_int_equal(weir_stream_create(rig.device, &a->stream), WEIR_OK);
        a->q = rig_random(&rig, N), a->lse = rig_dirty(&rig, S * HEADS);
        a->expected = rig_dirty(&rig, N), a->out = rig_dirty(&rig, N * ROUNDS);
        assert_int_equal(attend(&rig, a, a->expected), WEIR_OK);
        assert_int_equal(weir_stream_synchronize(rig.device, a->stream), WEIR_OK);
        close_gate(&rig, &a->gate, a->stream);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++) assert_int_equal(attend(&rig, &streams[i], streams[i].out + round * N), WEIR_OK);
    for (int i = 0; i < 2; i++) open_gate(&streams[i].gate);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_stream_synchronize(rig.device, streams[i].stream), WEIR_OK);
        for (int round = 0; round < ROUNDS; round++)
            assert_memory_equal(streams[i].out + round * N, streams[i].expected, N * sizeof(real));
        assert_int_equal(weir_stream_destroy(rig.device, streams[i].stream), WEIR_OK);
    }
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
