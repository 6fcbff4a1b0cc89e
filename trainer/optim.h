/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer, on the compute stream: Muon for matrices, AdamW for the rest.
 *
 * Words. whole matrix: one that lies in a single shard; its rank updates it alone. split matrix: one that several shards
 * cut; its pieces go to an owner, which orthogonalises the whole and sends the pieces back. Experts are sharded by whole
 * matrices wherever they can be.
 *
 * A round of split matrices is two all-to-alls of a group, there and back:
 *     mine (pieces of this rank, by owner)  ->  pieces (of this rank's matrices, by source)  ->  whole -> Newton-Schulz
 * Owners are the same on every rank: heaviest matrix first, to the rank with the least work so far.
 *
 * What holds. Every matrix is orthogonalised alone and whole, never a shard or a stack. The state exists from the start,
 * so that the first step needs no more memory than the second. */
#ifndef WEIR_TRAINER_OPTIM_H
#define WEIR_TRAINER_OPTIM_H

#include "trainer/model.h"

struct split {
    struct pack *pack;
    const struct param *param;
    int64_t matrix;
    int owner; /* place in the group */
};

/* The split matrices of one group and where their pieces lie in the two buffers. */
struct round {
    enum comm_group group;
    int ranks, place;
    int splits;
    struct split *split;  /* (splits), ordered by owner */
    int64_t mine, pieces; /* numbers in the buffers */
    size_t *bytes;        /* (2, ranks): of `mine` by owner, of `pieces` by source */
};

struct optim {
    struct model *model;
    bool muon;
    double beta1, beta2, epsilon, mu, decay;
    int64_t step;          /* updates made */
    struct round round[2]; /* of the world, and of the ranks that hold the same experts */
};

enum weir_status optim_open(struct optim *o, struct model *m, const struct config *config);
void optim_close(struct optim *o);

/* Device memory that this rank needs for its shards of weights, gradients and optimizer state, whatever else it does. */
size_t optim_state_bytes(const struct shape *shape, const struct comm *comm, bool muon);
bool optim_uses_muon(const struct config *config);

/* sums[1] += the squares of this rank's gradient shards. Makes compute wait for the gradients. */
enum weir_status optim_squares(struct optim *o);
/* Scales the gradients to a norm of at most `limit`, by sums[1], which model_sums has added up over the world. */
enum weir_status optim_clip(struct optim *o, double limit);
/* Clips (0: does not), updates the weights, frees the gradients. The next gather waits for it. */
enum weir_status optim_step(struct optim *o, double rate, double clip);

#endif
