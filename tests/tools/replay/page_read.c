/* SPDX-License-Identifier: Apache-2.0 */
#include "page_read.h"

#include <sys/stat.h>

#include "support.h"

/* ---- the page --------------------------------------------------------------------------------------------------- */

static char *read_text(const char *path) {
    FILE *file = fopen(path, "r");
    struct stat info;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    char *text = calloc(1, (size_t)info.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)info.st_size, file), info.st_size);
    fclose(file);
    return text;
}

/* As a browser would find it: up to the first end of the element. */
static json_t *data_of(const char *page) {
    static const char opening[] = "<script type=\"application/json\" id=\"run\">";
    const char *begin = strstr(page, opening);
    assert_non_null(begin);
    begin += strlen(opening);
    const char *end = strstr(begin, "</script");
    assert_non_null(end);
    json_error_t error;
    json_t *data = json_loadb(begin, (size_t)(end - begin), 0, &error);
    if (data == NULL) fail_msg("line %d: %s", error.line, error.text);
    return data;
}

json_int_t page_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static json_int_t element(const json_t *array, size_t index) {
    const json_t *value = json_array_get(array, index);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

struct bytes {
    uint8_t *at;
    size_t length, read;
};

static uint32_t digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') return 0;
    const char *found = strchr(digits, c);
    assert_true(c != 0 && found != NULL);
    return (uint32_t)(found - digits);
}

static struct bytes bytes_of(const json_t *string) {
    const char *text = json_string_value(string);
    assert_non_null(text);
    const size_t length = strlen(text);
    assert_int_equal(length % 4, 0);
    struct bytes bytes = {.at = malloc(length + 1)};
    assert_non_null(bytes.at);
    for (size_t i = 0; i < length; i += 4) {
        const uint32_t group =
            digit(text[i]) << 18 | digit(text[i + 1]) << 12 | digit(text[i + 2]) << 6 | digit(text[i + 3]);
        for (int k = 0; k < 3; k++) bytes.at[bytes.length++] = (uint8_t)(group >> (16 - 8 * k));
    }
    while (length > 0 && bytes.length > length / 4 * 3 - (text[length - 1] == '=') - (text[length - 2] == '='))
        bytes.length--;
    return bytes;
}

static int64_t next(struct bytes *bytes) {
    uint64_t value = 0;
    for (unsigned place = 0;; place += 7) {
        assert_true(bytes->read < bytes->length && place < 64);
        const uint8_t byte = bytes->at[bytes->read++];
        value |= (uint64_t)(byte & 127) << place;
        if (byte < 128) return (int64_t)value;
    }
}

static int64_t to_signed(int64_t value) { return value % 2 == 1 ? -(value + 1) / 2 : value / 2; }
static int64_t next_signed(struct bytes *bytes) { return to_signed(next(bytes)); }

/* ---- samples ---------------------------------------------------------------------------------------------------- */

static void read_columns(struct page *page) {
    int64_t ns = 0, live = 0, held = 0, idle[SHOWN_LAYERS] = {0};
    for (size_t i = 0; i < page->column_count; i++) {
        struct shown *column = &page->samples[page->sample_count++];
        column->ns = ns += element(json_object_get(page->data, "time"), i);
        column->live = 512 * (live += element(json_object_get(page->data, "live"), i));
        column->held = 512 * (held += element(json_object_get(page->data, "held"), i));
        for (size_t k = 0; k <= json_array_size(json_object_get(page->data, "idle")); k++) {
            char key[32];
            snprintf(key, sizeof key, "idle%zu", k);
            column->idle[k] = 512 * (idle[k] += element(json_object_get(page->data, key), i));
        }
    }
    size_t i;
    json_t *counts;
    json_array_foreach(json_object_get(page->data, "counts"), i, counts) {
        assert_in_range(element(counts, 0), 0, page->column_count);
        for (size_t k = 0; k < SHOWN_COUNTS; k++) page->samples[element(counts, 0)].counts[k] = element(counts, k + 1);
    }
}

static void read_counts(struct bytes *bytes, struct shown *sample) {
    static const unsigned bits[SHOWN_COUNTS] = {1, 2, 2, 4, 8, 8, 16};
    const int64_t mask = next(bytes);
    for (size_t k = 0; k < SHOWN_COUNTS; k++)
        if (mask & bits[k]) sample->counts[k] = next(bytes);
}

struct reading {
    int64_t ns, line, stream, held, live, idle[64];
};

