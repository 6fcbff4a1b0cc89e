/* SPDX-License-Identifier: Apache-2.0 */
/* The families of generated traces: a model and what is set differently in it. */
#ifndef WEIR_TRACE_GEN_FAMILIES_H
#define WEIR_TRACE_GEN_FAMILIES_H

#include "gen_random.h"
#include "gen_settings.h"
#include "gen_writer.h"

struct gen_family {
    const char *name;
    enum gen_model model;
    const char *settings; /* what differs from the model's defaults, for gen_settings_start */
    const char *text;
};

extern const struct gen_family gen_families[];
extern const size_t gen_family_count;
/* NULL, and the nearest name or NULL in *nearest, when there is none of that name. */
const struct gen_family *gen_family_find(const char *name, const char **nearest);

/* A set of traces that shows all of it: family and seed. */
struct gen_suite_row {
    const char *family;
    uint64_t seed;
};
extern const struct gen_suite_row gen_suite[];
extern const size_t gen_suite_count;

struct gen_figures {
    int64_t operations, allocations, peak_live_bytes, total_bytes;
};

/* Writes the trace of a family with these settings to a file. Gives 0; or, with a sentence and no file, 1: it could
 * not be written, 2: it would be too large. */
int gen_family_write(const struct gen_family *family, uint64_t seed, const struct gen_settings *settings,
                     const char *path, struct gen_figures *figures, char *why, size_t room);

/* ---- the models: a run, without the end's synchronising and frees ----------------------------------------------- */

void gen_moe(struct gen_writer *out, struct gen_random *random, const struct gen_settings *set);
void gen_dense(struct gen_writer *out, struct gen_random *random, const struct gen_settings *set);

#endif
