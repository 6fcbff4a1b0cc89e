/* SPDX-License-Identifier: Apache-2.0 */
/* weir-demo: measure the job, run it on a device that just holds it, carry a larger batch, replay, report. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/standard.h"
#include "tools/demo/child.h"
#include "tools/demo/session.h"

#define AMPLE_BYTES ((size_t)4 << 30) /* a device on which all that is wanted can be had; costs nothing until used */
/* Live bytes are the same under any policy; this one takes pages only when no stream's idle memory can be waited for, so
 * that a large device costs no more here than a small one. */
#define MEASURE_POLICY    "footprint"
#define SAMPLE_STEPS      2     /* of the runs that only measure how memory grows with the batch */
#define BATCH_FACTOR_MOST 4     /* the search for a larger batch ends here */
#define SEARCH_SECONDS    120.0 /* after so long no further batch is tried, once one was found */

/* ---- the runs -------------------------------------------------------------------------------------------------------- */

static bool measure(struct session *session) {
    struct train_job job = {.name = "measuring",
                            .file = "measure",
                            .what = "measuring the job's peak",
                            .policy = MEASURE_POLICY,
                            .trace = true,
                            .timeline = true,
                            .capacity_bytes = AMPLE_BYTES};
    struct demo *demo = &session->demo;
    if (!session_train(session, &job, &session->measured)) return false;
    if (session->measured.outcome != RUN_COMPLETED) {
        fprintf(stderr, "weir-demo: the job does not fit in %zu MiB a rank, more than this demo gives it\n",
                AMPLE_BYTES >> 20);
        return false;
    }
    demo->measured = &session->measured;
    demo->page_bytes = run_page_bytes(&session->measured);
    demo->capacity_bytes = demo_capacity(run_fullest(&session->measured)->peak_live_bytes, demo->page_bytes);
    fprintf(session->say, "  the device from here on: %.2f MiB a rank, %.0f %% more than the fullest rank's peak\n",
            mebibytes(demo->capacity_bytes), 100.0 * DEMO_HEADROOM);
    return true;
}

static bool compare(struct session *session) {
    struct demo *demo = &session->demo;
    struct train_job job = {.name = "per-stream",
                            .file = "per-stream",
                            .what = "per-stream",
                            .policy = "per-stream",
                            .timeline = true,
                            .capacity_bytes = demo->capacity_bytes};
    if (!session_train(session, &job, &session->per_stream)) return false;
    demo->runs[DEMO_PER_STREAM] = &session->per_stream;
    job.name = job.file = job.what = "weir";
    job.policy = "latency";
    if (!session_train(session, &job, &session->weir)) return false;
    demo->runs[DEMO_WEIR] = &session->weir;
    return true;
}

/* Peaks with offload at two batches, a few steps each on an ample device. Later steps may need more than the first few:
 * the measuring run tells by how much. */
static bool sample_offload(struct session *session, struct choose *choose) {
    int64_t base = session->measured.batch;
    int64_t steps = session->measured.steps_asked < SAMPLE_STEPS ? session->measured.steps_asked : SAMPLE_STEPS;
    char what[64];
    snprintf(what, sizeof what, "memory with offload at batch %lld", (long long)base);
    struct train_job job = {.name = "offload, measuring",
                            .file = "offload-small",
                            .what = what,
                            .policy = MEASURE_POLICY,
                            .offload = true,
                            .capacity_bytes = AMPLE_BYTES,
                            .batch = base,
                            .steps = steps};
    if (!session_train(session, &job, &session->small)) return false;
    job.file = "offload-large";
    job.batch = base + (base + 1) / 2;
    snprintf(what, sizeof what, "memory with offload at batch %lld", (long long)job.batch);
    if (!session_train(session, &job, &session->large)) return false;
    const struct run *measured = &session->measured;
    double growth = 1.0;
    if (measured->step_count >= (size_t)steps && steps > 0 && measured->peak_live[steps - 1] > 0)
        growth = (double)measured->peak_live[measured->step_count - 1] / (double)measured->peak_live[steps - 1];
    choose->base_batch = base;
    choose->most_batch = BATCH_FACTOR_MOST * base;
    choose->capacity_bytes = session->demo.capacity_bytes;
    choose->small.batch = base;
    choose->small.peak_bytes = (size_t)((double)run_fullest(&session->small)->peak_live_bytes * growth);
    choose->large.batch = job.batch;
    choose->large.peak_bytes = (size_t)((double)run_fullest(&session->large)->peak_live_bytes * growth);
    return true;
}

