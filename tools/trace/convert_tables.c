/* SPDX-License-Identifier: Apache-2.0 */
/* Which log is which, which go together, and what the steps made of them come to. */
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "json_events.h"
#include "pickle_read.h"

enum { MOST_NEEDED = 5 };

struct form {
    const char *name;
    const char *needed[MOST_NEEDED + 1];
};

static const struct form forms[FORM_COUNT] = {
    [FORM_EVENTS] = {"memory events", {"op", "id", "size", "stream", "time_us"}},
    [FORM_MEMORY] = {"a profiler's memory events", {"op", "id", "size", "thread", "time_us"}},
    [FORM_LAUNCHES] = {"a profiler's device work", {"launch_us", "thread", "stream", "gpu_dur_us"}},
    [FORM_CALLS] = {"a profiler's host calls", {"call", "thread", "time_us"}},
    [FORM_LIFETIMES] = {"lifetimes", {"id", "lower", "upper", "size"}},
    [FORM_RMM] = {"RMM's log", {"Time", "Action", "Pointer", "Size", "Stream"}},
    [FORM_SNAPSHOT] = {"a PyTorch memory snapshot", {NULL}},
    [FORM_KINETO] = {"a PyTorch profiler's trace", {NULL}},
};

/* ---- which table is which --------------------------------------------------------------------------------------- */

struct match {
    enum convert_form form;
    int found;           /* of the columns that the form needs */
    const char *missing; /* the first that the header lacks; NULL: none */
};

static struct match match_form(const struct csv *csv, enum convert_form form) {
    struct match match = {.form = form};
    for (const char *const *column = forms[form].needed; *column != NULL; column++) {
        if (csv_column(csv, *column) != CSV_NO_COLUMN)
            match.found++;
        else if (match.missing == NULL)
            match.missing = *column;
    }
    return match;
}

static void list_columns(const struct form *form, char *list, size_t room) {
    *list = '\0';
    for (const char *const *column = form->needed; *column != NULL; column++) {
        if (column != form->needed) strncat(list, ", ", room - strlen(list) - 1);
        strncat(list, *column, room - strlen(list) - 1);
    }
}

/* FORM_NONE with the sentence told: which column is missing of the form that the header comes nearest to. */
static enum convert_form tell_form(struct csv *csv) {
    struct match nearest = {0};
    for (int form = FORM_NONE + 1; form <= FORM_RMM; form++) {
        const struct match match = match_form(csv, (enum convert_form)form);
        if (match.missing == NULL) return match.form;
        if (match.found > nearest.found) nearest = match;
    }
    char list[100];
    if (nearest.found < 2) {
        csv_complain(
            csv, CSV_NO_COLUMN,
            "the header names no table that is known: memory events (op, id, size, stream or thread, time_us), "
            "device work (launch_us, thread, stream, gpu_dur_us), host calls (call, thread, time_us), lifetimes "
            "(id, lower, upper, size), RMM's log (Time, Action, Pointer, Size, Stream); nor is the input a pickle or "
            "JSON");
        return FORM_NONE;
    }
    list_columns(&forms[nearest.form], list, sizeof list);
    csv_complain(csv, CSV_NO_COLUMN, "column '%s' is missing: a table of %s has %s", nearest.missing,
                 forms[nearest.form].name, list);
    return FORM_NONE;
}

static bool read_rows(struct conversion *conversion, struct csv *csv, enum convert_form form) {
    switch (form) {
    case FORM_EVENTS:
    case FORM_MEMORY:
        return convert_read_events(conversion, csv, form == FORM_MEMORY);
    case FORM_LAUNCHES:
        return convert_read_launches(conversion, csv);
    case FORM_CALLS:
        return convert_read_calls(conversion, csv);
    case FORM_LIFETIMES:
        return convert_read_lifetimes(conversion, csv);
    case FORM_RMM:
        return convert_read_rmm(conversion, csv);
    case FORM_NONE:
    case FORM_SNAPSHOT:
    case FORM_KINETO:
    case FORM_COUNT:
        break;
    }
    return false;
}

/* Does a log of this form go with the others? Told before its rows are read: they would be held against another's. */
static bool goes_together(struct conversion *conversion, const char *name, enum convert_form form, size_t count) {
    if (conversion->name[form] != NULL)
        return convert_fail(conversion, "%s: a second table of %s (the first: %s); a trace is made of one", name,
                            forms[form].name, conversion->name[form]);
    if (count == 1 || form == FORM_MEMORY || form == FORM_LAUNCHES || form == FORM_CALLS) return true;
    return convert_fail(conversion, "%s: %s%s is a trace by itself: give no other one beside it", name,
                        form < FORM_RMM ? "a table of " : "", forms[form].name);
}

