/* SPDX-License-Identifier: Apache-2.0 */
/* weir-train with ranks as threads of one process: the same losses as over MPI, the same run again from the same seed,
 * and runs in which only time passes. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"

#define SMALL                                                                                                          \
    "--dim=32", "--ffn=32", "--layers=3", "--seq=32", "--eval-every=2", "--eval-batches=1", "--loss-chunk=32",         \
        "--no-progress", "--steps=3", "--host-budget=8M"

static struct spawned s;
static char report_path[64], other_path[64];

static int open_paths(void **state) {
    snprintf(report_path, sizeof report_path, "/tmp/weir-local-%ld.json", (long)getpid());
    snprintf(other_path, sizeof other_path, "/tmp/weir-local-%ld.routes", (long)getpid());
    return spawn_text_write(state);
}

static int close_paths(void **state) {
    unlink(report_path);
    unlink(other_path);
    return spawn_text_remove(state);
}

/* Runs weir-train on `machine` (as in WEIR_EMU; NULL: as it is) with some more arguments. */
static void train(const char *machine, char *one, char *two, char *three) {
    char kept[256] = "", watched[256];
    const char *before = getenv("WEIR_EMU");
    if (before) snprintf(kept, sizeof kept, "%s", before);
    snprintf(watched, sizeof watched, "%s,watch:abort", machine ? machine : "");
    if (machine) setenv("WEIR_EMU", watched, 1);
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, SMALL, "--json", report_path, one, two, three);
    if (before)
        setenv("WEIR_EMU", kept, 1);
    else
        unsetenv("WEIR_EMU");
}

static json_t *read_report(void) {
    json_error_t error;
    json_t *report = json_load_file(report_path, 0, &error);
    assert_non_null(report);
    return report;
}

static json_t *report_of(const char *machine, char *one, char *two, char *three) {
    train(machine, one, two, three);
    ASSERT_STATUS(&s, 0);
    return read_report();
}

/* A step's number, 17 figures of it: equal when the bits are. */
static double of_step(const json_t *report, size_t step, const char *key) {
    return json_number_value(json_object_get(json_array_get(json_object_get(report, "steps"), step), key));
}

static size_t steps_of(const json_t *report) { return json_array_size(json_object_get(report, "steps")); }

static void same_in_all_steps(const json_t *a, const json_t *b, const char *key) {
    assert_int_equal(steps_of(a), 3);
    assert_int_equal(steps_of(b), 3);
    for (size_t step = 0; step < 3; step++)
        if (of_step(a, step, key) != of_step(b, step, key))
            fail_msg("%s of step %zu: %.17g and %.17g", key, step + 1, of_step(a, step, key), of_step(b, step, key));
}

static void threads_give_the_bits_that_processes_give_under_both_clocks(void **state) {
    (void)state;
    static const char *const machines[] = {"clock:real", "clock:virtual", "clock:virtual,seed:4"};
    static const char *const keys[] = {"loss", "validation_loss", "gradient_norm", "expert_load", "wire_bytes"};
    json_t *processes = report_of(NULL, "--offload", "--ranks=4", "--comm=mpi");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        json_t *threads = report_of(machines[i], "--offload", "--ranks=4", "--comm=local");
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) same_in_all_steps(processes, threads, keys[k]);
        json_decref(threads);
    }
    assert_true(of_step(processes, 2, "loss") > 1);
    json_decref(processes);
}

static void the_same_seed_gives_the_same_report_and_another_seed_another(void **state) {
    (void)state;
    json_t *a = report_of("clock:virtual,seed:8", "--offload", "--comm=local", "--ops=cost");
    json_t *b = report_of("clock:virtual,seed:8", "--offload", "--comm=local", "--ops=cost");
    json_t *c = report_of("clock:virtual,seed:9", "--offload", "--comm=local", "--ops=cost");
    assert_true(json_equal(a, b));
    json_object_del(a, "emulator"); /* which holds the seed */
    json_object_del(c, "emulator");
    assert_false(json_equal(a, c));
    json_decref(a);
    json_decref(b);
    json_decref(c);
}

static void the_report_says_what_the_run_can_be_repeated_from(void **state) {
    (void)state;
    json_t *report = report_of("clock:virtual,seed:7,jitter:0.25,law:range,memory:unbacked,capacity:48M",
                               "--comm=local", "--ops=cost", "--ranks=2");
    const json_t *emulator = json_object_get(report, "emulator");
    ASSERT_SAYS(&s, out, "virtual clock (seed 7, jitter 0.25, law range)");
    assert_int_equal(json_integer_value(json_object_get(emulator, "seed")), 7);
    assert_true(json_real_value(json_object_get(emulator, "jitter")) == 0.25);
    assert_string_equal(json_string_value(json_object_get(emulator, "law")), "range");
    assert_string_equal(json_string_value(json_object_get(emulator, "memory")), "unbacked");
    assert_int_equal(json_integer_value(json_object_get(emulator, "capacity_bytes")), 48 << 20);
    json_decref(report);
}

