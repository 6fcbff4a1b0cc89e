/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/fsdp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void lay_out(struct fsdp *f, const struct shape *shape) {
    pack_embed(&f->unit[0].pack[0], shape, f->comm);
    f->unit[0].packs = 1;
    for (int64_t l = 0; l < shape->L; l++) {
        struct unit *unit = &f->unit[1 + l];
        pack_dense(&unit->pack[PACK_OF_DENSE], shape, f->comm, l);
        pack_experts(&unit->pack[PACK_OF_EXPERTS], shape, f->comm, l);
        unit->packs = UNIT_PACKS;
    }
    pack_head(&f->unit[f->units - 1].pack[0], shape, f->comm);
    f->unit[f->units - 1].packs = 1;
}

enum weir_status fsdp_open(struct fsdp *f, const struct shape *shape, struct streams *streams, struct comm *comm,
                           const struct ops *ops) {
    *f = (struct fsdp){.streams = streams, .comm = comm, .ops = ops, .units = (int)shape->L + 2};
    f->unit = calloc((size_t)f->units, sizeof *f->unit);
    if (!f->unit) return WEIR_OUT_OF_HOST_MEMORY;
    lay_out(f, shape);
    TRY(weir_event_create(streams->device, false, &f->released));
    TRY(weir_event_create(streams->device, false, &f->summed));
    for (int i = 0; i < f->units; i++) TRY(weir_event_create(streams->device, false, &f->unit[i].arrived));
    return WEIR_OK;
}

void fsdp_close(struct fsdp *f) {
    struct weir_device *device = f->streams ? f->streams->device : NULL;
    for (int i = 0; i < f->units && f->unit; i++)
        if (f->unit[i].arrived) weir_event_destroy(device, f->unit[i].arrived);
    if (f->released) weir_event_destroy(device, f->released);
    if (f->summed) weir_event_destroy(device, f->summed);
    free(f->unit);
    memset(f, 0, sizeof *f);
}

static enum weir_status pack_load(struct fsdp *f, struct pack *pack, uint64_t seed, real *host) {
    struct streams *s = f->streams;
    const size_t bytes = (size_t)pack->shard * sizeof *host;
    host_writes(s, host, bytes);
    if (!f->ops->routes) pack_initialise(pack, seed, host); /* else nobody computes with them */
    TRY(real_alloc(s, COMPUTE, pack->shard, &pack->master));
    TRY(weir_copy(s->device, pack->master, host, bytes, s->stream[COMPUTE]));
    return streams_synchronize(s, "train.load", COMPUTE); /* `host` is filled again */
}

