/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of comma-separated values, read a row at a time in bounded memory: a header that names the columns, in any
 * order; fields that may be quoted; lines that end in LF or CRLF. Empty lines, and lines that begin with '#', are no
 * rows.
 *
 * Words. offset: in bytes from 0, in the text as it is read (uncompressed). column: a field's index in the header.
 *
 * What is wrong is told once, in a sentence with file, line, offset, column and reason; every call after it fails too.
 */
#ifndef WEIR_TRACE_CSV_H
#define WEIR_TRACE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "input.h"

enum { CSV_LONGEST_LINE = 4096, CSV_MOST_COLUMNS = 64, CSV_NO_COLUMN = -1 };

struct csv;

/* Reads up to and with the header. Each comment line goes to `comment` (may be NULL), without its '#'.
 *
 * Gives: NULL with a sentence in `why`, which stays in use for the sentences to come. `name` and `input` are kept. */
struct csv *csv_open(const char *name, struct input *input, void (*comment)(void *with, const char *text), void *with,
                     char *why, size_t room);
void csv_close(struct csv *csv);

/* CSV_NO_COLUMN when the header has none of that name. */
int csv_column(const struct csv *csv, const char *name);

enum csv_next { CSV_ROW, CSV_END, CSV_BAD };
enum csv_next csv_next(struct csv *csv);
uint64_t csv_line(const struct csv *csv);   /* of the row, from 1 */
uint64_t csv_offset(const struct csv *csv); /* of the row */

/* Of the row. A text lasts until the next one. */
const char *csv_text(const struct csv *csv, int column);
/* False with the sentence told: not a number, negative, or above `most`. */
bool csv_number(struct csv *csv, int column, uint64_t most, uint64_t *value);
/* A time in microseconds, decimals allowed: whole nanoseconds, further digits cut off. */
bool csv_ns(struct csv *csv, int column, uint64_t *ns);

/* Tells what is wrong with the row, or with one column of it. Gives false. */
bool csv_complain(struct csv *csv, int column, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
