/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as other programs' logs, up to three tables with a byte of value 28 between them: refused with a sentence,
 * or made into steps that a trace's reader would take. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/trace/convert.h"
#include "tools/trace/input.h"

enum { SEPARATOR = 28, MOST_TEXT = 1 << 20 };

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

static void convert(const struct convert_input *inputs, size_t count, bool iterations) {
    static struct conversion conversion;
    char why[1000] = "";
    if (convert_tables(&conversion, inputs, count, 0, iterations, why, sizeof why))
        check(&conversion);
    else
        FUZZ_HOLDS(strncmp(why, "fuzzed", strlen("fuzzed")) == 0 && strlen(why) > strlen("fuzzed: "));
    convert_free(&conversion);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct convert_input inputs[CONVERT_MOST_INPUTS];
    char why[400];
    size_t count = 0;
    for (const uint8_t *at = data, *end = data + size; count < CONVERT_MOST_INPUTS && at <= end;) {
        const uint8_t *stop = at < end ? memchr(at, SEPARATOR, (size_t)(end - at)) : NULL;
        if (stop == NULL) stop = end;
        inputs[count].name = "fuzzed";
        inputs[count].input = input_open_bytes(at, (size_t)(stop - at), why, sizeof why);
        if (inputs[count].input == NULL) break;
        input_limit(inputs[count++].input, MOST_TEXT);
        at = stop + 1;
    }
    if (count > 0) convert(inputs, count, true);
    for (size_t i = 0; i < count; i++) input_close(inputs[i].input);
    return 0;
}
