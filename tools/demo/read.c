/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the reports of weir-train and weir-replay apart. A report was written by another program, so nothing in it is
 * trusted: each field is looked up by name, checked for its type and range, and the first one that is wrong ends it. */
#include "tools/demo/demo.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MOST 1000000    /* of any list: more than a report can have, few enough for memory */
#define COUNT_MOST   1000000000 /* steps and sequences, as weir-train's own options */
#define MS_MOST      1e12       /* thirty years */

/* Where the reader is ("ranks[2].stats."), and whether a field was wrong already: later ones are then not looked at. */
struct reader {
    char where[160];
    char *message;
    bool failed;
};

static void fail(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct reader *reader, const char *format, ...) {
    if (reader->failed) return;
    reader->failed = true;
    int length = snprintf(reader->message, DEMO_MESSAGE_ROOM, "%s", reader->where);
    va_list list;
    va_start(list, format);
    vsnprintf(reader->message + length, DEMO_MESSAGE_ROOM - (size_t)length, format, list);
    va_end(list);
}

static void enter(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void enter(struct reader *reader, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(reader->where, sizeof reader->where, format, list);
    va_end(list);
}

static const char *type_name(const json_t *value) {
    static const char *const names[] = {"an object", "a list", "text",  "an integer",
                                        "a number",  "true",   "false", "null"};
    return value ? names[json_typeof(value)] : "missing";
}

enum need { REQUIRED, OPTIONAL };

/* The member, or NULL: when it is wrong the reader has failed, when it is optional and null or missing it has not. */
static const json_t *member(struct reader *reader, const json_t *object, const char *key, enum need need, bool right,
                            const char *expected) {
    if (reader->failed) return NULL;
    const json_t *value = json_object_get(object, key);
    if (need == OPTIONAL && (!value || json_is_null(value))) return NULL;
    if (!right) {
        fail(reader, value ? "%s is %s, expected %s" : "%s is %s; expected %s", key, type_name(value), expected);
        return NULL;
    }
    return value;
}

static const json_t *get_object(struct reader *reader, const json_t *object, const char *key, enum need need) {
    return member(reader, object, key, need, json_is_object(json_object_get(object, key)), "an object");
}

static const json_t *get_list(struct reader *reader, const json_t *object, const char *key, enum need need) {
    const json_t *list = member(reader, object, key, need, json_is_array(json_object_get(object, key)), "a list");
    if (list && json_array_size(list) > ENTRIES_MOST) {
        fail(reader, "%s has %zu entries, at most %d are read", key, json_array_size(list), ENTRIES_MOST);
        return NULL;
    }
    return list;
}

static int64_t get_integer(struct reader *reader, const json_t *object, const char *key, enum need need) {
    const json_t *value =
        member(reader, object, key, need, json_is_integer(json_object_get(object, key)), "an integer");
    return value ? (int64_t)json_integer_value(value) : DEMO_UNKNOWN;
}

static size_t get_size(struct reader *reader, const json_t *object, const char *key, enum need need) {
    int64_t value = get_integer(reader, object, key, need);
    if (value == DEMO_UNKNOWN) return 0;
    if (value < 0) fail(reader, "%s is %lld, expected a count of bytes from 0", key, (long long)value);
    return value < 0 ? 0 : (size_t)value;
}

static double get_number(struct reader *reader, const json_t *object, const char *key, enum need need) {
    const json_t *value = member(reader, object, key, need, json_is_number(json_object_get(object, key)), "a number");
    return value ? json_number_value(value) : (double)NAN;
}

static void get_text(struct reader *reader, const json_t *object, const char *key, enum need need, char *text,
                     size_t room) {
    const json_t *value = member(reader, object, key, need, json_is_string(json_object_get(object, key)), "text");
    snprintf(text, room, "%s", value ? json_string_value(value) : "");
}

static bool get_flag(struct reader *reader, const json_t *object, const char *key) {
    const json_t *value =
        member(reader, object, key, REQUIRED, json_is_boolean(json_object_get(object, key)), "true or false");
    return json_is_true(value);
}

/* Zeroed memory for a list; a list of nothing still gives an address. */
static void *list_of(struct reader *reader, size_t count, size_t each) {
    void *list = calloc(count ? count : 1, each);
    if (!list) fail(reader, "too large for this machine's memory");
    return list;
}

/* ---- parts of a run -------------------------------------------------------------------------------------------- */

static void read_streams(struct reader *reader, const json_t *rank, struct rank_figures *into) {
    const json_t *list = get_list(reader, rank, "streams", REQUIRED);
    size_t count = json_array_size(list);
    if (!list || !(into->streams = list_of(reader, count, sizeof *into->streams))) return;
    into->stream_count = count;
    for (size_t i = 0; i < count && !reader->failed; i++) {
        const json_t *entry = json_array_get(list, i);
        struct stream_figures *stream = &into->streams[i];
        enter(reader, "ranks[%lld].streams[%zu].", (long long)into->rank, i);
        get_text(reader, entry, "name", REQUIRED, stream->name, sizeof stream->name);
        stream->live_bytes = get_size(reader, entry, "live_bytes", REQUIRED);
        stream->idle_bytes = get_size(reader, entry, "idle_bytes", REQUIRED);
        stream->peak_live_bytes = get_size(reader, entry, "peak_live_bytes", REQUIRED);
        stream->peak_idle_bytes = get_size(reader, entry, "peak_idle_bytes", REQUIRED);
    }
}

static void read_refusal(struct reader *reader, const json_t *entry, struct refusal *into) {
    get_text(reader, entry, "stream", OPTIONAL, into->stream, sizeof into->stream);
    if (!into->stream[0]) snprintf(into->stream, sizeof into->stream, "unnamed");
    into->asked_bytes = get_size(reader, entry, "asked_bytes", REQUIRED);
    into->limit_bytes = get_size(reader, entry, "limit_bytes", REQUIRED);
    into->live_bytes = get_size(reader, entry, "live_bytes", REQUIRED);
    into->idle_asker_bytes = get_size(reader, entry, "idle_asker_bytes", REQUIRED);
    into->idle_others_bytes = get_size(reader, entry, "idle_others_bytes", REQUIRED);
    into->moving_bytes = get_size(reader, entry, "moving_bytes", REQUIRED);
    into->unmapped_bytes = get_size(reader, entry, "unmapped_bytes", REQUIRED);
    into->untaken_bytes = get_size(reader, entry, "untaken_bytes", REQUIRED);
    into->largest_idle_bytes = get_size(reader, entry, "largest_idle_bytes", REQUIRED);
}

/* [milliseconds, step, live of stream 0, idle of stream 0, ...] */
static void read_sample(struct reader *reader, const json_t *row, size_t streams, struct sample *sample,
                        size_t *bytes) {
    size_t columns = 2 + 2 * streams;
    if (!json_is_array(row) || json_array_size(row) != columns) {
        fail(reader, "is not a list of %zu numbers", columns);
        return;
    }
    if (!json_is_number(json_array_get(row, 0)) || !json_is_integer(json_array_get(row, 1))) {
        fail(reader, "does not start with a time and a step");
        return;
    }
    sample->ms = json_number_value(json_array_get(row, 0));
    if (!(sample->ms >= 0.0 && sample->ms <= MS_MOST)) {
        fail(reader, "is at %g ms, expected 0 to %g", sample->ms, MS_MOST);
        return;
    }
    sample->step = (int64_t)json_integer_value(json_array_get(row, 1));
    sample->bytes = bytes;
    for (size_t i = 2; i < columns; i++) {
        const json_t *value = json_array_get(row, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0) {
            fail(reader, "has %s in column %zu, expected bytes", type_name(value), i);
            return;
        }
        bytes[i - 2] = (size_t)json_integer_value(value);
    }
}

static void read_timeline(struct reader *reader, const json_t *entry, long long rank, struct timeline *into) {
    const json_t *names = get_list(reader, entry, "streams", REQUIRED);
    const json_t *rows = get_list(reader, entry, "samples", REQUIRED);
    if (reader->failed) return;
    size_t streams = json_array_size(names), count = json_array_size(rows);
    if (streams > 64) {
        fail(reader, "streams has %zu entries, at most 64 are read", streams);
        return;
    }
    into->streams = list_of(reader, streams, sizeof *into->streams);
    into->samples = list_of(reader, count, sizeof *into->samples);
    into->bytes = list_of(reader, count * streams * 2, sizeof *into->bytes);
    if (reader->failed) return;
    into->stream_count = streams;
    for (size_t i = 0; i < streams; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name) fail(reader, "streams[%zu] is %s, expected text", i, type_name(json_array_get(names, i)));
        snprintf(into->streams[i], sizeof into->streams[i], "%s", name ? name : "");
    }
    for (size_t i = 0; i < count && !reader->failed; i++) {
        enter(reader, "ranks[%lld].timeline.samples[%zu] ", rank, i);
        read_sample(reader, json_array_get(rows, i), streams, &into->samples[i], into->bytes + i * streams * 2);
        if (i > 0 && !reader->failed && !(into->samples[i].ms >= into->samples[i - 1].ms))
            fail(reader, "is at %.3f ms, before the one above", into->samples[i].ms);
        into->sample_count = i + 1;
    }
}

