/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_RUNTIME_ABI_ROWS_H
#define WEIR_TESTS_RUNTIME_ABI_ROWS_H

#include <stddef.h>

struct abi_row {
    const char *name;
    long long value;
};

extern const struct abi_row abi_rows_of_weir[], abi_rows_of_toolkit[];
extern const size_t abi_row_count_of_weir, abi_row_count_of_toolkit;

#endif
