/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: a report is read whole, and one that is not as it should be ends in a sentence that names the field. */
#include "tests/tools/demo/fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void a_report_is_read_whole(void **state) {
    (void)state;
    struct run run = fixture_run("run_out_of_memory.json", "x");
    assert_string_equal(run.policy, "per-stream");
    assert_false(run.offload);
    assert_int_equal(run.batch, 8);
    assert_int_equal(run.steps_asked, 3);
    assert_int_equal(run.outcome, RUN_OUT_OF_MEMORY);
    assert_int_equal(run.failed_step, 2);
    assert_int_equal(run.failed_rank, 1);
    assert_string_equal(run.data_path, "build/data/kjv.txt");
    assert_int_equal(run.data_bytes, 4404412);
    assert_int_equal(run.step_count, 1);
    assert_true(run.losses[0] == 5.5);
    assert_int_equal(run.peak_live[0], 90 * MIB);
    assert_int_equal(run.rank_count, 2);
    const struct rank_figures *rank = &run.ranks[1];
    assert_true(rank->refused);
    assert_string_equal(rank->refusal.stream, "compute");
    assert_int_equal(rank->refusal.idle_others_bytes, 16 * MIB);
    assert_int_equal(rank->timeline.stream_count, 2);
    assert_int_equal(rank->timeline.sample_count, 5);
    assert_int_equal(rank->timeline.samples[4].bytes[3], 16 * MIB);
    assert_int_equal(run.ranks[0].timeline.sample_count, 0);
    run_free(&run);
}

static void what_was_not_measured_is_not_a_number(void **state) {
    (void)state;
    json_t *json = fixture_json("run_completed.json");
    char message[DEMO_MESSAGE_ROOM];
    struct run run;
    json_object_set_new(json, "tokens_per_s", json_null());
    json_object_del(json, "last_loss");
    json_object_set_new(json, "profile", json_null());
    assert_true(run_read(&run, json, message));
    assert_true(isnan(run.tokens_per_s) && isnan(run.last_loss) && isnan(run.min_capacity_ratio));
    assert_string_equal(run.profile, "");
    assert_int_equal(run.failed_step, DEMO_UNKNOWN);
    run_free(&run);
    json_decref(json);
}

/* Each case puts a value at a place of run_out_of_memory.json; the sentence must have both parts in it. */
static const struct hostile_case {
    const char *path, *value, *says, *also;
} hostile[] = {
    {"outcome", "\"fine\"", "outcome is \"fine\"", "completed, out_of_memory or failed"},
    {"outcome", "7", "outcome is an integer", "expected text"},
    {"config", "[]", "config is a list", "expected an object"},
    {"config.batch", "\"8\"", "config.batch is text", "expected an integer"},
    {"config.batch", "0", "config.batch is 0", "expected 1 to"},
    {"config.offload", "\"off\"", "config.offload is text", "true or false"},
    {"config.steps", "-1", "config.steps is -1", "expected 0 to"},
    {"data.bytes", "1.5", "data.bytes is a number", "expected an integer"},
    {"ranks", "[]", "ranks is empty", "an entry a rank"},
    {"ranks", "{}", "ranks is an object", "expected a list"},
    {"ranks.1", "3", "ranks[1].rank is missing", "expected an integer"},
    {"ranks.1.stats.peak_live_bytes", "-1", "ranks[1].stats.peak_live_bytes is -1", "bytes"},
    {"ranks.0.stats.capacity_bytes", "0", "ranks[0].stats.capacity_bytes is 0", "memory"},
    {"ranks.1.streams.0.name", "null", "ranks[1].streams[0].name is null", "expected text"},
    {"ranks.1.refusal.idle_others_bytes", "\"16\"", "ranks[1].refusal.idle_others_bytes is text",
     "expected an integer"},
    {"ranks.1.timeline.samples.2", "[1, 2, 3]", "timeline.samples[2] is not a list of 6 numbers", "ranks[1]"},
    {"ranks.1.timeline.samples.2", "[11, 1, 2, 3, 4, -5]", "timeline.samples[2] has an integer in column 5", "bytes"},
    {"ranks.1.timeline.samples.2", "[\"x\", 1, 2, 3, 4, 5]", "timeline.samples[2] does not start with a time", "step"},
    {"ranks.1.timeline.samples.2", "[0.5, 1, 2, 3, 4, 5]", "timeline.samples[2] is at 0.500 ms",
     "before the one above"},
    {"ranks.1.timeline.samples.2", "[1e300, 1, 2, 3, 4, 5]", "timeline.samples[2] is at 1e+300 ms", "expected 0"},
    {"ranks.1.timeline.streams.1", "{}", "timeline.streams[1] is an object", "expected text"},
    {"steps.0.live_bytes", "true", "steps[0].live_bytes is true", "expected an integer"},
    {"steps.0.loss", "\"nan\"", "steps[0].loss is text", "expected a number"},
};

