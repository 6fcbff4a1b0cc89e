/* SPDX-License-Identifier: Apache-2.0 */
/* A host that runs ahead of the device gets its buffers in order: gather buffers that a second stream uses do not pile
 * up, a second pass takes nothing from the driver, and each layer finds its own bytes. */
#include "tests/alloc/cases/scene.h"

enum { LAYERS = 16, PASSES = 3 };

static weir_stream s0, sc;
static weir_event gathered, reduced;

static unsigned char pattern_of(int pass, int layer) { return (unsigned char)(pass * LAYERS + layer + 1); }

/* What one layer does with a buffer of so many bytes. */
typedef void layer_fn(struct weir_pool *pool, size_t bytes, unsigned char pattern);

/* Gathered on sc, read by s0, freed on sc. */
static void gather(struct weir_pool *pool, size_t bytes, unsigned char pattern) {
    void *g = alloc(pool, bytes, sc);
    queue_fill(sc, g, bytes, pattern);
    OK(weir_event_record(test_device(), gathered, sc));
    OK(weir_stream_wait(test_device(), s0, gathered));
    OK(weir_pool_note(pool, g, s0));
    queue_check(s0, g, bytes, pattern);
    OK(weir_pool_free(pool, g, sc));
}

/* The same, with the free naming the reader. */
static void gather_and_free_on_the_reader(struct weir_pool *pool, size_t bytes, unsigned char pattern) {
    void *g = alloc(pool, bytes, sc);
    queue_fill(sc, g, bytes, pattern);
    OK(weir_event_record(test_device(), gathered, sc));
    OK(weir_stream_wait(test_device(), s0, gathered));
    queue_check(s0, g, bytes, pattern);
    OK(weir_pool_free(pool, g, s0));
}

/* A gradient of s0 that sc scatters, freed after the event that says so. */
static void scatter(struct weir_pool *pool, size_t bytes, unsigned char pattern) {
    void *g = alloc(pool, bytes, s0);
    queue_fill(s0, g, bytes, pattern);
    OK(weir_event_record(test_device(), gathered, s0));
    OK(weir_stream_wait(test_device(), sc, gathered));
    queue_check(sc, g, bytes, pattern);
    OK(weir_event_record(test_device(), reduced, sc));
    OK(weir_pool_free_after(pool, g, reduced));
}

static layer_fn *layer_of_case;
static size_t (*bytes_of_layer)(int layer);
static weir_stream held_back;
static bool opens_when_it_waits; /* else the host never waits, and opens the gate after the first pass */

static size_t even(int layer) {
    (void)layer;
    return 64 * MIB;
}
/* Experts' shards differ: 37 to 64 MiB, and no two layers alike. */
static size_t uneven(int layer) { return 64 * MIB - (size_t)((layer * 7) % LAYERS) * 1800 * 8; }

static void run_ahead(struct weir_pool *pool) {
    struct gate *gate = put_gate(held_back);
    struct opener *opener = opens_when_it_waits ? open_once_it_waits(pool, gate) : NULL;
    uint64_t calls = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        if (pass == 1) calls = stats_of(pool).memory_calls;
        for (int layer = 0; layer < LAYERS; layer++)
            layer_of_case(pool, bytes_of_layer(layer), pattern_of(pass, layer));
        if (pass > 0) continue;
        if (opener != NULL)
            join_opener(opener);
        else
            open_gate(gate);
    }
    OK(weir_device_synchronize(test_device()));
    struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.out_of_memory, 0);
    assert_true(stats.peak_held_bytes <= 256 * MIB);
    if (bytes_of_layer == even) assert_int_equal(stats.memory_calls, calls); /* none after the first pass */
}

static void run_case(layer_fn *layer, size_t (*bytes)(int), weir_stream held, bool opens) {
    layer_of_case = layer, bytes_of_layer = bytes, held_back = held, opens_when_it_waits = opens;
    with_shared_pools(256 * MIB, run_ahead);
}

static void gather_buffers_that_compute_reads(void **state) {
    (void)state;
    run_case(gather, even, s0, true);
}

static void gather_buffers_that_are_freed_by_compute(void **state) {
    (void)state;
    run_case(gather_and_free_on_the_reader, even, s0, true);
}

static void gradients_that_the_side_stream_scatters(void **state) {
    (void)state;
    run_case(scatter, even, sc, true);
}

static void buffers_of_uneven_sizes(void **state) {
    (void)state;
    run_case(gather, uneven, s0, true);
    run_case(scatter, uneven, sc, true);
}

/* Nothing that the host does depends on the device here: the gate opens only after the whole first pass was queued. */
static void the_host_never_waits(void **state) {
    (void)state;
    run_case(gather, even, s0, false);
    run_case(scatter, even, sc, false);
}

/* The footprint policy makes the side stream wait for compute at once, in place of taking more. */
static void three_buffers_are_enough(void **state) {
    (void)state;
    layer_fn *const layers[] = {gather, gather_and_free_on_the_reader, scatter};
    for (int i = 0; i < 3; i++) {
        struct weir_pool *pool = open_case(WEIR_POLICY_FOOTPRINT, 256 * MIB);
        layer_of_case = layers[i], bytes_of_layer = even, held_back = layers[i] == scatter ? sc : s0;
        opens_when_it_waits = false;
        run_ahead(pool);
        assert_int_equal(stats_of(pool).host_waits, 0);
        assert_true(stats_of(pool).peak_held_bytes <= 3 * 64 * MIB);
        assert_int_equal(wrong_bytes(), 0);
        close_pool(pool);
    }
}

/* The device is not behind at all: what was used is seen to be complete, and one buffer goes round. */
static void a_host_that_waits_for_each_layer_needs_one_or_two(void **state) {
    (void)state;
    struct weir_pool *pool = open_case(WEIR_POLICY_LATENCY, 256 * MIB);
    for (int layer = 0; layer < LAYERS; layer++) {
        gather(pool, 64 * MIB, pattern_of(0, layer));
        OK(weir_device_synchronize(test_device()));
    }
    assert_true(stats_of(pool).peak_held_bytes <= 2 * 64 * MIB);
    assert_int_equal(wrong_bytes(), 0);
    close_pool(pool);
}

static int open_streams(void **state) {
    (void)state;
    s0 = new_stream();
    sc = new_stream();
    OK(weir_event_create(test_device(), false, &gathered));
    OK(weir_event_create(test_device(), false, &reduced));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_buffers_that_compute_reads),
        cmocka_unit_test(gather_buffers_that_are_freed_by_compute),
        cmocka_unit_test(gradients_that_the_side_stream_scatters),
        cmocka_unit_test(buffers_of_uneven_sizes),
        cmocka_unit_test(the_host_never_waits),
        cmocka_unit_test(three_buffers_are_enough),
        cmocka_unit_test(a_host_that_waits_for_each_layer_needs_one_or_two),
    };
    return cmocka_run_group_tests_name("a_host_that_runs_ahead_keeps_its_bounds", tests, open_streams, NULL);
}
