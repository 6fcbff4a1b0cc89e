/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_fsdp.h"

#include "gen_cost.h"

void unit_add(struct unit *unit, int64_t elements) { unit->sizes[unit->parameter_count++] = elements; }

void unit_add_matrix(struct unit *unit, int64_t experts, int64_t rows, int64_t columns) {
    unit->matrices[unit->matrix_count++] = (struct matrix){.rows = rows, .columns = columns, .experts = experts};
}

void unit_cut(struct unit *unit, int64_t shards) {
    unit->shards = shards;
    for (size_t i = 0; i < unit->parameter_count; i++) {
        unit->shard_sizes[i] = divide_up(unit->sizes[i], shards);
        unit->elements += unit->sizes[i];
        unit->shard_elements += unit->shard_sizes[i];
    }
}

void fsdp_create(struct fsdp *fsdp, struct unit *unit) {
    const int64_t bytes = fsdp->set->master;
    for (size_t i = 0; i < unit->parameter_count; i++)
        unit->shard[i] = gen_alloc(fsdp->out, unit->shard_sizes[i] * bytes, COMPUTE);
    gen_work(fsdp->out, COMPUTE, memory_us(unit->shard_elements * bytes));
    gen_uses(fsdp->out, COMPUTE, unit->shard, unit->parameter_count);
}

void fsdp_gather(struct fsdp *fsdp, struct unit *unit) {
    struct gen_writer *out = fsdp->out;
    if (unit == NULL || unit->gathered.id != 0 || unit->full_count != 0) return;
    struct buf input = gen_alloc(out, unit->shard_elements * 2, GATHER_COPY);
    unit->gathered = gen_alloc(out, unit->shard_elements * unit->shards * 2, GATHER_COPY);
    WORK(out, GATHER_COPY, memory_us(unit->shard_elements * 6), input, unit->gathered);
    gen_after(out, GATHER, GATHER_COPY);
    WORK(out, GATHER, network_us(unit->elements * 2), unit->gathered);
    if (fsdp->set->fsdp == FSDP1) gen_after(out, GATHER_COPY, GATHER); /* where the flat parameter lives */
    FREE(out, input);
    unit->gathered_at = gen_record(out, GATHER);
}

/* Frees what was gathered, when both side streams have waited for its copy-out. */
static void free_gathered(struct gen_writer *out, struct held *held) {
    if (held->buf.id == 0) return;
    gen_wait(out, &held->done, GATHER_COPY);
    gen_wait(out, &held->done, GATHER);
    FREE(out, held->buf);
    held->buf = NO_BUF;
}

static void copy_out(struct fsdp *fsdp, struct unit *unit) {
    for (size_t i = 0; i < unit->parameter_count; i++)
        unit->full[i] = gen_alloc(fsdp->out, unit->sizes[i] * 2, COMPUTE);
    unit->full_count = unit->parameter_count;
    WORK(fsdp->out, COMPUTE, memory_us(unit->elements * 4), unit->gathered);
    gen_uses(fsdp->out, COMPUTE, unit->full, unit->full_count);
}

void fsdp_use(struct fsdp *fsdp, struct unit *unit, bool in_forward) {
    if (unit == NULL || unit->full_count != 0) return;
    fsdp_gather(fsdp, unit);
    if (fsdp->set->fsdp == FSDP1) {
        gen_wait(fsdp->out, &unit->gathered_at, COMPUTE);
        unit->full[0] = unit->gathered;
        unit->full_count = 1;
        unit->gathered = NO_BUF;
        return;
    }
    if (in_forward) free_gathered(fsdp->out, &fsdp->previous_gather);
    gen_wait(fsdp->out, &unit->gathered_at, COMPUTE);
    copy_out(fsdp, unit);
    struct held gathered = {unit->gathered, gen_record(fsdp->out, COMPUTE)};
    unit->gathered = NO_BUF;
    if (in_forward)
        fsdp->previous_gather = gathered;
    else
        free_gathered(fsdp->out, &gathered);
}

