/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/emulated.h"
#include "trainer/report_state.h"
#include "trainer/text.h"
#include "weir/weir.h"

static int64_t now_ns(const struct report *r) { return (int64_t)weir__device_now_ns(r->device); }

int report_check(const struct config *config, char *message, size_t room) {
    char folder[sizeof config->json];
    struct stat file;
    if (!*config->json) return 0;
    if (stat(config->json, &file) == 0 && S_ISDIR(file.st_mode))
        return text_fail(2, message, room, "--json %s is a folder; a file is written", config->json);
    strcpy(folder, config->json);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    if (access(slash ? folder : ".", W_OK) == 0) return 0;
    return text_fail(2, message, room, "--json %s can't be written: %s", config->json, strerror(errno));
}

/* ---- open --------------------------------------------------------------------------------------------------------- */

static void print_facts(const struct report *r) {
    const struct config *c = r->config;
    char capacity[32], page[32], parameters[32], bytes[32];
    text_of_bytes(r->info.capacity_bytes, capacity);
    text_of_bytes(r->info.granularity_bytes, page);
    if (r->info.emulated)
        printf("weir-train %s on emulated devices (profile %s): %s a rank in pages of %s; no GPU is used\n",
               weir_version(), r->info.profile, capacity, page);
    else
        printf("weir-train %s on %s: %s a rank\n", weir_version(), r->info.name, capacity);
    printf("%d rank%s (ep %d x fsdp %d), %s parameters, %s bytes of text, %lld tokens a step, policy %s%s, %s on the "
           "wire\n",
           r->comm->world, r->comm->world == 1 ? "" : "s", r->comm->ep, r->comm->world / r->comm->ep,
           text_of_count((uint64_t)r->parameters, parameters), text_of_count((uint64_t)r->data_bytes, bytes),
           (long long)(c->batch * c->seq * r->comm->world), c->policy, c->offload ? " with offload" : "", c->wire);
    const struct weir_emu_machine *m = &r->machine;
    if (m->virtual_clock)
        printf("all times are those of the virtual clock (seed %" PRIu64 ", jitter %g, law %s): what the profile says, "
               "not what passed\n",
               m->seed, m->jitter, m->law);
    if (strcmp(c->ops, "cost") == 0)
        printf("nothing is computed: losses and norms are 0, routes are made up (skew %g)\n", c->skew);
    if (r->comm->table->lacks) printf("not yet: %s\n", r->comm->table->lacks);
    fflush(stdout);
}

struct report *report_open(const struct config *config, struct comm *comm, struct weir_device *device,
                           struct weir_pool *pool, int64_t data_bytes, int64_t parameters) {
    struct report *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->config = config;
    r->comm = comm;
    r->device = device;
    r->pool = pool;
    r->data_bytes = data_bytes;
    r->parameters = parameters;
    r->begin_ns = now_ns(r);
    r->info.size = sizeof r->info;
    bool good = weir_device_get_info(device, &r->info) == WEIR_OK;
    if (good && r->info.emulated) good = weir__device_machine(device, &r->machine) == WEIR_OK;
    if (!good || (config->timeline && !timeline_open(&r->timeline))) {
        free(r);
        return NULL;
    }
    bar_open(&r->bar, config->progress && comm->rank == 0);
    if (comm->rank == 0) print_facts(r);
    return r;
}

/* ---- while it runs ------------------------------------------------------------------------------------------------ */

