/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: table, words, JSON and page tell the figures as they are, also when they are not what one hoped for. */
#include "tests/tools/demo/fixture.h"
#include "tests/well_formed.h"

#include <stdlib.h>
#include <string.h>

static int make(void **state) {
    struct fixture_demo *fixture = malloc(sizeof *fixture);
    fixture_demo_make(fixture);
    *state = fixture;
    return 0;
}

static int drop(void **state) {
    fixture_demo_free(*state);
    free(*state);
    return 0;
}

static void has(const char *text, const char *part) {
    assert_non_null(text);
    if (!strstr(text, part)) fail_msg("\"%s\" is not in:\n%s", part, text ? text : "");
}

static void has_not(const char *text, const char *part) {
    assert_non_null(text);
    if (strstr(text, part)) fail_msg("\"%s\" is in:\n%s", part, text ? text : "");
}

/* ---- table --------------------------------------------------------------------------------------------------------- */

static void the_table_is_aligned_and_has_the_figures(void **state) {
    struct fixture_demo *fixture = *state;
    char *text = fixture_written(&fixture->demo, demo_table);
    assert_string_equal(text, "run              batch   capacity   peak live   live at     idle on   "
                              "      idle on   utilisation   outcome           smallest\n"
                              "                                                the end   the asker   "
                              "other streams                                     device\n"
                              "per-stream           8      100.0        90.0      71.0         8.0   "
                              "         16.0        71.0 %   OOM, step 2   1.410 x live\n"
                              "weir                 8      100.0        97.0      41.0           -   "
                              "         13.0        97.0 %   completed     1.004 x live\n"
                              "weir+offload        10      100.0        97.0      41.0           -   "
                              "         13.0        97.0 %   completed                -\n"
                              "weir, batch 10      10      100.0        90.0      71.0         8.0   "
                              "         16.0        71.0 %   OOM, step 2              -\n");
    free(text);
}

