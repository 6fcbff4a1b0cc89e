/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do at the edges, under the preloaded library (programs/corners.c has the scenes). */
#include "support.h"

static struct outcome outcome;

static void play(const char *program, const char *scene, const char *const *more) {
    run_preloaded(ARGUMENTS(program, scene), more, &outcome);
    assert_ended(0, &outcome);
}

static void assert_served(uint64_t allocs, uint64_t frees, const char *left, uint64_t count) {
    assert_int_equal(counted_allocs(&outcome), allocs);
    assert_int_equal(counted_frees(&outcome), frees);
    if (left != NULL) assert_int_equal(counted(&outcome, left), count);
}

static void look_ups_that_are_not_replaced_answer_as_without_it(void **state) {
    static struct outcome without;
    (void)state;
    skip_where_linked();
    run_plain(ARGUMENTS(PROGRAM("corners"), "look_ups"), NULL, &without);
    assert_ended(0, &without);
    play(PROGRAM("corners"), "look_ups", NULL);
    assert_string_equal(outcome.out, without.out);
    assert_served(3, 3, NULL, 0);
}

/* Another library that is preloaded looks names up before this one's constructor has run. */
static void look_ups_before_any_constructor_are_answered(void **state) {
    (void)state;
    skip_where_linked();
    static const char both[] = "LD_PRELOAD=" TEST_LIBRARY ":" PROGRAM("early.so");
    run_preloaded(ARGUMENTS(PROGRAM("by_dlsym")), ARGUMENTS(both), &outcome);
    assert_ended(0, &outcome);
    assert_string_equal(outcome.out, "early: found\nprogram: three blocks\n");
    assert_served(3, 3, NULL, 0);
    static const char turned[] = "LD_PRELOAD=" PROGRAM("early.so") ":" TEST_LIBRARY;
    run_preloaded(ARGUMENTS(PROGRAM("by_lookup")), ARGUMENTS(turned), &outcome);
    assert_ended(0, &outcome);
    assert_served(3, 3, NULL, 0);
}

/* Wrappers in front of it see what they would see without it, one behind the other; those behind it are not needed. */
static void other_wrappers_of_the_same_entries_go_with_it(void **state) {
#define WRAPPERS PROGRAM("interposer_first.so") ":" PROGRAM("interposer_second.so")
    static struct outcome without;
    static const char alone[] = "LD_PRELOAD=" WRAPPERS, before[] = "LD_PRELOAD=" WRAPPERS ":" TEST_LIBRARY,
                      around[] = "LD_PRELOAD=" PROGRAM("interposer_first.so") ":" TEST_LIBRARY
                                                                              ":" PROGRAM("interposer_second.so");
    (void)state;
    skip_where_linked();
    static const char *const programs[] = {PROGRAM("by_name"), PROGRAM("by_default"), PROGRAM("by_dlsym")};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        run_plain(ARGUMENTS(programs[i]), ARGUMENTS(alone), &without);
        assert_ended(0, &without);
        run_preloaded(ARGUMENTS(programs[i]), ARGUMENTS(before), &outcome);
        assert_ended(0, &outcome);
        assert_string_equal(outcome.out, without.out);
        assert_served(3, 3, NULL, 0);
    }
    run_preloaded(ARGUMENTS(PROGRAM("by_name")), ARGUMENTS(around), &outcome);
    assert_ended(0, &outcome);
    assert_non_null(strstr(outcome.out, "first: 3 allocations, 3 frees"));
    assert_served(3, 3, NULL, 0);
#undef WRAPPERS
}

/* Such a one leads libweir's own look-ups to it, too. */
static void so_do_wrappers_of_dlsym(void **state) {
    static const char before[] = "LD_PRELOAD=" PROGRAM("interposer_dlsym.so") ":" TEST_LIBRARY,
                      behind[] = "LD_PRELOAD=" TEST_LIBRARY ":" PROGRAM("interposer_dlsym.so");
    (void)state;
    skip_where_linked();
    for (int i = 0; i < 2; i++) {
        run_preloaded(ARGUMENTS(PROGRAM("corners"), "pools"), ARGUMENTS(i == 0 ? before : behind), &outcome);
        assert_ended(0, &outcome);
        assert_served(2, 2, "foreign_pool", 2);
    }
}

static void sizes_at_both_ends_are_answered(void **state) {
    (void)state;
    play(PROGRAM("corners"), "sizes", NULL);
    assert_int_equal(counted(&outcome, "refused"), 14);
}

