/* SPDX-License-Identifier: Apache-2.0 */
/* Every order that the offload library makes or checks goes through here, under the name of its site, so that a test can
 * take one out and see that something notices (WEIR_MUTATE, as in alloc/wait.h). All are needed. Sites:
 *
 *   offload.out.ready      the copy out waits for what the caller had queued
 *   offload.out.slot       the copy out waits for the last copy that reads or writes its host block
 *   offload.out.free       the device block goes back to the pool after the copy out, not after the caller's stream
 *   offload.out.undo       after a failed offload the caller's stream waits for the copies that were queued
 *   offload.out.undo.host  or the host does, where no event can be recorded
 *   offload.in.out         the copy in waits for the copy out of the same item
 *   offload.in.block       the copy in waits until its device block is ready for the consumer
 *   offload.in.undo        after a failed fetch the device block goes back after the copies that were queued
 *   offload.in.undo.host   or the host waits for them, where no event can be recorded
 *   offload.kept.ready     an item that stayed on the device moves out after what its producer had queued
 *   offload.kept.free      and its block goes back after that copy
 *   offload.kept.undo      or, when it does not move, the host waits for the copies that were queued
 *   offload.dropped        the block of a prefetch that is given up goes back after its copy in
 *   offload.fetch.in       the consumer waits for the copy in
 *   offload.fetch.kept     the consumer of an item that stayed on the device waits for what its producer had queued
 *   offload.release        the block of a released item goes back after its copy in, or after what its producer had queued
 *   offload.destroy.out    an engine that is destroyed leaves no copy out
 *   offload.destroy.in     and no copy in: the host pool may go next
 *   host.idle              a host block is handed to a program only when its last copy has passed */
#ifndef WEIR_OFFLOAD_ORDER_H
#define WEIR_OFFLOAD_ORDER_H

#include <stdbool.h>

#include "weir/device.h"
#include "weir/pool.h"

/* Makes `stream` wait for the latest record of `event`. */
enum weir_status weir__offload_wait(struct weir_device *device, const char *site, weir_stream stream, weir_event event);
/* Gives a device block back to its pool, to be used again after the latest record of `event`, which comes after what
 * `stream` has queued. */
enum weir_status weir__offload_free_after(struct weir_pool *pool, const char *site, void *block, weir_event event,
                                          weir_stream stream);
/* The host waits for all that `stream` has queued. */
enum weir_status weir__offload_synchronize(struct weir_device *device, const char *site, weir_stream stream);
/* True when the latest record of `event` has passed; false when not, or when the driver does not say. */
bool weir__offload_passed(struct weir_device *device, const char *site, weir_event event);

#endif
