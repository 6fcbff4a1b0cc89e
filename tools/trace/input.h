/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a trace file, decompressed as its content says, a piece at a time. What is kept does not depend on what a
 * file claims, beside the window of a zstd frame (at most 128 MiB). */
#ifndef WEIR_TRACE_INPUT_H
#define WEIR_TRACE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec.h"
#include "trace.h"

struct input;

/* "-" is standard input. Gives: NULL with a sentence in `why`. */
struct input *input_open(const char *path, char *why, size_t room);
/* The same of bytes in memory, which must stay. */
struct input *input_open_bytes(const void *bytes, size_t count, char *why, size_t room);
void input_close(struct input *input);

/* Another limit than TRACE_MOST_TEXT_BYTES. */
void input_limit(struct input *input, uint64_t most_text_bytes);
/* NULL: plain. Known from the start. */
const struct codec *input_codec(const struct input *input);

enum { INPUT_MOST_PEEKED = 64 };

/* Looks at the text's first bytes before any was read: how many there are, fewer than INPUT_MOST_PEEKED where it is
 * shorter or fails. They last until the next call, which may be input_read: it gives them too. */
size_t input_peek(struct input *input, const uint8_t **text);

/* Gives the next bytes of the text: how many, at least one while there are any; 0 at its end, and when it fails. */
size_t input_read(struct input *input, void *text, size_t room);
/* Why it failed, without the file's name; NULL: it did not. */
const char *input_failure(const struct input *input);

/* trace_read of an input, whose name in sentences is `path`. */
bool trace_read_input(struct input *input, const char *path, struct trace *trace, char *why, size_t room);

#endif