static void read_request(const struct page *page, struct bytes *bytes, struct reading *now, struct shown *sample) {
    const int64_t head = next(bytes);
    sample->single = true;
    sample->kind = head & 3;
    sample->ns = now->ns += next(bytes);
    const int64_t size = next(bytes);
    sample->bytes = size % 2 == 1 ? size / 2 * 512 : size / 2;
    sample->line = now->line += head & 4 ? next(bytes) : 1;
    if (head & 8) now->stream = next(bytes);
    sample->stream = now->stream;
    if (head & 16) now->held += next_signed(bytes);
    sample->held = 512 * now->held;
    const int64_t slot =
        page_number(json_array_get(json_object_get(page->data, "streams"), (size_t)now->stream), "slot");
    const int64_t units = (sample->bytes + 511) / 512;
    assert_in_range(slot, 0, 32);
    if (json_is_true(json_object_get(page->data, "idle_known"))) {
        if (sample->kind == 0) now->idle[slot] -= now->idle[slot] < units ? now->idle[slot] : units;
        if (sample->kind == 1) now->idle[slot] += units;
    }
    for (int64_t count = head & 32 ? next(bytes) : 0; count > 0; count--) {
        const int64_t of = next(bytes);
        assert_in_range(of, 0, 31);
        now->idle[of] += next_signed(bytes);
    }
    if (head & 64) read_counts(bytes, sample);
    now->live += sample->kind == 0 ? sample->bytes : sample->kind == 1 ? -sample->bytes : 0;
    sample->live = now->live;
    for (size_t k = 0; k < 32; k++) {
        assert_true(now->idle[k] >= 0);
        sample->idle[element(json_object_get(page->data, "layers"), k)] += 512 * now->idle[k];
    }
}

static void read_requests(struct page *page) {
    size_t i;
    json_t *part;
    json_array_foreach(json_object_get(page->data, "requests"), i, part) {
        struct reading now = {.live = page_number(part, "live_bytes")};
        struct bytes bytes = bytes_of(json_object_get(part, "bytes"));
        for (json_int_t k = page_number(part, "count"); k > 0; k--)
            read_request(page, &bytes, &now, &page->samples[page->sample_count++]);
        assert_int_equal(bytes.read, bytes.length);
        free(bytes.at);
    }
}

struct page page_read(const char *path) {
    struct page page = {.text = read_text(path)};
    page.data = data_of(page.text);
    page.column_count = json_array_size(json_object_get(page.data, "time"));
    size_t i, count = page.column_count;
    json_t *part;
    json_array_foreach(json_object_get(page.data, "requests"), i, part) { count += (size_t)page_number(part, "count"); }
    page.samples = calloc(count + 1, sizeof *page.samples);
    assert_non_null(page.samples);
    read_columns(&page);
    read_requests(&page);
    for (size_t k = 1; k < page.sample_count; k++) assert_true(page.samples[k].ns >= page.samples[k - 1].ns);
    return page;
}

void page_free(struct page *page) {
    json_decref(page->data);
    free(page->text);
    free(page->samples);
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

size_t page_layer(const struct page *page, const char *name) {
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(page->data, "idle"), i, value) {
        if (strcmp(json_string_value(value), name) == 0) return i;
    }
    fail_msg("no idle bytes of \"%s\"", name);
    return 0;
}

int64_t page_most_live(const struct page *page) {
    int64_t most = 0;
    for (size_t i = 0; i < page->sample_count; i++)
        if (page->samples[i].live > most) most = page->samples[i].live;
    return most;
}

int64_t page_counted(const struct page *page, enum shown_count count) {
    int64_t sum = 0;
    for (size_t i = 0; i < page->sample_count; i++) sum += page->samples[i].counts[count];
    return sum;
}

const json_t *page_row(const struct page *page, const char *name) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(page->data, "rows"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0) return row;
    }
    fail_msg("no row \"%s\"", name);
    return NULL;
}

struct shown_bar *page_bars(const json_t *row, size_t *count) {
    struct bytes bytes = bytes_of(json_object_get(row, "bars"));
    *count = (size_t)page_number(row, "count");
    struct shown_bar *bars = calloc(*count + 1, sizeof *bars);
    assert_non_null(bars);
    int64_t at = 0;
    for (size_t i = 0; i < *count; i++) {
        const int64_t head = next(&bytes), length = next(&bytes);
        bars[i].start = at + to_signed(head / 2);
        at = bars[i].end = bars[i].start + length;
        bars[i].busy = head % 2 == 1 ? next(&bytes) : length;
    }
    assert_int_equal(bytes.read, bytes.length);
    free(bytes.at);
    return bars;
}
