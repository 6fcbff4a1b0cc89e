/* SPDX-License-Identifier: Apache-2.0 */
/* Finding capacities: many runs of one trace, each made once.
 *
 * Words. point: a capacity in pages with the run on it. good: completed, and at most `honest` slower than with the
 * free allocator. plenty: a device on which the target takes all that it wants. edge: two capacities, the larger of
 * which does and the smaller of which does not, closer together than 0.2 % of the peak or one page.
 *
 * The answers depend on the runs alone, not on how many are made at a time. */
#ifndef WEIR_REPLAY_SEARCH_H
#define WEIR_REPLAY_SEARCH_H

#include "options.h"
#include "run.h"

typedef bool run_function(const struct setup *setups, size_t count, unsigned jobs, struct outcome *outcomes, char *why,
                          size_t room); /* run_many, or a test's */

#define SEARCH_MOST_TIMES 8 /* the peak of live bytes: plenty, unless that is more than SEARCH_MOST_BYTES */
#define SEARCH_MOST_BYTES (UINT64_C(1) << 40)

struct search {
    struct setup setup; /* of every run, but for capacity and target */
    run_function *run;
    unsigned jobs;
    size_t page_bytes;
    bool coarse;   /* set after search_begin: search_find bisects and does not look above what it finds */
    char why[512]; /* after false: one sentence */

    struct search_point **points; /* all runs so far */
    size_t count, room;
    size_t plenty_pages, roomy_pages; /* 0: not known. From roomy_pages on runs are the one on plenty_pages */
    size_t failed_runs;               /* that ended ENDED_FAILED */
};

void search_begin(struct search *search, const struct setup *setup, run_function *run, unsigned jobs,
                  size_t page_bytes);
void search_end(struct search *search);

/* A multiple of the peak of live bytes in whole pages, rounded up; at least one. And bytes, rounded down, at least
 * one. */
size_t search_pages_of_ratio(const struct search *search, uint64_t millionths);
size_t search_pages_of_bytes(const struct search *search, size_t bytes);

/* Makes those of these runs that have not been made. TARGET_FREE has no capacity: give 1. */
struct search_wanted {
    enum target_kind target;
    size_t pages;
};
bool search_make(struct search *search, const struct search_wanted *wanted, size_t count);
/* NULL when that run has not been made. */
const struct outcome *search_outcome(const struct search *search, enum target_kind target, size_t pages);
/* Whether runs have times that can be compared: there are work and a clock. */
bool search_is_timed(const struct search *search);
/* How much slower than with the free allocator, as a fraction; NaN where it is not known: not timed, not completed, no
 * run with the free allocator; and for NULL. */
double search_slowdown(const struct search *search, const struct outcome *outcome);

struct found {
    size_t min_pages;    /* 0: not asked, or none found */
    size_t honest_pages; /* the same */
    size_t *fails_above; /* capacities above min_pages that were tried and failed, ascending */
    size_t *completes_below;
    size_t fails_above_count, completes_below_count;
};

/* The smallest sufficient device (`scan`), and the smallest honest one where `honest` millionths are not 0.
 *
 * Smallest: bisected between the peak of live bytes and what the target holds when it has plenty; one edge of those
 * that there may be. Then the next 8 pages, devices in steps of 1 % up to 10 % above it, and those of the honest grid are
 * tried.
 * Honest: the smallest of 1, 1.01, 1.02, 1.03, 1.05, 1.075, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.75, 2, 2.5 and 3
 * times the peak from which it and all larger ones are good, then bisected down towards the next smaller one; then the
 * next 8 pages and the steps of 1 % above it. Where one of all that were tried is not good, from there on again, at most
 * three times. It is the smallest tried of which every larger tried one is good, and not below the smallest sufficient. */
bool search_find(struct search *search, bool scan, uint64_t honest, struct found *found);
void search_found_free(struct found *found);

#endif
