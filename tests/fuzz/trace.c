/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a trace, plain or compressed: refused with a sentence, or read so that it can be replayed without further
 * checks, and looked at. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/trace/info.h"
#include "tools/trace/input.h"

enum { MOST_TEXT = 1 << 20 }; /* of one input, which a few compressed bytes reach */

/* What a replay would know of its blocks, streams and events. */
struct model {
    const struct trace *trace;
    const struct op **blocks; /* that allocated it, while it is live */
    bool *destroyed;          /* by stream */
    bool *recorded, *gone;    /* by event */
    uint64_t live, rounded, peak_live, peak_rounded;
    uint32_t iterations, next_block;
    size_t refused;
    bool work;
};

static void *zeros(size_t count, size_t size) {
    void *made = calloc(count + 1, size);
    FUZZ_HOLDS(made != NULL);
    return made;
}

static uint64_t round_up(uint64_t bytes) { return (bytes + 511) / 512 * 512; }

static void check_alloc(struct model *model, const struct op *op) {
    FUZZ_HOLDS(op->block == model->next_block++);
    FUZZ_HOLDS(op->align <= 30);
    FUZZ_HOLDS(op->bytes <= TRACE_MOST_BYTES);
    FUZZ_HOLDS(!model->destroyed[op->stream]);
    model->blocks[op->block] = op->kind == OP_REFUSED ? NULL : op;
    model->live += op->bytes;
    model->rounded += round_up(op->bytes);
    FUZZ_HOLDS(model->rounded <= TRACE_MOST_BYTES);
    if (model->live > model->peak_live) model->peak_live = model->live;
    if (model->rounded > model->peak_rounded) model->peak_rounded = model->rounded;
    if (op->kind != OP_REFUSED) return;
    model->live -= op->bytes;
    model->rounded -= round_up(op->bytes);
    model->refused++;
}

static void check_free(struct model *model, const struct op *op) {
    const struct op *alloc = model->blocks[op->block];
    FUZZ_HOLDS(alloc != NULL && op->bytes == alloc->bytes);
    FUZZ_HOLDS(op->kind == OP_FREE || op->stream == alloc->stream);
    FUZZ_HOLDS(op->kind != OP_FREE || !model->destroyed[op->stream]);
    model->blocks[op->block] = NULL;
    model->live -= op->bytes;
    model->rounded -= round_up(op->bytes);
}

static void check_op(struct model *model, const struct op *op) {
    const bool frees = op->kind == OP_FREE || op->kind == OP_FREE_ANY || op->kind == OP_FREE_AFTER;
    FUZZ_HOLDS(op->kind <= OP_ITERATION);
    FUZZ_HOLDS(op->block < model->trace->block_count || op->block == 0);
    FUZZ_HOLDS(op->stream < model->trace->stream_count || op->stream == 0);
    FUZZ_HOLDS(op->event < model->trace->event_count || op->event == 0);
    if (op->kind == OP_ALLOC || op->kind == OP_REFUSED || op->kind == OP_LIVE)
        check_alloc(model, op);
    else if (frees)
        check_free(model, op);
    else if (op->kind == OP_NOTE)
        FUZZ_HOLDS(model->blocks[op->block] != NULL);
    if (!frees) FUZZ_HOLDS(model->trace->stream_count == 0 || !model->destroyed[op->stream] || op->stream == 0);
    if (op->kind == OP_RECORD) FUZZ_HOLDS(!model->gone[op->event]);
    if (op->kind == OP_RECORD) model->recorded[op->event] = true;
    if (op->kind == OP_WAIT || op->kind == OP_HOST_WAIT || op->kind == OP_FREE_AFTER || op->kind == OP_DESTROY_EVENT)
        FUZZ_HOLDS(model->recorded[op->event] && !model->gone[op->event]);
    if (op->kind == OP_DESTROY_EVENT) model->gone[op->event] = true;
    if (op->kind == OP_DESTROY_STREAM) model->destroyed[op->stream] = true;
    if (op->kind == OP_WORK) FUZZ_HOLDS(op->ns <= TRACE_MOST_NS);
    model->work |= op->kind == OP_WORK;
    model->iterations += op->kind == OP_ITERATION;
}

