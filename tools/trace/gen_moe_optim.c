/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "gen_cost.h"
#include "gen_moe.h"

/* A collective on the gather stream, from and to buffers of compute; frees `from`. */
static struct buf collective(struct moe *moe, struct buf from, int64_t bytes, double us) {
    struct gen_writer *out = moe->out;
    struct buf to = gen_alloc(out, bytes, COMPUTE);
    gen_after(out, GATHER, COMPUTE);
    WORK(out, GATHER, us, from, to);
    if (moe->set->record) {
        gen_note(out, from, GATHER);
        gen_note(out, to, GATHER);
    }
    gen_after(out, COMPUTE, GATHER);
    FREE(out, from);
    return to;
}

static void read_gradients(struct moe *moe, double us, const struct buf *first, size_t count) {
    gen_work(moe->out, COMPUTE, us);
    gen_uses(moe->out, COMPUTE, first, count);
    for (size_t i = 0; i < moe->unit_count; i++) gen_uses(moe->out, COMPUTE, &moe->units[i]->gradient, 1);
}

/* The norm of all gradients, a number a parameter, summed over the ranks; then all are scaled. */
static void clip(struct moe *moe) {
    struct gen_writer *out = moe->out;
    int64_t elements = 0;
    size_t count = 0;
    struct buf *norms = gen_room(moe->unit_count * UNIT_PARAMETERS, sizeof *norms);
    for (size_t i = 0; i < moe->unit_count; i++) {
        elements += moe->units[i]->shard_elements;
        for (size_t j = 0; j < moe->units[i]->parameter_count; j++) norms[count++] = gen_alloc(out, 4, COMPUTE);
    }
    read_gradients(moe, memory_us(elements * moe->set->master), norms, count);
    struct buf total = gen_alloc(out, 4, COMPUTE);
    WORK(out, COMPUTE, 5, total);
    gen_uses(out, COMPUTE, norms, count);
    gen_free(out, norms, count);
    free(norms);
    gen_after(out, GATHER, COMPUTE);
    WORK(out, GATHER, 30, total);
    if (moe->set->record) gen_note(out, total, GATHER);
    gen_after(out, COMPUTE, GATHER);
    read_gradients(moe, memory_us(elements * moe->set->master * 2), NULL, 0);
    FREE(out, total);
}

/* At the unit's first step: one state a parameter under Muon, two under AdamW. */
static void create_state(struct moe *moe, struct unit *unit, int of_each) {
    if (unit->state_count != 0) return;
    for (size_t i = 0; i < unit->parameter_count; i++)
        for (int j = 0; j < of_each; j++)
            unit->state[unit->state_count++] = gen_alloc(moe->out, unit->shard_sizes[i] * moe->set->mom, COMPUTE);
    gen_work(moe->out, COMPUTE, memory_us(unit->shard_elements * moe->set->mom));
    gen_uses(moe->out, COMPUTE, unit->state, unit->state_count);
}

/* AdamW over a list: two temporaries as large as each shard. */
static void adamw(struct moe *moe, struct unit *unit) {
    struct gen_writer *out = moe->out;
    const size_t count = unit->parameter_count;
    struct buf first[UNIT_PARAMETERS], second[UNIT_PARAMETERS];
    for (size_t i = 0; i < count; i++) first[i] = gen_alloc(out, unit->shard_sizes[i] * moe->set->master, COMPUTE);
    WORK(out, COMPUTE, memory_us(unit->shard_elements * 20), unit->gradient);
    gen_uses(out, COMPUTE, first, count);
    gen_uses(out, COMPUTE, unit->state, unit->state_count);
    for (size_t i = 0; i < count; i++) second[i] = gen_alloc(out, unit->shard_sizes[i] * moe->set->master, COMPUTE);
    gen_work(out, COMPUTE, memory_us(unit->shard_elements * 16));
    gen_uses(out, COMPUTE, first, count);
    gen_uses(out, COMPUTE, second, count);
    gen_uses(out, COMPUTE, unit->shard, count);
    gen_free(out, first, count);
    gen_free(out, second, count);
}

/* ---- Muon -------------------------------------------------------------------------------------------------------- */

