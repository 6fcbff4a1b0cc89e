/* SPDX-License-Identifier: Apache-2.0 */
/* The library that is preloaded, and what a program's file says of it. */
#ifndef WEIR_TOOLS_RUN_LIBRARY_H
#define WEIR_TOOLS_RUN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct library {
    char path[4096];   /* as LD_PRELOAD takes it */
    char driver[4096]; /* the folder of the emulated driver; "": it is not there */
    char folder[256];  /* of this run's own files */
};

/* Finds the library beside this program and makes a folder for the run's files. In a path with a space, a colon, a semicolon or a
 * dollar sign, which the linker takes for more than a name, the libraries are reached through links in that folder.
 * Gives: false with one sentence. */
bool library_open(struct library *library, char *why, size_t room);
/* Removes the folder. */
void library_close(const struct library *library);

/* Finds a program as a shell does. Gives: false with one sentence and the status that a shell gives. */
bool program_find(const char *name, char *path, size_t path_room, int *status, char *why, size_t room);
/* Gives: why nothing can be preloaded into a program, in words that follow "it"; NULL: it can, as far as its file says. */
const char *program_refuses(const char *path);

#endif
