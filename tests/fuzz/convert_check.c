/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_check.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

struct model {
    const struct conversion *conversion;
    uint8_t *state; /* by block: 0 not seen, 1 live, 2 freed */
    uint64_t live, rounded, peak, before, work;
    size_t waits, iterations;
    bool begun;
};

static void check_memory(struct model *model, const struct step *step) {
    const struct conversion *conversion = model->conversion;
    FUZZ_HOLDS(step->block < conversion->block_count);
    const uint64_t bytes = conversion->blocks[step->block].bytes;
    if (step->kind == STEP_FREE) {
        FUZZ_HOLDS(model->state[step->block] == 1);
        model->live -= bytes;
        model->rounded -= convert_rounded(bytes);
    } else {
        FUZZ_HOLDS(model->state[step->block] == 0);
        FUZZ_HOLDS(conversion->blocks[step->block].stream == step->stream);
        model->live += bytes;
        model->rounded += convert_rounded(bytes);
    }
    model->state[step->block]++;
    if (step->kind == STEP_LIVE) model->before += bytes;
    if (model->live > model->peak) model->peak = model->live;
    FUZZ_HOLDS(model->rounded <= TRACE_MOST_BYTES);
}

static void check_step(struct model *model, const struct step *step) {
    FUZZ_HOLDS(step->kind <= STEP_RESERVE);
    FUZZ_HOLDS(step->stream < model->conversion->stream_count || step->kind == STEP_ITERATION ||
               step->kind == STEP_RESERVE);
    FUZZ_HOLDS(step->kind != STEP_LIVE || !model->begun);
    model->begun |= step->kind != STEP_LIVE;
    if (step->kind <= STEP_FREE) check_memory(model, step);
    if (step->kind == STEP_WORK) FUZZ_HOLDS(step->value <= TRACE_MOST_NS && step->value % 100 == 0 && step->value > 0);
    if (step->kind == STEP_WORK) model->work += step->value;
    if (step->kind == STEP_WAIT)
        FUZZ_HOLDS(step->other < model->conversion->stream_count && step->other != step->stream);
    model->waits += step->kind == STEP_WAIT;
    model->iterations += step->kind == STEP_ITERATION;
}

static void check(const struct conversion *conversion) {
    struct model model = {.conversion = conversion, .state = calloc(conversion->block_count + 1, 1)};
    FUZZ_HOLDS(model.state != NULL && conversion->steps.count > 0);
    FUZZ_HOLDS(conversion->stream_count <= TRACE_MOST_STREAMS);
    for (size_t i = 0; i < conversion->steps.count; i++) check_step(&model, &conversion->steps.all[i]);
    FUZZ_HOLDS(model.peak == conversion->peak_live_bytes && model.live == conversion->end_live_bytes);
    FUZZ_HOLDS(model.before == conversion->live_before_bytes && model.work == conversion->work_ns);
    FUZZ_HOLDS(model.waits == conversion->wait_count && model.iterations == conversion->iteration_count);
    /* the time between events is kept, to less than what a trace can say */
    if (conversion->name[FORM_EVENTS] != NULL) FUZZ_HOLDS(conversion->span_ns - model.work < 100);
    free(model.state);
}

void fuzz_convert(const struct convert_input *inputs, size_t count) {
    static struct conversion conversion;
    const struct convert_settings settings = {.device = CONVERT_ANY_DEVICE, .iterations = true};
    char why[1000] = "";
    if (convert_tables(&conversion, inputs, count, &settings, why, sizeof why))
        check(&conversion);
    else
        FUZZ_HOLDS(strncmp(why, "fuzzed", strlen("fuzzed")) == 0 && strlen(why) > strlen("fuzzed: "));
    convert_free(&conversion);
}

void fuzz_convert_bytes(const uint8_t *data, size_t size) {
    char why[400];
    struct convert_input input = {.name = "fuzzed", .input = input_open_bytes(data, size, why, sizeof why)};
    if (input.input == NULL) return;
    input_limit(input.input, FUZZ_MOST_TEXT);
    fuzz_convert(&input, 1);
    input_close(input.input);
}
