/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trainer/model_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct config small_config(void) {
    struct config c = {.layers = 2,
                       .dim = 16,
                       .heads = 4,
                       .kv_heads = 2,
                       .ffn = 8,
                       .experts = 4,
                       .top_k = 2,
                       .shared = 1,
                       .route_scale = 1.0,
                       .ranks = 1,
                       .ep = 1,
                       .batch = 4,
                       .seq = 6,
                       .lr = 1e-2,
                       .decay = 0.1,
                       .clip = 1.0,
                       .bias_rate = 1e-3,
                       .loss_chunk = 5,
                       .seed = 7,
                       .steps = 3};
    strcpy(c.wire, "fp32");
    strcpy(c.optimizer, "muon");
    strcpy(c.policy, "latency");
    return c;
}

/* ---- a world of one rank --------------------------------------------------------------------------------------- */

static enum weir_status alone_attach(struct comm *comm, struct weir_device *device) {
    comm->device = device;
    return WEIR_OK;
}

enum queue rig_late = QUEUES;
bool rig_soil;

static void linger(void *argument) {
    (void)argument;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static enum weir_status come_late(struct weir_device *device, weir_stream stream) {
    const struct weir_work work = {.name = "late", .run = linger};
    return weir_device_submit(device, &work, stream);
}

static enum weir_status alone_copy(struct comm *comm, enum comm_group group, enum comm_lane lane, const void *send,
                                   void *recv, size_t bytes, weir_stream stream) {
    static const enum queue queue_of[] = {
        [LANE_GATHER] = GATHER, [LANE_REDUCE] = REDUCE, [LANE_EXCHANGE] = EXCHANGE, [LANE_COMPUTE] = COMPUTE};
    (void)group;
    if (rig_late == queue_of[lane]) TRY(come_late(comm->device, stream));
    return bytes ? weir_copy(comm->device, recv, send, bytes, stream) : WEIR_OK;
}
static enum weir_status alone_copy_v(struct comm *comm, enum comm_group group, enum comm_lane lane, const void *send,
                                     const size_t *send_bytes, void *recv, const size_t *recv_bytes,
                                     weir_stream stream) {
    assert_int_equal(send_bytes[0], recv_bytes[0]);
    return alone_copy(comm, group, lane, send, recv, send_bytes[0], stream);
}
static enum weir_status alone_reduce(struct comm *comm, enum comm_group group, enum comm_lane lane, double *sums,
                                     size_t count, weir_stream stream) {
    (void)comm, (void)group, (void)lane, (void)sums, (void)count, (void)stream;
    return WEIR_OK;
}
static enum weir_status alone_reduce_host(struct comm *comm, char op, double *values, size_t count) {
    (void)comm, (void)op, (void)values, (void)count;
    return WEIR_OK;
}
static int alone_failure(struct comm *comm, char *sentence, size_t room) {
    (void)comm, (void)sentence, (void)room;
    return 0;
}

static const struct comm_table alone_table = {
    .name = "alone",
    .attach = alone_attach,
    .all_gather = alone_copy,
    .all_to_all = alone_copy,
    .all_to_all_v = alone_copy_v,
    .all_reduce_double = alone_reduce,
    .reduce_host = alone_reduce_host,
    .failure = alone_failure,
};

struct comm comm_alone(void) {
    return (struct comm){.table = &alone_table, .world = 1, .ep = 1, .failed_rank = -1};
}

/* ---- open and close -------------------------------------------------------------------------------------------- */

static void open_pool(struct rig *rig) {
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = rig->config.limit};
    options.policy = strcmp(rig->config.policy, "footprint") == 0    ? WEIR_POLICY_FOOTPRINT
                     : strcmp(rig->config.policy, "per-stream") == 0 ? WEIR_POLICY_PER_STREAM
                                                                     : WEIR_POLICY_LATENCY;
    OK(weir_pool_create(rig->device, &options, &rig->pool));
}

static void open_offload(struct rig *rig) {
    struct weir_host_pool_options host = {
        .size = sizeof host, .budget_bytes = 64 << 20, .slab_bytes = 4 << 20, .numa_node = -1};
    struct weir_offload_options engine = {
        .size = sizeof engine, .to_host = rig->streams.stream[TO_HOST], .to_device = rig->streams.stream[TO_DEVICE]};
    OK(weir_host_pool_create(rig->device, &host, &rig->host));
    OK(weir_offload_create(rig->device, rig->pool, rig->host, &engine, &rig->offload));
}

static void open_routes(struct rig *rig) {
    const struct config *c = &rig->config;
    const int64_t mine = c->batch * c->seq;
    rig->routes = (struct routes){.layers = c->layers,
                                  .tokens = mine * rig->comm.world,
                                  .top_k = c->top_k,
                                  .experts = c->experts,
                                  .first = mine * rig->comm.rank,
                                  .count = mine};
    assert_int_equal(routes_open(&rig->routes, c->routes_save, c->routes_replay), 0);
}

