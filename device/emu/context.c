/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: initialisation, devices, primary contexts, and which context is current in a thread. */
#include <stdlib.h>

#include "device/emu/emu.h"
#include "device/emu/event.h"
#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/settings.h"
#include "device/emu/stream.h"
#include "device/error.h"

struct CUctx_st emu_contexts[EMU_MOST_DEVICES];
_Thread_local bool emu_in_host_function;

static pthread_mutex_t machine = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool initialised, exiting;

enum { MOST_PUSHED = 64 };
static _Thread_local CUcontext pushed[MOST_PUSHED]; /* the last one is current */
static _Thread_local unsigned pushed_count;

/* ---- start and end ---------------------------------------------------------------------------------------------- */

bool emu_exiting(void) { return atomic_load(&exiting); }

/* The process ends: workers stop before their next operation, entries refuse. Nothing is waited for, since what is
 * queued may wait for the program, and nothing is freed, since workers may be using it. */
__attribute__((destructor)) static void leave(void) { atomic_store(&exiting, true); }

static void prepare_contexts(void) {
    for (int i = 0; i < emu_settings()->devices; i++) {
        emu_contexts[i].ordinal = i;
        pthread_mutex_init(&emu_contexts[i].order, NULL);
    }
}

CUresult cuInit(unsigned flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (emu_exiting()) return CUDA_ERROR_DEINITIALIZED;
    char message[300] = "";
    pthread_mutex_lock(&machine);
    const bool usable = atomic_load(&initialised) || emu_settings_use((struct emu_complaint){message, sizeof message});
    if (usable && !atomic_load(&initialised)) prepare_contexts();
    if (usable) atomic_store(&initialised, true);
    pthread_mutex_unlock(&machine);
    if (!usable) weir__log(WEIR__LOG_ERROR, "emulated driver: %s", message);
    return usable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult weirEmuConfigure(const char *settings, char *message, size_t room) {
    if (room > 0) message[0] = '\0';
    const bool good = emu_settings_settle(settings, (struct emu_complaint){message, room});
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult emu_ready(void) {
    if (emu_exiting()) return CUDA_ERROR_DEINITIALIZED;
    if (!atomic_load(&initialised)) return CUDA_ERROR_NOT_INITIALIZED;
    return emu_in_host_function ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

bool emu_device_exists(CUdevice device) { return device >= 0 && device < emu_settings()->devices; }

/* ---- current ---------------------------------------------------------------------------------------------------- */

static bool active(CUcontext context) {
    pthread_mutex_lock(&machine);
    bool found = false;
    for (int i = 0; i < emu_settings()->devices; i++)
        found |= context == &emu_contexts[i] && emu_contexts[i].retained > 0;
    pthread_mutex_unlock(&machine);
    return found;
}

CUresult emu_current(CUcontext *context) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    *context = pushed_count > 0 ? pushed[pushed_count - 1] : NULL;
    if (*context == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    return active(*context) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (!active(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (pushed_count == MOST_PUSHED) return CUDA_ERROR_INVALID_VALUE;
    pushed[pushed_count++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (pushed_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
    pushed_count--;
    if (context != NULL) *context = pushed[pushed_count];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (context == NULL) return CUDA_ERROR_INVALID_VALUE;
    *context = pushed_count > 0 ? pushed[pushed_count - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (context != NULL && !active(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (pushed_count == 0 && context != NULL) pushed_count = 1;
    if (pushed_count > 0) pushed[pushed_count - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    CUcontext context;
    const CUresult code = emu_current(&context);
    if (code != CUDA_SUCCESS) return code;
    if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    CUcontext context;
    const CUresult code = emu_current(&context);
    return code != CUDA_SUCCESS ? code : emu_context_wait(context);
}

/* ---- primary contexts ------------------------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    const CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (context == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!emu_device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext kept = &emu_contexts[device];
    pthread_mutex_lock(&machine);
    if (kept->legacy == NULL) kept->legacy = emu_queue_take(kept, true);
    const bool made = kept->legacy != NULL;
    kept->retained += made;
    pthread_mutex_unlock(&machine);
    *context = made ? kept : NULL;
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The last release ends what the context owns, after its work. Physical pages and reservations are the device's and
 * the process's, and stay. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CUresult code = emu_ready();
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext context = &emu_contexts[device];
    pthread_mutex_lock(&machine);
    const bool retained = context->retained > 0;
    const bool last = retained && --context->retained == 0;
    pthread_mutex_unlock(&machine);
    if (!retained) return CUDA_ERROR_INVALID_CONTEXT;
    if (!last) return CUDA_SUCCESS;
    code = emu_context_wait(context);
    emu_streams_forget(context);
    emu_events_forget(context);
    emu_memory_forget(device);
    return code;
}
