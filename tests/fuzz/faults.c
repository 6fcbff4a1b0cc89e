/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as faults: refused with a sentence and without effect, or added. */
#include <string.h>

#include "device/emu/faults.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[4097], sentence[300] = "";
    if (size >= sizeof text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    const struct emu_complaint complaint = {sentence, sizeof sentence};
    const bool good = emu_faults_check(text, complaint);
    FUZZ_HOLDS(good || strncmp(sentence, "fault: ", strlen("fault: ")) == 0);
    FUZZ_HOLDS(emu_faults_add(text, complaint) == good);
    for (int entry = 0; entry < EMU_ENTRIES; entry++) {
        const uint64_t made = emu_faults_made();
        const CUresult code = emu_faults_count((enum emu_entry)entry);
        FUZZ_HOLDS(emu_faults_made() - made == (code != CUDA_SUCCESS));
        FUZZ_HOLDS(good || code == CUDA_SUCCESS);
    }
    FUZZ_HOLDS(emu_faults_add("", complaint));
    return 0;
}
