/* SPDX-License-Identifier: Apache-2.0 */
/* The comm table over NCCL, for GPUs. MPI starts it and stays: the calls on the host, and the news of a failure, go
 * through the table of comm_mpi.c, which is opened first and closed last. A lane has an NCCL communicator of its own for
 * each group.
 *
 * What holds. All ranks queue the same collectives in the same order, so NCCL's communicators are used in the same order
 * everywhere. Every exchange is a set of grouped sends and receives, as over MPI: blocks of no bytes are left out on both
 * sides, since NCCL does not match messages by size. */
#include <assert.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/comm.h"

enum { FAILED = 999 /* CUDA_ERROR_UNKNOWN; the sentence says more */ };

struct nccl {
    struct comm mpi;
    ncclComm_t world, comms[COMM_GROUPS][COMM_LANES];
    atomic_uint_least64_t sent[COMM_LANES];
};

static struct nccl *nccl_of(const struct comm *c) { return c->state; }
static struct comm *mpi_of(const struct comm *c) { return &nccl_of(c)->mpi; }

/* ---- on the host: MPI's ------------------------------------------------------------------------------------------ */

static enum weir_status nccl_barrier(struct comm *c) { return mpi_of(c)->table->barrier(mpi_of(c)); }

static enum weir_status nccl_reduce_host(struct comm *c, char op, double *values, size_t count) {
    return mpi_of(c)->table->reduce_host(mpi_of(c), op, values, count);
}

static enum weir_status nccl_broadcast_host(struct comm *c, void *data, size_t bytes, int root) {
    return mpi_of(c)->table->broadcast_host(mpi_of(c), data, bytes, root);
}

static enum weir_status nccl_gather_text(struct comm *c, const char *text, char ***texts) {
    return mpi_of(c)->table->gather_text(mpi_of(c), text, texts);
}

static void nccl_fail(struct comm *c, int exit_status, const char *sentence) {
    mpi_of(c)->table->fail(mpi_of(c), exit_status, sentence);
}

static int nccl_failure(struct comm *c, char *sentence, size_t room) {
    int exit_status = mpi_of(c)->table->failure(mpi_of(c), sentence, room);
    c->failed_rank = mpi_of(c)->failed_rank;
    return exit_status;
}

static uint64_t nccl_bytes_sent(struct comm *c, enum comm_lane lane) { return atomic_load(&nccl_of(c)->sent[lane]); }

/* True when `result` is good; else every rank is told. */
static bool good(struct comm *c, const char *what, ncclResult_t result) {
    char sentence[256];
    if (result == ncclSuccess) return true;
    snprintf(sentence, sizeof sentence, "rank %d: NCCL: %s: %s", c->rank, what, ncclGetErrorString(result));
    nccl_fail(c, 1, sentence);
    return false;
}

/* ---- on a stream ------------------------------------------------------------------------------------------------- */

/* What a launch gets; it is called before the submission returns. */
struct collective {
    struct comm *comm;
    const char *name;
    enum comm_group group;
    enum comm_lane lane;
    const char *send;
    char *recv;
    size_t bytes, count;                   /* all-gather; all-reduce */
    const size_t *send_bytes, *recv_bytes; /* exchanges (size of group) */
    size_t sent_whole, received_whole;     /* for the description */
};

static ncclComm_t comm_of(const struct collective *k) { return nccl_of(k->comm)->comms[k->group][k->lane]; }

static int launch_all_gather(void *argument, weir_stream stream) {
    const struct collective *k = argument;
    ncclResult_t result = ncclAllGather(k->send, k->recv, k->bytes, ncclUint8, comm_of(k), stream);
    return good(k->comm, k->name, result) ? 0 : FAILED;
}

static int launch_all_reduce(void *argument, weir_stream stream) {
    const struct collective *k = argument;
    ncclResult_t result = ncclAllReduce(k->send, k->recv, k->count, ncclDouble, ncclSum, comm_of(k), stream);
    return good(k->comm, k->name, result) ? 0 : FAILED;
}