static void check_names(const struct trace *trace) {
    FUZZ_HOLDS(trace->stream_count <= TRACE_MOST_STREAMS);
    for (uint32_t i = 0; i < trace->stream_count; i++)
        FUZZ_HOLDS(memchr(trace->stream_names[i], 0, sizeof trace->stream_names[i]) != NULL);
    FUZZ_HOLDS(memchr(trace->origin.policy, 0, sizeof trace->origin.policy) != NULL);
    FUZZ_HOLDS(memchr(trace->origin.profile, 0, sizeof trace->origin.profile) != NULL);
    size_t offsets = 0;
    for (uint32_t i = 0; trace->offsets != NULL && i < trace->block_count; i++)
        offsets += trace->offsets[i] != UINT64_MAX;
    FUZZ_HOLDS(offsets == trace->offset_count);
}

static void check(const struct trace *trace) {
    struct model model = {.trace = trace,
                          .blocks = zeros(trace->block_count, sizeof *model.blocks),
                          .destroyed = zeros(trace->stream_count, 1),
                          .recorded = zeros(trace->event_count, 1),
                          .gone = zeros(trace->event_count, 1)};
    for (size_t i = 0; i < trace->op_count; i++) {
        FUZZ_HOLDS(trace->ops[i].line > (i > 0 ? trace->ops[i - 1].line : 1));
        check_op(&model, &trace->ops[i]);
    }
    FUZZ_HOLDS(model.next_block == trace->block_count && model.refused == trace->refused_count);
    FUZZ_HOLDS(model.refused == 0 || trace->ops[trace->last_refused].kind == OP_REFUSED);
    FUZZ_HOLDS(model.peak_live == trace->peak_live_bytes && model.peak_rounded == trace->peak_rounded_bytes);
    FUZZ_HOLDS(model.iterations == trace->iteration_count && model.work == trace->has_work);
    check_names(trace);
    free(model.blocks);
    free(model.destroyed);
    free(model.recorded);
    free(model.gone);
}

static void add(struct info_share *sum, const struct info_share *shares, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sum->blocks += shares[i].blocks;
        sum->bytes += shares[i].bytes;
    }
}

static bool are_equal(struct info_share a, struct info_share b) { return a.blocks == b.blocks && a.bytes == b.bytes; }

/* Every block is counted once in each of the ways. */
static void check_info(const struct trace *trace) {
    struct info info;
    struct info_share sizes = {0}, at_peak = {0}, windows = {0}, spans = {0}, streams = {0};
    FUZZ_HOLDS(info_gather(trace, &info));
    add(&sizes, info.sizes, INFO_SIZES);
    add(&windows, info.windows, INFO_WINDOWS);
    add(&windows, &info.never_freed, 1);
    add(&spans, info.spans, INFO_SPANS);
    add(&spans, &info.never_freed, 1);
    add(&at_peak, info.sizes_at_peak, INFO_SIZES);
    for (uint32_t i = 0; i < trace->stream_count; i++) add(&streams, &info.streams[i].allocated, 1);
    FUZZ_HOLDS(sizes.blocks == trace->block_count);
    FUZZ_HOLDS(are_equal(sizes, windows) && are_equal(sizes, spans) && are_equal(sizes, streams));
    FUZZ_HOLDS(are_equal(at_peak, info.at_peak) && at_peak.bytes == trace->peak_live_bytes);
    info_free(&info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char why[400] = "";
    struct trace trace;
    struct input *input = input_open_bytes(data, size, why, sizeof why);
    if (input == NULL) {
        FUZZ_HOLDS(why[0] != 0);
        return 0;
    }
    input_limit(input, MOST_TEXT);
    if (trace_read_input(input, "fuzzed", &trace, why, sizeof why)) {
        check(&trace);
        check_info(&trace);
    } else {
        FUZZ_HOLDS(strncmp(why, "fuzzed: line ", strlen("fuzzed: line ")) == 0);
    }
    trace_free(&trace);
    input_close(input);
    return 0;
}
