/* SPDX-License-Identifier: Apache-2.0 */
/* weir-bench-report: allocators beside each other, as figures (JSON) and as a page made from them. All that the page
 * shows is in the figures, so that a page can be made again from a file of them.
 *
 * report   the figures: what was measured, on what, and sums over it ("summary"); docs/bench.md lists its keys
 * device   a size that a trace is replayed on, as a multiple of the peak of the trace's live bytes */
#ifndef WEIR_BENCH_REPORT_H
#define WEIR_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define REPORT_MARK "weir-bench 1" /* the key "report" of every report */

/* ---- allocators (report_allocators.c) ---------------------------------------------------------------------------- */

enum report_peer { REPORT_OWN, REPORT_TORCH, REPORT_RMM, REPORT_HOST }; /* where its code comes from */
enum { REPORT_LIBRARIES = 2 };                               /* of PyTorch and of RMM, from REPORT_TORCH on */
extern const char *const report_libraries[REPORT_LIBRARIES]; /* "torch", "rmm" */

struct report_allocator {
    const char *key; /* as weir-bench-pool names it too */
    const char *name, *what;
    enum report_peer peer;
    const char *policy;      /* weir-replay's; NULL: a peer */
    const char *set, *value; /* what its environment says; NULL: nothing */
    bool uses;               /* it has a call for uses on other streams */
    bool whole;              /* it is given the whole device at its start: what it holds says nothing */
};

extern const struct report_allocator report_allocators[];
extern const size_t report_allocator_count;

/* Its place in the list, which is its colour too; report_allocator_count: it is not there. */
size_t report_place(const char *key);

/* ---- runs (report_runs.c) ---------------------------------------------------------------------------------------- */

struct report_trace {
    const char *name, *path;
};

struct report_library {
    const char *path;    /* NULL: it can't be run, */
    const char *version; /* or why not */
};

struct report_plan {
    const struct report_trace *traces;
    size_t trace_count;
    struct report_library libraries[REPORT_LIBRARIES];
    const char *profile; /* a machine's name or a file; NULL: weir-replay's own choice */
    unsigned jobs;
    bool quick; /* few devices, and smallest ones by bisecting alone */
};

/* Replays the traces through the allocators: adds "traces" and "device" to the report, the commands, and to the
 * allocators what kept one from all of them. A trace that no allocator can be given is left out, which is said on standard
 * error. False, said there too: none is left, or no weir-replay can be called. `scratch`: where files of a moment may lie, and
 * the beginning of their names. */
bool report_run(const struct report_plan *plan, const char *scratch, json_t *report);

/* ---- figures (report_figures.c) ---------------------------------------------------------------------------------- */

double report_number(const json_t *object, const char *key);    /* NaN: it is none */
const char *report_text(const json_t *object, const char *key); /* "": it is none */
/* The entry of a list that has this value under the key; NULL: none has. */
const json_t *report_entry(const json_t *list, const char *key, const char *value);
json_t *report_real(double value); /* null for what is not finite */

/* Whether a report is as one is written: each value there, and of its kind. False: *why names it. (report_check.c) */
bool report_check(const json_t *report, char *why, size_t room);
/* What weir-bench-pool has written becomes "cpu", and of the allocators "cpu_missing" and versions. */
void report_add_cpu(const json_t *pool, json_t *report);
/* "summary": for each allocator that has figures, medians over traces and loops, and ratios to weir. */
void report_sum(json_t *report);
/* Whether any allocator of that origin has figures of traces, or of host time; after report_sum. */
bool report_has(const json_t *report, enum report_peer peer, bool replayed);

/* ---- the page (report_page.c, report_curves.c, report_bars.c) ---------------------------------------------------- */

void report_page(const json_t *report, FILE *out);
void report_curves(const json_t *trace, size_t index, FILE *out);
void report_bars(const json_t *loop, const json_t *allocators, FILE *out);
const char *report_name(const char *key); /* of an allocator; the key itself where it is not in the list */
size_t report_colour(const char *key);    /* 0 to 7 */

#endif
