/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_families.h"

#include <inttypes.h>
#include <string.h>

#include "device/error.h"

const struct gen_family gen_families[] = {
    {"moe-fsdp2", GEN_MOE, "", "FSDP2 and expert parallelism, checkpointing, Muon"},
    {"moe-fsdp2-varlen", GEN_MOE, "varlen=True iters=8", "the same, another number of tokens each step"},
    {"moe-fsdp2-offload", GEN_MOE, "offload=True", "layer inputs go to the host and come back"},
    {"moe-fsdp2-offload-varlen", GEN_MOE, "offload=True varlen=True iters=8", "both"},
    {"moe-fsdp2-rscompute", GEN_MOE, "rs_alloc=compute", "the reduce-scatter's input is allocated on compute"},
    {"moe-modern", GEN_MOE, "rs_alloc=compute record=False", "that, and no use is recorded: newer defaults"},
    {"moe-modern-offload-varlen", GEN_MOE, "rs_alloc=compute record=False offload=True varlen=True iters=8",
     "newer defaults, offload, varying tokens"},
    {"moe-fsdp2-persist", GEN_MOE, "world=32 layers=26 batch=2 prefetch=2",
     "fewer tokens, more of the memory lasts: shards and optimiser state"},
    {"moe-modern-persist", GEN_MOE, "world=32 layers=26 batch=2 prefetch=2 rs_alloc=compute record=False",
     "the same with newer defaults"},
    {"moe-fsdp2-deep-prefetch", GEN_MOE, "prefetch=4 world=64 rs_bytes=2", "four units gathered ahead"},
    {"moe-fsdp1", GEN_MOE, "fsdp=fsdp1", "FSDP1: flat parameters, uses recorded"},
    {"moe-fsdp1-nosync", GEN_MOE, "fsdp=fsdp1 sync_counts=False imbalance=0 hot=0",
     "FSDP1 with even experts, so that the host never waits and runs ahead"},
    {"moe-commalloc", GEN_MOE, "a2a_alloc=comm imbalance=0.5 hot=0.4",
     "all-to-all buffers allocated on the communication stream, experts uneven"},
    {"moe-commalloc-offload-varlen", GEN_MOE, "a2a_alloc=comm imbalance=0.4 hot=0.3 offload=True varlen=True iters=8",
     "that with offload and varying tokens"},
    {"moe-side-streams", GEN_MOE, "a2a_alloc=comm ep_meta=True imbalance=0.4 hot=0.3 offload=True prefetch=2",
     "small handles on the communication stream outlive the big buffers around them"},
    {"moe-side-streams-varlen", GEN_MOE,
     "a2a_alloc=comm ep_meta=True imbalance=0.4 hot=0.3 offload=True prefetch=2 varlen=True iters=8",
     "the same with varying tokens"},
    {"moe-accum", GEN_MOE, "accum=3 varlen=True iters=4", "three microbatches a step, gradients accumulated"},
    {"moe-noac", GEN_MOE, "ac=False layers=8 batch=4 iters=8", "no checkpointing"},
    {"gpt-dense", GEN_DENSE, "layers=24 d=2048 heads=16 kv=16 f=8192 batch=16 vocab=50304 seq=2048",
     "a GPT on one stream, fixed length, no checkpointing"},
    {"gpt-dense-ac", GEN_DENSE, "layers=40 d=4096 kv=8 f=11008 gated=True ac=True pbytes=2 adam=2 batch=8 vocab=128256",
     "with checkpointing"},
    {"ft-varlen-full", GEN_DENSE,
     "layers=32 d=4096 kv=8 f=14336 gated=True ac=True pbytes=2 adam=1 batch=8 vocab=128256 iters=40 "
     "varlen=6.6,0.8 maxlen=4096 foreach=False",
     "fine-tuning of all weights, batches padded to the longest sequence"},
    {"ft-varlen-lora", GEN_DENSE,
     "layers=32 d=4096 kv=8 f=14336 gated=True ac=False pbytes=2 adam=4 batch=4 vocab=128256 iters=40 train=lora "
     "varlen=6.4,0.7 maxlen=2048",
     "fine-tuning of adapters"},
    {"ft-varlen-eval", GEN_DENSE,
     "layers=28 d=3584 heads=28 kv=4 f=18944 gated=True ac=True pbytes=2 adam=1 batch=4 vocab=152064 iters=32 "
     "varlen=7.2,0.7 maxlen=8192 foreach=False evals=6",
     "fine-tuning with evaluations between the steps"},
};
const size_t gen_family_count = sizeof gen_families / sizeof *gen_families;

