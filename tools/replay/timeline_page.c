/* SPDX-License-Identifier: Apache-2.0 */
/* The page: what the run came to, the picture's place, and its data. The script (timeline.js) draws. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "timeline_inside.h"
#include "tools/page/page.h"

/* Made from timeline.css and timeline.js when the program is built. */
extern const char timeline_css[], timeline_js[];

enum { COLOURS = 8 /* as page.css has them; the last is that of streams without one */, MOST_ROWS = 48 };

/* What the page says of the streams: which have rows, and in which colours they are. */
struct legend {
    uint8_t *colour; /* by row */
    uint32_t *shown; /* the rows, by number */
    uint32_t shown_count, left_out;
    uint32_t coloured[COLOURS - 1], coloured_count; /* streams with a colour and idle bytes, in its order */
};

/* ---- words ------------------------------------------------------------------------------------------------------ */

static void put_bytes(uint64_t bytes, FILE *out) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1024;
    fprintf(out, "%.*f<small> %s</small>", unit == 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2, size, units[unit]);
}

static void put_time(uint64_t ns, FILE *out) {
    const double us = (double)ns / 1e3;
    const double shown = us >= 1e6 ? us / 1e6 : us >= 1e3 ? us / 1e3 : us;
    fprintf(out, "%.*f<small> %s</small>",
            shown >= 100  ? 0
            : shown >= 10 ? 1
                          : 2,
            shown,
            us >= 1e6   ? "s"
            : us >= 1e3 ? "ms"
                        : "us");
}

