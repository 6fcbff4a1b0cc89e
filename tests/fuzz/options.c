/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as WEIR_OPTIONS, and as a file of options: refused with a sentence, or read into options that hold. Texts with a
 * '/' are left out as WEIR_OPTIONS: they may name any file. */
#include <string.h>

#include "alloc/options.h"
#include "device/error.h"
#include "tests/fuzz/fuzz.h"

static void check(enum weir_status status, const struct weir__options *options) {
    FUZZ_HOLDS(status == WEIR_OK || weir_last_error()->message[0] != '\0');
    FUZZ_HOLDS(options->policy >= WEIR_POLICY_LATENCY && options->policy <= WEIR_POLICY_PER_STREAM);
    FUZZ_HOLDS((options->limit.bytes > 0) != (options->limit.fraction > 0));
    FUZZ_HOLDS(options->limit.fraction <= 1);
    FUZZ_HOLDS(options->wait_limit > 0 && options->wait_limit < UINT64_C(1000000000000000000));
    const size_t length = strnlen(options->name, sizeof options->name);
    FUZZ_HOLDS(length > 0 && length < sizeof options->name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[4097];
    if (size >= sizeof text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    struct weir__options options = weir__options_default();
    if (memchr(data, '/', size) == NULL) check(weir__options_parse(text, &options), &options);
    options = weir__options_default();
    enum weir_status status = weir__options_parse_lines("a file", text, size, &options);
    check(status, &options);
    if (status == WEIR_INVALID) FUZZ_HOLDS(strncmp(weir_last_error()->message, "a file:", strlen("a file:")) == 0);
    return 0;
}
