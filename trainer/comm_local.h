/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads of one process, each with an emulated device of its own.
 *
 * Under the virtual clock the ranks run one at a time, in the order that the seed gives, so that a whole run is a
 * function of its configuration and the seed; under the real clock they run as threads do. (The other choice would have
 * been one rank with recorded peers: faster, but a peer that is late because of this rank could not be seen.)
 *
 * Words. meeting: one collective of one group; its parts are those of the ranks. A rank joins when it queues its part;
 * it arrives when its stream gets there, and the stream is held at the meeting's gate. The last to arrive moves all the
 * data, from device to device by plain copies, and opens the gate after the time that the profile's links take:
 *
 *     max over ranks of max(latency + bytes / rate)  by link;  bytes: what a rank sends, or gets, whichever is more
 *
 * Ranks of one expert-parallel group share a host and its peer links; all others are reached over the network. Meetings
 * don't slow each other down.
 *
 * What holds. Sizes are compared when a rank joins: two that disagree are a failure that names both. The lock is held
 * over no call of the driver, and no rank waits but at a gate. A failure opens every gate; what was moved till then
 * stays. */
#ifndef WEIR_TRAINER_COMM_LOCAL_H
#define WEIR_TRAINER_COMM_LOCAL_H

#include "trainer/comm.h"
#include "trainer/config.h"

enum { COMM_LOCAL_MOST = CONFIG_LOCAL_RANKS };

struct comm_local;

/* The world, before any of its ranks is opened. `moves`: false when nobody reads what collectives bring; they then take
 * their time and move nothing (as on a device without memory behind its addresses).
 * Fails: WEIR_INVALID when ep does not divide the world; WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status comm_local_create(int world, int ep, bool moves, struct comm_local **out);
/* Needs: every rank closed. */
void comm_local_destroy(struct comm_local *local);
enum weir_status comm_open_local(struct comm_local *local, int rank, struct comm *out);

/* A number that tells apart two runs in which the ranks' streams arrived in different orders. */
uint64_t comm_local_digest(struct comm_local *local);

/* Opens the ranks and runs `run` on each, in a thread; `run` closes its comm.
 *
 * Needs:   the ranks' devices, open: device (world); a calling thread that takes part in the clock.
 * Gives:   the status of the first rank, in rank order, whose own is not 0; -1 when a thread could not be started. */
int comm_local_run(struct comm_local *local, struct weir_device *const *device,
                   int (*run)(struct comm *comm, struct weir_device *device, void *argument), void *argument);

#endif
