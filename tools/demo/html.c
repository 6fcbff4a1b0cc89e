/* SPDX-License-Identifier: Apache-2.0 */
/* The page: headline, the runs' figures at a glance, memory over time, the table, the words, the commands. It needs
 * nothing from elsewhere, can be read without its script, and is well-formed XML, which a test makes use of. */
#include "tools/demo/demo.h"
#include "tools/page/page.h"

#include <stdlib.h>
#include <string.h>

/* Made from demo.css and demo.js when the program is built. */
extern const char demo_css[], demo_js[];

static size_t runs_made(const struct demo *demo, const struct run *runs[DEMO_RUNS]) {
    size_t count = 0;
    for (size_t i = 0; i < DEMO_RUNS; i++)
        if (demo->runs[i]) runs[count++] = demo->runs[i];
    return count;
}

static void chip_write(const struct run *run, FILE *out) {
    if (run->outcome == RUN_COMPLETED)
        fputs("<span class=\"chip good\">completed</span>", out);
    else if (run->failed_step == DEMO_UNKNOWN)
        fputs("<span class=\"chip bad\">out of memory</span>", out);
    else
        fprintf(out, "<span class=\"chip bad\">out of memory, step %lld</span>", (long long)run->failed_step);
}

/* A part of the bar that shows what filled the device. */
static void part_write(const char *kind, const char *label, size_t bytes, size_t capacity_bytes, FILE *out) {
    double percent = 100.0 * (double)bytes / (double)capacity_bytes;
    if (percent < 0.05) return;
    fprintf(out, "<i class=\"%s\" style=\"width:%.2f%%\" title=\"%s: %.1f MiB\"></i>", kind, percent, label,
            mebibytes(bytes));
}

/* A run at a glance: its name, how it ended, the utilisation, and what filled the device then. */
static void tile_write(const struct run *run, FILE *out) {
    struct figures figures = run_figures(run);
    bool refused = run->outcome == RUN_OUT_OF_MEMORY;
    size_t live = refused ? figures.live_bytes : figures.peak_live_bytes;
    fputs("<li class=\"tile\"><h3>", out);
    page_text(run->name, out);
    fputs("</h3>", out);
    chip_write(run, out);
    fprintf(out, "<p class=\"big\">%.1f<small> %%</small></p><p class=\"what\">of the device live%s, batch %lld</p>",
            100.0 * figures.utilisation, refused ? " when it failed" : " at the peak", (long long)run->batch);
    fputs("<p class=\"bar\">", out);
    part_write("live", "live", live, figures.capacity_bytes, out);
    if (refused) {
        part_write("asker", "idle on the asking stream", figures.idle_asker_bytes, figures.capacity_bytes, out);
        part_write("others", "idle on other streams", figures.idle_others_bytes, figures.capacity_bytes, out);
    }
    fputs("</p></li>\n", out);
}

static void tiles_write(const struct run *const *runs, size_t count, FILE *out) {
    fputs("<ul class=\"tiles\">\n", out);
    for (size_t i = 0; i < count; i++) tile_write(runs[i], out);
    fputs("</ul>\n<p class=\"key\"><span><i class=\"live\"></i>live</span><span><i class=\"asker\"></i>idle on the "
          "asking "
          "stream</span><span><i class=\"others\"></i>idle on other streams</span></p>\n",
          out);
}

static void head_write(const struct demo *demo, FILE *out) {
    page_head("weir demo", demo_css, out);
    fputs("<body>\n<header>\n<p class=\"brand\">weir demo</p>\n<h1>", out);
    demo_headline(demo, out);
    fputs("</h1>\n", out);
    if (strcmp(demo->measured->device, "emulated") == 0)
        fputs("<p class=\"note\">The device is emulated and a scale model: MiB here stand for GiB on a GPU. No GPU was "
              "used.</p>\n",
              out);
    fputs("</header>\n<main>\n", out);
}

/* Hatched fills for idle memory, one a colour; drawn in the stretched units of the pictures. */
static void hatches_write(FILE *out) {
    fputs("<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\n", out);
    for (size_t i = 0; i < CHART_COLOURS; i++)
        fprintf(out,
                "<pattern id=\"idle%zu\" class=\"c%zu\" width=\"5\" height=\"50\" patternUnits=\"userSpaceOnUse\">"
                "<rect class=\"tint\" width=\"5\" height=\"50\"/><path d=\"M0 50L5 0H2.8L0 28ZM5 50V28L2.8 "
                "50Z\"/></pattern>\n",
                i, i);
    fputs("</defs></svg>\n", out);
}

