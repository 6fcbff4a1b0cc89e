/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/queue.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/capture.h"
#include "device/emu/clock.h"
#include "device/emu/event.h"
#include "device/emu/machine.h"
#include "device/emu/memory.h"
#include "device/emu/settings.h"
#include "device/error.h"

static unsigned queue_count;
static uint64_t operations;

uint64_t emu_operations(void) { return operations; }

/* ---- queues ----------------------------------------------------------------------------------------------------- */

/* Under the watch a queue serves a later stream only when the host knows that it has drained, so that the later
 * stream's work is really ordered after it. */
static bool reusable(struct emu_queue *queue) {
    if (queue->taken || queue->capture != NULL || queue->completed != queue->pushed) return false;
    return emu_watch_host_knows(queue);
}

static struct emu_queue *new_queue(CUcontext context) {
    struct emu_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) return NULL;
    queue->context = context;
    queue->index = queue_count;
    if (!emu_watch_queue_made(queue)) {
        free(queue);
        return NULL;
    }
    queue_count++;
    pthread_cond_init(&queue->pushed_more, NULL);
    pthread_cond_init(&queue->completed_more, NULL);
    queue->next = context->queues;
    context->queues = queue;
    return queue;
}

struct emu_queue *emu_queue_take(CUcontext context, bool blocking) {
    struct emu_queue *queue = context->queues;
    while (queue != NULL && !reusable(queue)) queue = queue->next;
    if (queue == NULL) queue = new_queue(context);
    if (queue == NULL) return NULL;
    queue->taken = true;
    queue->blocking = blocking;
    queue->delay_ns = emu_settings()->delay_ns;
    return queue;
}

void emu_queue_give(struct emu_queue *queue) {
    assert(queue->taken);
    queue->taken = false;
}

struct emu_operation *emu_queue_head(struct emu_queue *queue) {
    return &queue->operations[(queue->completed + 1) % EMU_QUEUE_ROOM];
}

/* ---- points ----------------------------------------------------------------------------------------------------- */

bool emu_point_passed(struct emu_point point) {
    return point.position == 0 || point.queue->completed >= point.position;
}

struct emu_point emu_queue_end(struct emu_queue *queue) {
    return (struct emu_point){queue, queue->pushed};
}

/* ---- the host waits --------------------------------------------------------------------------------------------- */

/* Whatever the work met. */
static CUresult wait_passed(struct emu_point point, struct emu_moment moment) {
    const CUresult code = emu_clock->wait(point);
    if (code == CUDA_SUCCESS) emu_watch_host_saw(moment);
    emu_watch_drop(&moment);
    return code;
}

CUresult emu_point_wait(struct emu_point point, struct emu_moment moment) {
    const CUresult code = wait_passed(point, moment);
    return code == CUDA_SUCCESS && point.position > 0 ? point.queue->context->broken : code;
}

CUresult emu_queue_wait(struct emu_queue *queue) { return emu_point_wait(emu_queue_end(queue), emu_watch_now(queue)); }

struct end {
    struct emu_point point;
    struct emu_moment moment;
};

/* The ends are all read first: what is queued while this waits for one of them is not waited for. */
CUresult emu_context_drain(CUcontext context) {
    size_t queues = 0, count = 0;
    for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next) queues++;
    struct end *ends = calloc(queues + 1, sizeof *ends);
    if (ends == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next)
        ends[count++] = (struct end){emu_queue_end(queue), emu_watch_now(queue)};
    CUresult code = CUDA_SUCCESS;
    for (size_t i = 0; i < count; i++) {
        const CUresult each = wait_passed(ends[i].point, ends[i].moment);
        if (each != CUDA_SUCCESS) code = each;
    }
    free(ends);
    return code;
}

CUresult emu_context_wait(CUcontext context) {
    const CUresult code = emu_context_drain(context);
    return code == CUDA_SUCCESS ? context->broken : code;
}

/* An error of one context's work is not another's. */
CUresult emu_device_wait(CUdevice device) {
    CUresult code = CUDA_SUCCESS;
    for (CUcontext context = emu_contexts(device); context != NULL && code == CUDA_SUCCESS; context = context->next)
        if (context->alive) code = emu_context_drain(context);
    return code;
}

/* The bytes from the first row to the end of the last. */
static bool span_meets(const void *at, size_t bytes, size_t rows, size_t pitch, uintptr_t start, size_t length) {
    const uintptr_t from = (uintptr_t)at;
    return from < start + length && start < from + (rows - 1) * pitch + bytes;
}

