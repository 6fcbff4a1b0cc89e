/* SPDX-License-Identifier: Apache-2.0 */
/* The comm table over MPI, for devices whose memory the host can reach (the emulated one). Every collective is a set of
 * messages between pairs; the progress thread (comm_progress.h) moves them. A host function on the stream posts them
 * and waits for the thread, and makes no MPI call itself. */
#include <assert.h>
#include <limits.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/emulated.h"
#include "trainer/comm.h"
#include "trainer/comm_progress.h"

enum {
    DATA_TAG = 1,
    LENGTH_TAG = 2, /* on the control communicator, beside its notices */
    TEXT_TAG = 3,
    FAREWELL_TAG = 4,
};

/* After a failure, how long rank 0 waits for the others' texts and for their farewell; the others wait for it longer, so
 * that rank 0 has the time to tell what it has. */
static const int64_t text_limit_ns = 8000000000, farewell_limit_ns = 4000000000, patience_ns = 24000000000;

struct mpi {
    MPI_Comm control, host, lanes[COMM_LANES];
    struct progress *progress;
    atomic_uint_least64_t sent[COMM_LANES];
};

static struct mpi *mpi_of(const struct comm *c) { return c->state; }

/* ---- on a stream -------------------------------------------------------------------------------------------------- */

/* What a collective's host function gets: its messages, the part that stays on this rank, and the sum to make after. */
struct collective {
    struct mpi *mpi;
    enum comm_lane lane;
    struct transfer *transfer;
    uint64_t sent_bytes;
    const void *own_from;
    void *own_to;
    size_t own_bytes;
    double *gathered; /* (size, count), or NULL */
    double *sums;     /* (count) */
    size_t count;
    int size;
};

static void collective_destroy(struct collective *k) {
    if (!k) return;
    transfer_destroy(k->transfer);
    free(k->gathered);
    free(k);
}

/* Adds in rank order, so that every rank gets the same bits. */
static void sum_in_order(const struct collective *k) {
    for (size_t i = 0; i < k->count; i++) {
        double sum = 0;
        for (int place = 0; place < k->size; place++) sum += k->gathered[(size_t)place * k->count + i];
        k->sums[i] = sum;
    }
}

static void run_collective(void *argument) {
    struct collective *k = argument;
    if (k->own_bytes && k->own_to != k->own_from) memmove(k->own_to, k->own_from, k->own_bytes);
    progress_post(k->mpi->progress, k->transfer);
    bool complete = progress_wait(k->mpi->progress, k->transfer);
    if (complete && k->gathered) sum_in_order(k);
    atomic_fetch_add(&k->mpi->sent[k->lane], k->sent_bytes);
    collective_destroy(k);
}

static enum weir_status fail_here(struct comm *c, enum weir_status status, const char *sentence) {
    progress_fail(mpi_of(c)->progress, 1, sentence);
    return status;
}

static enum weir_status begin_collective(struct comm *c, enum comm_group group, enum comm_lane lane, const char *name,
                                         struct collective **out) {
    int size = comm_size(c, group);
    assert(c->device && lane < COMM_LANES);
    struct collective *k = calloc(1, sizeof *k);
    if (k) k->transfer = transfer_create(name, mpi_of(c)->lanes[lane], DATA_TAG, 2 * size);
    if (!k || !k->transfer) {
        collective_destroy(k);
        return fail_here(c, WEIR_OUT_OF_HOST_MEMORY, "no memory to queue a collective");
    }
    k->mpi = mpi_of(c);
    k->lane = lane;
    k->size = size;
    *out = k;
    return WEIR_OK;
}

