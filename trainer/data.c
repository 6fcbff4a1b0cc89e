/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/data.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/text.h"

void data_path(const char *path, char *out, size_t room) {
    char program[512];
    if (*path) {
        snprintf(out, room, "%s", path);
        return;
    }
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    for (int up = 0; up < 2; up++) { /* the program's folder, then the one above */
        char *slash = strrchr(program, '/');
        if (slash) *slash = 0;
    }
    snprintf(out, room, "%s/data/kjv.txt", program);
}

static int refuse_file(bool is_default, const char *path, int error, char *message, size_t room) {
    if (is_default)
        return text_fail(2, message, room,
                         "the default text %s can't be read (%s); ./run.sh makes it, or give --data=FILE", path,
                         strerror(error));
    return text_fail(2, message, room, "--data %s can't be read: %s", path, strerror(error));
}

/* Both parts must hold one sequence and the byte after it. */
static int check_sizes(const struct data *d, double validation, char *message, size_t room) {
    int64_t needed = d->seq + 1, kept = d->bytes - d->train_bytes;
    if (d->bytes == 0)
        return text_fail(2, message, room, "--data %s is empty; at least %lld bytes are needed for --seq=%lld", d->path,
                         (long long)needed, (long long)d->seq);
    if (d->train_bytes < needed)
        return text_fail(
            2, message, room,
            "--data %s has %lld bytes, of which %lld are for training; --seq=%lld needs at least %lld there", d->path,
            (long long)d->bytes, (long long)d->train_bytes, (long long)d->seq, (long long)needed);
    if (validation > 0 && kept < needed)
        return text_fail(
            2, message, room,
            "--data %s has %lld bytes, of which --validation=%g keeps %lld; --seq=%lld needs at least %lld "
            "there",
            d->path, (long long)d->bytes, validation, (long long)kept, (long long)d->seq, (long long)needed);
    return 0;
}

/* Maps the file that `fd` is open on. */
static int map_file(int fd, struct data *out, bool is_default, char *message, size_t room) {
    struct stat file;
    if (fstat(fd, &file)) return refuse_file(is_default, out->path, errno, message, room);
    if (!S_ISREG(file.st_mode))
        return text_fail(2, message, room, "--data %s is not an ordinary file, which it has to be", out->path);
    out->bytes = file.st_size;
    if (!out->bytes) return 0; /* can't be mapped; check_sizes says the rest */
    void *text = mmap(NULL, (size_t)out->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED) return refuse_file(is_default, out->path, errno, message, room);
    out->text = text;
    return 0;
}

int data_open(const char *path, double validation, int64_t seq, struct data *out, char *message, size_t room) {
    assert(seq >= 1 && validation >= 0 && validation < 1);
    memset(out, 0, sizeof *out);
    out->seq = seq;
    data_path(path, out->path, sizeof out->path);
    int fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us */
    if (fd < 0) return refuse_file(!*path, out->path, errno, message, room);
    int status = map_file(fd, out, !*path, message, room);
    close(fd);
    if (status) return status;
    out->train_bytes = out->bytes - (int64_t)((double)out->bytes * validation);
    status = check_sizes(out, validation, message, room);
    if (status) data_close(out);
    return status;
}

void data_close(struct data *data) {
    if (data->text) munmap((void *)(uintptr_t)data->text, (size_t)data->bytes);
    data->text = NULL;
}

int64_t data_validation_sequences(const struct data *data) {
    int64_t kept = data->bytes - data->train_bytes;
    return kept > data->seq ? (kept - 1) / data->seq : 0;
}

/* A 64-bit finaliser (splitmix64): every bit of the input reaches every bit of the output. */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static int64_t window_start(const struct data *d, bool validation, int64_t sequence, uint64_t seed) {
    if (validation) {
        int64_t windows = data_validation_sequences(d);
        assert(windows > 0);
        return d->train_bytes + sequence % windows * d->seq;
    }
    uint64_t starts = (uint64_t)(d->train_bytes - d->seq);
    return (int64_t)(mix(mix(seed) ^ (uint64_t)sequence) % starts);
}

void data_batch(const struct data *data, bool validation, int64_t sequence, uint64_t seed, int32_t *ids,
                int32_t *targets) {
    assert(sequence >= 0);
    const unsigned char *at = data->text + window_start(data, validation, sequence, seed);
    assert(at + data->seq < data->text + (validation ? data->bytes : data->train_bytes));
    for (int64_t i = 0; i < data->seq; i++) {
        ids[i] = at[i];
        targets[i] = at[i + 1];
    }
}
