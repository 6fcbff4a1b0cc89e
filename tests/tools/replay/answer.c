/* SPDX-License-Identifier: Apache-2.0 */
/* What weir-replay answers: every key of its JSON, null for what is not known, words that begin with the answer, and
 * the exit statuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static char folder[] = "/tmp/weir_answer_test_XXXXXX";
static char output[1 << 16];

/* ---- traces and runs --------------------------------------------------------------------------------------------- */

/* Steps of two streams: the second computes with what the first allocates, and gives back what it has used. With
 * `work` an operation takes 400 microseconds. */
static void write_trace(const char *name, bool work, int steps, const char *comment) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "weir-trace 1\n%s# stream 0 compute\n# stream 1 copy\n", comment);
    int id = 0;
    for (int step = 0; step < steps; step++) {
        fprintf(file, "i\n");
        for (int i = 0; i < 40; i++, id++) {
            fprintf(file, "m %d %d 0\n", id, 16384 * (1 + (i * 7 + step) % 11));
            if (work) fprintf(file, "k 0 400\n");
            fprintf(file, "e %d 0\nw %d 1\nu %d 1\n", i % 4, i % 4, id);
            if (work) fprintf(file, "k 1 300.5\n");
            if (i >= 8) fprintf(file, "f %d\n", id - 8);
            if (i % 4 == 3) fprintf(file, "s 1\n");
        }
        for (int i = 8; i > 0; i--) fprintf(file, "f %d\n", id - i);
    }
    fprintf(file, "d\n");
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char recorded[] = "# recorded policy=footprint limit=6291456 granularity=16384 profile=demo "
                               "deterministic=off\n";

/* The same file by another name. */
static void link_to_two(void) {
    char name[128], other[128];
    snprintf(name, sizeof name, "%s/two.trace", folder);
    snprintf(other, sizeof other, "%s/two.link", folder);
    assert_int_equal(link(name, other), 0);
}

static int make_traces(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    write_trace("work.trace", true, 5, "");
    write_trace("two.trace", true, 2, "");
    link_to_two();
    write_trace("idle.trace", false, 5, "");
    write_trace("recorded.trace", true, 5, recorded);
    write_text("refused.trace",
               "weir-trace 1\n# recorded policy=per-stream limit=1048576 granularity=16384 profile=demo "
               "deterministic=off\nm 1 32768 0\n# refused 1572864 7\n# stream 7 copy\n");
    write_trace("half.trace", true, 5, "# recorded profile=demo\n");
    write_trace("od\"d\\ \xC3\xA9 \xFF.trace", true, 5, "");
    return 0;
}

