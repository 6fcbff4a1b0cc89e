/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON (docs/report.md). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/path.h"
#include "trainer/config_table.h"
#include "trainer/data.h"
#include "trainer/report_state.h"
#include "weir/weir.h"

static json_t *bytes_of(size_t value) { return json_integer((json_int_t)value); }
static json_t *real_of(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static json_t *text_of(const char *text) { return text && *text ? json_string(text) : json_null(); }
static void put(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }

/* ---- one rank ----------------------------------------------------------------------------------------------------- */

static json_t *stats_json(struct weir_pool *pool) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (weir_pool_get_stats(pool, &stats) != WEIR_OK) return json_null();
    json_t *object = json_object();
#define PUT_STAT(type, name, text) put(object, #name, json_integer((json_int_t)stats.name));
    WEIR_POOL_STATS_LIST(PUT_STAT)
#undef PUT_STAT
    return object;
}

static size_t streams_of(struct weir_pool *pool, struct weir_stream_stats *streams) {
    size_t count = 0;
    streams->size = sizeof *streams;
    if (weir_pool_get_stream_stats(pool, streams, TIMELINE_STREAMS, &count) != WEIR_OK) return 0;
    return count < TIMELINE_STREAMS ? count : TIMELINE_STREAMS;
}

static json_t *streams_json(struct weir_pool *pool) {
    struct weir_stream_stats streams[TIMELINE_STREAMS];
    json_t *array = json_array();
    for (size_t i = 0, count = streams_of(pool, streams); i < count; i++) {
        json_t *one = json_object();
        put(one, "name", json_string(streams[i].name));
#define PUT_STAT(type, field, text) put(one, #field, json_integer((json_int_t)streams[i].field));
        WEIR_STREAM_STATS_LIST(PUT_STAT)
#undef PUT_STAT
        json_array_append_new(array, one);
    }
    return array;
}

static json_t *stream_name(struct weir_pool *pool, weir_stream stream) {
    struct weir_stream_stats streams[TIMELINE_STREAMS];
    for (size_t i = 0, count = streams_of(pool, streams); i < count; i++)
        if (streams[i].stream == stream) return json_string(streams[i].name);
    return json_null();
}

static json_t *refusal_json(struct weir_pool *pool) {
    struct weir_pool_refusal r = {.size = sizeof r};
    if (weir_pool_get_refusal(pool, &r) != WEIR_OK) return json_null();
    json_t *object = json_object();
    put(object, "asked_bytes", bytes_of(r.asked_bytes));
    put(object, "stream", stream_name(pool, r.stream));
    put(object, "iteration", json_integer((json_int_t)r.iteration));
    put(object, "limit_bytes", bytes_of(r.limit_bytes));
    put(object, "live_bytes", bytes_of(r.live_bytes));
    put(object, "idle_asker_bytes", bytes_of(r.idle_asker_bytes));
    put(object, "idle_others_bytes", bytes_of(r.idle_others_bytes));
    put(object, "moving_bytes", bytes_of(r.moving_bytes));
    put(object, "unmapped_bytes", bytes_of(r.unmapped_bytes));
    put(object, "untaken_bytes", bytes_of(r.untaken_bytes));
    put(object, "largest_idle_bytes", bytes_of(r.largest_idle_bytes));
    put(object, "capacity_bytes", bytes_of(r.capacity_bytes));
    put(object, "others_bytes", bytes_of(r.others_bytes));
    put(object, "above_limit_bytes", bytes_of(r.above_limit_bytes));
    return object;
}

static json_t *offload_json(const struct report *r) {
    if (!r->has_offload) return json_null();
    const struct weir_offload_stats *s = &r->offload;
    json_t *object = json_object();
    put(object, "offloads", json_integer((json_int_t)s->offloads));
    put(object, "fetches", json_integer((json_int_t)s->fetches));
    put(object, "prefetches", json_integer((json_int_t)s->prefetches));
    put(object, "moved_late", json_integer((json_int_t)s->moved_late));
    put(object, "dropped", json_integer((json_int_t)s->dropped));
    put(object, "kept", json_integer((json_int_t)s->kept));
    put(object, "forwarded", json_integer((json_int_t)s->forwarded));
    put(object, "late", json_integer((json_int_t)s->late));
    put(object, "bytes_out", bytes_of(s->bytes_out));
    put(object, "bytes_in", bytes_of(s->bytes_in));
    put(object, "host_live_bytes", bytes_of(s->host_live_bytes));
    put(object, "host_peak_bytes", bytes_of(s->host_peak_bytes));
    put(object, "open_items", json_integer((json_int_t)s->open_items));
    return object;
}

