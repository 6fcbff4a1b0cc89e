/* SPDX-License-Identifier: Apache-2.0 */
/* Prefault: makes mapped pages real from several threads at once, which is what most of the cost of pinning is. */
#ifndef WEIR_OFFLOAD_PREFAULT_H
#define WEIR_OFFLOAD_PREFAULT_H

#include <stddef.h>

/* Touches every page of a fresh mapping, from threads on the CPUs of `node` (-1: anywhere). Gives 0, or the errno with
 * which the system refused pages. Without threads it does the work itself. */
int weir__prefault(char *address, size_t bytes, int node);

#endif
