/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/optim.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every pack of every unit, in order. */
#define EACH_PACK(f, pack)                                                                                             \
    for (int u_ = 0; u_ < (f)->units; u_++)                                                                            \
        for (struct pack *pack = (f)->unit[u_].pack; pack < (f)->unit[u_].pack + (f)->unit[u_].packs; pack++)

/* ---- what lies where ------------------------------------------------------------------------------------------- */

/* The place whose shard holds the matrix, or -1 when several do. */
static int whole_at(const struct pack *pack, struct range matrix) {
    int64_t first = matrix.begin / pack->shard, last = (matrix.end - 1) / pack->shard;
    return first == last ? (int)first : -1;
}

static struct range piece(const struct split *split, int place) {
    return range_meet(matrix_range(split->param, split->matrix), pack_shard(split->pack, place));
}

/* Arithmetic of Newton-Schulz, up to a factor: s^2 (2 l + s) for s <= l. */
static double cost_of(const struct param *param) {
    double s = (double)(param->rows < param->cols ? param->rows : param->cols);
    double l = (double)(param->rows < param->cols ? param->cols : param->rows);
    return s * s * (2 * l + s);
}

/* ---- owners ---------------------------------------------------------------------------------------------------- */

static int heavier_first(const void *a, const void *b) {
    const struct split *x = a, *y = b;
    double cx = cost_of(x->param), cy = cost_of(y->param);
    return cx != cy ? (cx < cy ? 1 : -1) : x->owner - y->owner; /* owner: place in the list so far */
}

static int by_owner(const void *a, const void *b) {
    const struct split *x = a, *y = b;
    if (x->owner != y->owner) return x->owner - y->owner;
    int64_t px = matrix_range(x->param, x->matrix).begin, py = matrix_range(y->param, y->matrix).begin;
    return x->pack != y->pack ? (x->pack < y->pack ? -1 : 1) : px < py ? -1 : px > py;
}

/* Lists the split matrices; work (ranks) += what whole ones cost their ranks. */
static enum weir_status find_splits(struct round *r, struct fsdp *f, double *work) {
    int room = 0;
    EACH_PACK(f, pack) {
        if (pack->group != r->group) continue;
        for (int p = 0; p < pack->params; p++)
            if (pack->param[p].matrix) room += (int)pack->param[p].matrices;
    }
    r->split = calloc((size_t)room + 1, sizeof *r->split);
    if (!r->split) return WEIR_OUT_OF_HOST_MEMORY;
    EACH_PACK(f, pack) {
        if (pack->group != r->group) continue;
        for (int p = 0; p < pack->params; p++)
            for (int64_t i = 0; pack->param[p].matrix && i < pack->param[p].matrices; i++) {
                int at = whole_at(pack, matrix_range(&pack->param[p], i));
                if (at >= 0)
                    work[at] += cost_of(&pack->param[p]);
                else {
                    r->split[r->splits] = (struct split){pack, &pack->param[p], i, r->splits};
                    r->splits++;
                }
            }
    }
    return WEIR_OK;
}

static void choose_owners(struct round *r, double *work) {
    qsort(r->split, (size_t)r->splits, sizeof *r->split, heavier_first);
    for (int i = 0; i < r->splits; i++) {
        int least = 0;
        for (int place = 1; place < r->ranks; place++)
            if (work[place] < work[least]) least = place;
        r->split[i].owner = least;
        work[least] += cost_of(r->split[i].param);
    }
    qsort(r->split, (size_t)r->splits, sizeof *r->split, by_owner);
}

static void measure_pieces(struct round *r) {
    for (int i = 0; i < r->splits; i++) {
        const struct split *split = &r->split[i];
        int64_t own = range_size(piece(split, r->place));
        r->bytes[split->owner] += (size_t)own * sizeof(real);
        r->mine += own;
        for (int source = 0; source < r->ranks && split->owner == r->place; source++) {
            int64_t theirs = range_size(piece(split, source));
            r->bytes[r->ranks + source] += (size_t)theirs * sizeof(real);
            r->pieces += theirs;
        }
    }
}

static enum weir_status round_open(struct round *r, struct fsdp *f, enum comm_group group) {
    *r = (struct round){.group = group, .ranks = comm_size(f->comm, group), .place = comm_place(f->comm, group)};
    double *work = calloc((size_t)r->ranks, sizeof *work);
    r->bytes = calloc(2 * (size_t)r->ranks, sizeof *r->bytes);
    enum weir_status status = work && r->bytes ? find_splits(r, f, work) : WEIR_OUT_OF_HOST_MEMORY;
    if (status == WEIR_OK) {
        choose_owners(r, work);
        measure_pieces(r);
    }
    free(work);
    return status;
}

/* ---- open and close -------------------------------------------------------------------------------------------- */

static enum weir_status state_alloc(struct streams *s, int64_t count, real **out) {
    TRY(real_alloc(s, COMPUTE, count, out));
    if (count == 0) return WEIR_OK;
    return weir_set(s->device, *out, 0, (size_t)count * sizeof **out, s->stream[COMPUTE]);
}

