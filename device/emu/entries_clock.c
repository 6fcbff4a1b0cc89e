/* SPDX-License-Identifier: Apache-2.0 */
/* weir's own entries for time, threads, other processes and what happened. */
#include <string.h>

#include "device/emu/clock.h"
#include "device/emu/event.h"
#include "device/emu/faults.h"
#include "device/emu/kernel.h"
#include "device/emu/machine.h"
#include "device/emu/memory.h"
#include "device/emu/settings.h"
#include "device/emu/stream.h"

CUresult weirEmuNow(uint64_t *ns) {
    const CUresult ready = emu_in_host_function ? CUDA_SUCCESS : emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (ns == NULL) return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    *ns = emu_clock->host_now_ns();
    emu_unlock();
    return CUDA_SUCCESS;
}

CUresult weirEmuCharging(int on) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_uncharged = on == 0;
    return CUDA_SUCCESS;
}

CUresult weirEmuPause(uint64_t ns) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    const bool admitted = emu_clock->admits();
    if (admitted) emu_clock->pause(ns);
    emu_unlock();
    return admitted ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
}

CUresult weirEmuNext(uint64_t *ns) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (ns == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (emu_clock->next_ns == NULL) return CUDA_ERROR_NOT_SUPPORTED;
    emu_lock();
    *ns = emu_clock->next_ns();
    emu_unlock();
    return *ns != UINT64_MAX ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult weirEmuEventTime(CUevent event, uint64_t *ns) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (ns == NULL) return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    const CUresult code = emu_event_alive(event) ? emu_event_time(event, ns) : CUDA_ERROR_INVALID_HANDLE;
    emu_unlock();
    return code;
}

CUresult weirEmuThreadBegin(const char *name, unsigned together) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (name == NULL || together == 0) return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    const bool begun = emu_clock->thread_begin(name, together);
    emu_unlock();
    return begun ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult weirEmuThreadEnd(void) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    emu_clock->thread_end();
    emu_unlock();
    return CUDA_SUCCESS;
}

CUresult weirEmuDelay(CUstream stream, uint64_t ns) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    struct emu_queue *queue = NULL;
    CUresult code = emu_current() == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    if (code == CUDA_SUCCESS) code = emu_stream_queue(emu_current(), stream, &queue);
    if (code == CUDA_SUCCESS) queue->delay_ns = ns;
    emu_unlock();
    return code;
}

CUresult weirEmuStreamNumber(CUstream stream, uint64_t *number) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (number == NULL) return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    struct emu_queue *queue = NULL;
    CUresult code = emu_current() == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    if (code == CUDA_SUCCESS) code = emu_stream_queue(emu_current(), stream, &queue);
    if (code == CUDA_SUCCESS) *number = queue->index;
    emu_unlock();
    return code;
}

CUresult weirEmuOthers(CUdevice device, size_t bytes) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (!emu_device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    emu_lock();
    const bool taken = emu_memory_others(device, bytes);
    emu_unlock();
    return taken ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult weirEmuFault(const char *faults, char *message, size_t room) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (faults == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (message == NULL) room = 0;
    if (room > 0) message[0] = '\0';
    emu_lock();
    const bool added = emu_faults_add(faults, (struct emu_complaint){message, room});
    emu_unlock();
    return added ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult weirEmuCounts(struct weir_emu_counts *counts) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (counts == NULL || counts->size < sizeof counts->size || counts->size > sizeof *counts)
        return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    const struct weir_emu_counts known = {.size = counts->size,
                                          .calls = emu_calls(),
                                          .operations = emu_operations(),
                                          .idle_kernels = emu_idle_kernels(),
                                          .unwatched = emu_watch_unwatched(),
                                          .reports = emu_watch_reports(),
                                          .faults = emu_faults_made(),
                                          .unsupported_calls = emu_unsupported_calls(),
                                          .memory_calls = emu_calls_of(EMU_CLASS_MEMORY),
                                          .order_calls = emu_calls_of(EMU_CLASS_ORDER),
                                          .wait_calls = emu_calls_of(EMU_CLASS_WAIT),
                                          .held_bytes = emu_memory_held(0),
                                          .peak_held_bytes = emu_memory_most_held(0)};
    memcpy(counts, &known, counts->size);
    emu_unlock();
    return CUDA_SUCCESS;
}