static bool touches(const struct emu_operation *operation, uintptr_t start, size_t bytes) {
    if (operation->kind == EMU_SET)
        return span_meets(operation->set.at, operation->set.count * operation->set.unit, operation->set.rows,
                          operation->set.pitch, start, bytes);
    return operation->kind == EMU_COPY && (span_meets(operation->copy.to, operation->copy.bytes, operation->copy.rows,
                                                      operation->copy.to_pitch, start, bytes) ||
                                           span_meets(operation->copy.from, operation->copy.bytes, operation->copy.rows,
                                                      operation->copy.from_pitch, start, bytes));
}

static struct emu_queue *running_there(uintptr_t start, size_t bytes) {
    for (CUdevice device = 0; device < emu_settings()->devices; device++)
        for (CUcontext context = emu_contexts(device); context != NULL; context = context->next)
            for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next)
                if (queue->running && touches(emu_queue_head(queue), start, bytes)) return queue;
    return NULL;
}

static unsigned takers; /* who waits there, and goes before what has not begun: a busy stream would never let it */
static pthread_cond_t took = PTHREAD_COND_INITIALIZER;

bool emu_running_wait(uintptr_t start, size_t bytes) {
    struct emu_queue *queue = running_there(start, bytes);
    if (queue == NULL) return false;
    takers++;
    for (; queue != NULL; queue = running_there(start, bytes))
        pthread_cond_wait(&queue->completed_more, emu_the_lock());
    if (--takers == 0) pthread_cond_broadcast(&took);
    return true;
}

void emu_takers_wait(const struct emu_operation *operation) {
    if (operation->kind != EMU_COPY && operation->kind != EMU_SET) return;
    while (takers > 0) pthread_cond_wait(&took, emu_the_lock());
}

/* ---- pushing ---------------------------------------------------------------------------------------------------- */

/* The ends of the context's blocking queues that have something left. Gives an array that is owned, NULL when *count
 * is 0. False: no host memory. */
static bool collect_ends(CUcontext context, struct emu_point **ends, size_t *count) {
    size_t left = 0;
    *count = 0;
    *ends = NULL;
    for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next)
        left += queue->blocking && queue != context->legacy && queue->completed != queue->pushed;
    if (left == 0) return true;
    *ends = calloc(left, sizeof **ends);
    if (*ends == NULL) return false;
    for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next)
        if (queue->blocking && queue != context->legacy && queue->completed != queue->pushed)
            (*ends)[(*count)++] = emu_queue_end(queue);
    return true;
}

/* What the legacy stream does waits for all blocking streams, and what they do later waits for it. */
static bool order_with_legacy(struct emu_queue *queue, struct emu_operation *operation) {
    CUcontext context = queue->context;
    if (!queue->blocking || context->legacy == NULL) return true;
    if (queue != context->legacy) {
        operation->after[1] = emu_queue_end(context->legacy);
        emu_watch_join_queue(queue, context->legacy);
        return true;
    }
    if (!collect_ends(context, &operation->after_many, &operation->after_many_count)) return false;
    for (struct emu_queue *each = context->queues; each != NULL; each = each->next)
        if (each->blocking && each != queue) emu_watch_join_queue(queue, each);
    return true;
}

