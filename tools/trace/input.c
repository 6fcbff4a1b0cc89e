/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16 };

/* Compressed text of so many bytes is read whatever it takes; beyond, so many for each byte of the file. Logs and traces have some 10 to
 * 100; what has more is made to keep a reader busy. */
enum { FREE_TEXT_BYTES = 64 << 20, MOST_EXPANSION = 1000 };

struct input {
    int file; /* -1: bytes in memory */
    const uint8_t *memory;
    size_t memory_bytes;
    const struct codec *codec; /* NULL: plain */
    void *decoder;
    const uint8_t *at; /* what was read and not yet taken, in `buffer` */
    size_t left;
    uint64_t file_bytes; /* read so far */
    uint64_t text_bytes, most_text_bytes;
    bool file_ended, in_member;
    bool failed;
    char why[200];
    uint8_t peeked[INPUT_MOST_PEEKED]; /* text that was looked at and not yet read */
    size_t peeked_at, peeked_bytes;
    uint8_t buffer[BUFFER_BYTES];
};

static void fail(struct input *input, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct input *input, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(input->why, sizeof input->why, format, arguments);
    va_end(arguments);
    input->failed = true;
}

/* ---- bytes of the file ------------------------------------------------------------------------------------------ */

static size_t read_memory(struct input *input, uint8_t *bytes, size_t room) {
    const size_t count = input->memory_bytes < room ? input->memory_bytes : room;
    if (count > 0) memcpy(bytes, input->memory, count);
    input->memory += count;
    input->memory_bytes -= count;
    return count;
}

