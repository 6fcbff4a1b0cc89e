/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a picture: above, how much slower the job gets on smaller devices, a line for each allocator; below, a row
 * for each, with a field for each device: what it costs there, or that memory ran out. Each device tried is equally
 * wide, since what is of interest lies close to 1. */
#include <math.h>
#include <string.h>

#include "bench/report.h"
#include "tools/page/page.h"

#define LEFT   186.0 /* of the fields; names stand before them */
#define WIDE   1000.0
#define TOP    14.0
#define HIGH   230.0 /* of the lines */
#define ROW    24.0
#define LEAST  1e-4 /* slowdowns up to this one lie on the floor */
#define MOST   30.0
#define HONEST 0.01

enum { MOST_DEVICES = 32 };

/* The devices that all results of a trace have, ascending. */
struct grid {
    double ratio[MOST_DEVICES];
    size_t count;
};

static double nominal(double ratio) { return round(ratio * 1000) / 1000; } /* devices are whole pages */

static bool is_shown(const json_t *result) { return json_array_size(json_object_get(result, "curve")) > 0; }

static struct grid grid_of(const json_t *results) {
    struct grid grid = {.count = 0};
    const json_t *result, *point;
    size_t index, at;
    json_array_foreach(results, index, result) {
        if (!is_shown(result)) continue;
        json_array_foreach(json_object_get(result, "curve"), at, point) {
            if (grid.count < MOST_DEVICES) grid.ratio[grid.count++] = nominal(report_number(point, "capacity_ratio"));
        }
        return grid;
    }
    return grid;
}

static double step(const struct grid *grid) { return (WIDE - LEFT) / (double)grid->count; }
static double centre(const struct grid *grid, size_t column) { return LEFT + ((double)column + 0.5) * step(grid); }

/* Between the devices that were tried, by proportion. */
static double place(const struct grid *grid, double ratio) {
    size_t i = 0;
    while (i + 1 < grid->count && grid->ratio[i + 1] < ratio) i++;
    if (i + 1 >= grid->count || ratio <= grid->ratio[0])
        return centre(grid, ratio <= grid->ratio[0] ? 0 : grid->count - 1);
    return centre(grid, i) + step(grid) * (ratio - grid->ratio[i]) / (grid->ratio[i + 1] - grid->ratio[i]);
}

static double height(double slowdown) {
    const double part = log(fmin(fmax(slowdown, LEAST), MOST) / LEAST) / log(MOST / LEAST);
    return TOP + HIGH * (1 - part);
}

/* As short as it can be read: 0, 0.3, 12, 250. */
static void per_cent(double slowdown, char text[16]) {
    const double value = 100 * slowdown;
    snprintf(text, 16, value < 0.005 ? "0" : value < 0.095 ? "%.2f" : value < 9.95 ? "%.1f" : "%.0f", value);
}

/* ---- the frame --------------------------------------------------------------------------------------------------- */

static void put_levels(FILE *out) {
    static const struct {
        double slowdown;
        const char *name;
    } levels[] = {{LEAST, "0"}, {1e-3, "0.1 %"}, {1e-2, "1 %"}, {0.1, "10 %"}, {1, "100 %"}, {10, "1000 %"}};
    fprintf(out, "<rect class=\"fair\" x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.1f\"/>\n", LEFT, height(HONEST),
            WIDE - LEFT, TOP + HIGH - height(HONEST));
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const double y = height(levels[i].slowdown);
        fprintf(out,
                "<path class=\"level\" d=\"M%.0f %.1fH%.0f\"/><text class=\"end\" x=\"%.0f\" y=\"%.1f\">%s</text>\n",
                LEFT, y, WIDE, LEFT - 8, y + 4, levels[i].name);
    }
    fprintf(out, "<text x=\"0\" y=\"%.0f\">slower by</text>\n", TOP + 4);
}

static void put_devices(const struct grid *grid, FILE *out) {
    const double y = TOP + HIGH + 18;
    fprintf(out,
            "<text x=\"0\" y=\"%.0f\">device, x peak live</text>\n<text x=\"0\" y=\"%.0f\">utilisation at the "
            "peak</text>\n",
            y, y + 16);
    for (size_t i = 0; i < grid->count; i++)
        fprintf(out,
                "<text class=\"middle strong\" x=\"%.1f\" y=\"%.0f\">%g</text><text class=\"middle\" x=\"%.1f\" "
                "y=\"%.0f\">%.0f %%</text>\n",
                centre(grid, i), y, grid->ratio[i], centre(grid, i), y + 16, 100 / grid->ratio[i]);
}

/* ---- one allocator ----------------------------------------------------------------------------------------------- */

