/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec.h"
#include "device/path.h"

enum { BUFFER_BYTES = 1 << 16 };

struct output {
    int file;
    char *path, *part_path; /* part_path NULL: written under its own name */
    const struct codec *codec;
    void *encoder;
    bool failed;
    char why[512];
    uint8_t compressed[BUFFER_BYTES];
};

void output_fail(struct output *output, const char *format, ...) {
    if (output->failed) return;
    output->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(output->why, sizeof output->why, format, arguments);
    va_end(arguments);
}

static void write_all(struct output *output, const uint8_t *bytes, size_t count) {
    while (count > 0 && !output->failed) {
        ssize_t wrote = write(output->file, bytes, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) {
            output_fail(output, "%s: %s", output->path, strerror(errno));
            return;
        }
        bytes += wrote;
        count -= (size_t)wrote;
    }
}

static void compress_all(struct output *output, const uint8_t *bytes, size_t count, bool last) {
    struct codec_span span = {.in = bytes, .in_bytes = count};
    for (enum codec_step step = CODEC_GOES_ON; step != CODEC_ENDED && !output->failed;) {
        span.out = output->compressed;
        span.out_bytes = sizeof output->compressed;
        step = output->codec->encode(output->encoder, &span, last);
        if (step == CODEC_BROKEN) output_fail(output, "%s: %s can't compress", output->path, output->codec->name);
        write_all(output, output->compressed, sizeof output->compressed - span.out_bytes);
    }
}

void output_put(struct output *output, const void *bytes, size_t count) {
    if (output->failed || count == 0) return;
    if (output->codec != NULL)
        compress_all(output, bytes, count, false);
    else
        write_all(output, bytes, count);
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

static const struct codec *codec_by_name(const char *path) {
    static const struct codec *const codecs[] = {&codec_gzip, &codec_zstd};
    size_t length = strlen(path);
    for (size_t i = 0; i < 2; i++) {
        size_t ending = strlen(codecs[i]->ending);
        if (length > ending && strcmp(path + length - ending, codecs[i]->ending) == 0) return codecs[i];
    }
    return NULL;
}

static void release(struct output *output) {
    if (output->encoder != NULL) output->codec->close_encoder(output->encoder);
    if (output->file > STDERR_FILENO) close(output->file);
    free(output->path);
    free(output->part_path);
    free(output);
}

/* Renaming onto a device or a pipe would put a file in its place. */
static bool is_special(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* A link of that name would lead the writing elsewhere; what is left of an earlier writing is not gone on with. */
static int open_part(const char *path) {
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode)) unlink(path);
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

int output_open_beside(const char *path, char **part) {
    *part = NULL;
    if (is_special(path)) return open(path, O_WRONLY | O_CLOEXEC);
    if (asprintf(part, "%s.part", path) < 0) {
        *part = NULL;
        errno = ENOMEM;
        return -1;
    }
    return open_part(*part);
}

static bool open_file(struct output *output) {
    if (strcmp(output->path, "-") == 0) {
        output->file = STDOUT_FILENO;
        return true;
    }
    output->file = output_open_beside(output->path, &output->part_path);
    if (output->file < 0)
        output_fail(output, "%s: %s", output->part_path != NULL ? output->part_path : output->path, strerror(errno));
    return output->file >= 0;
}

static bool is_file(const char *path, const struct stat *file) {
    struct stat status;
    return stat(path, &status) == 0 && status.st_dev == file->st_dev && status.st_ino == file->st_ino;
}

bool output_is_input(const char *path, const char *input) {
    static const char ending[] = ".part";
    struct stat file;
    char part[4096];
    const bool there = strcmp(input, "-") == 0 ? fstat(STDIN_FILENO, &file) == 0 : stat(input, &file) == 0;
    if (!there || !S_ISREG(file.st_mode) || strcmp(path, "-") == 0) return false;
    if (is_file(path, &file)) return true;
    const size_t length = strlen(path);
    if (length + sizeof ending > sizeof part) return false;
    memcpy(part, path, length);
    memcpy(part + length, ending, sizeof ending);
    return is_file(part, &file);
}

struct output *output_open(const char *path, char *why, size_t room) {
    struct output *output = calloc(1, sizeof *output);
    const char *reason = "no host memory to write it";
    snprintf(why, room, "%s: %s", path, reason);
    if (output == NULL) return NULL;
    output->file = -1;
    output->codec = codec_by_name(path);
    output->path = strcmp(path, "-") == 0 ? strdup(path) : weir__behind_links(path);
    if (output->path == NULL) {
        release(output);
        return NULL;
    }
    if (output->codec != NULL && !output->codec->built) {
        snprintf(why, room, "%s: this build of weir can't write %s", path, output->codec->name);
        release(output);
        return NULL;
    }
    if (output->codec != NULL) output->encoder = output->codec->open_encoder();
    if ((output->codec == NULL || output->encoder != NULL) && open_file(output)) return output;
    if (output->failed) snprintf(why, room, "%s", output->why);
    release(output);
    return NULL;
}

bool output_close(struct output *output, bool durable, char *why, size_t room) {
    if (output->codec != NULL && !output->failed) compress_all(output, NULL, 0, true);
    if (durable && !output->failed && fsync(output->file) != 0 && errno != EINVAL && errno != EROFS)
        output_fail(output, "%s: %s", output->path, strerror(errno));
    if (output->file > STDERR_FILENO && close(output->file) != 0)
        output_fail(output, "%s: %s", output->path, strerror(errno));
    output->file = -1;
    if (output->part_path != NULL && !output->failed && rename(output->part_path, output->path) != 0)
        output_fail(output, "%s: %s", output->path, strerror(errno));
    if (output->part_path != NULL && output->failed) unlink(output->part_path);
    const bool whole = !output->failed;
    if (!whole) snprintf(why, room, "%s", output->why);
    release(output);
    return whole;
}

void output_abandon(struct output *output) {
    if (output->part_path != NULL) unlink(output->part_path);
    release(output);
}
