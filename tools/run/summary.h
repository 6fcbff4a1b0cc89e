/* SPDX-License-Identifier: Apache-2.0 */
/* What the preloaded library told of each process (alloc/preload/start.c): read, and put into words or JSON. */
#ifndef WEIR_TOOLS_RUN_SUMMARY_H
#define WEIR_TOOLS_RUN_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

/* The processes' lines; "" when there are none. To be freed. NULL: no host memory. */
char *summary_read(const char *path);
/* Says what weir did in each process that had to do with device memory. */
void summary_words(const char *lines, FILE *out);
void summary_json(const char *lines, const char *program, int status, FILE *out);

#endif
