/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as settings of the emulated machine, given by the caller and by WEIR_EMU in turn: refused with a sentence,
 * or settled so that all parts agree. Texts with a '/' are left out: they may name any file. */
#include <string.h>

#include "device/emu/emu.h"
#include "device/emu/settings.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct emu_settings *settings) {
    FUZZ_HOLDS(settings->devices >= 1 && settings->devices <= EMU_MOST_DEVICES);
    FUZZ_HOLDS(settings->capacity_bytes >= settings->granularity_bytes);
    FUZZ_HOLDS(settings->others_bytes <= settings->capacity_bytes);
    FUZZ_HOLDS(settings->jitter >= 0 && settings->jitter < 1);
    FUZZ_HOLDS(settings->seed != 0 || settings->jitter == 0);
    FUZZ_HOLDS(settings->calls == settings->profile.calls[settings->law]);
    FUZZ_HOLDS(memchr(settings->faults, '\0', sizeof settings->faults) != NULL);
    FUZZ_HOLDS(settings->clock != EMU_CLOCK_VIRTUAL || settings->profile.memory_rate > 0);
}

static void settle(const char *text) {
    char sentence[300] = "";
    if (emu_settings_settle(text, (struct emu_complaint){sentence, sizeof sentence}))
        check(emu_settings());
    else
        FUZZ_HOLDS(sentence[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[4097];
    if (size >= sizeof text || memchr(data, '/', size) != NULL) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    unsetenv("WEIR_EMU");
    settle(text);
    setenv("WEIR_EMU", text, 1);
    settle(NULL);
    settle("clock:virtual,devices:2");
    return 0;
}