const struct gen_suite_row gen_suite[] = {
    {"moe-fsdp2", 1},
    {"moe-fsdp2", 2},
    {"moe-fsdp2-varlen", 1},
    {"moe-fsdp2-varlen", 2},
    {"moe-fsdp2-offload", 1},
    {"moe-fsdp2-offload-varlen", 1},
    {"moe-fsdp2-offload-varlen", 2},
    {"moe-fsdp2-rscompute", 1},
    {"moe-fsdp2-deep-prefetch", 1},
    {"moe-fsdp1", 1},
    {"moe-fsdp1-nosync", 1},
    {"moe-modern", 1},
    {"moe-modern-offload-varlen", 1},
    {"moe-fsdp2-persist", 1},
    {"moe-modern-persist", 1},
    {"moe-side-streams", 1},
    {"moe-side-streams-varlen", 1},
    {"moe-commalloc", 1},
    {"moe-commalloc-offload-varlen", 1},
    {"moe-commalloc-offload-varlen", 2},
    {"moe-accum", 1},
    {"moe-noac", 1},
    {"gpt-dense", 1},
    {"gpt-dense-ac", 1},
    {"ft-varlen-full", 1},
    {"ft-varlen-full", 2},
    {"ft-varlen-lora", 1},
    {"ft-varlen-eval", 1},
};
const size_t gen_suite_count = sizeof gen_suite / sizeof *gen_suite;

const struct gen_family *gen_family_find(const char *name, const char **nearest) {
    const char *names[sizeof gen_families / sizeof *gen_families];
    for (size_t i = 0; i < gen_family_count; i++) {
        if (strcmp(gen_families[i].name, name) == 0) return &gen_families[i];
        names[i] = gen_families[i].name;
    }
    *nearest = weir__nearest(name, names, gen_family_count);
    return NULL;
}

/* The command that makes the trace, and the streams' names. */
static void put_head(struct trace_writer *trace, const struct gen_family *family, uint64_t seed,
                     const struct gen_settings *settings) {
    struct gen_settings base;
    char difference[2048];
    gen_settings_start(&base, family->model, family->settings);
    gen_settings_difference(settings, &base, difference, sizeof difference);
    trace_put_comment(trace, "weir-trace gen %s --seed %" PRIu64 "%s", family->name, seed, difference);
    for (uint64_t s = 0; s < (family->model == GEN_MOE ? GEN_STREAMS : 1); s++)
        trace_put_stream_name(trace, s, gen_stream_names[s]);
}

static void run(const struct gen_family *family, uint64_t seed, const struct gen_settings *settings,
                struct gen_writer *out) {
    struct gen_random random;
    gen_random_seed(&random, family->name, seed);
    if (family->model == GEN_MOE)
        gen_moe(out, &random, settings);
    else
        gen_dense(out, &random, settings);
    gen_sync_device(out);
    gen_free_everything(out);
}

int gen_family_write(const struct gen_family *family, uint64_t seed, const struct gen_settings *settings,
                     const char *path, struct gen_figures *figures, char *why, size_t room) {
    struct trace_writer *trace = trace_writer_open(path, why, room);
    if (trace == NULL) return 1;
    put_head(trace, family, seed, settings);
    struct gen_writer out;
    gen_writer_open(&out, trace);
    run(family, seed, settings, &out);
    gen_writer_close(&out);
    *figures = (struct gen_figures){out.operations, (int64_t)out.last_buf, out.peak_live_bytes, out.total_bytes};
    if (!gen_stopped(&out)) return trace_writer_close(trace, why, room) ? 0 : 1;
    snprintf(why, room, "%s", out.stopped);
    trace_writer_abandon(trace);
    return 2;
}
