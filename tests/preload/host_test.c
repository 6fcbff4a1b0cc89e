/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory under the preloaded library, by option (programs/host.c has the scenes). */
#include "support.h"

#define POOLED "WEIR_PRELOAD=host:pool"

static struct outcome outcome;

static void play(const char *scene, const char *setting) {
    run_preloaded(ARGUMENTS(PROGRAM("host"), scene), ARGUMENTS(setting, "WEIR_EMU=devices:2,capacity:1G,watch:abort"),
                  &outcome);
    assert_ended(0, &outcome);
}

static void assert_host(uint64_t allocs, uint64_t frees, uint64_t calls) {
    assert_int_equal(counted(&outcome, "host_allocs"), allocs);
    assert_int_equal(counted(&outcome, "host_frees"), frees);
    assert_int_equal(counted(&outcome, "host_calls"), calls);
}

static void pinned_memory_is_the_drivers_unless_it_is_asked_for(void **state) {
    (void)state;
    play("reuse", "WEIR_PRELOAD=on");
    assert_host(0, 0, 0);
    play("reuse", POOLED ",host:driver");
    assert_host(0, 0, 0);
    play("reuse", POOLED ",off");
    assert_string_equal(outcome.summary, "");
    play("reuse", "WEIR_PRELOAD=plain:driver,host:pool");
    assert_host(50, 50, 2);
    assert_int_equal(counted(&outcome, "foreign_option"), 1);
}

static void a_block_stays_pinned_for_the_next_request(void **state) {
    (void)state;
    play("reuse", POOLED);
    assert_host(50, 50, 2);
    assert_int_equal(counted(&outcome, "host_peak_live_bytes"), 1 << 20);
    assert_int_equal(counted(&outcome, "host_peak_held_bytes"), 2 << 20);
}

/* On any stream of any device, without a wait of the host's. */
static void a_block_is_not_handed_out_before_what_was_queued_at_its_free_is_over(void **state) {
    (void)state;
    play("queued", POOLED);
    assert_host(12, 12, 8);
}

static void what_is_told_of_a_block_is_as_the_driver_tells_it(void **state) {
    static struct outcome without;
    const char *emu = "WEIR_EMU=devices:2,capacity:1G,watch:abort";
    (void)state;
    run_plain(ARGUMENTS(PROGRAM("host"), "attributes"), ARGUMENTS(emu), &without);
    assert_ended(0, &without);
    play("attributes", POOLED);
    assert_host(2, 2, 9); /* of the three that were refused one let both blocks go back */
}

static void a_free_in_a_capture_is_the_drivers_and_leaves_it_valid(void **state) {
    static struct outcome without;
    const char *emu = "WEIR_EMU=devices:2,capacity:1G,watch:abort";
    (void)state;
    run_plain(ARGUMENTS(PROGRAM("host"), "captures"), ARGUMENTS(emu), &without);
    assert_ended(0, &without);
    play("captures", POOLED);
    assert_string_equal(outcome.out, without.out);
    assert_non_null(strstr(outcome.out, "the capture's end: 0\n"));
    assert_host(2, 2, 3);
}

static void with_a_context_of_the_programs_own_the_driver_takes_blocks_back(void **state) {
    (void)state;
    play("contexts", POOLED);
    assert_host(2, 2, 3);
    assert_int_equal(counted(&outcome, "foreign_context"), 1);
    assert_int_equal(counted(&outcome, "foreign_frees"), 1);
}

static void little_more_is_pinned_than_was_in_use_at_once(void **state) {
    (void)state;
    play("sizes", POOLED);
    const uint64_t live = counted(&outcome, "host_peak_live_bytes"), held = counted(&outcome, "host_peak_held_bytes");
    assert_true(held > live && held <= live + live / 4 + (64 << 20));
}

static void idle_blocks_go_back_before_a_request_is_refused(void **state) {
    (void)state;
    play("refusals", POOLED);
    assert_host(4, 4, 11);
    assert_int_equal(counted(&outcome, "host_peak_held_bytes"), 5 << 20);
}

static void blocks_are_gone_with_their_device(void **state) {
    (void)state;
    play("reset", POOLED);
    assert_host(6, 4, 4);
    assert_int_equal(counted(&outcome, "foreign_frees"), 1);
}

static void threads_share_the_blocks(void **state) {
    (void)state;
    play("threads", POOLED);
    assert_int_equal(counted(&outcome, "host_allocs"), 606);
    assert_int_equal(counted(&outcome, "host_frees"), 606);
}

/* ---- what it gains ------------------------------------------------------------------------------------------------ */

static unsigned long long microseconds(const char *setting) {
    run_preloaded(ARGUMENTS(PROGRAM("host"), "heavy"),
                  ARGUMENTS(setting, "WEIR_EMU=profile:h200,capacity:1G,memory:unbacked,clock:virtual"), &outcome);
    assert_ended(0, &outcome);
    return strtoull(outcome.out, NULL, 10);
}

static void a_program_that_pins_much_is_faster(void **state) {
    (void)state;
    const unsigned long long without = microseconds("WEIR_PRELOAD=on"), with = microseconds(POOLED);
    print_message("heavy: %llu us without, %llu us with host:pool: %.3f times as long\n", without, with,
                  (double)with / (double)without);
    assert_true(with * 3 < without);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_memory_is_the_drivers_unless_it_is_asked_for),
        cmocka_unit_test(a_block_stays_pinned_for_the_next_request),
        cmocka_unit_test(a_block_is_not_handed_out_before_what_was_queued_at_its_free_is_over),
        cmocka_unit_test(what_is_told_of_a_block_is_as_the_driver_tells_it),
        cmocka_unit_test(a_free_in_a_capture_is_the_drivers_and_leaves_it_valid),
        cmocka_unit_test(with_a_context_of_the_programs_own_the_driver_takes_blocks_back),
        cmocka_unit_test(little_more_is_pinned_than_was_in_use_at_once),
        cmocka_unit_test(idle_blocks_go_back_before_a_request_is_refused),
        cmocka_unit_test(blocks_are_gone_with_their_device),
        cmocka_unit_test(threads_share_the_blocks),
        cmocka_unit_test(a_program_that_pins_much_is_faster),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
