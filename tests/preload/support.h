/* SPDX-License-Identifier: Apache-2.0 */
/* Runs programs as a user would, with the library preloaded or without, and tells what came of it. */
#ifndef WEIR_TESTS_PRELOAD_SUPPORT_H
#define WEIR_TESTS_PRELOAD_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAM(name) TEST_PROGRAMS "/preload_" name

struct outcome {
    int status; /* as a shell has it: 128 + n when a signal ended it */
    char out[8192], err[8192];
    char summary[65536]; /* a line for each process that ended with the library in it */
    double seconds;
};

/* Runs a program to its end, at most a minute. `more`: NULL, or settings of the environment ("A=b"; "A": not set), which come after
 * ours; ends with NULL, as `arguments` does. The emulated driver is in its path, the watch ends it at its first finding. */
void run_plain(const char *const *arguments, const char *const *more, struct outcome *outcome);
void run_preloaded(const char *const *arguments, const char *const *more, struct outcome *outcome);

/* The sum of a number over the processes of a summary. */
uint64_t counted(const struct outcome *outcome, const char *name);
/* What all allocations, and all frees, were counted as served. */
uint64_t counted_allocs(const struct outcome *outcome);
uint64_t counted_frees(const struct outcome *outcome);
/* Ends the test with all that the program said unless it ended with that status, without a word on standard error. */
#define assert_ended(expected, outcome) check_ended(expected, outcome, __FILE__, __LINE__)
void check_ended(int expected, const struct outcome *outcome, const char *file, int line);

/* A folder for a test's files, gone with all that is in it at the end of the process. */
const char *scratch(void);

/* Ends the test where programs are linked to the library, which so comes in another way than it should. */
static inline void skip_where_linked(void) {
#ifdef TEST_LINKED
    print_message("skipped: a sanitizer's runtime has to come before what is preloaded\n");
    skip();
#endif
}

#define ARGUMENTS(...)                                                                                                 \
    (const char *const[]) { __VA_ARGS__, NULL }

#endif
