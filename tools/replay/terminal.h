/* SPDX-License-Identifier: Apache-2.0 */
/* What the place that text goes to can show. */
#ifndef WEIR_REPLAY_TERMINAL_H
#define WEIR_REPLAY_TERMINAL_H

#include "run.h"

/* Width: what COLUMNS says, else the terminal, else 80; from 40 to 400. UTF-8: as the locale has it. Colour: on a terminal
 * that is not dumb, unless NO_COLOR says no (no-color.org). `file`: a descriptor; -1: a file that people will read. */
struct timeline_look terminal_look(int file);

#endif
