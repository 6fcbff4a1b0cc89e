/* SPDX-License-Identifier: Apache-2.0 */
/* build/demo/report.json, as docs/report.md has it. */
#include "tools/demo/demo.h"

#include <math.h>

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *run_json(const struct run *run) {
    struct figures figures = run_figures(run);
    bool failed_known = run->outcome == RUN_OUT_OF_MEMORY && run->failed_step != DEMO_UNKNOWN;
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:s, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I}", "name",
                     run->name, "policy", run->policy, "offload", run->offload, "batch", (json_int_t)run->batch,
                     "capacity_bytes", (json_int_t)figures.capacity_bytes, "outcome",
                     run->outcome == RUN_COMPLETED ? "completed" : "out_of_memory", "oom_step",
                     failed_known ? json_integer((json_int_t)run->failed_step) : json_null(), "peak_live_bytes",
                     (json_int_t)figures.peak_live_bytes, "peak_held_bytes", (json_int_t)figures.peak_held_bytes,
                     "idle_other_streams_bytes", (json_int_t)figures.idle_others_bytes, "utilisation",
                     number(figures.utilisation), "tokens_per_s", number(run->tokens_per_s), "first_loss",
                     number(run->first_loss), "last_loss", number(run->last_loss), "min_capacity_ratio",
                     number(run->min_capacity_ratio), "rank", (json_int_t)figures.rank);
}

static json_t *goals_json(const struct demo *demo) {
    struct goals goals = demo_goals(demo);
    if (!goals.asked) return json_null();
    return json_pack("{s:b, s:b}", "per_stream", goals.per_stream, "weir", goals.weir);
}

json_t *demo_json(const struct demo *demo) {
    const struct run *measured = demo->measured;
    struct loss_check losses = losses_compare(demo->loss_runs, demo->loss_run_count);
    json_t *runs = json_array(), *commands = json_array();
    for (size_t i = 0; i < DEMO_RUNS; i++)
        if (demo->runs[i]) json_array_append_new(runs, run_json(demo->runs[i]));
    for (size_t i = 0; i < demo->command_count; i++) json_array_append_new(commands, json_string(demo->commands[i]));
    return json_pack("{s:o, s:{s:s, s:I}, s:s, s:o, s:I, s:o, s:o, s:o, s:o}", "runs", runs, "data", "path",
                     measured->data_path, "bytes", (json_int_t)measured->data_bytes, "device", measured->device,
                     "profile", measured->profile[0] ? json_string(measured->profile) : json_null(),
                     "measured_peak_live_bytes", (json_int_t)run_fullest(measured)->peak_live_bytes, "goals",
                     goals_json(demo), "losses_same_bits", losses.steps ? json_boolean(losses.same) : json_null(),
                     "seconds", number(demo->seconds), "commands", commands);
}
