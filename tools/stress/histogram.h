/* SPDX-License-Identifier: Apache-2.0 */
/* Times of calls, in buckets of a sixteenth of their size or less. */
#ifndef WEIR_STRESS_HISTOGRAM_H
#define WEIR_STRESS_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_PARTS = 16, HISTOGRAM_BUCKETS = 61 * HISTOGRAM_PARTS };

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS], count, most_ns;
};

void histogram_add(struct histogram *histogram, uint64_t ns);
void histogram_join(struct histogram *histogram, const struct histogram *other);
/* Gives: a time that at least `share` of the calls did not exceed, at most a sixteenth above the smallest such; 0 without
 * calls. */
uint64_t histogram_share(const struct histogram *histogram, double share);

#endif
