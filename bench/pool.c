/* SPDX-License-Identifier: Apache-2.0 */
/* What one alloc with its free costs the host, as a multiple of an uncontended mutex pair in the same loop, for weir and
 * for the per-stream policy; and what recording (WEIR_TRACE) adds to a call: of a per-stream pool, which calls no driver
 * here. The device is emulated: driver calls cost what they cost here, so only warm pools are timed, in which none makes
 * memory calls. The recording goes to a file in TMPDIR, else /tmp. Usage: weir-bench-pool [--json=FILE] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weir/weir.h"

enum { ROUNDS = 15, PAIRS = 4000 };

static double ns_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
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
    double begin = ns_of(CLOCK_MONOTONIC);
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return (ns_of(CLOCK_MONOTONIC) - begin) / PAIRS;
}

static double pair_round_ns(struct weir_pool *pool, size_t bytes, weir_stream stream, clockid_t clock) {
    double begin = ns_of(clock);
    for (int i = 0; i < PAIRS; i++) {
        void *block = NULL;
        if (weir_pool_alloc(pool, bytes, stream, &block) != WEIR_OK) return -1;
        weir_pool_free(pool, block, stream);
    }
    return (ns_of(clock) - begin) / PAIRS;
}

struct row {
    size_t bytes;
    double mutex_ns, weir_ns, per_stream_ns, recording_ns;
};

struct pools {
    struct weir_pool *weir, *per_stream, *recorded;
};

/* The loops take turns, so that a slow moment of the machine meets all of them. What recording adds is taken in the thread's
 * own time: the file's pages come from the system, where others may be served first. A pair is two calls and two lines. */
static int measure(const struct pools *pools, weir_stream stream, struct row *row) {
    double mutex[ROUNDS], ours[ROUNDS], theirs[ROUNDS], recording[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) { /* round -1 warms up */
        int at = i < 0 ? 0 : i;
        mutex[at] = mutex_round_ns();
        ours[at] = pair_round_ns(pools->weir, row->bytes, stream, CLOCK_MONOTONIC);
        theirs[at] = pair_round_ns(pools->per_stream, row->bytes, stream, CLOCK_MONOTONIC);
        const double plain = pair_round_ns(pools->per_stream, row->bytes, stream, CLOCK_THREAD_CPUTIME_ID);
        const double recorded = pair_round_ns(pools->recorded, row->bytes, stream, CLOCK_THREAD_CPUTIME_ID);
        if (ours[at] < 0 || theirs[at] < 0 || plain < 0 || recorded < 0) return 1;
        recording[at] = (recorded - plain) / 2;
    }
    row->mutex_ns = median(mutex, ROUNDS);
    row->weir_ns = median(ours, ROUNDS);
    row->per_stream_ns = median(theirs, ROUNDS);
    row->recording_ns = median(recording, ROUNDS);
    return 0;
}

static double median_recording_ns(const struct row *rows, size_t count) {
    double each[16];
    for (size_t i = 0; i < count; i++) each[i] = rows[i].recording_ns;
    return median(each, (int)count);
}

static int write_json(const char *path, const struct row *rows, size_t count) {
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        return 1;
    }
    fprintf(out, "{\"mutex_ns\":%.1f,\"device\":\"emulated\",\"pairs\":[", rows[0].mutex_ns);
    for (size_t i = 0; i < count; i++)
        fprintf(out,
                "%s{\"bytes\":%zu,\"threads\":1,\"record_use\":false,\"weir_ns\":%.1f,\"per_stream_ns\":%.1f,"
                "\"recording_ns_per_call\":%.1f}",
                i ? "," : "", rows[i].bytes, rows[i].weir_ns, rows[i].per_stream_ns, rows[i].recording_ns);
    fprintf(out, "],\"recording_ns_per_call\":%.1f}\n", median_recording_ns(rows, count));
    return fclose(out) ? 1 : 0;
}

static int fail(const char *what) {
    fprintf(stderr, "weir-bench-pool: %s: %s\n", what, weir_last_error()->message);
    return 1;
}

static int open_pools(struct weir_device *device, char *trace_path, struct pools *pools) {
    struct weir_pool_options ours = {
        .size = sizeof ours, .policy = WEIR_POLICY_LATENCY, .limit_bytes = 64u << 20, .trace_path = ""};
    struct weir_pool_options theirs = ours;
    theirs.policy = WEIR_POLICY_PER_STREAM;
    struct weir_pool_options recorded = theirs;
    recorded.trace_path = trace_path;
    const int file = mkstemp(trace_path);
    if (file < 0) {
        perror(trace_path);
        return 1;
    }
    close(file);
    if (weir_pool_create(device, &ours, &pools->weir) != WEIR_OK) return fail("creating the pool");
    if (weir_pool_create(device, &theirs, &pools->per_stream) != WEIR_OK) return fail("creating the per-stream pool");
    if (weir_pool_create(device, &recorded, &pools->recorded) != WEIR_OK) return fail("creating the recorded pool");
    return 0;
}

static int measure_all(const struct pools *pools, weir_stream stream, struct row *rows, size_t count) {
    printf("one alloc with its free, median of %d rounds of %d, emulated device, 16 KiB pages\n", ROUNDS, PAIRS);
    printf("%10s  %12s  %12s  %12s  %16s\n", "bytes", "mutex pair", "weir", "per-stream", "recording a call");
    for (size_t i = 0; i < count; i++) {
        if (measure(pools, stream, &rows[i])) return fail("measuring");
        printf("%10zu  %9.1f ns  %10.1f x  %10.1f x  %13.1f ns\n", rows[i].bytes, rows[i].mutex_ns,
               rows[i].weir_ns / rows[i].mutex_ns, rows[i].per_stream_ns / rows[i].mutex_ns, rows[i].recording_ns);
    }
    return 0;
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
    struct pools pools = {0};
    weir_stream stream = NULL;
    char trace_path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(trace_path, sizeof trace_path, "%.4000s/weir-bench-XXXXXX", folder != NULL && *folder ? folder : "/tmp");
    struct weir_device_options machine = {
        .size = sizeof machine, .machine = "emulated", .emu = "profile:demo,capacity:256M"};
    if (weir_device_open(&machine, &device) != WEIR_OK) return fail("opening the device");
    if (open_pools(device, trace_path, &pools)) return 1;
    if (weir_stream_create(device, &stream) != WEIR_OK) return fail("creating a stream");

    struct row rows[] = {{.bytes = 512}, {.bytes = 4096}, {.bytes = 32768}, {.bytes = 262144}, {.bytes = 1048576}};
    size_t count = sizeof rows / sizeof *rows;
    if (measure_all(&pools, stream, rows, count)) return 1;
    int status = json ? write_json(json, rows, count) : 0;
    weir_stream_destroy(device, stream);
    weir_pool_destroy(pools.recorded);
    weir_pool_destroy(pools.per_stream);
    weir_pool_destroy(pools.weir);
    unlink(trace_path);
    weir_device_close(device);
    return status;
}
