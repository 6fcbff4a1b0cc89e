/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

const char *const gen_stream_names[GEN_STREAMS] = {
    "compute", "allgather-copyin", "allgather", "reduce-scatter", "ep-comm", "d2h", "h2d"};

static void no_room(void) {
    fprintf(stderr, "weir-trace gen: out of memory\n");
    exit(1);
}

void *gen_room(size_t count, size_t bytes) {
    void *room = calloc(count, bytes);
    if (room == NULL) no_room();
    return room;
}

void gen_writer_open(struct gen_writer *out, struct trace_writer *trace) { *out = (struct gen_writer){.trace = trace}; }

void gen_writer_close(struct gen_writer *out) {
    free(out->slots);
    out->slots = NULL;
}

bool gen_stopped(const struct gen_writer *out) { return out->stopped[0] != '\0'; }

static void __attribute__((format(printf, 2, 3))) violation(struct gen_writer *out, const char *format, ...) {
    char sentence[256];
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(sentence, sizeof sentence, "operation %" PRId64 ": ", out->operations);
    vsnprintf(sentence + length, sizeof sentence - (size_t)length, format, arguments);
    va_end(arguments);
    if (out->violated != NULL) {
        out->violated(sentence);
        return;
    }
    fprintf(stderr, "weir-trace gen: a bug of the generator: %s\n", sentence);
    abort();
}

/* Counts one operation. False when it is past the limit: it is not written then. */
static bool counted(struct gen_writer *out) {
    if (gen_stopped(out)) return false;
    if (out->operations == GEN_MOST_OPERATIONS) {
        snprintf(out->stopped, sizeof out->stopped,
                 "the trace would have more than %" PRId64 " operations; fewer iters, layers or accum make it shorter",
                 GEN_MOST_OPERATIONS);
        return false;
    }
    out->operations++;
    return out->trace != NULL;
}