static void a_block_is_freed_once_and_by_its_maker(void **state) {
    (void)state;
    play(PROGRAM("corners"), "frees", NULL);
    assert_served(4, 4, "foreign_pool", 1);
    assert_int_equal(counted(&outcome, "foreign_frees"), 1);
}

static void memory_pools_of_the_program_are_the_drivers_and_the_default_one_is_served(void **state) {
    (void)state;
    play(PROGRAM("corners"), "pools", NULL);
    assert_served(2, 2, "foreign_pool", 2);
}

static void peaks_of_the_default_pool_can_be_set_back_and_the_summary_has_them_still(void **state) {
    (void)state;
    play(PROGRAM("corners"), "peaks", NULL);
    assert_served(2, 2, NULL, 0);
    assert_int_equal(counted(&outcome, "peak_live_bytes"), 8 << 20);
}

static void free_memory_never_wraps_at_a_limit_and_idle_memory_is_free(void **state) {
    (void)state;
    play(PROGRAM("corners"), "limits", ARGUMENTS("WEIR_OPTIONS=limit:32M"));
    assert_served(2, 2, NULL, 0);
}

static void idle_memory_is_the_drivers_when_it_has_no_other(void **state) {
    static const char *const kinds[] = {"idle_for_pages", "idle_for_managed", "idle_for_a_pool", "idle_for_a_graph",
                                        "idle_for_a_context"};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        play(PROGRAM("corners"), kinds[i], ARGUMENTS("WEIR_EMU=capacity:64M,watch:abort,clock:virtual"));
        assert_true(counted_allocs(&outcome) > 0 && counted(&outcome, "refused") == 0);
    }
}

static void the_driver_gets_idle_memory_beside_threads_that_take_it(void **state) {
    (void)state;
    run_preloaded(ARGUMENTS(PROGRAM("corners"), "room_beside_others"), ARGUMENTS("WEIR_EMU=capacity:64M"), &outcome);
    assert_ended(0, &outcome);
    assert_true(counted_allocs(&outcome) > 0);
}

static void what_a_plain_free_took_back_is_waited_for_without_a_limit_but_one_that_was_asked_for(void **state) {
    static const char clock[] = "WEIR_EMU=capacity:64M,watch:abort,clock:virtual";
    (void)state;
    play(PROGRAM("corners"), "long_kernel", ARGUMENTS(clock));
    assert_served(2, 1, "refused", 0);
    play(PROGRAM("corners"), "long_kernel", ARGUMENTS(clock, "WEIR_OPTIONS=wait_limit:10s"));
    assert_served(1, 1, "refused", 1);
}

static void contexts_of_the_program_are_the_drivers(void **state) {
    (void)state;
    play(PROGRAM("corners"), "contexts", NULL);
    assert_served(4, 4, "foreign_context", 3);
}

static void a_peer_may_use_what_was_allocated_before_and_after(void **state) {
    (void)state;
    play(PROGRAM("corners"), "peers", NULL);
    assert_served(2, 0, NULL, 0);
}

static void so_may_a_device_that_the_default_pool_is_opened_to(void **state) {
    (void)state;
    play(PROGRAM("corners"), "accessors_before", NULL);
    assert_served(1, 0, NULL, 0);
    play(PROGRAM("corners"), "accessors_after", NULL);
    assert_served(2, 0, NULL, 0);
}

static void a_device_is_reset_while_threads_allocate(void **state) {
    (void)state;
    for (int times = 0; times < 5; times++) play(PROGRAM("corners"), "resets", NULL);
}

static void plain_memory_is_the_drivers_by_option_and_all_of_it_when_off(void **state) {
    (void)state;
    run_preloaded(ARGUMENTS(PROGRAM("capture")), ARGUMENTS("WEIR_PRELOAD=plain:driver"), &outcome);
    assert_ended(0, &outcome);
    assert_served(3, 3, "foreign_option", 1);
    run_preloaded(ARGUMENTS(PROGRAM("capture")), ARGUMENTS("WEIR_PRELOAD=off"), &outcome);
    assert_ended(0, &outcome);
    assert_string_equal(outcome.summary, "");
    run_preloaded(ARGUMENTS(PROGRAM("runtime_13")), ARGUMENTS("WEIR_PRELOAD=no"), &outcome);
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.err, "WEIR_PRELOAD=no is not known"));
    assert_served(3, 3, NULL, 0);
}

