/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of several rounds, or of several traces. NaN: not known, left out. Infinity: known to be beyond all (no device is
 * large enough), and counted as such. */
#ifndef WEIR_BENCH_FIGURES_H
#define WEIR_BENCH_FIGURES_H

#include <stddef.h>

/* Each is NaN where no figure is known. The median of an even number is the mean of the middle two. */
double figures_median(const double *values, size_t count);
double figures_least(const double *values, size_t count);
double figures_most(const double *values, size_t count);

/* How many are known, and how many of those are at most `goal`. */
size_t figures_known(const double *values, size_t count);
size_t figures_within(const double *values, size_t count, double goal);

#endif
