/* SPDX-License-Identifier: Apache-2.0 */
/* How much host memory the slabs may take, of what the process may still take (device/budget.h). */
#ifndef WEIR_OFFLOAD_BUDGET_H
#define WEIR_OFFLOAD_BUDGET_H

#include <stddef.h>

#include "device/budget.h"

/* The default budget: a half of what is available, over the ranks of the host. */
size_t weir__default_budget(size_t available_bytes, int ranks);

#endif