static const char *stream_name(const struct run *run, uint32_t stream, char *text, size_t room) {
    if (stream == run->trace->stream_count)
        snprintf(text, room, "host waits");
    else if (run->trace->stream_names[stream][0] != '\0')
        snprintf(text, room, "%s", run->trace->stream_names[stream]);
    else
        snprintf(text, room, "stream %" PRIu64, run->trace->stream_ids[stream]);
    return text;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void allocator_name(const struct setup *setup, char *text, size_t room) {
    switch (setup->target) {
    case TARGET_POOL:
        snprintf(text, room, "weir, policy %s", setup->policy);
        return;
    case TARGET_PLUGIN:
        snprintf(text, room, "%s", file_name(setup->library));
        return;
    case TARGET_FREE:
        snprintf(text, room, "an allocator that costs nothing");
        return;
    case TARGET_FLUID:
        snprintf(text, room, "no fragmentation, waiting for pending uses only");
        return;
    }
}

/* ---- the legend ------------------------------------------------------------------------------------------------- */

static uint64_t most_idle(const struct timeline *timeline, uint32_t stream) {
    const uint32_t slot = timeline_slot(timeline, stream);
    uint64_t most = 0;
    if (slot >= TIMELINE_SLOTS) return 0;
    for (uint32_t i = 0; i < timeline->column_count; i++)
        if (timeline->columns[i].idle[slot] > most) most = timeline->columns[i].idle[slot];
    return most;
}

/* The row that has most of it and is not `taken` yet; row_count: none has any. */
static uint32_t next_most(const struct timeline *timeline, const uint64_t *amount, const uint8_t *taken) {
    uint32_t most = timeline->row_count;
    for (uint32_t i = 0; i < timeline->row_count; i++)
        if (!taken[i] && amount[i] > 0 && (most == timeline->row_count || amount[i] > amount[most])) most = i;
    return most;
}

/* Colours go to the streams with most idle bytes, then to the busiest. */
static void give_colours(const struct run *run, struct legend *legend, uint64_t *amount, uint8_t *taken) {
    const struct timeline *timeline = run->timeline;
    const uint32_t streams = run->trace->stream_count;
    uint32_t given = 0;
    memset(legend->colour, COLOURS - 1, timeline->row_count);
    for (uint32_t i = 0; i < streams; i++) amount[i] = most_idle(timeline, i);
    amount[streams] = 0; /* the host has none */
    for (uint32_t i; given < COLOURS - 1 && (i = next_most(timeline, amount, taken)) < streams; given++) {
        taken[i] = 1;
        legend->colour[i] = (uint8_t)given;
        legend->coloured[legend->coloured_count++] = i;
    }
    for (uint32_t i = 0; i < streams; i++) amount[i] = timeline->rows[i].busy_ns;
    for (uint32_t i; given < COLOURS - 1 && (i = next_most(timeline, amount, taken)) < streams; given++) {
        taken[i] = 1;
        legend->colour[i] = (uint8_t)given;
    }
}

static void choose_rows(const struct run *run, struct legend *legend, uint64_t *amount, uint8_t *taken) {
    const struct timeline *timeline = run->timeline;
    uint32_t with_bars = 0, chosen = 0;
    memset(taken, 0, timeline->row_count);
    for (uint32_t i = 0; i < timeline->row_count; i++)
        amount[i] = timeline->rows[i].count > 0 ? timeline->rows[i].busy_ns + 1 : 0;
    for (uint32_t i = 0; i < timeline->row_count; i++) with_bars += amount[i] > 0;
    for (uint32_t i; chosen < MOST_ROWS && (i = next_most(timeline, amount, taken)) < timeline->row_count; chosen++)
        taken[i] = 1;
    for (uint32_t i = 0; i < timeline->row_count; i++)
        if (taken[i]) legend->shown[legend->shown_count++] = i;
    legend->left_out = with_bars - legend->shown_count;
}

static bool make_legend(const struct run *run, struct legend *legend) {
    const uint32_t rows = run->timeline->row_count;
    uint64_t *amount = calloc(rows, sizeof *amount);
    uint8_t *taken = calloc(rows, 1);
    *legend = (struct legend){.colour = calloc(rows, 1), .shown = calloc(rows, sizeof *legend->shown)};
    const bool made = amount != NULL && taken != NULL && legend->colour != NULL && legend->shown != NULL;
    if (made) {
        give_colours(run, legend, amount, taken);
        choose_rows(run, legend, amount, taken);
    }
    free(amount);
    free(taken);
    return made;
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

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

/* Idle bytes of streams that have no colour. */
static uint64_t idle_of_others(const struct timeline *timeline, const struct legend *legend,
                               const struct column *column) {
    uint64_t sum = 0;
    for (uint32_t s = 0; s < TIMELINE_SLOTS; s++) sum += column->idle[s];
    for (uint32_t i = 0; i < legend->coloured_count; i++)
        sum -= column->idle[timeline_slot(timeline, legend->coloured[i])];
    return sum;
}

/* In units of 512 bytes. */
static void put_memory(const struct timeline *timeline, const struct legend *legend, FILE *out) {
    const struct column *columns = timeline->columns;
    const uint32_t count = timeline->column_count;
    PUT_DELTAS(out, "time", count, columns[i].ns);
    PUT_DELTAS(out, "live", count, columns[i].live / 512);
    PUT_DELTAS(out, "held", count, columns[i].held / 512);
    for (uint32_t k = 0; k < legend->coloured_count; k++) {
        char key[32];
        const uint32_t slot = timeline_slot(timeline, legend->coloured[k]);
        snprintf(key, sizeof key, "idle%u", k);
        PUT_DELTAS(out, key, count, columns[i].idle[slot] / 512);
    }
    PUT_DELTAS(out, "idle_others", count, idle_of_others(timeline, legend, &columns[i]) / 512);
}

/* [column, memory calls, page moves, moved bytes, device waits, host waits, ns], where there was any of it. */
static void put_ticks(const struct timeline *timeline, FILE *out) {
    const char *separator = "";
    fputs("\"ticks\":[", out);
    for (uint32_t i = 0; i < timeline->column_count; i++) {
        const struct column *column = &timeline->columns[i];
        if (column->memory_calls + column->page_moves + column->device_waits + column->host_waits == 0) continue;
        fprintf(out, "%s[%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", separator, i,
                column->memory_calls, column->page_moves, column->moved_bytes, column->device_waits, column->host_waits,
                column->host_wait_ns);
        separator = ",";
    }
    fputs("],\n", out);
}

/* Bars as [gap since the one before, length, per cent of it that is busy, ...]. */
static void put_row(const struct run *run, const struct legend *legend, uint32_t number, FILE *out) {
    const struct row *row = &run->timeline->rows[number];
    char name[64];
    uint64_t end = 0;
    fputs("{\"name\":", out);
    page_json(stream_name(run, number, name, sizeof name), out);
    fprintf(out, ",\"colour\":%d,\"host\":%s,\"busy_ns\":%" PRIu64 ",\"bars\":[", legend->colour[number],
            number == run->trace->stream_count ? "true" : "false", row->busy_ns);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct bar *bar = &row->bars[i];
        const uint64_t length = bar->end - bar->start;
        const double busy = length > 0 ? 100.0 * (double)bar->busy / (double)length : 100.0;
        fprintf(out, "%s%" PRId64 ",%" PRIu64 ",%.3g", i > 0 ? "," : "", (int64_t)(bar->start - end), length, busy);
        end = bar->end;
    }
    fputs("]}", out);
}

static uint64_t end_of(const struct run *run, const struct outcome *outcome) {
    uint64_t end = run->timeline->last_ns > outcome->run_ns ? run->timeline->last_ns : outcome->run_ns;
    for (uint32_t i = 0; i < run->timeline->row_count; i++) {
        const struct row *row = &run->timeline->rows[i];
        if (row->count > 0 && row->bars[row->count - 1].end > end) end = row->bars[row->count - 1].end;
    }
    return end;
}

static bool has_capacity(const struct run *run) { return run->setup->target != TARGET_FREE; }

static void put_data(const struct run *run, const struct legend *legend, const struct outcome *outcome, FILE *out) {
    const struct timeline *timeline = run->timeline;
    const bool failed = outcome->ending != ENDED_COMPLETED;
    fputs("<script type=\"application/json\" id=\"run\">{\"format\":\"weir-timeline 1\",\n", out);
    fprintf(out, "\"end_ns\":%" PRIu64 ",\"capacity_bytes\":%" PRIu64 ",\"failed\":%s,\"failed_line\":%u,\n",
            end_of(run, outcome), has_capacity(run) ? (uint64_t)run->device->capacity_bytes : 0,
            failed ? "true" : "false", outcome->failed_line);
    fprintf(out, "\"asked_bytes\":%" PRIu64 ",\"failed_ns\":%" PRIu64 ",\"iterations_in_one\":%u,\n",
            failed && timeline->last != NULL && timeline->last->kind <= OP_REFUSED ? timeline->last->bytes : 0,
            failed ? timeline->last_ns : 0, timeline->iterations_in_one);
    PUT_DELTAS(out, "iterations", timeline->iteration_count, timeline->iterations[i]);
    put_memory(timeline, legend, out);
    put_ticks(timeline, out);
    fputs("\"idle\":[", out);
    for (uint32_t i = 0; i < legend->coloured_count; i++) {
        char name[64];
        if (i > 0) fputc(',', out);
        page_json(stream_name(run, legend->coloured[i], name, sizeof name), out);
    }
    fputs("],\n\"rows\":[", out);
    for (uint32_t i = 0; i < legend->shown_count; i++) {
        if (i > 0) fputs(",\n", out);
        put_row(run, legend, legend->shown[i], out);
    }
    fputs("]}</script>\n", out);
}

/* ---- the page --------------------------------------------------------------------------------------------------- */

/* Why it failed is said below, with the line. */
static void put_chip(const struct outcome *outcome, FILE *out) {
    if (outcome->ending == ENDED_COMPLETED)
        fputs("<span class=\"chip good\">completed</span>", out);
    else if (outcome->ending == ENDED_FAILED)
        fputs("<span class=\"chip bad\">failed</span>", out);
    else
        fprintf(out, "<span class=\"chip bad\">out of memory at line %u</span>", outcome->failed_line);
}

static void put_header(const struct run *run, const struct outcome *outcome, FILE *out) {
    const struct setup *setup = run->setup;
    char allocator[600];
    allocator_name(setup, allocator, sizeof allocator);
    fputs("<body>\n<header>\n<p class=\"brand\">weir-replay</p>\n<h1>", out);
    page_text(setup->trace_name != NULL ? file_name(setup->trace_name) : "A trace", out);
    fputs("</h1>\n<p>", out);
    put_chip(outcome, out);
    fputs(" with ", out);
    page_text(allocator, out);
    if (has_capacity(run)) {
        fputs(", on a device of ", out);
        put_bytes(run->device->capacity_bytes, out);
    }
    if (setup->law != NULL && strcmp(setup->law, "measured") != 0) {
        fputs(", memory calls by the law \"", out);
        page_text(setup->law, out);
        fputc('"', out);
    }
    fputs(".</p>\n", out);
    if (outcome->ending == ENDED_FAILED) {
        fputs("<p class=\"report\">", out);
        page_text(outcome->why, out);
        fputs("</p>\n", out);
    }
    fputs("<p class=\"note\">The device is emulated; times are those of its profile.</p>\n</header>\n", out);
}

static void begin_tile(FILE *out) { fputs("<li class=\"tile\"><p class=\"big\">", out); }

static void end_tile(const char *what, FILE *out) { fprintf(out, "</p><p class=\"what\">%s</p></li>\n", what); }

static void put_count(uint64_t count, const char *what, FILE *out) {
    if (count == NOT_KNOWN) return;
    begin_tile(out);
    fprintf(out, "%" PRIu64, count);
    end_tile(what, out);
}

static uint64_t most_live(const struct timeline *timeline) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < timeline->column_count; i++)
        if (timeline->columns[i].live > most) most = timeline->columns[i].live;
    return most;
}

