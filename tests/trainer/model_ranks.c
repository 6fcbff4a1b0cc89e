/* SPDX-License-Identifier: Apache-2.0 */
/* Any number of ranks gives the one-rank answer. Run on several ranks over MPI; each rank also runs the same global batch
 * alone, keeps the expert ids of that run in a file, and compares its shards of the common run with its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/trainer/model_fixture.h"

static struct weir_device *device;
static struct comm mpi;
static char routes_path[64];

/* ---- the one-rank run ------------------------------------------------------------------------------------------ */

struct alone {
    struct rig rig;
    double loss;
};

static struct config global_config(const struct config *config) {
    struct config c = *config;
    c.batch *= mpi.world;
    c.ep = 1;
    return c;
}

static void alone_open(struct alone *alone, const struct config *config) {
    struct config c = global_config(config);
    strcpy(c.routes_save, routes_path);
    rig_open(&alone->rig, &c, comm_alone(), device);
    alone->loss = rig_gradients(&alone->rig, 0);
}

static void ranks_open(struct rig *rig, const struct config *config, int ep, bool replay) {
    struct config c = *config;
    struct comm comm = mpi;
    c.ep = comm.ep = ep; /* a mesh is arithmetic on ranks, so one world serves them all */
    if (replay) strcpy(c.routes_replay, routes_path);
    rig_open(rig, &c, comm, device);
}

/* Where in the one-rank vector the number is that lies at `at` of this rank's; -1: padding. */
static int64_t place_alone(const struct rig *rig, const struct pack *mine, const struct pack *whole, int64_t at,
                           int *param) {
    for (int p = 0; p < mine->params; p++) {
        struct range range = param_range(&mine->param[p]);
        if (at < range.begin || at >= range.end) continue;
        int64_t expert = mine->group == COMM_EFSDP ? comm_place(&rig->comm, COMM_EP) * rig->model.shape.local : 0;
        int64_t size = mine->param[p].rows * mine->param[p].cols;
        *param = p;
        return whole->param[p].offset + expert * size + (at - range.begin);
    }
    return -1;
}

static real *read_all(struct rig *rig, const real *from, int64_t count) {
    real *to = malloc((size_t)count * sizeof *to);
    assert_non_null(to);
    rig_read(rig, to, from, count);
    return to;
}

static double largest_of(const struct param *param, const real *numbers) {
    struct range range = param_range(param);
    double largest = 0;
    for (int64_t i = range.begin; i < range.end; i++) largest = fmax(largest, fabs((double)numbers[i]));
    return largest;
}

/* Every number of this rank's shard against the one-rank vector, relative to its param's largest. */
static void compare_shard(const struct rig *rig, const struct pack *mine, const struct pack *whole, const real *got,
                          const real *want, double limit) {
    double largest[PACK_PARAMS];
    for (int p = 0; p < whole->params; p++) largest[p] = largest_of(&whole->param[p], want);
    for (int64_t i = 0; i < mine->shard; i++) {
        int p = 0;
        int64_t at = place_alone(rig, mine, whole, mine->place * mine->shard + i, &p);
        double error = fabs((double)got[i] - (at < 0 ? 0 : (double)want[at]));
        if (!(error <= limit * (at < 0 ? 0 : fmax(largest[p], 1e-4)))) /* a gate that is alone: all rounding */
            fail_msg("rank %d, %s: number %ld is %g, alone %g, largest %g", rig->comm.rank, mine->param[p].name,
                     (long)i, (double)got[i], at < 0 ? 0 : (double)want[at], largest[p]);
    }
}

enum what { GRADIENTS, WEIGHTS };

static void compare(struct rig *rig, struct rig *alone, enum what what, double limit) {
    for (int u = 0; u < rig->model.fsdp.units; u++)
        for (int p = 0; p < rig->model.fsdp.unit[u].packs; p++) {
            struct pack *mine = &rig->model.fsdp.unit[u].pack[p], *whole = &alone->model.fsdp.unit[u].pack[p];
            real *got = read_all(rig, what == WEIGHTS ? mine->master : mine->reduced, mine->shard);
            real *want = read_all(alone, what == WEIGHTS ? whole->master : whole->reduced, whole->shard);
            compare_shard(rig, mine, whole, got, want, limit);
            free(got);
            free(want);
        }
}

