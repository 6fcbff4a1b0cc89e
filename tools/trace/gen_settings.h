/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a modelled training step: one table makes the struct, the parser, the help and the comment in the
 * trace. */
#ifndef WEIR_TRACE_GEN_SETTINGS_H
#define WEIR_TRACE_GEN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The two models: a mixture of experts under FSDP and expert parallelism, on seven streams; a GPT on one. */
enum gen_model { GEN_MOE, GEN_DENSE, GEN_MODELS };

enum { FSDP1, FSDP2 };
enum { SCATTER_FROM_SIDE, SCATTER_FROM_COMPUTE };
enum { EXCHANGE_FROM_COMPUTE, EXCHANGE_FROM_COMM };
enum { TRAIN_FULL, TRAIN_LORA };

/* Lengths of a fine-tuning set: exp of a normal distribution. */
struct gen_lengths {
    bool vary;
    double mean, deviation; /* of the logarithm; a mixture of experts has its own distribution and uses neither */
};

/* X(type, key, least, most, default of GEN_MOE, default of GEN_DENSE (NULL: has no such key), text) */
#define GEN_PARAMETERS(X)                                                                                              \
    X(COUNT, layers, 1, 1024, "36", "32", "layers")                                                                    \
    X(COUNT, d, 1, 131072, "7168", "4096", "model width")                                                              \
    X(COUNT, heads, 1, 4096, "56", "32", "heads of the queries")                                                       \
    X(COUNT, kv, 1, 4096, "8", "32", "heads of keys and values")                                                       \
    X(COUNT, hd, 1, 4096, "128", NULL, "width of a head")                                                              \
    X(COUNT, experts, 1, 4096, "128", NULL, "experts of a layer")                                                      \
    X(COUNT, ep, 1, 65536, "16", NULL, "ranks that share a layer's experts")                                           \
    X(COUNT, topk, 1, 256, "8", NULL, "experts a token goes to")                                                       \
    X(COUNT, f, 1, 131072, "2048", "16384", "hidden width of an expert, or of the MLP")                                \
    X(COUNT, shared, 0, 131072, "2048", NULL, "hidden width of the shared expert; 0: none")                            \
    X(COUNT, dense_layers, 0, 1024, "1", NULL, "first layers that have an MLP instead of experts")                     \
    X(COUNT, dense_f, 1, 131072, "18432", NULL, "their hidden width")                                                  \
    X(COUNT, vocab, 1, 4194304, "163840", "50304", "vocabulary")                                                       \
    X(COUNT, seq, 1, 16777216, "4096", "2048", "tokens of a sequence")                                                 \
    X(COUNT, batch, 1, 4096, "8", "4", "sequences a rank")                                                             \
    X(COUNT, accum, 1, 1024, "1", "1", "microbatches of a step")                                                       \
    X(COUNT, iters, 1, 100000, "5", "5", "steps")                                                                      \
    X(COUNT, world, 1, 1048576, "64", NULL, "ranks")                                                                   \
    X(FSDP, fsdp, 0, 0, "fsdp2", NULL, "fsdp2 (buffers copied out, events) or fsdp1 (flat, uses recorded)")            \
    X(COUNT, prefetch, 0, 64, "1", NULL, "units gathered ahead")                                                       \
    X(SCATTER, rs_alloc, 0, 0, "rs", NULL, "stream of the reduce-scatter's input: rs or compute")                      \
    X(COUNT, rs_bytes, 1, 8, "4", NULL, "bytes of an element in the reduce-scatter")                                   \
    X(COUNT, master, 1, 8, "4", NULL, "bytes of an element of the sharded parameters")                                 \
    X(COUNT, mom, 1, 8, "4", NULL, "bytes of an element of each optimiser state")                                      \
    X(EXCHANGE, a2a_alloc, 0, 0, "compute", NULL, "stream of the all-to-all's buffers: compute or comm")               \
    X(SWITCH, record, 0, 1, "True", NULL, "uses on communication streams are recorded")                                \
    X(SWITCH, sync_counts, 0, 1, "True", NULL, "the host waits for the token counts of each layer")                    \
    X(REAL, imbalance, 0, 4, "0.25", NULL, "spread of the tokens of an expert: deviation of the logarithm")            \
    X(REAL, hot, 0, 4, "0.2", NULL, "spread between layers, lasting for the run")                                      \
    X(SWITCH, offload, 0, 1, "False", NULL, "layer inputs go to the host and come back")                               \
    X(COUNT, offload_keep, 0, 1024, "2", NULL, "last layers whose input stays")                                        \
    X(COUNT, h2d_ahead, 0, 1024, "2", NULL, "inputs fetched ahead")                                                    \
    X(COUNT, ce_chunks, 1, 1024, "8", NULL, "pieces that the loss is computed in")                                     \
    X(SWITCH, muon, 0, 1, "True", NULL, "Muon for matrices, AdamW for the rest; else AdamW")                           \
    X(COUNT, ns_steps, 0, 64, "5", NULL, "Newton-Schulz steps")                                                        \
    X(LENGTHS, varlen, 0, 100, "False", "None", "lengths vary: True; in a GPT MEAN,DEVIATION of their logarithm")      \
    X(REAL, minfrac, 0, 1, "0.25", NULL, "least part of seq * batch that a step has where lengths vary")               \
    X(SWITCH, sync_iter, 0, 1, "True", NULL, "the host reads the loss")                                                \
    X(COUNT, small, 0, 64, "10", NULL, "small buffers of a layer")                                                     \
    X(COUNT, align, 1, 65536, "16", NULL, "tokens of an expert are a multiple of this")                                \
    X(SWITCH, clip, 0, 1, "True", NULL, "gradients are clipped")                                                       \
    X(COUNT, log_every, 1, 100000, "1", NULL, "steps between two looks at the loss")                                   \
    X(SWITCH, ac, 0, 1, "True", "False", "a layer keeps its input only and is computed again in backward")             \
    X(SWITCH, ep_meta, 0, 1, "False", NULL, "dispatch handles on the communication stream, kept until backward")       \
    X(TRAIN, train, 0, 0, NULL, "full", "full, or lora: adapters only")                                                \
    X(COUNT, rank, 1, 4096, NULL, "64", "rank of an adapter")                                                          \
    X(COUNT, pbytes, 1, 8, NULL, "4", "bytes of an element of the parameters; 4: cast to 2 for each use")              \
    X(COUNT, adam, 1, 8, NULL, "4", "bytes of an element of each Adam state")                                          \
    X(SWITCH, gated, 0, 1, NULL, "False", "the MLP has a gate")                                                        \
    X(COUNT, maxlen, 256, 1048576, NULL, "4096", "longest sequence where lengths vary, and of an evaluation")          \
    X(SWITCH, foreach, 0, 1, NULL, "True", "the optimiser works on lists, with temporaries; else in place")            \
    X(SWITCH, ce_fp32, 0, 1, NULL, "True", "the loss is computed in 32 bits")                                          \
    X(COUNT, bucket, 0, 1048576, NULL, "0", "lengths are padded to a multiple of this; 0: of 8")                       \
    X(COUNT, evals, 0, 1024, NULL, "0", "evaluation batches after every fourth step")