static void bad_options_leave_the_device_to_the_driver_and_say_so_in_the_log(void **state) {
    (void)state;
    static const char *const bad[] = {"WEIR_OPTIONS=bogus:1", "WEIR_LOG=error", NULL};
    run_preloaded(ARGUMENTS(PROGRAM("runtime_13")), bad, &outcome);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "three blocks\n");
    assert_non_null(strstr(outcome.err, "unknown key 'bogus'"));
    assert_served(0, 0, "foreign_failed", 3);
    assert_int_equal(counted(&outcome, "foreign_frees"), 3);
}

/* Under the virtual clock calls and work take what a profile says of a GPU; under the real one, what they take here. */
static unsigned long long microseconds(const char *scene, const char *clock, bool preloaded) {
    char emu[96];
    snprintf(emu, sizeof emu, "WEIR_EMU=profile:h200,capacity:1G,memory:unbacked,clock:%s", clock);
    (preloaded ? run_preloaded : run_plain)(ARGUMENTS(PROGRAM("corners"), scene), ARGUMENTS(emu), &outcome);
    assert_ended(0, &outcome);
    return strtoull(outcome.out, NULL, 10);
}

static void a_program_that_allocates_much_is_faster(void **state) {
    static const char *const scenes[] = {"heavy_plain", "heavy_ordered"}, *const clocks[] = {"virtual", "real"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *scene = scenes[i / 2], *clock = clocks[i % 2];
        const unsigned long long without = microseconds(scene, clock, false), with = microseconds(scene, clock, true);
        print_message("%s, %s clock: %llu us without, %llu us with the library: %.2f times as long\n", scene, clock,
                      without, with, (double)with / (double)without);
        if (i % 2 == 0) assert_true(with * 3 < without); /* the real one says more of this machine */
    }
}

/* A leak ends such a program with a status of its own. */
static void nothing_leaks(void **state) {
    static const char *const scenes[] = {"look_ups", "sizes", "frees", "pools", "contexts", "peers", "resets"},
                             *const host_scenes[] = {"reuse", "queued", "contexts", "refusals", "reset"};
    (void)state;
#ifdef TEST_LEAKS
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) play(PROGRAM("leaks"), scenes[i], NULL);
    for (size_t i = 0; i < sizeof host_scenes / sizeof *host_scenes; i++)
        play(PROGRAM("host_leaks"), host_scenes[i], ARGUMENTS("WEIR_PRELOAD=host:pool"));
#else
    (void)scenes, (void)host_scenes;
    print_message("skipped: this compiler has no -fsanitize=leak\n");
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(look_ups_that_are_not_replaced_answer_as_without_it),
        cmocka_unit_test(look_ups_before_any_constructor_are_answered),
        cmocka_unit_test(other_wrappers_of_the_same_entries_go_with_it),
        cmocka_unit_test(so_do_wrappers_of_dlsym),
        cmocka_unit_test(sizes_at_both_ends_are_answered),
        cmocka_unit_test(a_block_is_freed_once_and_by_its_maker),
        cmocka_unit_test(memory_pools_of_the_program_are_the_drivers_and_the_default_one_is_served),
        cmocka_unit_test(peaks_of_the_default_pool_can_be_set_back_and_the_summary_has_them_still),
        cmocka_unit_test(free_memory_never_wraps_at_a_limit_and_idle_memory_is_free),
        cmocka_unit_test(idle_memory_is_the_drivers_when_it_has_no_other),
        cmocka_unit_test(the_driver_gets_idle_memory_beside_threads_that_take_it),
        cmocka_unit_test(what_a_plain_free_took_back_is_waited_for_without_a_limit_but_one_that_was_asked_for),
        cmocka_unit_test(contexts_of_the_program_are_the_drivers),
        cmocka_unit_test(a_peer_may_use_what_was_allocated_before_and_after),
        cmocka_unit_test(so_may_a_device_that_the_default_pool_is_opened_to),
        cmocka_unit_test(a_device_is_reset_while_threads_allocate),
        cmocka_unit_test(plain_memory_is_the_drivers_by_option_and_all_of_it_when_off),
        cmocka_unit_test(bad_options_leave_the_device_to_the_driver_and_say_so_in_the_log),
        cmocka_unit_test(a_program_that_allocates_much_is_faster),
        cmocka_unit_test(nothing_leaks),
    };
    cmocka_set_test_filter(getenv("WEIR_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
