/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts above tell the emulated device's watch, since no call of the driver shows it: which bytes a pool gives
 * to whom, when they come back, and when the host itself reads or writes bytes that queued work touches. On a real
 * device, or without a watch, nothing happens. They may be called with any lock held and inside host functions. */
#ifndef WEIR_DEVICE_WATCHED_H
#define WEIR_DEVICE_WATCHED_H

#include "device/device.h"

/* The bytes go to `stream`, contents undefined: from its position now on they are its own. */
void weir__device_hand_out(struct weir_device *device, const void *address, size_t bytes, weir_stream stream);
/* They come back: every use so far comes before the positions of `streams` now, or before the record of `event` (NULL:
 * none). WEIR_EMU_ANY_STREAM among the streams: also uses on streams that are no more. */
void weir__device_take_back(struct weir_device *device, const void *address, size_t bytes, const weir_stream *streams,
                            size_t count, weir_event event);
/* The host reads or writes the bytes now, itself. */
WEIR_API void weir__device_host_access(struct weir_device *device, const void *address, size_t bytes, bool write);

#endif
