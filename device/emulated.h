/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's time, for every part of weir; and what the parts above ask of the emulated machine alone: threads that
 * take part in its clock, gates, links. On a real device those answer WEIR_NOT_SUPPORTED.
 *
 * Under the virtual clock registered threads run one at a time; another one goes on where a thread calls the driver. So
 * whoever waits for another thread waits at a gate or pauses; a mutex is held over no call, and nobody sleeps. */
#ifndef WEIR_DEVICE_EMULATED_H
#define WEIR_DEVICE_EMULATED_H

#include "device/emu/emu_abi.h"
#include "weir/device.h"

/* Nanoseconds of the device's clock, from some beginning: the monotonic clock, or the emulated driver's. */
WEIR_API uint64_t weir__device_now_ns(struct weir_device *device);
/* The calling thread does nothing for so long by that clock. */
WEIR_API void weir__device_pause(struct weir_device *device, uint64_t ns);

/* What the emulated machine is. Fails: WEIR_NOT_SUPPORTED on a real device. */
WEIR_API enum weir_status weir__device_machine(struct weir_device *device, struct weir_emu_machine *out);
/* True when threads take turns (the virtual clock). Then a thread waits for another one by pausing before it looks
 * again, or at a gate. */
enum { WEIR__TURN_NS = 10000 };
WEIR_API bool weir__device_takes_turns(struct weir_device *device);
/* True when the driver looks at what pools tell of blocks (watched.h). */
bool weir__device_is_watched(const struct weir_device *device);
/* What happened so far; and what the watch has found, from 0: WEIR_NOT_READY beyond the last. */
WEIR_API enum weir_status weir__device_counts(struct weir_device *device, struct weir_emu_counts *out);
WEIR_API enum weir_status weir__device_report(struct weir_device *device, size_t index, struct weir_emu_report *out);
/* The calling thread begins to take part in the clock, once `together` threads have come to; and ends. The thread that
 * opened the first device takes part already. */
WEIR_API enum weir_status weir__thread_begin(struct weir_device *device, const char *name, unsigned together);
WEIR_API enum weir_status weir__thread_end(struct weir_device *device);

/* Gates: see emu_abi.h. weir__gate_open may be called inside a host function. */
WEIR_API enum weir_status weir__gate_create(struct weir_device *device, struct weir_emu_gate **out);
WEIR_API enum weir_status weir__gate_hold(struct weir_device *device, struct weir_emu_gate *gate, weir_stream stream);
WEIR_API enum weir_status weir__gate_wait(struct weir_device *device, struct weir_emu_gate *gate);
WEIR_API enum weir_status weir__gate_open(struct weir_device *device, struct weir_emu_gate *gate, uint64_t delay_ns);
WEIR_API enum weir_status weir__gate_destroy(struct weir_device *device, struct weir_emu_gate *gate);

#endif
