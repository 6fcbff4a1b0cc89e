/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of traces share: cmocka, texts as traces, a folder that goes with the test. */
#ifndef WEIR_TESTS_TRACE_FIXTURE_H
#define WEIR_TESTS_TRACE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tools/trace/trace.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Reads a text that holds what follows the header; its name in sentences is "t". Gives: the sentence, NULL when it was
 * accepted; then *trace is to be freed. */
const char *read_lines(const char *lines, size_t length, struct trace *trace);
/* The same of any bytes. */
const char *read_bytes(const void *bytes, size_t length, struct trace *trace);
/* Fails the test with the sentence. */
void read_good(const char *lines, struct trace *trace);

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

int make_folder(void **state);
int remove_folder(void **state); /* and all files in it */
/* A name in it; of the last eight calls. */
const char *in_folder(const char *name);
void put_file(const char *path, const void *bytes, size_t count);
bool is_there(const char *path);
/* All of a file, with a zero byte behind it; to be freed. */
char *get_file(const char *path, size_t *count);

#endif
