/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON report tells what docs/report.md says, of a run that ends well and of one that runs out of memory. */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"
#include "trainer/report.h"

#define SMALL "--dim=32", "--ffn=32", "--layers=2", "--seq=32", "--loss-chunk=32", "--eval-batches=1"

static struct spawned s;
static char json[80], flag[96];

static int open_files(void **state) {
    int failed = spawn_text_write(state);
    snprintf(json, sizeof json, "%s.json", spawn_text);
    snprintf(flag, sizeof flag, "--json=%s", json);
    return failed;
}

static int remove_files(void **state) {
    unlink(json);
    return spawn_text_remove(state);
}

static json_t *report(void) {
    json_error_t error;
    json_t *root = json_load_file(json, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s: %s", json, error.text);
    unlink(json);
    return root;
}

static json_int_t integer(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

static void has_keys(json_t *object, const char *const *keys) {
    size_t count = 0;
    for (; keys[count]; count++)
        if (!json_object_get(object, keys[count])) fail_msg("key %s is missing", keys[count]);
    assert_int_equal(json_object_size(object), count);
}

static void check_timeline(json_t *timeline, size_t streams) {
    json_t *samples = json_object_get(timeline, "samples"), *row;
    double before = -1;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(timeline, "streams")), streams);
    assert_in_range(json_array_size(samples), 2, 2000);
    json_array_foreach(samples, i, row) {
        assert_int_equal(json_array_size(row), 2 + 2 * streams);
        assert_true(json_real_value(json_array_get(row, 0)) >= before);
        before = json_real_value(json_array_get(row, 0));
    }
}

static void a_completed_run_tells_all_that_is_documented(void **state) {
    (void)state;
    static const char *const top[] = {"program",      "version", "name",       "device",    "device_name",
                                      "profile",      "clock",   "emulator",   "world",     "ep",
                                      "parameters",   "config",  "data",       "outcome",   "failed_step",
                                      "failed_rank",  "message", "first_loss", "last_loss", "validation_loss",
                                      "tokens_per_s", "steps",   "ranks",      NULL};
    static const char *const of_rank[] = {"rank", "stats", "streams", "refusal", "offload", "timeline", NULL};
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--steps=3", flag, "--timeline", "--offload", "--name=a run", SMALL);
    ASSERT_STATUS(&s, 0);
    json_t *root = report(), *ranks = json_object_get(root, "ranks"), *one, *steps = json_object_get(root, "steps");
    size_t i;
    has_keys(root, top);
    assert_string_equal(json_string_value(json_object_get(root, "outcome")), "completed");
    assert_string_equal(json_string_value(json_object_get(root, "name")), "a run");
    assert_string_equal(json_string_value(json_object_get(root, "device")), "emulated");
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "data"), "path")), spawn_text);
    assert_int_equal(integer(json_object_get(root, "config"), "seq"), 32);
    assert_true(json_is_null(json_object_get(root, "failed_step")) && json_is_null(json_object_get(root, "message")));
    assert_true(json_is_real(json_object_get(root, "validation_loss")));
    assert_int_equal(json_array_size(steps), 3);
    one = json_array_get(steps, 1);
#define HAS_CAUSE(name, what) assert_true(json_is_real(json_object_get(one, #name)));
    STEP_CAUSES(HAS_CAUSE)
#undef HAS_CAUSE
    assert_true(json_is_null(json_object_get(one, "validation_loss")));
    assert_int_equal(integer(one, "tokens"), 4 * 2 * 32);
    assert_int_equal(json_array_size(ranks), 4);
    json_array_foreach(ranks, i, one) {
        has_keys(one, of_rank);
        assert_int_equal(integer(one, "rank"), i);
        assert_true(json_is_null(json_object_get(one, "refusal")));
        assert_true(integer(json_object_get(one, "offload"), "fetches") > 0);
        assert_true(integer(json_object_get(one, "stats"), "peak_live_bytes") > 0);
        check_timeline(json_object_get(one, "timeline"), json_array_size(json_object_get(one, "streams")));
    }
    json_decref(root);
}