static void keep_run(struct run *to, struct run *from) {
    run_free(to);
    *to = *from;
    *from = (struct run){0};
}

/* A run that fits is kept until a larger one fits; when none does, the smallest that failed is. */
static bool better(const struct run *kept, const struct run *run) {
    if (kept->rank_count == 0) return true;
    bool fits = run->outcome == RUN_COMPLETED, fitted = kept->outcome == RUN_COMPLETED;
    if (fits != fitted) return fits;
    return fits ? run->batch > kept->batch : run->batch < kept->batch;
}

static bool search_offload(struct session *session) {
    struct choose choose = {0};
    if (!sample_offload(session, &choose)) return false;
    for (int64_t batch; (batch = choose_next(&choose)) != 0;) {
        char file[48], what[64];
        struct run run = {0};
        snprintf(file, sizeof file, "offload-%lld", (long long)batch);
        snprintf(what, sizeof what, "weir+offload at batch %lld", (long long)batch);
        struct train_job job = {.name = "weir+offload",
                                .file = file,
                                .what = what,
                                .policy = "latency",
                                .offload = true,
                                .trace = true,
                                .timeline = true,
                                .capacity_bytes = session->demo.capacity_bytes,
                                .batch = batch};
        if (!session_train(session, &job, &run)) return false;
        choose_note(&choose, batch, run.outcome == RUN_COMPLETED);
        if (better(&session->offload, &run)) keep_run(&session->offload, &run);
        run_free(&run);
        if (choose_best(&choose) && session_seconds(session) > SEARCH_SECONDS) break;
    }
    if (session->offload.rank_count > 0) session->demo.runs[DEMO_OFFLOAD] = &session->offload;
    return true;
}

/* The same batch without offload: only when this runs out is it offload that carried it. */
static bool counter_proof(struct session *session) {
    char name[DEMO_NAME_ROOM];
    const struct run *offload = session->demo.runs[DEMO_OFFLOAD];
    if (!offload) return true;
    snprintf(name, sizeof name, "weir, batch %lld", (long long)offload->batch);
    struct train_job job = {.name = name,
                            .file = "without-offload",
                            .what = "the same batch without offload",
                            .policy = "latency",
                            .timeline = true,
                            .capacity_bytes = session->demo.capacity_bytes,
                            .batch = offload->batch};
    if (!session_train(session, &job, &session->without)) return false;
    session->demo.runs[DEMO_WITHOUT] = &session->without;
    return true;
}

static bool smallest_devices(struct session *session) {
    int64_t rank = run_fullest(&session->measured)->rank;
    if (!session_replay(session, "measure", rank, "per-stream", "replay-per-stream", "smallest device, per-stream",
                        &session->per_stream.min_capacity_ratio))
        return false;
    if (!session_replay(session, "measure", rank, "latency", "replay-weir", "smallest device, weir",
                        &session->weir.min_capacity_ratio))
        return false;
    if (session->offload.rank_count == 0 || session->offload.outcome != RUN_COMPLETED) return true;
    char trace[48];
    snprintf(trace, sizeof trace, "offload-%lld", (long long)session->offload.batch);
    return session_replay(session, trace, run_fullest(&session->offload)->rank, "latency", "replay-offload",
                          "smallest device, weir+offload", &session->offload.min_capacity_ratio);
}

static void drop_traces(const struct session *session) {
    session_drop_traces(session, "measure", session->measured.rank_count);
    for (int64_t batch = 1; batch <= BATCH_FACTOR_MOST * session->measured.batch; batch++) {
        char file[48];
        snprintf(file, sizeof file, "offload-%lld", (long long)batch);
        session_drop_traces(session, file, session->measured.rank_count);
    }
}

