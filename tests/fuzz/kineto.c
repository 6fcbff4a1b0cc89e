/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the JSON of a profiler: as they are, or, where they are no list and no object, as an event of a list. */
#include <string.h>

#include "tests/fuzz/convert_check.h"
#include "tests/fuzz/fuzz.h"
#include "tools/trace/json_events.h"

enum { MOST_BYTES = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t list[MOST_BYTES + 2];
    if (size > MOST_BYTES || json_begins(data, size)) {
        fuzz_convert_bytes(data, size);
        return 0;
    }
    list[0] = '[';
    if (size > 0) memcpy(list + 1, data, size);
    list[size + 1] = ']';
    fuzz_convert_bytes(list, size + 2);
    return 0;
}
