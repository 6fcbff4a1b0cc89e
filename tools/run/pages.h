/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of --timeline: each trace of the run, replayed by weir-replay as it was recorded. */
#ifndef WEIR_TOOLS_RUN_PAGES_H
#define WEIR_TOOLS_RUN_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct pages {
    const char *path;      /* of the page; of more than one the others have a number in it: run.html, run-2.html */
    const char *traces;    /* the traces' names, as WEIR_TRACE has them */
    struct timespec since; /* older ones are of other runs */
    char **environment;    /* for weir-replay: as it was before the program's was made */
    bool quiet;
};

/* Whether a page can be made there. Gives: false with one sentence. */
bool pages_possible(const char *path, const char *trace, char *why, size_t room);
/* A name for traces in a folder of the run's own. Gives: false when it is too long. */
bool pages_traces_in(const char *folder, char *traces, size_t room);
/* Makes the pages and says of each what it is of, on standard error. Gives: false, said, when one could not be made. */
bool pages_make(const struct pages *pages);
/* Removes the traces. */
void pages_remove_traces(const char *traces);

#endif
