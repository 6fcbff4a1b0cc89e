/* SPDX-License-Identifier: Apache-2.0 */
/* What a run says: a line a step, a progress bar, and the JSON report. Rank 0 prints; each rank keeps its own memory
 * story, and the JSON has all of them. */
#ifndef WEIR_TRAINER_REPORT_H
#define WEIR_TRAINER_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/comm.h"
#include "trainer/config.h"
#include "weir/offload.h"
#include "weir/pool.h"

/* Where a step's time went, as the compute stream saw it (ms, mean over ranks); `other` is what is left of the step. */
#define STEP_CAUSES(X)                                                                                                 \
    X(weights_ms, "wait for gathered weights")                                                                         \
    X(exchange_ms, "wait for the expert exchange")                                                                     \
    X(reload_ms, "wait for reloaded activations")                                                                      \
    X(reduce_ms, "wait for gradient scatter")                                                                          \
    X(optimizer_ms, "optimizer")                                                                                       \
    X(host_ms, "host waited inside the pool")

struct step_record {
    int64_t step;           /* from 1 */
    double loss;            /* nats a byte, mean over the global batch */
    double validation_loss; /* NaN: not taken after this step */
    double gradient_norm;
    double seconds;
    int64_t tokens; /* over all ranks */
#define STEP_CAUSE_FIELD(name, text) double name;
    STEP_CAUSES(STEP_CAUSE_FIELD)
#undef STEP_CAUSE_FIELD
    double expert_load;            /* most over mean, worst layer */
    uint64_t wire_bytes;           /* sent by all ranks in this step */
    size_t live_bytes, held_bytes; /* peaks so far on the fullest rank */
    size_t capacity_bytes;
};

struct report;

/* Whether the report of --json can be written. Gives 0, or 2 with a sentence that names the file and what is wrong. */
int report_check(const struct config *config, char *message, size_t room);

/* Every rank. Rank 0 prints the facts first (machine, mesh, parameters, text). NULL without memory. */
struct report *report_open(const struct config *config, struct comm *comm, struct weir_device *device,
                           struct weir_pool *pool, int64_t data_bytes, int64_t parameters);
void report_step(struct report *report, const struct step_record *record);
/* Takes a sample of the pool's memory by stream for the timeline; cheap enough for every allocation; no-op unless asked. */
void report_sample(struct report *report, int64_t step);
/* Keeps the engine's last figures for the report; before the engine is destroyed. */
void report_offload(struct report *report, const struct weir_offload_stats *stats);
/* Ends the run: outcome "completed", "out_of_memory" or "failed" (with the sentence); gathers the ranks' stories and
 * writes the JSON on rank 0. failed_step 0: the step after the last that was reported. Call on every rank, also after a
 * failure; the pool must still be there. Gives: false when the JSON could not be written, which has been said. */
bool report_close(struct report *report, const char *outcome, int64_t failed_step, const char *sentence);

#endif
