/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time in bounded room: the samples in the order in which they were taken are cut into at most 2,000 buckets,
 * each keeps the one with the most live and idle bytes, and when the run outgrows them two neighbours become one. (Not by
 * time: a host that runs ahead asks for most of a step's memory in a moment.) Threads: one. */
#ifndef WEIR_TRAINER_TIMELINE_H
#define WEIR_TRAINER_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIMELINE_SAMPLES = 2000, TIMELINE_STREAMS = 16 };

struct sample {
    int64_t ns; /* since the timeline's begin; -1: an empty bucket */
    int64_t step;
    size_t live[TIMELINE_STREAMS], idle[TIMELINE_STREAMS];
};

struct timeline {
    int64_t added;          /* samples so far */
    int64_t bucket;         /* samples in one bucket */
    struct sample *buckets; /* (TIMELINE_SAMPLES) */
};

bool timeline_open(struct timeline *timeline);
void timeline_close(struct timeline *timeline);
void timeline_add(struct timeline *timeline, const struct sample *sample);

#endif
