/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const queue_names[QUEUES] = {"compute", "gather", "reduce", "exchange", "to_host", "to_device"};

enum weir_status streams_open(struct streams *s, struct weir_device *device, struct weir_pool *pool) {
    memset(s, 0, sizeof *s);
    s->device = device;
    s->pool = pool;
    for (int i = 0; i < QUEUES; i++) {
        TRY(weir_stream_create(device, &s->stream[i]));
        TRY(weir_event_create(device, false, &s->reached[i]));
        weir_pool_name_stream(pool, s->stream[i], queue_names[i]);
    }
    return WEIR_OK;
}

void streams_close(struct streams *s) {
    for (int i = 0; i < s->spans_made; i++) {
        weir_event_destroy(s->device, s->span[i].begin);
        weir_event_destroy(s->device, s->span[i].end);
    }
    free(s->span);
    for (int i = 0; i < QUEUES; i++) {
        if (s->reached[i]) weir_event_destroy(s->device, s->reached[i]);
        if (s->stream[i]) weir_stream_destroy(s->device, s->stream[i]);
    }
    memset(s, 0, sizeof *s);
}

enum weir_status block_alloc(struct streams *s, enum queue queue, size_t bytes, void **out) {
    enum weir_status status = weir_pool_alloc(s->pool, bytes, s->stream[queue], out);
    if (s->report) report_sample(s->report, s->step);
    if (s->soil && status == WEIR_OK && bytes > 0) return weir_set(s->device, *out, 0xff, bytes, s->stream[queue]);
    return status;
}

enum weir_status block_free(struct streams *s, enum queue queue, void *block) {
    return weir_pool_free(s->pool, block, s->stream[queue]);
}

/* ---- waits ------------------------------------------------------------------------------------------------------ */

enum weir_status streams_wait(struct streams *s, const char *site, enum queue follower, weir_event event) {
    return weir__mutated(site) ? WEIR_OK : weir_stream_wait(s->device, s->stream[follower], event);
}

enum weir_status streams_follow(struct streams *s, const char *site, enum queue follower, enum queue leader) {
    TRY(weir_event_record(s->device, s->reached[leader], s->stream[leader]));
    return streams_wait(s, site, follower, s->reached[leader]);
}

enum weir_status streams_await_event(struct streams *s, const char *site, enum cause cause, weir_event event) {
    TRY(span_begin(s, cause));
    TRY(streams_wait(s, site, COMPUTE, event));
    return span_end(s);
}

enum weir_status streams_await(struct streams *s, const char *site, enum cause cause, enum queue leader) {
    TRY(weir_event_record(s->device, s->reached[leader], s->stream[leader]));
    return streams_await_event(s, site, cause, s->reached[leader]);
}

enum weir_status streams_synchronize(struct streams *s, const char *site, enum queue queue) {
    return weir__mutated(site) ? WEIR_OK : weir_stream_synchronize(s->device, s->stream[queue]);
}

/* ---- spans ------------------------------------------------------------------------------------------------------ */

/* Spans are made as a step needs them and used again in the next one. */
static enum weir_status span_make(struct streams *s) {
    if (s->spans_made == s->spans_room) {
        int room = s->spans_room ? 2 * s->spans_room : 64;
        struct span *more = realloc(s->span, (size_t)room * sizeof *more);
        if (!more) return WEIR_OUT_OF_HOST_MEMORY;
        s->span = more;
        s->spans_room = room;
    }
    struct span *span = &s->span[s->spans_made];
    TRY(weir_event_create(s->device, true, &span->begin));
    enum weir_status status = weir_event_create(s->device, true, &span->end);
    if (status != WEIR_OK) {
        weir_event_destroy(s->device, span->begin);
        return status;
    }
    s->spans_made++;
    return WEIR_OK;
}

enum weir_status span_begin(struct streams *s, enum cause cause) {
    if (s->spans == s->spans_made) TRY(span_make(s));
    struct span *span = &s->span[s->spans];
    span->cause = cause;
    return weir_event_record(s->device, span->begin, s->stream[COMPUTE]);
}

enum weir_status span_end(struct streams *s) {
    assert(s->spans < s->spans_made);
    return weir_event_record(s->device, s->span[s->spans++].end, s->stream[COMPUTE]);
}

enum weir_status streams_spent(struct streams *s, double ms[CAUSES]) {
    memset(ms, 0, CAUSES * sizeof *ms);
    for (int i = 0; i < s->spans; i++) {
        float elapsed = 0;
        if (!weir__mutated("train.times"))
            TRY(weir_event_elapsed(s->device, s->span[i].begin, s->span[i].end, &elapsed));
        ms[s->span[i].cause] += (double)elapsed;
    }
    s->spans = 0;
    return WEIR_OK;
}
