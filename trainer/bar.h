/* SPDX-License-Identifier: Apache-2.0 */
/* The progress bar on standard error. The process that owns the terminal draws it: a rank that was started by the
 * launcher has a pipe instead, and sends one line a change, which the launcher takes out of the stream and draws. */
#ifndef WEIR_TRAINER_BAR_H
#define WEIR_TRAINER_BAR_H

#include <stdbool.h>
#include <stdint.h>

#define BAR_VARIABLE "WEIR_TRAIN_BAR" /* in a rank's environment: a launcher draws */

struct bar {
    bool draws, sends;
    bool shown;
    int64_t begin_ns, first_done; /* where the rate is counted from */
    int64_t done, total;
};

/* `wanted` false, or no terminal on either side: the calls below do nothing. */
void bar_open(struct bar *bar, bool wanted);
void bar_update(struct bar *bar, int64_t done, int64_t total);
/* Around other output on the terminal. */
void bar_hide(struct bar *bar);
void bar_show(struct bar *bar);

/* The launcher's side: true when the line was a rank's update, which is drawn. */
bool bar_take_line(struct bar *bar, const char *line);

#endif
