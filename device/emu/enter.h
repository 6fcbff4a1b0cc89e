/* SPDX-License-Identifier: Apache-2.0 */
/* How entries begin that name a stream, an event or a device. Each gives CUDA_SUCCESS with the lock held, else it has
 * been given up. */
#ifndef WEIR_EMU_ENTER_H
#define WEIR_EMU_ENTER_H

#include "device/emu/emu.h"
#include "device/emu/event.h"
#include "device/emu/stream.h"

static inline CUresult emu_enter_stream(enum emu_entry entry, CUstream stream, struct emu_queue **queue) {
    CUcontext context;
    CUresult code = emu_enter(entry, &context);
    if (code != CUDA_SUCCESS) return code;
    code = emu_stream_queue(context, stream, queue);
    return code == CUDA_SUCCESS ? CUDA_SUCCESS : emu_leave(code);
}

static inline CUresult emu_enter_event(enum emu_entry entry, CUevent event) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    const CUresult usable = emu_event_alive(event) ? event->context->broken : CUDA_ERROR_INVALID_HANDLE;
    return usable == CUDA_SUCCESS ? CUDA_SUCCESS : emu_leave(usable);
}

static inline CUresult emu_enter_device(enum emu_entry entry, CUdevice device, const void *place) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (place == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_device_exists(device) ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_DEVICE);
}

#endif