static void runs_that_were_not_made_are_left_out(void **state) {
    struct fixture_demo *fixture = *state;
    fixture->demo.runs[DEMO_OFFLOAD] = fixture->demo.runs[DEMO_WITHOUT] = NULL;
    char *table = fixture_written(&fixture->demo, demo_table), *words = fixture_words(&fixture->demo);
    has_not(table, "offload");
    has_not(words, "offload");
    free(table);
    free(words);
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

static void the_words_say_what_happened_to_each_run(void **state) {
    struct fixture_demo *fixture = *state;
    char *words = fixture_words(&fixture->demo);
    has(words, "per-stream ran out of memory in step 2 with 71.0 % of the device live (rank 1).");
    has(words, "6.00 MiB on the compute stream of rank 1");
    has(words, "16.0 idle on other streams (16.0 % of the capacity)");
    has(words, "weir completed its 3 steps with up to 97.0 % of the device live");
    has(words, "with 10 sequences a rank instead of 8, completed its 3 steps");
    has(words, "So it is offload that carries it.");
    has(words,
        "Goal 1, per-stream out of memory below 0.80 utilisation with at least 0.10 of the capacity idle on other "
        "streams: met (it ran out at 0.710, with 0.160 idle on other streams).");
    has(words, "Goal 2, weir completed at 0.95 utilisation or more: met (it completed at 0.970).");
    has(words, "same losses, bit for bit");
    has(words, "emulated, and a scale model: its pages are 16 KiB");
    has(words, "say nothing of a GPU");
    free(words);
}

static void goals_that_were_missed_are_said_to_be(void **state) {
    struct fixture_demo *fixture = *state;
    fixture->per_stream.ranks[1].refusal.live_bytes = 88 * MIB;
    fixture->weir.ranks[1].peak_live_bytes = fixture->weir.ranks[0].peak_live_bytes = 90 * MIB;
    char *words = fixture_words(&fixture->demo);
    has(words, "not met (it ran out at 0.880, with 0.160 idle on other streams).");
    has(words, "not met (it completed at 0.900).");
    free(words);
}

static void a_batch_that_fits_without_offload_proves_nothing(void **state) {
    struct fixture_demo *fixture = *state;
    fixture->without.outcome = RUN_COMPLETED;
    char *words = fixture_words(&fixture->demo);
    has_not(words, "So it is offload that carries it.");
    has(words, "does not show what offload is for");
    free(words);
}

static void an_offload_run_that_failed_is_not_called_carried(void **state) {
    struct fixture_demo *fixture = *state;
    fixture->offload.outcome = RUN_OUT_OF_MEMORY;
    fixture->offload.failed_step = 1;
    char *words = fixture_words(&fixture->demo);
    has(words, "weir+offload, with 10 sequences a rank instead of 8, ran out of memory in step 1");
    has_not(words, "So it is offload that carries it.");
    free(words);
}

static void losses_that_differ_are_told_with_both_values(void **state) {
    struct fixture_demo *fixture = *state;
    fixture->weir.losses[0] = 5.500000000000001;
    char *words = fixture_words(&fixture->demo);
    has(words, "\"measuring\" and \"weir\" differ from step 1 on: 5.5 and 5.5000000000000009.");
    has_not(words, "bit for bit");
    free(words);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static void the_json_has_every_field_that_the_format_names(void **state) {
    struct fixture_demo *fixture = *state;
    json_t *json = demo_json(&fixture->demo);
    assert_non_null(json);
    const json_t *runs = json_object_get(json, "runs"), *first = json_array_get(runs, 0);
    static const char *const integers[] = {"capacity_bytes", "oom_step", "peak_live_bytes", "peak_held_bytes",
                                           "idle_other_streams_bytes"};
    static const char *const numbers[] = {"utilisation", "tokens_per_s", "first_loss", "last_loss",
                                          "min_capacity_ratio"};
    assert_int_equal(json_array_size(runs), 4);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        assert_true(json_is_integer(json_object_get(first, integers[i])));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_true(json_is_real(json_object_get(first, numbers[i])));
    assert_string_equal(json_string_value(json_object_get(first, "name")), "per-stream");
    assert_string_equal(json_string_value(json_object_get(first, "policy")), "per-stream");
    assert_true(json_is_false(json_object_get(first, "offload")));
    assert_string_equal(json_string_value(json_object_get(first, "outcome")), "out_of_memory");
    assert_true(json_real_value(json_object_get(first, "utilisation")) == 0.71);
    assert_int_equal(json_integer_value(json_object_get(first, "idle_other_streams_bytes")), 16 * MIB);
    const json_t *second = json_array_get(runs, 1), *third = json_array_get(runs, 2);
    assert_string_equal(json_string_value(json_object_get(second, "outcome")), "completed");
    assert_true(json_is_null(json_object_get(second, "oom_step")));
    assert_true(json_is_true(json_object_get(third, "offload")));
    assert_true(json_is_null(json_object_get(third, "min_capacity_ratio")));
    const json_t *data = json_object_get(json, "data");
    assert_string_equal(json_string_value(json_object_get(data, "path")), "build/data/kjv.txt");
    assert_int_equal(json_integer_value(json_object_get(data, "bytes")), 4404412);
    assert_string_equal(json_string_value(json_object_get(json, "device")), "emulated");
    assert_string_equal(json_string_value(json_object_get(json, "profile")), "demo");
    json_decref(json);
}

/* ---- page ---------------------------------------------------------------------------------------------------------- */

static void the_page_is_well_formed(void **state) {
    struct fixture_demo *fixture = *state;
    char *page = fixture_written(&fixture->demo, demo_html);
    is_well_formed(page);
    free(page);
}

static void the_page_asks_for_nothing_from_elsewhere(void **state) {
    struct fixture_demo *fixture = *state;
    char *page = fixture_written(&fixture->demo, demo_html);
    asks_for_nothing_from_elsewhere(page);
    free(page);
}

static void the_page_shows_each_run_with_its_capacity_and_its_refusal(void **state) {
    struct fixture_demo *fixture = *state;
    char *page = fixture_written(&fixture->demo, demo_html);
    size_t plots = 0, failures = 0;
    for (const char *at = page; (at = strstr(at, "class=\"plot\"")); at++) plots++;
    for (const char *at = page; (at = strstr(at, "<b>refused</b>")); at++) failures++;
    assert_int_equal(plots, 4);
    assert_int_equal(failures, 2);
    has(page, "capacity 100.00 MiB");
    has(page, "out of memory, step 2");
    has(page, "fill=\"url(#idle0)\"");
    has(page, "<b>refused</b> 6.00 MiB on compute<br/>16.0 MiB idle on other streams");
    has(page, "<li><code>weir-train --config=configs/demo.yaml --name='a &#38; b'</code></li>");
    free(page);
}

static void names_cannot_break_out_of_the_page(void **state) {
    struct fixture_demo *fixture = *state;
    struct timeline *timeline = &fixture->per_stream.ranks[1].timeline;
    snprintf(timeline->streams[0], DEMO_NAME_ROOM, "</script><b>&\"x");
    snprintf(fixture->per_stream.ranks[1].refusal.stream, DEMO_NAME_ROOM, "<i>\x01&amp");
    snprintf(fixture->weir.name, sizeof fixture->weir.name, "a<b & \"c\"");
    char *page = fixture_written(&fixture->demo, demo_html);
    is_well_formed(page);
    has_not(page, "</script><b>");
    has_not(page, "\x01");
    free(page);
}

static void runs_without_samples_still_make_a_page(void **state) {
    struct fixture_demo *fixture = *state;
    fixture->weir.ranks[1].timeline.sample_count = 0;
    fixture->weir.ranks[1].timeline.stream_count = 0;
    fixture->demo.runs[DEMO_OFFLOAD] = fixture->demo.runs[DEMO_WITHOUT] = NULL;
    char *page = fixture_written(&fixture->demo, demo_html);
    is_well_formed(page);
    has(page, "no samples of memory over time");
    free(page);
}

/* A timeline of one sample, with that much on each of its streams. */
static void one_sample(struct timeline *timeline, char (*names)[DEMO_NAME_ROOM], size_t *bytes, struct sample *sample,
                       size_t streams) {
    *sample = (struct sample){.ms = 1.0, .step = 1, .bytes = bytes};
    *timeline = (struct timeline){
        .stream_count = streams, .sample_count = 1, .streams = names, .samples = sample, .bytes = bytes};
}

static void more_streams_than_colours_share_the_last_one(void **state) {
    struct fixture_demo *fixture = *state;
    struct chart_frame frame;
    char names[12][DEMO_NAME_ROOM];
    size_t bytes[24];
    struct sample sample;
    struct timeline *timeline = &fixture->weir.ranks[1].timeline, kept = *timeline;
    for (size_t i = 0; i < 12; i++) {
        snprintf(names[i], DEMO_NAME_ROOM, "stream %zu", i);
        bytes[2 * i] = 0;
        bytes[2 * i + 1] = i == 3 ? 0 : MIB;
    }
    one_sample(timeline, names, bytes, &sample, 12);
    const struct run *runs[] = {&fixture->weir};
    chart_frame_make(&frame, runs, 1);
    *timeline = kept;
    assert_int_equal(frame.name_count, CHART_COLOURS);
    assert_string_equal(frame.names[3], "stream 4"); /* the one without memory has no colour */
    assert_string_equal(frame.names[CHART_COLOURS - 2], "stream 7");
    assert_string_equal(frame.names[CHART_COLOURS - 1], "others");
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(the_table_is_aligned_and_has_the_figures),
        WITH_FIXTURE(runs_that_were_not_made_are_left_out),
        WITH_FIXTURE(the_words_say_what_happened_to_each_run),
        WITH_FIXTURE(goals_that_were_missed_are_said_to_be),
        WITH_FIXTURE(a_batch_that_fits_without_offload_proves_nothing),
        WITH_FIXTURE(an_offload_run_that_failed_is_not_called_carried),
        WITH_FIXTURE(losses_that_differ_are_told_with_both_values),
        WITH_FIXTURE(the_json_has_every_field_that_the_format_names),
        WITH_FIXTURE(the_page_is_well_formed),
        WITH_FIXTURE(the_page_asks_for_nothing_from_elsewhere),
        WITH_FIXTURE(the_page_shows_each_run_with_its_capacity_and_its_refusal),
        WITH_FIXTURE(names_cannot_break_out_of_the_page),
        WITH_FIXTURE(runs_without_samples_still_make_a_page),
        WITH_FIXTURE(more_streams_than_colours_share_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