enum weir_status fsdp_initialise(struct fsdp *f, uint64_t seed) {
    int64_t most = 0;
    for (int u = 0; u < f->units; u++)
        for (int p = 0; p < f->unit[u].packs; p++)
            if (f->unit[u].pack[p].shard > most) most = f->unit[u].pack[p].shard;
    void *host; /* (most) */
    TRY(weir_host_alloc(f->streams->device, (size_t)most * sizeof(real), &host));
    enum weir_status status = WEIR_OK;
    for (int u = 0; u < f->units; u++)
        for (int p = 0; p < f->unit[u].packs && status == WEIR_OK; p++)
            status = pack_load(f, &f->unit[u].pack[p], seed, host);
    weir_host_free(f->streams->device, host);
    return status;
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

static enum weir_status pack_gather(struct fsdp *f, struct pack *pack) {
    struct streams *s = f->streams;
    const enum wire wire = f->ops->wire;
    void *mine; /* (shard) */
    TRY(wire_alloc(s, GATHER, pack->shard, wire, &mine));
    TRY(f->ops->table->convert(f->ops, mine, wire, pack->master, WIRE_REAL, pack->shard, s->stream[GATHER]));
    TRY(wire_alloc(s, GATHER, pack->size, wire, &pack->gathered));
    TRY(f->comm->table->all_gather(f->comm, pack->group, LANE_GATHER, mine, pack->gathered,
                                   (size_t)pack->shard * wire_bytes(wire), s->stream[GATHER]));
    return block_free(s, GATHER, mine);
}

enum weir_status unit_gather(struct fsdp *f, struct unit *unit) {
    struct streams *s = f->streams;
    if (unit->gathered) return WEIR_OK;
    TRY(streams_wait(s, "train.released", GATHER, f->released));
    for (int p = 0; p < unit->packs; p++) TRY(pack_gather(f, &unit->pack[p]));
    TRY(weir_event_record(s->device, unit->arrived, s->stream[GATHER]));
    unit->gathered = true;
    return WEIR_OK;
}

enum weir_status unit_await(struct fsdp *f, struct unit *unit) {
    assert(unit->gathered);
    return streams_await_event(f->streams, "train.weights", CAUSE_WEIGHTS, unit->arrived);
}

enum weir_status unit_release(struct fsdp *f, struct unit *unit) {
    struct streams *s = f->streams;
    assert(unit->gathered);
    unit->gathered = false;
    for (int p = 0; p < unit->packs; p++) {
        TRY(block_free(s, COMPUTE, unit->pack[p].gathered));
        unit->pack[p].gathered = NULL;
    }
    return weir_event_record(s->device, f->released, s->stream[COMPUTE]);
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

enum weir_status unit_gradient_begin(struct fsdp *f, struct unit *unit) {
    struct streams *s = f->streams;
    for (int p = 0; p < unit->packs; p++) {
        struct pack *pack = &unit->pack[p];
        assert(!pack->gradient);
        TRY(real_alloc(s, COMPUTE, pack->size, &pack->gradient));
        TRY(weir_set(s->device, pack->gradient, 0, (size_t)pack->size * sizeof(real), s->stream[COMPUTE]));
    }
    return WEIR_OK;
}

/* Gives: send (size), the gradient in wire type, and the gradient's memory back. */
static enum weir_status pack_cast(struct fsdp *f, struct pack *pack, void **send) {
    struct streams *s = f->streams;
    const enum wire wire = f->ops->wire;
    TRY(wire_alloc(s, COMPUTE, pack->size, wire, send));
    TRY(f->ops->table->convert(f->ops, *send, wire, pack->gradient, WIRE_REAL, pack->size, s->stream[COMPUTE]));
    TRY(block_free(s, COMPUTE, pack->gradient));
    pack->gradient = NULL;
    return WEIR_OK;
}

static enum weir_status pack_sum(struct fsdp *f, struct pack *pack, void *send) {
    struct streams *s = f->streams;
    const enum wire wire = f->ops->wire;
    void *parts; /* (ranks, shard): everybody's part of this shard */
    TRY(wire_alloc(s, REDUCE, pack->size, wire, &parts));
    TRY(f->comm->table->all_to_all(f->comm, pack->group, LANE_REDUCE, send, parts,
                                   (size_t)pack->shard * wire_bytes(wire), s->stream[REDUCE]));
    TRY(block_free(s, REDUCE, send));
    assert(!pack->reduced);
    TRY(real_alloc(s, REDUCE, pack->shard, &pack->reduced));
    TRY(f->ops->table->sum_blocks(f->ops, pack->reduced, false, parts, pack->ranks, pack->shard, s->stream[REDUCE]));
    return block_free(s, REDUCE, parts);
}

enum weir_status unit_reduce(struct fsdp *f, struct unit *unit) {
    struct streams *s = f->streams;
    void *send[UNIT_PACKS];
    TRY(streams_await_event(s, "train.summed", CAUSE_REDUCE, f->summed));
    for (int p = 0; p < unit->packs; p++) TRY(pack_cast(f, &unit->pack[p], &send[p]));
    TRY(streams_follow(s, "train.cast", REDUCE, COMPUTE));
    for (int p = 0; p < unit->packs; p++) TRY(pack_sum(f, &unit->pack[p], send[p]));
    return weir_event_record(s->device, f->summed, s->stream[REDUCE]);
}
