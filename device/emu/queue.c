/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/clock.h"
#include "device/emu/event.h"

/* ---- queues ----------------------------------------------------------------------------------------------------- */

static bool drained(struct emu_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    const bool empty = queue->completed == queue->pushed && queue->promised == 0;
    pthread_mutex_unlock(&queue->lock);
    return empty;
}

static struct emu_queue *new_queue(CUcontext context) {
    struct emu_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) return NULL;
    queue->context = context;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->pushed_more, NULL);
    pthread_cond_init(&queue->completed_more, NULL);
    queue->next = context->queues;
    context->queues = queue;
    return queue;
}

struct emu_queue *emu_queue_take(CUcontext context, bool blocking) {
    pthread_mutex_lock(&context->order);
    struct emu_queue *queue = context->queues;
    while (queue != NULL && (queue->taken || !drained(queue))) queue = queue->next;
    if (queue == NULL) queue = new_queue(context);
    if (queue != NULL) {
        queue->taken = true;
        queue->blocking = blocking;
    }
    pthread_mutex_unlock(&context->order);
    return queue;
}

void emu_queue_give(struct emu_queue *queue) {
    pthread_mutex_lock(&queue->context->order);
    assert(queue->taken);
    queue->taken = false;
    pthread_mutex_unlock(&queue->context->order);
}

/* ---- points ----------------------------------------------------------------------------------------------------- */

bool emu_point_passed(struct emu_point point) {
    if (point.position == 0) return true;
    pthread_mutex_lock(&point.queue->lock);
    const bool passed = point.queue->completed >= point.position;
    pthread_mutex_unlock(&point.queue->lock);
    return passed;
}

struct emu_point emu_queue_end(struct emu_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    const struct emu_point end = {queue, queue->pushed};
    pthread_mutex_unlock(&queue->lock);
    return end;
}

/* The ends of the context's queues that have something left; of the blocking ones other than legacy's, or of all.
 * Needs context.order. Gives an array that the caller frees, NULL when *count is 0. False: no host memory. */
static bool collect_ends(CUcontext context, bool blocking_only, struct emu_point **ends, size_t *count) {
    size_t queues = 0;
    for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next) queues++;
    *count = 0;
    *ends = calloc(queues + 1, sizeof **ends);
    if (*ends == NULL) return false;
    for (struct emu_queue *queue = context->queues; queue != NULL; queue = queue->next) {
        if (blocking_only && (!queue->blocking || queue == context->legacy)) continue;
        const struct emu_point end = emu_queue_end(queue);
        if (!emu_point_passed(end)) (*ends)[(*count)++] = end;
    }
    if (*count == 0) {
        free(*ends);
        *ends = NULL;
    }
    return true;
}

CUresult emu_context_wait(CUcontext context) {
    struct emu_point *ends;
    size_t count;
    pthread_mutex_lock(&context->order);
    const bool collected = collect_ends(context, false, &ends, &count);
    pthread_mutex_unlock(&context->order);
    if (!collected) return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) emu_clock_wait(ends[i]);
    free(ends);
    return CUDA_SUCCESS;
}

/* ---- pushing ---------------------------------------------------------------------------------------------------- */

static bool promise_room(struct emu_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->pushed - queue->completed + queue->promised >= EMU_QUEUE_ROOM) emu_clock_wait_room(queue);
    const bool ready = emu_clock_prepare(queue);
    queue->promised += ready;
    pthread_mutex_unlock(&queue->lock);
    return ready;
}

static struct emu_point push_promised(struct emu_queue *queue, const struct emu_operation *operation) {
    pthread_mutex_lock(&queue->lock);
    assert(queue->promised > 0);
    queue->promised--;
    queue->pushed++;
    assert(queue->pushed - queue->completed + queue->promised <= EMU_QUEUE_ROOM);
    queue->operations[queue->pushed % EMU_QUEUE_ROOM] = *operation;
    const struct emu_point point = {queue, queue->pushed};
    emu_clock_pushed(queue);
    pthread_mutex_unlock(&queue->lock);
    return point;
}

static void break_promise(struct emu_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->promised--;
    pthread_cond_broadcast(&queue->completed_more);
    pthread_mutex_unlock(&queue->lock);
}

/* What the legacy stream does waits for all blocking streams, and what they do later waits for it. Reading the ends and
 * pushing are one step, else two threads could each miss the other. The wait for room comes before: one full stream
 * must not stop the others. */
CUresult emu_queue_push(struct emu_queue *queue, const struct emu_operation *operation, struct emu_point *point) {
    if (!promise_room(queue)) return CUDA_ERROR_OUT_OF_MEMORY;
    struct emu_operation ordered = *operation;
    CUcontext context = queue->context;
    if (!queue->blocking) {
        *point = push_promised(queue, &ordered);
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&context->order);
    bool known = true;
    if (queue == context->legacy)
        known = collect_ends(context, true, &ordered.after_many, &ordered.after_many_count);
    else if (context->legacy != NULL)
        ordered.after[1] = emu_queue_end(context->legacy);
    if (known) *point = push_promised(queue, &ordered);
    pthread_mutex_unlock(&context->order);
    if (!known) break_promise(queue);
    return known ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- what operations do ----------------------------------------------------------------------------------------- */

static void run_function(CUhostFn function, void *argument) {
    if (function == NULL) return;
    emu_in_host_function = true;
    function(argument);
    emu_in_host_function = false;
}

void emu_operation_run(const struct emu_operation *operation) {
    switch (operation->kind) {
    case EMU_COPY:
        memmove(operation->copy.to, operation->copy.from, operation->copy.bytes);
        break;
    case EMU_SET:
        memset(operation->set.at, operation->set.value, operation->set.bytes);
        break;
    case EMU_FUNCTION:
        run_function(operation->function.run, operation->function.argument);
        break;
    case EMU_RECORD:
        emu_event_passed(operation->record.event, operation->record.sequence);
        break;
    case EMU_WAIT:
        break; /* its points are all there is to it */
    }
}