bool optim_uses_muon(const struct config *config) { return strcmp(config->optimizer, "muon") == 0; }

enum weir_status optim_open(struct optim *o, struct model *m, const struct config *config) {
    *o = (struct optim){.model = m, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .mu = 0.95, .decay = config->decay};
    o->muon = optim_uses_muon(config);
    EACH_PACK(&m->fsdp, pack) {
        TRY(state_alloc(m->streams, pack->shard, &pack->momentum));
        TRY(state_alloc(m->streams, pack_adamw_count(pack, o->muon), &pack->variance));
    }
    if (!o->muon) return WEIR_OK;
    TRY(round_open(&o->round[0], &m->fsdp, COMM_WORLD));
    return round_open(&o->round[1], &m->fsdp, COMM_EFSDP);
}

void optim_close(struct optim *o) {
    for (int i = 0; i < 2; i++) {
        free(o->round[i].split);
        free(o->round[i].bytes);
    }
    memset(o, 0, sizeof *o);
}

static size_t pack_state_numbers(const struct pack *pack, bool muon) {
    return 3 * (size_t)pack->shard + (size_t)pack_adamw_count(pack, muon); /* weights, gradient, first moment; second */
}

size_t optim_state_bytes(const struct shape *shape, const struct comm *comm, bool muon) {
    struct pack pack;
    pack_embed(&pack, shape, comm);
    size_t numbers = pack_state_numbers(&pack, muon);
    pack_head(&pack, shape, comm);
    numbers += pack_state_numbers(&pack, muon);
    for (int64_t layer = 0; layer < shape->L; layer++) {
        pack_dense(&pack, shape, comm, layer);
        numbers += pack_state_numbers(&pack, muon);
        pack_experts(&pack, shape, comm, layer);
        numbers += pack_state_numbers(&pack, muon);
    }
    return numbers * sizeof(real);
}

/* ---- norm ------------------------------------------------------------------------------------------------------ */

enum weir_status optim_squares(struct optim *o) {
    struct model *m = o->model;
    TRY(streams_await(m->streams, "train.reduced", CAUSE_REDUCE, REDUCE));
    EACH_PACK(&m->fsdp, pack)
    OP(m, sum_squares, m->sums + 1, pack->reduced, pack->shard, m->streams->stream[COMPUTE]);
    return WEIR_OK;
}

enum weir_status optim_clip(struct optim *o, double limit) {
    struct model *m = o->model;
    EACH_PACK(&m->fsdp, pack)
    OP(m, clip, pack->reduced, m->sums + 1, limit, pack->shard, m->streams->stream[COMPUTE]);
    return WEIR_OK;
}

/* ---- AdamW ----------------------------------------------------------------------------------------------------- */

static enum weir_status adamw_update(struct optim *o, struct pack *pack, double rate) {
    struct model *m = o->model;
    int64_t done = 0; /* of `variance` */
    for (int p = 0; p < pack->params; p++) {
        struct range mine = pack_shard(pack, pack->place), part = range_meet(param_range(&pack->param[p]), mine);
        int64_t at = part.begin - mine.begin, count = range_size(part);
        if ((o->muon && pack->param[p].matrix) || count == 0) continue;
        OP(m, adamw, pack->master + at, pack->momentum + at, pack->variance + done, pack->reduced + at, count, rate,
           o->beta1, o->beta2, o->epsilon, o->decay, o->step, m->streams->stream[COMPUTE]);
        done += count;
    }
    return WEIR_OK;
}

/* ---- Muon ------------------------------------------------------------------------------------------------------ */

/* Makes the update's size that of AdamW, so that both share a learning rate. */
static double muon_scale(const struct param *param) {
    return 0.2 * sqrt((double)(param->rows > param->cols ? param->rows : param->cols));
}

/* u (count matrices) becomes its orthogonal image. */
static enum weir_status orthogonalise(struct model *m, real *u, int64_t count, const struct param *param) {
    real *scratch;
    TRY(real_alloc(m->streams, COMPUTE, m->ops->table->newton_schulz_scratch(param->rows, param->cols), &scratch));
    OP(m, newton_schulz, u, scratch, count, param->rows, param->cols, m->streams->stream[COMPUTE]);
    return block_free(m->streams, COMPUTE, scratch);
}

/* A param's whole matrices in this rank's shard lie next to each other. */
static enum weir_status muon_whole(struct optim *o, struct pack *pack, const struct param *param, double rate) {
    struct model *m = o->model;
    weir_stream compute = m->streams->stream[COMPUTE];
    int64_t first = 0, count = 0;
    for (int64_t i = 0; i < param->matrices; i++) {
        if (whole_at(pack, matrix_range(param, i)) != pack->place) continue;
        if (count++ == 0) first = i;
    }
    if (count == 0) return WEIR_OK;
    const int64_t at = matrix_range(param, first).begin - pack_shard(pack, pack->place).begin;
    const int64_t numbers = count * param->rows * param->cols;
    real *u;
    TRY(real_alloc(m->streams, COMPUTE, numbers, &u));
    OP(m, muon_momentum, u, pack->momentum + at, pack->reduced + at, o->mu, numbers, compute);
    TRY(orthogonalise(m, u, count, param));
    OP(m, muon_apply, pack->master + at, u, rate, o->decay, muon_scale(param), numbers, compute);
    return block_free(m->streams, COMPUTE, u);
}

