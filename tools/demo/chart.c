/* SPDX-License-Identifier: Apache-2.0 */
/* A run's memory over time as a picture: stacked from below, live bytes by stream (solid), then idle bytes by stream
 * (hatched); the capacity as a line; a mark where a step starts; the request that was refused.
 *
 * column  a sample chosen for the picture: of those that fall together, the one with most live bytes
 * frame   what pictures of several runs share, so that they compare: a step is equally wide in all, heights and colours
 *         are the same
 *
 * Memory changes in steps, so a value holds until the next column.
 *
 * The drawing is stretched to its place, so it holds areas and lines only; words lie over it as page elements. */
#include "tools/demo/demo.h"
#include "tools/page/page.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 320 /* units of the drawing, a column each */
#define HIGH 1000

struct column {
    int x;
    const struct sample *sample;
};

static const struct timeline *timeline_of(const struct run *run) { return &run_subject(run)->timeline; }

static size_t live_of(const struct timeline *timeline, const struct sample *sample) {
    size_t live = 0;
    for (size_t s = 0; s < timeline->stream_count; s++) live += sample->bytes[2 * s];
    return live;
}

static void name_add(struct chart_frame *frame, const char *name) {
    for (size_t i = 0; i < frame->name_count; i++)
        if (strcmp(frame->names[i], name) == 0) return;
    bool full = frame->name_count == CHART_COLOURS;
    size_t place = full ? CHART_COLOURS - 1 : frame->name_count++;
    snprintf(frame->names[place], DEMO_NAME_ROOM, "%s", full ? "others" : name);
}

static bool had_memory(const struct timeline *timeline, size_t stream) {
    for (size_t i = 0; i < timeline->sample_count; i++)
        if (timeline->samples[i].bytes[2 * stream] + timeline->samples[i].bytes[2 * stream + 1] > 0) return true;
    return false;
}

static size_t larger(size_t one, size_t other) { return one > other ? one : other; }

static size_t held_of(const struct refusal *refusal) {
    return refusal->live_bytes + refusal->idle_asker_bytes + refusal->idle_others_bytes + refusal->moving_bytes +
           refusal->unmapped_bytes;
}

void chart_frame_make(struct chart_frame *frame, const struct run *const *runs, size_t count) {
    *frame = (struct chart_frame){0};
    size_t top = 1;
    for (size_t i = 0; i < count; i++) {
        const struct rank_figures *rank = run_subject(runs[i]);
        const struct timeline *timeline = &rank->timeline;
        top = larger(top, rank->capacity_bytes);
        if (rank->refused) top = larger(top, held_of(&rank->refusal) + rank->refusal.asked_bytes);
        frame->steps = fmax(frame->steps, (double)runs[i]->steps_asked);
        if (timeline->sample_count && timeline->samples[0].step < 1) frame->before = 0.25;
        for (size_t s = 0; s < timeline->stream_count; s++)
            if (had_memory(timeline, s)) name_add(frame, timeline->streams[s]);
    }
    frame->steps = fmax(frame->steps, 1.0) + frame->before;
    frame->top_bytes = top + top / 8;
}

/* ---- where things lie -------------------------------------------------------------------------------------------- */

/* Units from the left, at which a step starts (1: the first one). */
static double step_x(const struct chart_frame *frame, double step) {
    double steps = step < 1.0 ? frame->before * fmax(step, 0.0) : frame->before + step - 1.0;
    return fmin(steps / frame->steps, 1.0) * WIDE;
}

static double height(const struct chart_frame *frame, size_t bytes) {
    return fmax(HIGH - (double)bytes / (double)frame->top_bytes * HIGH, 0.0);
}

/* The samples of one step, and where they lie, evenly in the order of the requests: x = left + (i - first) * scale. */
struct span {
    size_t first, next; /* next: the first sample of the step after */
    double left, right, scale;
};

/* A step that a refusal cut short gets the part of its width that its samples are of the step before it. */
static struct span span_from(const struct chart_frame *frame, const struct run *run, size_t first, size_t before) {
    const struct timeline *timeline = timeline_of(run);
    int64_t step = timeline->samples[first].step;
    struct span span = {.first = first, .next = first};
    while (span.next < timeline->sample_count && timeline->samples[span.next].step == step) span.next++;
    size_t samples = span.next - first;
    bool cut = span.next == timeline->sample_count && run->outcome == RUN_OUT_OF_MEMORY && before > samples;
    span.left = step_x(frame, (double)step);
    span.right = step_x(frame, (double)step + 1.0);
    span.scale = (span.right - span.left) / (double)(cut ? before : samples);
    return span;
}

