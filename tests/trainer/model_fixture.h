/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the model share: a rank that is alone in its world, or one of several over MPI; a pool, the streams,
 * the model and the optimizer on it; whole tensors on the host. */
#ifndef WEIR_TESTS_TRAINER_MODEL_FIXTURE_H
#define WEIR_TESTS_TRAINER_MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trainer/optim.h"

struct rig {
    struct config config;
    struct weir_device *device;
    struct weir_pool *pool;
    struct weir_host_pool *host;
    struct weir_offload *offload;
    struct comm comm;
    struct streams streams;
    struct ops ops;
    struct routes routes;
    struct model model;
    struct optim optim;
};

#define OK(call) assert_int_equal((call), WEIR_OK)

/* A small model; change it before rig_open. */
struct config small_config(void);

/* A communication table for a world of one rank: every collective is a copy. */
struct comm comm_alone(void);

/* Work on this stream comes late: collectives of its lane, and for COMPUTE what a step begins and the update begins with.
 * QUEUES: nothing does. A wait that is missing then reads what is not there yet, or overwrites what is still read. */
extern enum queue rig_late;

/* Rigs opened from now on get memory full of NaNs. */
extern bool rig_soil;

/* Opens everything that config asks for: policy, limit, offload, routes files, wire. `comm` is attached here. */
void rig_open(struct rig *rig, const struct config *config, struct comm comm, struct weir_device *device);
/* Leaves device and comm open. */
void rig_close(struct rig *rig);

/* Bytes of the batch with this number, the same global batch for any world: ids (T), targets (T). */
void rig_batch(const struct rig *rig, int64_t number, int32_t *ids, int32_t *targets);
/* Forward and backward of a batch: gives the loss of the world. */
double rig_gradients(struct rig *rig, int64_t number);
/* The same, the update after it, and the bias: a training step. */
double rig_step(struct rig *rig, int64_t number);
/* Forward alone, on the same batch. */
double rig_loss(struct rig *rig, int64_t number);
/* Frees gradient shards that no optimizer step has used. */
void rig_drop_gradients(struct rig *rig);

/* Copies between device and host. */
void rig_read(struct rig *rig, real *host, const real *device, int64_t count);
void rig_write(struct rig *rig, real *device, const real *host, int64_t count);

#define EACH_PACK_OF(rig, pack)                                                                                        \
    for (int u_ = 0; u_ < (rig)->model.fsdp.units; u_++)                                                               \
        for (struct pack *pack = (rig)->model.fsdp.unit[u_].pack;                                                      \
             pack < (rig)->model.fsdp.unit[u_].pack + (rig)->model.fsdp.unit[u_].packs; pack++)

#endif
