/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 16 };

bool lines_open(struct lines *lines, struct input *input) {
    *lines = (struct lines){.input = input, .buffer = malloc(BUFFER_BYTES)};
    return lines->buffer != NULL;
}

void lines_close(struct lines *lines) { free(lines->buffer); }

const char *lines_failure(const struct lines *lines) {
    return lines->failure != NULL ? lines->failure : input_failure(lines->input);
}

/* More text behind what is left, which moves to the front. False when there is none. */
static bool fill(struct lines *lines) {
    const size_t left = lines->end - lines->begin;
    memmove(lines->buffer, lines->buffer + lines->begin, left);
    lines->offset += lines->begin;
    lines->begin = 0;
    lines->end = left + input_read(lines->input, lines->buffer + left, BUFFER_BYTES - left);
    lines->has_zeros = memchr(lines->buffer, 0, lines->end) != NULL;
    return lines->end > left;
}

static bool skip_zeros(struct lines *lines) {
    bool any = false;
    while (lines->has_zeros || lines->begin == lines->end) {
        while (lines->begin < lines->end && lines->buffer[lines->begin] == 0) lines->begin++, any = true;
        if (lines->begin < lines->end || !fill(lines)) break;
    }
    return any;
}

bool lines_only_zeros_left(struct lines *lines) {
    skip_zeros(lines);
    return lines->begin == lines->end && lines_failure(lines) == NULL;
}

/* The rest of a comment of any length. */
static void drop_comment(struct lines *lines, struct line *line) {
    line->text = "#";
    line->length = 1;
    do {
        while (lines->begin < lines->end && lines->buffer[lines->begin] != '\n' && lines->buffer[lines->begin] != 0)
            lines->begin++;
    } while (lines->begin == lines->end && fill(lines));
    line->ending = lines->begin == lines->end            ? LINE_CUT
                   : lines->buffer[lines->begin] == '\n' ? LINE_WHOLE
                                                         : LINE_ZEROS;
}

/* How the line at `begin` ends, as far as can be seen, and its length. False: more text is needed. */
static bool find_end(const struct lines *lines, size_t searched, struct line *line) {
    const char *begin = lines->buffer + lines->begin;
    const size_t left = lines->end - lines->begin;
    const char *feed = memchr(begin + searched, '\n', left - searched);
    line->length = feed != NULL ? (size_t)(feed - begin) : left;
    const char *zero = lines->has_zeros ? memchr(begin, 0, line->length) : NULL;
    line->ending = zero != NULL ? LINE_ZEROS : feed != NULL ? LINE_WHOLE : LINE_CUT;
    if (zero != NULL) line->length = (size_t)(zero - begin);
    if (line->length > LONGEST_LINE) line->ending = LINE_TOO_LONG;
    return line->ending != LINE_CUT;
}

static void take(struct lines *lines, struct line *line) {
    line->text = lines->buffer + lines->begin;
    lines->begin += line->length;
    if (line->ending == LINE_TOO_LONG && line->text[0] == '#') drop_comment(lines, line);
    if (line->ending != LINE_WHOLE) return;
    lines->begin++;
    lines->number++;
    if (line->length > 0 && line->text[line->length - 1] == '\r') line->length--;
}

bool lines_next(struct lines *lines, struct line *line) {
    line->after_zeros = lines->offset + lines->begin > 0 && skip_zeros(lines);
    line->number = lines->number + 1;
    line->offset = lines->offset + lines->begin;
    if (lines->number == UINT32_MAX) lines->failure = "more lines than the limit of 2^32 - 1";
    if (lines->failure != NULL) return false;
    for (size_t searched = 0; !find_end(lines, searched, line);) {
        searched = lines->end - lines->begin;
        if (fill(lines)) continue;
        if (searched == 0 || lines_failure(lines) != NULL) return false;
        break;
    }
    take(lines, line);
    return true;
}