/* The object or list that holds the last part of a path like "ranks.1.stats"; *last is that part. */
static json_t *holder(json_t *json, const char *path, char last[64]) {
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(last, 64, "%.*s", (int)(dot - path), path);
        json = json_is_array(json) ? json_array_get(json, (size_t)(last[0] - '0')) : json_object_get(json, last);
        assert_non_null(json);
    }
    snprintf(last, 64, "%s", path);
    return json;
}

static void a_wrong_field_is_named_with_what_was_expected(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        char last[64], message[DEMO_MESSAGE_ROOM] = "";
        struct run run;
        json_t *json = fixture_json("run_out_of_memory.json"), *in = holder(json, hostile[i].path, last);
        json_t *value = json_loads(hostile[i].value, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        if (json_is_array(in))
            json_array_set_new(in, (size_t)(last[0] - '0'), value);
        else
            json_object_set_new(in, last, value);
        assert_false(run_read(&run, json, message));
        if (!strstr(message, hostile[i].says) || !strstr(message, hostile[i].also))
            fail_msg("%s = %s: \"%s\"", hostile[i].path, hostile[i].value, message);
        assert_int_equal(run.rank_count, 0);
        run_free(&run);
        json_decref(json);
    }
}

/* Puts each of several values in each place, one after the other; whatever happens must be an answer or a sentence. */
static size_t try_all_places(json_t *root, json_t *at, json_t *value) {
    size_t tried = 0;
    json_t *child;
    if (json_is_object(at)) {
        void *next;
        const char *key;
        json_object_foreach_safe(at, next, key, child) {
            tried += try_all_places(root, child, value);
            json_incref(child);
            json_object_set(at, key, value);
            char message[DEMO_MESSAGE_ROOM] = "";
            struct run run;
            if (!run_read(&run, root, message)) assert_true(strlen(message) > 10);
            run_free(&run);
            json_object_set_new(at, key, child);
            tried++;
        }
    }
    size_t index;
    json_array_foreach(at, index, child) {
        tried += try_all_places(root, child, value);
        json_incref(child);
        json_array_set(at, index, value);
        char message[DEMO_MESSAGE_ROOM] = "";
        struct run run;
        if (!run_read(&run, root, message)) assert_true(strlen(message) > 10);
        run_free(&run);
        json_array_set_new(at, index, child);
        tried++;
    }
    return tried;
}

static void no_value_anywhere_breaks_the_reader(void **state) {
    (void)state;
    static const char *const values[] = {"null", "-1", "\"\"", "[]", "{}", "9223372036854775807", "1e300", "[[[]]]"};
    json_t *json = fixture_json("run_out_of_memory.json");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        json_t *value = json_loads(values[i], JSON_DECODE_ANY, NULL);
        assert_true(try_all_places(json, json, value) > 100);
        json_decref(value);
    }
    json_decref(json);
}

static void a_report_that_is_no_object_is_refused(void **state) {
    (void)state;
    char message[DEMO_MESSAGE_ROOM];
    struct run run;
    json_t *list = json_array();
    assert_false(run_read(&run, list, message));
    assert_string_equal(message, "the report is a list, expected an object");
    assert_false(run_read(&run, NULL, message));
    json_decref(list);
}

static void a_missing_file_and_a_cut_one_are_named(void **state) {
    (void)state;
    char message[DEMO_MESSAGE_ROOM], path[] = "/tmp/weir-demo-read-XXXXXX";
    struct run run;
    assert_false(run_read_file(&run, "/nowhere/run.json", message));
    assert_non_null(strstr(message, "/nowhere/run.json"));
    int file = mkstemp(path);
    FILE *out = fdopen(file, "w");
    fputs("{\"outcome\":", out);
    fclose(out);
    assert_false(run_read_file(&run, path, message));
    assert_non_null(strstr(message, path));
    remove(path);
}

static void the_smallest_device_is_taken_from_a_replay(void **state) {
    (void)state;
    char message[DEMO_MESSAGE_ROOM];
    double ratio = 0.0;
    json_t *json = fixture_json("replay.json");
    assert_true(replay_read(json, &ratio, message));
    assert_true(ratio == 1.41); /* to what is live as the pool counts it */
    json_object_set_new(json, "min_capacity_bytes", json_null());
    assert_true(replay_read(json, &ratio, message));
    assert_true(isnan(ratio));
    json_object_set_new(json, "min_capacity_bytes", json_string("1.4"));
    assert_false(replay_read(json, &ratio, message));
    assert_non_null(strstr(message, "min_capacity_bytes is text"));
    json_decref(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_read_whole),
        cmocka_unit_test(what_was_not_measured_is_not_a_number),
        cmocka_unit_test(a_wrong_field_is_named_with_what_was_expected),
        cmocka_unit_test(no_value_anywhere_breaks_the_reader),
        cmocka_unit_test(a_report_that_is_no_object_is_refused),
        cmocka_unit_test(a_missing_file_and_a_cut_one_are_named),
        cmocka_unit_test(the_smallest_device_is_taken_from_a_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
