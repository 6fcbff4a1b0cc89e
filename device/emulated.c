/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emulated.h"

#include <time.h>

#include "device/device.h"

/* ---- time ------------------------------------------------------------------------------------------------------- */

uint64_t weir__device_now_ns(struct weir_device *device) {
    uint64_t ns = 0;
    if (device->driver->emulated && device->driver->emu_now(&ns) == CUDA_SUCCESS) return ns;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void weir__device_pause(struct weir_device *device, uint64_t ns) {
    if (device->driver->emulated && device->driver->emu_pause(ns) == CUDA_SUCCESS) return;
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&left, NULL);
}

/* ---- the emulated machine --------------------------------------------------------------------------------------- */

static enum weir_status need_emulated(struct weir_device *device, const char *what) {
    if (device == NULL) return WEIR__INVALID("%s needs a device, not NULL", what);
    if (device->driver->emulated) return WEIR_OK;
    return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s: only the emulated device has that", what);
}

enum weir_status weir__device_machine(struct weir_device *device, struct weir_emu_machine *out) {
    const enum weir_status status = need_emulated(device, "the machine's description");
    if (status != WEIR_OK) return status;
    *out = (struct weir_emu_machine){.size = sizeof *out};
    return weir__device_check(device, device->driver->emu_machine(out), "weirEmuMachine");
}

bool weir__device_takes_turns(struct weir_device *device) {
    struct weir_emu_machine machine = {.size = sizeof machine};
    return device->driver->emulated && device->driver->emu_machine(&machine) == CUDA_SUCCESS && machine.virtual_clock;
}

bool weir__device_is_watched(const struct weir_device *device) {
    struct weir_emu_machine machine = {.size = sizeof machine};
    return device->driver->emulated && device->driver->emu_machine(&machine) == CUDA_SUCCESS && machine.watched;
}

enum weir_status weir__device_counts(struct weir_device *device, struct weir_emu_counts *out) {
    const enum weir_status status = need_emulated(device, "counts of what happened");
    if (status != WEIR_OK) return status;
    *out = (struct weir_emu_counts){.size = sizeof *out};
    return weir__device_check(device, device->driver->emu_counts(out), "weirEmuCounts");
}

enum weir_status weir__device_report(struct weir_device *device, size_t index, struct weir_emu_report *out) {
    const enum weir_status status = need_emulated(device, "the watch");
    if (status != WEIR_OK) return status;
    *out = (struct weir_emu_report){.size = sizeof *out};
    const CUresult code = device->driver->emu_watch_report(index, out);
    return code == CUDA_ERROR_NOT_FOUND ? WEIR_NOT_READY : weir__device_check(device, code, "weirEmuWatchReport");
}

enum weir_status weir__thread_begin(struct weir_device *device, const char *name, unsigned together) {
    const enum weir_status status = need_emulated(device, "a thread of the clock");
    if (status != WEIR_OK) return status;
    return weir__device_check(device, device->driver->emu_thread_begin(name, together), "weirEmuThreadBegin");
}

enum weir_status weir__thread_end(struct weir_device *device) {
    const enum weir_status status = need_emulated(device, "a thread of the clock");
    if (status != WEIR_OK) return status;
    return weir__device_check(device, device->driver->emu_thread_end(), "weirEmuThreadEnd");
}

/* ---- gates ------------------------------------------------------------------------------------------------------ */

enum weir_status weir__gate_create(struct weir_device *device, struct weir_emu_gate **out) {
    *out = NULL;
    const enum weir_status status = need_emulated(device, "a gate");
    if (status != WEIR_OK) return status;
    return weir__device_check(device, device->driver->emu_gate_create(out, WEIR_EMU_GATE_PLAIN), "weirEmuGateCreate");
}

enum weir_status weir__gate_hold(struct weir_device *device, struct weir_emu_gate *gate, weir_stream stream) {
    enum weir_status status = need_emulated(device, "a gate");
    if (status == WEIR_OK) status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    status = weir__device_check(device, device->driver->emu_gate_hold(gate, stream), "weirEmuGateHold");
    weir__device_leave(device);
    return status;
}

enum weir_status weir__gate_wait(struct weir_device *device, struct weir_emu_gate *gate) {
    return weir__device_check(device, device->driver->emu_gate_wait(gate), "weirEmuGateWait");
}

enum weir_status weir__gate_open(struct weir_device *device, struct weir_emu_gate *gate, uint64_t delay_ns) {
    return weir__device_check(device, device->driver->emu_gate_open(gate, delay_ns), "weirEmuGateOpen");
}

enum weir_status weir__gate_destroy(struct weir_device *device, struct weir_emu_gate *gate) {
    return weir__device_check(device, device->driver->emu_gate_destroy(gate), "weirEmuGateDestroy");
}