/* Chooses the columns: at most one a unit of width, always the last sample. */
static size_t columns_choose(const struct chart_frame *frame, const struct run *run, struct column columns[WIDE + 1]) {
    const struct timeline *timeline = timeline_of(run);
    size_t count = 0;
    struct span span = {0};
    for (size_t i = 0; i < timeline->sample_count; i++) {
        const struct sample *sample = &timeline->samples[i];
        if (i == span.next) {
            bool whole = i > 0 && timeline->samples[i - 1].step > 0; /* what was before is a step, not the opening */
            span = span_from(frame, run, i, whole ? span.next - span.first : 0);
        }
        int x = (int)fmin(span.left + (double)(i - span.first) * span.scale, span.right);
        bool together = count > 0 && columns[count - 1].x >= x, last = i + 1 == timeline->sample_count;
        if (!together)
            columns[count++] = (struct column){x, sample};
        else if (last || live_of(timeline, sample) > live_of(timeline, columns[count - 1].sample))
            columns[count - 1].sample = sample;
    }
    assert(count <= WIDE + 1);
    return count;
}

/* ---- the drawing --------------------------------------------------------------------------------------------------- */

/* What a sample found holds until the next one; the last one gets a unit of width, so that it is seen. */
static void area_write(const struct chart_frame *frame, const struct column *columns, size_t count,
                       const size_t *floor_bytes, const size_t *roof_bytes, FILE *out) {
    int end = columns[count - 1].x < WIDE ? columns[count - 1].x + 1 : WIDE;
    fprintf(out, "M%d %.0f", columns[0].x, height(frame, floor_bytes[0]));
    for (size_t i = 0; i < count; i++)
        fprintf(out, "V%.0fH%d", height(frame, roof_bytes[i]), i + 1 < count ? columns[i + 1].x : end);
    for (size_t i = count; i-- > 0;) fprintf(out, "V%.0fH%d", height(frame, floor_bytes[i]), columns[i].x);
    fputs("Z\"/>\n", out);
}

static size_t colour_of(const struct chart_frame *frame, const char *name) {
    for (size_t i = 0; i < frame->name_count; i++)
        if (strcmp(frame->names[i], name) == 0) return i;
    return frame->name_count - 1;
}

/* One area a stream and kind; kind 0 is live, 1 idle. Streams that had none are left out. */
static void areas_write(const struct chart_frame *frame, const struct run *run, const struct column *columns,
                        size_t count, FILE *out) {
    const struct timeline *timeline = timeline_of(run);
    size_t floor_bytes[WIDE + 1] = {0}, roof_bytes[WIDE + 1];
    for (size_t kind = 0; kind < 2; kind++)
        for (size_t s = 0; s < timeline->stream_count; s++) {
            size_t most = 0;
            for (size_t i = 0; i < count; i++) {
                size_t bytes = columns[i].sample->bytes[2 * s + kind];
                roof_bytes[i] = floor_bytes[i] + bytes;
                most = larger(most, bytes);
            }
            if (most == 0) continue;
            size_t colour = colour_of(frame, timeline->streams[s]);
            if (kind == 0)
                fprintf(out, "<path class=\"c%zu\" d=\"", colour);
            else
                fprintf(out, "<path fill=\"url(#idle%zu)\" d=\"", colour);
            area_write(frame, columns, count, floor_bytes, roof_bytes, out);
            memcpy(floor_bytes, roof_bytes, count * sizeof *roof_bytes);
        }
}

static void step_marks_write(const struct chart_frame *frame, FILE *out) {
    int64_t steps = (int64_t)(frame->steps - frame->before);
    int64_t every = steps > 12 ? (steps + 11) / 12 : 1; /* more words than that would run into each other */
    for (int64_t step = 1; step <= steps; step += every) {
        double left = step_x(frame, (double)step) / WIDE * 100.0;
        fprintf(out,
                "<i class=\"mark\" style=\"left:%.2f%%\"></i><span class=\"x\" style=\"left:%.2f%%\">%s%lld</span>\n",
                left, left, step == 1 ? "step " : "", (long long)step);
    }
}

/* Round figures up to the capacity: 1, 2 or 5 times a power of ten MiB apart, at most 6 of them. */
static void height_marks_write(const struct chart_frame *frame, FILE *out) {
    double most = mebibytes(frame->top_bytes), apart = pow(10.0, floor(log10(most / 6.0)));
    static const double steps[] = {1.0, 2.0, 5.0, 10.0};
    size_t i = 0;
    while (i < 3 && most / (apart * steps[i]) > 6.0) i++;
    apart *= steps[i];
    for (double at = 0.0; at < most; at += apart)
        fprintf(out, "<i class=\"level\" style=\"top:%.2f%%\"></i><span class=\"y\" style=\"top:%.2f%%\">%g</span>\n",
                100.0 - at / most * 100.0, 100.0 - at / most * 100.0, at);
}

