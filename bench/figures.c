/* SPDX-License-Identifier: Apache-2.0 */
#include "figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* NaN, which is neither, comes last. */
static int by_value(const void *a, const void *b) {
    const double one = *(const double *)a, other = *(const double *)b;
    if (isnan(one) || isnan(other)) return !!isnan(one) - !!isnan(other);
    return (one > other) - (one < other);
}

size_t figures_known(const double *values, size_t count) {
    size_t known = 0;
    for (size_t i = 0; i < count; i++) known += isnan(values[i]) ? 0 : 1;
    return known;
}

size_t figures_within(const double *values, size_t count, double goal) {
    size_t within = 0;
    for (size_t i = 0; i < count; i++) within += values[i] <= goal;
    return within;
}

double figures_median(const double *values, size_t count) {
    const size_t known = figures_known(values, count);
    double *sorted = known > 0 ? malloc(count * sizeof *sorted) : NULL;
    if (sorted == NULL) return (double)NAN;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    const double low = sorted[(known - 1) / 2], high = sorted[known / 2];
    free(sorted);
    return isinf(high) ? high : low + (high - low) / 2;
}

double figures_least(const double *values, size_t count) {
    double least = (double)NAN;
    for (size_t i = 0; i < count; i++) least = fmin(least, values[i]);
    return least;
}

double figures_most(const double *values, size_t count) {
    double most = (double)NAN;
    for (size_t i = 0; i < count; i++) most = fmax(most, values[i]);
    return most;
}