static double percent(size_t part, size_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

/* What is left of a step when its causes are taken off, ms. */
static double other_ms(const struct step_record *s) {
    double left = s->seconds * 1e3;
#define TAKE_OFF(name, text) left -= s->name;
    STEP_CAUSES(TAKE_OFF)
#undef TAKE_OFF
    return left > 0 ? left : 0;
}

static void print_step(const struct report *r, const struct step_record *s) {
    char live[32], held[32], rate[32];
    printf("step %5lld  loss %7.4f  norm %8.3g  mem live %9s (%3.0f %%) held %9s (%3.0f %%)  %7s tok/s ",
           (long long)s->step, s->loss, s->gradient_norm, text_of_bytes(s->live_bytes, live),
           percent(s->live_bytes, s->capacity_bytes), text_of_bytes(s->held_bytes, held),
           percent(s->held_bytes, s->capacity_bytes),
           text_of_count(s->seconds > 0 ? (uint64_t)((double)s->tokens / s->seconds) : 0, rate));
#define PRINT_CAUSE(name, text)                                                                                        \
    if (&s->name != &s->reload_ms || r->config->offload)                                                               \
        printf(" %.*s %4.0f", (int)(sizeof #name - sizeof "_ms"), #name, s->name);
    STEP_CAUSES(PRINT_CAUSE)
#undef PRINT_CAUSE
    printf(" other %4.0f ms  load %.2f\n", other_ms(s), s->expert_load);
    if (!isnan(s->validation_loss))
        printf("step %5lld  validation loss %.4f nats a byte\n", (long long)s->step, s->validation_loss);
}

static void keep_step(struct report *r, const struct step_record *record) {
    if (r->step_count == r->step_room) {
        size_t room = r->step_room ? 2 * r->step_room : 256;
        struct step_record *steps = realloc(r->steps, room * sizeof *steps);
        if (!steps) return; /* the run matters more than its report */
        r->steps = steps;
        r->step_room = room;
    }
    r->steps[r->step_count++] = *record;
}

void report_step(struct report *r, const struct step_record *record) {
    r->last_step = record->step;
    if (r->comm->rank != 0) return;
    keep_step(r, record);
    bar_hide(&r->bar);
    print_step(r, record);
    fflush(stdout);
    bar_update(&r->bar, record->step, r->config->steps);
}

void report_sample(struct report *r, int64_t step) {
    struct weir_stream_stats streams[TIMELINE_STREAMS] = {{.size = sizeof *streams}};
    struct sample sample = {.ns = 0, .step = step};
    size_t count = 0;
    if (!r->timeline.buckets) return;
    if (weir_pool_get_stream_stats(r->pool, streams, TIMELINE_STREAMS, &count) != WEIR_OK) return;
    sample.ns = now_ns(r) - r->begin_ns;
    for (size_t i = 0; i < count && i < TIMELINE_STREAMS; i++) {
        sample.live[i] = streams[i].live_bytes;
        sample.idle[i] = streams[i].idle_bytes;
    }
    timeline_add(&r->timeline, &sample);
}

void report_offload(struct report *r, const struct weir_offload_stats *stats) {
    r->offload = *stats;
    r->has_offload = true;
}

/* ---- close -------------------------------------------------------------------------------------------------------- */

double report_tokens_per_s(const struct report *r) {
    double tokens = 0, seconds = 0;
    for (size_t i = r->step_count > 1; i < r->step_count; i++) {
        tokens += (double)r->steps[i].tokens;
        seconds += r->steps[i].seconds;
    }
    return seconds > 0 ? tokens / seconds : 0;
}

static const struct step_record *best_validation(const struct report *r) {
    const struct step_record *best = NULL;
    for (size_t i = 0; i < r->step_count; i++)
        if (!isnan(r->steps[i].validation_loss) && (!best || r->steps[i].validation_loss < best->validation_loss))
            best = &r->steps[i];
    return best;
}

static void print_time(const struct report *r) {
    struct step_record mean = {0};
    double n = (double)r->step_count;
    for (size_t i = 0; i < r->step_count; i++) {
        mean.seconds += r->steps[i].seconds / n;
#define ADD_CAUSE(name, text) mean.name += r->steps[i].name / n;
        STEP_CAUSES(ADD_CAUSE)
#undef ADD_CAUSE
    }
    printf("time: %.0f ms a step, of which\n", mean.seconds * 1e3);
#define PRINT_CAUSE(name, text)                                                                                        \
    printf("  %8.1f ms (%4.1f %%)  %s\n", mean.name, mean.seconds > 0 ? mean.name / mean.seconds / 10 : 0, text);
    STEP_CAUSES(PRINT_CAUSE)
#undef PRINT_CAUSE
    printf("  %8.1f ms (%4.1f %%)  computing, and the rest\n", other_ms(&mean),
           mean.seconds > 0 ? other_ms(&mean) / mean.seconds / 10 : 0);
}

/* Of a run that has taken a step; else the failure's sentence says all. */
static void print_summary(const struct report *r, const struct outcome *o) {
    char live[32], held[32], capacity[32], rate[32];
    if (!r->step_count) return;
    const struct step_record *last = &r->steps[r->step_count - 1], *best = best_validation(r);
    printf("%s", strcmp(o->name, "out_of_memory") ? o->name : "out of memory");
    if (o->failed_step) printf(" in step %lld", (long long)o->failed_step);
    printf(" after %zu step%s: loss %.4f to %.4f", r->step_count, r->step_count == 1 ? "" : "s", r->steps[0].loss,
           last->loss);
    if (best) printf(", best validation loss %.4f (step %lld)", best->validation_loss, (long long)best->step);
    printf(", %s tokens/s\n", text_of_count((uint64_t)report_tokens_per_s(r), rate));
    printf("memory: peak live %s (%.1f %%), peak held %s (%.1f %%) of %s, on the fullest rank\n",
           text_of_bytes(last->live_bytes, live), percent(last->live_bytes, last->capacity_bytes),
           text_of_bytes(last->held_bytes, held), percent(last->held_bytes, last->capacity_bytes),
           text_of_bytes(last->capacity_bytes, capacity));
    print_time(r);
    fflush(stdout);
}

/* Rank 0: what failed, and for lack of memory what filled the device of the rank that failed. */
static void print_failure(const struct outcome *o, const json_t *ranks) {
    if (!o->sentence || !*o->sentence) return;
    fprintf(stderr, "weir-train: %s\n", o->sentence);
    if (strcmp(o->name, "out_of_memory") || o->failed_rank < 0) return;
    const char *text = json_string_value(json_object_get(json_array_get(ranks, (size_t)o->failed_rank), "pool_report"));
    if (text) fprintf(stderr, "%s%s", text, *text && text[strlen(text) - 1] != '\n' ? "\n" : "");
}

/* The ranks' stories in rank order; null for one that did not tell. */
static json_t *parse_stories(const struct comm *comm, char **texts) {
    json_t *ranks = json_array();
    for (int rank = 0; rank < comm->world; rank++) {
        json_t *one = texts && texts[rank] ? json_loads(texts[rank], JSON_REJECT_DUPLICATES, NULL) : NULL;
        json_array_append_new(ranks, one ? one : json_null());
        if (texts) free(texts[rank]);
    }
    free(texts);
    return ranks;
}

/* Gives: false when the JSON could not be written. */
static bool end_on_rank_0(struct report *r, const struct outcome *o, char **texts) {
    json_t *ranks = parse_stories(r->comm, texts), *one;
    size_t index;
    bar_hide(&r->bar);
    print_summary(r, o);
    print_failure(o, ranks);
    json_array_foreach(ranks, index, one) json_object_del(one, "pool_report");
    if (!*r->config->json) {
        json_decref(ranks);
        return true;
    }
    if (report_write_json(r, o, ranks) == 0) return true;
    fprintf(stderr, "weir-train: --json %s can't be written: %s\n", r->config->json, strerror(errno));
    return false;
}

static void destroy(struct report *r) {
    timeline_close(&r->timeline);
    free(r->steps);
    free(r);
}

bool report_close(struct report *r, const char *outcome, int64_t failed_step, const char *sentence) {
    if (!r) return true;
    bool failed = strcmp(outcome, "completed") != 0;
    struct outcome o = {outcome, failed ? sentence : NULL, 0, failed ? r->comm->failed_rank : -1};
    if (failed) o.failed_step = failed_step ? failed_step : r->last_step + 1;
    report_sample(r, r->last_step + failed);
    char **texts = NULL, *story = report_rank_json(r, failed && o.failed_rank == r->comm->rank);
    r->comm->table->gather_text(r->comm, story ? story : "", &texts);
    free(story);
    bool written = r->comm->rank != 0 || end_on_rank_0(r, &o, texts);
    destroy(r);
    return written;
}
