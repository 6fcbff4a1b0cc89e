/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/capture.h"

#include <stdlib.h>

#include "device/emu/event.h"
#include "device/emu/graph_memory.h"

struct member {
    struct emu_queue *queue; /* NULL: its stream is gone */
    unsigned lane;
    struct emu_nodes front;
};

struct emu_capture {
    struct emu_capture *next; /* of all captures */
    uint64_t id;
    CUgraph graph;
    CUstreamCaptureMode mode;
    uint64_t thread; /* that began it */
    bool invalid;
    struct member *members; /* the first is the origin */
    size_t member_count;
    struct emu_nodes *marks; /* an event knows the number of its mark */
    size_t mark_count, mark_room;
};

static struct emu_capture *captures; /* atomic, for who looks without the lock whether there is any */
static uint64_t last_id, last_thread;
static _Thread_local uint64_t this_thread;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static uint64_t thread_number(void) {
    if (this_thread == 0) this_thread = ++last_thread;
    return this_thread;
}

static void set_captures(struct emu_capture *first) { __atomic_store_n(&captures, first, __ATOMIC_RELEASE); }

bool emu_capture_any(void) { return __atomic_load_n(&captures, __ATOMIC_ACQUIRE) != NULL; }

void emu_capture_exchange_mode(CUstreamCaptureMode *mode) {
    const CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
}

/* ---- members ---------------------------------------------------------------------------------------------------- */

static struct emu_queue *origin_of(const struct emu_capture *capture) { return capture->members[0].queue; }

/* Needs: the queue is a member. */
static struct member *member_of(const struct emu_queue *queue) {
    struct member *member = queue->capture->members;
    while (member->queue != queue) member++;
    return member;
}

static bool add_member(struct emu_capture *capture, struct emu_queue *queue, const struct emu_nodes *front) {
    struct member made = {.queue = queue};
    struct member *grown = realloc(capture->members, (capture->member_count + 1) * sizeof *grown);
    if (grown == NULL) return false;
    capture->members = grown;
    if (!emu_graph_add_lane(capture->graph, queue->context, &made.lane)) return false;
    if (front != NULL && front->count > 0 && !emu_nodes_set(&made.front, front->nodes, front->count)) return false;
    capture->members[capture->member_count++] = made;
    queue->capture = capture;
    return true;
}

/* All streams go on as before the capture, the next operation of each after the last one that was not captured. */
static void close_capture(struct emu_capture *capture) {
    struct emu_capture **at = &captures;
    while (*at != capture) at = &(*at)->next;
    if (at == &captures)
        set_captures(capture->next);
    else
        *at = capture->next;
    emu_events_leave_capture(capture);
    for (size_t i = 0; i < capture->member_count; i++) {
        if (capture->members[i].queue != NULL) capture->members[i].queue->capture = NULL;
        free(capture->members[i].front.nodes);
    }
    for (size_t i = 0; i < capture->mark_count; i++) free(capture->marks[i].nodes);
    free(capture->members);
    free(capture->marks);
    free(capture);
}

static CUresult invalidate(struct emu_capture *capture, CUresult why) {
    capture->invalid = true;
    return why;
}

/* ---- begin and end ---------------------------------------------------------------------------------------------- */

