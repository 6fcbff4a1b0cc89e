/* SPDX-License-Identifier: Apache-2.0 */
/* Fully sharded parameters: each rank keeps a shard of every unit, gathers the unit before a use and scatters its
 * gradients after.
 *
 * FSDP2: the gathered flat buffer is allocated on the copy-in stream, copied out on compute into a buffer a parameter,
 * and freed when the side streams have waited for the copy-out, which is at the next gather in forward and at once in
 * backward. Nothing is recorded. FSDP1: the flat parameter itself is used on compute and freed with its use there
 * recorded. */
#ifndef WEIR_TRACE_GEN_FSDP_H
#define WEIR_TRACE_GEN_FSDP_H

#include "gen_settings.h"
#include "gen_writer.h"

enum { UNIT_PARAMETERS = 8, UNIT_MATRICES = 5 };

/* A matrix, or one for each local expert, that Muon updates. */
struct matrix {
    int64_t rows, columns;
    int64_t experts; /* 0: a plain matrix, cut over the ranks of the unit */
};

/* One wrapped group of parameters. Sizes are elements. */
struct unit {
    size_t parameter_count, matrix_count;
    int64_t sizes[UNIT_PARAMETERS], shard_sizes[UNIT_PARAMETERS];
    struct matrix matrices[UNIT_MATRICES];
    int64_t shards;                   /* ranks it is cut over */
    int64_t elements, shard_elements; /* sums of sizes and shard_sizes */
    size_t position;                  /* in the order of forward */

    struct buf shard[UNIT_PARAMETERS];
    struct buf full[UNIT_PARAMETERS]; /* gathered parameters: full_count of them */
    size_t full_count;
    struct buf gathered; /* the all-gather's flat result, until it is copied out */
    struct gen_event gathered_at;
    struct buf gradient;                   /* sharded; lives until the optimiser has run */
    struct buf state[UNIT_PARAMETERS * 2]; /* of the optimiser: state_count of them */
    size_t state_count;
};

/* A buffer that may be freed once a stream has waited for `done`. */
struct held {
    struct buf buf;
    struct gen_event done;
};

struct fsdp {
    struct gen_writer *out;
    const struct gen_settings *set;
    struct held previous_gather, previous_scatter;
};

void unit_add(struct unit *unit, int64_t elements);
void unit_add_matrix(struct unit *unit, int64_t experts, int64_t rows, int64_t columns);
void unit_cut(struct unit *unit, int64_t shards); /* when all is added */

/* A unit may be NULL in what follows: nothing happens. */
void fsdp_create(struct fsdp *fsdp, struct unit *unit);
void fsdp_gather(struct fsdp *fsdp, struct unit *unit);               /* starts it, unless it is there or under way */
void fsdp_use(struct fsdp *fsdp, struct unit *unit, bool in_forward); /* until the unit is whole on compute */
void fsdp_release(struct fsdp *fsdp, struct unit *unit);
/* Reduce-scatters whole gradients, 2 bytes an element, which it frees. */
void fsdp_reduce(struct fsdp *fsdp, struct unit *unit, const struct buf *gradients, size_t count);
void fsdp_end_forward(struct fsdp *fsdp);
void fsdp_end_backward(struct fsdp *fsdp);

#endif