/* One peer's two messages; the place of this rank itself is a copy. */
static void add_pair(struct comm *c, struct collective *k, enum comm_group group, int place, const void *send,
                     size_t send_bytes, void *recv, size_t recv_bytes) {
    int peer = comm_rank_at(c, group, place);
    if (peer == c->rank) {
        assert(send_bytes == recv_bytes);
        k->own_from = send;
        k->own_to = recv;
        k->own_bytes = send_bytes;
        return;
    }
    transfer_add(k->transfer, true, peer, send, send_bytes);
    transfer_add(k->transfer, false, peer, recv, recv_bytes);
    k->sent_bytes += send_bytes;
}

static enum weir_status queue_collective(struct comm *c, struct collective *k, const void *send, size_t send_bytes,
                                         const void *recv, size_t recv_bytes, weir_stream stream) {
    struct weir_access accesses[] = {{send, send_bytes, false}, {recv, recv_bytes, true}};
    struct weir_work work = {.name = k->transfer->name,
                             .run = run_collective,
                             .argument = k,
                             .accesses = accesses,
                             .access_count = 2,
                             .bytes = (double)(send_bytes + recv_bytes)};
    enum weir_status status = weir_device_submit(c->device, &work, stream);
    if (status != WEIR_OK) collective_destroy(k);
    return status;
}

static enum weir_status refuse_large(struct comm *c, const char *name, size_t bytes) {
    char sentence[256];
    snprintf(sentence, sizeof sentence, "%s of %zu bytes to one rank: a message over MPI has at most %d bytes", name,
             bytes, INT_MAX);
    return fail_here(c, WEIR_NOT_SUPPORTED, sentence);
}

static enum weir_status mpi_all_gather(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                       void *recv, size_t bytes, weir_stream stream) {
    struct collective *k;
    if (bytes > INT_MAX) return refuse_large(c, "all-gather", bytes);
    enum weir_status status = begin_collective(c, group, lane, "all-gather", &k);
    if (status != WEIR_OK) return status;
    for (int place = 0; place < k->size; place++)
        add_pair(c, k, group, place, send, bytes, (char *)recv + (size_t)place * bytes, bytes);
    return queue_collective(c, k, send, bytes, recv, (size_t)k->size * bytes, stream);
}

static enum weir_status mpi_all_to_all(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                       void *recv, size_t bytes, weir_stream stream) {
    struct collective *k;
    if (bytes > INT_MAX) return refuse_large(c, "all-to-all", bytes);
    enum weir_status status = begin_collective(c, group, lane, "all-to-all", &k);
    if (status != WEIR_OK) return status;
    for (int place = 0; place < k->size; place++)
        add_pair(c, k, group, place, (const char *)send + (size_t)place * bytes, bytes,
                 (char *)recv + (size_t)place * bytes, bytes);
    return queue_collective(c, k, send, (size_t)k->size * bytes, recv, (size_t)k->size * bytes, stream);
}

/* What this rank sends itself must be what it expects of itself. */
static enum weir_status check_sizes(struct comm *c, enum comm_group group, const size_t *send_bytes,
                                    const size_t *recv_bytes) {
    char sentence[256];
    int own = comm_place(c, group);
    for (int place = 0; place < comm_size(c, group); place++) {
        size_t most = send_bytes[place] > recv_bytes[place] ? send_bytes[place] : recv_bytes[place];
        if (place != own && most > INT_MAX) return refuse_large(c, "all-to-all-v", most);
    }
    if (send_bytes[own] == recv_bytes[own]) return WEIR_OK;
    snprintf(sentence, sizeof sentence, "all-to-all-v: rank %d sends rank %d %zu bytes, but rank %d expects %zu",
             c->rank, c->rank, send_bytes[own], c->rank, recv_bytes[own]);
    return fail_here(c, WEIR_INVALID, sentence);
}