/* mine (r->mine): the momentum of this rank's pieces, by owner; or with `apply`, their updates, which are applied. */
static enum weir_status muon_pieces(struct optim *o, const struct round *r, real *mine, bool apply, double rate) {
    struct model *m = o->model;
    weir_stream compute = m->streams->stream[COMPUTE];
    for (int i = 0; i < r->splits; i++) {
        struct pack *pack = r->split[i].pack;
        struct range part = piece(&r->split[i], r->place);
        const int64_t at = part.begin - pack_shard(pack, r->place).begin, count = range_size(part);
        if (count == 0) continue;
        if (apply)
            OP(m, muon_apply, pack->master + at, mine, rate, o->decay, muon_scale(r->split[i].param), count, compute);
        else
            OP(m, muon_momentum, mine, pack->momentum + at, pack->reduced + at, o->mu, count, compute);
        mine += count;
    }
    return WEIR_OK;
}

/* Copies between pieces (by source, then matrix) and whole (by matrix), both (r->pieces) long. */
static enum weir_status muon_regroup(struct model *m, const struct round *r, real *pieces, real *whole, bool back) {
    struct streams *s = m->streams;
    for (int source = 0; source < r->ranks; source++) {
        real *matrix = whole;
        for (int i = 0; i < r->splits; i++) {
            const struct split *split = &r->split[i];
            if (split->owner != r->place) continue;
            const struct range all = matrix_range(split->param, split->matrix);
            const struct range part = piece(split, source);
            const size_t bytes = (size_t)range_size(part) * sizeof *pieces;
            real *inside = matrix + (part.begin - all.begin);
            if (bytes > 0)
                TRY(weir_copy(s->device, back ? pieces : inside, back ? inside : pieces, bytes, s->stream[COMPUTE]));
            pieces += range_size(part);
            matrix += range_size(all);
        }
    }
    return WEIR_OK;
}

static enum weir_status muon_owned(struct model *m, const struct round *r, real *whole) {
    for (int i = 0; i < r->splits; i++) {
        const struct split *split = &r->split[i];
        if (split->owner != r->place) continue;
        TRY(orthogonalise(m, whole, 1, split->param));
        whole += range_size(matrix_range(split->param, split->matrix));
    }
    return WEIR_OK;
}

static enum weir_status muon_round(struct optim *o, const struct round *r, double rate) {
    struct model *m = o->model;
    struct streams *s = m->streams;
    const struct comm_table *comm = m->comm->table;
    weir_stream compute = s->stream[COMPUTE];
    const size_t *by_owner_bytes = r->bytes, *by_source_bytes = r->bytes + r->ranks;
    real *mine, *pieces, *whole;
    if (r->splits == 0) return WEIR_OK;
    TRY(real_alloc(s, COMPUTE, r->mine, &mine));
    TRY(real_alloc(s, COMPUTE, r->pieces, &pieces));
    TRY(real_alloc(s, COMPUTE, r->pieces, &whole));
    TRY(muon_pieces(o, r, mine, false, 0));
    TRY(comm->all_to_all_v(m->comm, r->group, LANE_COMPUTE, mine, by_owner_bytes, pieces, by_source_bytes, compute));
    TRY(muon_regroup(m, r, pieces, whole, false));
    TRY(muon_owned(m, r, whole));
    TRY(muon_regroup(m, r, pieces, whole, true));
    TRY(comm->all_to_all_v(m->comm, r->group, LANE_COMPUTE, pieces, by_source_bytes, mine, by_owner_bytes, compute));
    TRY(muon_pieces(o, r, mine, true, rate));
    TRY(block_free(s, COMPUTE, whole));
    TRY(block_free(s, COMPUTE, pieces));
    return block_free(s, COMPUTE, mine);
}

/* ---- step ------------------------------------------------------------------------------------------------------ */

static enum weir_status muon_update(struct optim *o, double rate) {
    EACH_PACK(&o->model->fsdp, pack)
    for (int p = 0; p < pack->params; p++)
        if (pack->param[p].matrix) TRY(muon_whole(o, pack, &pack->param[p], rate));
    TRY(muon_round(o, &o->round[0], rate));
    return muon_round(o, &o->round[1], rate);
}

enum weir_status optim_step(struct optim *o, double rate, double clip) {
    struct model *m = o->model;
    struct streams *s = m->streams;
    o->step++;
    TRY(span_begin(s, CAUSE_OPTIMIZER));
    if (clip > 0) TRY(optim_clip(o, clip));
    EACH_PACK(&m->fsdp, pack) TRY(adamw_update(o, pack, rate));
    if (o->muon) TRY(muon_update(o, rate));
    EACH_PACK(&m->fsdp, pack) {
        TRY(block_free(s, COMPUTE, pack->reduced));
        pack->reduced = NULL;
    }
    TRY(span_end(s));
    return streams_follow(s, "train.updated", GATHER, COMPUTE);
}