void rig_open(struct rig *rig, const struct config *config, struct comm comm, struct weir_device *device) {
    memset(rig, 0, sizeof *rig);
    rig->config = *config;
    rig->comm = comm;
    rig->device = device;
    OK(rig->comm.table->attach(&rig->comm, device));
    open_pool(rig);
    OK(streams_open(&rig->streams, device, rig->pool));
    rig->streams.soil = rig_soil;
    OK(ops_open_cpu(device, strcmp(config->wire, "bf16") == 0 ? WIRE_BF16 : WIRE_REAL, &rig->ops));
    if (config->offload) open_offload(rig);
    open_routes(rig);
    OK(model_open(&rig->model, config, &rig->streams, &rig->comm, &rig->ops, rig->offload, &rig->routes));
    OK(optim_open(&rig->optim, &rig->model, config));
}

void rig_close(struct rig *rig) {
    OK(weir_device_synchronize(rig->device));
    OK(weir_pool_check(rig->pool));
    optim_close(&rig->optim);
    model_close(&rig->model);
    weir_offload_destroy(rig->offload);
    weir_host_pool_destroy(rig->host);
    streams_close(&rig->streams);
    weir_pool_destroy(rig->pool);
    routes_close(&rig->routes);
}

/* ---- batches and steps ----------------------------------------------------------------------------------------- */

void rig_batch(const struct rig *rig, int64_t number, int32_t *ids, int32_t *targets) {
    const struct config *c = &rig->config;
    for (int64_t i = 0; i < c->batch; i++) {
        uint64_t sequence = (uint64_t)((number * rig->comm.world + rig->comm.rank) * c->batch + i);
        uint64_t x = sequence * 0x9e3779b97f4a7c15u + 1;
        for (int64_t t = 0; t <= c->seq; t++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            int32_t byte = (int32_t)(x >> 59) + 'a'; /* 32 different ones */
            if (t < c->seq) ids[i * c->seq + t] = byte;
            if (t > 0) targets[i * c->seq + t - 1] = byte;
        }
    }
}

static void hold_compute(struct rig *rig) {
    if (rig_late == COMPUTE) OK(come_late(rig->device, rig->streams.stream[COMPUTE]));
}

static double run(struct rig *rig, enum model_mode mode, int64_t number) {
    const size_t T = (size_t)rig->model.shape.T;
    int32_t *batch = malloc(2 * T * sizeof *batch);
    assert_non_null(batch);
    rig_batch(rig, number, batch, batch + T);
    rig->routes.step = number + 1;
    OK(model_sums_clear(&rig->model));
    hold_compute(rig);
    OK(model_run(&rig->model, mode, batch, batch + T, (double)T * rig->comm.world));
    if (mode == MODEL_GRADIENTS) OK(optim_squares(&rig->optim));
    OK(model_sums(&rig->model));
    free(batch);
    return rig->model.host_sums[0];
}

double rig_gradients(struct rig *rig, int64_t number) { return run(rig, MODEL_GRADIENTS, number); }
double rig_loss(struct rig *rig, int64_t number) { return run(rig, MODEL_EVALUATE, number); }

double rig_step(struct rig *rig, int64_t number) {
    const size_t count = (size_t)(rig->model.shape.L * rig->model.shape.E);
    double *load = malloc(count * sizeof *load), loss = rig_gradients(rig, number);
    assert_non_null(load);
    memcpy(load, rig->model.load, count * sizeof *load);
    hold_compute(rig);
    OK(optim_step(&rig->optim, rig->config.lr, rig->config.clip));
    OK(rig->comm.table->reduce_host(&rig->comm, '+', load, count));
    OK(model_balance(&rig->model, load, rig->config.bias_rate));
    free(load);
    return loss;
}

void rig_drop_gradients(struct rig *rig) {
    EACH_PACK_OF(rig, pack) {
        OK(block_free(&rig->streams, COMPUTE, pack->reduced));
        pack->reduced = NULL;
    }
}

void rig_read(struct rig *rig, real *host, const real *device, int64_t count) {
    OK(weir_copy(rig->device, host, device, (size_t)count * sizeof *host, rig->streams.stream[COMPUTE]));
    OK(weir_stream_synchronize(rig->device, rig->streams.stream[COMPUTE]));
}

void rig_write(struct rig *rig, real *device, const real *host, int64_t count) {
    OK(weir_copy(rig->device, device, host, (size_t)count * sizeof *host, rig->streams.stream[COMPUTE]));
    OK(weir_stream_synchronize(rig->device, rig->streams.stream[COMPUTE]));
    OK(streams_follow(&rig->streams, "test", GATHER, COMPUTE));
}
