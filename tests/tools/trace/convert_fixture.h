/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of weir-trace convert share: the program run on a log in a folder of its own. WEIR_TRACE_PROGRAM is the
 * program, WEIR_FIXTURES the folder of small logs, WEIR_SHARED that of large ones. */
#ifndef WEIR_TESTS_CONVERT_FIXTURE_H
#define WEIR_TESTS_CONVERT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/trace/trace.h"

extern char folder[], in_path[64], out_path[64], log_path[64], json_path[64];
int make_folder(void **state);
int remove_folder(void **state);

/* Up to 128 KiB of it, until the next call. */
const char *read_file(const char *path);
void write_file(const char *path, const void *content, size_t bytes);
int run_shell(const char *command);

/* `arguments` is a format; standard error goes to the log, standard output too unless they say otherwise. */
int convert(const char *arguments, ...) __attribute__((format(printf, 1, 2)));
void assert_says(const char *sentence);
void assert_converts(int status);
void read_back(struct trace *trace);
/* The same but for comment lines. */
void assert_same_steps(const char *steps, const char *expected);
/* in_path becomes these bytes, and is converted to these steps. */
void assert_makes(const void *log, size_t bytes, const char *steps);
/* Exit status 2, one sentence, which names the file and has this in it, and no trace. */
void assert_refused(const void *log, size_t bytes, const char *sentence);

/* The same of the first `from` bytes, of one more, and so on, up to all but the last; in this process. */
void assert_cut_refused(const void *log, size_t bytes, size_t from, const char *sentence);

struct refusal {
    const char *table, *sentence;
};

const char *fixture(const char *name);
/* weir-replay says that the trace's peak is `peak`, and that weir completes it on a device of so much more (rounded up to whole
 * pages of 2 MiB). WEIR_REPLAY_PROGRAM is that program. */
void assert_completes(const char *trace, const char *peak, size_t more);

/* Of a large log; skips the test where there is none. */
const char *shared(const char *name);

/* A pickle of what a notation says: {key: value}, [list], (tuple), words as texts, integers (of more than 18 digits: one of 16 bytes), T, F, N.
 * A text that comes again is taken from the memo. Gives: how many bytes. */
size_t write_pickle(uint8_t *to, size_t room, int protocol, const char *notation);

#endif