static void put_tiles(const struct run *run, const struct outcome *outcome, FILE *out) {
    fputs("<ul class=\"tiles\">\n", out);
    begin_tile(out);
    put_bytes(most_live(run->timeline), out);
    end_tile("live at the peak", out);
    if (outcome->peak_held_bytes != NOT_KNOWN) {
        begin_tile(out);
        put_bytes(outcome->peak_held_bytes, out);
        end_tile("held at the peak", out);
    }
    begin_tile(out);
    put_time(end_of(run, outcome), out);
    end_tile("to the end of all work", out);
    if (outcome->host_wait_ns != NOT_KNOWN) {
        begin_tile(out);
        put_time(outcome->host_wait_ns, out);
        end_tile("of it requests held the host up", out);
    }
    put_count(outcome->memory_calls, "memory calls", out);
    put_count(outcome->page_moves, "pages moved", out);
    put_count(outcome->device_waits, "waits on the device", out);
    fputs("</ul>\n", out);
}

static void put_swatch(const char *class, const char *text, FILE *out) {
    fprintf(out, "<li><svg aria-hidden=\"true\"><rect class=\"%s\" width=\"100%%\" height=\"100%%\"/></svg>", class);
    page_text(text, out);
    fputs("</li>\n", out);
}

static void put_legend(const struct run *run, const struct legend *legend, FILE *out) {
    char name[64], text[80], class[32];
    fputs("<ul class=\"legend\">\n", out);
    put_swatch("live", "live", out);
    for (uint32_t i = 0; i < legend->coloured_count; i++) {
        snprintf(class, sizeof class, "c%u idle", i);
        snprintf(text, sizeof text, "idle on %s", stream_name(run, legend->coloured[i], name, sizeof name));
        put_swatch(class, text, out);
    }
    if (run->timeline->has_idle) put_swatch("c7 idle", "idle on others", out);
    if (run->timeline->holds) put_swatch("rest", run->timeline->has_idle ? "held otherwise" : "held, not live", out);
    fputs("</ul>\n", out);
}

