/* SPDX-License-Identifier: Apache-2.0 */
/* What one alloc with its free costs the host, as a multiple of an uncontended mutex pair in the same loop, for weir and
 * for the per-stream policy. The device is emulated: driver calls cost what they cost here, so only warm pools are timed,
 * in which neither makes memory calls. Usage: weir-bench-pool [--json=FILE] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weir/weir.h"

enum { ROUNDS = 15, PAIRS = 4000 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

static double mutex_round_ns(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    double begin = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return (now_ns() - begin) / PAIRS;
}

static double pair_round_ns(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    double begin = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        void *block = NULL;
        if (weir_pool_alloc(pool, bytes, stream, &block) != WEIR_OK) return -1;
        weir_pool_free(pool, block, stream);
    }
    return (now_ns() - begin) / PAIRS;
}

struct row {
    size_t bytes;
    double mutex_ns, weir_ns, per_stream_ns;
};

/* The three loops take turns, so that a slow moment of the machine meets all of them. */
static int measure(struct weir_pool *weir, struct weir_pool *per_stream, weir_stream stream, struct row *row) {
    double mutex[ROUNDS], ours[ROUNDS], theirs[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) { /* round -1 warms up */
        int at = i < 0 ? 0 : i;
        mutex[at] = mutex_round_ns();
        ours[at] = pair_round_ns(weir, row->bytes, stream);
        theirs[at] = pair_round_ns(per_stream, row->bytes, stream);
        if (ours[at] < 0 || theirs[at] < 0) return 1;
    }
    row->mutex_ns = median(mutex, ROUNDS);
    row->weir_ns = median(ours, ROUNDS);
    row->per_stream_ns = median(theirs, ROUNDS);
    return 0;
}

static int write_json(const char *path, const struct row *rows, size_t count) {
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        return 1;
    }
    fprintf(out, "{\"mutex_ns\":%.1f,\"device\":\"emulated\",\"pairs\":[", rows[0].mutex_ns);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s{\"bytes\":%zu,\"threads\":1,\"record_use\":false,\"weir_ns\":%.1f,\"per_stream_ns\":%.1f}",
                i ? "," : "", rows[i].bytes, rows[i].weir_ns, rows[i].per_stream_ns);
    fprintf(out, "]}\n");
    return fclose(out) ? 1 : 0;
}

static int fail(const char *what) {
    fprintf(stderr, "weir-bench-pool: %s: %s\n", what, weir_last_error()->message);
    return 1;
}

int main(int argc, char **argv) {
    const char *json = NULL;
    if (argc == 2 && strncmp(argv[1], "--json=", 7) == 0 && argv[1][7]) {
        json = argv[1] + 7;
    } else if (argc != 1) {
        const int asked = argc == 2 && strcmp(argv[1], "--help") == 0;
        fprintf(asked ? stdout : stderr, "usage: weir-bench-pool [--json=FILE]\n");
        return asked ? 0 : 2;
    }
    struct weir_device *device = NULL;
    struct weir_pool *weir = NULL, *per_stream = NULL;
    weir_stream stream = NULL;
    struct weir_device_options machine = {
        .size = sizeof machine, .machine = "emulated", .emu = "profile:demo,capacity:256M"};
    struct weir_pool_options ours = {.size = sizeof ours, .policy = WEIR_POLICY_LATENCY, .limit_bytes = 64u << 20};
    struct weir_pool_options theirs = {
        .size = sizeof theirs, .policy = WEIR_POLICY_PER_STREAM, .limit_bytes = 64u << 20};
    if (weir_device_open(&machine, &device) != WEIR_OK) return fail("opening the device");
    if (weir_pool_create(device, &ours, &weir) != WEIR_OK) return fail("creating the pool");
    if (weir_pool_create(device, &theirs, &per_stream) != WEIR_OK) return fail("creating the per-stream pool");
    if (weir_stream_create(device, &stream) != WEIR_OK) return fail("creating a stream");

    struct row rows[] = {{.bytes = 512}, {.bytes = 4096}, {.bytes = 32768}, {.bytes = 262144}, {.bytes = 1048576}};
    size_t count = sizeof rows / sizeof *rows;
    printf("one alloc with its free, median of %d rounds of %d, emulated device, 16 KiB pages\n", ROUNDS, PAIRS);
    printf("%10s  %12s  %12s  %12s\n", "bytes", "mutex pair", "weir", "per-stream");
    for (size_t i = 0; i < count; i++) {
        if (measure(weir, per_stream, stream, &rows[i])) return fail("measuring");
        printf("%10zu  %9.1f ns  %6.1f x  %9.1f x\n", rows[i].bytes, rows[i].mutex_ns,
               rows[i].weir_ns / rows[i].mutex_ns, rows[i].per_stream_ns / rows[i].mutex_ns);
    }
    int status = json ? write_json(json, rows, count) : 0;
    weir_stream_destroy(device, stream);
    weir_pool_destroy(per_stream);
    weir_pool_destroy(weir);
    weir_device_close(device);
    return status;
}
