/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a driver: it is shutting down with the process, or the program has destroyed the context or reset the device.
 * All that was taken from it has gone back with it. So calls that give something back have nothing left to do then, and
 * succeed; those that ask for something fail as usual. Once a driver has said that it is shutting down it is asked no more. */
#ifndef WEIR_DEVICE_OVER_H
#define WEIR_DEVICE_OVER_H

#include <stdbool.h>

#include "weir/status.h"

/* True for a failure, this thread's last one, by which the driver said so. */
bool weir__is_over(enum weir_status status);

/* The status of a call that gives something back. */
static inline enum weir_status weir__given_back(enum weir_status status) {
    return weir__is_over(status) ? WEIR_OK : status;
}

#endif