static json_t *sample_json(const struct sample *sample, size_t streams) {
    json_t *row = json_array();
    json_array_append_new(row, json_real((double)sample->ns * 1e-6));
    json_array_append_new(row, json_integer(sample->step));
    for (size_t i = 0; i < streams; i++) {
        json_array_append_new(row, bytes_of(sample->live[i]));
        json_array_append_new(row, bytes_of(sample->idle[i]));
    }
    return row;
}

static json_t *timeline_json(const struct report *r) {
    struct weir_stream_stats streams[TIMELINE_STREAMS];
    if (!r->timeline.buckets) return json_null();
    size_t count = streams_of(r->pool, streams);
    json_t *object = json_object(), *names = json_array(), *samples = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(names, json_string(streams[i].name));
    for (int i = 0; i < TIMELINE_SAMPLES; i++)
        if (r->timeline.buckets[i].ns >= 0) json_array_append_new(samples, sample_json(&r->timeline.buckets[i], count));
    put(object, "streams", names);
    put(object, "samples", samples);
    return object;
}

static json_t *pool_report_json(struct weir_pool *pool) {
    size_t length = weir_pool_report(pool, NULL, 0) + 1;
    char *text = calloc(length, 1);
    if (!text) return json_null();
    weir_pool_report(pool, text, length);
    json_t *value = text_of(text);
    free(text);
    return value;
}