static CUresult make_room(struct emu_queue *queue) {
    while (queue->pushed - queue->completed >= EMU_QUEUE_ROOM) {
        const CUresult code = emu_clock->wait_room(queue);
        if (code != CUDA_SUCCESS) return code;
    }
    return emu_clock->prepare(queue) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult emu_queue_push(struct emu_queue *queue, const struct emu_operation *operation, struct emu_point *point) {
    *point = (struct emu_point){0};
    CUresult code = queue->context->broken;
    if (code != CUDA_SUCCESS) return code;
    if (queue->capture != NULL) return emu_capture_add(queue, operation);
    if (queue == queue->context->legacy) code = emu_capture_check_legacy(queue->context);
    if (code == CUDA_SUCCESS) code = make_room(queue);
    if (code != CUDA_SUCCESS) return code;
    struct emu_operation *pushed = &queue->operations[(queue->pushed + 1) % EMU_QUEUE_ROOM];
    *pushed = *operation;
    if (!order_with_legacy(queue, pushed)) return CUDA_ERROR_OUT_OF_MEMORY;
    *point = (struct emu_point){queue, ++queue->pushed};
    operations++;
    emu_watch_pushed(queue, point->position, pushed);
    pushed->accesses = NULL; /* they were the caller's */
    pushed->moment = NULL;
    emu_clock->pushed(queue);
    return CUDA_SUCCESS;
}

/* ---- what operations do ----------------------------------------------------------------------------------------- */

static void run_function(CUhostFn function, void *argument) {
    emu_in_host_function = true;
    function(argument);
    emu_in_host_function = false;
}

static void copy_rows(const struct emu_operation *operation) {
    char *to = operation->copy.to;
    const char *from = operation->copy.from;
    for (size_t row = 0; row < operation->copy.rows; row++)
        memmove(to + row * operation->copy.to_pitch, from + row * operation->copy.from_pitch, operation->copy.bytes);
}

static void set_row(char *at, const struct emu_operation *operation) {
    const uint32_t value = operation->set.value;
    if (operation->set.unit == 1)
        memset(at, (int)(value & 0xff), operation->set.count);
    else
        for (size_t i = 0; i < operation->set.count; i++)
            memcpy(at + i * operation->set.unit, &value, operation->set.unit);
}

static void set_rows(const struct emu_operation *operation) {
    for (size_t row = 0; row < operation->set.rows; row++)
        set_row((char *)operation->set.at + row * operation->set.pitch, operation);
}

/* Addresses that were given back may be the host's by now. */
static bool still_there(const void *at, size_t bytes, size_t rows, size_t pitch, bool write, bool on_device) {
    const enum emu_place place = emu_memory_place_rows((uintptr_t)at, bytes, rows, pitch, write);
    return on_device ? place == EMU_PLACE_DEVICE : place != EMU_PLACE_INVALID;
}

bool emu_operation_valid(const struct emu_operation *operation) {
    if (operation->kind == EMU_COPY) {
        const size_t bytes = operation->copy.bytes, rows = operation->copy.rows;
        return still_there(operation->copy.to, bytes, rows, operation->copy.to_pitch, true,
                           operation->copy.to_device) &&
               still_there(operation->copy.from, bytes, rows, operation->copy.from_pitch, false,
                           operation->copy.from_device);
    }
    if (operation->kind != EMU_SET) return true;
    const enum emu_place place =
        emu_memory_place_rows((uintptr_t)operation->set.at, operation->set.count * operation->set.unit,
                              operation->set.rows, operation->set.pitch, true);
    return place == EMU_PLACE_DEVICE || place == EMU_PLACE_PINNED;
}

/* A GPU meets the hole while it works, and so tells it later, and for good. */
static void break_context(const struct emu_queue *queue, const struct emu_operation *operation) {
    const bool copies = operation->kind == EMU_COPY;
    char from[32] = "";
    if (copies) snprintf(from, sizeof from, " from %p", operation->copy.from);
    queue->context->broken = CUDA_ERROR_ILLEGAL_ADDRESS;
    weir__log(WEIR__LOG_ERROR,
              "emulated driver: stream %u came to a %s at %p%s whose memory is gone since it was queued: every call "
              "of the context fails from here on (CUDA_ERROR_ILLEGAL_ADDRESS)",
              queue->index, operation->name, copies ? operation->copy.to : operation->set.at, from);
}

/* Memory without anything behind it has no bytes to copy or set. */
bool emu_operation_runs(struct emu_queue *queue, const struct emu_operation *operation) {
    if (operation->kind == EMU_FUNCTION && operation->function.told != NULL) {
        *operation->function.told = queue->context->broken;
        return true;
    }
    if (queue->context->broken) return false;
    switch (operation->kind) {
    case EMU_COPY:
    case EMU_SET:
        if (!emu_settings()->backed) return false;
        if (!emu_operation_valid(operation)) break_context(queue, operation);
        return !queue->context->broken;
    case EMU_KERNEL:
    case EMU_FUNCTION:
        return operation->function.run != NULL;
    default:
        return false;
    }
}

void emu_operation_run(const struct emu_operation *operation) {
    if (operation->kind == EMU_COPY) copy_rows(operation);
    if (operation->kind == EMU_SET) set_rows(operation);
    if (operation->kind == EMU_KERNEL || operation->kind == EMU_FUNCTION)
        run_function(operation->function.run, operation->function.argument);
}

void emu_operation_settle(struct emu_queue *queue, struct emu_operation *operation) {
    if (operation->kind == EMU_RECORD) emu_event_passed(operation->record.event, operation->record.sequence);
    if (operation->kind == EMU_FREE) {
        emu_running_wait(operation->free, emu_memory_plain_bytes(operation->free));
        emu_memory_finish_free(operation->free, NULL);
    }
    if (operation->kind == EMU_GATE) emu_gate_leave(operation->gate);
    free(operation->after_many);
    operation->after_many = NULL;
    queue->completed++;
}