/* One step of x <- a x + b (x x') x + c (x x')^2 x on `count` matrices; frees x. */
static struct buf newton_schulz_step(struct gen_writer *out, const struct matrix *matrix, int64_t count, struct buf x) {
    const int64_t small = matrix->rows < matrix->columns ? matrix->rows : matrix->columns;
    const int64_t large = matrix->rows + matrix->columns - small;
    const int64_t square = count * small * small, elements = count * small * large;
    struct buf gram = gen_alloc(out, square * 2, COMPUTE);
    WORK(out, COMPUTE, (double)count * gemm_us(small, small, large), x, gram);
    struct buf gram2 = gen_alloc(out, square * 2, COMPUTE);
    WORK(out, COMPUTE, (double)count * gemm_us(small, small, small), gram, gram2);
    struct buf sum = gen_alloc(out, square * 2, COMPUTE);
    WORK(out, COMPUTE, memory_us(square * 6), gram, gram2, sum);
    FREE(out, gram, gram2);
    struct buf product = gen_alloc(out, elements * 2, COMPUTE);
    WORK(out, COMPUTE, (double)count * gemm_us(small, large, small), sum, x, product);
    FREE(out, sum);
    struct buf result = gen_alloc(out, elements * 2, COMPUTE);
    WORK(out, COMPUTE, memory_us(elements * 6), x, product, result);
    FREE(out, x, product);
    return result;
}

/* Gives the orthogonalised update; frees the gathered one. */
static struct buf newton_schulz(struct moe *moe, const struct matrix *matrix, int64_t count, struct buf full) {
    const int64_t elements = count * matrix->rows * matrix->columns;
    struct buf x = gen_alloc(moe->out, elements * 2, COMPUTE), norm = gen_alloc(moe->out, count * 4, COMPUTE);
    WORK(moe->out, COMPUTE, memory_us(elements * 6), full, x, norm);
    FREE(moe->out, full, norm);
    for (int64_t i = 0; i < moe->set->ns_steps; i++) x = newton_schulz_step(moe->out, matrix, count, x);
    return x;
}

/* A plain matrix is gathered by one rank, mostly another, which sends the pieces back. Experts are whole here. */
static void muon(struct moe *moe, struct unit *unit, const struct matrix *matrix) {
    struct gen_writer *out = moe->out;
    const bool plain = matrix->experts == 0;
    const int64_t local = matrix->experts / unit->shards, count = local > 1 ? local : 1;
    const int64_t elements = count * matrix->rows * matrix->columns;
    const int64_t bytes = divide_up(elements, plain ? unit->shards : 1) * 2;
    struct buf update = gen_alloc(out, bytes, COMPUTE);
    WORK(out, COMPUTE, memory_us(bytes * 4), unit->gradient, update, unit->state[0]);
    if (plain && gen_uniform(moe->random) > 1.0 / 8) {
        gen_after(out, GATHER, COMPUTE);
        update = collective(moe, update, bytes, network_us(elements * 2 / 8));
    } else {
        struct buf full = collective(moe, update, elements * 2, network_us(elements * 2));
        update = collective(moe, newton_schulz(moe, matrix, count, full), bytes, network_us(elements * 2));
    }
    WORK(out, COMPUTE, memory_us(bytes * 4), update, unit->shard[0]);
    FREE(out, update);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

void moe_optimise(struct moe *moe) {
    if (moe->set->clip) clip(moe);
    for (size_t i = 0; i < moe->unit_count; i++) {
        struct unit *unit = moe->units[i];
        const bool by_muon = moe->set->muon && unit->matrix_count != 0;
        create_state(moe, unit, by_muon ? 1 : 2);
        if (!by_muon) adamw(moe, unit);
        for (size_t j = 0; by_muon && j < unit->matrix_count; j++) muon(moe, unit, &unit->matrices[j]);
    }
    for (size_t i = 0; i < moe->unit_count; i++) { /* gradients are set to none */
        FREE(moe->out, moe->units[i]->gradient);
        moe->units[i]->gradient = NO_BUF;
    }
    for (enum gen_stream s = GATHER_COPY; s <= SCATTER; s++) gen_after(moe->out, s, COMPUTE);
}
