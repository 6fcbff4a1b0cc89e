/* SPDX-License-Identifier: Apache-2.0 */
/* The run as text: a chart of memory, a line for each stream's work, and what was the most of all. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "timeline_inside.h"

enum { CHART_HIGH = 16, MOST_ROWS = 16, LEFT_WIDE = 16, LEFT_NARROW = 10, RIGHT = 6, LEAST_PLOT = 16 };

/* What is seen in a column of characters: memory at its fullest moment, and the most that was stranded. */
struct bin {
    uint64_t live, idle, held, stranded;
};

struct text {
    const struct run *run;
    const struct timeline *timeline;
    struct timeline_look look;
    FILE *out;
    unsigned left, plot;  /* characters */
    uint64_t end_ns, top; /* top: bytes at the upper edge */
    struct bin *bins;     /* (plot) */
    double *busy;         /* (plot); of one row */
    enum colour { PLAIN, LIVE, IDLE, STRANDED, HELD, CAPACITY, WORK, WAITS } colour;
};

/* ---- characters ------------------------------------------------------------------------------------------------- */

static const char *const levels_utf8[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588"};
static const char *const levels_ascii[] = {" ", ".", ":", ";", "=", "+", "*", "%", "#"};
enum { LEVELS = 8 };

static const struct glyph {
    const char *utf8, *ascii;
} live_glyph = {"\u2588", "#"}, idle_glyph = {"\u2592", "+"}, held_glyph = {"\u2591", "."}, low_glyph = {"\u2581", "_"},
  capacity_glyph = {"\u2500", "-"}, edge_glyph = {"\u2502", "|"}, mark_glyph = {"\u2577", "|"},
  blank_glyph = {" ", " "};

static void use_colour(struct text *text, enum colour colour) {
    static const char *const codes[] = {[PLAIN] = "0", [LIVE] = "34",     [IDLE] = "33", [STRANDED] = "35",
                                        [HELD] = "90", [CAPACITY] = "31", [WORK] = "36", [WAITS] = "31"};
    if (!text->look.colour || text->colour == colour) return;
    fprintf(text->out, "\033[%sm", codes[colour]);
    text->colour = colour;
}

static void put_string(struct text *text, enum colour colour, const char *string) {
    use_colour(text, *string == ' ' ? text->colour : colour);
    fputs(string, text->out);
}

static void put_glyph(struct text *text, enum colour colour, const struct glyph *glyph) {
    put_string(text, colour, text->look.utf8 ? glyph->utf8 : glyph->ascii);
}

/* A part of a full character, from 0 to 1; never nothing where there is some. */
static void put_share(struct text *text, enum colour colour, double share) {
    unsigned level = share >= 1 ? LEVELS : (unsigned)(share * LEVELS + 0.5);
    if (level == 0 && share > 0) level = 1;
    put_string(text, colour, (text->look.utf8 ? levels_utf8 : levels_ascii)[level]);
}

static void put_words(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_words(struct text *text, const char *format, ...) {
    va_list arguments;
    use_colour(text, PLAIN);
    va_start(arguments, format);
    vfprintf(text->out, format, arguments);
    va_end(arguments);
}

/* What a trace or a path says, without what could be a terminal's command. */
static void put_foreign(struct text *text, const char *words, unsigned most) {
    use_colour(text, PLAIN);
    for (; *words != '\0' && most > 0; words++, most--) fputc(*words >= ' ' && *words < 127 ? *words : '?', text->out);
}

static void end_line(struct text *text) {
    use_colour(text, PLAIN);
    fputc('\n', text->out);
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

struct figure {
    char is[32];
};

static struct figure size_of(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    struct figure figure;
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1024;
    snprintf(figure.is, sizeof figure.is, "%.*f %s", unit == 0 ? 0 : 2, size, units[unit]);
    return figure;
}

static struct figure time_of(uint64_t ns) {
    struct figure figure;
    const double us = (double)ns / 1e3;
    if (us >= 1e6)
        snprintf(figure.is, sizeof figure.is, "%.2f s", us / 1e6);
    else if (us >= 1e3)
        snprintf(figure.is, sizeof figure.is, "%.2f ms", us / 1e3);
    else
        snprintf(figure.is, sizeof figure.is, "%.1f us", us);
    return figure;
}

/* ---- bins ------------------------------------------------------------------------------------------------------- */

static unsigned bin_of(const struct text *text, uint64_t ns) {
    const double at = (double)ns / (double)text->end_ns * text->plot;
    return at < text->plot ? (unsigned)at : text->plot - 1;
}

static uint64_t most_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void add_to_bin(struct bin *bin, const struct sample *column, bool first) {
    const uint64_t held = first ? 0 : bin->held, stranded = first ? 0 : bin->stranded;
    uint64_t idle = 0;
    for (uint32_t i = 0; i < TIMELINE_SLOTS; i++) idle += column->idle[i];
    if (first || column->live > bin->live) *bin = (struct bin){.live = column->live, .idle = idle};
    bin->held = most_of(held, column->held);
    bin->stranded = most_of(stranded, column->counts.stranded);
}

/* What was there last holds on. */
static void fill_bins(struct text *text) {
    const struct timeline *timeline = text->timeline;
    struct bin before = {0};
    uint32_t i = 0;
    for (unsigned b = 0; b < text->plot; b++) {
        text->bins[b] = before;
        for (bool first = true; i < timeline->column_count && bin_of(text, timeline->columns[i].ns) <= b;
             i++, first = false)
            add_to_bin(&text->bins[b], &timeline->columns[i], first);
        before = text->bins[b];
        before.stranded = 0;
    }
}

/* How much of each bin's time the row's bars were busy. */
static void fill_busy(struct text *text, const struct row *row) {
    const double scale = (double)text->plot / (double)text->end_ns;
    for (unsigned b = 0; b < text->plot; b++) text->busy[b] = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct bar *bar = &row->bars[i];
        const double from = (double)bar->start * scale, to = (double)bar->end * scale;
        const double share = bar->end > bar->start ? (double)bar->busy / (double)(bar->end - bar->start) : 0;
        for (unsigned b = bin_of(text, bar->start); b < text->plot && b < to; b++)
            text->busy[b] += share * ((to < b + 1 ? to : b + 1) - (from > b ? from : b));
    }
}

/* ---- the chart -------------------------------------------------------------------------------------------------- */

/* Names that are too long lose their middle: those of streams often differ at their ends alone. */
static void put_margin(struct text *text, const char *words) {
    const unsigned length = (unsigned)strlen(words), tail = text->left / 2;
    if (length <= text->left) {
        put_words(text, "%*s", (int)(text->left - length), "");
        put_foreign(text, words, length);
    } else {
        put_foreign(text, words, text->left - tail - 1);
        put_words(text, "~");
        put_foreign(text, words + length - tail, tail);
    }
    put_words(text, " ");
}

/* Of live bytes, where nothing lies above them: in eighths, or in halves. */
static void put_top(struct text *text, double share) {
    if (text->look.utf8)
        put_share(text, LIVE, share);
    else
        put_glyph(text, LIVE, share < 0.5 ? &low_glyph : &live_glyph);
}

/* One character: what is there at half its height. */
static void put_memory(struct text *text, const struct bin *bin, unsigned row) {
    const double high = (double)text->top / CHART_HIGH, low = high * (CHART_HIGH - 1 - row), middle = low + high / 2;
    const double live = (double)bin->live, idle = live + (double)bin->idle, held = (double)bin->held;
    if (live > low && live < low + high && idle < low + high && held < low + high)
        put_top(text, (live - low) / high);
    else if (middle < live)
        put_glyph(text, LIVE, &live_glyph);
    else if (middle < idle)
        put_glyph(text, IDLE, &idle_glyph);
    else
        put_glyph(text, HELD, middle < held ? &held_glyph : &blank_glyph);
}

static void put_chart(struct text *text) {
    put_margin(text, size_of(text->top).is);
    for (unsigned b = 0; b <= text->plot; b++) put_glyph(text, CAPACITY, &capacity_glyph);
    end_line(text);
    for (unsigned row = 0; row < CHART_HIGH; row++) {
        const bool named = row > 0 && row % (CHART_HIGH / 4) == 0;
        put_margin(text, named ? size_of(text->top / CHART_HIGH * (CHART_HIGH - row)).is : "");
        put_glyph(text, PLAIN, &edge_glyph);
        for (unsigned b = 0; b < text->plot; b++) put_memory(text, &text->bins[b], row);
        end_line(text);
    }
}

/* ---- lines under it --------------------------------------------------------------------------------------------- */

static void put_time_axis(struct text *text) {
    const struct figure end = time_of(text->end_ns), middle = time_of(text->end_ns / 2);
    const int half = (int)text->plot / 2, before = half - (int)strlen(middle.is) / 2;
    put_margin(text, "");
    put_words(text, " 0%*s%s%*s\n", before > 1 ? before - 1 : 0, "", middle.is,
              (int)text->plot - (before > 1 ? before : 1) - (int)strlen(middle.is), end.is);
}

/* Which of so many are marked, that there is room: every 1st, 2nd, 5th, 10th ... */
static uint32_t marked_of(uint32_t count, unsigned room) {
    static const uint32_t steps[] = {1, 2, 5};
    for (uint32_t power = 1;; power *= 10)
        for (size_t i = 0; i < 3; i++)
            if (count / (steps[i] * power) <= room) return steps[i] * power;
}

static void put_iterations(struct text *text) {
    const struct timeline *timeline = text->timeline;
    const uint32_t step = marked_of(timeline->iteration_count, text->plot / 3), one = timeline->iterations_in_one;
    if (timeline->iteration_count == 0) return;
    put_margin(text, "iterations");
    put_words(text, " ");
    unsigned at = 0;
    for (uint32_t i = 0; i < timeline->iteration_count; i += step) {
        const unsigned bin = bin_of(text, timeline->iterations[i]);
        for (; at < bin; at++) put_words(text, " ");
        if (at++ == bin) put_glyph(text, PLAIN, &mark_glyph);
    }
    if (step * one > 1) put_words(text, "\n%*s  one of %" PRIu32 " is marked", (int)text->left, "", step * one);
    end_line(text);
}

static void put_stranded(struct text *text) {
    const uint64_t most = text->timeline->stranded.bytes;
    if (most == 0) return;
    put_margin(text, "stranded");
    put_words(text, " ");
    for (unsigned b = 0; b < text->plot; b++) put_share(text, STRANDED, (double)text->bins[b].stranded / (double)most);
    end_line(text);
}

static void put_row(struct text *text, uint32_t number) {
    const struct row *row = &text->timeline->rows[number];
    const bool host = number == text->run->trace->stream_count;
    const double share = 100 * (double)row->busy_ns / (double)text->end_ns;
    char name[64];
    fill_busy(text, row);
    put_margin(text, timeline_row_name(text->run, number, name, sizeof name));
    put_words(text, " ");
    for (unsigned b = 0; b < text->plot; b++) put_share(text, host ? WAITS : WORK, text->busy[b]);
    put_words(text, " %3.*f %%", share < 9.95 ? 1 : 0, share);
    end_line(text);
}

/* ---- what was the most ------------------------------------------------------------------------------------------ */

static void put_peak(struct text *text, enum colour colour, const struct glyph *glyph, const char *name,
                     const struct peak *peak) {
    put_glyph(text, colour, glyph);
    put_words(text, " %-*s %10s", LEFT_NARROW, name, size_of(peak->bytes).is);
    if (peak->bytes > 0) put_words(text, " at the most, at %s", time_of(peak->ns).is);
}

static void put_idle_by_stream(struct text *text, const struct legend *legend) {
    const struct timeline *timeline = text->timeline;
    char name[64];
    for (uint32_t i = 0; i < legend->coloured_count; i++) {
        const uint32_t stream = legend->coloured[i];
        const struct peak *peak = &timeline->idle_of[timeline_slot(timeline, stream)];
        put_words(text, "  %-*s %10s at the most, at %s, on ", LEFT_NARROW, "", size_of(peak->bytes).is,
                  time_of(peak->ns).is);
        put_foreign(text, timeline_row_name(text->run, stream, name, sizeof name), sizeof name);
        end_line(text);
    }
}

static void put_stranded_peak(struct text *text) {
    const struct glyph glyph = {levels_utf8[4], levels_ascii[4]};
    const struct peak *peak = &text->timeline->stranded;
    char name[64];
    put_peak(text, STRANDED, &glyph, "stranded", peak);
    if (peak->bytes > 0) {
        put_words(text, ", asked on ");
        put_foreign(text, timeline_row_name(text->run, peak->stream, name, sizeof name), sizeof name);
    }
    end_line(text);
}

static void put_peaks(struct text *text, const struct legend *legend) {
    const struct timeline *timeline = text->timeline;
    put_peak(text, LIVE, &live_glyph, "live", &timeline->live);
    end_line(text);
    if (timeline->tells_idle) {
        put_peak(text, IDLE, &idle_glyph, "idle", &timeline->idle);
        end_line(text);
        put_idle_by_stream(text, legend);
        put_stranded_peak(text);
    }
    if (timeline->holds) {
        put_peak(text, HELD, &held_glyph, "held", &timeline->held);
        put_words(text, timeline->tells_idle ? "; shown: neither live nor idle" : "; shown: not live");
        end_line(text);
    }
    if (!timeline_has_capacity(text->run)) return;
    put_glyph(text, CAPACITY, &capacity_glyph);
    put_words(text, " %-*s %10s\n", LEFT_NARROW, "capacity", size_of(text->run->device->capacity_bytes).is);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static void put_title(struct text *text, const struct outcome *outcome) {
    char allocator[600];
    put_foreign(text, timeline_trace_name(text->run->setup), 200);
    if (outcome->ending == ENDED_COMPLETED)
        put_words(text, ": completed");
    else if (outcome->ending == ENDED_FAILED)
        put_words(text, ": failed");
    else
        put_words(text, ": out of memory at line %" PRIu32, outcome->failed_line);
    put_words(text, " with ");
    timeline_allocator_name(text->run->setup, allocator, sizeof allocator);
    put_foreign(text, allocator, sizeof allocator);
    put_words(text, "\n\n");
}

static void put_all(struct text *text, const struct legend *legend, const struct outcome *outcome) {
    put_title(text, outcome);
    fill_bins(text);
    put_chart(text);
    put_time_axis(text);
    put_iterations(text);
    put_stranded(text);
    for (uint32_t i = 0; i < legend->shown_count; i++) put_row(text, legend->shown[i]);
    if (legend->left_out > 0)
        put_words(text, "%*s  and %" PRIu32 " streams with less work\n", (int)text->left, "", legend->left_out);
    put_words(text, "\n");
    put_peaks(text, legend);
    put_words(text, "\n");
}

bool timeline_text(const struct run *run, const struct outcome *outcome, FILE *out) {
    const unsigned wide = run->setup->timeline_look.width, left = wide >= 80 ? LEFT_WIDE : LEFT_NARROW;
    const struct timeline *timeline = run->timeline;
    struct text text = {.run = run, .timeline = timeline, .look = run->setup->timeline_look, .out = out, .left = left};
    struct legend legend;
    text.plot = wide > left + 2 + RIGHT + LEAST_PLOT ? wide - left - 2 - RIGHT : LEAST_PLOT;
    text.end_ns = most_of(timeline_end_ns(run, outcome), 1);
    text.top = timeline_has_capacity(run) ? run->device->capacity_bytes : most_of(timeline->live.bytes, 1);
    text.bins = calloc(text.plot, sizeof *text.bins);
    text.busy = calloc(text.plot, sizeof *text.busy);
    const bool made = legend_make(run, MOST_ROWS, &legend) && text.bins != NULL && text.busy != NULL;
    if (made) put_all(&text, &legend, outcome);
    legend_free(&legend);
    free(text.bins);
    free(text.busy);
    return made;
}