char *report_rank_json(struct report *r, bool pool_report) {
    json_t *object = json_object();
    put(object, "rank", json_integer(r->comm->rank));
    put(object, "stats", stats_json(r->pool));
    put(object, "streams", streams_json(r->pool));
    put(object, "refusal", refusal_json(r->pool));
    put(object, "offload", offload_json(r));
    put(object, "timeline", timeline_json(r));
    if (pool_report) put(object, "pool_report", pool_report_json(r->pool));
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static json_t *option_json(const struct config *config, const struct option *option) {
    const void *value = (const char *)config + option->offset;
    switch (option->kind) {
    case OPTION_INT:
        return json_integer(*(const int64_t *)value);
    case OPTION_REAL:
        return real_of(*(const double *)value);
    case OPTION_BYTES:
        return bytes_of(*(const size_t *)value);
    case OPTION_FLAG:
        return json_boolean(*(const bool *)value);
    default:
        return json_string(value);
    }
}

static json_t *config_json(const struct config *config) {
    json_t *object = json_object();
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        put(object, config_options()[i].key, option_json(config, &config_options()[i]));
    return object;
}

static json_t *step_json(const struct step_record *s) {
    json_t *object = json_object();
    put(object, "step", json_integer(s->step));
    put(object, "loss", real_of(s->loss));
    put(object, "validation_loss", real_of(s->validation_loss));
    put(object, "gradient_norm", real_of(s->gradient_norm));
    put(object, "seconds", real_of(s->seconds));
    put(object, "tokens", json_integer(s->tokens));
#define PUT_CAUSE(name, text) put(object, #name, real_of(s->name));
    STEP_CAUSES(PUT_CAUSE)
#undef PUT_CAUSE
    put(object, "expert_load", real_of(s->expert_load));
    put(object, "wire_bytes", json_integer((json_int_t)s->wire_bytes));
    put(object, "live_bytes", bytes_of(s->live_bytes));
    put(object, "held_bytes", bytes_of(s->held_bytes));
    put(object, "capacity_bytes", bytes_of(s->capacity_bytes));
    return object;
}

static json_t *steps_json(const struct report *r) {
    json_t *array = json_array();
    for (size_t i = 0; i < r->step_count; i++) json_array_append_new(array, step_json(&r->steps[i]));
    return array;
}

static json_t *last_validation_json(const struct report *r) {
    for (size_t i = r->step_count; i-- > 0;)
        if (!isnan(r->steps[i].validation_loss)) return real_of(r->steps[i].validation_loss);
    return json_null();
}

/* What a run on the emulated device can be repeated from, beside the options and the profile. */
static json_t *emulator_json(const struct report *r) {
    const struct weir_emu_machine *m = &r->machine;
    if (!r->info.emulated) return json_null();
    json_t *object = json_object();
    put(object, "seed", json_integer((json_int_t)m->seed));
    put(object, "jitter", real_of(m->jitter));
    put(object, "law", json_string(m->law));
    put(object, "memory", json_string(m->backed ? "backed" : "unbacked"));
    put(object, "capacity_bytes", json_integer((json_int_t)r->info.capacity_bytes));
    return object;
}

static void put_machine(json_t *root, const struct report *r) {
    put(root, "device", json_string(r->info.emulated ? "emulated" : "cuda"));
    put(root, "device_name", json_string(r->info.name));
    put(root, "profile", text_of(r->info.profile));
    put(root, "clock", json_string(r->machine.virtual_clock ? "virtual" : "real"));
    put(root, "emulator", emulator_json(r));
    put(root, "world", json_integer(r->comm->world));
    put(root, "ep", json_integer(r->comm->ep));
    put(root, "parameters", json_integer(r->parameters));
}

static void put_outcome(json_t *root, const struct report *r, const struct outcome *o) {
    put(root, "outcome", json_string(o->name));
    put(root, "failed_step", o->failed_step ? json_integer(o->failed_step) : json_null());
    put(root, "failed_rank", o->failed_rank >= 0 ? json_integer(o->failed_rank) : json_null());
    put(root, "message", text_of(o->sentence));
    put(root, "first_loss", r->step_count ? real_of(r->steps[0].loss) : json_null());
    put(root, "last_loss", r->step_count ? real_of(r->steps[r->step_count - 1].loss) : json_null());
    put(root, "validation_loss", last_validation_json(r));
    put(root, "tokens_per_s", r->step_count ? real_of(report_tokens_per_s(r)) : json_null());
}

static int write_and_close(json_t *root, FILE *out) {
    int failed = json_dumpf(root, out, JSON_INDENT(1)) | (fputc('\n', out) == EOF);
    return failed | fclose(out);
}

/* Into a file beside it that then takes its name, so that a reader never sees half a report; what is not an ordinary
 * file (a pipe, /dev/stdout) is written as it is. */
static int write_whole(json_t *root, const char *path) {
    struct stat file;
    bool ordinary = stat(path, &file) || S_ISREG(file.st_mode);
    char *behind = weir__behind_links(path), *beside = NULL;
    if (!behind || asprintf(&beside, "%s%s", behind, ordinary ? ".part" : "") < 0) {
        free(behind);
        errno = ENOMEM;
        return -1;
    }
    FILE *out = fopen(beside, "w");
    int failed = !out || write_and_close(root, out) ? errno : 0;
    if (!failed && ordinary && rename(beside, behind)) failed = errno;
    if (failed && out && ordinary) unlink(beside);
    free(beside);
    free(behind);
    errno = failed;
    return failed ? -1 : 0;
}

int report_write_json(const struct report *r, const struct outcome *outcome, json_t *ranks) {
    char path[512];
    data_path(r->config->data, path, sizeof path);
    json_t *root = json_object(), *data = json_object();
    put(root, "program", json_string("weir-train"));
    put(root, "version", json_string(weir_version()));
    put(root, "name", json_string(r->config->name));
    put_machine(root, r);
    put(root, "config", config_json(r->config));
    put(data, "path", json_string(path));
    put(data, "bytes", json_integer(r->data_bytes));
    put(root, "data", data);
    put_outcome(root, r, outcome);
    put(root, "steps", steps_json(r));
    put(root, "ranks", ranks);
    errno = 0;
    int failed = write_whole(root, r->config->json);
    json_decref(root);
    return failed;
}
