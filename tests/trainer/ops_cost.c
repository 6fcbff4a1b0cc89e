/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that cost and compute nothing: the routes that they make up are real and known to every rank, and nothing
 * else is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trainer/ops.h"

#define OK(call) assert_int_equal(call, WEIR_OK)

enum { T = 96, E = 12, K = 3, L = 2, N = T * K };

static struct ops_routes routes_of(double skew) {
    return (struct ops_routes){.seed = 7, .rank = 1, .T = T, .E = E, .K = K, .L = L, .skew = skew};
}

static void every_token_goes_to_different_experts(void **state) {
    (void)state;
    static const double skews[] = {0, 0.5, 1, 3, 8};
    int32_t ids[N];
    for (size_t i = 0; i < sizeof skews / sizeof *skews; i++) {
        const struct ops_routes r = routes_of(skews[i]);
        for (int64_t number = 0; number < 4; number++) {
            ops_routes_ids(&r, 1, number, ids);
            for (int t = 0; t < T; t++)
                for (int k = 0; k < K; k++) {
                    assert_in_range(ids[t * K + k], 0, E - 1);
                    for (int other = 0; other < k; other++) assert_int_not_equal(ids[t * K + k], ids[t * K + other]);
                }
        }
    }
}

static void counts_are_those_of_the_ids_for_any_rank(void **state) {
    (void)state;
    int32_t ids[N], counts[E], want[E];
    const struct ops_routes r = routes_of(1);
    for (int rank = 0; rank < 3; rank++)
        for (int64_t number = 0; number < 4; number++) {
            memset(want, 0, sizeof want);
            ops_routes_ids(&r, rank, number, ids);
            for (int n = 0; n < N; n++) want[ids[n]]++;
            ops_routes_counts(&r, rank, number, counts);
            assert_memory_equal(counts, want, sizeof want);
        }
}

static int32_t most_of(const struct ops_routes *r, int64_t number) {
    int32_t counts[E], most = 0;
    ops_routes_counts(r, 0, number, counts);
    for (int e = 0; e < E; e++) most = counts[e] > most ? counts[e] : most;
    return most;
}

static void skew_0_is_even_and_more_skew_is_more_uneven(void **state) {
    (void)state;
    const struct ops_routes even = routes_of(0), some = routes_of(0.7), much = routes_of(3);
    assert_int_equal(most_of(&even, 0), N / E);
    assert_int_equal(most_of(&even, 1), N / E);
    assert_true(most_of(&some, 0) > N / E * 5 / 4);
    assert_true(most_of(&much, 0) > most_of(&some, 0));
    assert_true(most_of(&much, 0) <= T);
}

static void layers_ranks_and_seeds_differ_and_a_seed_repeats(void **state) {
    (void)state;
    int32_t a[N], b[N];
    struct ops_routes r = routes_of(1);
    ops_routes_ids(&r, 0, 0, a);
    ops_routes_ids(&r, 0, 0, b);
    assert_memory_equal(a, b, sizeof a);
    ops_routes_ids(&r, 0, 1, b);
    assert_memory_not_equal(a, b, sizeof a);
    ops_routes_ids(&r, 1, 0, b);
    assert_memory_not_equal(a, b, sizeof a);
    r.seed++;
    ops_routes_ids(&r, 0, 0, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* Pinned memory serves as the device's: the operations reach both. */
static void *pinned(struct weir_device *device, size_t bytes) {
    void *block;
    OK(weir_host_alloc(device, bytes, &block));
    memset(block, 0x5a, bytes);
    return block;
}

static void the_device_gets_the_same_routes_in_the_same_order_and_nothing_else(void **state) {
    (void)state;
    struct weir_device *device;
    weir_stream stream;
    struct ops ops;
    struct ops_routes r = routes_of(1);
    int32_t want[N], want_counts[E];
    OK(weir_device_open(NULL, &device));
    OK(weir_stream_create(device, &stream));
    OK(ops_open_cost(device, WIRE_BF16, &r, &ops));
    real *scores = pinned(device, T * E * sizeof *scores), *gates = pinned(device, N * sizeof *gates);
    int32_t *ids = pinned(device, N * sizeof *ids), *order = pinned(device, N * sizeof *order);
    int32_t *slot = pinned(device, N * sizeof *slot), *counts = pinned(device, E * sizeof *counts);
    for (int64_t number = 0; number < 3; number++) {
        OK(ops.table->router_forward(&ops, scores, ids, gates, scores, gates, false, T, E, K, 1, stream));
        OK(ops.table->route_plan(&ops, order, slot, counts, ids, T, E, K, stream));
        OK(weir_stream_synchronize(device, stream));
        ops_routes_ids(&r, r.rank, number, want);
        ops_routes_counts(&r, r.rank, number, want_counts);
        assert_memory_equal(ids, want, sizeof want);
        assert_memory_equal(counts, want_counts, sizeof want_counts);
        for (int n = 0; n < N; n++) assert_int_equal(slot[order[n]], n);
        /* with ids that are there already nothing is drawn */
        OK(ops.table->router_forward(&ops, scores, ids, gates, scores, gates, true, T, E, K, 1, stream));
    }
    for (int i = 0; i < T * E; i++) assert_int_equal(((unsigned char *)scores)[(size_t)i * sizeof *scores], 0x5a);
    for (int i = 0; i < N; i++) assert_int_equal(((unsigned char *)gates)[(size_t)i * sizeof *gates], 0x5a);
    void *const blocks[] = {scores, gates, ids, order, slot, counts};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) OK(weir_host_free(device, blocks[i]));
    OK(weir_stream_destroy(device, stream));
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_goes_to_different_experts),
        cmocka_unit_test(counts_are_those_of_the_ids_for_any_rank),
        cmocka_unit_test(skew_0_is_even_and_more_skew_is_more_uneven),
        cmocka_unit_test(layers_ranks_and_seeds_differ_and_a_seed_repeats),
        cmocka_unit_test(the_device_gets_the_same_routes_in_the_same_order_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
