/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: initialisation, devices, contexts, and which context is current in a thread. */
#include <stdlib.h>
#include <string.h>

#include "device/emu/clock.h"
#include "device/emu/emu.h"
#include "device/emu/event.h"
#include "device/emu/faults.h"
#include "device/emu/kernel.h"
#include "device/emu/machine.h"
#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/settings.h"
#include "device/emu/stream.h"
#include "device/emu/submit.h"
#include "device/error.h"

_Thread_local bool emu_in_host_function;
_Thread_local bool emu_uncharged;
const struct emu_clock *emu_clock = &emu_clock_real;

/* Contexts are never freed: a stale handle is told apart from a live one. The first of a device is its primary one. */
static CUcontext contexts[EMU_MOST_DEVICES];
static atomic_bool initialised, exiting, forked;

enum { MOST_PUSHED = 64 };
static _Thread_local CUcontext pushed[MOST_PUSHED]; /* the last one is current */
static _Thread_local unsigned pushed_count;

/* ---- start and end ---------------------------------------------------------------------------------------------- */

bool emu_exiting(void) { return atomic_load(&exiting); }

/* The process ends: workers stop before their next operation, entries refuse. Nothing is waited for, since what is
 * queued may wait for the program, and nothing is freed, since workers may be using it. */
__attribute__((destructor)) static void leave(void) {
    if (emu_watch_reports() > 0)
        weir__log(WEIR__LOG_WARN, "watch: %llu reports in all", (unsigned long long)emu_watch_reports());
    atomic_store(&exiting, true);
}

/* A child has none of the parent's workers, and must not touch what they share. */
static void in_child(void) { atomic_store(&forked, atomic_load(&initialised)); }

static bool add_context(CUdevice device, CUcontext *out) {
    CUcontext made = calloc(1, sizeof *made);
    if (made == NULL) return false;
    made->device = device;
    made->next = contexts[device];
    contexts[device] = made;
    *out = made;
    return true;
}

static bool prepare_machine(struct emu_complaint complaint) {
    const struct emu_settings *settings = emu_settings();
    for (CUdevice i = 0; i < settings->devices; i++) {
        CUcontext primary = contexts[i];
        if (primary == NULL && !add_context(i, &primary)) return emu_complain(complaint, "no host memory");
        primary->primary = true;
        if (!emu_memory_others(i, settings->others_bytes))
            return emu_complain(complaint, "others:%zu: the device has %zu bytes", settings->others_bytes,
                                settings->capacity_bytes);
    }
    if (!emu_faults_add(settings->faults, complaint)) return false;
    emu_clock = settings->clock == EMU_CLOCK_VIRTUAL ? &emu_clock_virtual : &emu_clock_real;
    if (!emu_clock->thread_begin("main", 1)) return emu_complain(complaint, "no host memory");
    pthread_atfork(NULL, NULL, in_child);
    return true;
}

CUresult cuInit(unsigned flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (emu_exiting()) return CUDA_ERROR_DEINITIALIZED;
    if (atomic_load(&forked)) return emu_ready();
    char message[300] = "";
    const struct emu_complaint complaint = {message, sizeof message};
    emu_lock();
    const bool usable = atomic_load(&initialised) || (emu_settings_use(complaint) && prepare_machine(complaint));
    const CUresult fault = usable ? emu_faults_count(EMU_AT_cuInit) : CUDA_ERROR_INVALID_VALUE;
    if (fault == CUDA_SUCCESS) atomic_store(&initialised, true);
    emu_unlock();
    if (!usable) weir__log(WEIR__LOG_ERROR, "emulated driver: %s", message);
    return fault;
}

