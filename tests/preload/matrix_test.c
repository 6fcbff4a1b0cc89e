/* SPDX-License-Identifier: Apache-2.0 */
/* Small programs that know nothing of weir say and do with the preloaded library what they do without it, however they find the
 * driver; and of what they allocate and free all is counted as served, or, where the table says so, left to the driver. */
#include "support.h"

static const struct program {
    const char *name, *arguments[4];
    int status;
    uint64_t allocs, frees, left; /* served, and left to the driver */
    uint64_t host;                /* pinned allocations and frees, each; more than 0: served by option */
} programs[] = {
    {"runtime_13", {0}, 0, 3, 3, 0, 0},
    {"runtime_12", {0}, 0, 3, 3, 0, 0},
    {"by_name", {0}, 0, 3, 3, 0, 0},
    {"by_dlsym", {0}, 0, 3, 3, 0, 0},
    {"by_default", {0}, 0, 3, 3, 0, 0},
    {"by_lookup", {"11000"}, 0, 3, 3, 0, 0},
    {"by_lookup", {"12000"}, 0, 3, 3, 0, 0},
    {"by_lookup", {"13000"}, 0, 3, 3, 0, 0},
    {"by_lookup", {"11020", "per-thread"}, 0, 3, 3, 0, 0},
    {"by_lookup", {"13000", "per-thread"}, 0, 3, 3, 0, 0},
    {"loader", {PROGRAM("plugin_by_name.so"), "deep"}, 0, 3, 3, 0, 0},
    {"loader", {PROGRAM("plugin_by_dlsym.so"), "deep"}, 0, 3, 3, 0, 0},
    {"loader", {PROGRAM("plugin_by_lookup.so"), "deep"}, 0, 3, 3, 0, 0},
    {"loader", {PROGRAM("plugin_data.so"), "deep"}, 0, 3, 3, 0, 0},
    {"loader", {"$ORIGIN/preload_plugin_data.so", "deep"}, 0, 3, 3, 0, 0}, /* where the program lies */
    {"loader", {PROGRAM("plugin_data.so"), "first", "deep"}, 0, 6, 6, 0, 0},
    {"loader", {PROGRAM("plugin_by_name.so"), "first"}, 0, 6, 6, 0, 0},
    {"loader", {PROGRAM("plugin_by_lookup.so"), "first", "deep"}, 0, 6, 6, 0, 0},
    {"variables", {0}, 0, 3, 3, 0, 0},
    {"threads", {0}, 0, 808, 808, 0, 0},
    {"devices", {0}, 0, 4, 4, 0, 0},
    {"live", {0}, 5, 3, 0, 0, 0},
    {"capture", {0}, 0, 4, 4, 1, 0},
    {"peer", {0}, 0, 3, 3, 0, 0},
    {"reset", {0}, 0, 3, 0, 0, 0},
    {"pinned", {0}, 0, 1, 1, 0, 0},
    {"pinned", {0}, 0, 1, 1, 0, 6},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static uint64_t left_to_the_driver(const struct outcome *outcome) {
    return counted(outcome, "foreign_context") + counted(outcome, "foreign_capture") +
           counted(outcome, "foreign_pool") + counted(outcome, "foreign_option") + counted(outcome, "foreign_failed");
}

/* The address sanitizer refuses RTLD_DEEPBIND. */
static bool can_run(const struct program *program) {
#ifdef TEST_LINKED
    for (int i = 0; i < 4; i++)
        if (program->arguments[i] != NULL && strcmp(program->arguments[i], "deep") == 0) return false;
#else
    (void)program;
#endif
    return true;
}

static bool is_alike(const struct program *program, const char *clock) {
    static struct outcome without, with;
    char path[256], emu[64];
    const char *arguments[6] = {path};
    if (!can_run(program)) return true;
    snprintf(path, sizeof path, PROGRAM("%s"), program->name);
    snprintf(emu, sizeof emu, "WEIR_EMU=devices:2,watch:abort,clock:%s", clock);
    memcpy(&arguments[1], program->arguments, sizeof program->arguments);
    run_plain(arguments, ARGUMENTS(emu), &without);
    run_preloaded(arguments, ARGUMENTS(emu, program->host > 0 ? "WEIR_PRELOAD=host:pool" : "WEIR_PRELOAD"), &with);
    const bool alike = without.status == program->status && with.status == program->status && with.err[0] == 0 &&
                       strcmp(with.out, without.out) == 0 && strcmp(with.err, without.err) == 0;
    const bool all = counted_allocs(&with) == program->allocs && counted_frees(&with) == program->frees &&
                     left_to_the_driver(&with) == program->left && counted(&with, "host_allocs") == program->host &&
                     counted(&with, "host_frees") == program->host;
    if (alike && all) return true;
    print_error("%s %s: ended with %d and %d\n%s%s%s%s%s", program->name, clock, without.status, with.status,
                without.out, without.err, with.out, with.err, with.summary);
    return false;
}

static void programs_do_what_they_do_without_it_and_all_their_calls_are_counted(void **state) {
    int wrong = 0;
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) wrong += !is_alike(&programs[i], "real");
    assert_int_equal(wrong, 0);
}

/* Threads take part in it by a call that only the emulated driver has. */
static void so_they_do_under_the_virtual_clock(void **state) {
    int wrong = 0;
    (void)state;
    for (int i = 0; i < PROGRAMS; i++)
        if (strcmp(programs[i].name, "threads") != 0) wrong += !is_alike(&programs[i], "virtual");
    assert_int_equal(wrong, 0);
}

static void children_of_a_fork_end_as_without_it_while_threads_allocate(void **state) {
    static struct outcome outcome;
    (void)state;
    /* What only a thread knew that is not in the child looks lost to a leak checker there. */
    run_preloaded(ARGUMENTS(PROGRAM("fork")), ARGUMENTS("ASAN_OPTIONS=detect_leaks=0"), &outcome);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "0 children ended wrong\n");
    assert_int_equal(counted_allocs(&outcome), counted_frees(&outcome));
    assert_true(counted_allocs(&outcome) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_do_what_they_do_without_it_and_all_their_calls_are_counted),
        cmocka_unit_test(so_they_do_under_the_virtual_clock),
        cmocka_unit_test(children_of_a_fork_end_as_without_it_while_threads_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
