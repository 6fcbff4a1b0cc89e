/* SPDX-License-Identifier: Apache-2.0 */
#include "laws.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"
#include "tools/trace/trace.h"

static bool complain(char *why, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool complain(char *why, size_t room, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, room, format, arguments);
    va_end(arguments);
    return false;
}

static bool read_size(const char *text, size_t length, size_t *bytes) {
    char part[32];
    if (length >= sizeof part) return false;
    memcpy(part, text, length);
    part[length] = 0;
    return weir__parse_bytes(part, bytes) && *bytes >= 1 && *bytes <= LAW_MOST_BYTES;
}

static bool is_request(const struct op *op) {
    return (op->kind == OP_ALLOC || op->kind == OP_LIVE || op->kind == OP_REFUSED) && op->bytes > 0;
}

static bool read_trace(const char *path, struct law *law, char *why, size_t room) {
    struct trace trace;
    if (!trace_read(path, &trace, why, room)) return false;
    law->sizes = malloc((trace.op_count + 1) * sizeof *law->sizes);
    for (size_t i = 0; law->sizes != NULL && i < trace.op_count; i++)
        if (is_request(&trace.ops[i])) law->sizes[law->count++] = trace.ops[i].bytes;
    trace_free(&trace);
    if (law->sizes == NULL) return complain(why, room, "no host memory for the sizes of %.200s", path);
    return law->count > 0 || complain(why, room, "--sizes trace:%.200s: the trace asks for nothing", path);
}

bool law_read(const char *text, struct law *law, char *why, size_t room) {
    const char *colon = strchr(text, ':'), *value = colon != NULL ? colon + 1 : "", *second = strchr(value, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    *law = (struct law){0};
    if (length == 5 && strncmp(text, "trace", 5) == 0 && *value != 0) {
        law->kind = LAW_TRACE;
        return read_trace(value, law, why, room);
    }
    if (length == 5 && strncmp(text, "fixed", 5) == 0 && read_size(value, strlen(value), &law->least)) {
        law->kind = LAW_FIXED;
        law->most = law->least;
        return true;
    }
    if (length == 3 && strncmp(text, "log", 3) == 0 && second != NULL &&
        read_size(value, (size_t)(second - value), &law->least) &&
        read_size(second + 1, strlen(second + 1), &law->most) && law->least <= law->most)
        return true;
    return complain(
        why, room,
        "--sizes %.60s: expected fixed:SIZE, log:LEAST:MOST or trace:FILE, with sizes as 64K or 1.5MiB, from 1 "
        "byte to 1024T",
        text);
}

void law_free(struct law *law) { free(law->sizes); }

static size_t log_uniform(const struct law *law, struct random *random) {
    const double share = (double)(random_next(random) >> 11) * 0x1p-53, least = log2((double)law->least),
                 most = log2((double)law->most);
    return (size_t)exp2(least + share * (most - least));
}

size_t law_size(const struct law *law, struct random *random, size_t *cursor, size_t at_most) {
    size_t bytes = law->least;
    if (law->kind == LAW_LOG) bytes = log_uniform(law, random);
    if (law->kind == LAW_TRACE) bytes = law->sizes[(*cursor)++ % law->count];
    return bytes < 1 ? 1 : bytes > at_most && at_most > 0 ? at_most : bytes;
}
