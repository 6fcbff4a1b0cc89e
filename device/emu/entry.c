/* SPDX-License-Identifier: Apache-2.0 */
/* What every call of the driver begins with. */
#include <stdlib.h>

#include "device/emu/clock.h"
#include "device/emu/emu.h"
#include "device/emu/faults.h"
#include "device/emu/machine.h"
#include "device/emu/settings.h"
#include "device/error.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t calls, calls_of[EMU_CLASSES];

void emu_lock(void) { pthread_mutex_lock(&lock); }
void emu_unlock(void) { pthread_mutex_unlock(&lock); }
pthread_mutex_t *emu_the_lock(void) { return &lock; }
uint64_t emu_calls(void) { return calls; }
uint64_t emu_calls_of(enum emu_class class) { return calls_of[class]; }

/* ---- switch points ---------------------------------------------------------------------------------------------- */

/* Under the virtual clock another thread may go on where a call begins: at calls that programs make with no lock of their
 * own held, since the thread that goes on might want it. Calls that only look may be made under a lock. */
static bool may_switch(enum emu_entry entry) {
    switch (entry) {
    case EMU_AT_cuStreamSynchronize:
    case EMU_AT_cuEventSynchronize:
    case EMU_AT_cuCtxSynchronize:
    case EMU_AT_cuMemCreate:
    case EMU_AT_cuMemRelease:
    case EMU_AT_cuMemMap:
    case EMU_AT_cuMemUnmap:
    case EMU_AT_cuMemSetAccess:
    case EMU_AT_cuMemAlloc_v2:
    case EMU_AT_cuMemFree_v2:
    case EMU_AT_cuMemcpyAsync:
    case EMU_AT_cuMemsetD8Async:
    case EMU_AT_cuLaunchHostFunc:
    case EMU_AT_cuEventRecord:
    case EMU_AT_cuCtxRecordEvent:
    case EMU_AT_cuStreamWaitEvent:
    case EMU_AT_cuLaunchKernel:
    case EMU_AT_cuLaunchKernelEx:
    case EMU_AT_cuGraphLaunch:
    case EMU_AT_cuMemAllocAsync:
    case EMU_AT_cuMemFreeAsync:
    case EMU_AT_cuMemcpyHtoDAsync_v2:
    case EMU_AT_cuMemcpyDtoHAsync_v2:
    case EMU_AT_cuMemcpyDtoDAsync_v2:
        return true;
    default:
        return false;
    }
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static enum emu_class class_of(enum emu_entry entry) {
    switch (entry) {
    case EMU_AT_cuMemCreate:
    case EMU_AT_cuMemRelease:
    case EMU_AT_cuMemAddressReserve:
    case EMU_AT_cuMemAddressFree:
    case EMU_AT_cuMemMap:
    case EMU_AT_cuMemUnmap:
    case EMU_AT_cuMemSetAccess:
    case EMU_AT_cuMemAlloc_v2:
    case EMU_AT_cuMemAllocPitch_v2:
    case EMU_AT_cuMemAllocManaged:
    case EMU_AT_cuMemFree_v2:
    case EMU_AT_cuMemAllocAsync:
    case EMU_AT_cuMemAllocFromPoolAsync:
    case EMU_AT_cuMemFreeAsync:
    case EMU_AT_cuMemPoolTrimTo:
        return EMU_CLASS_MEMORY;
    case EMU_AT_cuEventRecord:
    case EMU_AT_cuEventRecordWithFlags:
    case EMU_AT_cuCtxRecordEvent:
    case EMU_AT_cuStreamWaitEvent:
        return EMU_CLASS_ORDER;
    case EMU_AT_cuStreamSynchronize:
    case EMU_AT_cuEventSynchronize:
    case EMU_AT_cuCtxSynchronize:
    case EMU_AT_cuCtxSynchronize_v2:
        return EMU_CLASS_WAIT;
    default:
        return EMU_CLASS_ANY;
    }
}

/* ---- entering --------------------------------------------------------------------------------------------------- */

static CUresult check(enum emu_entry entry, CUcontext *context) {
    if (!emu_clock->admits()) return CUDA_ERROR_NOT_PERMITTED;
    const CUresult fault = emu_faults_count(entry);
    if (fault != CUDA_SUCCESS) return fault;
    CUcontext current = emu_current();
    if (context == NULL) return current != NULL && class_of(entry) != EMU_CLASS_ANY ? current->broken : CUDA_SUCCESS;
    *context = current;
    if (current == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    return emu_context_alive(current) ? current->broken : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult emu_enter(enum emu_entry entry, CUcontext *context) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    calls++;
    calls_of[class_of(entry)]++;
    const CUresult code = check(entry, context);
    if (code != CUDA_SUCCESS) return emu_leave(code);
    emu_clock->charge(emu_settings()->calls[entry].fixed_ns, may_switch(entry));
    return CUDA_SUCCESS;
}

bool emu_may_answer_at_once(void) {
    return emu_ready() == CUDA_SUCCESS && emu_clock == &emu_clock_real && !emu_faults_any();
}

CUresult emu_leave(CUresult code) {
    emu_unlock();
    return code;
}

void emu_charge(enum emu_entry entry, size_t handles, size_t bytes) {
    const struct emu_cost *cost = &emu_settings()->calls[entry];
    const double ns = cost->handle_ns * (double)handles + cost->byte_ns * (double)bytes;
    if (ns > 0) emu_clock->charge(ns, false);
}

void emu_charge_call(enum emu_entry entry, size_t bytes) {
    emu_clock->charge(emu_settings()->calls[entry].fixed_ns, false);
    emu_charge(entry, 1, bytes);
}
