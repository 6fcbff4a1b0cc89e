/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/params.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Where a param's random numbers begin: places of 2^40 numbers, 64 a layer, layer -1 for what is in none. */
enum { IDENTITY_BITS = 40, IDENTITIES_A_LAYER = 64 };
enum { IDENTITY_EXPERT = DENSE_PARAMS };

struct shape shape_of(const struct config *config, int ep) {
    return (struct shape){
        .T = config->batch * config->seq,
        .S = config->seq,
        .d = config->dim,
        .L = config->layers,
        .V = VOCABULARY,
        .H = config->heads,
        .G = config->kv_heads,
        .D = config->dim / config->heads,
        .E = config->experts,
        .K = config->top_k,
        .F = config->ffn,
        .local = config->experts / ep,
        .shared = config->shared * config->ffn,
    };
}

static void pack_begin(struct pack *pack, enum comm_group group, const struct comm *comm) {
    memset(pack, 0, sizeof *pack);
    pack->group = group;
    pack->ranks = comm_size(comm, group);
    pack->place = comm_place(comm, group);
}

/* Params begin at multiples of `align` numbers. */
static void pack_add(struct pack *pack, int64_t align, struct param param) {
    assert(pack->params < PACK_PARAMS);
    param.offset = (pack->used + align - 1) / align * align;
    pack->used = param.offset + param.matrices * param.rows * param.cols;
    pack->param[pack->params++] = param;
}

static void pack_end(struct pack *pack, int64_t quantum) {
    int64_t quanta = (pack->used + quantum - 1) / quantum;
    pack->quantum = quantum;
    pack->shard = (quanta + pack->ranks - 1) / pack->ranks * quantum;
    pack->size = pack->shard * pack->ranks;
}

static uint64_t identity(int64_t layer, int64_t index) {
    return (uint64_t)((layer + 1) * IDENTITIES_A_LAYER + index) << IDENTITY_BITS;
}

static const int64_t dense_align = 16; /* numbers: whole cache lines in fp32, half ones in bf16 */

static struct param vector(const char *name, int64_t size, uint64_t id) {
    return (struct param){.name = name, .matrices = 1, .rows = 1, .cols = size, .identity = id};
}

static struct param matrices(const char *name, int64_t count, int64_t rows, int64_t cols, double spread, uint64_t id) {
    return (struct param){
        .name = name, .matrices = count, .rows = rows, .cols = cols, .matrix = true, .spread = spread, .identity = id};
}

/* A matrix that AdamW trains: its rows stand for bytes or experts, not for directions of one space. */
static struct param table(const char *name, int64_t rows, int64_t cols, double spread, uint64_t id) {
    struct param param = matrices(name, 1, rows, cols, spread, id);
    param.matrix = false;
    return param;
}

/* Keeps the variance of what goes through; those that write to the residual stream are smaller, by the number of
 * writers, so that the stream does not grow with depth. */
static double spread_in(int64_t in) { return 1 / sqrt((double)in); }
static double spread_out(int64_t in, int64_t layers) { return spread_in(in) / sqrt(2.0 * (double)layers); }

void pack_embed(struct pack *pack, const struct shape *shape, const struct comm *comm) {
    pack_begin(pack, COMM_WORLD, comm);
    pack_add(pack, dense_align, table("embed", shape->V, shape->d, 0.5, identity(-1, 0)));
    pack_end(pack, dense_align);
    assert(pack->params == EMBED_PARAMS);
}

void pack_dense(struct pack *pack, const struct shape *shape, const struct comm *comm, int64_t layer) {
    const int64_t d = shape->d, q = shape->H * shape->D, kv = shape->G * shape->D, f = shape->shared, L = shape->L;
    const struct param params[DENSE_PARAMS] = {
        [ATTENTION_NORM] = vector("attention_norm", d, 0),
        [WQ] = matrices("wq", 1, q, d, spread_in(d), identity(layer, WQ)),
        [WK] = matrices("wk", 1, kv, d, spread_in(d), identity(layer, WK)),
        [WV] = matrices("wv", 1, kv, d, spread_in(d), identity(layer, WV)),
        [Q_GAIN] = vector("q_gain", shape->D, 0),
        [K_GAIN] = vector("k_gain", shape->D, 0),
        [WO] = matrices("wo", 1, d, q, spread_out(q, L), identity(layer, WO)),
        [MOE_NORM] = vector("moe_norm", d, 0),
        [ROUTER] = table("router", shape->E, d, spread_in(d), identity(layer, ROUTER)),
        [SHARED_W1] = matrices("shared_w1", f > 0, f, d, spread_in(d), identity(layer, SHARED_W1)),
        [SHARED_W3] = matrices("shared_w3", f > 0, f, d, spread_in(d), identity(layer, SHARED_W3)),
        [SHARED_W2] = matrices("shared_w2", f > 0, d, f, f > 0 ? spread_out(f, L) : 0, identity(layer, SHARED_W2)),
    };
    pack_begin(pack, COMM_WORLD, comm);
    for (int i = 0; i < DENSE_PARAMS; i++) pack_add(pack, dense_align, params[i]);
    pack_end(pack, dense_align);
}

