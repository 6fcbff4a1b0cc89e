/* SPDX-License-Identifier: Apache-2.0 */
/* What the library does when it is loaded and at exit: its options, and the summary that weir-run prints. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "alloc/pool.h"
#include "alloc/preload/preload.h"
#include "device/json.h"
#include "device/standard.h"

struct weir__preload_counts weir__preload_counts;

/* ---- the options -------------------------------------------------------------------------------------------------- */

enum { KNOWN = 1, ON = 2, PLAIN_IS_DRIVERS = 4, HOST_IS_POOLED = 8, EVENTS_ARE_NOT_HEARD = 16 };
static unsigned mode; /* 0 before the first call, which may come before this library's constructor */

static const struct word {
    const char *text;
    unsigned clear, set;
} words[] = {
    {"on", 0, ON},
    {"off", ON, 0},
    {"plain:pool", PLAIN_IS_DRIVERS, 0},
    {"plain:driver", 0, PLAIN_IS_DRIVERS},
    {"host:pool", 0, HOST_IS_POOLED},
    {"host:driver", HOST_IS_POOLED, 0},
    {"events:heard", EVENTS_ARE_NOT_HEARD, 0},
    {"events:unheard", 0, EVENTS_ARE_NOT_HEARD},
};

static const struct word *word_of(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].text) == length && strncmp(words[i].text, text, length) == 0) return &words[i];
    return NULL;
}

/* Of two words that contradict each other the later one counts; one that is not known is said, and skipped. */
static unsigned read_words(const char *at) {
    unsigned read = KNOWN | ON;
    while (*at != 0) {
        const size_t length = strcspn(at, ",");
        const struct word *word = word_of(at, length);
        if (word != NULL) read = (read & ~word->clear) | word->set;
        if (word == NULL && length > 0)
            fprintf(stderr,
                    "weir: WEIR_PRELOAD=%.*s is not known: expected on, off, plain:pool, plain:driver, host:pool, "
                    "host:driver, events:heard, events:unheard, or several with commas; taken as not said\n",
                    length > 60 ? 60 : (int)length, at);
        at += length + (at[length] == ',');
    }
    return read;
}

/* A program with more rights than its user is left alone, whatever the user's environment says. */
static unsigned read_mode(void) {
    const char *given = getenv("WEIR_PRELOAD");
    return getauxval(AT_SECURE) != 0 ? KNOWN : read_words(given != NULL ? given : "");
}

__attribute__((constructor)) static void at_start(void) {
    if (__atomic_load_n(&mode, __ATOMIC_RELAXED) == 0) __atomic_store_n(&mode, read_mode(), __ATOMIC_RELAXED);
}

static unsigned mode_now(void) {
    at_start();
    return __atomic_load_n(&mode, __ATOMIC_RELAXED);
}

bool weir__preload_on(void) { return (mode_now() & ON) != 0; }
bool weir__preload_plain_is_drivers(void) { return (mode_now() & PLAIN_IS_DRIVERS) != 0; }
bool weir__preload_events_are_heard(void) { return (mode_now() & (ON | EVENTS_ARE_NOT_HEARD)) == ON; }
bool weir__preload_host_is_pooled(void) { return (mode_now() & (ON | HOST_IS_POOLED)) == (ON | HOST_IS_POOLED); }

void weir__preload_unknown(const char *name, int version) {
    static bool said;
    if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) return;
    weir__log(
        WEIR__LOG_WARN,
        "preload: the driver's %s of version %d is not known here and goes to the driver; memory from it is not weir's",
        name, version);
}

/* ---- whose a call is ---------------------------------------------------------------------------------------------- */

/* Two threads may find it new. */
static enum weir_status make_pool(const struct weir__real *driver, int ordinal, struct weir_pool **pool) {
    const bool known = weir__process_pool_made(ordinal) != NULL;
    const enum weir_status status = weir_process_pool(ordinal, pool);
    if (status == WEIR_OK && !known) weir__preload_new_pool(driver, *pool);
    return status;
}

static struct weir_pool *pool_of(const struct weir__real *driver, int ordinal, CUcontext context) {
    static bool failed[WEIR__MOST_DEVICES];
    struct weir_pool *pool = NULL;
    if (ordinal < 0 || ordinal >= WEIR__MOST_DEVICES || __atomic_load_n(&failed[ordinal], __ATOMIC_RELAXED))
        return NULL;
    if (make_pool(driver, ordinal, &pool) == WEIR_OK) return pool->device->context == context ? pool : NULL;
    if (!weir__forked() && !__atomic_exchange_n(&failed[ordinal], true, __ATOMIC_RELAXED))
        weir__log(WEIR__LOG_ERROR, "preload: device %d is left to the driver: %s", ordinal, weir_last_error()->message);
    return NULL;
}

struct weir_pool *weir__preload_pool_of(CUcontext context) {
    for (int ordinal = 0; ordinal < weir__process_pools_end(); ordinal++) {
        struct weir_pool *pool = weir__process_pool_made(ordinal);
        if (pool != NULL && pool->device->context == context) return pool;
    }
    return NULL;
}

