/* SPDX-License-Identifier: Apache-2.0 */
/* A file of routes: the expert ids of every (step, layer, token of the global batch), written by one run so that another,
 * of any number of ranks, routes the same way.
 *
 *     "weirrout", then int32, little-endian as the machines are: version 1, layers, tokens a step, top_k, experts, 0;
 *     then ids, int32 (step, layer, token, top_k)
 *
 * Ranks write and read their own tokens at their own places of one file. Threads: one. */
#ifndef WEIR_TRAINER_ROUTES_H
#define WEIR_TRAINER_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct routes {
    int save, replay;                       /* file descriptors, -1: none */
    int64_t layers, tokens, top_k, experts; /* tokens: of the global batch */
    int64_t first, count;                   /* this rank's tokens */
    int64_t step;                           /* from 1; set by the training loop */
    char message[640];                      /* why the latest call failed */
};

/* `save` and `replay` are paths, or "" for none; the sizes must be set. Gives 0, or 2 with r->message: which file, and
 * what it lacks. */
int routes_open(struct routes *r, const char *save, const char *replay);
void routes_close(struct routes *r);

static inline bool routes_saving(const struct routes *r) { return r && r->save >= 0; }
static inline bool routes_replaying(const struct routes *r) { return r && r->replay >= 0; }

/* ids (count, top_k). Fails: WEIR_SYSTEM, or WEIR_INVALID for a file that ends before or names unknown experts; see
 * r->message. */
enum weir_status routes_write(struct routes *r, int64_t layer, const int32_t *ids);
enum weir_status routes_read(struct routes *r, int64_t layer, int32_t *ids);

#endif
