/* SPDX-License-Identifier: Apache-2.0 */
/* FSDP: weights, gradients and optimizer state are sharded; a unit's weights are whole only while it computes.
 *
 * Words. unit: what is gathered and released together: the embedding; a layer (its dense params, sharded over the world,
 * and this rank's experts, sharded over the ranks that hold the same ones); the final norm with the head.
 *
 * The schedule, as FSDP trainers have it. A unit is gathered on the gather stream while the one before computes; a gather
 * starts after the latest release, so that two gathered units are alive at most. A unit's gradient is cast to the wire
 * type once, sent to where each part belongs on the reduce stream, and summed there in real, in rank order; the next
 * unit's gradient is cast only after that has ended, so that one is on its way at most.
 *
 * What holds. Gradients are sums over the tokens of the world; nothing is divided by a group's size anywhere.
 * A wait between streams stands for each arrow: master -> gather -> compute -> release -> next gather; gradient ->
 * reduce -> optimizer. */
#ifndef WEIR_TRAINER_FSDP_H
#define WEIR_TRAINER_FSDP_H

#include "trainer/comm.h"
#include "trainer/ops.h"
#include "trainer/params.h"
#include "trainer/streams.h"

enum { UNIT_PACKS = 2, PACK_OF_DENSE = 0, PACK_OF_EXPERTS = 1 };

struct unit {
    int packs;
    struct pack pack[UNIT_PACKS];
    weir_event arrived; /* its gather */
    bool gathered;      /* its weights are whole, or will be when `arrived` passes */
};

struct fsdp {
    struct streams *streams;
    struct comm *comm;
    const struct ops *ops;
    int units;
    struct unit *unit;   /* (units): embedding, layers, head */
    weir_event released; /* compute's last use of a released unit */
    weir_event summed;   /* the latest reduction */
};

/* Lays out the units. Takes no device memory. */
enum weir_status fsdp_open(struct fsdp *f, const struct shape *shape, struct streams *streams, struct comm *comm,
                           const struct ops *ops);
void fsdp_close(struct fsdp *f);
/* Allocates the master weights and fills them from the seed. */
enum weir_status fsdp_initialise(struct fsdp *f, uint64_t seed);

/* Queues the gather of a unit, if its weights are not there already. */
enum weir_status unit_gather(struct fsdp *f, struct unit *unit);
/* Makes compute wait for it. */
enum weir_status unit_await(struct fsdp *f, struct unit *unit);
/* Frees the whole weights after what compute has queued. */
enum weir_status unit_release(struct fsdp *f, struct unit *unit);

/* Allocates the unit's gradients, all zero, on compute. */
enum weir_status unit_gradient_begin(struct fsdp *f, struct unit *unit);
/* Sends them away: leaves each pack's `reduced` shard, ready on the reduce stream, and frees the rest. */
enum weir_status unit_reduce(struct fsdp *f, struct unit *unit);

/* (matrices, rows, cols) of a param in the gathered weights, wire type; and in the gradient, real. */
static inline const void *weight_of(const struct fsdp *f, const struct pack *pack, int param) {
    return (const char *)pack->gathered + (size_t)pack->param[param].offset * wire_bytes(f->ops->wire);
}
static inline real *gradient_of(const struct pack *pack, int param) {
    return pack->gradient + pack->param[param].offset;
}

#endif
