/* SPDX-License-Identifier: Apache-2.0 */
/* What is answered: as JSON, and in words. */
#ifndef WEIR_REPLAY_ANSWER_H
#define WEIR_REPLAY_ANSWER_H

#include "search.h"

struct answer {
    const struct options *options;
    const struct trace *trace;
    const struct search *search; /* has the runs of all that is told of, and the free allocator's and the fluid bound's
                                    where times are known */
    const char *profile;
    size_t profile_bytes; /* the memory of its machine */
    size_t pages;         /* of the device that the answer is about */
    const struct outcome *outcome;
    struct found found;
    const size_t *curve; /* pages */
    size_t curve_count;
};

/* A capacity over the peak of live bytes; NaN for 0 pages, which is none, and where nothing is live. */
double answer_ratio(const struct answer *answer, size_t pages);
/* As fractions; NaN where they are not known. */
double answer_slowdown(const struct answer *answer, const struct outcome *outcome);
double answer_fluid_slowdown(const struct answer *answer, size_t pages);

void answer_json(const struct answer *answer, FILE *out);
void answer_words(const struct answer *answer, FILE *out);

#endif