CUresult emu_capture_begin(struct emu_queue *queue, CUstreamCaptureMode mode) {
    if (queue == queue->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (queue->capture != NULL) return CUDA_ERROR_ILLEGAL_STATE;
    struct emu_capture *capture = calloc(1, sizeof *capture);
    CUgraph graph = capture != NULL ? emu_graph_create() : NULL;
    if (graph != NULL) {
        *capture = (struct emu_capture){.graph = graph, .mode = mode, .thread = thread_number()};
        if (add_member(capture, queue, NULL)) {
            capture->id = ++last_id;
            capture->next = captures;
            set_captures(capture);
            graph->capture = capture;
            return CUDA_SUCCESS;
        }
        free(capture->members);
        emu_graph_destroy(graph);
    }
    free(capture);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Nodes come after earlier ones only: one pass from the last to the first reaches all that comes before the origin's
 * front. What another member's front holds must be among it. */
static CUresult check_joined(const struct emu_capture *capture) {
    const CUgraph graph = capture->graph;
    bool *reached = calloc(graph->count + 1, sizeof *reached);
    if (reached == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    const struct emu_nodes *front = &capture->members[0].front;
    for (size_t i = 0; i < front->count; i++) reached[front->nodes[i]->index] = true;
    for (size_t i = graph->count; i-- > 0;)
        for (size_t j = 0; reached[i] && j < graph->nodes[i]->after_count; j++)
            reached[graph->nodes[i]->after[j]->index] = true;
    CUresult code = CUDA_SUCCESS;
    for (size_t i = 1; i < capture->member_count; i++)
        for (size_t j = 0; j < capture->members[i].front.count; j++)
            if (!reached[capture->members[i].front.nodes[j]->index]) code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    free(reached);
    return code;
}

CUresult emu_capture_end(struct emu_queue *queue, CUgraph *graph) {
    struct emu_capture *capture = queue->capture;
    *graph = NULL;
    if (capture == NULL) return CUDA_ERROR_ILLEGAL_STATE;
    if (queue != origin_of(capture)) return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_number())
        return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const CUresult code = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : check_joined(capture);
    capture->graph->capture = NULL;
    if (code == CUDA_SUCCESS)
        *graph = capture->graph;
    else
        emu_graph_destroy(capture->graph);
    close_capture(capture);
    return code;
}

void emu_capture_forget(struct emu_queue *queue) {
    struct emu_capture *capture = queue->capture;
    if (capture == NULL) return;
    if (queue != origin_of(capture)) {
        member_of(queue)->queue = NULL;
        queue->capture = NULL;
        return;
    }
    emu_graph_destroy(capture->graph);
    close_capture(capture);
}

/* ---- what is asked and changed ---------------------------------------------------------------------------------- */

static bool captures_blocking(const struct emu_capture *capture, CUcontext context) {
    for (size_t i = 0; i < capture->member_count; i++) {
        const struct emu_queue *queue = capture->members[i].queue;
        if (queue != NULL && queue->blocking && queue->context == context) return true;
    }
    return false;
}

CUresult emu_capture_state(struct emu_queue *queue, struct emu_capture_state *state) {
    const struct emu_capture *capture = queue->capture;
    *state = (struct emu_capture_state){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    for (const struct emu_capture *each = captures; each != NULL && queue == queue->context->legacy; each = each->next)
        if (captures_blocking(each, queue->context)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (capture == NULL) return CUDA_SUCCESS;
    state->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    if (!capture->invalid)
        *state = (struct emu_capture_state){CU_STREAM_CAPTURE_STATUS_ACTIVE, capture->id, capture->graph,
                                            &member_of(queue)->front};
    return CUDA_SUCCESS;
}

/* After a replacement the stream's next node need not come after its earlier ones: it begins another lane. */
CUresult emu_capture_update(struct emu_queue *queue, const CUgraphNode *nodes, size_t count, bool replace) {
    struct emu_capture *capture = queue->capture;
    if (capture == NULL) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; i < count; i++)
        if (!emu_node_alive(nodes[i]) || nodes[i]->graph != capture->graph) return CUDA_ERROR_INVALID_VALUE;
    struct member *member = member_of(queue);
    unsigned lane = member->lane;
    if (replace && !emu_graph_add_lane(capture->graph, queue->context, &lane)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!(replace ? emu_nodes_set : emu_nodes_add)(&member->front, nodes, count)) return CUDA_ERROR_OUT_OF_MEMORY;
    member->lane = lane;
    return CUDA_SUCCESS;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

/* What happens where a node has something else to it. */
static const struct emu_operation nothing = {.kind = EMU_WAIT, .described = true};

/* Takes the task over; NULL: there was no host memory for it. */
static CUresult add_task(struct emu_queue *queue, struct emu_task *task) {
    struct emu_capture *capture = queue->capture;
    struct member *member = member_of(queue);
    if (task == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUgraphNode node = emu_graph_add(capture->graph, member->lane, task, member->front.nodes, member->front.count);
    if (node == NULL) {
        emu_task_drop(task);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return emu_nodes_set(&member->front, &node, 1) ? CUDA_SUCCESS : invalidate(capture, CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult add_node(struct emu_queue *queue, CUgraphNodeType type, const struct emu_operation *operation) {
    if (queue->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return add_task(queue, emu_task_make(type, operation));
}

CUresult emu_capture_add(struct emu_queue *queue, const struct emu_operation *operation) {
    switch (operation->kind) {
    case EMU_COPY:
        return add_node(queue, CU_GRAPH_NODE_TYPE_MEMCPY, operation);
    case EMU_SET:
        return add_node(queue, CU_GRAPH_NODE_TYPE_MEMSET, operation);
    case EMU_KERNEL:
        return add_node(queue, CU_GRAPH_NODE_TYPE_KERNEL, operation);
    case EMU_FUNCTION:
        return add_node(queue, CU_GRAPH_NODE_TYPE_HOST, operation);
    default:
        return emu_capture_refuse(queue);
    }
}

CUresult emu_capture_event_node(struct emu_queue *queue, CUevent event, CUgraphNodeType type) {
    if (queue->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && event->context != queue->context) return CUDA_ERROR_INVALID_HANDLE;
    struct emu_task *task = emu_task_make(type, &nothing);
    if (task != NULL) task->event = event;
    return add_task(queue, task);
}

static CUresult add_memory(struct emu_queue *queue, CUgraphNodeType type, struct emu_graph_memory *memory) {
    struct emu_task *task = emu_task_make(type, &nothing);
    if (task == NULL) {
        emu_graph_memory_drop(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    task->memory = memory;
    return add_task(queue, task);
}

CUresult emu_capture_alloc(struct emu_queue *queue, CUdevice device, size_t bytes, uintptr_t *start) {
    struct emu_graph_memory *memory;
    if (queue->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUresult code = emu_graph_memory_make(device, bytes, &memory);
    if (code != CUDA_SUCCESS) return code;
    const uintptr_t made = memory->start;
    code = add_memory(queue, CU_GRAPH_NODE_TYPE_MEM_ALLOC, memory);
    if (code == CUDA_SUCCESS) *start = made;
    return code;
}

CUresult emu_capture_free(struct emu_queue *queue, uintptr_t start) {
    struct emu_graph_memory *memory = emu_graph_memory_at(start);
    if (queue->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (memory == NULL) return CUDA_ERROR_INVALID_VALUE;
    memory->references++;
    return add_memory(queue, CU_GRAPH_NODE_TYPE_MEM_FREE, memory);
}

bool emu_capture_free_outside(uintptr_t start, CUresult *code) {
    struct emu_graph_memory *memory = emu_graph_memory_at(start);
    if (memory == NULL) return false;
    *code = memory->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    memory->live = false;
    return true;
}

CUresult emu_capture_launch(struct emu_queue *queue, CUgraphExec exec) {
    struct emu_capture *capture = queue->capture;
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (emu_exec_has_memory(exec)) return CUDA_ERROR_NOT_SUPPORTED;
    struct member *member = member_of(queue);
    const CUresult code = emu_exec_embed(exec, capture->graph, member->lane, &member->front);
    return code == CUDA_SUCCESS ? code : invalidate(capture, code);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

CUresult emu_capture_record(struct emu_queue *queue, CUevent event) {
    struct emu_capture *capture = queue->capture;
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (event->context != queue->context) return CUDA_ERROR_INVALID_HANDLE;
    if (capture->mark_count == capture->mark_room) {
        const size_t room = 2 * capture->mark_room + 8;
        struct emu_nodes *grown = realloc(capture->marks, room * sizeof *grown);
        if (grown == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        capture->marks = grown;
        capture->mark_room = room;
    }
    const struct emu_nodes *front = &member_of(queue)->front;
    struct emu_nodes mark = {0};
    if (front->count > 0 && !emu_nodes_set(&mark, front->nodes, front->count)) return CUDA_ERROR_OUT_OF_MEMORY;
    event->capture_node = capture->mark_count;
    capture->marks[capture->mark_count++] = mark;
    event->capture = capture;
    event->captured = true;
    return CUDA_SUCCESS;
}

/* A wait by a stream that does not capture. */
static CUresult join(struct emu_queue *queue, CUevent event) {
    struct emu_capture *capture = event->capture;
    if (capture == NULL || capture->invalid) return CUDA_ERROR_INVALID_VALUE;
    if (queue == queue->context->legacy)
        return invalidate(capture, captures_blocking(capture, queue->context) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                                              : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return add_member(capture, queue, &capture->marks[event->capture_node]) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult emu_capture_wait(struct emu_queue *queue, CUevent event) {
    struct emu_capture *capture = queue->capture;
    if (capture == NULL) return join(queue, event);
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (event->capture == NULL) return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (event->capture != capture) {
        event->capture->invalid = true;
        return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    const struct emu_nodes *mark = &capture->marks[event->capture_node];
    if (mark->count == 0) return CUDA_SUCCESS;
    return emu_nodes_add(&member_of(queue)->front, mark->nodes, mark->count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

CUresult emu_capture_refuse(struct emu_queue *queue) {
    if (queue->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return invalidate(queue->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult emu_capture_check_legacy(CUcontext context) {
    CUresult code = CUDA_SUCCESS;
    for (struct emu_capture *each = captures; each != NULL; each = each->next)
        if (captures_blocking(each, context)) code = invalidate(each, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return code;
}

CUresult emu_capture_check_host(struct emu_queue *queue) {
    if (queue->capture != NULL) return emu_capture_refuse(queue);
    return queue == queue->context->legacy ? emu_capture_check_legacy(queue->context) : CUDA_SUCCESS;
}

CUresult emu_capture_check_event(CUevent event) {
    if (!event->captured) return emu_capture_check_unsafe();
    if (event->capture != NULL) event->capture->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult emu_capture_check_context(CUcontext context) {
    CUresult code = CUDA_SUCCESS;
    for (struct emu_capture *each = captures; each != NULL; each = each->next)
        for (size_t i = 0; i < each->member_count; i++)
            if (each->members[i].queue != NULL && each->members[i].queue->context == context)
                code = invalidate(each, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return code;
}

/* The thread's own captures count in both strict modes, those of other threads when both sides are global. */
static bool forbids(const struct emu_capture *capture) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    if (capture->thread == thread_number()) return true;
    return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult emu_capture_check_unsafe(void) {
    CUresult code = CUDA_SUCCESS;
    for (struct emu_capture *each = captures; each != NULL; each = each->next)
        if (forbids(each)) code = invalidate(each, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return code;
}
