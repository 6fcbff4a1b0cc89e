/* SPDX-License-Identifier: Apache-2.0 */
/* Under the preloaded library the events of a program choose which idle memory of other streams a stream gets first. */
#include "support.h"

static struct outcome outcome;

#define ROOM "WEIR_OPTIONS=limit:1344K" /* for two blocks and what is smaller */

static void play(const char *scene, const char *setting) {
    run_preloaded(ARGUMENTS(PROGRAM("joined"), scene), ARGUMENTS(ROOM, setting, "WEIR_EMU=watch:abort"), &outcome);
    assert_ended(0, &outcome);
}

static void assert_got(const char *scene, const char *setting, const char *block) {
    play(scene, setting);
    assert_string_equal(outcome.out, block);
}

static void what_the_program_has_ordered_is_taken_first(void **state) {
    (void)state;
    assert_got("none", "WEIR_PRELOAD", "the first\n");
    assert_got("recorded", "WEIR_PRELOAD", "the second\n");
    assert_got("flags", "WEIR_PRELOAD", "the second\n");
    assert_got("recorded", "WEIR_PRELOAD=events:unheard", "the first\n");
    assert_got("recorded", "WEIR_PRELOAD=events:unheard,events:heard", "the second\n");
}

static void events_that_are_gone_and_those_of_a_capture_are_not_heard(void **state) {
    (void)state;
    assert_got("destroyed", "WEIR_PRELOAD", "the first\n");
    assert_got("captured", "WEIR_PRELOAD", "the first\n");
}

static void a_trace_has_the_order_too(void **state) {
    char path[128], setting[160], text[4096];
    (void)state;
    snprintf(path, sizeof path, "%s/trace", scratch());
    snprintf(setting, sizeof setting, "WEIR_TRACE=%s", path);
    play("recorded", setting);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_non_null(strstr(text, "\ne "));
    assert_non_null(strstr(text, "\nw "));
}

/* ---- what it gains ------------------------------------------------------------------------------------------------ */

static unsigned long long microseconds(const char *setting, const char *capacity) {
    char emu[96];
    snprintf(emu, sizeof emu, "WEIR_EMU=profile:h200,capacity:%s,memory:unbacked,clock:virtual", capacity);
    run_preloaded(ARGUMENTS(PROGRAM("joined"), "steps"), ARGUMENTS(setting, emu), &outcome);
    assert_ended(0, &outcome);
    return strtoull(outcome.out, NULL, 10);
}

static void a_program_that_joins_its_streams_is_faster(void **state) {
    static const char *const capacities[] = {"96M", "128M", "160M", "192M", "256M", "512M"};
    (void)state;
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        const unsigned long long without = microseconds("WEIR_PRELOAD=events:unheard", capacities[i]),
                                 with = microseconds("WEIR_PRELOAD", capacities[i]);
        print_message("steps on %s: %llu us unheard, %llu us heard: %.3f times as long\n", capacities[i], without, with,
                      (double)with / (double)without);
        assert_true(with < without);
        if (i == 2) assert_true(with * 20 < without * 19);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_program_has_ordered_is_taken_first),
        cmocka_unit_test(events_that_are_gone_and_those_of_a_capture_are_not_heard),
        cmocka_unit_test(a_trace_has_the_order_too),
        cmocka_unit_test(a_program_that_joins_its_streams_is_faster),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