static bool takes(struct conversion *conversion, const char *name, enum convert_form form, size_t count,
                  const struct convert_settings *settings) {
    const bool tells_devices = form == FORM_SNAPSHOT || form == FORM_KINETO;
    if (!goes_together(conversion, name, form, count)) return false;
    if (form == FORM_LIFETIMES && settings->live_before_bytes > 0)
        return convert_fail(conversion, "%s: lifetimes have no time before them: --live-before is for memory events",
                            name);
    if (settings->device != CONVERT_ANY_DEVICE && !tells_devices)
        return convert_fail(conversion,
                            "%s: %s tells no devices apart: --device is for snapshots and profiler's traces", name,
                            forms[form].name);
    conversion->name[form] = name;
    return true;
}

static bool read_table(struct conversion *conversion, const struct convert_input *input, size_t count,
                       const struct convert_settings *settings) {
    conversion->told_bytes = 0;
    struct csv *csv =
        csv_open(input->name, input->input, convert_read_comment, conversion, conversion->why, conversion->room);
    if (csv == NULL) return false;
    const enum convert_form form = tell_form(csv);
    if (form == FORM_EVENTS || form == FORM_MEMORY || form == FORM_RMM)
        conversion->hidden_bytes =
            settings->live_before_bytes > 0 ? settings->live_before_bytes : conversion->told_bytes;
    const bool read =
        form != FORM_NONE && takes(conversion, input->name, form, count, settings) && read_rows(conversion, csv, form);
    csv_close(csv);
    return read;
}

/* What it is, its first bytes say. */
static bool read_log(struct conversion *conversion, const struct convert_input *input, size_t count,
                     const struct convert_settings *settings) {
    const uint8_t *text;
    const size_t bytes = input_peek(input->input, &text);
    const bool pickled = pickle_begins(text, bytes), json = json_begins(text, bytes);
    if (!pickled && !json) return read_table(conversion, input, count, settings);
    if (!takes(conversion, input->name, pickled ? FORM_SNAPSHOT : FORM_KINETO, count, settings)) return false;
    conversion->hidden_bytes = settings->live_before_bytes;
    return pickled ? convert_read_snapshot(conversion, input, settings->device)
                   : convert_read_kineto(conversion, input, settings->device);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static bool make_steps(struct conversion *conversion) {
    const char *const *name = conversion->name;
    if (name[FORM_LIFETIMES] != NULL) return convert_lifetime_steps(conversion);
    if (name[FORM_KINETO] != NULL && conversion->launch_count > 0) return convert_profile_steps(conversion);
    if (name[FORM_RMM] != NULL || name[FORM_SNAPSHOT] != NULL || name[FORM_KINETO] != NULL)
        return convert_timed_steps(conversion);
    if (name[FORM_EVENTS] == NULL && name[FORM_MEMORY] == NULL)
        return convert_fail(conversion,
                            "%s says nothing of memory: give the profiler's memory events (op, id, size, thread, "
                            "time_us) too",
                            name[FORM_LAUNCHES] != NULL ? name[FORM_LAUNCHES] : name[FORM_CALLS]);
    if (name[FORM_LAUNCHES] != NULL) return convert_profile_steps(conversion);
    if (name[FORM_CALLS] != NULL)
        return convert_fail(conversion,
                            "%s: host calls have a meaning only beside the device's work: give its table (launch_us, "
                            "thread, stream, gpu_dur_us) too",
                            name[FORM_CALLS]);
    return convert_timed_steps(conversion);
}

/* ---- what it comes to ------------------------------------------------------------------------------------------- */

static void measure(struct conversion *conversion) {
    uint64_t live = 0;
    for (size_t i = 0; i < conversion->steps.count; i++) {
        const struct step *step = &conversion->steps.all[i];
        if (step->kind > STEP_FREE) continue;
        const uint64_t bytes = conversion->blocks[step->block].bytes;
        live += step->kind == STEP_FREE ? -bytes : bytes;
        if (step->kind == STEP_LIVE) conversion->live_before_bytes += bytes;
        if (live > conversion->peak_live_bytes) conversion->peak_live_bytes = live;
    }
    conversion->end_live_bytes = live;
}

uint64_t convert_peak_reserve(const struct conversion *conversion) {
    return conversion->reserve_before + (uint64_t)conversion->peak_reserve_growth;
}

bool convert_tables(struct conversion *conversion, const struct convert_input *inputs, size_t count,
                    const struct convert_settings *settings, char *why, size_t room) {
    memset(conversion, 0, sizeof *conversion);
    conversion->why = why;
    conversion->room = room;
    for (size_t i = 0; i < count; i++)
        if (!read_log(conversion, &inputs[i], count, settings)) return false;
    if (!make_steps(conversion) || (settings->iterations && !convert_mark_iterations(conversion))) return false;
    if (conversion->steps.count == 0)
        return convert_fail(conversion, "%s: %s", inputs[0].name,
                            conversion->name[FORM_SNAPSHOT] != NULL ? "the snapshot holds no live block and no events"
                                                                    : "the table has no rows");
    measure(conversion);
    return true;
}