/* Whole matrices a rank while there are enough of them, so that Muon needs no communication; then pieces. */
void pack_experts(struct pack *pack, const struct shape *shape, const struct comm *comm, int64_t layer) {
    const int64_t d = shape->d, F = shape->F, E = shape->local, one = F * d;
    const uint64_t first = (uint64_t)(comm_place(comm, COMM_EP) * E * one); /* number of the first local expert */
    uint64_t id[EXPERT_PARAMS];
    for (int i = 0; i < EXPERT_PARAMS; i++) id[i] = identity(layer, IDENTITY_EXPERT + i) + first;
    pack_begin(pack, COMM_EFSDP, comm);
    pack_add(pack, 1, matrices("w1", E, F, d, spread_in(d), id[EXPERT_W1]));
    pack_add(pack, 1, matrices("w3", E, F, d, spread_in(d), id[EXPERT_W3]));
    pack_add(pack, 1, matrices("w2", E, d, F, spread_out(F, shape->L), id[EXPERT_W2]));
    pack_end(pack, EXPERT_PARAMS * E >= pack->ranks ? one : 1);
}

void pack_head(struct pack *pack, const struct shape *shape, const struct comm *comm) {
    pack_begin(pack, COMM_WORLD, comm);
    pack_add(pack, dense_align, vector("norm", shape->d, 0));
    pack_add(pack, dense_align, table("head", shape->V, shape->d, 0.02, identity(-1, 1)));
    pack_end(pack, dense_align);
    assert(pack->params == HEAD_PARAMS);
}

struct range pack_shard(const struct pack *pack, int place) {
    return (struct range){place * pack->shard, (place + 1) * pack->shard};
}

struct range param_range(const struct param *param) {
    return (struct range){param->offset, param->offset + param->matrices * param->rows * param->cols};
}

struct range matrix_range(const struct param *param, int64_t matrix) {
    int64_t size = param->rows * param->cols, begin = param->offset + matrix * size;
    return (struct range){begin, begin + size};
}

struct range range_meet(struct range a, struct range b) {
    struct range both = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    if (both.end < both.begin) both.end = both.begin;
    return both;
}

int64_t pack_adamw_count(const struct pack *pack, bool muon) {
    int64_t count = 0;
    for (int i = 0; i < pack->params; i++)
        if (!(muon && pack->param[i].matrix))
            count += range_size(range_meet(param_range(&pack->param[i]), pack_shard(pack, pack->place)));
    return count;
}

static int64_t pack_parameters(const struct pack *pack) {
    int64_t count = 0;
    for (int i = 0; i < pack->params; i++) count += range_size(param_range(&pack->param[i]));
    return count;
}

int64_t params_count(const struct shape *shape) {
    const struct comm alone = {.world = 1, .ep = 1};
    struct shape whole = *shape;
    struct pack embed, dense, experts, head;
    whole.local = whole.E;
    pack_embed(&embed, &whole, &alone);
    pack_dense(&dense, &whole, &alone, 0);
    pack_experts(&experts, &whole, &alone, 0);
    pack_head(&head, &whole, &alone);
    return pack_parameters(&embed) + pack_parameters(&head) +
           whole.L * (pack_parameters(&dense) + pack_parameters(&experts));
}

/* A counter-based generator: number i of a seed, whoever asks. */
static uint64_t random_bits(uint64_t seed, uint64_t index) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + index;
    for (int round = 0; round < 2; round++) {
        x += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return x;
}

static double random_normal(uint64_t seed, uint64_t index) {
    const double unit = 0x1p-53, turn = 6.283185307179586;
    double a = ((double)(random_bits(seed, 2 * index) >> 11) + 0.5) * unit;
    double b = ((double)(random_bits(seed, 2 * index + 1) >> 11) + 0.5) * unit;
    return sqrt(-2 * log(a)) * cos(turn * b);
}

void pack_initialise(const struct pack *pack, uint64_t seed, real *weights) {
    struct range mine = pack_shard(pack, pack->place);
    memset(weights, 0, (size_t)pack->shard * sizeof *weights);
    for (int p = 0; p < pack->params; p++) {
        const struct param *param = &pack->param[p];
        struct range here = range_meet(param_range(param), mine);
        for (int64_t i = here.begin; i < here.end; i++) {
            uint64_t index = param->identity + (uint64_t)(i - param->offset);
            weights[i - mine.begin] = (real)(param->spread > 0 ? param->spread * random_normal(seed, index) : 1);
        }
    }
}