static int remove_traces(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

/* Runs weir-replay in the folder of the traces; both outputs are in `output`. Gives: its exit status. */
static int replay(const char *arguments) {
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && '%s' %s 2>&1", folder, getenv("WEIR_REPLAY"), arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static json_t *replay_json(const char *arguments, int expected) {
    char all[512];
    json_error_t error;
    snprintf(all, sizeof all, "%s --json", arguments);
    int status = replay(all);
    if (status != expected) fail_msg("'%s' ends with %d: %s", arguments, status, output);
    json_t *json = json_loads(output, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &error);
    if (json == NULL) fail_msg("%s at %d: %s", error.text, error.position, output);
    return json;
}

static const json_t *get(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    if (value == NULL) fail_msg("there is no %s", key);
    return value;
}

static double number(const json_t *json, const char *key) {
    const json_t *value = get(json, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

static bool is_text(const json_t *json, const char *key, const char *text) {
    const json_t *value = get(json, key);
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

#define NULL_IN(json, key) assert_true(json_is_null(get(json, key)))
#define SAYS(words)                                                                                                    \
    do {                                                                                                               \
        if (strstr(output, words) == NULL) fail_msg("'%s' is not in: %s", words, output);                              \
    } while (0)

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static const char *const keys[] = {"trace",
                                   "policy",
                                   "law",
                                   "capacity_bytes",
                                   "capacity_ratio",
                                   "outcome",
                                   "peak_live_bytes",
                                   "peak_held_bytes",
                                   "peak_stranded_bytes",
                                   "min_capacity_bytes",
                                   "min_capacity_ratio",
                                   "honest_capacity_ratio",
                                   "run_time_us",
                                   "slowdown",
                                   "memory_calls",
                                   "memory_calls_steady",
                                   "order_calls_steady",
                                   "page_moves",
                                   "moved_bytes",
                                   "device_waits",
                                   "host_waits",
                                   "host_waits_steady",
                                   "host_wait_us",
                                   "ns_per_op",
                                   "fluid_slowdown",
                                   "emulated",
                                   "failed_line",
                                   "profile",
                                   "clock",
                                   "operations",
                                   "curve",
                                   "fails_above",
                                   "completes_below",
                                   "addresses_compared",
                                   "addresses_equal",
                                   "uses_not_told",
                                   "allocator",
                                   "why",
                                   "peak_rounded_bytes"};

static void every_key_is_there_and_what_was_not_asked_is_null(void **state) {
    (void)state;
    json_t *json = replay_json("work.trace --profile demo", 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) get(json, keys[i]);
    assert_true(json_is_true(get(json, "emulated")));
    assert_true(is_text(json, "trace", "work.trace") && is_text(json, "policy", "latency"));
    assert_true(is_text(json, "law", "measured") && is_text(json, "clock", "virtual"));
    assert_true(is_text(json, "profile", "demo") && is_text(json, "outcome", "completed"));
    double peak = number(json, "peak_live_bytes"), capacity = number(json, "capacity_bytes");
    assert_true(capacity >= 1.02 * peak && capacity < 1.02 * peak + 16384); /* rounded up to whole pages */
    assert_true(fmod(capacity, 16384) == 0);
    assert_true(fabs(number(json, "capacity_ratio") - capacity / peak) < 1e-6);
    assert_true(number(json, "run_time_us") > 5 * 40 * 400);
    assert_true(number(json, "slowdown") > -0.01 && number(json, "fluid_slowdown") > -0.01);
    assert_true(number(json, "peak_held_bytes") >= peak && number(json, "memory_calls") > 0);
    NULL_IN(json, "min_capacity_bytes");
    NULL_IN(json, "min_capacity_ratio");
    NULL_IN(json, "honest_capacity_ratio");
    NULL_IN(json, "fails_above");
    NULL_IN(json, "curve");
    NULL_IN(json, "failed_line");
    NULL_IN(json, "why");
    json_decref(json);
}

static void scan_honest_and_curve_are_answered_together(void **state) {
    (void)state;
    json_t *json = replay_json("work.trace --profile demo --scan --honest 60% --curve 1.0:1.3:0.1", 0);
    double peak = number(json, "peak_live_bytes"), smallest = number(json, "min_capacity_ratio");
    assert_true(smallest >= 1 && smallest < 1.2);
    assert_true(fabs(number(json, "min_capacity_bytes") / peak - smallest) < 1e-6);
    assert_true(number(json, "capacity_bytes") == number(json, "min_capacity_bytes")); /* no other was asked for */
    assert_true(is_text(json, "outcome", "completed"));
    assert_true(number(json, "honest_capacity_ratio") >= 1);
    assert_true(json_is_array(get(json, "fails_above")));
    const json_t *curve = get(json, "curve");
    assert_int_equal(json_array_size(curve), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *point = json_array_get(curve, i);
        double ratio = 1 + 0.1 * (double)i;
        assert_true(number(point, "capacity_ratio") >= ratio && number(point, "capacity_ratio") < ratio + 0.01);
        bool completed = is_text(point, "outcome", "completed");
        assert_true(completed || is_text(point, "outcome", "out_of_memory"));
        assert_true(json_is_number(get(point, "slowdown")) == completed);
        number(point, "memory_calls_steady");
        number(point, "page_moves");
        number(point, "device_waits");
        number(point, "host_waits");
        assert_true(number(point, "host_waits_steady") <= number(point, "host_waits"));
        number(point, "fluid_slowdown");
    }
    json_decref(json);
}

static void a_curve_is_of_stretches_and_single_ones_in_their_order(void **state) {
    (void)state;
    static const double ratios[] = {1.02, 1.1, 1.2, 1.25, 1.3};
    json_t *json = replay_json("work.trace --profile demo --curve 1.25,1.1x:1.3:0.1,1.02,1.2", 0);
    const json_t *curve = get(json, "curve");
    assert_int_equal(json_array_size(curve), 5);
    for (size_t i = 0; i < 5; i++) {
        double ratio = number(json_array_get(curve, i), "capacity_ratio");
        assert_true(ratio >= ratios[i] && ratio < ratios[i] + 0.03); /* in whole pages */
    }
    json_decref(json);
}

static void the_answer_does_not_depend_on_how_many_runs_are_made_at_a_time(void **state) {
    (void)state;
    static const char *const same[] = {"min_capacity_bytes", "honest_capacity_bytes", "slowdown", "host_waits"};
    const char *arguments = "work.trace --profile demo --policy per-stream --scan --honest 60%";
    json_t *json[2];
    char all[256];
    for (size_t i = 0; i < 2; i++) {
        snprintf(all, sizeof all, "%s --jobs %d", arguments, i == 0 ? 1 : 5);
        json[i] = replay_json(all, 0);
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_true(json_equal(get(json[0], same[i]), get(json[1], same[i])));
    json_decref(json[0]);
    json_decref(json[1]);
}

/* What the search leaves out. The largest request is of 11 pages. */
static void a_device_larger_than_a_pool_can_notice_gives_the_same_run(void **state) {
    (void)state;
    static const char *const policies[] = {"latency", "footprint", "per-stream"};
    static const char *const own[] = {"capacity_bytes", "capacity_ratio", "ns_per_op"};
    char arguments[256];
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        snprintf(arguments, sizeof arguments, "work.trace --profile demo --policy %s --capacity 8x", policies[i]);
        json_t *plenty = replay_json(arguments, 0);
        long long just = (long long)number(plenty, "peak_held_bytes") + (11 + 16) * 16384;
        assert_true((double)just < number(plenty, "capacity_bytes"));
        snprintf(arguments, sizeof arguments, "work.trace --profile demo --policy %s --capacity %lld", policies[i],
                 just);
        json_t *enough = replay_json(arguments, 0);
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
            json_object_del(plenty, own[k]);
            json_object_del(enough, own[k]);
        }
        assert_true(json_equal(plenty, enough));
        json_decref(plenty);
        json_decref(enough);
    }
}

static void without_work_there_is_no_slowdown(void **state) {
    (void)state;
    json_t *json = replay_json("idle.trace --profile demo --honest 1% --curve 1:1.1:0.1", 0);
    NULL_IN(json, "slowdown");
    NULL_IN(json, "fluid_slowdown");
    NULL_IN(json, "honest_capacity_ratio");
    NULL_IN(json_array_get(get(json, "curve"), 1), "slowdown");
    NULL_IN(json, "run_time_us"); /* calls take time all the same, but that is no run's */
    NULL_IN(json, "host_wait_us");
    json_decref(json);
}

static void without_a_clock_there_are_no_times(void **state) {
    (void)state;
    json_t *json = replay_json("work.trace --profile demo --clock none", 0);
    static const char *const times[] = {"slowdown", "fluid_slowdown", "run_time_us", "host_wait_us", "law"};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) NULL_IN(json, times[i]);
    assert_true(is_text(json, "clock", "none"));
    json_decref(json);
}

static void out_of_memory_is_an_answer(void **state) {
    (void)state;
    json_t *json = replay_json("work.trace --profile demo --capacity 0.5x", 0);
    assert_true(is_text(json, "outcome", "out_of_memory"));
    assert_true(number(json, "failed_line") > 3);
    NULL_IN(json, "slowdown");
    NULL_IN(json, "fluid_slowdown"); /* nothing would do */
    json_decref(json);
}

static void file_names_of_any_bytes_make_good_json(void **state) {
    (void)state;
    json_t *json = replay_json("'od\"d\\ \xC3\xA9 \xFF.trace' --profile demo", 0);
    assert_true(is_text(json, "trace", "od\"d\\ \xC3\xA9 \xEF\xBF\xBD.trace"));
    json_decref(json);
}

/* ---- as recorded ------------------------------------------------------------------------------------------------- */

static void a_run_is_replayed_as_it_was_recorded(void **state) {
    (void)state;
    json_t *json = replay_json("recorded.trace --as-recorded", 0);
    assert_true(is_text(json, "policy", "footprint") && is_text(json, "profile", "demo"));
    assert_true(number(json, "capacity_bytes") == 6291456);
    json_decref(json);
    json = replay_json("recorded.trace", 0); /* its profile is the default anyway */
    assert_true(is_text(json, "policy", "latency") && is_text(json, "profile", "demo"));
    json_decref(json);
    json = replay_json("work.trace", 0);
    assert_true(is_text(json, "profile", "gh200"));
    json_decref(json);
}

static void a_trace_that_does_not_say_how_it_was_recorded_is_refused(void **state) {
    (void)state;
    assert_int_equal(replay("work.trace --as-recorded"), 2);
    SAYS("work.trace does not say how it was recorded");
    assert_int_equal(replay("half.trace --as-recorded"), 2);
    SAYS("half.trace does not say how it was recorded");
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void words_begin_with_the_answer(void **state) {
    (void)state;
    assert_int_equal(replay("work.trace --profile demo --scan --honest 60% --curve 1:1.2:0.1"), 0);
    assert_ptr_equal(strstr(output, "It fits: weir (latency) completes on"), output);
    SAYS("A fluid there, as a yardstick:");
    assert_null(strstr(output, "larger than the profile's machine"));
    SAYS("smallest sufficient device:");
    SAYS("at most 60 % slower on it and on every larger one of those tried:");
    SAYS("1.200 x");
    SAYS("Emulated, no GPU was used: profile demo, cost law measured, virtual clock.");
    assert_int_equal(replay("work.trace --profile demo --policy per-stream --capacity 1.0x"), 0);
    assert_ptr_equal(strstr(output, "Out of memory: per-stream caching does not complete on"), output);
    SAYS("Refused at line");
    SAYS("on stream 0 (compute)");
    SAYS("  out of memory:"); /* the pool's report */
    SAYS("To try:\n- weir's own pool: --policy latency");
    SAYS("- --scan");
    assert_int_equal(replay("work.trace --profile demo --capacity 0.9x"), 0);
    SAYS("offload: more is live at once than the device has");
    assert_null(strstr(output, "--scan"));
    assert_int_equal(replay("work.trace --profile demo --capacity 1G"), 0);
    SAYS("The device is larger than the profile's machine, 64.00 MiB.");
}

static void words_say_what_a_trace_does_not_tell(void **state) {
    (void)state;
    static const char whole[] = "(over the whole run, the first taking of memory included: the trace marks fewer than "
                                "three iterations).";
    assert_int_equal(replay("two.trace --profile demo"), 0);
    SAYS(whole);
    assert_int_equal(replay("work.trace --profile demo"), 0);
    assert_null(strstr(output, whole));
    SAYS("the host waited");
    assert_int_equal(replay("idle.trace --profile demo --scan --honest 1%"), 0);
    assert_null(strstr(output, "the host waited"));
    SAYS("at most 1 % slower: no answer, since the trace says nothing of how long work takes (k)\n");
    SAYS("a smallest device is a best case, since work takes no time here and pending uses are over at once.");
}

/* ---- failures and bad input -------------------------------------------------------------------------------------- */

static void what_failed_ends_with_1(void **state) {
    (void)state;
    json_t *json = replay_json("work.trace --profile demo --scan --honest 1% --allocator libc.so.6:abort:free", 1);
    assert_true(is_text(json, "outcome", "failed"));
    assert_true(is_text(json, "allocator", "libc.so.6:abort:free"));
    NULL_IN(json, "policy");
    assert_non_null(strstr(json_string_value(get(json, "why")), "SIGABRT"));
    json_decref(json);
    assert_int_equal(replay("work.trace --profile demo --scan --honest 1% --allocator libc.so.6:abort:free"), 1);
    SAYS("from which device on it is at most 1 % slower is not known: runs failed");
    assert_null(strstr(output, "no device up to"));
    assert_int_equal(replay("work.trace --profile demo --json >/dev/full"), 1);
    assert_int_equal(replay("work.trace --profile demo --json=/nowhere/at.all"), 1);
    assert_int_equal(replay("work.trace --profile demo --timeline /nowhere/at.all"), 1);
}

static void a_run_that_was_refused_does_not_fit_as_it_was_recorded(void **state) {
    (void)state;
    assert_int_equal(replay("refused.trace --as-recorded"), 0);
    SAYS(" does not complete on 1.00 MiB");
    SAYS("Refused at line 4: 1.50 MiB on stream 7 (copy).\n");
    SAYS("The recorded run was refused 1 request (the last 1.50 MiB on stream 7 (copy) at line 4): "
         "what it would have done after that is not in the trace.\n");
    json_t *json = replay_json("refused.trace --policy per-stream --capacity 4M", 0);
    assert_true(is_text(json, "outcome", "completed"));
    assert_int_equal(number(json, "refused_requests"), 1);
    json_decref(json);
}

static void bad_input_is_named_with_its_limit(void **state) {
    (void)state;
    static const struct {
        const char *arguments, *words;
    } bad[] = {
        {"", "no trace given"},
        {"work.trace --polcy latency", "unknown option --polcy; did you mean --policy?"},
        {"work.trace -x", "unknown option -x"},
        {"work.trace --policy fast", "latency, footprint, per-stream"},
        {"work.trace --law fair", "measured, page, handle, range"},
        {"work.trace --clock real", "virtual, none"},
        {"work.trace --capacity 1.0000001x", "six decimals"},
        {"work.trace --capacity 1001x", "at most 1000x"},
        {"work.trace --capacity 2048T", "at most 2^50"},
        {"work.trace --honest 1", "as 1%"},
        {"work.trace --honest 0%", "from 0.0001% to 1000%"},
        {"work.trace --curve 1.0:1.5", "FROM:TO:STEP"},
        {"work.trace --curve 1.5:1.0:0.1", "FROM:TO:STEP"},
        {"work.trace --curve 1:1.5:0", "FROM:TO:STEP"},
        {"work.trace --curve 1:1.5:0.1:2", "FROM:TO:STEP"},
        {"work.trace --curve 1.1,", "FROM:TO:STEP"},
        {"work.trace --curve 0", "FROM:TO:STEP"},
        {"work.trace --curve 1:500:0.5,1.1,1:2:0.5", "1003 points, the limit is 1000"},
        {"work.trace --curve 1:1000:0.5", "1999 points, the limit is 1000"},
        {"work.trace --jobs 0", "from 1 to 256"},
        {"work.trace --jobs 257", "from 1 to 256"},
        {"work.trace --jobs 1.5", "from 1 to 256"},
        {"work.trace --scan=yes", "--scan takes no value"},
        {"work.trace --json=", "--json needs a value"},
        {"work.trace --policy", "--policy needs a value"},
        {"work.trace --scan --scan", "--scan is given twice"},
        {"work.trace --allocator lib.so", "LIB.so:ALLOC:FREE"},
        {"work.trace --allocator lib.so:a", "LIB.so:ALLOC:FREE"},
        {"work.trace --allocator lib.so:a:b:c:d", "LIB.so:ALLOC:FREE"},
        {"work.trace --allocator ./lib.so:a:b", "./lib.so: the library can't be read"},
        {"work.trace --scan --allocator libc.so.6:no_such_function:free", "libc.so.6 has no symbol no_such_function"},
        {"work.trace --scan --allocator work.trace:a:b", "the allocator's library can't be loaded"},
        {"work.trace --allocator lib.so:a:b --policy latency", "--allocator and --policy contradict"},
        {"work.trace --timeline -", "--timeline needs a FILE: a page does not go to standard output"},
        {"work.trace --as-recorded --capacity 64M", "--as-recorded and --capacity contradict"},
        {"work.trace --clock none --honest 1%", "--honest compares times"},
        {"work.trace --clock none --law page", "--law says nothing without a clock"},
        {"work.trace --clock none --timeline x.html", "--timeline shows times"},
        {"work.trace --profile nosuch", "nosuch"},
        {"two.trace --json=./two.trace", "--json ./two.trace would overwrite the trace two.trace"},
        {"two.trace --timeline two.link", "--timeline two.link would overwrite the trace two.trace"},
        {"- --json=two.trace <two.trace", "--json two.trace would overwrite the trace -"},
        {"work.trace idle.trace", "'idle.trace' is a second one"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int status = replay(bad[i].arguments);
        if (status != 2) fail_msg("'%s' ends with %d: %s", bad[i].arguments, status, output);
        SAYS(bad[i].words);
        assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1); /* one sentence */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_there_and_what_was_not_asked_is_null),
        cmocka_unit_test(scan_honest_and_curve_are_answered_together),
        cmocka_unit_test(a_curve_is_of_stretches_and_single_ones_in_their_order),
        cmocka_unit_test(the_answer_does_not_depend_on_how_many_runs_are_made_at_a_time),
        cmocka_unit_test(a_device_larger_than_a_pool_can_notice_gives_the_same_run),
        cmocka_unit_test(without_work_there_is_no_slowdown),
        cmocka_unit_test(without_a_clock_there_are_no_times),
        cmocka_unit_test(out_of_memory_is_an_answer),
        cmocka_unit_test(file_names_of_any_bytes_make_good_json),
        cmocka_unit_test(a_run_is_replayed_as_it_was_recorded),
        cmocka_unit_test(a_trace_that_does_not_say_how_it_was_recorded_is_refused),
        cmocka_unit_test(words_begin_with_the_answer),
        cmocka_unit_test(words_say_what_a_trace_does_not_tell),
        cmocka_unit_test(what_failed_ends_with_1),
        cmocka_unit_test(a_run_that_was_refused_does_not_fit_as_it_was_recorded),
        cmocka_unit_test(bad_input_is_named_with_its_limit),
    };
    return cmocka_run_group_tests(tests, make_traces, remove_traces);
}
