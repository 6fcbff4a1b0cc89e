/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of weir-bench-pool beside what they are to be. */
#include <string.h>

#include "bench/figures.h"
#include "bench/pool.h"
#include "tools/page/page.h"

/* Mutex pairs; of two threads, of one thread's time; of PyTorch's time. */
#define GOAL_SMALL   5.0 /* to 1 MiB */
#define GOAL_LARGE   10.0
#define GOAL_MIX     12.0
#define GOAL_USES    20.0
#define GOAL_THREADS 1.3
#define GOAL_TORCH   0.2

/* One thread's row of the same loop; itself where it has one thread. */
static const struct row *alone(const struct row *rows, size_t count, const struct row *row) {
    for (size_t i = 0; i < count; i++)
        if (rows[i].loop.kind == row->loop.kind && rows[i].loop.bytes == row->loop.bytes && rows[i].loop.threads == 1)
            return &rows[i];
    return row;
}

static double goal_of(const struct row *row) {
    if (row->loop.threads > 1) return GOAL_THREADS;
    if (row->loop.kind == LOOP_MIX) return GOAL_MIX;
    if (row->loop.kind == LOOP_USES) return GOAL_USES;
    return row->loop.bytes <= 1 << 20 ? GOAL_SMALL : GOAL_LARGE;
}

/* What the goal is about. */
static double ratio_of(const struct row *rows, size_t count, const struct row *row) {
    const double one = row->loop.threads > 1 ? alone(rows, count, row)->median[WEIR] : row->median[MUTEX];
    return row->median[WEIR] / one;
}

static double over_rows(const struct row *rows, size_t count, int threads, enum subject subject) {
    double ns[MOST_ROWS] = {0};
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].loop.threads == threads) ns[found++] = rows[i].median[subject];
    return figures_median(ns, found);
}