void fsdp_release(struct fsdp *fsdp, struct unit *unit) {
    if (unit == NULL || unit->full_count == 0) return;
    if (fsdp->set->fsdp == FSDP1) gen_note(fsdp->out, unit->full[0], COMPUTE);
    gen_free(fsdp->out, unit->full, unit->full_count);
    unit->full_count = 0;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* FSDP1: all on the scatter stream, the gradients' use there recorded. */
static struct buf scatter_flat(struct fsdp *fsdp, struct unit *unit, const struct buf *gradients, size_t count) {
    struct gen_writer *out = fsdp->out;
    const int64_t bytes = fsdp->set->rs_bytes;
    gen_after(out, SCATTER, COMPUTE);
    struct buf input = gen_alloc(out, unit->shard_elements * unit->shards * bytes, SCATTER);
    struct buf result = gen_alloc(out, unit->shard_elements * bytes, SCATTER);
    WORK(out, SCATTER, memory_us(unit->elements * 6) + network_us(unit->elements * bytes), input, result);
    gen_uses(out, SCATTER, gradients, count);
    for (size_t i = 0; i < count; i++) gen_note(out, gradients[i], SCATTER);
    gen_free(out, gradients, count);
    FREE(out, input);
    return result;
}

static void free_scattered(struct gen_writer *out, struct held *held) {
    if (held->buf.id == 0) return;
    gen_wait(out, &held->done, COMPUTE);
    FREE(out, held->buf);
    held->buf = NO_BUF;
}

/* FSDP2 with the input on compute: it is freed when compute has waited for the scatter, at the next one. */
static struct buf scatter_from_compute(struct fsdp *fsdp, struct unit *unit, const struct buf *gradients,
                                       size_t count) {
    struct gen_writer *out = fsdp->out;
    const int64_t bytes = fsdp->set->rs_bytes;
    free_scattered(out, &fsdp->previous_scatter);
    struct buf input = gen_alloc(out, unit->shard_elements * unit->shards * bytes, COMPUTE);
    WORK(out, COMPUTE, memory_us(unit->elements * (2 + bytes)), input);
    gen_uses(out, COMPUTE, gradients, count);
    gen_free(out, gradients, count);
    gen_after(out, SCATTER, COMPUTE);
    struct buf result = gen_alloc(out, unit->shard_elements * bytes, SCATTER);
    WORK(out, SCATTER, network_us(unit->elements * bytes), input, result);
    fsdp->previous_scatter = (struct held){input, gen_record(out, SCATTER)};
    return result;
}

/* FSDP2 with the input on the scatter stream: compute waits for the copy-in, then the gradients are free. */
static struct buf scatter_from_side(struct fsdp *fsdp, struct unit *unit, const struct buf *gradients, size_t count) {
    struct gen_writer *out = fsdp->out;
    const int64_t bytes = fsdp->set->rs_bytes;
    gen_after(out, SCATTER, COMPUTE);
    struct buf input = gen_alloc(out, unit->shard_elements * unit->shards * bytes, SCATTER);
    WORK(out, SCATTER, memory_us(unit->elements * (2 + bytes)), input);
    gen_uses(out, SCATTER, gradients, count);
    gen_after(out, COMPUTE, SCATTER);
    gen_free(out, gradients, count);
    struct buf result = gen_alloc(out, unit->shard_elements * bytes, SCATTER);
    WORK(out, SCATTER, network_us(unit->elements * bytes), input, result);
    FREE(out, input);
    return result;
}

/* Adds up where there is a gradient already, else keeps it in the parameters' type. */
static void keep_gradient(struct fsdp *fsdp, struct unit *unit, struct buf scattered) {
    struct gen_writer *out = fsdp->out;
    if (unit->gradient.id != 0) {
        WORK(out, SCATTER, memory_us(unit->shard_elements * 12), unit->gradient, scattered);
        FREE(out, scattered);
    } else if (fsdp->set->rs_bytes != fsdp->set->master) {
        unit->gradient = gen_alloc(out, unit->shard_elements * fsdp->set->master, SCATTER);
        WORK(out, SCATTER, memory_us(unit->shard_elements * 6), unit->gradient, scattered);
        FREE(out, scattered);
    } else {
        unit->gradient = scattered;
    }
}

void fsdp_reduce(struct fsdp *fsdp, struct unit *unit, const struct buf *gradients, size_t count) {
    struct buf scattered;
    if (fsdp->set->fsdp == FSDP1)
        scattered = scatter_flat(fsdp, unit, gradients, count);
    else if (fsdp->set->rs_alloc == SCATTER_FROM_COMPUTE)
        scattered = scatter_from_compute(fsdp, unit, gradients, count);
    else
        scattered = scatter_from_side(fsdp, unit, gradients, count);
    keep_gradient(fsdp, unit, scattered);
}

void fsdp_end_forward(struct fsdp *fsdp) { free_gathered(fsdp->out, &fsdp->previous_gather); }

void fsdp_end_backward(struct fsdp *fsdp) {
    gen_after(fsdp->out, COMPUTE, SCATTER);
    free_scattered(fsdp->out, &fsdp->previous_scatter);
}
