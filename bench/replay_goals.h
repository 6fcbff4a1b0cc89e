/* SPDX-License-Identifier: Apache-2.0 */
/* What weir's own policy is to reach on a trace, by the trace's family and the law of what memory calls cost. Capacities
 * are multiples of the peak of live bytes, slowdowns fractions. Infinity: it did not complete, or no device is large enough,
 * which misses every goal; NaN: not measured. */
#ifndef WEIR_BENCH_REPLAY_GOALS_H
#define WEIR_BENCH_REPLAY_GOALS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/trace/trace.h"

enum { LAW_PAGE, LAW_HANDLE, LAW_RANGE, LAWS };
enum { GOAL_POINTS = 4 };
extern const char *const law_names[LAWS];         /* page, handle, range */
extern const double goal_capacities[GOAL_POINTS]; /* at which slowdowns are judged */

enum family { FAMILY_MOE, FAMILY_DENSE, FAMILY_OTHER, FAMILIES };
extern const char *const family_names[FAMILIES];

/* Whether all passes from the second to the last but one ask for the same: two at least. A pass begins at an `i`; the first makes
 * what lasts, and the last gives it back. */
bool goal_trace_repeats(const struct trace *trace);
/* The pass, from 1 on, which is the third of the same in a trace that repeats. */
size_t goal_third_of_the_same(const struct trace *trace);
/* NAME may have its group before a '/'. Dense: not moe-*, and it repeats. */
enum family goal_family(const char *name, bool repeats);

/* A goal is met by at most `at_most`, or at most so many bytes above live; one of 0 by less than 0.005 %. */
struct goal {
    double at_most;
    double or_bytes; /* 0: no such way out */
};
#define GOAL_ZERO 0.00005

/* law: 0 to LAWS - 1, of law_names. */
struct goal goal_of_slowdown(enum family family, size_t law, size_t point);
struct goal goal_of_honest(enum family family, size_t law);
struct goal goal_of_smallest(void);
bool goal_met(struct goal goal, double value, double peak_bytes);

#endif
