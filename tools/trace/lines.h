/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a text, and what a killed recording leaves between them: zero bytes. */
#ifndef WEIR_TRACE_LINES_H
#define WEIR_TRACE_LINES_H

#include "input.h"

#define LONGEST_LINE 4096

enum line_ending {
    LINE_WHOLE, /* a line feed */
    LINE_ZEROS, /* zero bytes come next */
    LINE_CUT,   /* nothing comes next */
    LINE_TOO_LONG,
};

struct line {
    const char *text; /* without its end; gone at the next call */
    size_t length;
    uint32_t number; /* from 1: line feeds before it, and one */
    uint64_t offset; /* of its first byte in the text */
    bool after_zeros;
    enum line_ending ending;
};

struct lines {
    struct input *input;
    char *buffer;
    size_t begin, end; /* what is left of it */
    bool has_zeros;    /* there may be some in what is left */
    uint64_t offset;   /* of the buffer's first byte */
    uint32_t number;   /* line feeds so far */
    const char *failure;
};

/* False without host memory. */
bool lines_open(struct lines *lines, struct input *input);
void lines_close(struct lines *lines);

/* Gives the next line, beyond zero bytes (not at the text's begin: no trace begins so). A comment that is too long is
 * cut to its '#'. False at the end and when the input fails; then number and offset are those of the place. */
bool lines_next(struct lines *lines, struct line *line);
/* Moves beyond zero bytes. True when nothing but them is left, and the input did not fail. */
bool lines_only_zeros_left(struct lines *lines);
/* Why there is no next one; NULL: the text has ended. */
const char *lines_failure(const struct lines *lines);

#endif