static void gather_losses(struct session *session) {
    const struct run *runs[] = {&session->measured, &session->per_stream, &session->weir,   &session->small,
                                &session->large,    &session->offload,    &session->without};
    struct demo *demo = &session->demo;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (runs[i]->rank_count > 0) demo->loss_runs[demo->loss_run_count++] = runs[i];
}

static bool make_runs(struct session *session) {
    bool made = measure(session) && compare(session) && search_offload(session) && counter_proof(session) &&
                smallest_devices(session);
    drop_traces(session);
    if (made) gather_losses(session);
    session->demo.seconds = session_seconds(session);
    return made;
}

/* ---- the report ------------------------------------------------------------------------------------------------------ */

/* A sentence as an item, broken before the 100th letter. */
static void print_wrapped(void *to, const char *sentence) {
    FILE *out = to;
    size_t column = 2;
    fputs("- ", out);
    for (const char *word = sentence; *word;) {
        size_t length = strcspn(word, " ");
        if (column > 2 && column + 1 + length > 100) {
            fputs("\n  ", out);
            column = 2;
        } else if (column > 2) {
            fputc(' ', out);
            column++;
        }
        fwrite(word, 1, length, out);
        column += length;
        word += length + (word[length] == ' ');
    }
    fputc('\n', out);
}

static bool file_failed(const char *path) {
    fprintf(stderr, "weir-demo: cannot write %s: %s\n", path, strerror(errno));
    return false;
}

static bool write_json(const struct session *session) {
    char path[PATH_MAX];
    const char *also = session->options->json_path;
    json_t *report = demo_json(&session->demo);
    session_path(session, "report", ".json", path);
    errno = ENOMEM;
    bool written = report && json_dump_file(report, path, JSON_INDENT(2)) == 0;
    if (!written) file_failed(path);
    if (written && also && *also && json_dump_file(report, also, JSON_INDENT(2)) != 0) written = file_failed(also);
    if (written && also && !*also) {
        json_dumpf(report, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(report);
    return written;
}

static bool write_page(const struct session *session) {
    char path[PATH_MAX];
    session_path(session, "report", ".html", path);
    FILE *out = fopen(path, "we");
    if (!out) return file_failed(path);
    demo_html(&session->demo, out);
    bool failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    return failed ? file_failed(path) : true;
}

static bool report(const struct session *session) {
    FILE *say = session->say;
    fputc('\n', say);
    demo_table(&session->demo, say);
    fputs("\nMemory in MiB, of the rank that ran out of memory, else of the fullest.\n\n", say);
    demo_words(&session->demo, print_wrapped, say);
    if (!write_page(session) || !write_json(session)) return false;
    fprintf(say, "\nMemory over time: %s/report.html\nThe figures:      %s/report.json\nIn all %.0f s.\n", session->out,
            session->out, session->demo.seconds);
    return true;
}

/* Ends as the signal would have ended us, so that whoever started us sees it. */
static int end_by_signal(int number) {
    sigset_t set;
    fprintf(stderr, "weir-demo: interrupted; all that it had started has been ended\n");
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + number;
}

int main(int argc, char **argv) {
    struct options options = {0};
    static struct session session;
    char message[DEMO_MESSAGE_ROOM];
    weir__take_closed_standard();
    const int answered = options_read(&demo_options, &options, argc, argv);
    if (answered != OPTIONS_GO_ON) return weir__end_standard("weir-demo", answered);
    child_watch_signals();
    if (!session_open(&session, &options, message)) {
        fprintf(stderr, "weir-demo: %s\n", message);
        return session.bad_input ? 2 : 1;
    }
    bool done = make_runs(&session) && report(&session);
    session_close(&session);
    if (session.signal) return end_by_signal(session.signal);
    return weir__end_standard("weir-demo", done ? 0 : session.bad_input ? 2 : 1);
}
