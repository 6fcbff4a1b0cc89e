/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a run: one options table makes the struct, the flags, the YAML keys, --help and the dump. */
#ifndef WEIR_TRAINER_CONFIG_H
#define WEIR_TRAINER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* TEXT(section, key, default, value name, help)
 * INT(section, key, default, least, most, unit, help)
 * REAL(section, key, default, least, most, unit, help)
 * BYTES(section, key, default, help): 64M, 1.5G; 0 means what the help says
 * FLAG(section, key, default, help): --key, --no-key, --key=on|off
 * CHOICE(section, key, default, "a|b|c", help): kept as text, checked
 * Flag: --key with '_' written as '-'. YAML: section: { key: value }. */
#define CONFIG_LIST(TEXT, INT, REAL, BYTES, FLAG, CHOICE)                                                              \
    TEXT(data, data, "", "FILE", "text to train on; default the King James text that run.sh makes")                    \
    REAL(data, validation, 0.05, 0.0, 0.5, "fraction", "end of the text kept for validation")                          \
    INT(model, layers, 4, 1, 512, "layers", "transformer layers")                                                      \
    INT(model, dim, 128, 8, 65536, "", "width of the model")                                                           \
    INT(model, heads, 4, 1, 1024, "", "query heads; the width of a head is dim / heads")                               \
    INT(model, kv_heads, 2, 1, 1024, "", "key-value heads; divides heads")                                             \
    INT(model, ffn, 128, 1, 1048576, "", "hidden width of an expert")                                                  \
    INT(model, experts, 8, 1, 4096, "", "routed experts a layer; ep divides them")                                     \
    INT(model, top_k, 2, 1, 64, "", "experts a token goes to")                                                         \
    INT(model, shared, 1, 0, 16, "", "shared experts a layer (one expert of shared x ffn)")                            \
    REAL(model, route_scale, 1.0, 0.01, 100.0, "", "factor on the normalised gates")                                   \
    INT(parallel, ranks, 4, 1, 4096, "ranks", "processes to start")                                                    \
    INT(parallel, ep, 2, 1, 4096, "ranks", "expert-parallel group; divides ranks")                                     \
    CHOICE(parallel, wire, "bf16", "bf16|fp32", "type of weights, rows and gradients on the wire")                     \
    CHOICE(parallel, comm, "auto", "auto|mpi|nccl|local",                                                              \
           "how ranks talk; local: as threads of one process, on emulated devices; auto: nccl on GPUs, else mpi")      \
    CHOICE(parallel, ops, "auto", "auto|cpu|cuda|cost",                                                                \
           "who computes; cost: nobody, an emulated device takes the time; auto: cuda on GPUs, else cpu")              \
    REAL(parallel, skew, 1.0, 0.0, 8.0, "", "of the routes that ops cost makes up; 0: all experts alike")              \
    INT(train, steps, 200, 0, 1000000000, "steps", "training steps")                                                   \
    INT(train, batch, 2, 1, 1048576, "sequences", "sequences a rank a step")                                           \
    INT(train, seq, 128, 2, 1048576, "tokens", "length of a sequence")                                                 \
    REAL(train, lr, 2e-3, 0.0, 1.0, "", "learning rate after warm-up; falls to a tenth by the last step")              \
    INT(train, warmup, 10, 0, 1000000000, "steps", "linear warm-up")                                                   \
    REAL(train, decay, 0.1, 0.0, 1.0, "", "weight decay")                                                              \
    REAL(train, clip, 1.0, 0.0, 1e9, "", "largest gradient norm; 0: no clipping")                                      \
    REAL(train, bias_rate, 1e-3, 0.0, 1.0, "", "step of the routing bias that balances the experts; 0: none")          \
    CHOICE(train, optimizer, "muon", "muon|adamw", "for matrices; the rest is AdamW")                                  \
    INT(train, loss_chunk, 256, 1, 1048576, "tokens", "tokens whose logits are alive at once")                         \
    INT(train, seed, 1, 0, 2147483647, "", "of weights and batches")                                                   \
    INT(train, eval_every, 20, 0, 1000000000, "steps", "validation loss every so many steps and at the end; 0: never") \
    INT(train, eval_batches, 8, 1, 1000000, "batches", "validation batches a rank")                                    \
    TEXT(train, routes_save, "", "FILE", "write the expert ids of every step, to replay them")                         \
    TEXT(train, routes_replay, "", "FILE", "route as that file says")                                                  \
    CHOICE(memory, device, "auto", "auto|cuda|emulated", "machine; WEIR_DEVICE when not given")                        \
    TEXT(memory, profile, "", "NAME", "profile of the emulated device; else WEIR_EMU's, else demo")                    \
    BYTES(memory, capacity, 0, "memory of the emulated device; 0: as WEIR_EMU or the profile says")                    \
    BYTES(memory, limit, 0, "most that the pool may take; 0: the whole device")                                        \
    CHOICE(memory, policy, "latency", "latency|footprint|per-stream", "policy of the pool")                            \
    FLAG(memory, offload, false, "move saved layer inputs to CPU memory and back")                                     \
    BYTES(memory, host_budget, 0, "pinned CPU memory a rank for offload; 0: a fair half of what is available")         \
    TEXT(report, json, "", "FILE", "write the report of the run")                                                      \
    TEXT(report, trace, "", "FILE", "record the pool's calls in weir-trace 1, as FILE.rankN")                          \
    FLAG(report, timeline, false, "keep memory over time in the report of --json")                                     \
    FLAG(report, progress, true, "progress bar when standard error is a terminal")                                     \
    TEXT(report, name, "", "TEXT", "name of the run in its report")

enum { CONFIG_LOCAL_RANKS = 64 }; /* the emulated driver has no more devices */

struct config {
#define CONFIG_TEXT(section, key, ...)   char key[512];
#define CONFIG_INT(section, key, ...)    int64_t key;
#define CONFIG_REAL(section, key, ...)   double key;
#define CONFIG_BYTES(section, key, ...)  size_t key;
#define CONFIG_FLAG(section, key, ...)   bool key;
#define CONFIG_CHOICE(section, key, ...) char key[32];
    CONFIG_LIST(CONFIG_TEXT, CONFIG_INT, CONFIG_REAL, CONFIG_BYTES, CONFIG_FLAG, CONFIG_CHOICE)
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_REAL
#undef CONFIG_BYTES
#undef CONFIG_FLAG
#undef CONFIG_CHOICE
};

void config_defaults(struct config *config);
/* Reads --config=FILE (YAML) first, then the flags, which win. Gives 0; 1 after --help, --version, --man or --dump-config, which
 * it has answered on standard output; or 2 with one sentence in `message` that names the thing, the value and the limit
 * (for an unknown option the nearest known one). */
int config_parse(struct config *config, int argc, char **argv, char *message, size_t room);
int config_read_yaml(struct config *config, const char *path, char *message, size_t room);
/* What no single range shows: kv_heads | heads | dim, ep | ranks, ep | experts, ... Gives 0 or 2 as above. */
int config_check(const struct config *config, char *message, size_t room);
void config_help(FILE *out);
void config_man(FILE *out); /* the manual page, as roff */
/* YAML that reads back to the same configuration. */
void config_dump(const struct config *config, FILE *out);

#endif
