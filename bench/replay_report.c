/* SPDX-License-Identifier: Apache-2.0 */
/* How far weir's own policy reaches its goals: by group and family of traces, and law. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/figures.h"
#include "bench/replay.h"

/* ---- figures of one row ------------------------------------------------------------------------------------------ */

/* The point of the curve at that multiple of the peak, or at the next whole page; NULL: none. */
static const json_t *point_at(const struct row *row, double capacity) {
    const json_t *point;
    size_t index;
    json_array_foreach(json_object_get(row->report, "curve"), index,
                       point) if (json_number_value(json_object_get(point, "capacity_ratio")) >
                                  capacity - 1e-5) return point;
    return NULL;
}

static double number_or(const json_t *value, double otherwise) {
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* What the answer leaves out of a run with a clock is beyond all: it did not complete. */
static double slowdown_at(const struct row *row, double capacity) {
    const json_t *point = point_at(row, capacity);
    if (point == NULL || row->law == NULL) return (double)NAN;
    return number_or(json_object_get(point, "slowdown"), (double)INFINITY);
}

static double honest_of(const struct row *row) {
    if (row->law == NULL) return (double)NAN;
    return number_or(json_object_get(row->report, "honest_capacity_ratio"), (double)INFINITY);
}

static double smallest_of(const struct row *row) {
    return number_or(json_object_get(row->report, "min_capacity_ratio"), (double)INFINITY);
}

/* ---- a line: one figure over the traces of a group and family ---------------------------------------------------- */

enum figure { SLOWDOWN, HONEST, SMALLEST, ABOVE_LIVE };

struct line {
    const struct subject *first; /* of its group */
    enum family family;
    size_t law; /* LAWS: no clock */
    enum figure figure;
    size_t point; /* SLOWDOWN */
    struct goal goal;
    struct side {
        double values[MOST_TRACES];
        size_t count, met;
    } open, blind;
};

static double value_of(const struct line *line, const struct row *row) {
    switch (line->figure) {
    case SLOWDOWN:
        return slowdown_at(row, goal_capacities[line->point]);
    case HONEST:
        return honest_of(row);
    case SMALLEST:
        return smallest_of(row);
    case ABOVE_LIVE:
        return (smallest_of(row) - 1) * row->subject->live_bytes / (1 << 20);
    }
    return (double)NAN;
}

static void add_value(const struct line *line, const struct row *row, struct side *side) {
    const double value = row != NULL ? value_of(line, row) : (double)NAN;
    const double judged = row != NULL && line->figure == ABOVE_LIVE ? smallest_of(row) : value;
    if (isnan(value)) return;
    side->met += goal_met(line->goal, judged, row->subject->live_bytes) ? 1 : 0;
    side->values[side->count++] = value;
}

static void fill(struct line *line, const struct results *results) {
    const char *law = line->law < LAWS ? law_names[line->law] : NULL;
    line->open.count = line->open.met = line->blind.count = line->blind.met = 0;
    for (size_t i = 0; i < results->subject_count; i++) {
        const struct subject *subject = &results->subjects[i];
        const bool timed = subject->laws[0] || subject->laws[1] || subject->laws[2];
        if (!same_group(subject, line->first) || subject->family != line->family || timed != (law != NULL)) continue;
        add_value(line, find_row(results, subject, "weir", law, false), &line->open);
        add_value(line, find_row(results, subject, "weir", law, true), &line->blind);
    }
}

typedef void take_line(const struct line *line, void *to);

static void take_figures(struct line *line, const struct results *results, take_line *take, void *to) {
    for (line->point = 0, line->figure = SLOWDOWN; line->point < GOAL_POINTS; line->point++) {
        line->goal = goal_of_slowdown(line->family, line->law < LAWS ? line->law : 0, line->point);
        fill(line, results);
        if (line->open.count > 0) take(line, to);
    }
    for (line->figure = HONEST; line->figure <= ABOVE_LIVE; line->figure++) {
        line->goal = line->figure == HONEST ? goal_of_honest(line->family, line->law < LAWS ? line->law : 0)
                                            : goal_of_smallest();
        fill(line, results);
        if (line->open.count > 0) take(line, to);
    }
}

static bool is_first_of_group(const struct results *results, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (same_group(&results->subjects[i], &results->subjects[at])) return false;
    return true;
}

static void take_lines(const struct results *results, take_line *take, void *to) {
    static struct line line;
    for (size_t i = 0; i < results->subject_count; i++) {
        if (!is_first_of_group(results, i)) continue;
        for (int family = 0; family < FAMILIES; family++)
            for (line.law = 0; line.law <= LAWS; line.law++) {
                line.first = &results->subjects[i];
                line.family = (enum family)family;
                take_figures(&line, results, take, to);
            }
    }
}

/* ---- as a table -------------------------------------------------------------------------------------------------- */

static void put_value(enum figure figure, double value) {
    if (!isfinite(value))
        printf(" %10s", isnan(value) ? "-" : "none");
    else if (figure == SLOWDOWN)
        printf(" %8.3f %%", 100 * value);
    else if (figure == ABOVE_LIVE)
        printf(" %6.0f MiB", value);
    else
        printf(" %8.3f x", value);
}

static void put_side(const struct line *line, const struct side *side) {
    char met[32];
    put_value(line->figure, figures_median(side->values, side->count));
    put_value(line->figure, figures_most(side->values, side->count));
    snprintf(met, sizeof met, "%zu of %zu", side->met, side->count);
    printf(" %9s", side->count > 0 ? met : "-");
}

static void put_line(const struct line *line, void *to) {
    char what[32], goal[48];
    (void)to;
    const bool begins = line->figure == SMALLEST ? line->law == LAWS : line->figure == SLOWDOWN && line->point == 0;
    if (begins)
        printf("%.*s, %s, %s%s\n", (int)group_length(line->first), line->first->name, family_names[line->family],
               line->law < LAWS ? "law " : "no clock", line->law < LAWS ? law_names[line->law] : "");
    snprintf(what, sizeof what, "slower on %.2f x live by", goal_capacities[line->point % GOAL_POINTS]);
    snprintf(goal, sizeof goal, line->figure == SLOWDOWN ? "%.3g %%" : "%.2f x%s",
             line->figure == SLOWDOWN ? 100 * line->goal.at_most : line->goal.at_most,
             line->goal.or_bytes > 0 ? ", + 48 MiB" : "");
    if (line->figure != SLOWDOWN)
        snprintf(what, sizeof what, "%s",
                 line->figure == HONEST     ? "honest device, 1 %"
                 : line->figure == SMALLEST ? "smallest device"
                                            : "  above live");
    printf("  %-26s %-19s", what, goal);
    put_side(line, &line->open);
    put_side(line, &line->blind);
    printf("\n");
}

void put_goals(const struct results *results) {
    printf(
        "\nGoals of weir's own policy (latency): how many traces meet them. A goal of 0 is met below %.3f %%, one with "
        "\"+ 48 MiB\" "
        "also by a\ndevice so little above live. none: it does not complete, or 3 x is not enough. blind: the pool "
        "sees no "
        "events or waits of the\nprogram; its devices, where they are others, are bisected only.\n  %-26s %-19s %10s "
        "%10s %9s %10s %10s %9s\n",
        100 * GOAL_ZERO, "", "goal, at most", "median", "worst", "met", "blind: med", "worst", "met");
    take_lines(results, put_line, NULL);
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static json_t *number_json(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *side_json(const struct side *side) {
    return json_pack("{s:o, s:o, s:I, s:I}", "median", number_json(figures_median(side->values, side->count)), "worst",
                     number_json(figures_most(side->values, side->count)), "met", (json_int_t)side->met, "traces",
                     (json_int_t)side->count);
}

static void append_line(const struct line *line, void *to) {
    static const char *const names[] = {"slowdown", "honest_capacity_ratio", "min_capacity_ratio",
                                        "min_above_live_mib"};
    json_t *entry = json_object();
    json_object_set_new(entry, "group", json_stringn(line->first->name, group_length(line->first)));
    json_object_set_new(entry, "family", json_string(family_names[line->family]));
    json_object_set_new(entry, "law", line->law < LAWS ? json_string(law_names[line->law]) : json_null());
    json_object_set_new(entry, "figure", json_string(names[line->figure]));
    json_object_set_new(entry, "capacity_ratio",
                        number_json(line->figure == SLOWDOWN ? goal_capacities[line->point] : (double)NAN));
    json_object_set_new(entry, "goal", json_real(line->goal.at_most));
    json_object_set_new(entry, "or_above_live_bytes",
                        line->goal.or_bytes > 0 ? json_real(line->goal.or_bytes) : json_null());
    json_object_set_new(entry, "open", side_json(&line->open));
    json_object_set_new(entry, "blind", line->blind.count > 0 ? side_json(&line->blind) : json_null());
    json_array_append_new(to, entry);
}

json_t *goals_json(const struct results *results) {
    json_t *list = json_array();
    take_lines(results, append_line, list);
    return list;
}

/* ---- what repeats ------------------------------------------------------------------------------------------------ */

static bool is_zero(const json_t *point, const char *key) {
    const json_t *value = json_object_get(point, key);
    return json_is_integer(value) && json_integer_value(value) == 0;
}

typedef void take_point(const struct row *row, const json_t *point, double capacity, void *to);

static void take_points(const struct results *results, take_point *take, void *to) {
    for (size_t i = 0; i < results->row_count; i++) {
        const struct row *row = &results->rows[i];
        if (!row->subject->repeats || row->blind || strcmp(row->allocator, "weir") != 0) continue;
        for (size_t point = 0; point < GOAL_POINTS; point++)
            take(row, point_at(row, goal_capacities[point]), goal_capacities[point], to);
    }
}

static void put_count(const json_t *point, const char *key) {
    const json_t *value = json_object_get(point, key);
    if (json_is_integer(value))
        printf(" %8lld", (long long)json_integer_value(value));
    else
        printf(" %8s", "-");
}

static void put_point(const struct row *row, const json_t *point, double capacity, void *to) {
    size_t *met = to;
    if (capacity <= goal_capacities[0])
        printf("%s  %-40s %-7s", met[1] > 0 ? "\n" : "", row->subject->name, row->law != NULL ? row->law : "none");
    put_count(point, "memory_calls_steady");
    put_count(point, "host_waits_steady");
    met[0] += is_zero(point, "memory_calls_steady") && is_zero(point, "host_waits_steady");
    met[1]++;
}

void put_steady(const struct results *results) {
    size_t met[2] = {0, 0};
    printf("\nFrom the third of the same passes on, where they repeat exactly: memory calls and host waits, goal 0 of "
           "each; -: out of "
           "memory before.\n  %-40s %-7s",
           "", "law");
    for (size_t point = 0; point < GOAL_POINTS; point++) printf(" %10.2f x live", goal_capacities[point]);
    printf("\n");
    take_points(results, put_point, met);
    printf("%smet on %zu of %zu devices\n", met[1] > 0 ? "\n" : "", met[0], met[1]);
}

static void append_point(const struct row *row, const json_t *point, double capacity, void *to) {
    static const char *const keys[] = {"outcome", "memory_calls_steady", "host_waits_steady"};
    json_t *entry = json_object();
    json_object_set_new(entry, "trace", json_string(row->subject->name));
    json_object_set_new(entry, "law", row->law != NULL ? json_string(row->law) : json_null());
    json_object_set_new(entry, "capacity_ratio", json_real(capacity));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(entry, keys[i], json_object_get(point, keys[i]));
    json_object_set_new(entry, "met",
                        json_boolean(is_zero(point, "memory_calls_steady") && is_zero(point, "host_waits_steady")));
    json_array_append_new(to, entry);
}

json_t *steady_json(const struct results *results) {
    json_t *list = json_array();
    take_points(results, append_point, list);
    return list;
}
