/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of any log that is converted: refused with a sentence that names it, or made into steps that a trace's
 * reader would take. */
#ifndef WEIR_TESTS_CONVERT_CHECK_H
#define WEIR_TESTS_CONVERT_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "tools/trace/convert.h"
#include "tools/trace/input.h"

enum { FUZZ_MOST_TEXT = 1 << 20 };

/* Inputs of the name "fuzzed". */
void fuzz_convert(const struct convert_input *inputs, size_t count);
void fuzz_convert_bytes(const uint8_t *data, size_t size);

#endif
