/* SPDX-License-Identifier: Apache-2.0 */
#include "histogram.h"

#include <stddef.h>

/* Below HISTOGRAM_PARTS each time has a bucket; above, each power of two has HISTOGRAM_PARTS. */
static size_t bucket_of(uint64_t ns) {
    if (ns < HISTOGRAM_PARTS) return (size_t)ns;
    const unsigned power = 63 - (unsigned)__builtin_clzll(ns); /* from 4 */
    return (power - 3) * HISTOGRAM_PARTS + (size_t)((ns >> (power - 4)) - HISTOGRAM_PARTS);
}

static uint64_t end_of(size_t bucket) {
    if (bucket < HISTOGRAM_PARTS) return bucket;
    const unsigned shift = (unsigned)(bucket / HISTOGRAM_PARTS) - 1;
    return ((uint64_t)(bucket % HISTOGRAM_PARTS + HISTOGRAM_PARTS + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t ns) {
    histogram->counts[bucket_of(ns)]++;
    histogram->count++;
    if (ns > histogram->most_ns) histogram->most_ns = ns;
}

void histogram_join(struct histogram *histogram, const struct histogram *other) {
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) histogram->counts[i] += other->counts[i];
    histogram->count += other->count;
    if (other->most_ns > histogram->most_ns) histogram->most_ns = other->most_ns;
}

uint64_t histogram_share(const struct histogram *histogram, double share) {
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen > 0 && (double)seen >= share * (double)histogram->count)
            return end_of(i) < histogram->most_ns ? end_of(i) : histogram->most_ns;
    }
    return 0;
}
