/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/table.h"
#include "device/cuda_abi.h"
#include "device/error.h"

#define UNSEEN UINT64_MAX

struct weir__trace {
    FILE *file;
    char *path;
    pthread_mutex_t lock;
    bool broken;
    struct weir__table streams, events; /* number + 1 by handle */
    uint64_t streams_seen, events_seen;
};

static void put(struct weir__trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct weir__trace *trace, const char *format, ...) {
    if (trace->broken) return;
    va_list arguments;
    va_start(arguments, format);
    int wrote = vfprintf(trace->file, format, arguments);
    va_end(arguments);
    if (wrote >= 0) return;
    trace->broken = true;
    weir__log(WEIR__LOG_ERROR, "trace %s: %s; recording ends here", trace->path, strerror(errno));
}

static uintptr_t stream_key(weir_stream stream) {
    return stream == CU_STREAM_LEGACY ? 2 : (uintptr_t)stream + 2; /* the legacy stream has two names */
}

static uint64_t number_of(struct weir__table *table, uintptr_t key) {
    void *value = weir__table_get(table, key);
    return value == NULL ? UNSEEN : (uint64_t)(uintptr_t)value - 1;
}

/* Gives a handle the next number. UNSEEN without host memory. */
static uint64_t number_anew(struct weir__table *table, uintptr_t key, uint64_t *seen) {
    if (!weir__table_reserve(table)) return UNSEEN;
    weir__table_put(table, key, (void *)(uintptr_t)(*seen + 1));
    return (*seen)++;
}

static uint64_t stream_number(struct weir__trace *trace, weir_stream stream) {
    uint64_t number = number_of(&trace->streams, stream_key(stream));
    if (number != UNSEEN) return number;
    number = number_anew(&trace->streams, stream_key(stream), &trace->streams_seen);
    put(trace, "# stream %llu stream %llu\n", (unsigned long long)number, (unsigned long long)number);
    return number;
}

#define LOCKED(trace, ...)                                                                                             \
    do {                                                                                                               \
        if ((trace) == NULL) return;                                                                                   \
        pthread_mutex_lock(&(trace)->lock);                                                                            \
        __VA_ARGS__;                                                                                                   \
        pthread_mutex_unlock(&(trace)->lock);                                                                          \
    } while (0)
#define NUMBER(expression) ((unsigned long long)(expression))

enum weir_status weir__trace_open(const char *path, struct weir__trace **out) {
    struct weir__trace *trace = calloc(1, sizeof *trace);
    *out = NULL;
    if (trace == NULL || (trace->path = strdup(path)) == NULL) {
        free(trace);
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to record to %s", path);
    }
    trace->file = fopen(path, "we");
    if (trace->file == NULL) {
        enum weir_status status = weir__fail(WEIR_SYSTEM, 0, "fopen", "trace %s: %s", path, strerror(errno));
        free(trace->path);
        free(trace);
        return status;
    }
    pthread_mutex_init(&trace->lock, NULL);
    put(trace, "weir-trace 1\n");
    *out = trace;
    return WEIR_OK;
}

void weir__trace_close(struct weir__trace *trace) {
    if (trace == NULL) return;
    if (fclose(trace->file) != 0 && !trace->broken)
        weir__log(WEIR__LOG_ERROR, "trace %s: %s", trace->path, strerror(errno));
    weir__table_clear(&trace->streams);
    weir__table_clear(&trace->events);
    pthread_mutex_destroy(&trace->lock);
    free(trace->path);
    free(trace);
}

/* ---- the pool's calls ------------------------------------------------------------------------------------------- */

void weir__trace_alloc(struct weir__trace *trace, uint64_t block, size_t bytes, weir_stream stream) {
    LOCKED(trace, {
        uint64_t number = stream_number(trace, stream);
        put(trace, "m %llu %zu %llu\n", NUMBER(block), bytes, NUMBER(number));
    });
}