CUresult weirEmuConfigure(const char *settings, char *message, size_t room) {
    if (message == NULL) room = 0;
    if (room > 0) message[0] = '\0';
    const bool good = emu_settings_settle(settings, (struct emu_complaint){message, room});
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void say_forked(void) {
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        weir__log(WEIR__LOG_ERROR, "emulated driver: a child made by fork can't use CUDA; start it by exec, or fork "
                                   "before cuInit");
}

CUresult emu_ready(void) {
    if (emu_exiting()) return CUDA_ERROR_DEINITIALIZED;
    if (atomic_load_explicit(&forked, memory_order_relaxed)) say_forked();
    if (!atomic_load_explicit(&initialised, memory_order_acquire) || atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    return emu_in_host_function ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

bool emu_device_exists(CUdevice device) { return device >= 0 && device < emu_settings()->devices; }

CUcontext emu_contexts(CUdevice device) { return contexts[device]; }

/* ---- current ---------------------------------------------------------------------------------------------------- */

/* Handles come from programs: whether it is one of ours is looked up, not assumed. Needs the lock. */
static bool known(CUcontext context) {
    for (CUdevice i = 0; i < emu_settings()->devices; i++)
        for (CUcontext each = contexts[i]; each != NULL; each = each->next)
            if (each == context) return true;
    return false;
}

bool emu_context_alive(CUcontext context) { return context->alive; }

CUcontext emu_current(void) { return pushed_count > 0 ? pushed[pushed_count - 1] : NULL; }

static bool alive(CUcontext context) { return known(context) && context->alive; }

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    const CUresult code = emu_enter(EMU_AT_cuCtxPushCurrent_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!alive(context)) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (pushed_count == MOST_PUSHED) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    pushed[pushed_count++] = context;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    const CUresult code = emu_enter(EMU_AT_cuCtxPopCurrent_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (pushed_count == 0) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    pushed_count--;
    if (context != NULL) *context = pushed[pushed_count];
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    const CUresult code = emu_enter(EMU_AT_cuCtxGetCurrent, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (context == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *context = emu_current();
    return emu_leave(CUDA_SUCCESS);
}

/* NULL takes the top of the stack away, as documented. */
CUresult cuCtxSetCurrent(CUcontext context) {
    const CUresult code = emu_enter(EMU_AT_cuCtxSetCurrent, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (context != NULL && !alive(context)) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (pushed_count > 0) pushed_count--;
    if (context != NULL) pushed[pushed_count++] = context;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuCtxGetDevice, &context);
    if (code != CUDA_SUCCESS) return code;
    if (device == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *device = context->device;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuCtxSynchronize, &context);
    return code != CUDA_SUCCESS ? code : emu_leave(emu_context_wait_asked(context));
}

/* ---- their lives ------------------------------------------------------------------------------------------------ */

static bool gone; /* atomic */

bool emu_context_is_gone(void) { return __atomic_load_n(&gone, __ATOMIC_RELAXED); }

static CUresult make_usable(CUcontext context) {
    static uint64_t last_id;
    context->id = ++last_id;
    context->cache_config = CU_FUNC_CACHE_PREFER_NONE;
    memset(context->limits, 0, sizeof context->limits);
    if (context->legacy == NULL) context->legacy = emu_queue_take(context, true);
    context->alive = context->legacy != NULL;
    if (context->alive) __atomic_store_n(&gone, false, __ATOMIC_RELAXED);
    return context->alive ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Other contexts may be copying from its memory or to it. True: the lock was let go of meanwhile. */
static bool wait_for_others(CUcontext context) {
    size_t bytes;
    for (uintptr_t at = 0; (at = emu_memory_next_plain(context, at, &bytes)) != 0; at += bytes)
        if (emu_running_wait(at, bytes)) return true;
    return false;
}

/* Ends what the context owns, after its work. Physical pages and reservations are the device's and the process's, and
 * stay. Where the wait fails the work may still come: the context stays as it is. Work that met an error does nothing
 * more, and the error goes with the context. */
static CUresult take_down(CUcontext context) {
    do {
        const CUresult code = emu_context_drain(context);
        if (code != CUDA_SUCCESS) return code;
    } while (wait_for_others(context));
    emu_streams_forget(context);
    emu_events_forget(context);
    emu_memory_forget(context);
    emu_images_forget(context);
    context->alive = false;
    context->broken = CUDA_SUCCESS;
    context->peers = 0;
    __atomic_store_n(&gone, true, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static CUcontext primary_of(CUdevice device) {
    CUcontext context = contexts[device];
    while (!context->primary) context = context->next;
    return context;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CUresult code = emu_enter(EMU_AT_cuDevicePrimaryCtxRetain, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (context == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    CUcontext primary = primary_of(device);
    if (!primary->alive) code = make_usable(primary);
    primary->retained += code == CUDA_SUCCESS;
    *context = code == CUDA_SUCCESS ? primary : NULL;
    return emu_leave(code);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    const CUresult code = emu_enter(EMU_AT_cuDevicePrimaryCtxRelease_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    CUcontext context = primary_of(device);
    if (context->retained == 0) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    CUresult taken_down = CUDA_SUCCESS;
    if (--context->retained == 0 && context->alive) taken_down = take_down(context);
    context->retained += taken_down != CUDA_SUCCESS;
    return emu_leave(taken_down);
}

/* Holders keep their handle and owe their release, as documented; the next retain makes it usable again. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    CUresult code = emu_enter(EMU_AT_cuDevicePrimaryCtxReset_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    CUcontext context = primary_of(device);
    if (context->alive) code = take_down(context);
    return emu_leave(code);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    const CUresult code = emu_enter(EMU_AT_cuDevicePrimaryCtxGetState, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (flags == NULL || active == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = primary_of(device)->flags;
    *active = primary_of(device)->alive;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    const CUresult code = emu_enter(EMU_AT_cuDevicePrimaryCtxSetFlags_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!emu_device_exists(device)) return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!emu_context_flags_valid(flags)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    primary_of(device)->flags = flags;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- contexts of the program's own ------------------------------------------------------------------------------ */

bool emu_context_flags_valid(unsigned flags) {
    enum { SCHEDULE = 0x07, MAP_HOST = 0x08, LOCAL_MEMORY = 0x10, COREDUMP = 0x60, SYNC_MEMORY = 0x80 };
    const unsigned schedule = flags & SCHEDULE;
    return (flags & ~(unsigned)(SCHEDULE | MAP_HOST | LOCAL_MEMORY | COREDUMP | SYNC_MEMORY)) == 0 &&
           (schedule & (schedule - 1)) == 0;
}

/* A dead one is used again: handles are recycled, as a driver does. */
CUresult emu_context_create(CUcontext *context, unsigned flags, CUdevice device) {
    if (context == NULL || !emu_context_flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
    if (!emu_device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (pushed_count == MOST_PUSHED) return CUDA_ERROR_INVALID_VALUE;
    CUcontext made = contexts[device];
    while (made != NULL && (made->primary || made->alive)) made = made->next;
    if (made == NULL && !add_context(device, &made)) return CUDA_ERROR_OUT_OF_MEMORY;
    made->flags = flags;
    const CUresult code = make_usable(made);
    *context = code == CUDA_SUCCESS ? made : NULL;
    if (code == CUDA_SUCCESS) pushed[pushed_count++] = made;
    return code;
}

/* Popped where it is current in this thread; elsewhere it stays current and answers CUDA_ERROR_CONTEXT_IS_DESTROYED. */
CUresult cuCtxDestroy_v2(CUcontext context) {
    CUresult code = emu_enter(EMU_AT_cuCtxDestroy_v2, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (!alive(context) || context->primary) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    code = take_down(context);
    if (code == CUDA_SUCCESS && emu_current() == context) pushed_count--;
    return emu_leave(code);
}
