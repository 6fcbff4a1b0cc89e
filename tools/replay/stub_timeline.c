/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in until timelines are there. */
#include <stdio.h>

#include "timeline.h"

bool timeline_open(struct run *run, char *why, size_t room) {
    run->timeline = NULL;
    snprintf(why, room, "timelines are not built in");
    return false;
}
void timeline_work(struct run *run, const struct op *op, struct weir_emu_work *work) {
    (void)run;
    (void)op;
    (void)work;
}
void timeline_note(struct run *run, const struct target *target, const struct op *op) {
    (void)run;
    (void)target;
    (void)op;
}
bool timeline_close(struct run *run, const struct target *target, const struct outcome *outcome, char *why,
                    size_t room) {
    (void)run;
    (void)target;
    (void)outcome;
    (void)why;
    (void)room;
    return false;
}
