/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/budget.h"

#include <stdint.h>

size_t weir__default_budget(size_t available_bytes, int ranks) {
    size_t known = available_bytes == SIZE_MAX ? (size_t)1 << 30 : available_bytes; /* unknown: modest */
    return known / 2 / (size_t)(ranks > 0 ? ranks : 1);
}