static void read_rank(struct reader *reader, const json_t *entry, size_t index, struct rank_figures *into) {
    enter(reader, "ranks[%zu].", index);
    into->rank = get_integer(reader, entry, "rank", REQUIRED);
    const json_t *stats = get_object(reader, entry, "stats", REQUIRED);
    const json_t *refusal = get_object(reader, entry, "refusal", OPTIONAL);
    const json_t *timeline = get_object(reader, entry, "timeline", OPTIONAL);
    enter(reader, "ranks[%zu].stats.", index);
    into->capacity_bytes = get_size(reader, stats, "capacity_bytes", REQUIRED);
    into->live_bytes = get_size(reader, stats, "live_bytes", REQUIRED);
    into->held_bytes = get_size(reader, stats, "held_bytes", REQUIRED);
    into->peak_live_bytes = get_size(reader, stats, "peak_live_bytes", REQUIRED);
    into->peak_held_bytes = get_size(reader, stats, "peak_held_bytes", REQUIRED);
    if (!reader->failed && into->capacity_bytes == 0) fail(reader, "capacity_bytes is 0, expected a device's memory");
    enter(reader, "ranks[%zu].", index);
    read_streams(reader, entry, into);
    if (refusal) {
        enter(reader, "ranks[%zu].refusal.", index);
        into->refused = true;
        read_refusal(reader, refusal, &into->refusal);
    }
    enter(reader, "ranks[%zu].timeline.", index);
    if (timeline) read_timeline(reader, timeline, (long long)index, &into->timeline);
}

