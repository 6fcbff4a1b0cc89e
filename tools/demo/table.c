/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the runs, as text. */
#include "tools/demo/demo.h"

#include <math.h>
#include <string.h>

const char *const table_heads[TABLE_COLUMNS][2] = {
    {"run", ""},
    {"batch", ""},
    {"capacity", ""},
    {"peak live", ""},
    {"live at", "the end"},
    {"idle on", "the asker"},
    {"idle on", "other streams"},
    {"utilisation", ""},
    {"outcome", ""},
    {"smallest", "device"},
};

double mebibytes(size_t bytes) { return (double)bytes / (1 << 20); }

static void cell_memory(size_t bytes, char *text) { snprintf(text, TABLE_CELL_ROOM, "%.1f", mebibytes(bytes)); }

static void cell_outcome(const struct run *run, char *text) {
    if (run->outcome == RUN_COMPLETED)
        snprintf(text, TABLE_CELL_ROOM, "completed");
    else if (run->failed_step == DEMO_UNKNOWN)
        snprintf(text, TABLE_CELL_ROOM, "OOM");
    else
        snprintf(text, TABLE_CELL_ROOM, "OOM, step %lld", (long long)run->failed_step);
}

struct table_row table_row_of(const struct run *run) {
    struct table_row row;
    struct figures figures = run_figures(run);
    snprintf(row.cell[0], TABLE_CELL_ROOM, "%s", run->name);
    snprintf(row.cell[1], TABLE_CELL_ROOM, "%lld", (long long)run->batch);
    cell_memory(figures.capacity_bytes, row.cell[2]);
    cell_memory(figures.peak_live_bytes, row.cell[3]);
    cell_memory(figures.live_bytes, row.cell[4]);
    if (run->outcome == RUN_OUT_OF_MEMORY)
        cell_memory(figures.idle_asker_bytes, row.cell[5]);
    else
        snprintf(row.cell[5], TABLE_CELL_ROOM, "-");
    cell_memory(figures.idle_others_bytes, row.cell[6]);
    snprintf(row.cell[7], TABLE_CELL_ROOM, "%.1f %%", 100.0 * figures.utilisation);
    cell_outcome(run, row.cell[8]);
    if (isnan(run->min_capacity_ratio))
        snprintf(row.cell[9], TABLE_CELL_ROOM, "-");
    else
        snprintf(row.cell[9], TABLE_CELL_ROOM, "%.3f x live", run->min_capacity_ratio);
    return row;
}

static size_t longer(size_t width, const char *text) { return strlen(text) > width ? strlen(text) : width; }

/* Text is set flush left, figures flush right; lines end without blanks. */
static void line_write(const char *const cells[TABLE_COLUMNS], const size_t widths[TABLE_COLUMNS], FILE *out) {
    char line[TABLE_COLUMNS * (TABLE_CELL_ROOM + 3) + 1];
    int length = 0;
    for (size_t c = 0; c < TABLE_COLUMNS; c++) {
        bool left = c == 0 || c == 8;
        length += snprintf(line + length, sizeof line - (size_t)length, left ? "%s%-*s" : "%s%*s", c ? "   " : "",
                           (int)widths[c], cells[c]);
    }
    while (length > 0 && line[length - 1] == ' ') length--;
    fprintf(out, "%.*s\n", length, line);
}

void demo_table(const struct demo *demo, FILE *out) {
    struct table_row rows[DEMO_RUNS];
    size_t widths[TABLE_COLUMNS] = {0}, count = 0;
    for (size_t i = 0; i < DEMO_RUNS; i++)
        if (demo->runs[i]) rows[count++] = table_row_of(demo->runs[i]);
    for (size_t c = 0; c < TABLE_COLUMNS; c++) {
        widths[c] = longer(longer(0, table_heads[c][0]), table_heads[c][1]);
        for (size_t i = 0; i < count; i++) widths[c] = longer(widths[c], rows[i].cell[c]);
    }
    for (size_t h = 0; h < 2; h++) {
        const char *heads[TABLE_COLUMNS];
        for (size_t c = 0; c < TABLE_COLUMNS; c++) heads[c] = table_heads[c][h];
        line_write(heads, widths, out);
    }
    for (size_t i = 0; i < count; i++) {
        const char *cells[TABLE_COLUMNS];
        for (size_t c = 0; c < TABLE_COLUMNS; c++) cells[c] = rows[i].cell[c];
        line_write(cells, widths, out);
    }
}
