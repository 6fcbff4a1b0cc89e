/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer in the model: Muon sees whole matrices, each alone; the embedding, the head, the router and the gains get
 * AdamW; the balance of the experts moves the bias alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/model_fixture.h"

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

/* 4 x 4 experts and an 8 x 4 shared matrix, without decay, at a rate of 1: weights change by scale * u. */
static struct config plain_config(int64_t dim, int64_t ffn) {
    struct config c = small_config();
    c.layers = 1;
    c.dim = dim;
    c.heads = 1;
    c.kv_heads = 1;
    c.ffn = ffn;
    c.experts = 2;
    c.top_k = 1;
    c.batch = 1;
    c.decay = 0;
    return c;
}

static void set_all(struct rig *rig, real *numbers, int64_t count, real value) {
    real *host = malloc((size_t)count * sizeof *host);
    assert_non_null(host);
    for (int64_t i = 0; i < count; i++) host[i] = value;
    rig_write(rig, numbers, host, count);
    free(host);
}

/* Zero weights and zero gradients, but for what the test writes next. */
static void clear(struct rig *rig) {
    rig_gradients(rig, 0);
    EACH_PACK_OF(rig, pack) {
        set_all(rig, pack->master, pack->shard, 0);
        set_all(rig, pack->reduced, pack->shard, 0);
    }
}

static void a_matrix_is_orthogonalised_whole(void **state) {
    (void)state;
    struct config c = plain_config(8, 4);
    struct rig rig;
    real gradient[8 * 4], weights[8 * 4];
    static const double first_row[] = {-0.50087, 0.22240, -0.06960, -0.24961};
    double squares = 0;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++) gradient[i * 4 + j] = (real)((3 * i + 5 * j) % 7 - 3);
    rig_open(&rig, &c, comm_alone(), device);
    clear(&rig);
    struct pack *pack = &rig.model.fsdp.unit[1].pack[PACK_OF_DENSE];
    const struct param *w2 = &pack->param[SHARED_W2];
    assert_int_equal(w2->rows, 8);
    assert_int_equal(w2->cols, 4);
    rig_write(&rig, pack->reduced + w2->offset, gradient, 8 * 4);
    OK(optim_step(&rig.optim, 1.0, 0));
    rig_read(&rig, weights, pack->master + w2->offset, 8 * 4);
    const double scale = 0.2 * sqrt(8);
    for (int j = 0; j < 4; j++) assert_true(fabs((double)weights[j] / -scale - first_row[j]) < 1e-5);
    for (int i = 0; i < 8 * 4; i++) squares += pow((double)weights[i] / scale, 2);
    assert_true(fabs(sqrt(squares) - 1.82163) < 1e-5);
    rig_close(&rig);
}

static void each_expert_is_orthogonalised_alone(void **state) {
    (void)state;
    struct config c = plain_config(4, 4);
    struct rig rig;
    real gradient[2 * 16] = {0}, weights[2 * 16];
    for (int i = 0; i < 4; i++) {
        gradient[i * 5] = 1;
        gradient[16 + i * 5] = 1000;
    }
    rig_open(&rig, &c, comm_alone(), device);
    clear(&rig);
    struct pack *pack = &rig.model.fsdp.unit[1].pack[PACK_OF_EXPERTS];
    rig_write(&rig, pack->reduced, gradient, 2 * 16);
    OK(optim_step(&rig.optim, 1.0, 0));
    rig_read(&rig, weights, pack->master, 2 * 16);
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < 16; i++)
            assert_true(fabs((double)weights[e * 16 + i] / -(0.2 * 2) - (i % 5 == 0 ? 0.76544 : 0)) < 1e-5);
    rig_close(&rig);
}

/* AdamW's first step is the rate for every number with a gradient; an orthogonal one would be smaller and even out. */
static void tables_and_gains_are_trained_by_adamw(void **state) {
    (void)state;
    struct config c = plain_config(8, 4);
    struct rig rig;
    rig_open(&rig, &c, comm_alone(), device);
    clear(&rig);
    EACH_PACK_OF(&rig, pack) set_all(&rig, pack->reduced, pack->shard, (real)0.5);
    OK(optim_step(&rig.optim, 0.25, 0));
    EACH_PACK_OF(&rig, pack)
    for (int p = 0; p < pack->params; p++) {
        real weight;
        bool table = strcmp(pack->param[p].name, "embed") == 0 || strcmp(pack->param[p].name, "head") == 0 ||
                     strcmp(pack->param[p].name, "router") == 0 || pack->param[p].rows == 1;
        assert_true(table != pack->param[p].matrix);
        rig_read(&rig, &weight, pack->master + pack->param[p].offset, 1);
        assert_true((fabs((double)weight + 0.25) < 1e-6) == table);
    }
    rig_close(&rig);
}

static void clipping_keeps_the_direction_and_limits_the_norm(void **state) {
    (void)state;
    struct config c = plain_config(8, 4);
    struct rig rig;
    real before[8], after[8];
    rig_open(&rig, &c, comm_alone(), device);
    rig_gradients(&rig, 0);
    struct pack *pack = &rig.model.fsdp.unit[0].pack[0];
    rig_read(&rig, before, pack->reduced + 'a' * 8, 8);
    double norm = sqrt(rig.model.host_sums[1]), limit = norm / 3;
    OK(optim_clip(&rig.optim, limit));
    rig_read(&rig, after, pack->reduced + 'a' * 8, 8);
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)after[i] - (double)before[i] / 3) <= 1e-5 * fabs((double)before[i]));
    OK(model_sums_clear(&rig.model));
    OK(optim_squares(&rig.optim));
    OK(model_sums(&rig.model));
    assert_true(fabs(sqrt(rig.model.host_sums[1]) - limit) < 1e-4 * limit);
    OK(optim_clip(&rig.optim, 2 * limit)); /* below the limit: untouched */
    rig_read(&rig, before, pack->reduced + 'a' * 8, 8);
    assert_memory_equal(before, after, sizeof before);
    rig_drop_gradients(&rig);
    rig_close(&rig);
}

static void balance_moves_the_bias_against_the_load_and_keeps_its_mean(void **state) {
    (void)state;
    struct config c = small_config();
    struct rig rig;
    static const double load[] = {10, 2, 4, 8, 0, 12, 4, 0};
    static const double want[] = {-1.25, .75, .75, -1.25, .75, -1.25, .75, .75};
    real bias[8];
    c.layers = 1;
    c.experts = 8;
    rig_open(&rig, &c, comm_alone(), device);
    OK(model_balance(&rig.model, load, 1e-3));
    rig_read(&rig, bias, rig.model.bias, 8);
    for (int i = 0; i < 8; i++) assert_true(fabs((double)bias[i] - 1e-3 * want[i]) < 1e-9);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_is_orthogonalised_whole),
        cmocka_unit_test(each_expert_is_orthogonalised_alone),
        cmocka_unit_test(tables_and_gains_are_trained_by_adamw),
        cmocka_unit_test(clipping_keeps_the_direction_and_limits_the_norm),
        cmocka_unit_test(balance_moves_the_bias_against_the_load_and_keeps_its_mean),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
