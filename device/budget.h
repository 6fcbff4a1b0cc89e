/* SPDX-License-Identifier: Apache-2.0 */
/* How much host memory the process may still take: the least of what the machine has available and what each memory
 * cgroup above the process (version 1 or 2) leaves. Page cache that the kernel can drop counts as available; what the
 * process has taken, pinned or not, does not.
 *
 * On an integrated device that is the device's memory too. What the driver calls free there leaves out the page cache, so
 * that after large files were read next to nothing seems to be left. */
#ifndef WEIR_DEVICE_BUDGET_H
#define WEIR_DEVICE_BUDGET_H

#include <stddef.h>

#include "weir/device.h"

/* Reads proc and sys below `root` ("" for this machine). SIZE_MAX when nothing there says. */
WEIR_API size_t weir__memory_available(const char *root);

/* Gives: what is free on a device of which the driver says `driver_free_bytes`. */
size_t weir__device_free(const struct weir_device *device, size_t driver_free_bytes);
/* Gives: the most that may be taken of the device: all of its memory; on an integrated one what is free of it now. */
enum weir_status weir__device_budget(struct weir_device *device, size_t *bytes);

#endif