static void merge(struct gen_clock *into, const struct gen_clock *from) {
    for (int s = 0; s < GEN_STREAMS; s++)
        if (from->done[s] > into->done[s]) into->done[s] = from->done[s];
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static uint32_t slot_take(struct gen_writer *out) {
    if (out->first_free != 0) {
        uint32_t slot = out->first_free - 1;
        out->first_free = out->slots[slot].next_free;
        return slot;
    }
    if (out->slot_count == out->slot_room) {
        out->slot_room = out->slot_room == 0 ? 4096 : out->slot_room * 2;
        out->slots = realloc(out->slots, out->slot_room * sizeof *out->slots);
        if (out->slots == NULL) no_room();
    }
    return out->slot_count++;
}

/* NULL, after a violation, when the buffer is not live. */
static struct gen_slot *slot_of(struct gen_writer *out, struct buf buf, const char *act) {
    struct gen_slot *slot = &out->slots[buf.slot];
    if (slot->id == buf.id) return slot;
    violation(out, "buffer %" PRIu64 " is %s after it was freed", buf.id, act);
    return NULL;
}

struct buf gen_alloc(struct gen_writer *out, int64_t bytes, enum gen_stream stream) {
    if (bytes < 1 || gen_stopped(out)) bytes = 1;
    merge(&out->clock[stream], &out->host);
    uint32_t at = slot_take(out);
    out->slots[at] = (struct gen_slot){
        .id = ++out->last_buf, .bytes = bytes, .born = out->clock[stream].done[stream], .stream = stream};
    out->live_bytes += bytes;
    if (__builtin_add_overflow(out->total_bytes, bytes, &out->total_bytes)) out->total_bytes = INT64_MAX;
    if (out->live_bytes > out->peak_live_bytes) out->peak_live_bytes = out->live_bytes;
    if (out->live_bytes > (int64_t)TRACE_MOST_BYTES && !gen_stopped(out))
        snprintf(out->stopped, sizeof out->stopped,
                 "more than %" PRIu64 " bytes would be live at once; smaller sizes are needed", TRACE_MOST_BYTES);
    if (counted(out)) trace_put_alloc(out->trace, out->last_buf, (uint64_t)bytes, stream);
    return (struct buf){out->last_buf, bytes, at};
}

static void free_one(struct gen_writer *out, struct buf buf) {
    struct gen_slot *slot = buf.id == 0 ? NULL : slot_of(out, buf, "freed again");
    if (slot == NULL) return;
    struct gen_clock *owed = &out->owed[slot->stream];
    for (enum gen_stream s = 0; s < GEN_STREAMS; s++)
        if (s != slot->stream && !(slot->noted & 1U << s) && slot->used[s] > owed->done[s])
            owed->done[s] = slot->used[s];
    out->live_bytes -= slot->bytes;
    slot->id = 0;
    slot->next_free = out->first_free;
    out->first_free = buf.slot + 1;
    if (counted(out)) trace_put_free(out->trace, buf.id);
}

void gen_free(struct gen_writer *out, const struct buf *bufs, size_t count) {
    for (size_t i = 0; i < count; i++) free_one(out, bufs[i]);
}

static int by_id(const void *one, const void *other) {
    uint64_t a = ((const struct buf *)one)->id, b = ((const struct buf *)other)->id;
    return (a > b) - (a < b);
}

void gen_free_everything(struct gen_writer *out) {
    struct buf *live = gen_room(out->slot_count + 1, sizeof *live);
    size_t count = 0;
    for (uint32_t i = 0; i < out->slot_count; i++)
        if (out->slots[i].id != 0) live[count++] = (struct buf){out->slots[i].id, out->slots[i].bytes, i};
    qsort(live, count, sizeof *live, by_id);
    gen_free(out, live, count);
    free(live);
}

void gen_note(struct gen_writer *out, struct buf buf, enum gen_stream stream) {
    struct gen_slot *slot = buf.id == 0 ? NULL : slot_of(out, buf, "noted");
    if (slot == NULL) return;
    slot->noted |= 1U << stream;
    if (counted(out)) trace_put_use(out->trace, buf.id, stream);
}

/* ---- work and order ---------------------------------------------------------------------------------------------- */

/* What was freed on `stream` may be given out there from now on. */
static void settle(struct gen_writer *out, enum gen_stream stream) {
    for (int s = 0; s < GEN_STREAMS; s++)
        if (out->clock[stream].done[s] < out->owed[stream].done[s])
            violation(out, "%s goes on after a free, though %s may still use what was freed", gen_stream_names[stream],
                      gen_stream_names[s]);
    out->owed[stream] = (struct gen_clock){0};
}

void gen_work(struct gen_writer *out, enum gen_stream stream, double us) {
    merge(&out->clock[stream], &out->host);
    settle(out, stream);
    out->clock[stream].done[stream]++;
    if (counted(out)) trace_put_work(out->trace, stream, us > 1.0 ? us : 1.0);
}

void gen_uses(struct gen_writer *out, enum gen_stream stream, const struct buf *bufs, size_t count) {
    const struct gen_clock *now = &out->clock[stream];
    for (size_t i = 0; i < count; i++) {
        struct gen_slot *slot = bufs[i].id == 0 ? NULL : slot_of(out, bufs[i], "used");
        if (slot == NULL) continue;
        if (stream != slot->stream && now->done[slot->stream] < slot->born)
            violation(out, "nothing orders the use of buffer %" PRIu64 " on %s after its allocation on %s", bufs[i].id,
                      gen_stream_names[stream], gen_stream_names[slot->stream]);
        slot->used[stream] = now->done[stream];
    }
}

struct gen_event gen_record(struct gen_writer *out, enum gen_stream stream) {
    merge(&out->clock[stream], &out->host);
    if (counted(out)) trace_put_record(out->trace, out->last_event + 1, stream);
    return (struct gen_event){++out->last_event, out->clock[stream]};
}

void gen_wait(struct gen_writer *out, const struct gen_event *event, enum gen_stream stream) {
    merge(&out->clock[stream], &event->clock);
    if (counted(out)) trace_put_wait(out->trace, event->id, stream);
}

void gen_after(struct gen_writer *out, enum gen_stream later, enum gen_stream earlier) {
    struct gen_event event = gen_record(out, earlier);
    gen_wait(out, &event, later);
}

void gen_sync(struct gen_writer *out, enum gen_stream stream) {
    merge(&out->clock[stream], &out->host);
    merge(&out->host, &out->clock[stream]);
    if (counted(out)) trace_put_sync_stream(out->trace, stream);
}

void gen_sync_device(struct gen_writer *out) {
    for (int s = 0; s < GEN_STREAMS; s++) merge(&out->host, &out->clock[s]);
    if (counted(out)) trace_put_sync_device(out->trace);
}

void gen_iteration(struct gen_writer *out) {
    if (counted(out)) trace_put_iteration(out->trace);
}
