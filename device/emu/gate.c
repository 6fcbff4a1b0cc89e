/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/gate.h"

#include <stdlib.h>

#include "device/emu/clock.h"
#include "device/emu/machine.h"
#include "device/emu/stream.h"

static struct weir_emu_gate *gates;

static bool known(const struct weir_emu_gate *gate) {
    const struct weir_emu_gate *each = gates;
    while (each != NULL && each != gate) each = each->next;
    return each != NULL && !each->destroyed;
}

static void free_gate(struct weir_emu_gate *gate) {
    struct weir_emu_gate **link = &gates;
    while (*link != gate) link = &(*link)->next;
    *link = gate->next;
    pthread_cond_destroy(&gate->opened);
    free(gate);
}

void emu_gate_use(struct weir_emu_gate *gate) { gate->users++; }

void emu_gate_leave(struct weir_emu_gate *gate) {
    gate->users--;
    if (gate->users == 0 && gate->destroyed) free_gate(gate);
}

void emu_gate_opened(struct weir_emu_gate *gate) {
    gate->open = true;
    pthread_cond_broadcast(&gate->opened);
    emu_clock->gate_opened(gate);
    emu_gate_leave(gate);
}

/* The opening itself is a user, until it has happened. */
static void open_gate(struct weir_emu_gate *gate, uint64_t delay_ns) {
    if (gate->opening) return;
    gate->opening = true;
    emu_gate_use(gate);
    emu_clock->open_gate(gate, delay_ns);
}

void emu_gates_host_waits(void) {
    for (struct weir_emu_gate *gate = gates, *next; gate != NULL; gate = next) {
        next = gate->next;
        if (gate->opens_when_host_waits && gate->users > 0) open_gate(gate, 0);
    }
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

CUresult weirEmuGateCreate(struct weir_emu_gate **gate, unsigned flags) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (gate == NULL || flags > WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS) return CUDA_ERROR_INVALID_VALUE;
    struct weir_emu_gate *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    made->opens_when_host_waits = flags == WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS;
    pthread_cond_init(&made->opened, NULL);
    emu_lock();
    made->next = gates;
    gates = made;
    emu_unlock();
    *gate = made;
    return CUDA_SUCCESS;
}

static CUresult hold(struct weir_emu_gate *gate, CUstream stream) {
    CUcontext context = emu_current();
    struct emu_queue *queue;
    if (!known(gate)) return CUDA_ERROR_INVALID_HANDLE;
    if (context == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    CUresult code = emu_stream_queue(context, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_operation held = {.kind = EMU_GATE, .described = true, .gate = gate};
    struct emu_point point;
    emu_gate_use(gate);
    code = emu_queue_push(queue, &held, &point);
    if (code != CUDA_SUCCESS) emu_gate_leave(gate);
    return code;
}

CUresult weirEmuGateHold(struct weir_emu_gate *gate, CUstream stream) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    const CUresult code = emu_clock->admits() ? hold(gate, stream) : CUDA_ERROR_NOT_PERMITTED;
    emu_unlock();
    return code;
}

CUresult weirEmuGateWait(struct weir_emu_gate *gate) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    CUresult code = !known(gate) ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
    if (code == CUDA_SUCCESS && !emu_clock->admits()) code = CUDA_ERROR_NOT_PERMITTED;
    if (code == CUDA_SUCCESS) {
        emu_gate_use(gate);
        code = emu_clock->wait_gate(gate);
        emu_gate_leave(gate);
    }
    emu_unlock();
    return code;
}

/* Allowed in host functions: that is how a stream's work lets another stream go on. */
CUresult weirEmuGateOpen(struct weir_emu_gate *gate, uint64_t delay_ns) {
    const CUresult ready = emu_in_host_function ? CUDA_SUCCESS : emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    CUresult code = known(gate) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (code == CUDA_SUCCESS && !emu_clock->admits()) code = CUDA_ERROR_NOT_PERMITTED;
    if (code == CUDA_SUCCESS) open_gate(gate, delay_ns);
    emu_unlock();
    return code;
}

CUresult weirEmuGateDestroy(struct weir_emu_gate *gate) {
    const CUresult ready = emu_in_host_function ? CUDA_SUCCESS : emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    CUresult code = known(gate) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (code == CUDA_SUCCESS && gate->users > 0 && !gate->opening) code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS) {
        gate->destroyed = true;
        emu_gate_use(gate);
        emu_gate_leave(gate);
    }
    emu_unlock();
    return code;
}