static int count_of(const char *where, const char *what) {
    int count = 0;
    for (; (where = strstr(where, what)); where++) count++;
    return count;
}

/* On a device 5 % below what the job needs. */
static void a_run_out_of_memory_tells_who_asked_and_what_filled_the_device(void **state) {
    (void)state;
    char capacity[64];
    json_int_t peak = 0;
    json_t *one;
    size_t i;
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--steps=1", flag, SMALL);
    ASSERT_STATUS(&s, 0);
    json_t *root = report();
    json_array_foreach(json_object_get(root, "ranks"), i, one) {
        json_int_t live = integer(json_object_get(one, "stats"), "peak_live_bytes");
        if (live > peak) peak = live;
    }
    json_decref(root);
    snprintf(capacity, sizeof capacity, "--capacity=%lld", (long long)(peak * 95 / 100));
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--steps=1", flag, capacity, SMALL);
    ASSERT_STATUS(&s, 3);
    assert_int_equal(count_of(s.err_text, "weir-train: "), 1);
    assert_int_equal(count_of(s.err_text, "what to try"), 1);
    root = report();
    assert_string_equal(json_string_value(json_object_get(root, "outcome")), "out_of_memory");
    assert_int_equal(integer(root, "failed_step"), 1);
    one = json_array_get(json_object_get(root, "ranks"), (size_t)integer(root, "failed_rank"));
    json_t *refusal = json_object_get(one, "refusal");
    assert_true(json_is_string(json_object_get(refusal, "stream")) && json_is_string(json_object_get(root, "message")));
    assert_int_equal(integer(refusal, "live_bytes") + integer(refusal, "idle_asker_bytes") +
                         integer(refusal, "idle_others_bytes") + integer(refusal, "moving_bytes") +
                         integer(refusal, "unmapped_bytes") + integer(refusal, "untaken_bytes") +
                         integer(refusal, "others_bytes") + integer(refusal, "above_limit_bytes"),
                     integer(refusal, "capacity_bytes"));
    assert_null(json_object_get(one, "pool_report"));
    json_decref(root);
}

static void a_device_too_small_for_the_sharded_state_is_bad_input(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--steps=1", "--capacity=64K", SMALL);
    ASSERT_STATUS(&s, 2);
    assert_int_equal(count_of(s.err_text, "weir-train: "), 1);
    ASSERT_SAYS(&s, err, "too small");
}

static void a_report_that_is_not_written_is_a_failure(void **state) {
    (void)state;
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, "--steps=1", "--json=/dev/full", SMALL);
    ASSERT_STATUS(&s, 1);
    assert_string_equal(s.err_text, "weir-train: --json /dev/full can't be written: No space left on device\n");
}

/* Of one rank, and of two, whose lines the launcher passes on. The run goes on, and its report is written. */
static void lines_that_can_not_be_printed_are_a_failure_at_the_end(void **state) {
    (void)state;
    static char *const ranks[] = {"--ranks=1", "--ranks=2"};
    for (size_t i = 0; i < 2; i++) {
        SPAWN(&s, "/bin/sh", "-c", "\"$0\" \"$@\" >&-", WEIR_TRAIN, "--data", spawn_text, "--steps=1", "--ep=1", flag,
              SMALL, ranks[i]);
        ASSERT_STATUS(&s, 1);
        ASSERT_SAYS(&s, err, "weir-train: standard output can't be written");
        json_t *root = report();
        assert_string_equal(json_string_value(json_object_get(root, "outcome")), "completed");
        json_decref(root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_completed_run_tells_all_that_is_documented),
        cmocka_unit_test(a_run_out_of_memory_tells_who_asked_and_what_filled_the_device),
        cmocka_unit_test(a_device_too_small_for_the_sharded_state_is_bad_input),
        cmocka_unit_test(a_report_that_is_not_written_is_a_failure),
        cmocka_unit_test(lines_that_can_not_be_printed_are_a_failure_at_the_end),
    };
    return cmocka_run_group_tests(tests, open_files, remove_files);
}
