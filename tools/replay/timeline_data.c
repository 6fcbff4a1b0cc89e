/* SPDX-License-Identifier: Apache-2.0 */
/* The page's data as JSON. What is much of is bytes in base64: requests one by one (timeline_inside.h says how they are
 * written), and bars. Before the first request that was kept there are columns, as arrays of numbers. */
#include <inttypes.h>

#include "timeline_inside.h"
#include "tools/page/page.h"

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

/* A string of base64 that is being written. */
struct base64 {
    FILE *out;
    uint32_t bits;
    unsigned count; /* bytes in `bits` */
};

static void put_group(struct base64 *base64) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t bits = base64->bits << 8 * (3 - base64->count);
    for (unsigned i = 0; i < 4; i++)
        putc_unlocked(i <= base64->count ? digits[bits >> (18 - 6 * i) & 63] : '=', base64->out);
    base64->bits = base64->count = 0;
}

static void put_byte(struct base64 *base64, uint8_t byte) {
    base64->bits = base64->bits << 8 | byte;
    if (++base64->count == 3) put_group(base64);
}

static void put_number(struct base64 *base64, uint64_t number) {
    for (; number > 127; number >>= 7) put_byte(base64, (uint8_t)(number | 128));
    put_byte(base64, (uint8_t)number);
}

static struct base64 begin_bytes(const char *key, FILE *out) {
    fprintf(out, "\"%s\":\"", key);
    return (struct base64){.out = out};
}

static void end_bytes(struct base64 *base64) {
    if (base64->count > 0) put_group(base64);
    putc_unlocked('"', base64->out);
}

/* ---- columns ---------------------------------------------------------------------------------------------------- */

/* An array of numbers, each as its difference to the one before. */
#define PUT_DELTAS(out, key, count, value)                                                                             \
    do {                                                                                                               \
        int64_t before = 0;                                                                                            \
        fprintf((out), "\"%s\":[", (key));                                                                             \
        for (uint32_t i = 0; i < (count); i++) {                                                                       \
            const int64_t now = (int64_t)(value);                                                                      \
            fprintf((out), "%s%" PRId64, i > 0 ? "," : "", now - before);                                              \
            before = now;                                                                                              \
        }                                                                                                              \
        fputs("],\n", (out));                                                                                          \
    } while (0)

/* Of the idle bytes of slots those that the page shows together: of streams with a colour, of all others. */
static unsigned layer_of(const struct timeline *timeline, const struct legend *legend, uint32_t slot) {
    unsigned layer = 0;
    while (layer < legend->coloured_count && timeline_slot(timeline, legend->coloured[layer]) != slot) layer++;
    return layer;
}

static uint64_t idle_in(const unsigned *layers, unsigned layer, const struct sample *column) {
    uint64_t sum = 0;
    for (uint32_t slot = 0; slot < TIMELINE_SLOTS; slot++)
        if (layers[slot] == layer) sum += column->idle[slot];
    return sum;
}

/* Those before the requests that are there one by one. */
static uint32_t columns_to_show(const struct timeline *timeline) {
    const struct requests *requests = &timeline->requests;
    uint32_t count = 0;
    if (requests->dropped == 0) return 0;
    while (count < timeline->column_count && timeline->columns[count].ns < requests->parts[0].begin_ns) count++;
    return count;
}

static void put_memory(const struct timeline *timeline, const struct legend *legend, const unsigned *layers,
                       uint32_t count, FILE *out) {
    const struct sample *columns = timeline->columns;
    PUT_DELTAS(out, "time", count, columns[i].ns);
    PUT_DELTAS(out, "live", count, columns[i].live / TIMELINE_UNIT);
    PUT_DELTAS(out, "held", count, columns[i].held / TIMELINE_UNIT);
    for (unsigned layer = 0; layer <= legend->coloured_count; layer++) {
        char key[32];
        snprintf(key, sizeof key, "idle%u", layer);
        PUT_DELTAS(out, key, count, idle_in(layers, layer, &columns[i]) / TIMELINE_UNIT);
    }
}