static void with_ops_cost_nothing_is_computed_but_time_passes(void **state) {
    (void)state;
    json_t *report = report_of("clock:virtual,capacity:1G", "--comm=local", "--ops=cost", "--profile=gh200");
    ASSERT_SAYS(&s, out, "all times are those of the virtual clock");
    ASSERT_SAYS(&s, out, "nothing is computed: losses and norms are 0");
    assert_string_equal(json_string_value(json_object_get(report, "clock")), "virtual");
    for (size_t step = 0; step < 3; step++) {
        assert_true(of_step(report, step, "loss") == 0);
        assert_true(of_step(report, step, "seconds") > 1e-4);
        assert_true(of_step(report, step, "wire_bytes") > 0);
        assert_true(of_step(report, step, "expert_load") > 1.1); /* skewed */
    }
    json_decref(report);
    report = report_of("clock:virtual", "--comm=local", "--ops=cost", "--skew=0");
    assert_true(of_step(report, 0, "expert_load") == 1);
    json_decref(report);
}

static void slower_links_take_longer(void **state) {
    (void)state;
    json_t *one_host = report_of("clock:virtual", "--comm=local", "--ops=cost", "--ep=4");
    json_t *four_hosts = report_of("clock:virtual", "--comm=local", "--ops=cost", "--ep=1");
    assert_true(of_step(one_host, 2, "weights_ms") < of_step(four_hosts, 2, "weights_ms"));
    json_decref(one_host);
    json_decref(four_hosts);
}

/* The counts that sizes depend on come from the file, through the exchange. */
static void recorded_routes_are_replayed_without_arithmetic(void **state) {
    (void)state;
    char save[96], replay[96];
    snprintf(save, sizeof save, "--routes-save=%s", other_path);
    snprintf(replay, sizeof replay, "--routes-replay=%s", other_path);
    json_t *computed = report_of("clock:virtual", "--comm=local", save, "--ranks=4");
    json_t *costed = report_of("clock:virtual", "--comm=local", replay, "--ops=cost");
    same_in_all_steps(computed, costed, "expert_load");
    for (size_t step = 0; step < 2; step++) /* the third counts what the validation after the second sent, too */
        assert_true(of_step(computed, step, "wire_bytes") == of_step(costed, step, "wire_bytes"));
    json_decref(computed);
    json_decref(costed);
}

static void memory_that_is_addresses_only_is_enough_for_ops_cost_alone(void **state) {
    (void)state;
    json_t *with = report_of("clock:virtual,memory:backed", "--offload", "--comm=local", "--ops=cost");
    json_t *without = report_of("clock:virtual,memory:unbacked", "--offload", "--comm=local", "--ops=cost");
    assert_true(json_equal(json_object_get(with, "steps"), json_object_get(without, "steps")));
    json_decref(with);
    json_decref(without);
    train("clock:virtual,memory:unbacked", "--comm=local", "--ops=cpu", "--ranks=2");
    ASSERT_STATUS(&s, 2);
    ASSERT_SAYS(&s, err, "memory is addresses only");
}

static void out_of_memory_on_a_thread_ends_all_with_3(void **state) {
    (void)state;
    static const char *const machines[] = {"clock:real", "clock:virtual"};
    for (size_t i = 0; i < 2; i++) {
        train(machines[i], "--comm=local", "--ranks=4", "--limit=640K");
        ASSERT_STATUS(&s, 3);
        ASSERT_SAYS(&s, err, "weir-train: rank ");
        ASSERT_SAYS(&s, err, "in step 1: ");
    }
}

static void what_cannot_be_is_refused_in_one_sentence(void **state) {
    (void)state;
    train(NULL, "--comm=local", "--ranks=66", "--ep=1");
    ASSERT_STATUS(&s, 2);
    ASSERT_SAYS(&s, err, "--comm=local starts at most 64 ranks in one process; --ranks is 66");
    train(NULL, "--comm=local", "--ops=cuda", "--ranks=2");
    ASSERT_STATUS(&s, 2);
    ASSERT_SAYS(&s, err, "--ops=cuda needs a GPU");
    train("clock:virtual", "--comm=mpi", "--ranks=2", "--ep=1");
    ASSERT_STATUS(&s, 1);
    ASSERT_SAYS(&s, err, "give --comm=local");
    train(NULL, "--comm=lokal", "--ranks=2", "--ep=1");
    ASSERT_STATUS(&s, 2);
    ASSERT_SAYS(&s, err, "auto|mpi|nccl|local");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_give_the_bits_that_processes_give_under_both_clocks),
        cmocka_unit_test(the_same_seed_gives_the_same_report_and_another_seed_another),
        cmocka_unit_test(the_report_says_what_the_run_can_be_repeated_from),
        cmocka_unit_test(with_ops_cost_nothing_is_computed_but_time_passes),
        cmocka_unit_test(slower_links_take_longer),
        cmocka_unit_test(recorded_routes_are_replayed_without_arithmetic),
        cmocka_unit_test(memory_that_is_addresses_only_is_enough_for_ops_cost_alone),
        cmocka_unit_test(out_of_memory_on_a_thread_ends_all_with_3),
        cmocka_unit_test(what_cannot_be_is_refused_in_one_sentence),
    };
    return cmocka_run_group_tests(tests, open_paths, close_paths);
}