static void put_report(const struct outcome *outcome, FILE *out) {
    if (outcome->ending != ENDED_OUT_OF_MEMORY || outcome->report[0] == '\0') return;
    fputs("<h2>What filled the device</h2>\n<pre class=\"report\" tabindex=\"0\">", out);
    page_text(outcome->report, out);
    fputs("</pre>\n", out);
}

static void put_figure(const struct run *run, const struct legend *legend, FILE *out) {
    fputs(
        "<figure>\n<figcaption><h3>Memory and work over time</h3>\n"
        "<p>Wheel or pinch to zoom, drag to move; arrow keys, + and - do the same. Where much lies close together, "
        "memory is drawn at its fullest moment, and work in how much of the time it takes.</p></figcaption>\n"
        "<div class=\"controls\"><button type=\"button\" id=\"out\" aria-label=\"zoom out\">-</button>"
        "<button type=\"button\" id=\"in\" aria-label=\"zoom in\">+</button>"
        "<button type=\"button\" id=\"all\">whole run</button></div>\n"
        "<div class=\"stage\" id=\"stage\"><canvas id=\"canvas\" tabindex=\"0\" role=\"img\" aria-label=\"Memory over "
        "time, stacked: live, idle by stream; below it the work of each stream\"></canvas>"
        "<div class=\"tip\" id=\"tip\" hidden=\"hidden\"></div></div>\n",
        out);
    put_legend(run, legend, out);
    if (legend->left_out > 0)
        fprintf(out, "<p class=\"note\">The %u streams with least work have no rows.</p>\n", legend->left_out);
    if (run->timeline->iterations_in_one > 1)
        fprintf(out, "<p class=\"note\">One mark stands for %u iterations.</p>\n", run->timeline->iterations_in_one);
    fputs("<noscript><p class=\"note\">The picture needs its script.</p></noscript>\n</figure>\n", out);
}

void timeline_page(struct run *run, const struct outcome *outcome, FILE *out) {
    struct legend legend;
    if (make_legend(run, &legend)) {
        page_head("weir-replay: timeline", timeline_css, out);
        put_header(run, outcome, out);
        fputs("<main>\n", out);
        put_tiles(run, outcome, out);
        put_figure(run, &legend, out);
        put_report(outcome, out);
        fputs("</main>\n", out);
        put_data(run, &legend, outcome, out);
        fprintf(out, "<script>//<![CDATA[\n%s//]]></script>\n</body>\n</html>\n", timeline_js);
    }
    free(legend.colour);
    free(legend.shown);
}