static enum weir_status mpi_all_to_all_v(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                         const size_t *send_bytes, void *recv, const size_t *recv_bytes,
                                         weir_stream stream) {
    struct collective *k;
    size_t sent = 0, received = 0;
    enum weir_status status = check_sizes(c, group, send_bytes, recv_bytes);
    if (status == WEIR_OK) status = begin_collective(c, group, lane, "all-to-all-v", &k);
    if (status != WEIR_OK) return status;
    for (int place = 0; place < k->size; place++) {
        add_pair(c, k, group, place, (const char *)send + sent, send_bytes[place], (char *)recv + received,
                 recv_bytes[place]);
        sent += send_bytes[place];
        received += recv_bytes[place];
    }
    return queue_collective(c, k, send, sent, recv, received, stream);
}

static enum weir_status mpi_all_reduce_double(struct comm *c, enum comm_group group, enum comm_lane lane, double *sums,
                                              size_t count, weir_stream stream) {
    struct collective *k;
    size_t bytes = count * sizeof *sums;
    if (bytes > INT_MAX) return refuse_large(c, "all-reduce", bytes);
    enum weir_status status = begin_collective(c, group, lane, "all-reduce", &k);
    if (status != WEIR_OK) return status;
    k->count = count;
    k->sums = sums;
    k->gathered = calloc((size_t)k->size * count + 1, sizeof *sums);
    if (!k->gathered) {
        collective_destroy(k);
        return fail_here(c, WEIR_OUT_OF_HOST_MEMORY, "no memory to queue an all-reduce");
    }
    for (int place = 0; place < k->size; place++)
        add_pair(c, k, group, place, sums, bytes, k->gathered + (size_t)place * count, bytes);
    return queue_collective(c, k, sums, bytes, sums, bytes, stream);
}

/* ---- on the host -------------------------------------------------------------------------------------------------- */

/* The messages of a collective in which rank `root` has one with each other rank; `to_root` says which way they go.
 * Root's (world) blocks of `bytes` start at `blocks`; the others have one at `own`. NULL without memory. */
static struct transfer *rooted(struct comm *c, const char *name, MPI_Comm comm, int tag, int root, bool to_root,
                               void *blocks, size_t stride, void *own, size_t bytes) {
    struct transfer *t = transfer_create(name, comm, tag, c->world);
    if (!t) return NULL;
    if (c->rank != root) {
        transfer_add(t, to_root, root, own, bytes);
        return t;
    }
    for (int peer = 0; peer < c->world; peer++)
        if (peer != root) transfer_add(t, !to_root, peer, (char *)blocks + (size_t)peer * stride, bytes);
    return t;
}

static enum weir_status finish(struct comm *c, struct transfer *t) {
    if (!t) return fail_here(c, WEIR_OUT_OF_HOST_MEMORY, "no memory to exchange messages");
    progress_post(mpi_of(c)->progress, t);
    bool complete = progress_wait(mpi_of(c)->progress, t);
    transfer_destroy(t);
    return complete ? WEIR_OK : WEIR_SYSTEM;
}

static enum weir_status mpi_broadcast_host(struct comm *c, void *data, size_t bytes, int root) {
    if (bytes > INT_MAX) return refuse_large(c, "broadcast", bytes);
    return finish(c, rooted(c, "broadcast", mpi_of(c)->host, DATA_TAG, root, false, data, 0, data, bytes));
}

static double reduced(char op, double a, double b) {
    assert(op == '+' || op == '<' || op == '>');
    return op == '+' ? a + b : (op == '<') == (b < a) ? b : a;
}

static enum weir_status mpi_reduce_host(struct comm *c, char op, double *values, size_t count) {
    size_t bytes = count * sizeof *values;
    double *all = calloc((size_t)c->world * count + 1, sizeof *all);
    if (!all) return fail_here(c, WEIR_OUT_OF_HOST_MEMORY, "no memory to reduce numbers");
    enum weir_status status =
        finish(c, rooted(c, "reduce", mpi_of(c)->host, DATA_TAG, 0, true, all, bytes, values, bytes));
    if (status == WEIR_OK && c->rank == 0)
        for (int rank = 1; rank < c->world; rank++)
            for (size_t i = 0; i < count; i++) values[i] = reduced(op, values[i], all[(size_t)rank * count + i]);
    free(all);
    return status == WEIR_OK ? mpi_broadcast_host(c, values, bytes, 0) : status;
}