static void read_ranks(struct reader *reader, const json_t *report, struct run *run) {
    enter(reader, "%s", "");
    const json_t *list = get_list(reader, report, "ranks", REQUIRED);
    size_t count = json_array_size(list);
    if (!list) return;
    if (count == 0) fail(reader, "ranks is empty, expected an entry a rank");
    if (reader->failed || !(run->ranks = list_of(reader, count, sizeof *run->ranks))) return;
    run->rank_count = count;
    for (size_t i = 0; i < count && !reader->failed; i++) read_rank(reader, json_array_get(list, i), i, &run->ranks[i]);
}

static void read_steps(struct reader *reader, const json_t *report, struct run *run) {
    enter(reader, "%s", "");
    const json_t *list = get_list(reader, report, "steps", REQUIRED);
    size_t count = json_array_size(list);
    if (!list) return;
    run->losses = list_of(reader, count, sizeof *run->losses);
    run->peak_live = list_of(reader, count, sizeof *run->peak_live);
    if (reader->failed) return;
    run->step_count = count;
    for (size_t i = 0; i < count && !reader->failed; i++) {
        enter(reader, "steps[%zu].", i);
        run->losses[i] = get_number(reader, json_array_get(list, i), "loss", OPTIONAL);
        run->peak_live[i] = get_size(reader, json_array_get(list, i), "live_bytes", REQUIRED);
    }
}

static void read_config(struct reader *reader, const json_t *report, struct run *run) {
    const json_t *config = get_object(reader, report, "config", REQUIRED);
    enter(reader, "config.");
    get_text(reader, config, "policy", REQUIRED, run->policy, sizeof run->policy);
    run->offload = get_flag(reader, config, "offload");
    run->batch = get_integer(reader, config, "batch", REQUIRED);
    run->seq = get_integer(reader, config, "seq", REQUIRED);
    run->steps_asked = get_integer(reader, config, "steps", REQUIRED);
    if (!reader->failed && (run->batch < 1 || run->batch > COUNT_MOST))
        fail(reader, "batch is %lld, expected 1 to %d", (long long)run->batch, COUNT_MOST);
    if (!reader->failed && (run->steps_asked < 0 || run->steps_asked > COUNT_MOST))
        fail(reader, "steps is %lld, expected 0 to %d", (long long)run->steps_asked, COUNT_MOST);
}

