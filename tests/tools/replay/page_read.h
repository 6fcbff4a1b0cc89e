/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a timeline page as its script does. */
#ifndef WEIR_TESTS_TOOLS_REPLAY_PAGE_READ_H
#define WEIR_TESTS_TOOLS_REPLAY_PAGE_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOWN_LAYERS = 8 };
enum shown_count { CALLS, MOVES, MOVED, DEVICE_WAITS, HOST_WAITS, HOST_WAIT_NS, STRANDED, SHOWN_COUNTS };

/* A column, or after a request. Memory in bytes; idle: by layer, the last one that has a name is of all others. */
struct shown {
    bool single; /* a request */
    int64_t ns, live, held, idle[SHOWN_LAYERS], counts[SHOWN_COUNTS];
    unsigned kind;
    int64_t line, stream, bytes;
};

struct shown_bar {
    int64_t start, end, busy;
};

struct page {
    char *text;
    json_t *data;
    struct shown *samples;
    size_t sample_count, column_count;
};

/* Fails the test where the page is not as it should be. */
struct page page_read(const char *path);
void page_free(struct page *page);

json_int_t page_number(const json_t *object, const char *key);
/* The layer of a stream's idle bytes, by its name. */
size_t page_layer(const struct page *page, const char *name);
int64_t page_most_live(const struct page *page);
int64_t page_counted(const struct page *page, enum shown_count count);
const json_t *page_row(const struct page *page, const char *name);
/* Of a row; to be freed. */
struct shown_bar *page_bars(const json_t *row, size_t *count);

#endif