static enum weir_status mpi_barrier(struct comm *c) {
    double nothing = 0;
    return mpi_reduce_host(c, '+', &nothing, 1);
}

/* ---- texts -------------------------------------------------------------------------------------------------------- */

/* One message from every rank to rank 0 that is not held up by a failure. lengths (world): -1 where none has come. */
static enum weir_status gather_lengths(struct comm *c, int64_t own, int64_t *lengths) {
    for (int rank = 0; rank < c->world; rank++) lengths[rank] = -1;
    struct transfer *t =
        rooted(c, "gather of texts", mpi_of(c)->control, LENGTH_TAG, 0, true, lengths, sizeof own, &own, sizeof own);
    if (t) t->survives = true, t->limit_ns = text_limit_ns;
    enum weir_status status = finish(c, t);
    lengths[0] = own;
    return status;
}

static enum weir_status collect_texts(struct comm *c, const int64_t *lengths, char **texts) {
    struct transfer *t = transfer_create("gather of texts", mpi_of(c)->control, TEXT_TAG, c->world);
    if (!t) return finish(c, t);
    t->survives = true;
    t->limit_ns = text_limit_ns;
    for (int rank = 0; rank < c->world; rank++) {
        texts[rank] = calloc(lengths[rank] > 0 ? (size_t)lengths[rank] + 1 : 1, 1);
        if (rank && lengths[rank] >= 0 && texts[rank]) transfer_add(t, false, rank, texts[rank], (size_t)lengths[rank]);
    }
    return finish(c, t);
}

static enum weir_status send_text(struct comm *c, const char *text, size_t length) {
    struct transfer *t =
        rooted(c, "gather of texts", mpi_of(c)->control, TEXT_TAG, 0, true, NULL, 0, (void *)(uintptr_t)text, length);
    if (t) t->survives = true, t->limit_ns = text_limit_ns;
    return finish(c, t);
}

static enum weir_status mpi_gather_text(struct comm *c, const char *text, char ***texts) {
    size_t length = strlen(text);
    *texts = NULL;
    if (length > INT_MAX) return refuse_large(c, "gather of texts", length);
    int64_t *lengths = calloc((size_t)c->world, sizeof *lengths);
    if (!lengths) return fail_here(c, WEIR_OUT_OF_HOST_MEMORY, "no memory to gather texts");
    enum weir_status status = gather_lengths(c, (int64_t)length, lengths);
    if (c->rank != 0) {
        if (status == WEIR_OK) status = send_text(c, text, length);
    } else if ((*texts = calloc((size_t)c->world, sizeof **texts))) {
        collect_texts(c, lengths, *texts); /* what has not come is an empty text */
        if ((*texts)[0]) memcpy((*texts)[0], text, length);
        status = WEIR_OK;
    }
    free(lengths);
    return status;
}

/* ---- failure, open and close -------------------------------------------------------------------------------------- */

static void mpi_fail(struct comm *c, int exit_status, const char *sentence) {
    progress_fail(mpi_of(c)->progress, exit_status, sentence);
}

static int mpi_failure(struct comm *c, char *sentence, size_t room) {
    int rank = -1, exit_status = progress_failure(mpi_of(c)->progress, sentence, room, &rank);
    if (exit_status && c->failed_rank < 0) c->failed_rank = rank;
    return exit_status;
}

static uint64_t mpi_bytes_sent(struct comm *c, enum comm_lane lane) { return atomic_load(&mpi_of(c)->sent[lane]); }

