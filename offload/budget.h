/* SPDX-License-Identifier: Apache-2.0 */
/* How much host memory the process may still take: the least of what the machine has available and what each memory
 * cgroup above the process (version 1 or 2) leaves. Page cache that the kernel can drop counts as available. */
#ifndef WEIR_OFFLOAD_BUDGET_H
#define WEIR_OFFLOAD_BUDGET_H

#include <stddef.h>

/* Reads proc and sys below `root` ("" for this machine). SIZE_MAX when nothing there says. */
size_t weir__memory_available(const char *root);

/* The default budget: a half of what is available, over the ranks of the host. */
size_t weir__default_budget(size_t available_bytes, int ranks);

#endif