/* The messages of one exchange; the group is ended even when a message is refused. */
static ncclResult_t exchange(const struct collective *k, weir_stream stream) {
    size_t sent = 0, received = 0;
    ncclResult_t result = ncclGroupStart();
    for (int place = 0; place < comm_size(k->comm, k->group) && result == ncclSuccess; place++) {
        size_t out = k->send_bytes[place], in = k->recv_bytes[place];
        if (out) result = ncclSend(k->send + sent, out, ncclUint8, place, comm_of(k), stream);
        if (in && result == ncclSuccess)
            result = ncclRecv(k->recv + received, in, ncclUint8, place, comm_of(k), stream);
        sent += out;
        received += in;
    }
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static int launch_exchange(void *argument, weir_stream stream) {
    const struct collective *k = argument;
    return good(k->comm, k->name, exchange(k, stream)) ? 0 : FAILED;
}

static enum weir_status submit(struct collective *k, int (*launch)(void *, weir_stream), size_t sent_bytes,
                               weir_stream stream) {
    const struct weir_access accesses[] = {{k->send, k->sent_whole, false}, {k->recv, k->received_whole, true}};
    const struct weir_work work = {.name = k->name,
                                   .launch = launch,
                                   .argument = k,
                                   .argument_bytes = sizeof *k,
                                   .accesses = accesses,
                                   .access_count = 2,
                                   .bytes = (double)(k->sent_whole + k->received_whole)};
    assert(k->comm->device && k->lane < COMM_LANES);
    enum weir_status status = weir_device_submit(k->comm->device, &work, stream);
    if (!status) atomic_fetch_add(&nccl_of(k->comm)->sent[k->lane], sent_bytes);
    return status;
}

static enum weir_status nccl_all_gather(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                        void *recv, size_t bytes, weir_stream stream) {
    size_t size = (size_t)comm_size(c, group);
    struct collective k = {.comm = c,
                           .name = "all-gather",
                           .group = group,
                           .lane = lane,
                           .send = send,
                           .recv = recv,
                           .bytes = bytes,
                           .sent_whole = bytes,
                           .received_whole = size * bytes};
    return submit(&k, launch_all_gather, (size - 1) * bytes, stream);
}

static enum weir_status nccl_all_reduce_double(struct comm *c, enum comm_group group, enum comm_lane lane, double *sums,
                                               size_t count, weir_stream stream) {
    size_t bytes = count * sizeof *sums;
    struct collective k = {.comm = c,
                           .name = "all-reduce",
                           .group = group,
                           .lane = lane,
                           .send = (const char *)sums,
                           .recv = (char *)sums,
                           .count = count,
                           .sent_whole = bytes,
                           .received_whole = bytes};
    return submit(&k, launch_all_reduce, ((size_t)comm_size(c, group) - 1) * bytes, stream);
}

static enum weir_status nccl_all_to_all_v(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                          const size_t *send_bytes, void *recv, const size_t *recv_bytes,
                                          weir_stream stream) {
    struct collective k = {.comm = c,
                           .name = "all-to-all-v",
                           .group = group,
                           .lane = lane,
                           .send = send,
                           .recv = recv,
                           .send_bytes = send_bytes,
                           .recv_bytes = recv_bytes};
    for (int place = 0; place < comm_size(c, group); place++) {
        k.sent_whole += send_bytes[place];
        k.received_whole += recv_bytes[place];
    }
    return submit(&k, launch_exchange, k.sent_whole - send_bytes[comm_place(c, group)], stream);
}

static enum weir_status nccl_all_to_all(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                        void *recv, size_t bytes, weir_stream stream) {
    size_t size = (size_t)comm_size(c, group), *sizes = malloc(size * sizeof *sizes);
    if (!sizes) return WEIR_OUT_OF_HOST_MEMORY;
    for (size_t place = 0; place < size; place++) sizes[place] = bytes;
    enum weir_status status = nccl_all_to_all_v(c, group, lane, send, sizes, recv, sizes, stream);
    free(sizes);
    return status;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* Ranks of one color are one group, ordered by their place in it. */
static int color_of(const struct comm *c, enum comm_group group) {
    return group == COMM_WORLD ? 0 : group == COMM_EP ? c->rank / c->ep : c->rank % c->ep;
}

static bool split(struct comm *c, enum comm_group group, ncclComm_t *out) {
    ncclResult_t result = ncclCommSplit(nccl_of(c)->world, color_of(c, group), comm_place(c, group), out, NULL);
    return good(c, "the ranks can't be split into groups", result);
}

static enum weir_status open_communicators(struct comm *c) {
    struct nccl *n = nccl_of(c);
    ncclUniqueId id;
    if (c->rank == 0 && !good(c, "no start id", ncclGetUniqueId(&id))) return WEIR_SYSTEM;
    enum weir_status status = nccl_broadcast_host(c, &id, sizeof id, 0);
    if (status) return status;
    if (!good(c, "the ranks can't be joined", ncclCommInitRank(&n->world, c->world, id, c->rank))) return WEIR_SYSTEM;
    for (int group = 0; group < COMM_GROUPS; group++)
        for (int lane = 0; lane < COMM_LANES; lane++)
            if (!split(c, (enum comm_group)group, &n->comms[group][lane])) return WEIR_SYSTEM;
    return WEIR_OK;
}

static enum weir_status nccl_attach(struct comm *c, struct weir_device *device) {
    struct weir_device_info info = {.size = sizeof info};
    enum weir_status status = weir_device_get_info(device, &info);
    if (status) return status;
    if (info.emulated) {
        nccl_fail(c, 1, "NCCL needs a GPU; the device is emulated");
        return WEIR_NOT_SUPPORTED;
    }
    if (cudaSetDevice(info.ordinal)) {
        nccl_fail(c, 1, "the CUDA runtime can't use the device that the driver has opened");
        return WEIR_DRIVER;
    }
    c->device = device;
    return open_communicators(c);
}

/* After a failure peers may never come: communicators are then given up instead of finished. */
static void nccl_close(struct comm *c) {
    struct nccl *n = nccl_of(c);
    ncclResult_t (*end)(ncclComm_t) = nccl_failure(c, NULL, 0) ? ncclCommAbort : ncclCommDestroy;
    for (int group = 0; group < COMM_GROUPS; group++)
        for (int lane = 0; lane < COMM_LANES; lane++)
            if (n->comms[group][lane]) end(n->comms[group][lane]);
    if (n->world) end(n->world);
    n->mpi.table->close(&n->mpi);
    free(n);
    c->state = NULL;
}

static const struct comm_table table = {
    .name = "nccl",
    .lacks = "over NCCL, a rank that fails can't yet end the collectives that others wait in",
    .close = nccl_close,
    .attach = nccl_attach,
    .all_gather = nccl_all_gather,
    .all_to_all = nccl_all_to_all,
    .all_to_all_v = nccl_all_to_all_v,
    .all_reduce_double = nccl_all_reduce_double,
    .barrier = nccl_barrier,
    .reduce_host = nccl_reduce_host,
    .broadcast_host = nccl_broadcast_host,
    .gather_text = nccl_gather_text,
    .fail = nccl_fail,
    .failure = nccl_failure,
    .bytes_sent = nccl_bytes_sent,
};

enum weir_status comm_open_nccl(int *argc, char ***argv, int ep, struct comm *out) {
    struct nccl *n = calloc(1, sizeof *n);
    *out = (struct comm){.table = &table, .failed_rank = -1, .state = n};
    if (!n) return WEIR_OUT_OF_HOST_MEMORY;
    enum weir_status status = comm_open_mpi(argc, argv, ep, &n->mpi);
    out->rank = n->mpi.rank;
    out->world = n->mpi.world;
    out->ep = ep;
    if (!status) return WEIR_OK;
    free(n);
    out->state = NULL;
    return status;
}