static enum weir_status mpi_attach(struct comm *c, struct weir_device *device) {
    struct weir_device_info info = {.size = sizeof info};
    enum weir_status status = weir_device_get_info(device, &info);
    if (status != WEIR_OK) return status;
    if (!info.emulated)
        return fail_here(c, WEIR_NOT_SUPPORTED, "MPI reaches the memory of an emulated device only; a GPU needs NCCL");
    if (c->world > 1 && weir__device_takes_turns(device))
        return fail_here(c, WEIR_NOT_SUPPORTED,
                         "the virtual clock is of one process, and MPI's ranks are several; give --comm=local");
    c->device = device;
    return WEIR_OK;
}

/* After a failure: everyone tells rank 0 that it is done, and hears that all are. False when someone is missing. */
static bool farewell(struct comm *c) {
    char word = 0;
    for (int back = 0; back < 2; back++) {
        struct transfer *t = transfer_create("farewell", mpi_of(c)->control, FAREWELL_TAG, c->world);
        if (!t) return false;
        t->survives = true;
        t->limit_ns = c->rank ? patience_ns : farewell_limit_ns;
        for (int peer = c->rank ? 0 : 1; peer < (c->rank ? 1 : c->world); peer++)
            transfer_add(t, (c->rank != 0) != back, peer, &word, 0);
        if (finish(c, t) != WEIR_OK) return false;
    }
    return true;
}

static void release(struct comm *c) {
    free(c->state);
    c->state = NULL;
}

/* Without a failure MPI is finalised. After one, transfers may lie open that MPI can neither cancel nor forget, so that
 * it must not be touched again; the process ends without it. */
static void mpi_close(struct comm *c) {
    struct mpi *m = mpi_of(c);
    bool failed = mpi_barrier(c) != WEIR_OK, together = !failed || farewell(c);
    int exit_status = failed ? progress_failure(m->progress, NULL, 0, NULL) : 0;
    progress_stop(m->progress);
    if (!together) MPI_Abort(MPI_COMM_WORLD, exit_status);
    if (!failed) {
        for (int lane = 0; lane < COMM_LANES; lane++) MPI_Comm_free(&m->lanes[lane]);
        MPI_Comm_free(&m->host);
        MPI_Comm_free(&m->control);
        MPI_Finalize();
    }
    release(c);
}

static const struct comm_table table = {
    .name = "mpi",
    .close = mpi_close,
    .attach = mpi_attach,
    .all_gather = mpi_all_gather,
    .all_to_all = mpi_all_to_all,
    .all_to_all_v = mpi_all_to_all_v,
    .all_reduce_double = mpi_all_reduce_double,
    .barrier = mpi_barrier,
    .reduce_host = mpi_reduce_host,
    .broadcast_host = mpi_broadcast_host,
    .gather_text = mpi_gather_text,
    .fail = mpi_fail,
    .failure = mpi_failure,
    .bytes_sent = mpi_bytes_sent,
};

static bool duplicate(MPI_Comm *out) {
    if (MPI_Comm_dup(MPI_COMM_WORLD, out)) return false;
    return MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

static bool open_communicators(struct mpi *m) {
    bool good = duplicate(&m->control) && duplicate(&m->host);
    for (int lane = 0; good && lane < COMM_LANES; lane++) good = duplicate(&m->lanes[lane]);
    return good;
}

enum weir_status comm_open_mpi(int *argc, char ***argv, int ep, struct comm *out) {
    int provided = 0, initialised = 0;
    memset(out, 0, sizeof *out);
    MPI_Initialized(&initialised);
    if (!initialised && MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided)) return WEIR_SYSTEM;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Query_thread(&provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &out->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &out->world);
    out->ep = ep;
    out->failed_rank = -1;
    out->table = &table;
    if (provided < MPI_THREAD_SERIALIZED) return WEIR_NOT_SUPPORTED;
    if (ep < 1 || out->world % ep) return WEIR_INVALID;
    struct mpi *m = out->state = calloc(1, sizeof *m);
    if (m && open_communicators(m) && (m->progress = progress_start(m->control))) return WEIR_OK;
    release(out);
    return WEIR_SYSTEM;
}
