/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/emulated.h"
#include "trainer/optim.h"

struct run {
    const struct config *config;
    struct comm *comm;
    struct weir_device *device;
    const struct data *data;
    struct weir_pool *pool;
    struct weir_host_pool *host;
    struct weir_offload *offload;
    struct streams streams;
    struct ops ops;
    struct ops_routes drawn; /* of ops cost */
    struct routes routes;
    struct model model;
    struct optim optim;
    struct report *report;
    int64_t step;                      /* being taken, from 1; 0 before */
    int32_t *ids, *targets;            /* (T), (T) */
    double *totals;                    /* (L E + CAUSES + 2): what a step's ranks add up */
    uint64_t wire_bytes, host_wait_ns; /* counted up to the step before */
    char sentence[768];                /* why it failed, when it is not weir's own last error */
};

/* ---- open and close -------------------------------------------------------------------------------------------- */

static enum weir_status refuse(struct run *r, const char *sentence) {
    snprintf(r->sentence, sizeof r->sentence, "%s", sentence);
    return WEIR_INVALID;
}

/* The same answer on every rank: the neediest and the smallest device decide. */
static enum weir_status check_fits(struct run *r) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    TRY(weir_pool_get_stats(r->pool, &stats));
    const struct shape shape = shape_of(r->config, r->comm->ep);
    double need = (double)optim_state_bytes(&shape, r->comm, optim_uses_muon(r->config));
    double room = (double)stats.limit_bytes;
    TRY(r->comm->table->reduce_host(r->comm, '>', &need, 1));
    TRY(r->comm->table->reduce_host(r->comm, '<', &room, 1));
    if (need <= room) return WEIR_OK;
    snprintf(r->sentence, sizeof r->sentence,
             "the device is too small: a rank's shards of weights, gradients and optimizer state need %.0f bytes and "
             "%.0f are available; use more ranks, a smaller model or a larger device",
             need, room);
    return WEIR_INVALID;
}

static enum weir_status open_cost(struct run *r, enum wire wire) {
    const struct config *c = r->config;
    r->drawn = (struct ops_routes){.seed = (uint64_t)c->seed,
                                   .rank = r->comm->rank,
                                   .T = c->batch * c->seq,
                                   .E = c->experts,
                                   .K = c->top_k,
                                   .L = c->layers,
                                   .skew = c->skew};
    return ops_open_cost(r->device, wire, &r->drawn, &r->ops);
}

static enum weir_status check_backed(struct run *r) {
    struct weir_emu_machine machine;
    TRY(weir__device_machine(r->device, &machine));
    if (machine.backed) return WEIR_OK;
    return refuse(r,
                  "the emulated device's memory is addresses only, in which nothing can be computed; give --ops=cost");
}

static enum weir_status open_ops(struct run *r) {
    struct weir_device_info info = {.size = sizeof info};
    const enum wire wire = strcmp(r->config->wire, "bf16") == 0 ? WIRE_BF16 : WIRE_REAL;
    TRY(weir_device_get_info(r->device, &info));
    if (strcmp(r->config->ops, "cost") == 0) return open_cost(r, wire);
    const bool cpu = strcmp(r->config->ops, "cpu") == 0 || (info.emulated && strcmp(r->config->ops, "cuda") != 0);
    if (cpu && !info.emulated)
        return refuse(r, "--ops=cpu computes in memory that the host reaches; the device is a GPU");
    if (!cpu && info.emulated) return refuse(r, "--ops=cuda needs a GPU; the device is emulated");
    if (cpu) TRY(check_backed(r));
    TRY(cpu ? ops_open_cpu(r->device, wire, &r->ops) : ops_open_cuda(r->device, wire, &r->ops));
    return r->ops.lacks ? refuse(r, r->ops.lacks) : WEIR_OK;
}

static enum weir_status open_offload(struct run *r) {
    if (!r->config->offload) return WEIR_OK;
    struct weir_host_pool_options host = {
        .size = sizeof host, .budget_bytes = r->config->host_budget, .ranks = r->comm->world, .numa_node = -1};
    struct weir_offload_options engine = {
        .size = sizeof engine, .to_host = r->streams.stream[TO_HOST], .to_device = r->streams.stream[TO_DEVICE]};
    const enum weir_status status = weir_host_pool_create(r->device, &host, &r->host);
    if (status) return status == WEIR_INVALID ? refuse(r, weir_last_error()->message) : status;
    return weir_offload_create(r->device, r->pool, r->host, &engine, &r->offload);
}

static enum weir_status open_routes(struct run *r) {
    const struct config *c = r->config;
    const int64_t mine = c->batch * c->seq;
    r->routes = (struct routes){.save = -1,
                                .replay = -1,
                                .layers = c->layers,
                                .tokens = mine * r->comm->world,
                                .top_k = c->top_k,
                                .experts = c->experts,
                                .first = mine * r->comm->rank,
                                .count = mine};
    return routes_open(&r->routes, c->routes_save, c->routes_replay) == 0 ? WEIR_OK : refuse(r, r->routes.message);
}

