/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOOLS_RUN_CHILD_H
#define WEIR_TOOLS_RUN_CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* Runs a program to its end; signals that others send to this process go to it.
 * Gives: its status, 128 + n when signal n ended it; 126 with a sentence when it could not be started. */
int child_run(const char *path, char **arguments, char *why, size_t room);

#endif