static void read_outcome(struct reader *reader, const json_t *report, struct run *run) {
    static const char *const names[] = {
        [RUN_COMPLETED] = "completed", [RUN_OUT_OF_MEMORY] = "out_of_memory", [RUN_FAILED] = "failed"};
    char outcome[32];
    get_text(reader, report, "outcome", REQUIRED, outcome, sizeof outcome);
    run->failed_step = get_integer(reader, report, "failed_step", OPTIONAL);
    run->failed_rank = get_integer(reader, report, "failed_rank", OPTIONAL);
    get_text(reader, report, "message", OPTIONAL, run->message, sizeof run->message);
    if (reader->failed) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(outcome, names[i]) == 0) {
            run->outcome = (enum run_outcome)i;
            return;
        }
    fail(reader, "outcome is \"%s\", expected completed, out_of_memory or failed", outcome);
}

static void read_head(struct reader *reader, const json_t *report, struct run *run) {
    run->world = get_integer(reader, report, "world", REQUIRED);
    run->ep = get_integer(reader, report, "ep", REQUIRED);
    get_text(reader, report, "device", REQUIRED, run->device, sizeof run->device);
    get_text(reader, report, "profile", OPTIONAL, run->profile, sizeof run->profile);
    run->granularity_bytes = get_size(reader, report, "granularity_bytes", OPTIONAL);
    run->tokens_per_s = get_number(reader, report, "tokens_per_s", OPTIONAL);
    run->first_loss = get_number(reader, report, "first_loss", OPTIONAL);
    run->last_loss = get_number(reader, report, "last_loss", OPTIONAL);
    const json_t *data = get_object(reader, report, "data", REQUIRED);
    read_outcome(reader, report, run);
    enter(reader, "data.");
    get_text(reader, data, "path", REQUIRED, run->data_path, sizeof run->data_path);
    run->data_bytes = get_integer(reader, data, "bytes", REQUIRED);
    enter(reader, "%s", "");
}

/* ---- whole reports --------------------------------------------------------------------------------------------- */

bool run_read(struct run *run, const json_t *report, char *message) {
    struct reader reader = {.message = message};
    *run = (struct run){.min_capacity_ratio = (double)NAN};
    if (!json_is_object(report)) fail(&reader, "the report is %s, expected an object", type_name(report));
    read_head(&reader, report, run);
    read_config(&reader, report, run);
    read_steps(&reader, report, run);
    read_ranks(&reader, report, run);
    if (reader.failed) run_free(run);
    return !reader.failed;
}

void run_free(struct run *run) {
    for (size_t i = 0; i < run->rank_count; i++) {
        free(run->ranks[i].streams);
        free(run->ranks[i].timeline.streams);
        free(run->ranks[i].timeline.samples);
        free(run->ranks[i].timeline.bytes);
    }
    free(run->ranks);
    free(run->losses);
    free(run->peak_live);
    *run = (struct run){.min_capacity_ratio = (double)NAN};
}

static json_t *load(const char *path, char *message) {
    json_error_t error;
    json_t *report = json_load_file(path, 0, &error);
    if (!report) snprintf(message, DEMO_MESSAGE_ROOM, "%s: line %d: %s", path, error.line, error.text);
    return report;
}

/* Puts the file's name in front of the sentence. */
static void name_file(const char *path, char *message) {
    char sentence[DEMO_MESSAGE_ROOM];
    snprintf(sentence, sizeof sentence, "%s", message);
    int length = snprintf(message, DEMO_MESSAGE_ROOM, "%s: ", path);
    if (length < DEMO_MESSAGE_ROOM) snprintf(message + length, DEMO_MESSAGE_ROOM - (size_t)length, "%s", sentence);
}

bool run_read_file(struct run *run, const char *path, char *message) {
    *run = (struct run){.min_capacity_ratio = (double)NAN};
    json_t *report = load(path, message);
    if (!report) return false;
    bool read = run_read(run, report, message);
    if (!read) name_file(path, message);
    json_decref(report);
    return read;
}

bool replay_read(const json_t *report, double *min_capacity_ratio, char *message) {
    struct reader reader = {.message = message};
    if (!json_is_object(report)) fail(&reader, "the report is %s, expected an object", type_name(report));
    size_t smallest = get_size(&reader, report, "min_capacity_bytes", OPTIONAL);
    size_t live = get_size(&reader, report, "peak_rounded_bytes", REQUIRED);
    *min_capacity_ratio = smallest > 0 && live > 0 ? (double)smallest / (double)live : (double)NAN;
    return !reader.failed;
}

bool replay_read_file(const char *path, double *min_capacity_ratio, char *message) {
    json_t *report = load(path, message);
    if (!report) return false;
    bool read = replay_read(report, min_capacity_ratio, message);
    if (!read) name_file(path, message);
    json_decref(report);
    return read;
}