static enum weir_status open_host(struct run *r) {
    const size_t T = (size_t)(r->config->batch * r->config->seq);
    r->ids = calloc(T, sizeof *r->ids);
    r->targets = calloc(T, sizeof *r->targets);
    r->totals = calloc((size_t)(r->config->layers * r->config->experts) + CAUSES + 2, sizeof *r->totals);
    return r->ids && r->targets && r->totals ? WEIR_OK : WEIR_OUT_OF_HOST_MEMORY;
}

static enum weir_status run_open(struct run *r) {
    TRY(check_fits(r));
    TRY(open_routes(r));
    TRY(open_host(r));
    TRY(streams_open(&r->streams, r->device, r->pool));
    r->streams.report = r->report;
    TRY(open_ops(r));
    TRY(open_offload(r));
    TRY(model_open(&r->model, r->config, &r->streams, r->comm, &r->ops, r->offload, &r->routes));
    return optim_open(&r->optim, &r->model, r->config);
}

/* What is left on the device stays with the pool, which takes it back. */
static void run_close(struct run *r) {
    struct weir_offload_stats stats = {.size = sizeof stats};
    optim_close(&r->optim);
    model_close(&r->model); /* all that was queued is over */
    if (r->offload && weir_offload_get_stats(r->offload, &stats) == WEIR_OK) report_offload(r->report, &stats);
    weir_offload_destroy(r->offload);
    weir_host_pool_destroy(r->host);
    if (r->streams.device) streams_close(&r->streams);
    routes_close(&r->routes);
    free(r->ids);
    free(r->targets);
    free(r->totals);
}

/* ---- a step ---------------------------------------------------------------------------------------------------- */

/* Batch `number` of the run, from 0: the global batch holds the same sequences for any number of ranks. */
static void fill_batch(struct run *r, bool validation, int64_t number) {
    const struct config *c = r->config;
    for (int64_t i = 0; i < c->batch; i++) {
        int64_t sequence = (number * r->comm->world + r->comm->rank) * c->batch + i;
        data_batch(r->data, validation, sequence, (uint64_t)c->seed, r->ids + i * c->seq, r->targets + i * c->seq);
    }
}

/* Warms up, then falls to a tenth in a straight line. */
static double rate_at(const struct config *c, int64_t step) {
    if (step <= c->warmup) return c->lr * (double)step / (double)c->warmup;
    double gone = c->steps > c->warmup ? (double)(step - c->warmup) / (double)(c->steps - c->warmup) : 1;
    return c->lr * (1 - 0.9 * gone);
}

static enum weir_status check_finite(struct run *r, const char *what, double value) {
    if (isfinite(value)) return WEIR_OK;
    snprintf(r->sentence, sizeof r->sentence,
             "the %s is %f in step %" PRId64 "; stopped before the weights were changed (a lower --lr may help)", what,
             value, r->step);
    return WEIR_BROKEN;
}

static enum weir_status learn(struct run *r, struct step_record *record) {
    const double tokens = (double)r->model.shape.T * r->comm->world;
    fill_batch(r, false, r->step - 1);
    TRY(model_sums_clear(&r->model));
    TRY(model_run(&r->model, MODEL_GRADIENTS, r->ids, r->targets, tokens));
    TRY(optim_squares(&r->optim));
    TRY(model_sums(&r->model));
    record->tokens = (int64_t)tokens;
    record->loss = r->model.host_sums[0];
    record->gradient_norm = sqrt(r->model.host_sums[1]);
    TRY(check_finite(r, "loss", record->loss));
    TRY(check_finite(r, "gradient's norm", record->gradient_norm));
    TRY(optim_step(&r->optim, rate_at(r->config, r->step), r->config->clip));
    return streams_synchronize(&r->streams, "train.step", COMPUTE);
}

/* Most over mean assignments of an expert, in the worst layer. */
static double worst_load(const double *load, int64_t L, int64_t E) {
    double worst = 0;
    for (int64_t l = 0; l < L; l++) {
        double sum = 0, most = 0;
        for (int64_t e = 0; e < E; e++) {
            sum += load[l * E + e];
            most = fmax(most, load[l * E + e]);
        }
        if (sum > 0) worst = fmax(worst, most * (double)E / sum);
    }
    return worst;
}

static enum weir_status count_up(struct run *r, const struct weir_pool_stats *stats, double *bytes, double *host_ms) {
    uint64_t sent = 0;
    for (int lane = 0; lane < COMM_LANES; lane++) sent += r->comm->table->bytes_sent(r->comm, (enum comm_lane)lane);
    *bytes = (double)(sent - r->wire_bytes);
    *host_ms = 1e-6 * (double)(stats->host_wait_ns - r->host_wait_ns);
    r->wire_bytes = sent;
    r->host_wait_ns = stats->host_wait_ns;
    return WEIR_OK;
}

