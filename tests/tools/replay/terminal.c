/* SPDX-License-Identifier: Apache-2.0 */
/* What the place that text goes to can show: a terminal's width and colours, and what the environment says of both. */
#include "tools/replay/terminal.h"

#include <pty.h>
#include <sys/ioctl.h>

#include "support.h"

static int terminal_of(unsigned short width, int *other) {
    int terminal;
    struct winsize size = {.ws_col = width, .ws_row = 20};
    if (openpty(other, &terminal, NULL, NULL, &size) != 0) {
        print_message("no pseudo-terminal can be had here\n");
        skip();
    }
    return terminal;
}

static void with(const char *columns, const char *no_color, const char *term, const char *locale) {
    const char *const names[] = {"COLUMNS", "NO_COLOR", "TERM", "LC_ALL"};
    const char *const values[] = {columns, no_color, term, locale};
    for (size_t i = 0; i < 4; i++) assert_int_equal(values[i] ? setenv(names[i], values[i], 1) : unsetenv(names[i]), 0);
}

static void the_width_is_what_columns_says_else_the_terminals_else_80(void **state) {
    (void)state;
    int other;
    const int terminal = terminal_of(101, &other);
    with(NULL, NULL, "xterm", "C");
    assert_int_equal(terminal_look(terminal).width, 101);
    assert_int_equal(terminal_look(-1).width, 80);
    with("120", NULL, "xterm", "C");
    assert_int_equal(terminal_look(terminal).width, 120);
    assert_int_equal(terminal_look(-1).width, 120);
    with("12x", NULL, "xterm", "C");
    assert_int_equal(terminal_look(terminal).width, 101);
    with("7", NULL, "xterm", "C");
    assert_int_equal(terminal_look(terminal).width, 40);
    with("99999999999999999999", NULL, "xterm", "C");
    assert_int_equal(terminal_look(terminal).width, 400);
    close(terminal);
    close(other);
}

static void colours_are_a_terminals_that_wants_them(void **state) {
    (void)state;
    int other, pipes[2];
    const int terminal = terminal_of(80, &other);
    assert_int_equal(pipe(pipes), 0);
    with(NULL, NULL, "xterm", "C");
    assert_true(terminal_look(terminal).colour);
    assert_false(terminal_look(pipes[1]).colour);
    assert_false(terminal_look(-1).colour);
    with(NULL, "1", "xterm", "C");
    assert_false(terminal_look(terminal).colour);
    with(NULL, "", "xterm", "C"); /* empty: as if it were not there */
    assert_true(terminal_look(terminal).colour);
    with(NULL, NULL, "dumb", "C");
    assert_false(terminal_look(terminal).colour);
    with(NULL, NULL, NULL, "C");
    assert_false(terminal_look(terminal).colour);
    for (int i = 0; i < 2; i++) close(pipes[i]);
    close(terminal);
    close(other);
}

static void characters_are_as_the_locale_has_them(void **state) {
    (void)state;
    with(NULL, NULL, NULL, "C");
    assert_false(terminal_look(-1).utf8);
    with(NULL, NULL, NULL, "C.UTF-8");
    assert_true(terminal_look(-1).utf8);
    with(NULL, NULL, NULL, "no_such.UTF-8");
    assert_false(terminal_look(-1).utf8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_width_is_what_columns_says_else_the_terminals_else_80),
        cmocka_unit_test(colours_are_a_terminals_that_wants_them),
        cmocka_unit_test(characters_are_as_the_locale_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