/* Lines join devices beside each other that both complete. */
static void put_line(const struct grid *grid, const json_t *result, FILE *out) {
    const json_t *curve = json_object_get(result, "curve"), *point;
    const size_t colour = report_colour(report_text(result, "allocator"));
    char text[16];
    size_t index;
    bool joined = false;
    fprintf(out, "<path class=\"line s%zu\" d=\"", colour);
    json_array_foreach(curve, index, point) {
        const double slowdown = report_number(point, "slowdown");
        if (index < grid->count && isfinite(slowdown))
            fprintf(out, "%c%.1f %.1f", joined ? 'L' : 'M', centre(grid, index), height(slowdown));
        joined = isfinite(slowdown);
    }
    fputs("\"/>\n", out);
    json_array_foreach(curve, index, point) {
        const double slowdown = report_number(point, "slowdown");
        if (index >= grid->count || !isfinite(slowdown)) continue;
        per_cent(slowdown, text);
        fprintf(out, "<circle class=\"c%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\"><title>", colour, centre(grid, index),
                height(slowdown));
        page_text(report_name(report_text(result, "allocator")), out);
        fprintf(out, " on %g x: %s %% slower</title></circle>\n", grid->ratio[index], text);
    }
}

static void put_field(const struct grid *grid, const json_t *point, size_t column, double y, FILE *out) {
    const double slowdown = report_number(point, "slowdown"), x = centre(grid, column) - step(grid) / 2;
    const bool completed = strcmp(report_text(point, "outcome"), "completed") == 0;
    char text[16] = "out";
    if (completed) snprintf(text, sizeof text, "%s", "done");
    if (isfinite(slowdown)) per_cent(slowdown, text);
    const char *shade = !completed ? "oom" : slowdown <= HONEST ? "fine" : slowdown <= 0.1 ? "slow" : "slower";
    fprintf(
        out,
        "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/><text class=\"middle in\" x=\"%.1f\" "
        "y=\"%.1f\">%s</text>\n",
        shade, x + 0.5, y + 1, step(grid) - 1, ROW - 2, centre(grid, column), y + ROW / 2 + 4, text);
}

/* Where the smallest device lies (a tick), and the honest one (a diamond). */
static void put_marks(const struct grid *grid, const json_t *result, double y, FILE *out) {
    const double least = report_number(result, "min_capacity_ratio"),
                 honest = report_number(result, "honest_capacity_ratio");
    if (isfinite(least))
        fprintf(out, "<path class=\"least\" d=\"M%.1f %.1fv%.1f\"><title>smallest device: %.3f x</title></path>\n",
                place(grid, least), y + 1, ROW - 2, least);
    if (isfinite(honest))
        fprintf(out,
                "<path class=\"honest\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"><title>at most 1 %% slower from %.3f x "
                "on</title></path>\n",
                place(grid, honest), y + ROW - 9, honest);
}

static void put_row(const struct grid *grid, const json_t *result, double y, FILE *out) {
    const char *key = report_text(result, "allocator");
    const json_t *point;
    size_t index;
    fprintf(out,
            "<rect class=\"c%zu\" x=\"0\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\"/><text class=\"strong\" "
            "x=\"19\" y=\"%.1f\">",
            report_colour(key), y + 6, y + ROW / 2 + 4);
    page_text(report_name(key), out);
    fputs("</text>\n", out);
    json_array_foreach(json_object_get(result, "curve"), index, point) {
        if (index < grid->count) put_field(grid, point, index, y, out);
    }
    put_marks(grid, result, y, out);
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

static void put_lines(const struct grid *grid, const json_t *results, FILE *out) {
    const json_t *result;
    for (size_t i = json_array_size(results); i-- > 0;) /* the first one lies on top */
        if ((result = json_array_get(results, i)) != NULL && is_shown(result)) put_line(grid, result, out);
}

void report_curves(const json_t *trace, size_t index, FILE *out) {
    const json_t *results = json_object_get(trace, "results"), *result;
    const struct grid grid = grid_of(results);
    size_t at, rows = 0;
    if (grid.count == 0) {
        fputs("<p class=\"none\">No allocator has figures of this trace.</p>\n", out);
        return;
    }
    json_array_foreach(results, at, result) rows += is_shown(result) ? 1 : 0;
    const double first_row = TOP + HIGH + 48;
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Devices\">\n<svg class=\"curves\" "
            "viewBox=\"0 0 %.0f %.0f\" "
            "role=\"img\" aria-labelledby=\"curve%zu\">\n<title id=\"curve%zu\">Slowdown on devices of each size: ",
            WIDE, first_row + ROW * (double)rows + 2, index, index);
    page_text(report_text(trace, "name"), out);
    fputs("</title>\n", out);
    put_levels(out);
    put_devices(&grid, out);
    put_lines(&grid, results, out);
    rows = 0;
    json_array_foreach(results, at, result) {
        if (is_shown(result)) put_row(&grid, result, first_row + ROW * (double)rows++, out);
    }
    fputs("</svg>\n</div>\n", out);
}
