/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_API_ROWS_H
#define GPU_API_ROWS_H

#include <stddef.h>

struct api_row {
    const char *name;
    long long value;
};

const struct api_row *api_own_rows(size_t *count);
const struct api_row *api_toolkit_rows(size_t *count);

#endif