void weir__trace_refused(struct weir__trace *trace, size_t bytes, weir_stream stream) {
    LOCKED(trace, {
        uint64_t number = stream_number(trace, stream);
        put(trace, "# refused %zu %llu\n", bytes, NUMBER(number));
    });
}

void weir__trace_free(struct weir__trace *trace, uint64_t block, weir_stream stream, bool own) {
    LOCKED(trace, {
        uint64_t number = stream_number(trace, stream);
        if (own)
            put(trace, "f %llu\n", NUMBER(block));
        else
            put(trace, "f %llu %llu\n", NUMBER(block), NUMBER(number));
    });
}

/* An event that was never seen recorded can't be replayed: the free then names no stream, which promises less. */
void weir__trace_free_after(struct weir__trace *trace, uint64_t block, weir_event event) {
    LOCKED(trace, {
        uint64_t number = number_of(&trace->events, (uintptr_t)event);
        if (number != UNSEEN)
            put(trace, "f %llu @%llu\n", NUMBER(block), NUMBER(number));
        else
            put(trace, "f %llu *\n", NUMBER(block));
    });
}

void weir__trace_note(struct weir__trace *trace, uint64_t block, weir_stream stream) {
    LOCKED(trace, {
        uint64_t number = stream_number(trace, stream);
        put(trace, "u %llu %llu\n", NUMBER(block), NUMBER(number));
    });
}

void weir__trace_iteration(struct weir__trace *trace) { LOCKED(trace, put(trace, "i\n")); }

void weir__trace_name(struct weir__trace *trace, weir_stream stream, const char *name) {
    LOCKED(trace, {
        uint64_t number = stream_number(trace, stream);
        put(trace, "# stream %llu %s\n", NUMBER(number), name);
    });
}

/* ---- what the observer sees ------------------------------------------------------------------------------------- */

void weir__trace_event_recorded(struct weir__trace *trace, weir_event event, weir_stream stream) {
    LOCKED(trace, {
        uint64_t on = stream_number(trace, stream);
        uint64_t number = number_of(&trace->events, (uintptr_t)event);
        if (number == UNSEEN) number = number_anew(&trace->events, (uintptr_t)event, &trace->events_seen);
        if (number != UNSEEN) put(trace, "e %llu %llu\n", NUMBER(number), NUMBER(on));
    });
}

void weir__trace_event_destroyed(struct weir__trace *trace, weir_event event) {
    LOCKED(trace, {
        uint64_t number = number_of(&trace->events, (uintptr_t)event);
        weir__table_take(&trace->events, (uintptr_t)event);
        if (number != UNSEEN) put(trace, "y %llu\n", NUMBER(number));
    });
}

void weir__trace_event_synchronized(struct weir__trace *trace, weir_event event) {
    LOCKED(trace, {
        uint64_t number = number_of(&trace->events, (uintptr_t)event);
        if (number != UNSEEN) put(trace, "h %llu\n", NUMBER(number));
    });
}

void weir__trace_stream_waited(struct weir__trace *trace, weir_stream stream, weir_event event) {
    LOCKED(trace, {
        uint64_t number = number_of(&trace->events, (uintptr_t)event);
        uint64_t on = stream_number(trace, stream);
        if (number != UNSEEN) put(trace, "w %llu %llu\n", NUMBER(number), NUMBER(on));
    });
}

void weir__trace_stream_destroyed(struct weir__trace *trace, weir_stream stream) {
    LOCKED(trace, {
        uint64_t number = number_of(&trace->streams, stream_key(stream));
        weir__table_take(&trace->streams, stream_key(stream));
        if (number != UNSEEN) put(trace, "x %llu\n", NUMBER(number));
    });
}

void weir__trace_stream_synchronized(struct weir__trace *trace, weir_stream stream) {
    LOCKED(trace, {
        uint64_t number = stream_number(trace, stream);
        put(trace, "s %llu\n", NUMBER(number));
    });
}

void weir__trace_device_synchronized(struct weir__trace *trace) { LOCKED(trace, put(trace, "d\n")); }