static void refusal_write(const struct chart_frame *frame, const struct rank_figures *rank, int x, FILE *out) {
    const struct refusal *refusal = &rank->refusal;
    size_t held = held_of(refusal);
    double low = height(frame, held) / HIGH * 100.0, high = height(frame, held + refusal->asked_bytes) / HIGH * 100.0;
    double left = (double)x / WIDE * 100.0;
    fprintf(out, "<i class=\"asked\" style=\"left:%.2f%%;top:%.2f%%;height:%.2f%%\"></i>\n", left, high, low - high);
    fprintf(out, "<span class=\"fail%s\" style=\"%s:%.2f%%;top:%.2f%%\"><b>refused</b> %.2f MiB on ",
            left > 55.0 ? " before" : "", left > 55.0 ? "right" : "left", left > 55.0 ? 100.0 - left : left,
            fmin(low + 3.0, 60.0), mebibytes(refusal->asked_bytes));
    page_text(refusal->stream, out);
    fprintf(out, "<br/>%.1f MiB idle on other streams</span>\n", mebibytes(refusal->idle_others_bytes));
}

/* What the picture shows, for those who do not see it. */
static void description_write(const struct run *run, FILE *out) {
    struct figures figures = run_figures(run);
    fprintf(
        out,
        "Memory of rank %lld over the steps, stacked by stream: at most %.1f MiB live and %.1f MiB held of %.1f MiB",
        (long long)figures.rank, mebibytes(figures.peak_live_bytes), mebibytes(figures.peak_held_bytes),
        mebibytes(figures.capacity_bytes));
    if (run->outcome == RUN_OUT_OF_MEMORY)
        fprintf(out, "; it ends with a refused request while %.1f MiB are idle on other streams",
                mebibytes(figures.idle_others_bytes));
    fputc('.', out);
}

void chart_write(const struct chart_frame *frame, const struct run *run, size_t index, FILE *out) {
    const struct rank_figures *rank = run_subject(run);
    struct column columns[WIDE + 1];
    size_t count = columns_choose(frame, run, columns);
    if (count == 0) {
        fputs("<p class=\"none\">The run's report has no samples of memory over time.</p>\n", out);
        return;
    }
    fprintf(out, "<div class=\"plot\" data-run=\"%zu\" tabindex=\"0\">\n", index);
    height_marks_write(frame, out);
    fprintf(out,
            "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"t%zu d%zu\">\n",
            WIDE, HIGH, index, index);
    fprintf(out, "<title id=\"t%zu\">Memory over time: ", index);
    page_text(run->name, out);
    fprintf(out, "</title>\n<desc id=\"d%zu\">", index);
    description_write(run, out);
    fputs("</desc>\n", out);
    areas_write(frame, run, columns, count, out);
    fputs("</svg>\n", out);
    step_marks_write(frame, out);
    double top = height(frame, rank->capacity_bytes) / HIGH * 100.0;
    fprintf(out,
            "<i class=\"capacity\" style=\"top:%.2f%%\"></i><span class=\"cap\" style=\"top:%.2f%%\">capacity %.2f "
            "MiB</span>\n",
            top, top, mebibytes(rank->capacity_bytes));
    if (run->outcome == RUN_OUT_OF_MEMORY && rank->refused) refusal_write(frame, rank, columns[count - 1].x, out);
    fputs("</div>\n", out);
}

/* For the script: {"streams":[[name, colour]], "columns":[[place from 0 to 1, ms, step, live KiB, idle KiB, ...]]} */
json_t *chart_columns(const struct chart_frame *frame, const struct run *run) {
    const struct timeline *timeline = timeline_of(run);
    struct column columns[WIDE + 1];
    size_t count = columns_choose(frame, run, columns);
    json_t *streams = json_array(), *list = json_array();
    for (size_t s = 0; s < timeline->stream_count; s++)
        json_array_append_new(
            streams, json_pack("[s, I]", timeline->streams[s], (json_int_t)colour_of(frame, timeline->streams[s])));
    for (size_t i = 0; i < count; i++) {
        const struct sample *sample = columns[i].sample;
        json_t *row =
            json_pack("[I, I, I]", (json_int_t)columns[i].x, (json_int_t)sample->ms, (json_int_t)sample->step);
        for (size_t b = 0; b < 2 * timeline->stream_count; b++)
            json_array_append_new(row, json_integer((json_int_t)(sample->bytes[b] >> 10)));
        json_array_append_new(list, row);
    }
    return json_pack("{s:i, s:o, s:o}", "wide", WIDE, "streams", streams, "columns", list);
}
