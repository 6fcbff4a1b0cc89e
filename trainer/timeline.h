/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time in bounded room: time is cut into at most 2,000 buckets, each keeps the sample with the most live and
 * idle bytes, and when the run outgrows them two neighbours become one. Threads: one. */
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
    int64_t bucket_ns;
    struct sample *buckets; /* (TIMELINE_SAMPLES) */
};

bool timeline_open(struct timeline *timeline);
void timeline_close(struct timeline *timeline);
void timeline_add(struct timeline *timeline, const struct sample *sample);

#endif
