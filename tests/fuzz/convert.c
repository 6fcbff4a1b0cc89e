/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as other programs' tables, up to three with a byte of value 28 between them. */
#include <string.h>

#include "tests/fuzz/convert_check.h"
#include "tests/fuzz/fuzz.h"

enum { SEPARATOR = 28 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct convert_input inputs[CONVERT_MOST_INPUTS];
    char why[400];
    size_t count = 0;
    for (const uint8_t *at = data, *end = data + size; count < CONVERT_MOST_INPUTS && at <= end;) {
        const uint8_t *stop = at < end ? memchr(at, SEPARATOR, (size_t)(end - at)) : NULL;
        if (stop == NULL) stop = end;
        inputs[count].name = "fuzzed";
        inputs[count].input = input_open_bytes(at, (size_t)(stop - at), why, sizeof why);
        if (inputs[count].input == NULL) break;
        input_limit(inputs[count++].input, FUZZ_MOST_TEXT);
        at = stop + 1;
    }
    if (count > 0) fuzz_convert(inputs, count);
    for (size_t i = 0; i < count; i++) input_close(inputs[i].input);
    return 0;
}
