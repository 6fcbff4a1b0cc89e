/* SPDX-License-Identifier: Apache-2.0 */
/* Entries for capture and graphs. */
#include "device/emu/capture.h"
#include "device/emu/emu.h"
#include "device/emu/enter.h"
#include "device/emu/graph.h"

/* ---- capture ---------------------------------------------------------------------------------------------------- */

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuStreamBeginCapture_v2, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(emu_capture_begin(queue, mode));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuStreamEndCapture, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(graph != NULL ? emu_capture_end(queue, graph) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    struct emu_queue *queue;
    struct emu_capture_state state;
    const bool is_default = stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (status != NULL && !emu_capture_any() && emu_may_answer_at_once() && !emu_context_is_gone() &&
        (!is_default || emu_current() != NULL)) {
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    }
    CUresult code = emu_enter_stream(EMU_AT_cuStreamIsCapturing, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (status == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = emu_capture_state(queue, &state);
    if (code == CUDA_SUCCESS) *status = state.status;
    return emu_leave(code);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    if (mode != NULL && (unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED && emu_may_answer_at_once()) {
        emu_capture_exchange_mode(mode);
        return CUDA_SUCCESS;
    }
    const CUresult code = emu_enter(EMU_AT_cuThreadExchangeStreamCaptureMode, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_capture_exchange_mode(mode);
    return emu_leave(CUDA_SUCCESS);
}

/* All edges that there are look alike. */
enum { MOST_EDGES = 4096 };
static const CUgraphEdgeData plain_edges[MOST_EDGES];

/* All editions of the question; what is not asked for is NULL. */
static CUresult tell_capture(enum emu_entry entry, CUstream stream, CUstreamCaptureStatus *status, uint64_t *id,
                             CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count) {
    struct emu_queue *queue;
    struct emu_capture_state state;
    CUresult code = emu_enter_stream(entry, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (status == NULL || (edges != NULL && nodes == NULL)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = emu_capture_state(queue, &state);
    if (code != CUDA_SUCCESS) return emu_leave(code);
    const bool active = state.status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (active && edges != NULL && state.front->count > MOST_EDGES) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    *status = state.status;
    if (!active) return emu_leave(CUDA_SUCCESS);
    if (id != NULL) *id = state.id;
    if (graph != NULL) *graph = state.graph;
    if (nodes != NULL) *nodes = state.front->nodes;
    if (edges != NULL) *edges = plain_edges;
    if (count != NULL) *count = state.front->count;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id) {
    return tell_capture(EMU_AT_cuStreamGetCaptureInfo, stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, size_t *count) {
    return tell_capture(EMU_AT_cuStreamGetCaptureInfo_v2, stream, status, id, graph, nodes, NULL, count);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count) {
    return tell_capture(EMU_AT_cuStreamGetCaptureInfo_v3, stream, status, id, graph, nodes, edges, count);
}

static bool plain(const CUgraphEdgeData *edges, size_t count) {
    for (size_t i = 0; edges != NULL && i < count; i++)
        if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0) return false;
    return true;
}

static CUresult update_front(enum emu_entry entry, CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges,
                             size_t count, unsigned flags) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(entry, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count > 0 && nodes == NULL))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!plain(edges, count)) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    return emu_leave(emu_capture_update(queue, nodes, count, flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags) {
    return update_front(EMU_AT_cuStreamUpdateCaptureDependencies, stream, nodes, NULL, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges,
                                              size_t count, unsigned flags) {
    return update_front(EMU_AT_cuStreamUpdateCaptureDependencies_v2, stream, nodes, edges, count, flags);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

static CUresult enter_graph(enum emu_entry entry, CUgraph graph) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    return emu_graph_alive(graph) ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_VALUE);
}

static CUresult enter_node(enum emu_entry entry, CUgraphNode node) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    return emu_node_alive(node) ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_VALUE);
}

/* A graph gets nodes by capture only, so this one stays empty. */
CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    const CUresult code = emu_enter(EMU_AT_cuGraphCreate, NULL);
    if (code != CUDA_SUCCESS) return code;
    if (graph == NULL || flags != 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *graph = emu_graph_create();
    return emu_leave(*graph != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Not while a capture adds to it. */
CUresult cuGraphDestroy(CUgraph graph) {
    const CUresult code = enter_graph(EMU_AT_cuGraphDestroy, graph);
    if (code != CUDA_SUCCESS) return code;
    if (graph->capture != NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_graph_destroy(graph);
    return emu_leave(CUDA_SUCCESS);
}

/* A list that is told: as long as there is room for, and then its length. */
struct list {
    CUgraphNode *nodes, *others; /* either may be NULL */
    size_t room, count;
};

static void tell(struct list *list, CUgraphNode node, CUgraphNode other) {
    if (list->nodes != NULL && list->count < list->room) list->nodes[list->count] = node;
    if (list->others != NULL && list->count < list->room) list->others[list->count] = other;
    list->count++;
}

/* Room that is left over is cleared; where there was too little, *count stays. */
static CUresult told(struct list *list, size_t *count) {
    const bool asked = list->nodes != NULL || list->others != NULL;
    const size_t length = list->count;
    if (asked && length > list->room) return CUDA_SUCCESS;
    while (asked && list->count < list->room) tell(list, NULL, NULL);
    *count = length;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    const CUresult code = enter_graph(EMU_AT_cuGraphGetNodes, graph);
    if (code != CUDA_SUCCESS) return code;
    if (count == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    struct list list = {.nodes = nodes, .room = *count};
    for (size_t i = 0; i < graph->count; i++) tell(&list, graph->nodes[i], NULL);
    return emu_leave(told(&list, count));
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    const CUresult code = enter_graph(EMU_AT_cuGraphGetRootNodes, graph);
    if (code != CUDA_SUCCESS) return code;
    if (count == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    struct list list = {.nodes = nodes, .room = *count};
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->after_count == 0) tell(&list, graph->nodes[i], NULL);
    return emu_leave(told(&list, count));
}

static void clear_edges(CUgraphEdgeData *edges, size_t count) {
    for (size_t i = 0; edges != NULL && i < count; i++) edges[i] = plain_edges[0];
}

static CUresult tell_edges(enum emu_entry entry, CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                           CUgraphEdgeData *edges, size_t *count) {
    const CUresult code = enter_graph(entry, graph);
    if (code != CUDA_SUCCESS) return code;
    if (count == NULL || (from == NULL) != (to == NULL) || (edges != NULL && from == NULL))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    struct list list = {.nodes = from, .others = to, .room = *count};
    clear_edges(edges, *count);
    for (size_t i = 0; i < graph->count; i++) {
        const CUgraphNode node = graph->nodes[i];
        for (size_t j = 0; j < node->after_count; j++) tell(&list, node->after[j], node);
    }
    return emu_leave(told(&list, count));
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
    return tell_edges(EMU_AT_cuGraphGetEdges, graph, from, to, NULL, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count) {
    return tell_edges(EMU_AT_cuGraphGetEdges_v2, graph, from, to, edges, count);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    const CUresult code = enter_node(EMU_AT_cuGraphNodeGetType, node);
    if (code != CUDA_SUCCESS) return code;
    if (type == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *type = node->task->type;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult tell_before(enum emu_entry entry, CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                            size_t *count) {
    const CUresult code = enter_node(entry, node);
    if (code != CUDA_SUCCESS) return code;
    if (count == NULL || (edges != NULL && nodes == NULL)) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    struct list list = {.nodes = nodes, .room = *count};
    clear_edges(edges, *count);
    for (size_t i = 0; i < node->after_count; i++) tell(&list, node->after[i], NULL);
    return emu_leave(told(&list, count));
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
    return tell_before(EMU_AT_cuGraphNodeGetDependencies, node, nodes, NULL, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count) {
    return tell_before(EMU_AT_cuGraphNodeGetDependencies_v2, node, nodes, edges, count);
}

/* ---- executable graphs ------------------------------------------------------------------------------------------ */

/* Nothing looks at priorities. Graphs are not launched by the device. */
static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    enum { KNOWN = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY };
    if (exec == NULL || graph->capture != NULL) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) return CUDA_ERROR_NOT_SUPPORTED;
    if ((flags & ~(unsigned long long)KNOWN) != 0) return CUDA_ERROR_INVALID_VALUE;
    return emu_exec_create(graph, flags, exec);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    const CUresult code = enter_graph(EMU_AT_cuGraphInstantiateWithFlags, graph);
    if (code != CUDA_SUCCESS) return code;
    emu_charge(EMU_AT_cuGraphInstantiateWithFlags, graph->count, 0);
    return emu_leave(instantiate(exec, graph, flags));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *at_fault, char *text, size_t room) {
    const CUresult code = enter_graph(EMU_AT_cuGraphInstantiate_v2, graph);
    if (code != CUDA_SUCCESS) return code;
    if (at_fault != NULL) *at_fault = NULL;
    if (text != NULL && room > 0) *text = '\0';
    emu_charge(EMU_AT_cuGraphInstantiate_v2, graph->count, 0);
    return emu_leave(instantiate(exec, graph, 0));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    CUresult code = enter_graph(EMU_AT_cuGraphInstantiateWithParams, graph);
    if (code != CUDA_SUCCESS) return code;
    if (params == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    const unsigned long long upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    emu_charge(EMU_AT_cuGraphInstantiateWithParams, graph->count, 0);
    code = instantiate(exec, graph, params->flags & ~upload);
    params->hErrNode_out = NULL;
    params->result_out = code == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return emu_leave(code);
}

static CUresult enter_exec(enum emu_entry entry, CUgraphExec exec, CUstream stream, struct emu_queue **queue) {
    const CUresult code = emu_enter_stream(entry, stream, queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_exec_alive(exec) ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_VALUE);
}

/* There is nothing to make ready. */
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = enter_exec(EMU_AT_cuGraphUpload, exec, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(queue->capture != NULL ? emu_capture_refuse(queue) : CUDA_SUCCESS);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = enter_exec(EMU_AT_cuGraphLaunch, exec, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    emu_charge(EMU_AT_cuGraphLaunch, emu_exec_steps(exec), 0);
    return emu_leave(queue->capture != NULL ? emu_capture_launch(queue, exec) : emu_exec_launch(exec, queue));
}

static CUresult enter_exec_only(enum emu_entry entry, CUgraphExec exec) {
    const CUresult code = emu_enter(entry, NULL);
    if (code != CUDA_SUCCESS) return code;
    return emu_exec_alive(exec) ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags) {
    const CUresult code = enter_exec_only(EMU_AT_cuGraphExecGetFlags, exec);
    if (code != CUDA_SUCCESS) return code;
    if (flags == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = emu_exec_flags(exec);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    const CUresult code = enter_exec_only(EMU_AT_cuGraphExecDestroy, exec);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(emu_exec_destroy(exec));
}
