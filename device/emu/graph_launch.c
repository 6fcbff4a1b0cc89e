/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs. The first lane runs in the stream of the launch, the others in queues of the program's own: they
 * start after what is in the stream, and it goes on after them. */
#include <stdlib.h>

#include "device/emu/event.h"
#include "device/emu/graph.h"
#include "device/emu/graph_memory.h"
#include "device/emu/submit.h"

struct step {
    struct emu_task *task;
    unsigned lane;
    size_t *after; /* steps of other lanes; those of its own that came before it are understood */
    size_t after_count;
    bool awaited; /* by a step of another lane */
};

struct lane {
    CUcontext context;
    size_t steps;
    struct emu_queue *queue; /* of the program's own; taken when it is first needed */
};

/* Where a queue stood. */
struct end {
    struct emu_point point;
    struct emu_moment moment;
};

struct emu_program {
    unsigned references;
    unsigned long long flags;
    struct step *steps;
    size_t step_count;
    struct lane *lanes;
    unsigned lane_count;
    struct end last; /* of the latest launch */
};

struct CUgraphExec_st {
    struct emu_slot slot;
    struct emu_program *program;
};

static struct emu_slots execs = EMU_SLOTS_INITIALIZER(struct CUgraphExec_st);

/* ---- programs --------------------------------------------------------------------------------------------------- */

static void drop_program(struct emu_program *program) {
    if (--program->references > 0) return;
    for (size_t i = 0; i < program->step_count; i++) {
        struct emu_task *task = program->steps[i].task;
        if (task != NULL && task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) task->memory->prepared = false;
        if (task != NULL) emu_task_drop(task);
        free(program->steps[i].after);
    }
    for (unsigned i = 0; i < program->lane_count; i++)
        if (program->lanes[i].queue != NULL) emu_queue_give(program->lanes[i].queue);
    emu_watch_drop(&program->last.moment);
    free(program->steps);
    free(program->lanes);
    free(program);
}

/* Nodes come after earlier ones only, so their order is a topological one. */
static bool copy_step(struct emu_program *program, CUgraphNode node) {
    struct step *step = &program->steps[node->index];
    step->lane = node->lane;
    step->task = emu_task_keep(node->task);
    program->lanes[node->lane].steps++;
    if (node->after_count == 0) return true;
    step->after = calloc(node->after_count, sizeof *step->after);
    if (step->after == NULL) return false;
    for (size_t i = 0; i < node->after_count; i++) {
        if (node->after[i]->lane == node->lane) continue;
        step->after[step->after_count++] = node->after[i]->index;
        program->steps[node->after[i]->index].awaited = true;
    }
    return true;
}