static double recording_of(const struct row *rows, size_t count) {
    double ns[MOST_ROWS] = {0};
    for (size_t i = 0; i < count; i++) ns[i] = rows[i].recording_ns;
    return figures_median(ns, count);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { WIDTH = 11 };

static void put_ns(double ns, int width) {
    if (isnan(ns))
        printf(" %*s", width, "-");
    else
        printf(" %*.1f", width, ns);
}

static int width_of(int subject) {
    const int length = (int)strlen(subject_names[subject]);
    return length > WIDTH ? length : WIDTH;
}

static const char *met(double ratio, double goal) { return ratio <= goal ? "met" : "missed"; }

/* A column a subject that was measured in any loop. */
static bool is_measured(const struct row *rows, size_t count, int subject) {
    for (size_t i = 0; i < count; i++)
        if (!isnan(rows[i].median[subject])) return true;
    return false;
}

static void put_row(const struct row *rows, size_t count, const struct row *row) {
    const double ratio = ratio_of(rows, count, row), of_torch = row->median[WEIR] / row->median[TORCH];
    printf("%-12s", row->name);
    for (int subject = 0; subject < SUBJECT_COUNT; subject++)
        if (is_measured(rows, count, subject)) put_ns(row->median[subject], width_of(subject));
    put_ns(row->fastest[WEIR], WIDTH);
    put_ns(row->recording_ns, WIDTH);
    printf("  %6.2f x %s (at most %.4g: %s)", ratio, row->loop.threads > 1 ? "one thread" : "mutex", goal_of(row),
           met(ratio, goal_of(row)));
    if (!isnan(of_torch)) printf(", %.2f x torch (%s)", of_torch, met(of_torch, GOAL_TORCH));
    printf("\n");
}

static void count_goals(const struct row *rows, size_t count, const struct row *row, size_t *goals, size_t *reached) {
    const double of_torch[] = {row->median[WEIR] / row->median[TORCH]};
    const double ratio[] = {ratio_of(rows, count, row)};
    *goals += 1 + figures_known(of_torch, 1);
    *reached += figures_within(ratio, 1, goal_of(row)) + figures_within(of_torch, 1, GOAL_TORCH);
}

void report_print(const struct row *rows, size_t count, const struct peer peers[PEERS]) {
    const double one = over_rows(rows, count, 1, MUTEX), two = over_rows(rows, count, 2, MUTEX);
    size_t goals = 0, reached = 0;
    printf("nanoseconds, medians of %d rounds in turns; emulated device, profile gh200, real clock\n"
           "pairs: an alloc and its free; uses: with a use on a second stream; threads: of each of two; mix: replacing "
           "one of "
           "%d blocks\n%-12s",
           ROUNDS, MIX_BLOCKS, "");
    for (int subject = 0; subject < SUBJECT_COUNT; subject++)
        if (is_measured(rows, count, subject)) printf(" %*s", width_of(subject), subject_names[subject]);
    printf(" %11s %11s\n", "weir, best", "recording");
    for (size_t i = 0; i < count; i++) {
        put_row(rows, count, &rows[i]);
        count_goals(rows, count, &rows[i], &goals, &reached);
    }
    printf("goals met: %zu of %zu; PyTorch's: at most %.2f x of its time\n", reached, goals, GOAL_TORCH);
    printf("a mutex pair: %.1f ns; of each of two threads with one of its own: %.1f ns, %.2f x: so much two busy "
           "threads slow this "
           "machine down\n",
           one, two, two / one);
    printf("recording a call: %.1f ns\n", recording_of(rows, count));
    for (int i = 0; i < PEERS; i++)
        if (peers[i].process == 0) printf("%s is not measured: %s\n", subject_names[FIRST_PEER + i], peers[i].why);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_figure(FILE *out, const char *name, const char *what, double figure) {
    fprintf(out, ",\"%s%s\":", name, what);
    if (isnan(figure))
        fputs("null", out);
    else
        fprintf(out, "%.1f", figure);
}

static void write_row(FILE *out, const struct row *rows, size_t count, const struct row *row) {
    fprintf(out, "{\"loop\":\"%s\",\"bytes\":%zu,\"threads\":%d,\"record_use\":%s", row->name, row->loop.bytes,
            row->loop.threads, row->loop.kind == LOOP_USES ? "true" : "false");
    for (int subject = 0; subject < SUBJECT_COUNT; subject++) {
        put_figure(out, subject_names[subject], "_ns", row->median[subject]);
        put_figure(out, subject_names[subject], "_fastest_ns", row->fastest[subject]);
    }
    put_figure(out, "recording_ns", "_per_call", row->recording_ns);
    const double ratio = ratio_of(rows, count, row);
    fprintf(out, ",\"ratio\":%.3f,\"goal\":%.3f,\"met\":%s", ratio, goal_of(row),
            ratio <= goal_of(row) ? "true" : "false");
    const double of_torch = row->median[WEIR] / row->median[TORCH];
    if (isnan(of_torch))
        fputs(",\"torch_ratio\":null,\"torch_goal\":0.2,\"torch_met\":null}", out);
    else
        fprintf(out, ",\"torch_ratio\":%.3f,\"torch_goal\":%.3f,\"torch_met\":%s}", of_torch, GOAL_TORCH,
                of_torch <= GOAL_TORCH ? "true" : "false");
}

static void write_rows(FILE *out, const struct row *rows, size_t count, bool mix) {
    bool first = true;
    for (size_t i = 0; i < count; i++) {
        if ((rows[i].loop.kind == LOOP_MIX) != mix) continue;
        fputs(first ? "\n " : ",\n ", out);
        write_row(out, rows, count, &rows[i]);
        first = false;
    }
}

/* Of each peer without figures, why. The reason may hold the loader's words. */
static void write_missing(FILE *out, const struct peer peers[PEERS]) {
    const char *comma = "";
    fputs("\"missing\":{", out);
    for (int i = 0; i < PEERS; i++) {
        if (peers[i].process != 0) continue;
        fprintf(out, "%s\"%s\":", comma, subject_names[FIRST_PEER + i]);
        page_json(peers[i].why, out);
        comma = ",";
    }
    fputs("}", out);
}

/* Of each peer that tells it. */
static void write_versions(FILE *out, const struct peer peers[PEERS]) {
    const char *comma = "";
    fputs(",\"versions\":{", out);
    for (int i = 0; i < PEERS; i++) {
        if (peers[i].version[0] == 0) continue;
        fprintf(out, "%s\"%s\":", comma, subject_names[FIRST_PEER + i]);
        page_json(peers[i].version, out);
        comma = ",";
    }
    fputs("}", out);
}

bool report_write(const char *path, const struct row *rows, size_t count, const struct peer peers[PEERS]) {
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        perror(path);
        return false;
    }
    const double one = over_rows(rows, count, 1, MUTEX), two = over_rows(rows, count, 2, MUTEX);
    fprintf(out, "{\"mutex_ns\":%.1f,\"mutex_two_threads_ns\":%.1f,\"device\":\"emulated\",", one, two);
    write_missing(out, peers);
    write_versions(out, peers);
    fputs(",\"pairs\":[", out);
    write_rows(out, rows, count, false);
    fputs("],\"mix\":[", out);
    write_rows(out, rows, count, true);
    fprintf(out, "],\"recording_ns_per_call\":%.1f}\n", recording_of(rows, count));
    const bool written = !ferror(out);
    if (fclose(out) == 0 && written) return true;
    perror(path);
    return false;
}
