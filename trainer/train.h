/* SPDX-License-Identifier: Apache-2.0 */
/* A training run: opens the pool, the offload engine and the model on a device, takes the steps, reports them, and gives
 * everything back. The caller owns the device, the ranks and the text. */
#ifndef WEIR_TRAINER_TRAIN_H
#define WEIR_TRAINER_TRAIN_H

#include "trainer/comm.h"
#include "trainer/config.h"
#include "weir/device.h"

struct data; /* trainer/data.h */

enum train_exit { TRAIN_DONE = 0, TRAIN_FAILED = 1, TRAIN_BAD_INPUT = 2, TRAIN_OUT_OF_MEMORY = 3 };

/* Trains as `config` says. Every rank calls it, with the same configuration and text.
 *
 * Needs:   comm attached to `device`; a checked configuration; the text open.
 * Gives:   the exit status of the program, the same on every rank (enum train_exit). All but TRAIN_DONE are preceded by
 *          comm->fail with one sentence, which the caller prints; the report is closed in every case.
 * Threads: the one that opened comm. */
int train_run(const struct config *config, struct comm *comm, struct weir_device *device, const struct data *data);

#endif
