/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/timeline.h"

#include <assert.h>
#include <stdlib.h>

bool timeline_open(struct timeline *t) {
    t->added = 0;
    t->bucket = 1;
    t->buckets = malloc(TIMELINE_SAMPLES * sizeof *t->buckets);
    for (int i = 0; t->buckets && i < TIMELINE_SAMPLES; i++) t->buckets[i].ns = -1;
    return t->buckets;
}

void timeline_close(struct timeline *t) {
    free(t->buckets);
    t->buckets = NULL;
}

static size_t fullness(const struct sample *s) {
    size_t bytes = 0;
    for (int i = 0; s->ns >= 0 && i < TIMELINE_STREAMS; i++) bytes += s->live[i] + s->idle[i];
    return bytes;
}

static const struct sample *fuller(const struct sample *a, const struct sample *b) {
    if (a->ns < 0 || b->ns < 0) return a->ns < 0 ? b : a;
    return fullness(b) > fullness(a) ? b : a;
}

static void halve(struct timeline *t) {
    t->bucket *= 2;
    for (int i = 0; i < TIMELINE_SAMPLES / 2; i++) t->buckets[i] = *fuller(&t->buckets[2 * i], &t->buckets[2 * i + 1]);
    for (int i = TIMELINE_SAMPLES / 2; i < TIMELINE_SAMPLES; i++) t->buckets[i].ns = -1;
}

void timeline_add(struct timeline *t, const struct sample *sample) {
    assert(sample->ns >= 0);
    if (t->added / t->bucket >= TIMELINE_SAMPLES) halve(t);
    struct sample *bucket = &t->buckets[t->added++ / t->bucket];
    *bucket = *fuller(bucket, sample);
}