static size_t read_file(struct input *input, uint8_t *bytes, size_t room) {
    if (input->file_ended) return 0;
    ssize_t count;
    if (input->file < 0)
        count = (ssize_t)read_memory(input, bytes, room);
    else
        while ((count = read(input->file, bytes, room)) < 0 && errno == EINTR) continue;
    if (count < 0) fail(input, "%s", errno == EISDIR ? "it is a folder" : strerror(errno));
    if (count <= 0) input->file_ended = true;
    if (count <= 0) return 0;
    input->file_bytes += (uint64_t)count;
    return (size_t)count;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static size_t read_plain(struct input *input, uint8_t *text, size_t room) {
    if (input->left == 0) return read_file(input, text, room);
    const size_t count = input->left < room ? input->left : room;
    memcpy(text, input->at, count);
    input->at += count;
    input->left -= count;
    return count;
}

static void refill(struct input *input) {
    if (input->left > 0) return;
    input->at = input->buffer;
    input->left = read_file(input, input->buffer, sizeof input->buffer);
}

/* One step of decoding. False when there is no more, or it fails. */
static bool decode(struct input *input, struct codec_span *span) {
    refill(input);
    if (input->failed || (input->left == 0 && !input->in_member)) return false;
    const size_t out_bytes = span->out_bytes;
    span->in = input->at;
    span->in_bytes = input->left;
    const enum codec_step step = input->codec->decode(input->decoder, span);
    const bool stuck = span->in_bytes == input->left && span->out_bytes == out_bytes && step == CODEC_GOES_ON;
    input->at = span->in;
    input->left = span->in_bytes;
    input->in_member = step != CODEC_ENDED;
    const uint64_t at = input->file_bytes - input->left;
    if (step == CODEC_BROKEN) fail(input, "byte %" PRIu64 " of the file is no %s data", at, input->codec->name);
    if (stuck)
        fail(input, "the file ends in the middle of its %s data, at byte %" PRIu64 " of the file", input->codec->name,
             at);
    return !input->failed;
}

static size_t read_compressed(struct input *input, uint8_t *text, size_t room) {
    struct codec_span span = {.out = text, .out_bytes = room};
    while (span.out_bytes == room)
        if (!decode(input, &span)) break;
    return room - span.out_bytes;
}

/* False where there is more text than there may be. */
static bool is_within_limits(struct input *input) {
    const uint64_t taken = input->file_bytes - input->left;
    if (input->text_bytes > input->most_text_bytes)
        fail(input, "the text is longer than the limit of %" PRIu64 " bytes", input->most_text_bytes);
    else if (input->codec != NULL && input->text_bytes > FREE_TEXT_BYTES && input->text_bytes / MOST_EXPANSION > taken)
        fail(input, "%" PRIu64 " bytes of text come from the first %" PRIu64 " of the file: more than %d from one",
             input->text_bytes, taken, MOST_EXPANSION);
    else
        return true;
    return false;
}

/* What is behind what was looked at. */
static size_t read_on(struct input *input, void *text, size_t room) {
    if (input->failed) return 0;
    const size_t count = input->codec == NULL ? read_plain(input, text, room) : read_compressed(input, text, room);
    input->text_bytes += count;
    return is_within_limits(input) ? count : 0;
}

size_t input_peek(struct input *input, const uint8_t **text) {
    for (size_t count = 1; count > 0 && input->peeked_bytes < sizeof input->peeked && input->peeked_at == 0;) {
        count = read_on(input, input->peeked + input->peeked_bytes, sizeof input->peeked - input->peeked_bytes);
        input->peeked_bytes += count;
    }
    *text = input->peeked + input->peeked_at;
    return input->peeked_bytes - input->peeked_at;
}

size_t input_read(struct input *input, void *text, size_t room) {
    const size_t left = input->peeked_bytes - input->peeked_at, count = left < room ? left : room;
    if (left == 0) return read_on(input, text, room);
    memcpy(text, input->peeked + input->peeked_at, count);
    input->peeked_at += count;
    return count;
}

const char *input_failure(const struct input *input) { return input->failed ? input->why : NULL; }
const struct codec *input_codec(const struct input *input) { return input->codec; }
void input_limit(struct input *input, uint64_t most_text_bytes) { input->most_text_bytes = most_text_bytes; }

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* Opening a FIFO that nobody writes to would wait for ever: it is opened without waiting, and read as an empty file. */
static int open_file(const char *path, char *why, size_t room) {
    if (strcmp(path, "-") == 0) {
        const int file = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        if (file < 0) snprintf(why, room, "standard input: %s", strerror(errno));
        return file;
    }
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) {
        snprintf(why, room, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        snprintf(why, room, "%s: it is a folder", path);
    } else if (fcntl(file, F_SETFL, 0) == 0) {
        return file;
    }
    if (file >= 0) close(file);
    return -1;
}

static bool find_codec(struct input *input, const char *path, char *why, size_t room) {
    static const struct codec *const codecs[] = {&codec_gzip, &codec_zstd};
    for (size_t count = 1; count > 0 && input->left < sizeof input->buffer && input->left < sizeof codecs[0]->magic;) {
        count = read_file(input, input->buffer + input->left, sizeof input->buffer - input->left);
        input->left += count;
    }
    for (size_t i = 0; i < 2 && input->codec == NULL; i++)
        if (input->left >= codecs[i]->magic_bytes &&
            memcmp(input->buffer, codecs[i]->magic, codecs[i]->magic_bytes) == 0)
            input->codec = codecs[i];
    if (input->codec == NULL) return true;
    if (!input->codec->built) {
        snprintf(why, room, "%s: it is compressed by %s, which this build of weir can't read", path,
                 input->codec->name);
        return false;
    }
    input->decoder = input->codec->open_decoder();
    if (input->decoder == NULL) snprintf(why, room, "%s: no host memory to decompress it", path);
    return input->decoder != NULL;
}

static struct input *start(int file, const void *bytes, size_t count, const char *path, char *why, size_t room) {
    struct input *input = calloc(1, sizeof *input);
    if (input == NULL) {
        snprintf(why, room, "%s: no host memory to read it", path);
        if (file >= 0) close(file);
        return NULL;
    }
    input->file = file;
    input->memory = bytes;
    input->memory_bytes = count;
    input->most_text_bytes = TRACE_MOST_TEXT_BYTES;
    input->at = input->buffer;
    if (find_codec(input, path, why, room)) return input;
    input_close(input);
    return NULL;
}

struct input *input_open(const char *path, char *why, size_t room) {
    const int file = open_file(path, why, room);
    return file < 0 ? NULL : start(file, NULL, 0, path, why, room);
}

struct input *input_open_bytes(const void *bytes, size_t count, char *why, size_t room) {
    return start(-1, bytes, count, "the bytes given", why, room);
}

void input_close(struct input *input) {
    if (input->decoder != NULL) input->codec->close_decoder(input->decoder);
    if (input->file >= 0) close(input->file);
    free(input);
}