/* The one-rank gradients take the place of this rank's, so that only the optimizer is compared. */
static void give_gradients(struct rig *rig, struct rig *alone) {
    for (int u = 0; u < rig->model.fsdp.units; u++)
        for (int p = 0; p < rig->model.fsdp.unit[u].packs; p++) {
            struct pack *mine = &rig->model.fsdp.unit[u].pack[p], *whole = &alone->model.fsdp.unit[u].pack[p];
            real *from = read_all(alone, whole->reduced, whole->shard), *to = calloc((size_t)mine->shard, sizeof *to);
            assert_non_null(to);
            for (int64_t i = 0; i < mine->shard; i++) {
                int param;
                int64_t at = place_alone(rig, mine, whole, mine->place * mine->shard + i, &param);
                if (at >= 0) to[i] = from[at];
            }
            rig_write(rig, mine->reduced, to, mine->shard);
            free(from);
            free(to);
        }
}

static int meshes(int ep[3]) {
    int count = 0;
    for (int size = 1; size <= mpi.world; size *= 2) ep[count++] = size;
    return count;
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

static void compare_with_alone(const struct config *config) {
    struct alone alone;
    int ep[3], count = meshes(ep);
    alone_open(&alone, config);
    for (int i = 0; i < count; i++) {
        struct rig rig;
        ranks_open(&rig, config, ep[i], true);
        double loss = rig_gradients(&rig, 0);
        assert_true(fabs(loss - alone.loss) <= 1e-6 * fabs(alone.loss));
        assert_true(fabs(rig.model.host_sums[1] - alone.rig.model.host_sums[1]) <= 1e-5 * alone.rig.model.host_sums[1]);
        compare(&rig, &alone.rig, GRADIENTS, 1e-5);
        rig_drop_gradients(&rig);
        rig_close(&rig);
    }
    rig_drop_gradients(&alone.rig);
    rig_close(&alone.rig);
}

static void any_number_of_ranks_and_any_expert_group_give_the_one_rank_gradients(void **state) {
    (void)state;
    struct config c = small_config();
    c.batch = 2;
    c.experts = 8;
    compare_with_alone(&c);
}

/* Nothing divides: 3 tokens a sequence, 5 numbers a head norm, one row of a matrix on two ranks. */
static void so_do_odd_sizes(void **state) {
    (void)state;
    struct config c = small_config();
    c.batch = 1;
    c.seq = 3;
    c.dim = 24;
    c.heads = 2;
    c.kv_heads = 1;
    c.ffn = 5;
    c.experts = 4;
    c.top_k = 3;
    compare_with_alone(&c);
}

static void expert_gradients_are_sums_over_tokens_whatever_the_expert_group(void **state) {
    (void)state;
    struct config c = small_config(); /* 4 experts, top-1, 16 tokens in all */
    c.layers = 1;
    c.batch = 1;
    c.seq = 16 / mpi.world;
    c.top_k = 1;
    compare_with_alone(&c);
}

static void the_update_of_split_matrices_is_the_one_rank_update_bit_for_bit(void **state) {
    (void)state;
    struct config c = small_config();
    int ep[3], count = meshes(ep), splits = 0;
    c.batch = 1;
    for (int i = 0; i < count; i++) {
        struct alone alone;
        struct rig rig;
        alone_open(&alone, &c);
        ranks_open(&rig, &c, ep[i], true);
        rig_gradients(&rig, 0);
        give_gradients(&rig, &alone.rig);
        splits += rig.optim.round[0].splits + rig.optim.round[1].splits;
        OK(optim_step(&rig.optim, 1e-2, 0));
        OK(optim_step(&alone.rig.optim, 1e-2, 0));
        compare(&rig, &alone.rig, WEIGHTS, 0);
        rig_close(&rig);
        rig_close(&alone.rig);
    }
    assert_true(splits > 0);
}

static void fill(struct rig *rig, struct pack *pack, struct range where, real value) {
    real *numbers = calloc((size_t)pack->shard, sizeof *numbers);
    assert_non_null(numbers);
    struct range mine = pack_shard(pack, pack->place), here = range_meet(mine, where);
    for (int64_t i = here.begin; i < here.end; i++) numbers[i - mine.begin] = value;
    rig_write(rig, pack->reduced, numbers, pack->shard);
    free(numbers);
}

/* 8 dense numbers of 3 and 4 numbers of 2 in each of 4 experts. */
static void the_norm_counts_every_gradient_once(void **state) {
    (void)state;
    struct config c = small_config();
    int ep[3], count = meshes(ep);
    c.layers = 1;
    c.batch = 1;
    for (int i = 0; i < count; i++) {
        struct rig rig;
        ranks_open(&rig, &c, ep[i], false);
        rig_gradients(&rig, 0);
        EACH_PACK_OF(&rig, pack) fill(&rig, pack, (struct range){0, 0}, 0);
        struct pack *dense = &rig.model.fsdp.unit[1].pack[PACK_OF_DENSE];
        struct pack *experts = &rig.model.fsdp.unit[1].pack[PACK_OF_EXPERTS];
        int64_t mid = dense->size / 2 - 4; /* over a border between shards */
        fill(&rig, dense, (struct range){mid, mid + 8}, 3);
        fill(&rig, experts, (struct range){0, 4 * rig.model.shape.local}, 2);
        OK(model_sums_clear(&rig.model));
        OK(optim_squares(&rig.optim));
        OK(model_sums(&rig.model));
        assert_true(fabs(sqrt(rig.model.host_sums[1]) - 11.661904) < 1e-6);
        OK(optim_clip(&rig.optim, 1.0));
        real *after = read_all(&rig, experts->reduced, experts->shard);
        for (int64_t j = 0; j < experts->shard; j++)
            assert_true(after[j] == 0 || fabs((double)after[j] - 2 / 11.661904) < 1e-6);
        free(after);
        rig_drop_gradients(&rig);
        rig_close(&rig);
    }
}

/* ---- uneven routes --------------------------------------------------------------------------------------------- */

typedef int32_t chooser(int64_t step, int64_t token, int64_t k);

/* A file of routes for steps of the global batch, as `choose` says. */
static void write_routes(const struct config *config, int64_t steps, chooser *choose) {
    const struct config c = global_config(config);
    const int64_t tokens = c.batch * c.seq;
    struct routes routes = {
        .layers = c.layers, .tokens = tokens, .top_k = c.top_k, .experts = c.experts, .count = tokens};
    int32_t *ids = malloc((size_t)(tokens * c.top_k) * sizeof *ids);
    assert_non_null(ids);
    assert_int_equal(routes_open(&routes, routes_path, ""), 0);
    for (routes.step = 1; routes.step <= steps; routes.step++) {
        for (int64_t i = 0; i < tokens * c.top_k; i++) ids[i] = choose(routes.step - 1, i / c.top_k, i % c.top_k);
        for (int64_t layer = 0; layer < c.layers; layer++) OK(routes_write(&routes, layer, ids));
    }
    routes_close(&routes);
    free(ids);
}

static int64_t tokens_a_rank;

/* The first rank's tokens all go to expert 0, the others' to expert 3; later the other way round, then all to one. */
static int32_t to_the_ends(int64_t step, int64_t token, int64_t k) {
    (void)k;
    bool first = token < tokens_a_rank;
    return step == 2 ? 2 : first == (step == 0) ? 0 : 3;
}

static int32_t spread(int64_t step, int64_t token, int64_t k) { return (int32_t)((step + token + k) % 4); }

static bool expert_has_tokens(int64_t step, int64_t expert) {
    return step == 2 ? expert == 2 : expert == 0 || expert == 3;
}

/* Gradients of experts that no token of the world went to are zero; the others' are not. */
static void check_experts(struct rig *rig, int64_t step) {
    for (int64_t l = 0; l < rig->model.shape.L; l++) {
        struct pack *pack = &rig->model.fsdp.unit[1 + l].pack[PACK_OF_EXPERTS];
        real *got = read_all(rig, pack->reduced, pack->shard);
        int64_t first = comm_place(&rig->comm, COMM_EP) * rig->model.shape.local;
        for (int p = 0; p < pack->params; p++)
            for (int64_t e = 0; e < rig->model.shape.local; e++) {
                struct range mine = pack_shard(pack, pack->place);
                struct range here = range_meet(matrix_range(&pack->param[p], e), mine);
                double sum = 0;
                for (int64_t i = here.begin; i < here.end; i++) sum += fabs((double)got[i - mine.begin]);
                assert_true(isfinite(sum));
                assert_true(here.begin == here.end || (sum > 0) == expert_has_tokens(step, first + e));
            }
        free(got);
    }
}

static void experts_without_tokens_get_zero_gradients_and_every_rank_takes_part(void **state) {
    (void)state;
    struct config c = small_config();
    int ep[3], count = meshes(ep);
    c.batch = 1;
    c.top_k = 1;
    tokens_a_rank = c.seq;
    write_routes(&c, 3, to_the_ends);
    for (int i = 0; i < count; i++) {
        struct rig rig;
        ranks_open(&rig, &c, ep[i], true);
        for (int64_t step = 0; step < 3; step++) {
            assert_true(isfinite(rig_gradients(&rig, step)));
            check_experts(&rig, step);
            OK(optim_step(&rig.optim, 1e-2, 1.0));
        }
        rig_close(&rig);
    }
}

static void a_rank_without_targets_takes_part(void **state) {
    (void)state;
    struct config c = small_config();
    const size_t T = (size_t)(c.batch * c.seq);
    int32_t *batch = malloc(2 * T * sizeof *batch);
    struct rig rig;
    assert_non_null(batch);
    write_routes(&c, 1, spread);
    ranks_open(&rig, &c, mpi.world, true);
    rig_batch(&rig, 0, batch, batch + T);
    for (size_t i = 0; i < T && mpi.rank == 1; i++) batch[T + i] = -1;
    rig.routes.step = 1;
    OK(model_sums_clear(&rig.model));
    OK(model_run(&rig.model, MODEL_GRADIENTS, batch, batch + T, (double)T * (mpi.world - 1)));
    OK(optim_squares(&rig.optim));
    OK(model_sums(&rig.model));
    assert_true(isfinite(rig.model.host_sums[0]) && rig.model.host_sums[0] > 0);
    assert_true(isfinite(rig.model.host_sums[1]) && rig.model.host_sums[1] > 0);
    rig_drop_gradients(&rig);
    rig_close(&rig);
    free(batch);
}

/* Step 0 is even, step 1 sends everything to expert 0, the next are even, then random and skewed. */
static int32_t skewed(int64_t step, int64_t token, int64_t k) {
    (void)k;
    if (step == 1) return 0;
    if (step < 10) return (int32_t)(token % 4);
    uint64_t x = ((uint64_t)step << 32 | (uint64_t)token) * 0x9e3779b97f4a7c15u;
    return (x >> 60) < 10 ? (int32_t)(step % 4) : (int32_t)(x >> 40 & 3);
}

static void skewed_routes_are_served_and_memory_does_not_creep(void **state) {
    (void)state;
    enum { SKEWED_STEPS = 40 };
    struct config c = small_config();
    struct weir_pool_stats stats = {.size = sizeof stats};
    struct rig rig;
    size_t live = 0;
    c.layers = 1;
    c.batch = 1;
    c.seq = 64;
    c.top_k = 1;
    strcpy(c.policy, "footprint");
    write_routes(&c, SKEWED_STEPS, skewed);
    ranks_open(&rig, &c, mpi.world, true);
    for (int64_t step = 0; step < SKEWED_STEPS; step++) {
        assert_true(isfinite(rig_step(&rig, step)));
        OK(weir_pool_get_stats(rig.pool, &stats));
        if (step == 0) live = stats.live_bytes;
        if (step == 1) /* all rows of the world are at the first rank */
            assert_int_equal(rig.model.saved[0].dispatch.rows, mpi.rank == 0 ? c.seq * mpi.world : 0);
    }
    assert_int_equal(stats.live_bytes, live);
    assert_true(stats.held_bytes <= stats.peak_live_bytes + stats.peak_live_bytes / 4);
    rig_close(&rig);
}

/* ---- main ------------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_and_any_expert_group_give_the_one_rank_gradients),
        cmocka_unit_test(so_do_odd_sizes),
        cmocka_unit_test(expert_gradients_are_sums_over_tokens_whatever_the_expert_group),
        cmocka_unit_test(the_update_of_split_matrices_is_the_one_rank_update_bit_for_bit),
        cmocka_unit_test(the_norm_counts_every_gradient_once),
        cmocka_unit_test(experts_without_tokens_get_zero_gradients_and_every_rank_takes_part),
        cmocka_unit_test(a_rank_without_targets_takes_part),
        cmocka_unit_test(skewed_routes_are_served_and_memory_does_not_creep),
    };
    rig_soil = true;
    setenv("CMOCKA_TEST_ABORT", "1", 0); /* the other ranks can't go on without this one */
    if (weir_device_open(NULL, &device) != WEIR_OK || comm_open_mpi(&argc, &argv, 1, &mpi) != WEIR_OK) return 1;
    snprintf(routes_path, sizeof routes_path, "/tmp/weir-routes-%ld", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(routes_path);
    mpi.table->close(&mpi);
    weir_device_close(device);
    return failed;
}
