/* SPDX-License-Identifier: Apache-2.0 */
/* Each trace and allocator: a call of weir-replay that searches for the smallest and the honest device and runs on those
 * of the curve, and one on a device with plenty, which says what the allocator holds when nothing keeps it from holding more. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/beside.h"
#include "bench/report.h"

#define PLENTY       "4x"
#define DEVICES      "1,1.005,1.01,1.02,1.03,1.05,1.075,1.1,1.15,1.2,1.25,1.3,1.4,1.5,1.75,2,2.5,3"
#define FEW_DEVICES  "1,1.02,1.05,1.1,1.25,1.5,2"
#define FAILED_WORDS "weir-replay: "

enum { MOST_CALLS = 512, MOST_ARGUMENTS = 13, WHY_ROOM = 512 };

struct call {
    const struct report_trace *trace;
    const struct report_allocator *allocator;
    bool plenty;
    pid_t process;
    char json_path[PATH_MAX], said_path[PATH_MAX];
    json_t *answer; /* NULL: it has none */
    char why[WHY_ROOM];
};

struct runs {
    const struct report_plan *plan;
    char replay[PATH_MAX];
    struct call *calls;
    size_t call_count;
};

/* ---- what is called ---------------------------------------------------------------------------------------------- */

static const struct report_library *library_of(const struct report_plan *plan,
                                               const struct report_allocator *allocator) {
    return &plan->libraries[allocator->peer - REPORT_TORCH];
}

static bool can_run(const struct report_plan *plan, const struct report_allocator *allocator) {
    if (allocator->policy != NULL) return true;
    return allocator->peer != REPORT_HOST && library_of(plan, allocator)->path != NULL;
}

static void add_call(struct runs *runs, const struct report_trace *trace, const struct report_allocator *allocator,
                     bool plenty, const char *scratch) {
    if (runs->call_count == MOST_CALLS) return;
    struct call *call = &runs->calls[runs->call_count];
    *call = (struct call){.trace = trace, .allocator = allocator, .plenty = plenty};
    snprintf(call->json_path, sizeof call->json_path, "%.4000s.%zu.json", scratch, runs->call_count);
    snprintf(call->said_path, sizeof call->said_path, "%.4000s.%zu.said", scratch, runs->call_count);
    runs->call_count++;
}

static void list_calls(struct runs *runs, const char *scratch) {
    const struct report_plan *plan = runs->plan;
    for (size_t t = 0; t < plan->trace_count; t++)
        for (size_t a = 0; a < report_allocator_count; a++)
            for (int plenty = 0; plenty < 2 && can_run(plan, &report_allocators[a]); plenty++)
                add_call(runs, &plan->traces[t], &report_allocators[a], plenty, scratch);
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

/* execv changes none of them. */
static char *as_argument(const char *text) { return (char *)(uintptr_t)text; }

static _Noreturn void become_replay(const struct runs *runs, const struct call *call) {
    const struct report_plan *plan = runs->plan;
    const struct report_allocator *allocator = call->allocator;
    char which[2 * PATH_MAX], json[PATH_MAX + 16];
    if (allocator->policy != NULL)
        snprintf(which, sizeof which, "--policy=%s", allocator->policy);
    else
        snprintf(which, sizeof which, "--allocator=%s:weir_peer_alloc:weir_peer_free%s",
                 library_of(plan, allocator)->path, allocator->uses ? ":weir_peer_use" : "");
    snprintf(json, sizeof json, "--json=%s", call->json_path);
    const char *arguments[MOST_ARGUMENTS] = {runs->replay, call->trace->path, which, json, "--jobs=1"};
    size_t count = 5;
    char profile[PATH_MAX + 16];
    snprintf(profile, sizeof profile, "--profile=%s", plan->profile != NULL ? plan->profile : "");
    if (plan->profile != NULL) arguments[count++] = profile;
    if (call->plenty) {
        arguments[count++] = "--capacity=" PLENTY;
    } else {
        arguments[count++] = "--scan";
        arguments[count++] = "--honest=1%";
        arguments[count++] = plan->quick ? "--curve=" FEW_DEVICES : "--curve=" DEVICES;
        if (plan->quick) arguments[count++] = "--coarse";
    }
    char *passed[MOST_ARGUMENTS] = {NULL};
    for (size_t i = 0; i < count; i++) passed[i] = as_argument(arguments[i]);
    const int none = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int said = open(call->said_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (none >= 0) dup2(none, 1);
    if (said >= 0) dup2(said, 2);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    beside_put_emulator_first();
    if (allocator->set != NULL) setenv(allocator->set, allocator->value, 1);
    execv(runs->replay, passed);
    _exit(127);
}

/* The sentence that weir-replay ended with, among all that libraries print. */
static bool read_sentence(const char *path, char *why, size_t room) {
    char line[WHY_ROOM];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, FAILED_WORDS, strlen(FAILED_WORDS)) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(why, room, "%s", line + strlen(FAILED_WORDS));
        found = true;
    }
    fclose(file);
    return found;
}

