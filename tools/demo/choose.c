/* SPDX-License-Identifier: Apache-2.0 */
/* Which batch to try next. A run at full size costs a large part of a minute, so the estimate does most of the work. */
#include "tools/demo/demo.h"

#include <assert.h>
#include <math.h>

static int64_t clamp(double value, int64_t least, int64_t most) {
    if (!(value > (double)least)) return least;
    return value >= (double)most ? most : (int64_t)value;
}

/* Where the line through both peaks meets the capacity; live bytes grow with the rows of the batch. */
static double estimate(const struct choose *choose) {
    double rows = (double)(choose->large.batch - choose->small.batch);
    double slope = ((double)choose->large.peak_bytes - (double)choose->small.peak_bytes) / rows;
    double left = (double)choose->capacity_bytes - (double)choose->small.peak_bytes;
    if (slope <= 0.0) return left >= 0.0 ? (double)INFINITY : 0.0;
    return floor((double)choose->small.batch + left / slope);
}

int64_t choose_next(const struct choose *choose) {
    assert(choose->small.batch < choose->large.batch && choose->base_batch >= 1);
    int64_t low = choose->base_batch, high = choose->most_batch + 1;
    for (size_t i = 0; i < choose->tries; i++) {
        int64_t batch = choose->tried[i].batch;
        if (choose->tried[i].fits && batch > low) low = batch;
        if (!choose->tried[i].fits && batch < high) high = batch;
    }
    if (high - low <= 1 || choose->tries == CHOOSE_TRIES_MOST) return 0;
    if (choose->tries == 0) return clamp(estimate(choose), low + 1, high - 1);
    bool fit_known = low > choose->base_batch, failure_known = high <= choose->most_batch;
    int64_t stride = (int64_t)1 << (choose->tries - 1);
    if (fit_known && failure_known) return low + (high - low) / 2;
    if (fit_known) return low + stride < high ? low + stride : high - 1;
    if (choose->tries == CHOOSE_TRIES_MOST - 1) return low + 1; /* any larger batch is better than none */
    return high - stride > low ? high - stride : low + 1;
}

void choose_note(struct choose *choose, int64_t batch, bool fits) {
    assert(choose->tries < CHOOSE_TRIES_MOST);
    choose->tried[choose->tries].batch = batch;
    choose->tried[choose->tries].fits = fits;
    choose->tries++;
}

int64_t choose_best(const struct choose *choose) {
    int64_t best = 0;
    for (size_t i = 0; i < choose->tries; i++)
        if (choose->tried[i].fits && choose->tried[i].batch > best) best = choose->tried[i].batch;
    return best;
}