static void legend_write(const struct chart_frame *frame, FILE *out) {
    fputs("<ul class=\"legend\">\n", out);
    for (size_t i = 0; i < frame->name_count; i++) {
        fprintf(
            out,
            "<li><svg viewBox=\"0 0 10 100\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"c%zu\" "
            "width=\"5\" height=\"100\"/><rect x=\"5\" width=\"5\" height=\"100\" fill=\"url(#idle%zu)\"/></svg>",
            i, i);
        page_text(frame->names[i], out);
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void pictures_write(const struct chart_frame *frame, const struct run *const *runs, size_t count, FILE *out) {
    fputs(
        "<section>\n<h2>Memory over time</h2>\n<p>MiB on the rank that ran out of memory, else on the fullest. Solid: "
        "live, by the stream it was allocated on. Hatched: idle, by the stream that used it last. Each step is drawn "
        "equally wide, its requests for memory evenly in their order.</p>\n",
        out);
    hatches_write(out);
    legend_write(frame, out);
    for (size_t i = 0; i < count; i++) {
        char text[160];
        run_what_happened(runs[i], text, sizeof text);
        fputs("<figure>\n<figcaption><h3>", out);
        page_text(runs[i]->name, out);
        fputs("</h3> ", out);
        chip_write(runs[i], out);
        fprintf(out, "<p>Rank %lld, batch %lld: %s.</p></figcaption>\n", (long long)run_subject(runs[i])->rank,
                (long long)runs[i]->batch, text);
        chart_write(frame, runs[i], i, out);
        fputs("</figure>\n", out);
    }
    fputs("</section>\n", out);
}

static void figures_write(const struct run *const *runs, size_t count, FILE *out) {
    fputs("<section>\n<h2>Figures</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Figures\">\n<table>\n"
          "<caption>Memory in MiB, of the rank that ran out of memory, else of the fullest. Utilisation: live over "
          "capacity at the failing request, else at the peak.</caption>\n<thead><tr>",
          out);
    for (size_t c = 0; c < TABLE_COLUMNS; c++) {
        fprintf(out, "<th scope=\"col\">%s", table_heads[c][0]);
        if (table_heads[c][1][0]) fprintf(out, " %s", table_heads[c][1]);
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; i < count; i++) {
        struct table_row row = table_row_of(runs[i]);
        fputs("<tr><th scope=\"row\">", out);
        page_text(row.cell[0], out);
        fputs("</th>", out);
        for (size_t c = 1; c < TABLE_COLUMNS; c++) {
            fputs(c == 8 ? "<td class=\"word\">" : "<td>", out);
            page_text(row.cell[c], out);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n</section>\n", out);
}

static void paragraph(void *to, const char *sentence) {
    fputs("<p>", to);
    page_text(sentence, to);
    fputs("</p>\n", to);
}

static void commands_write(const struct demo *demo, FILE *out) {
    fputs("<section>\n<h2>Made by</h2>\n<ul class=\"commands\">\n", out);
    for (size_t i = 0; i < demo->command_count; i++) {
        fputs("<li><code>", out);
        page_text(demo->commands[i], out);
        fputs("</code></li>\n", out);
    }
    fprintf(out, "</ul>\n<p>In %.0f seconds, on ", demo->seconds);
    page_text(demo->measured->data_path, out);
    fprintf(out, " (%lld bytes).</p>\n</section>\n", (long long)demo->measured->data_bytes);
}

/* The script's data. A name may hold any text, so what could end the element early is written as an escape. */
static void data_write(const struct chart_frame *frame, const struct run *const *runs, size_t count, FILE *out) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, chart_columns(frame, runs[i]));
    char *text = json_dumps(list, JSON_COMPACT | JSON_ENSURE_ASCII);
    fputs("<script type=\"application/json\" id=\"runs\">", out);
    for (const char *at = text ? text : "[]"; *at; at++) {
        if (*at == '<' || *at == '&')
            fprintf(out, "\\u%04x", (unsigned)*at);
        else
            fputc(*at, out);
    }
    fputs("</script>\n", out);
    free(text);
    json_decref(list);
}

void demo_html(const struct demo *demo, FILE *out) {
    const struct run *runs[DEMO_RUNS];
    struct chart_frame frame;
    size_t count = runs_made(demo, runs);
    chart_frame_make(&frame, runs, count);
    head_write(demo, out);
    tiles_write(runs, count, out);
    pictures_write(&frame, runs, count, out);
    figures_write(runs, count, out);
    fputs("<section>\n<h2>What was shown</h2>\n", out);
    demo_words(demo, paragraph, out);
    fputs("</section>\n", out);
    commands_write(demo, out);
    fputs("</main>\n", out);
    data_write(&frame, runs, count, out);
    fputs("<script>\n", out);
    fputs(demo_js, out);
    fputs("</script>\n</body>\n</html>\n", out);
}
