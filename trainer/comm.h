/* SPDX-License-Identifier: Apache-2.0 */
/* Communication between ranks: one table, chosen at start (comm_mpi.c; comm_nccl.c, started by MPI; comm_local.c, ranks as
 * threads of one process).
 *
 * Mesh: world = efsdp x ep. Rank r has place r % ep in its expert-parallel group (neighbours, inside a node) and place
 * r / ep in its group of ranks that hold the same experts. Dense parameters are sharded over the world.
 *
 * Stream collectives are queued on a stream and return at once; all ranks of the group must queue the same ones in the
 * same order on the same `lane`. A lane is a duplicated communicator of its own, one for each of the trainer's streams,
 * so that collectives of different streams never mix. comm_mpi.c hands the transfer to one progress thread a rank, which
 * makes only non-blocking MPI calls; the stream goes on when the transfer has completed. Two ranks that disagree about
 * the size of what passes between them are a failure that names both.
 *
 * Failure. comm_fail tells every rank; from then on collectives complete without data and comm_failure gives the
 * sentence, so that every rank unwinds and ends. A rank that dies without a word is noticed by the launcher. */
#ifndef WEIR_TRAINER_COMM_H
#define WEIR_TRAINER_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/device.h"

enum comm_group { COMM_WORLD, COMM_EP, COMM_EFSDP, COMM_GROUPS };
enum comm_lane { LANE_GATHER, LANE_REDUCE, LANE_EXCHANGE, LANE_COMPUTE, COMM_LANES };

struct comm {
    const struct comm_table *table;
    struct weir_device *device; /* set by attach */
    int rank, world, ep;
    int failed_rank; /* whose failure `failure` tells; -1 while there is none */
    void *state;
};

struct comm_table {
    const char *name;
    const char *lacks; /* what it can't do yet, or NULL */
    void (*close)(struct comm *);
    /* Gives the table the device whose streams it will queue on; before the first stream collective. */
    enum weir_status (*attach)(struct comm *, struct weir_device *device);

    /* -- on a stream; bytes are per rank of the group; buffers are device memory ------------------------------------ */
    /* recv (size of group, bytes) */
    enum weir_status (*all_gather)(struct comm *, enum comm_group, enum comm_lane, const void *send, void *recv,
                                   size_t bytes, weir_stream);
    /* send and recv (size of group, bytes) */
    enum weir_status (*all_to_all)(struct comm *, enum comm_group, enum comm_lane, const void *send, void *recv,
                                   size_t bytes, weir_stream);
    /* blocks back to back, in rank order; send_bytes and recv_bytes (size of group): host memory, read in the call */
    enum weir_status (*all_to_all_v)(struct comm *, enum comm_group, enum comm_lane, const void *send,
                                     const size_t *send_bytes, void *recv, const size_t *recv_bytes, weir_stream);
    /* in place, the same bits on every rank */
    enum weir_status (*all_reduce_double)(struct comm *, enum comm_group, enum comm_lane, double *sums, size_t count,
                                          weir_stream);

    /* -- on the host, over the world; they block; main thread only --------------------------------------------------- */
    enum weir_status (*barrier)(struct comm *);
    /* op: '+' sum, '<' least, '>' most; in place on every rank */
    enum weir_status (*reduce_host)(struct comm *, char op, double *values, size_t count);
    enum weir_status (*broadcast_host)(struct comm *, void *data, size_t bytes, int root);
    /* Gives rank 0 every rank's text: texts (world) strings to be freed, else NULL. Works after a failure too; the text of
     * a rank that does not answer in time is then empty. */
    enum weir_status (*gather_text)(struct comm *, const char *text, char ***texts);

    /* -- failure ----------------------------------------------------------------------------------------------------- */
    void (*fail)(struct comm *, int exit_status, const char *sentence);
    /* 0, or the exit status and the sentence of the first failure known here. Threads: any. */
    int (*failure)(struct comm *, char *sentence, size_t room);
    /* bytes this rank has sent to others so far, by lane */
    uint64_t (*bytes_sent)(struct comm *, enum comm_lane);
};

/* Fails: WEIR_INVALID when ep does not divide the world, or the layout is otherwise impossible. */
enum weir_status comm_open_mpi(int *argc, char ***argv, int ep, struct comm *out);
enum weir_status comm_open_nccl(int *argc, char ***argv, int ep, struct comm *out); /* no_cuda.c without NCCL */

static inline int comm_size(const struct comm *c, enum comm_group group) {
    return group == COMM_WORLD ? c->world : group == COMM_EP ? c->ep : c->world / c->ep;
}
static inline int comm_place(const struct comm *c, enum comm_group group) {
    return group == COMM_WORLD ? c->rank : group == COMM_EP ? c->rank % c->ep : c->rank / c->ep;
}

/* World rank of a place in this rank's group. */
static inline int comm_rank_at(const struct comm *c, enum comm_group group, int place) {
    switch (group) {
    case COMM_EP:
        return c->rank / c->ep * c->ep + place;
    case COMM_EFSDP:
        return place * c->ep + c->rank % c->ep;
    default:
        return place;
    }
}

#endif
