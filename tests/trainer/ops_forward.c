/* SPDX-License-Identifier: Apache-2.0 */
/* Forward passes in float against plain loops in double: 1e-6 relative, for exact and for bf16 weights; and the float
 * backward of attention and SwiGLU, which use the float exponential, 1e-5. */
#include <math.h>

#include "tests/trainer/ops_fixture.h"
#include "trainer/ops_math.h"

/* `n` random weights as the rig keeps them in `*given`; gives their values. */
static real *random_weights(struct rig *rig, int64_t n, const void **given) {
    real *values = rig_random(rig, n);
    *given = values;
    if (rig->ops.wire == WIRE_REAL) return values;
    uint16_t *narrowed = rig_bytes(rig, (size_t)n * sizeof *narrowed);
    for (int64_t i = 0; i < n; i++) {
        narrowed[i] = bf16_from_float((float)values[i]);
        values[i] = (real)bf16_to_float(narrowed[i]);
    }
    *given = narrowed;
    return values;
}

static double *expected_numbers(int64_t n) { return test_calloc((size_t)n, sizeof(double)); }

static void check_embedding(enum wire wire) {
    enum { T = 6, V = 9, D = 5 };
    struct rig rig;
    rig_open(&rig, wire);
    const void *table;
    real *values = random_weights(&rig, V * D, &table), *out = rig_dirty(&rig, T * D);
    int32_t *ids = rig_integers(&rig, T, V);
    rig_done(&rig, rig.table->embed_forward(&rig.ops, out, table, ids, T, V, D, rig.stream));
    for (int t = 0; t < T; t++)
        for (int i = 0; i < D; i++) assert_true(out[t * D + i] == values[ids[t] * D + i]);
    rig_close(&rig);
}

static void check_rmsnorm(enum wire wire) {
    enum { ROWS = 4, D = 29 };
    struct rig rig;
    rig_open(&rig, wire);
    const void *w;
    real *values = random_weights(&rig, D, &w), *x = rig_random(&rig, ROWS * D), *y = rig_dirty(&rig, ROWS * D);
    real *r = rig_dirty(&rig, ROWS);
    double *expected = expected_numbers(ROWS * D), roots[ROWS];
    for (int t = 0; t < ROWS; t++) {
        roots[t] = 1 / sqrt(dot_double(x + t * D, x + t * D, D) / D + OPS_NORM_EPSILON);
        for (int i = 0; i < D; i++) expected[t * D + i] = (double)x[t * D + i] * roots[t] * (double)values[i];
    }
    rig_done(&rig, rig.table->rmsnorm_forward(&rig.ops, y, r, x, w, ROWS, D, rig.stream));
    assert_near("y", y, expected, ROWS * D, 1e-6);
    assert_near("r", r, roots, ROWS, 1e-6);
    test_free(expected);
    rig_close(&rig);
}

static void check_linear(enum wire wire, bool add) {
    enum { IN = 37, OUT = 19, GROUPS = 4, ROWS = 50 };
    const int64_t offsets[GROUPS + 1] = {0, 13, 13, 40, ROWS};
    struct rig rig;
    rig_open(&rig, wire);
    const void *w;
    real *values = random_weights(&rig, GROUPS * OUT * IN, &w), *x = rig_random(&rig, ROWS * IN);
    real *y = add ? rig_random(&rig, ROWS * OUT) : rig_dirty(&rig, ROWS * OUT);
    double *expected = expected_numbers(ROWS * OUT);
    for (int g = 0; g < GROUPS; g++)
        for (int64_t t = offsets[g]; t < offsets[g + 1]; t++)
            for (int o = 0; o < OUT; o++)
                expected[t * OUT + o] =
                    dot_double(x + t * IN, values + (g * OUT + o) * IN, IN) + (add ? (double)y[t * OUT + o] : 0);
    rig_done(&rig, rig.table->linear_forward(&rig.ops, y, add, x, w, (struct row_groups){GROUPS, offsets}, IN, OUT,
                                             rig.stream));
    assert_near("y", y, expected, ROWS * OUT, 1e-6);
    test_free(expected);
    rig_close(&rig);
}

/* Half-split: pair i is (x[i], x[i + D / 2]). */
static void rope_turns_pairs_by_their_position_in_the_sequence(void **state) {
    (void)state;
    enum { S = 300, T = 2 * S, HEADS = 2, D = 6, N = T * HEADS * D };
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *x = rig_random(&rig, N), *before = rig_dirty(&rig, N);
    double *expected = expected_numbers(N);
    for (int64_t row = 0; row < T * HEADS; row++)
        for (int i = 0; i < D / 2; i++) {
            double angle = (double)(row / HEADS % S) * pow(OPS_ROPE_BASE, -2.0 * i / D);
            double low = (double)x[row * D + i], high = (double)x[row * D + i + D / 2];
            expected[row * D + i] = low * cos(angle) - high * sin(angle);
            expected[row * D + i + D / 2] = high * cos(angle) + low * sin(angle);
        }
    for (int64_t i = 0; i < N; i++) before[i] = x[i];
    rig_done(&rig, rig.table->rope(&rig.ops, x, T, S, HEADS, D, 1, rig.stream));
    assert_near("turned", x, expected, N, 1e-6);
    rig_done(&rig, rig.table->rope(&rig.ops, x, T, S, HEADS, D, -1, rig.stream));
    for (int64_t i = 0; i < N; i++) expected[i] = (double)before[i];
    assert_near("turned back", x, expected, N, 1e-6);
    test_free(expected);
    rig_close(&rig);
}

