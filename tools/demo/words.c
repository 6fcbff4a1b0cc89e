/* SPDX-License-Identifier: Apache-2.0 */
/* What was shown, in plain words. Each sentence is made from the figures, so that it is true whatever they are. */
#include "tools/demo/demo.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct speaker {
    void (*say)(void *to, const char *sentence);
    void *to;
};

static void say(struct speaker *speaker, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct speaker *speaker, const char *format, ...) {
    char sentence[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    speaker->say(speaker->to, sentence);
}

void run_what_happened(const struct run *run, char *text, size_t room) {
    double percent = 100.0 * run_figures(run).utilisation;
    if (run->outcome == RUN_COMPLETED)
        snprintf(text, room, "completed its %zu steps with up to %.1f %% of the device live", run->step_count, percent);
    else if (run->failed_step == DEMO_UNKNOWN)
        snprintf(text, room, "ran out of memory with %.1f %% of the device live", percent);
    else
        snprintf(text, room, "ran out of memory in step %lld with %.1f %% of the device live",
                 (long long)run->failed_step, percent);
}

void demo_headline(const struct demo *demo, FILE *out) {
    const struct run *per_stream = demo->runs[DEMO_PER_STREAM], *weir = demo->runs[DEMO_WEIR];
    char text[160];
    fputs("The same job on the same device:", out);
    if (per_stream) {
        run_what_happened(per_stream, text, sizeof text);
        fprintf(out, " per-stream caching %s", text);
    }
    if (weir) {
        run_what_happened(weir, text, sizeof text);
        fprintf(out, "%s weir %s", per_stream ? ";" : "", text);
    }
    fputc('.', out);
}

/* What lay in the device when a request was refused. */
static void say_refusal(struct speaker *speaker, const struct run *run) {
    const struct rank_figures *rank = run_subject(run);
    const struct refusal *refusal = &rank->refusal;
    if (run->outcome != RUN_OUT_OF_MEMORY || !rank->refused) return;
    say(speaker,
        "The request that failed: %.2f MiB on the %s stream of rank %lld. At that moment %.1f of %.1f MiB were live, "
        "%.1f "
        "idle on the asking stream, %.1f idle on other streams (%.1f %% of the capacity) and %.1f not taken yet.",
        mebibytes(refusal->asked_bytes), refusal->stream, (long long)rank->rank, mebibytes(refusal->live_bytes),
        mebibytes(rank->capacity_bytes), mebibytes(refusal->idle_asker_bytes), mebibytes(refusal->idle_others_bytes),
        100.0 * (double)refusal->idle_others_bytes / (double)rank->capacity_bytes, mebibytes(refusal->untaken_bytes));
}

static void say_run(struct speaker *speaker, const struct run *run) {
    char text[160];
    if (!run) return;
    run_what_happened(run, text, sizeof text);
    say(speaker, "%s %s (rank %lld).", run->name, text, (long long)run_subject(run)->rank);
    say_refusal(speaker, run);
}

static void say_offload(struct speaker *speaker, const struct demo *demo) {
    const struct run *offload = demo->runs[DEMO_OFFLOAD], *without = demo->runs[DEMO_WITHOUT];
    if (!offload) return;
    long long batch = (long long)offload->batch, base = (long long)demo->measured->batch;
    bool fits = offload->outcome == RUN_COMPLETED;
    char text[160];
    run_what_happened(offload, text, sizeof text);
    say(speaker, "weir+offload, with %lld sequences a rank instead of %lld, %s.", batch, base, text);
    say_refusal(speaker, offload);
    if (!without) return;
    bool fits_without = without->outcome == RUN_COMPLETED;
    run_what_happened(without, text, sizeof text);
    say(speaker, "Without offload, weir at that batch %s.%s", text,
        fits && !fits_without ? " So it is offload that carries it."
        : fits_without        ? " So this batch does not show what offload is for."
                              : "");
}

static void say_smallest(struct speaker *speaker, const struct demo *demo) {
    const struct run *per_stream = demo->runs[DEMO_PER_STREAM], *weir = demo->runs[DEMO_WEIR];
    if (!per_stream || !weir || isnan(per_stream->min_capacity_ratio) || isnan(weir->min_capacity_ratio)) return;
    say(speaker,
        "The smallest device on which the same sequence of requests completes, found by replaying it as if work took "
        "no "
        "time: %.3f times the peak of live bytes under per-stream, %.3f times under weir.",
        per_stream->min_capacity_ratio, weir->min_capacity_ratio);
}

static void say_losses(struct speaker *speaker, const struct demo *demo) {
    struct loss_check check = losses_compare(demo->loss_runs, demo->loss_run_count);
    if (check.steps == 0)
        say(speaker, "No two runs with the same batch completed a step, so their losses could not be compared.");
    else if (check.same)
        say(speaker,
            "Runs with the same batch gave the same losses, bit for bit (%zu pairs of runs, %zu losses): where memory "
            "comes from does not change what is computed.",
            check.pairs, check.steps);
    else
        say(speaker,
            "The losses of \"%s\" and \"%s\" differ from step %zu on: %.17g and %.17g. They should be the same bits.",
            check.one->name, check.other->name, check.step, check.one->losses[check.step - 1],
            check.other->losses[check.step - 1]);
}

static void say_goals(struct speaker *speaker, const struct demo *demo) {
    struct goals goals = demo_goals(demo);
    if (!goals.asked) return;
    struct figures kept = run_figures(demo->runs[DEMO_PER_STREAM]), pooled = run_figures(demo->runs[DEMO_WEIR]);
    bool ran_out = demo->runs[DEMO_PER_STREAM]->outcome == RUN_OUT_OF_MEMORY;
    say(speaker,
        "Goal 1, per-stream out of memory below %.2f utilisation with at least %.2f of the capacity idle on other "
        "streams: %s (it %s at %.3f, with %.3f idle on other streams).",
        GOAL_PER_STREAM_UTILISATION, GOAL_IDLE_ON_OTHERS, goals.per_stream ? "met" : "not met",
        ran_out ? "ran out" : "completed", kept.utilisation,
        (double)kept.idle_others_bytes / (double)kept.capacity_bytes);
    say(speaker, "Goal 2, weir completed at %.2f utilisation or more: %s (it %s at %.3f).", GOAL_WEIR_UTILISATION,
        goals.weir ? "met" : "not met", demo->runs[DEMO_WEIR]->outcome == RUN_COMPLETED ? "completed" : "ran out",
        pooled.utilisation);
}

static void say_device(struct speaker *speaker, const struct demo *demo) {
    const struct run *run = demo->measured;
    if (strcmp(run->device, "emulated") != 0) {
        say(speaker, "The device was a %s device.", run->device);
        return;
    }
    say(speaker,
        "The device is emulated, and a scale model: its pages are %zu KiB where a GPU's are 2048 KiB, so tens of MiB "
        "here "
        "stand for GiB there. No GPU was used. Tokens per second were measured on this machine's CPUs and say nothing "
        "of "
        "a GPU.",
        demo->page_bytes >> 10);
}

void demo_words(const struct demo *demo, void (*callback)(void *to, const char *sentence), void *to) {
    struct speaker speaker = {callback, to};
    const struct rank_figures *fullest = run_fullest(demo->measured);
    say(&speaker,
        "%lld ranks train one mixture-of-experts model on real text, each on a device of its own of %.2f MiB: the "
        "job's "
        "own peak of live bytes (%.2f MiB, on rank %lld) and %.0f %% more.",
        (long long)demo->measured->world, mebibytes(demo->capacity_bytes), mebibytes(fullest->peak_live_bytes),
        (long long)fullest->rank, 100.0 * DEMO_HEADROOM);
    say_run(&speaker, demo->runs[DEMO_PER_STREAM]);
    say_run(&speaker, demo->runs[DEMO_WEIR]);
    say_offload(&speaker, demo);
    say_smallest(&speaker, demo);
    say_losses(&speaker, demo);
    say_goals(&speaker, demo);
    say_device(&speaker, demo);
}
