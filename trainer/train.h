/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule: the training steps of one rank, from the first gather to the last validation loss. */
#ifndef WEIR_TRAINER_TRAIN_H
#define WEIR_TRAINER_TRAIN_H

#include <stdint.h>

#include "trainer/comm.h"
#include "trainer/config.h"
#include "trainer/data.h"
#include "trainer/report.h"
#include "weir/device.h"
#include "weir/pool.h"

/* Numbers that the model of this configuration learns, over all ranks. */
int64_t train_parameters(const struct config *config);

/* Runs all steps; every rank calls it with the same configuration. Tells `report` each step and, with offload, the
 * engine's figures (report_offload) before it closes the engine; does not close the report.
 *
 * Needs:   the device attached to `comm`; a pool that lives longer than the call.
 * Gives:   the exit status: 0 done; 1 failure, 2 bad input (the device is too small for the sharded state, a routes file
 *          that does not fit), 3 out of memory. When not 0, comm->table->failure has the sentence on every rank. */
int train_run(const struct config *config, struct comm *comm, struct weir_device *device, struct weir_pool *pool,
              const struct data *data, struct report *report);

#endif