/* [column, memory calls, page moves, moved units, device waits, host waits, ns, stranded units], where there was any. */
static void put_counts(const struct timeline *timeline, uint32_t count, FILE *out) {
    const char *separator = "";
    fputs("\"counts\":[", out);
    for (uint32_t i = 0; i < count; i++) {
        const struct counts *did = &timeline->columns[i].counts;
        if (did->memory_calls + did->page_moves + did->device_waits + did->host_waits + did->stranded == 0) continue;
        fprintf(out, "%s[%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
                separator, i, did->memory_calls, did->page_moves, did->moved_bytes / TIMELINE_UNIT, did->device_waits,
                did->host_waits, did->host_wait_ns, did->stranded / TIMELINE_UNIT);
        separator = ",";
    }
    fputs("],\n", out);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void put_part(const struct kept *kept, FILE *out) {
    fprintf(out, "{\"count\":%u,\"live_bytes\":%" PRIu64 ",", kept->count, kept->live);
    struct base64 base64 = begin_bytes("bytes", out);
    for (uint32_t i = 0; i < kept->length; i++) put_byte(&base64, kept->bytes[i]);
    end_bytes(&base64);
    fputc('}', out);
}

static void put_requests(const struct timeline *timeline, FILE *out) {
    const struct requests *requests = &timeline->requests;
    fprintf(out, "\"dropped\":%" PRIu64 ",\"requests\":[", requests->dropped);
    for (unsigned i = 0; i < requests->part_count; i++) {
        if (i > 0) fputs(",\n", out);
        put_part(&requests->parts[i], out);
    }
    fputs("],\n", out);
}

/* What the bytes of requests speak of; and `idle`, the names of the layers but the last. */
static void put_streams(const struct run *run, const struct legend *legend, const unsigned *layers, FILE *out) {
    const struct timeline *timeline = run->timeline;
    char name[64];
    fputs("\"streams\":[", out);
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        fprintf(out, "%s{\"name\":", i > 0 ? ",\n" : "");
        page_json(timeline_row_name(run, i, name, sizeof name), out);
        fprintf(out, ",\"colour\":%d,\"slot\":%u}", legend->colour[i], timeline_slot(timeline, i));
    }
    fputs("],\n\"idle\":[", out);
    for (uint32_t i = 0; i < legend->coloured_count; i++) {
        if (i > 0) fputc(',', out);
        page_json(timeline_row_name(run, legend->coloured[i], name, sizeof name), out);
    }
    fputs("],\n\"layers\":[", out);
    for (uint32_t slot = 0; slot < TIMELINE_SLOTS; slot++) fprintf(out, "%s%u", slot > 0 ? "," : "", layers[slot]);
    fprintf(out, "],\n\"idle_known\":%s,\n", timeline->tells_idle ? "true" : "false");
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* A bar: the gap since the one before (negative where they overlap), signed as in requests, then << 1, and 1 if it is
 * not busy throughout; its length; and, if so, how much of it is busy. */
static void put_bar(struct base64 *base64, const struct bar *bar, uint64_t end) {
    const uint64_t length = bar->end - bar->start;
    const uint64_t gap = bar->start >= end ? 2 * (bar->start - end) : 2 * (end - bar->start) - 1;
    put_number(base64, gap << 1 | (bar->busy < length));
    put_number(base64, length);
    if (bar->busy < length) put_number(base64, bar->busy);
}

static void put_row(const struct run *run, const struct legend *legend, uint32_t number, FILE *out) {
    const struct row *row = &run->timeline->rows[number];
    char name[64];
    fputs("{\"name\":", out);
    page_json(timeline_row_name(run, number, name, sizeof name), out);
    fprintf(out, ",\"colour\":%d,\"host\":%s,\"busy_ns\":%" PRIu64 ",\"count\":%u,", legend->colour[number],
            number == run->trace->stream_count ? "true" : "false", row->busy_ns, row->count);
    struct base64 base64 = begin_bytes("bars", out);
    for (uint32_t i = 0; i < row->count; i++) put_bar(&base64, &row->bars[i], i > 0 ? row->bars[i - 1].end : 0);
    end_bytes(&base64);
    fputc('}', out);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static void put_ending(const struct run *run, const struct outcome *outcome, FILE *out) {
    const struct timeline *timeline = run->timeline;
    const bool failed = outcome->ending != ENDED_COMPLETED;
    fprintf(out, "\"end_ns\":%" PRIu64 ",\"capacity_bytes\":%" PRIu64 ",\"failed\":%s,\"failed_line\":%u,\n",
            timeline_end_ns(run, outcome), timeline_has_capacity(run) ? (uint64_t)run->device->capacity_bytes : 0,
            failed ? "true" : "false", outcome->failed_line);
    fprintf(out, "\"asked_bytes\":%" PRIu64 ",\"failed_ns\":%" PRIu64 ",\n",
            failed && timeline->last != NULL && timeline->last->kind <= OP_REFUSED ? timeline->last->bytes : 0,
            failed ? timeline->last_ns : 0);
}

void timeline_data(const struct run *run, const struct legend *legend, const struct outcome *outcome, FILE *out) {
    const struct timeline *timeline = run->timeline;
    const uint32_t columns = columns_to_show(timeline);
    unsigned layers[TIMELINE_SLOTS];
    for (uint32_t slot = 0; slot < TIMELINE_SLOTS; slot++) layers[slot] = layer_of(timeline, legend, slot);
    fputs("<script type=\"application/json\" id=\"run\">{\"format\":\"weir-timeline 2\",\n", out);
    put_ending(run, outcome, out);
    fprintf(out, "\"iterations_in_one\":%u,\"column_ns\":%" PRIu64 ",\n", timeline->iterations_in_one,
            timeline->column_ns);
    PUT_DELTAS(out, "iterations", timeline->iteration_count, timeline->iterations[i]);
    put_memory(timeline, legend, layers, columns, out);
    put_counts(timeline, columns, out);
    put_requests(timeline, out);
    put_streams(run, legend, layers, out);
    fputs("\"rows\":[", out);
    for (uint32_t i = 0; i < legend->shown_count; i++) {
        if (i > 0) fputs(",\n", out);
        put_row(run, legend, legend->shown[i], out);
    }
    fputs("]}</script>\n", out);
}