static struct emu_program *make_program(CUgraph graph, unsigned long long flags) {
    struct emu_program *program = calloc(1, sizeof *program);
    if (program == NULL) return NULL;
    program->references = 1;
    program->flags = flags;
    program->steps = calloc(graph->count + 1, sizeof *program->steps);
    program->lanes = calloc(graph->lane_count + 1, sizeof *program->lanes);
    bool copied = program->steps != NULL && program->lanes != NULL;
    if (copied) {
        program->step_count = graph->count;
        program->lane_count = graph->lane_count;
        for (unsigned i = 0; i < graph->lane_count; i++) program->lanes[i].context = graph->lanes[i];
    }
    for (size_t i = 0; copied && i < graph->count; i++) copied = copy_step(program, graph->nodes[i]);
    if (copied) return program;
    drop_program(program);
    return NULL;
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

/* One executable graph allocates what a graph allocates. */
static bool prepared(CUgraph graph) {
    for (size_t i = 0; i < graph->count; i++) {
        const struct emu_task *task = graph->nodes[i]->task;
        if (task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && task->memory->prepared) return true;
    }
    return false;
}

CUresult emu_exec_create(CUgraph graph, unsigned long long flags, CUgraphExec *exec) {
    if (prepared(graph)) return CUDA_ERROR_NOT_SUPPORTED;
    struct emu_program *program = make_program(graph, flags);
    CUgraphExec made = program != NULL ? emu_slots_take(&execs) : NULL;
    if (made == NULL) {
        if (program != NULL) drop_program(program);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < program->step_count; i++) {
        const struct emu_task *task = program->steps[i].task;
        if (task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) task->memory->prepared = true;
    }
    made->program = program;
    *exec = made;
    return CUDA_SUCCESS;
}

bool emu_exec_has_memory(CUgraphExec exec) {
    for (size_t i = 0; i < exec->program->step_count; i++)
        if (exec->program->steps[i].task->memory != NULL) return true;
    return false;
}

CUresult emu_exec_destroy(CUgraphExec exec) {
    struct emu_program *program = exec->program;
    const bool waits = emu_exec_has_memory(exec) && program->last.point.queue != NULL;
    CUresult code = CUDA_SUCCESS;
    if (waits) code = emu_point_wait(program->last.point, emu_watch_copy(program->last.moment));
    if (code != CUDA_SUCCESS) return code;                               /* its memory is in use, and stays */
    if (!emu_slots_alive(&execs, exec)) return CUDA_ERROR_INVALID_VALUE; /* another thread was faster */
    emu_slots_give(&execs, exec);
    drop_program(program);
    return CUDA_SUCCESS;
}

bool emu_exec_alive(CUgraphExec exec) { return emu_slots_alive(&execs, exec); }
unsigned long long emu_exec_flags(CUgraphExec exec) { return exec->program->flags; }
size_t emu_exec_steps(CUgraphExec exec) { return exec->program->step_count; }

/* ---- launching -------------------------------------------------------------------------------------------------- */

/* A launch in the making. */
struct launch {
    struct emu_program *program;
    struct emu_queue *stream;
    struct end *ends; /* of steps that others await */
};

static struct emu_queue *queue_of(const struct launch *launch, unsigned lane) {
    struct emu_queue *own = launch->program->lanes[lane].queue;
    return lane == 0 && launch->program->lanes[0].context == launch->stream->context ? launch->stream : own;
}

static bool usable_event(const struct emu_task *task) {
    return emu_event_alive(task->event) && (task->type != CU_GRAPH_NODE_TYPE_WAIT_EVENT || !task->event->captured);
}

/* What was captured may be gone by now. A real device would meet the hole while it runs. */
static CUresult check_steps(const struct emu_program *program) {
    for (unsigned i = 0; i < program->lane_count; i++)
        if (program->lanes[i].steps > 0 && !emu_context_alive(program->lanes[i].context))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    for (size_t i = 0; i < program->step_count; i++) {
        const struct emu_task *task = program->steps[i].task;
        if (task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && task->memory->live &&
            !(program->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
            return CUDA_ERROR_INVALID_VALUE;
        if (task->event != NULL ? !usable_event(task) : !emu_operation_valid(&task->operation))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult take_queues(struct launch *launch) {
    for (unsigned i = 0; i < launch->program->lane_count; i++) {
        struct lane *lane = &launch->program->lanes[i];
        if (lane->steps == 0 || queue_of(launch, i) != NULL) continue;
        lane->queue = emu_queue_take(lane->context, false);
        if (lane->queue == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static struct end end_of(struct emu_queue *queue) { return (struct end){emu_queue_end(queue), emu_watch_now(queue)}; }

static CUresult push_wait(struct emu_queue *queue, const struct end *end) {
    struct emu_point point;
    const struct emu_operation wait = {
        .kind = EMU_WAIT, .described = true, .after = {end->point}, .moment = &end->moment};
    return emu_queue_push(queue, &wait, &point);
}

static CUresult push_task(struct emu_queue *queue, const struct emu_task *task) {
    struct emu_point point;
    if (task->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) return emu_event_record(task->event, queue);
    if (task->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) return emu_submit_wait(queue, task->event);
    const CUresult code = emu_queue_push(queue, &task->operation, &point);
    if (code != CUDA_SUCCESS || task->memory == NULL) return code;
    task->memory->live = task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    if (task->memory->live) emu_watch_hands_out(queue, task->memory->start, task->memory->bytes, "cuMemAllocAsync");
    return CUDA_SUCCESS;
}

/* Nothing to wait for is pushed too: what the stream comes after is known behind it only. */
static CUresult fork_lanes(const struct launch *launch) {
    CUresult code = CUDA_SUCCESS;
    const struct emu_program *program = launch->program;
    if (program->last.point.queue != NULL && program->last.point.queue != launch->stream)
        code = push_wait(launch->stream, &program->last);
    struct end begin = {0};
    for (unsigned i = 0; i < program->lane_count && code == CUDA_SUCCESS; i++) {
        struct emu_queue *queue = queue_of(launch, i);
        if (program->lanes[i].steps == 0 || queue == launch->stream) continue;
        if (begin.point.queue == NULL) {
            code = push_wait(launch->stream, &begin);
            if (code == CUDA_SUCCESS) begin = end_of(launch->stream);
        }
        if (code == CUDA_SUCCESS) code = push_wait(queue, &begin);
    }
    emu_watch_drop(&begin.moment);
    return code;
}

static CUresult push_step(const struct launch *launch, size_t index) {
    const struct step *step = &launch->program->steps[index];
    struct emu_queue *queue = queue_of(launch, step->lane);
    for (size_t i = 0; i < step->after_count; i++) {
        const CUresult code = push_wait(queue, &launch->ends[step->after[i]]);
        if (code != CUDA_SUCCESS) return code;
    }
    const CUresult code = push_task(queue, step->task);
    if (code == CUDA_SUCCESS && step->awaited) launch->ends[index] = end_of(queue);
    return code;
}

static CUresult join_lanes(const struct launch *launch) {
    CUresult code = CUDA_SUCCESS;
    struct emu_program *program = launch->program;
    for (unsigned i = 0; i < program->lane_count; i++) {
        struct emu_queue *queue = queue_of(launch, i);
        if (program->lanes[i].steps == 0 || queue == launch->stream) continue;
        struct end end = end_of(queue);
        const CUresult each = push_wait(launch->stream, &end);
        emu_watch_drop(&end.moment);
        if (each != CUDA_SUCCESS) code = each;
    }
    emu_watch_drop(&program->last.moment);
    program->last = end_of(launch->stream);
    return code;
}

/* The lock is given up while a queue is full: others may push to the stream between two steps, and the handle may be
 * destroyed. */
static CUresult push_all(struct launch *launch) {
    CUresult code = fork_lanes(launch);
    for (size_t i = 0; i < launch->program->step_count && code == CUDA_SUCCESS; i++) code = push_step(launch, i);
    const CUresult joined = join_lanes(launch);
    for (size_t i = 0; i < launch->program->step_count; i++) emu_watch_drop(&launch->ends[i].moment);
    return code != CUDA_SUCCESS ? code : joined;
}

CUresult emu_exec_launch(CUgraphExec exec, struct emu_queue *queue) {
    struct launch launch = {.program = exec->program, .stream = queue};
    CUresult code = check_steps(launch.program);
    if (code != CUDA_SUCCESS) return code;
    launch.program->references++;
    code = take_queues(&launch);
    launch.ends = calloc(launch.program->step_count + 1, sizeof *launch.ends);
    if (launch.ends == NULL) code = CUDA_ERROR_OUT_OF_MEMORY;
    if (code == CUDA_SUCCESS) code = push_all(&launch);
    free(launch.ends);
    drop_program(launch.program);
    return code;
}

/* ---- in another graph ------------------------------------------------------------------------------------------- */

struct embedding {
    const struct emu_program *program;
    CUgraph graph;
    unsigned *lanes;     /* the program's there */
    CUgraphNode *made;   /* of each step */
    CUgraphNode *latest; /* of each lane */
};

static CUresult embed_step(const struct embedding *embedding, size_t index, const struct emu_nodes *front) {
    const struct step *step = &embedding->program->steps[index];
    struct emu_nodes after = {0};
    bool added = true;
    for (size_t i = 0; i < step->after_count && added; i++)
        added = emu_nodes_add(&after, &embedding->made[step->after[i]], 1);
    if (added && embedding->latest[step->lane] != NULL)
        added = emu_nodes_add(&after, &embedding->latest[step->lane], 1);
    if (added && after.count == 0 && front->count > 0) added = emu_nodes_add(&after, front->nodes, front->count);
    CUgraphNode node = NULL;
    if (added)
        node = emu_graph_add(embedding->graph, embedding->lanes[step->lane], step->task, after.nodes, after.count);
    free(after.nodes);
    if (node == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    emu_task_keep(step->task);
    embedding->made[index] = embedding->latest[step->lane] = node;
    return CUDA_SUCCESS;
}

/* What nothing else of it comes after is the last of each lane, at most. */
static CUresult embed_all(const struct embedding *embedding, unsigned lane, struct emu_nodes *front) {
    const struct emu_program *program = embedding->program;
    CUgraph graph = embedding->graph;
    for (unsigned i = 0; i < program->lane_count; i++) {
        embedding->lanes[i] = lane;
        if (i == 0 && program->lanes[0].context == graph->lanes[lane]) continue;
        if (!emu_graph_add_lane(graph, program->lanes[i].context, &embedding->lanes[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < program->step_count; i++) {
        const CUresult code = embed_step(embedding, i, front);
        if (code != CUDA_SUCCESS) return code;
    }
    struct emu_nodes last = {0};
    for (unsigned i = 0; i < program->lane_count; i++)
        if (embedding->latest[i] != NULL && !emu_nodes_add(&last, &embedding->latest[i], 1)) {
            free(last.nodes);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    if (last.count == 0) return CUDA_SUCCESS;
    free(front->nodes);
    *front = last;
    return CUDA_SUCCESS;
}

CUresult emu_exec_embed(CUgraphExec exec, CUgraph graph, unsigned lane, struct emu_nodes *front) {
    const struct emu_program *program = exec->program;
    struct embedding embedding = {.program = program,
                                  .graph = graph,
                                  .lanes = calloc(program->lane_count + 1, sizeof *embedding.lanes),
                                  .made = calloc(program->step_count + 1, sizeof(CUgraphNode)),
                                  .latest = calloc(program->lane_count + 1, sizeof(CUgraphNode))};
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
    if (embedding.lanes != NULL && embedding.made != NULL && embedding.latest != NULL)
        code = embed_all(&embedding, lane, front);
    free(embedding.lanes);
    free(embedding.made);
    free(embedding.latest);
    return code;
}
