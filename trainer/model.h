/* SPDX-License-Identifier: Apache-2.0 */
/* The model: a decoder-only mixture-of-experts transformer over bytes.
 *
 *     x = embed(ids);  L times: x += attention(norm(x)), x += experts(norm(x));  loss = cross-entropy(head(norm(x)))
 *
 * Full activation checkpointing: of a layer only its input and its dispatch (which token goes to which expert, and how
 * many rows each rank sends and gets) live from forward to backward; the rest is computed again. The inputs of all layers
 * but the last may wait in CPU memory.
 *
 * Letters of sizes are those of struct shape; R is the number of rows this rank's experts got. All device memory is real
 * and (rows, columns) row-major unless a comment says otherwise.
 *
 * Threads: one. After a failing call the model can only be closed. */
#ifndef WEIR_TRAINER_MODEL_H
#define WEIR_TRAINER_MODEL_H

#include "trainer/fsdp.h"
#include "trainer/params.h"
#include "trainer/routes.h"
#include "weir/offload.h"

#define OP(m, name, ...) TRY((m)->ops->table->name((m)->ops, __VA_ARGS__))

/* Who sends what to whom in one layer. Rows on the sending side are in `order`, sorted by expert; on the receiving side
 * they come by (source, local expert) and are worked on in `grouped` order, by (local expert, source). */
struct dispatch {
    int32_t *ids;              /* (T, K) on compute */
    int32_t *order, *slot;     /* (N), (T, K) on exchange: row n is assignment order[n]; where an assignment went */
    int32_t *grouped, *placed; /* (R), (R) on exchange: grouped row r came as row grouped[r]; its inverse */
    int64_t drawing;           /* number of the made-up routing, or -1: the counts come from the device */
    int64_t rows;              /* R */
    int64_t *sent, *received;  /* (ep), (ep) rows to and from each rank of the expert-parallel group; host */
    int64_t *offsets;          /* (local + 1): grouped rows of each local expert; host */
};

struct layer_saved {
    real *input; /* (T, d) on compute, or NULL while the engine has it */
    bool away;
    struct weir_item item;
    struct dispatch dispatch;
};

struct model {
    struct shape shape;
    int64_t N; /* T K */
    int64_t loss_chunk;
    int64_t token_offsets[2];
    struct row_groups all_tokens; /* one group of T rows */
    real route_scale;
    struct streams *streams;
    struct comm *comm;
    const struct ops *ops;
    struct fsdp fsdp;
    struct weir_offload *offload; /* NULL: inputs stay on the device */
    struct routes *routes;        /* NULL: route freely, keep nothing */
    int64_t drawings;             /* made-up routings so far */

    struct layer_saved *saved; /* (L) */
    int32_t *ids, *targets;    /* (T), (T) */
    real *bias;                /* (L, E): added to the scores when experts are chosen, no gradient */
    double *sums;              /* (2): the loss so far, the squares of the gradient */
    double *load;              /* (L, E): assignments of this rank's tokens in the latest training forward; host */
    real *bias_host;           /* (L, E); pinned, as what follows: */
    int32_t *host_counts;      /* (2, E): assignments this rank's tokens made, and this rank's experts got */
    int32_t *host_grouped;     /* (2, most rows): `grouped` and `placed` on their way to the device */
    int32_t *host_ids;         /* (T, K) */
    int32_t *host_batch;       /* (2, T): ids and targets on their way to the device */
    double *host_sums;         /* (2) */
    size_t *split_bytes;       /* (2, ep): of one exchange; ordinary memory */
};

/* Allocates what lives as long as the model and fills the weights from the seed. `offload` and `routes` may be NULL.
 * On failure the model must be closed all the same. */
enum weir_status model_open(struct model *m, const struct config *config, struct streams *streams, struct comm *comm,
                            const struct ops *ops, struct weir_offload *offload, struct routes *routes);
void model_close(struct model *m);

/* What a batch is used for. `gradients` leaves every pack's `reduced` gradient shard. */
enum model_mode { MODEL_EVALUATE, MODEL_GRADIENTS };

/* Runs one batch: ids (T), targets (T; < 0: no loss), host memory. Queues everything but waits, once a layer, for the
 * counts of the exchange.
 *
 * Needs:   `tokens`, the number of targets >= 0 over the whole world, so that gradients need no later scaling.
 * Gives:   sums[0] += this rank's part of the mean loss, on the device. */
enum weir_status model_run(struct model *m, enum model_mode mode, const int32_t *ids, const int32_t *targets,
                           double tokens);

enum weir_status model_sums_clear(struct model *m);
/* Adds the sums up over the world, on the device too; waits for compute. Gives: host_sums.
 * Fails: WEIR_SYSTEM when another rank has failed. */
enum weir_status model_sums(struct model *m);

/* Moves the routing bias towards even load, from the assignments of all ranks in the step: load (L, E). */
enum weir_status model_balance(struct model *m, const double *load, double rate);

/* ---- shared by the model's files ------------------------------------------------------------------------------- */

enum weir_status model_followed_failure(struct model *m); /* WEIR_SYSTEM when another rank has failed */

/* y (rows, out) = or += x (rows, in) W^T */
enum weir_status linear(struct model *m, real *y, bool add, const real *x, const void *w, int64_t rows, int64_t in,
                        int64_t out);
/* dx (rows, in) = or += dy W; dW += dy^T x */
enum weir_status linear_backward(struct model *m, real *dx, bool add, real *dw, const real *dy, const real *x,
                                 const void *w, int64_t rows, int64_t in, int64_t out);

#endif