/* A run that failed, otherwise than for want of memory, has no figures. */
static void finish(struct call *call, int status) {
    json_error_t error;
    call->process = 0;
    call->answer = json_load_file(call->json_path, 0, &error);
    const json_t *why = json_object_get(call->answer, "why");
    if (call->answer != NULL && strcmp(report_text(call->answer, "outcome"), "failed") == 0) {
        snprintf(call->why, sizeof call->why, "%s", json_is_string(why) ? json_string_value(why) : "a run failed");
        json_decref(call->answer);
        call->answer = NULL;
    } else if (call->answer == NULL && !read_sentence(call->said_path, call->why, sizeof call->why)) {
        snprintf(call->why, sizeof call->why, "weir-replay ended with %d and gave no answer",
                 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    unlink(call->json_path);
    unlink(call->said_path);
}

/* ---- all calls --------------------------------------------------------------------------------------------------- */

static bool begin(const struct runs *runs, struct call *call) {
    call->process = fork();
    if (call->process == 0) become_replay(runs, call);
    if (call->process > 0) return true;
    snprintf(call->why, sizeof call->why, "no process can be made: %s", strerror(errno));
    call->process = 0;
    return false;
}

static struct call *call_of(const struct runs *runs, pid_t process) {
    for (size_t i = 0; i < runs->call_count; i++)
        if (runs->calls[i].process == process) return &runs->calls[i];
    return NULL;
}

static void run_calls(struct runs *runs) {
    size_t next = 0, running = 0, done = 0;
    while (next < runs->call_count || running > 0) {
        while (next < runs->call_count && running < runs->plan->jobs) running += begin(runs, &runs->calls[next++]);
        int status = 0;
        const pid_t process = running > 0 ? waitpid(-1, &status, 0) : -1;
        struct call *call = process > 0 ? call_of(runs, process) : NULL;
        if (call == NULL) continue;
        running--;
        finish(call, status);
        if (isatty(2))
            fprintf(stderr, "\r\033[Kreplays: %zu of %zu, %s: %s", ++done, runs->call_count, call->trace->name,
                    call->allocator->name);
    }
    if (isatty(2)) fprintf(stderr, "\r\033[K");
}

/* ---- what came of them ------------------------------------------------------------------------------------------- */

static json_t *points_of(const json_t *answer) {
    json_t *points = json_array(), *point;
    size_t index;
    json_array_foreach(json_object_get(answer, "curve"), index, point) json_array_append_new(
        points, json_pack("{s:O, s:O, s:O}", "capacity_ratio", json_object_get(point, "capacity_ratio"), "outcome",
                          json_object_get(point, "outcome"), "slowdown", json_object_get(point, "slowdown")));
    return points;
}

/* The lines of the answer that a report keeps. */
static void copy_figures(const json_t *answer, json_t *result) {
    static const char *const kept[] = {"min_capacity_ratio", "honest_capacity_ratio", "fails_above"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_t *value = json_object_get(answer, kept[i]);
        json_object_set(result, kept[i], value != NULL ? value : json_null());
    }
    json_object_set_new(result, "curve", points_of(answer));
}

static double held_ratio(const struct call *call) {
    if (call->allocator->whole || strcmp(report_text(call->answer, "outcome"), "completed") != 0) return (double)NAN;
    return report_number(call->answer, "peak_held_bytes") / report_number(call->answer, "peak_live_bytes");
}

/* Of a search and the run with plenty that stands behind it. */
static json_t *result_of(const struct call *call) {
    json_t *result = json_pack("{s:s, s:s}", "allocator", call->allocator->key, "missing", call->why);
    if (call->answer == NULL) return result;
    json_object_set_new(result, "missing", json_null());
    copy_figures(call->answer, result);
    json_object_set_new(result, "held_ratio", report_real(held_ratio(call + 1)));
    return result;
}

static json_t *trace_of(const struct runs *runs, const struct report_trace *trace) {
    json_t *entry = json_pack("{s:s}", "name", trace->name), *results = json_array();
    static const char *const kept[] = {"operations", "iterations", "peak_live_bytes"};
    for (size_t i = 0; i < runs->call_count; i += 2) {
        const struct call *call = &runs->calls[i];
        if (call->trace != trace) continue;
        json_array_append_new(results, result_of(call));
        for (size_t k = 0; call->answer != NULL && k < sizeof kept / sizeof *kept; k++)
            json_object_set(entry, kept[k], json_object_get(call->answer, kept[k]));
    }
    json_object_set_new(entry, "results", results);
    return entry;
}

static bool has_answers(const struct runs *runs, const struct report_trace *trace) {
    const char *why = "";
    for (size_t i = 0; i < runs->call_count; i += 2) {
        if (runs->calls[i].trace != trace) continue;
        if (runs->calls[i].answer != NULL) return true;
        why = runs->calls[i].why;
    }
    fprintf(stderr, "weir-bench-report: trace %s is left out: %s\n", trace->name, why);
    return false;
}

/* A profile's name, or its file's, without the folders of this machine. */
static const char *short_name(const char *profile) {
    const char *slash = strrchr(profile, '/');
    return slash != NULL ? slash + 1 : profile;
}

/* What anyone can type to get an allocator's figures again. */
static void say_commands(const struct runs *runs, json_t *commands) {
    char text[1600], which[700], profile[300] = "";
    const char *named = runs->plan->profile;
    if (named != NULL)
        snprintf(profile, sizeof profile, " --profile=%s%.255s", strchr(named, '/') != NULL ? "./" : "",
                 short_name(named));
    for (size_t i = 0; i < report_allocator_count; i++) {
        const struct report_allocator *allocator = &report_allocators[i];
        char set[128] = "";
        if (!can_run(runs->plan, allocator)) continue;
        if (allocator->policy != NULL)
            snprintf(which, sizeof which, "--policy=%s", allocator->policy);
        else
            snprintf(which, sizeof which, "--allocator=%.600s:weir_peer_alloc:weir_peer_free%s",
                     library_of(runs->plan, allocator)->path, allocator->uses ? ":weir_peer_use" : "");
        if (allocator->set != NULL)
            snprintf(set, sizeof set, "LD_LIBRARY_PATH=build/lib/emu %s=%s ", allocator->set, allocator->value);
        snprintf(text, sizeof text, "%sweir-replay TRACE %s%s --scan --honest=1%% --curve=%s%s", set, which, profile,
                 runs->plan->quick ? FEW_DEVICES : DEVICES, runs->plan->quick ? " --coarse" : "");
        json_array_append_new(commands, json_string(text));
    }
    json_array_append_new(commands, json_string("weir-replay TRACE ... --capacity=" PLENTY));
}

/* What the replays ran on, as they said themselves. */
static json_t *device_of(const struct runs *runs) {
    for (size_t i = 0; i < runs->call_count; i++) {
        const json_t *answer = runs->calls[i].answer;
        if (answer != NULL)
            return json_pack("{s:s, s:s, s:s}", "profile", short_name(report_text(answer, "profile")), "law",
                             report_text(answer, "law"), "clock", report_text(answer, "clock"));
    }
    return json_null();
}

/* Why there is no figure of an allocator at all: it is not there, or failed on all traces. */
static void say_missing(const struct runs *runs, const struct report_allocator *allocator, json_t *entry) {
    const char *why = NULL;
    if (allocator->peer != REPORT_HOST && !can_run(runs->plan, allocator))
        why = library_of(runs->plan, allocator)->version;
    for (size_t i = 0; i < runs->call_count; i += 2) {
        const struct call *call = &runs->calls[i];
        if (call->allocator != allocator) continue;
        if (call->answer != NULL) return;
        why = call->why;
    }
    if (why != NULL) json_object_set_new(entry, "missing", json_string(why));
}

bool report_run(const struct report_plan *plan, const char *scratch, json_t *report) {
    struct runs runs = {.plan = plan, .calls = calloc(MOST_CALLS, sizeof *runs.calls)};
    json_t *traces = json_array();
    if (!beside_path("weir-replay", runs.replay) || access(runs.replay, X_OK) != 0 || runs.calls == NULL) {
        fprintf(stderr, "weir-bench-report: there is no weir-replay beside this program\n");
        free(runs.calls);
        json_decref(traces);
        return false;
    }
    list_calls(&runs, scratch);
    run_calls(&runs);
    for (size_t i = 0; i < plan->trace_count; i++)
        if (has_answers(&runs, &plan->traces[i])) json_array_append_new(traces, trace_of(&runs, &plan->traces[i]));
    for (size_t i = 0; i < report_allocator_count; i++)
        say_missing(&runs, &report_allocators[i], json_array_get(json_object_get(report, "allocators"), i));
    json_object_set_new(report, "traces", traces);
    json_object_set_new(report, "device", device_of(&runs));
    say_commands(&runs, json_object_get(report, "commands"));
    for (size_t i = 0; i < runs.call_count; i++) json_decref(runs.calls[i].answer);
    free(runs.calls);
    return json_array_size(traces) > 0;
}
