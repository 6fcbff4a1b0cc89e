/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of trace_read share: words.c (what stands on a line), comments.c, read.c (what the lines say). */
#ifndef WEIR_TRACE_READER_H
#define WEIR_TRACE_READER_H

#include <string.h>

#include "ids.h"
#include "lines.h"
#include "trace.h"

/* What must be known of a block to accept the next line about it. */
struct block_state {
    uint64_t bytes;
    uint32_t stream;
    uint32_t op; /* that allocated it; IDS_NONE: freed */
};

struct reader {
    struct trace *trace;
    const char *path;
    struct lines lines;
    struct line line; /* the one that is being read */
    char *why;
    size_t why_room;
    bool malformed; /* the complaint is about how the line is written, not about what it says */
    size_t op_room, block_room, offset_room, name_room, stream_id_room;
    struct ids blocks, streams, events;
    struct block_state *states; /* by block */
    uint64_t rounded_bytes, requested_bytes;
};

/* Sets the sentence; false. MALFORMED: of how the line is written. */
bool reader_complain(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define MALFORMED(reader, ...) ((reader)->malformed = true, reader_complain(reader, __VA_ARGS__))

/* Room in *array for one element more than `count`. False with a sentence. */
bool reader_grow(struct reader *reader, void *array, size_t *room, size_t count, size_t size);
/* The number of a stream, a new one at first sight. False with a sentence. */
bool reader_find_stream(struct reader *reader, uint64_t id, uint32_t *stream);
/* A request that the recorded pool refused. One past a limit says nothing. False only without host memory. */
bool reader_refused(struct reader *reader, uint64_t bytes, uint64_t stream);

/* ---- words.c ---------------------------------------------------------------------------------------------------- */

/* What a file says may be anything; what is shown of it can be read, and does nothing to a terminal. */
struct shown {
    char text[44];
};
struct shown shown(const char *text, size_t length);

/* A word, or what is left of a line. */
struct words {
    const char *at, *end;
};

static inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Takes the next word; an empty one: there is none. */
static inline struct words next_word(struct words *words) {
    while (words->at < words->end && is_blank(*words->at)) words->at++;
    const char *begin = words->at;
    while (words->at < words->end && !is_blank(*words->at)) words->at++;
    return (struct words){begin, words->at};
}

/* Each is false with a sentence when the line is not so. */
bool read_no_more(struct reader *reader, struct words *words);
bool read_number(struct reader *reader, struct words word, uint64_t *number); /* all of a word */
bool read_us(struct reader *reader, struct words word, uint64_t *ns);         /* "35", "35.4" */

static inline bool read_next(struct reader *reader, struct words *words, uint64_t *number) {
    return read_number(reader, next_word(words), number);
}

/* ---- comments.c ------------------------------------------------------------------------------------------------- */

/* What stands behind a '#'. What can't be understood says nothing; false only without host memory. */
bool read_comment(struct reader *reader, struct words *words);
/* As many offsets as blocks, if there are any. */
bool finish_offsets(struct reader *reader);

#endif
