/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes into a file that is compressed as its name ends (.gz, .zst), else plain; "-" is standard output. It appears
 * under its name only when it is whole: until then it is NAME.part. What exists and is no regular file (a pipe, /dev/null)
 * is written as it is.
 *
 * The first failure is remembered and ends the writing; output_close tells it. */
#ifndef WEIR_TRACE_OUTPUT_H
#define WEIR_TRACE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct output;

/* Whether writing to `path` would overwrite the file `input` ("-": standard input) before it is read or while it is
 * wanted: they are one file, by whatever names; or NAME.part of `path` is. */
bool output_is_input(const char *path, const char *input);

/* Gives: NULL with a sentence in `why`. */
struct output *output_open(const char *path, char *why, size_t room);
void output_put(struct output *output, const void *bytes, size_t count);
/* Remembers a failure that is not of the file, unless there is one already. */
void output_fail(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* False with a sentence in `why` when anything could not be written; there is no file then. `durable`: not before the
 * machine has it on its disk. */
bool output_close(struct output *output, bool durable, char *why, size_t room);
/* Leaves no file. */
void output_abandon(struct output *output);

/* For who writes by other means: opens NAME.part, to be renamed when it is whole; or what exists and is no regular file, and
 * `part` is NULL then. Never through a link NAME.part. Gives: a descriptor, or -1 with errno set. `part` is to be freed. */
int output_open_beside(const char *path, char **part);

#endif