/* Adds up what the ranks counted and timed, and moves the routing bias. */
static enum weir_status account(struct run *r, struct step_record *record) {
    const int64_t L = r->model.shape.L, E = r->model.shape.E;
    double *ms = r->totals + L * E, *bytes = ms + CAUSES, *host_ms = bytes + 1;
    struct weir_pool_stats stats = {.size = sizeof stats};
    TRY(weir_pool_get_stats(r->pool, &stats));
    memcpy(r->totals, r->model.load, (size_t)(L * E) * sizeof *r->totals);
    TRY(streams_spent(&r->streams, ms));
    TRY(count_up(r, &stats, bytes, host_ms));
    TRY(r->comm->table->reduce_host(r->comm, '+', r->totals, (size_t)(L * E) + CAUSES + 2));
    double peaks[] = {(double)stats.peak_live_bytes, (double)stats.peak_held_bytes};
    TRY(r->comm->table->reduce_host(r->comm, '>', peaks, 2));
    TRY(model_followed_failure(&r->model));

    const double ranks = r->comm->world;
    record->weights_ms = ms[CAUSE_WEIGHTS] / ranks;
    record->exchange_ms = ms[CAUSE_EXCHANGE] / ranks;
    record->reload_ms = ms[CAUSE_RELOAD] / ranks;
    record->reduce_ms = ms[CAUSE_REDUCE] / ranks;
    record->optimizer_ms = ms[CAUSE_OPTIMIZER] / ranks;
    record->host_ms = *host_ms / ranks;
    record->wire_bytes = (uint64_t)*bytes;
    record->expert_load = worst_load(r->totals, L, E);
    record->live_bytes = (size_t)peaks[0];
    record->held_bytes = (size_t)peaks[1];
    record->capacity_bytes = stats.limit_bytes;
    return model_balance(&r->model, r->totals, r->config->bias_rate);
}

static enum weir_status validate(struct run *r, double *loss) {
    const double tokens = (double)(r->model.shape.T * r->config->eval_batches) * r->comm->world;
    double ms[CAUSES];
    TRY(model_sums_clear(&r->model));
    for (int64_t i = 0; i < r->config->eval_batches; i++) {
        fill_batch(r, true, i);
        TRY(model_run(&r->model, MODEL_EVALUATE, r->ids, r->targets, tokens));
    }
    TRY(model_sums(&r->model));
    *loss = r->model.host_sums[0];
    return streams_spent(&r->streams, ms); /* belongs to no step */
}

static bool validation_due(const struct run *r) {
    const struct config *c = r->config;
    if (c->eval_every == 0 || data_validation_sequences(r->data) == 0) return false;
    return r->step % c->eval_every == 0 || r->step == c->steps;
}

static enum weir_status take_step(struct run *r) {
    struct step_record record = {.step = r->step, .validation_loss = NAN};
    const uint64_t begin_ns = weir__device_now_ns(r->device);
    r->streams.step = r->routes.step = r->step;
    TRY(weir_pool_mark_iteration(r->pool));
    TRY(learn(r, &record));
    TRY(account(r, &record));
    record.seconds = 1e-9 * (double)(weir__device_now_ns(r->device) - begin_ns);
    if (validation_due(r)) TRY(validate(r, &record.validation_loss));
    report_step(r->report, &record);
    return WEIR_OK;
}

/* ---- a run ----------------------------------------------------------------------------------------------------- */

enum { DONE = 0, FAILED = 1, BAD_INPUT = 2, OUT_OF_MEMORY = 3 };

/* Says why, unless another rank has said so first. Gives: the exit status. */
static int give_up(struct run *r, enum weir_status status) {
    const struct comm_table *comm = r->comm->table;
    const int known = comm->failure(r->comm, r->sentence, r->sentence[0] ? 0 : sizeof r->sentence);
    if (known) return known;
    if (!r->sentence[0] && r->routes.message[0]) refuse(r, r->routes.message);
    const int answer = status == WEIR_OUT_OF_MEMORY               ? OUT_OF_MEMORY
                       : r->sentence[0] && status == WEIR_INVALID ? BAD_INPUT
                                                                  : FAILED;
    if (!r->sentence[0]) {
        const char *why = weir_last_error()->status == status ? weir_last_error()->message : weir_status_text(status);
        snprintf(r->sentence, sizeof r->sentence, "rank %d, %s step %" PRId64 ": %s", r->comm->rank,
                 r->step ? "in" : "before", r->step ? r->step : 1, why);
    }
    comm->fail(r->comm, answer, r->sentence);
    return answer;
}

int64_t train_parameters(const struct config *config) {
    const struct shape shape = shape_of(config, 1);
    return params_count(&shape);
}

int train_run(const struct config *config, struct comm *comm, struct weir_device *device, struct weir_pool *pool,
              const struct data *data, struct report *report) {
    struct run r = {.config = config,
                    .comm = comm,
                    .device = device,
                    .pool = pool,
                    .data = data,
                    .report = report,
                    .routes = {.save = -1, .replay = -1}};
    enum weir_status status = run_open(&r);
    while (status == WEIR_OK && r.step < config->steps) {
        r.step++;
        status = take_step(&r);
    }
    const int answer = status == WEIR_OK ? DONE : give_up(&r, status);
    run_close(&r);
    return answer;
}
