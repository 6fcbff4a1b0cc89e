/* SPDX-License-Identifier: Apache-2.0 */
/* What a report keeps; inside report*.c only. */
#ifndef WEIR_TRAINER_REPORT_STATE_H
#define WEIR_TRAINER_REPORT_STATE_H

#include <jansson.h>

#include "device/emulated.h"
#include "trainer/bar.h"
#include "trainer/report.h"
#include "trainer/timeline.h"

struct report {
    const struct config *config;
    struct comm *comm;
    struct weir_device *device;
    struct weir_pool *pool;
    struct weir_device_info info;
    int64_t data_bytes, parameters;
    int64_t begin_ns;
    struct weir_emu_machine machine; /* all 0 on a real device */
    struct bar bar;
    struct timeline timeline; /* buckets NULL: not asked for */
    struct weir_offload_stats offload;
    bool has_offload;

    /* rank 0 */
    struct step_record *steps; /* (step_count) */
    size_t step_count, step_room;
    int64_t last_step; /* on every rank */
};

struct outcome {
    const char *name, *sentence;
    int64_t failed_step; /* 0: none */
    int failed_rank;     /* -1: none */
};

/* Without the first step, which sets things up, where there are more; 0 without steps. */
double report_tokens_per_s(const struct report *report);

/* This rank's story as JSON text, to be freed; with `pool_report`, the pool's report for people goes with it. */
char *report_rank_json(struct report *report, bool pool_report);
/* Writes the report of all ranks. ranks (world): parsed stories, taken over. 0, or -1 with errno. */
int report_write_json(const struct report *report, const struct outcome *outcome, json_t *ranks);

#endif