/* Angles are kept from call to call: a change of D alone, and of S alone, must be seen. */
static void rope_follows_a_change_of_shape(void **state) {
    (void)state;
    enum { WIDEST = 16 };
    const int64_t shapes[][2] = {{4, 2}, {4, 4}, {2, 4}, {4, 4}};
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    for (int64_t shape = 0; shape < COUNT(shapes); shape++) {
        const int64_t rows = shapes[shape][0], width = shapes[shape][1], pairs = width / 2;
        real *x = rig_zeros(&rig, WIDEST);
        double expected[WIDEST] = {0};
        for (int64_t i = 0; i < rows * width; i++) {
            double angle = (double)(i / width) * pow(OPS_ROPE_BASE, -2.0 * (double)(i % pairs) / (double)width);
            expected[i] = i % width < pairs ? cos(angle) : sin(angle);
            x[i] = i % width < pairs;
        }
        rig_done(&rig, rig.table->rope(&rig.ops, x, rows, rows, 1, width, 1, rig.stream));
        assert_near("turned", x, expected, rows * width, 1e-6);
    }
    rig_close(&rig);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { S = 130, T = 2 * S, H = 4, G = 2, D = 8 };

/* Probabilities and log-sum of one query, from their definitions. */
static double probabilities(double *p, const real *q, const real *k, int64_t t, int64_t head) {
    double most = -INFINITY, sum = 0;
    int64_t from = t / S * S;
    for (int64_t j = from; j <= t; j++) {
        p[j - from] = dot_double(q + (t * H + head) * D, k + (j * G + head / (H / G)) * D, D) / sqrt(D);
        most = fmax(most, p[j - from]);
    }
    for (int64_t j = from; j <= t; j++) sum += exp(p[j - from] - most);
    for (int64_t j = from; j <= t; j++) p[j - from] = exp(p[j - from] - most) / sum;
    return most + log(sum);
}

static void attention_is_softmax_over_the_keys_before(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *q = rig_random(&rig, T * H * D), *k = rig_random(&rig, T * G * D), *v = rig_random(&rig, T * G * D);
    real *o = rig_dirty(&rig, T * H * D), *lse = rig_dirty(&rig, T * H);
    for (int64_t i = 0; i < T * H * D; i++) q[i] *= 10; /* peaked */
    double *expected = expected_numbers(T * H * D), *sums = expected_numbers(T * H), p[S];
    for (int64_t t = 0; t < T; t++)
        for (int64_t head = 0; head < H; head++) {
            sums[t * H + head] = probabilities(p, q, k, t, head);
            for (int64_t j = t / S * S; j <= t; j++)
                for (int i = 0; i < D; i++)
                    expected[(t * H + head) * D + i] += p[j - t / S * S] * (double)v[(j * G + head / (H / G)) * D + i];
        }
    rig_done(&rig, rig.table->attention_forward(&rig.ops, o, lse, q, k, v, T, S, H, G, D, rig.stream));
    assert_near("o", o, expected, T * H * D, 5e-6);
    assert_near("lse", lse, sums, T * H, 1e-6);
    test_free(expected), test_free(sums);
    rig_close(&rig);
}

/* Keys behind a query must not matter, not even when they are not numbers. */
static void attention_never_looks_ahead(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *q = rig_random(&rig, T * H * D), *k = rig_random(&rig, T * G * D), *v = rig_random(&rig, T * G * D);
    real *o = rig_dirty(&rig, T * H * D), *other = rig_dirty(&rig, T * H * D), *lse = rig_dirty(&rig, T * H);
    rig_done(&rig, rig.table->attention_forward(&rig.ops, o, lse, q, k, v, T, S, H, G, D, rig.stream));
    const int64_t changed = S / 2; /* inside a block of queries */
    for (int64_t i = changed * G * D; i < (changed + 1) * G * D; i++) k[i] = 3, v[i] = -3;
    rig_done(&rig, rig.table->attention_forward(&rig.ops, other, lse, q, k, v, T, S, H, G, D, rig.stream));
    assert_memory_equal(o, other, (size_t)(changed * H * D) * sizeof *o);
    assert_memory_equal(o + S * H * D, other + S * H * D, (size_t)(S * H * D) * sizeof *o);
    assert_memory_not_equal(o + changed * H * D, other + changed * H * D, (size_t)(H * D) * sizeof *o);
    rig_close(&rig);
}

/* ---- SwiGLU ------------------------------------------------------------------------------------------------------ */

static void swiglu_gates_in_both_directions(void **state) {
    (void)state;
    enum { ROWS = 3, F = 21, N = ROWS * F };
    struct rig rig;
    rig_open(&rig, WIRE_REAL);
    real *a = rig_random(&rig, N), *b = rig_random(&rig, N), *gate = rig_random(&rig, ROWS), *dh = rig_random(&rig, N);
    real *h = rig_dirty(&rig, N), *da = rig_dirty(&rig, N), *db = rig_dirty(&rig, N), *dgate = rig_dirty(&rig, ROWS);
    double *eh = expected_numbers(N), *eda = expected_numbers(N), *edb = expected_numbers(N), edgate[ROWS] = {0};
    for (int64_t i = 0; i < N; i++) a[i] *= 12;
    for (int64_t i = 0; i < N; i++) {
        double x = (double)a[i], s = 1 / (1 + exp(-x)), g = (double)gate[i / F], up = (double)dh[i];
        eh[i] = x * s * (double)b[i] * g;
        eda[i] = up * g * (double)b[i] * s * (1 + x * (1 - s));
        edb[i] = up * g * x * s;
        edgate[i / F] += up * x * s * (double)b[i];
    }
    rig_done(&rig, rig.table->swiglu_forward(&rig.ops, h, a, b, gate, ROWS, F, rig.stream));
    rig_done(&rig, rig.table->swiglu_backward(&rig.ops, da, db, dgate, dh, a, b, gate, ROWS, F, rig.stream));
    assert_near("h", h, eh, N, 1e-6);
    assert_near("da", da, eda, N, 1e-5), assert_near("db", db, edb, N, 1e-5),
        assert_near("dgate", dgate, edgate, ROWS, 1e-5);
    test_free(eh), test_free(eda), test_free(edb);
    rig_close(&rig);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void rows_travel_in_either_type(void **state) {
    (void)state;
    enum { ROWS_T = 3, K = 2, N = 6, WIDTH = 4 };
    struct rig rig;
    rig_open(&rig, WIRE_BF16);
    real *x = rig_random(&rig, ROWS_T * WIDTH), *back = rig_dirty(&rig, ROWS_T * WIDTH);
    int32_t *order = rig_ids(&rig, N, (const int32_t[N]){5, 0, 2, 4, 1, 3});
    int32_t *slot = rig_ids(&rig, N, (const int32_t[N]){1, 4, 2, 5, 3, 0});
    uint16_t *sent = rig_bytes(&rig, N * WIDTH * sizeof *sent);
    rig_done(&rig,
             rig.table->rows_gather(&rig.ops, sent, WIRE_BF16, x, WIRE_REAL, order, K, N, ROWS_T, WIDTH, rig.stream));
    for (int64_t n = 0; n < N; n++)
        for (int i = 0; i < WIDTH; i++)
            assert_int_equal(sent[n * WIDTH + i], bf16_from_float((float)x[order[n] / K * WIDTH + i]));
    for (int64_t i = 0; i < ROWS_T * WIDTH; i++) back[i] = 1;
    rig_done(&rig,
             rig.table->rows_combine(&rig.ops, back, true, sent, WIRE_BF16, slot, ROWS_T, K, N, WIDTH, rig.stream));
    for (int64_t i = 0; i < ROWS_T * WIDTH; i++) {
        real one = (real)bf16_to_float(bf16_from_float((float)x[i])); /* both copies of a token's row come back */
        assert_true(back[i] == 1 + one + one);
    }
    rig_close(&rig);
}

static void layers_match_plain_loops(void **state) {
    (void)state;
    check_embedding(WIRE_REAL);
    check_rmsnorm(WIRE_REAL);
    check_linear(WIRE_REAL, false);
    check_linear(WIRE_REAL, true);
}

static void layers_with_bf16_weights_match_plain_loops(void **state) {
    (void)state;
    check_embedding(WIRE_BF16);
    check_rmsnorm(WIRE_BF16);
    check_linear(WIRE_BF16, false);
    check_linear(WIRE_BF16, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_match_plain_loops),
        cmocka_unit_test(layers_with_bf16_weights_match_plain_loops),
        cmocka_unit_test(rope_turns_pairs_by_their_position_in_the_sequence),
        cmocka_unit_test(rope_follows_a_change_of_shape),
        cmocka_unit_test(attention_is_softmax_over_the_keys_before),
        cmocka_unit_test(attention_never_looks_ahead),
        cmocka_unit_test(swiglu_gates_in_both_directions),
        cmocka_unit_test(rows_travel_in_either_type),
    };
    return cmocka_run_group_tests_name("trainer ops: forward", tests, NULL, NULL);
}