#define GEN_TYPE_COUNT    int64_t
#define GEN_TYPE_REAL     double
#define GEN_TYPE_SWITCH   bool
#define GEN_TYPE_LENGTHS  struct gen_lengths
#define GEN_TYPE_FSDP     int
#define GEN_TYPE_SCATTER  int
#define GEN_TYPE_EXCHANGE int
#define GEN_TYPE_TRAIN    int

struct gen_settings {
    enum gen_model model;
#define GEN_FIELD(type, key, ...) GEN_TYPE_##type key;
    GEN_PARAMETERS(GEN_FIELD)
#undef GEN_FIELD
};

/* The model's defaults, then `changes`: "KEY=VALUE KEY=VALUE ...", which must be right. */
void gen_settings_start(struct gen_settings *settings, enum gen_model model, const char *changes);
/* Sets one, from "KEY=VALUE". False with a sentence: no such key (and the nearest), no such value (and its limits). */
bool gen_settings_set(struct gen_settings *settings, const char *assignment, char *why, size_t room);
/* False with a sentence when the settings together are more than a trace can hold. */
bool gen_settings_check(const struct gen_settings *settings, char *why, size_t room);
/* " --set KEY=VALUE" for each that differs from `base`, as gen_settings_set reads it. */
void gen_settings_difference(const struct gen_settings *settings, const struct gen_settings *base, char *text,
                             size_t room);
/* One line a key: value, limits, text. */
void gen_settings_help(const struct gen_settings *settings, FILE *to);

#endif