/* A pool keeps the device's primary context, which costs memory: a program that has none gets none. */
static bool has_primary(const struct weir__real *driver, CUdevice device) {
    unsigned flags;
    int active = 1;
    return driver->cuDevicePrimaryCtxGetState == NULL ||
           driver->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

struct weir_pool *weir__preload_pool(const struct weir__real *driver, bool allocation) {
    CUcontext context = NULL;
    CUdevice device = 0;
    if (!weir__preload_on() || driver->cuCtxGetCurrent == NULL || driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
        context == NULL)
        return NULL;
    struct weir_pool *pool = weir__preload_pool_of(context);
    if (pool != NULL) return pool;
    if (driver->cuCtxGetDevice == NULL || driver->cuCtxGetDevice(&device) != CUDA_SUCCESS) return NULL;
    const bool primary = has_primary(driver, device);
    if (primary) pool = pool_of(driver, (int)device, context);
    if (pool == NULL && allocation) {
        if (!primary || weir__process_pool_made((int)device) != NULL)
            WEIR__COUNT(foreign_context);
        else
            WEIR__COUNT(foreign_failed);
    }
    return pool;
}

bool weir__preload_device(const struct weir__real *driver, int ordinal, struct weir_device **device) {
    struct weir_pool *pool = NULL;
    *device = weir__process_device_made(ordinal);
    if (*device != NULL || !has_primary(driver, (CUdevice)ordinal)) return true;
    if (make_pool(driver, ordinal, &pool) != WEIR_OK) return false;
    *device = pool->device;
    return true;
}

/* ---- the summary -------------------------------------------------------------------------------------------------- */

#define SUMMARY "WEIR_RUN_SUMMARY" /* a file to which each process appends one line when it ends */

static void put_pool(FILE *out, int ordinal, struct weir_pool *pool, bool reset, bool first) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    (void)weir_pool_get_stats(pool, &stats); /* of the process that made it, it fails for none */
    weir__preload_whole_peaks(ordinal, &stats);
    fprintf(out, "%s{\"device\":%d,\"reset\":%s,\"policy\":\"%s\"", first ? "" : ",", ordinal, reset ? "true" : "false",
            pool->policy->text);
#define PUT_STAT(type, name, text) fprintf(out, ",\"" #name "\":%llu", (unsigned long long)stats.name);
    WEIR_POOL_STATS_LIST(PUT_STAT)
#undef PUT_STAT
    fputs("}", out);
}

/* Pools that ended before the process: their parts of the line, in host memory that is this process's to its end. */
static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static char *ended;

void weir__preload_pool_ends(int ordinal, struct weir_pool *pool) {
    char *text = NULL;
    size_t bytes = 0;
    pthread_mutex_lock(&ended_lock);
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) {
        fputs(ended != NULL ? ended : "", out);
        put_pool(out, ordinal, pool, true, ended == NULL);
        if (fclose(out) == 0) {
            free(ended);
            ended = text;
        }
    }
    pthread_mutex_unlock(&ended_lock);
    weir__preload_forget_peaks(ordinal);
}

static void put_summary(FILE *out) {
    fprintf(out, "{\"pid\":%ld", (long)getpid());
    fputs(",\"command\":", out);
    weir__put_json(program_invocation_short_name, out);
#define PUT_COUNT(name, text)                                                                                          \
    fprintf(out, ",\"" #name "\":%llu",                                                                                \
            (unsigned long long)__atomic_load_n(&weir__preload_counts.name, __ATOMIC_RELAXED));
    WEIR__PRELOAD_COUNTS(PUT_COUNT)
#undef PUT_COUNT
    fputs(",\"pools\":[", out);
    pthread_mutex_lock(&ended_lock);
    bool first = ended == NULL;
    fputs(ended != NULL ? ended : "", out);
    pthread_mutex_unlock(&ended_lock);
    for (int ordinal = 0; ordinal < weir__process_pools_end(); ordinal++) {
        struct weir_pool *pool = weir__process_pool_made(ordinal);
        if (pool == NULL) continue;
        put_pool(out, ordinal, pool, false, first);
        first = false;
    }
    fputs("]}\n", out);
}

/* One write, so that lines of processes that end at once do not mix. */
static void write_summary(const char *path) {
    char *line = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&line, &bytes);
    if (out == NULL) return;
    put_summary(out);
    if (fclose(out) == 0) {
        const int file = weir__above_standard(open(path, O_WRONLY | O_APPEND | O_CLOEXEC));
        if (file >= 0) {
            if (write(file, line, bytes) != (ssize_t)bytes) weir__log(WEIR__LOG_ERROR, "preload: %s is full", path);
            close(file);
        }
    }
    free(line);
}

__attribute__((destructor)) static void at_exit(void) {
    const char *path = getenv(SUMMARY);
    if (path == NULL || *path == 0 || !weir__preload_on() || weir__forked()) return;
    if (weir__preload_inside()) return; /* in a signal handler: nobody opens that call's locks any more */
    if (!weir__preload_enter(weir__real())) return;
    write_summary(path);
    weir__preload_leave(NULL);
}
