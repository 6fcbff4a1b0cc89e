/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a pickle: as they are, or with the two bytes before them that make it one. */
#include <string.h>

#include "tests/fuzz/convert_check.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_BYTES = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t pickle[MOST_BYTES + 2] = {0x80, 4};
    if (size > MOST_BYTES || (size > 0 && data[0] == 0x80)) {
        fuzz_convert_bytes(data, size);
        return 0;
    }
    if (size > 0) memcpy(pickle + 2, data, size);
    fuzz_convert_bytes(pickle, size + 2);
    return 0;
}
