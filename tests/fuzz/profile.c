/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a machine profile: refused with a sentence, or read with figures that a clock can work with. */
#include <math.h>
#include <string.h>

#include "device/emu/settings.h"
#include "tests/fuzz/fuzz.h"

static bool is_amount(double value) { return isfinite(value) && value >= 0; }

static void check(const struct emu_profile *profile) {
    const double amounts[] = {profile->arithmetic_flops,
                              profile->memory_rate,
                              profile->to_device_rate,
                              profile->to_host_rate,
                              profile->peer_rate,
                              profile->network_rate,
                              profile->to_device_together,
                              profile->to_host_together,
                              profile->peer_latency_ns,
                              profile->network_latency_ns,
                              profile->copy_ns,
                              profile->kernel_ns,
                              profile->host_function_ns,
                              profile->launch_ns,
                              profile->wake_ns,
                              profile->jitter};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) FUZZ_HOLDS(is_amount(amounts[i]));
    FUZZ_HOLDS(profile->to_device_together <= profile->to_device_rate);
    FUZZ_HOLDS(profile->to_host_together <= profile->to_host_rate);
    FUZZ_HOLDS(profile->jitter < 1);
    FUZZ_HOLDS(profile->granularity_bytes >= 4096 && profile->capacity_bytes >= profile->granularity_bytes);
    FUZZ_HOLDS(profile->device_name[0] != '\0' && memchr(profile->device_name, '\0', sizeof profile->device_name));
    FUZZ_HOLDS(memchr(profile->note, '\0', sizeof profile->note) != NULL);
    for (int law = 0; law < EMU_LAWS; law++)
        for (int entry = 0; entry < EMU_ENTRIES; entry++) {
            const struct emu_cost *cost = &profile->calls[law][entry];
            FUZZ_HOLDS(is_amount(cost->fixed_ns) && is_amount(cost->handle_ns) && is_amount(cost->byte_ns));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct emu_profile profile;
    char sentence[300] = "";
    FILE *file = size > 0 ? fmemopen((void *)data, size, "r") : NULL;
    if (file == NULL) return 0;
    if (emu_profile_parse(file, "fuzzed", &profile, (struct emu_complaint){sentence, sizeof sentence}))
        check(&profile);
    else
        FUZZ_HOLDS(strncmp(sentence, "fuzzed:", strlen("fuzzed:")) == 0);
    fclose(file);
    return 0;
}
