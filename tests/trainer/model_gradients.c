/* SPDX-License-Identifier: Apache-2.0 */
/* The whole model's gradient is that of its loss: central differences in double, number by number and along a random
 * direction of all weights at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/model_fixture.h"

static struct weir_device *device;

static int open_device(void **state) {
    (void)state;
    rig_soil = true;
    OK(weir_device_open(NULL, &device));
    return 0;
}
static int close_device(void **state) {
    (void)state;
    weir_device_close(device);
    return 0;
}

static const double step = 1e-4; /* error h^2 f''' / 6, next to 1e-16 f / h from rounding */

static double loss_with(struct rig *rig, struct pack *pack, int64_t at, real value) {
    rig_write(rig, pack->master + at, &value, 1);
    return rig_loss(rig, 0);
}

/* Some numbers of a param, spread over it: the relative error is to the param's largest gradient. */
static double worst_error(struct rig *rig, struct pack *pack, const struct param *param, const real *weights,
                          const real *gradient) {
    const struct range range = param_range(param);
    const int64_t size = range_size(range), stride = size > 12 ? size / 12 + 1 : 1;
    double largest = 0, worst = 0;
    for (int64_t i = range.begin; i < range.end; i++) {
        assert_true(isfinite(gradient[i])); /* fmax passes over NaNs */
        largest = fmax(largest, fabs((double)gradient[i]));
    }
    for (int64_t i = range.begin; i < range.end; i += stride) {
        double up = loss_with(rig, pack, i, weights[i] + (real)step),
               down = loss_with(rig, pack, i, weights[i] - (real)step);
        worst = fmax(worst, fabs((up - down) / (2 * step) - (double)gradient[i]));
        rig_write(rig, pack->master + i, &weights[i], 1);
    }
    return worst / fmax(largest, 1e-4); /* a gate that is alone has no gradient but rounding */
}

static void check_pack(struct rig *rig, struct pack *pack, const real *gradient) {
    real *weights = malloc((size_t)pack->shard * sizeof *weights);
    assert_non_null(weights);
    rig_read(rig, weights, pack->master, pack->shard);
    for (int p = 0; p < pack->params; p++) {
        double error = worst_error(rig, pack, &pack->param[p], weights, gradient);
        if (error > 1e-6) print_error("%s: relative error %g\n", pack->param[p].name, error);
        assert_true(error <= 1e-6);
    }
    free(weights);
}

static real *copy_gradient(struct rig *rig, const struct pack *pack) {
    real *gradient = malloc((size_t)pack->shard * sizeof *gradient);
    assert_non_null(gradient);
    rig_read(rig, gradient, pack->reduced, pack->shard);
    return gradient;
}

static void check_model(const struct config *config) {
    struct rig rig;
    real *gradients[64];
    int packs = 0;
    rig_open(&rig, config, comm_alone(), device);
    double loss = rig_gradients(&rig, 0);
    assert_true(fabs(rig_loss(&rig, 0) - loss) < 1e-14);
    EACH_PACK_OF(&rig, pack) gradients[packs++] = copy_gradient(&rig, pack);
    packs = 0;
    EACH_PACK_OF(&rig, pack) {
        check_pack(&rig, pack, gradients[packs]);
        free(gradients[packs++]);
    }
    rig_drop_gradients(&rig);
    rig_close(&rig);
}

static void the_gradient_of_the_whole_model_is_that_of_its_loss(void **state) {
    (void)state;
    struct config c = small_config();
    check_model(&c);
}

static void so_it_is_without_a_shared_expert_and_with_scaled_gates(void **state) {
    (void)state;
    struct config c = small_config();
    c.layers = 1;
    c.shared = 0;
    c.top_k = 3;
    c.route_scale = 2.5;
    c.kv_heads = 4;
    check_model(&c);
}

static void so_it_is_with_one_expert_a_token_and_wide_shared_ones(void **state) {
    (void)state;
    struct config c = small_config();
    c.layers = 1;
    c.shared = 2;
    c.top_k = 1;
    c.kv_heads = 1;
    c.loss_chunk = 1000;
    check_model(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_the_whole_model_is_that_of_its_loss),
        cmocka_unit_test(so_it_is_without_a_shared_expert_and_with_scaled_gates),
        cmocka_unit_test(so_it_is_with_one_expert_a_token_and_wide_shared_ones),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
