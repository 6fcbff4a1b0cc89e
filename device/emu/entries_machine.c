/* SPDX-License-Identifier: Apache-2.0 */
/* weir's own entry for what the machine is. */
#include <stdio.h>
#include <string.h>

#include "device/emu/machine.h"
#include "device/emu/settings.h"
#include "device/emu/watch_inside.h"

CUresult weirEmuMachine(struct weir_emu_machine *machine) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (machine == NULL || machine->size < sizeof machine->size || machine->size > sizeof *machine)
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_settings *settings = emu_settings();
    struct weir_emu_machine known = {.size = machine->size,
                                     .backed = settings->backed,
                                     .virtual_clock = settings->clock == EMU_CLOCK_VIRTUAL,
                                     .seed = settings->seed,
                                     .peer_rate = settings->profile.peer_rate,
                                     .network_rate = settings->profile.network_rate,
                                     .peer_latency_ns = settings->profile.peer_latency_ns,
                                     .network_latency_ns = settings->profile.network_latency_ns,
                                     .jitter = settings->jitter,
                                     .pool_call_ns = settings->profile.pool_call_ns,
                                     .wake_ns = settings->profile.wake_ns,
                                     .watched = emu_watch_on()};
    snprintf(known.law, sizeof known.law, "%s", emu_law_names[settings->law]);
    memcpy(machine, &known, machine->size);
    return CUDA_SUCCESS;
}
