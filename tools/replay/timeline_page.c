/* SPDX-License-Identifier: Apache-2.0 */
/* The page: what the run came to, the picture's place, and its data. The script (timeline.js) draws. */
#include <inttypes.h>
#include <string.h>

#include "timeline_inside.h"
#include "tools/page/page.h"

/* Made from timeline.css and the scripts when the program is built. */
extern const char timeline_css[], timeline_data_js[], timeline_js[], timeline_hand_js[];

enum { MOST_ROWS = 48 };

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
            shown >= 100 || ns == 0 ? 0
            : shown >= 10           ? 1
                                    : 2,
            shown,
            us >= 1e6   ? "s"
            : us >= 1e3 ? "ms"
                        : "us");
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
    timeline_allocator_name(setup, allocator, sizeof allocator);
    fputs("<body>\n<header>\n<p class=\"brand\">weir-replay</p>\n<h1>", out);
    page_text(timeline_trace_name(setup), out);
    fputs("</h1>\n<p>", out);
    put_chip(outcome, out);
    fputs(" with ", out);
    page_text(allocator, out);
    if (timeline_has_capacity(run)) {
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

static void put_tiles(const struct run *run, const struct outcome *outcome, FILE *out) {
    fputs("<ul class=\"tiles\">\n", out);
    begin_tile(out);
    put_bytes(run->timeline->live.bytes, out);
    end_tile("live at the peak", out);
    if (outcome->peak_held_bytes != NOT_KNOWN) {
        begin_tile(out);
        put_bytes(outcome->peak_held_bytes, out);
        end_tile("held at the peak", out);
    }
    if (run->timeline->tells_idle) {
        begin_tile(out);
        put_bytes(run->timeline->stranded.bytes, out);
        end_tile("stranded at the peak", out);
    }
    begin_tile(out);
    put_time(timeline_end_ns(run, outcome), out);
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
        snprintf(text, sizeof text, "idle on %s", timeline_row_name(run, legend->coloured[i], name, sizeof name));
        put_swatch(class, text, out);
    }
    if (run->timeline->has_idle) put_swatch("c7 idle", "idle on others", out);
    if (run->timeline->holds) put_swatch("rest", run->timeline->has_idle ? "held otherwise" : "held, not live", out);
    if (run->timeline->tells_idle)
        put_swatch("stranded", "stranded: idle on other streams when a request was short of memory", out);
    if (timeline_has_capacity(run)) put_swatch("capacity", "capacity of the device", out);
    fputs("</ul>\n", out);
}

static void put_report(const struct outcome *outcome, FILE *out) {
    if (outcome->ending != ENDED_OUT_OF_MEMORY || outcome->report[0] == '\0') return;
    fputs("<h2>What filled the device</h2>\n<pre class=\"report\" tabindex=\"0\">", out);
    page_text(outcome->report, out);
    fputs("</pre>\n", out);
}

/* Which requests are there one by one. */
static void put_kept_note(const struct requests *requests, FILE *out) {
    uint64_t kept = 0;
    for (unsigned i = 0; i < requests->part_count; i++) kept += requests->parts[i].count;
    if (kept == 0) return;
    fprintf(
        out,
        "<p class=\"note\">Zoomed in, requests are shown one by one, with size, stream and line of the trace; n and "
        "p go to the next and the one before");
    if (requests->dropped > 0)
        fprintf(out, ": the last %" PRIu64 " of them. The %" PRIu64 " before are there as intervals", kept,
                requests->dropped);
    fputs(".</p>\n", out);
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
        "time, stacked: live, idle by stream; below it what was stranded, the requests and the work of each "
        "stream\"></canvas><div class=\"tip\" id=\"tip\" hidden=\"hidden\"></div></div>\n",
        out);
    put_legend(run, legend, out);
    put_kept_note(&run->timeline->requests, out);
    if (legend->left_out > 0)
        fprintf(out, "<p class=\"note\">The %u streams with least work have no rows.</p>\n", legend->left_out);
    if (run->timeline->iterations_in_one > 1)
        fprintf(out, "<p class=\"note\">One mark stands for %u iterations.</p>\n", run->timeline->iterations_in_one);
    fputs("<noscript><p class=\"note\">The picture needs its script.</p></noscript>\n</figure>\n", out);
}

static void put_page(const struct run *run, const struct legend *legend, const struct outcome *outcome, FILE *out) {
    page_head("weir-replay: timeline", timeline_css, out);
    put_header(run, outcome, out);
    fputs("<main>\n", out);
    put_tiles(run, outcome, out);
    put_figure(run, legend, out);
    put_report(outcome, out);
    fputs("</main>\n", out);
    timeline_data(run, legend, outcome, out);
    fprintf(out, "<script>//<![CDATA[\n%s%s%s//]]></script>\n</body>\n</html>\n", timeline_data_js, timeline_js,
            timeline_hand_js);
}

bool timeline_page(const struct run *run, const struct outcome *outcome, FILE *out) {
    struct legend legend;
    const bool made = legend_make(run, MOST_ROWS, &legend);
    if (made) put_page(run, &legend, outcome, out);
    legend_free(&legend);
    return made;
}
