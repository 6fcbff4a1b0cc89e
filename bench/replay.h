/* SPDX-License-Identifier: Apache-2.0 */
/* weir-bench-replay: traces, the calls of weir-replay made for them, and what is made of their answers. */
#ifndef WEIR_BENCH_REPLAY_H
#define WEIR_BENCH_REPLAY_H

#include <limits.h>
#include <sys/types.h>

#include <jansson.h>

#include "bench/replay_goals.h"

enum { MOST_TRACES = 256, MOST_ROWS = MOST_TRACES * (2 * LAWS + 1) };

struct subject {
    char name[64];
    const char *path;
    bool laws[LAWS]; /* all false: it has no work */
    bool blind;      /* weir is also measured without the program's events and waits */
    bool repeats;
    size_t steady_from; /* the pass after which nothing is left to learn, or the third */
    enum family family;
    double live_bytes;
    size_t operations;
};

/* One call of weir-replay. */
struct row {
    const struct subject *subject;
    const char *allocator; /* weir, per-stream */
    const char *law;       /* NULL: no clock */
    bool blind;
    const struct row *leader; /* whose answers it has if its curve is the same; NULL: it is asked all by itself */
    bool probes;              /* the next call asks for the curve alone */
    char json_path[PATH_MAX];
    pid_t process; /* while it runs */
    json_t *report;
};

struct results {
    const struct subject *subjects;
    size_t subject_count;
    const struct row *rows;
    size_t row_count;
};

size_t group_length(const struct subject *subject);
bool same_group(const struct subject *one, const struct subject *other);
/* law NULL: of any. NULL: there is none. */
const struct row *find_row(const struct results *results, const struct subject *subject, const char *allocator,
                           const char *law, bool blind);

/* The goals of weir's own policy (replay_report.c). The JSON is an array of what the table says. */
void put_goals(const struct results *results);
json_t *goals_json(const struct results *results);
/* Memory calls and host waits from the third pass on, of traces that repeat. */
void put_steady(const struct results *results);
json_t *steady_json(const struct results *results);

#endif
