/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and executable graphs, as capture makes them.
 *
 * Words. task: what a node does, as data; shared by the graph and what was made of it. node: a task after other nodes
 * of its graph, which were all added before it. lane: a run of nodes that follow one another, as they were captured
 * from one stream. program: the steps of an executable graph; it lives until the last launch of it is queued.
 *
 *     nodes of a lane are ordered as they were added; between lanes there is order only where a node names another's
 *     a launch comes after all that is in its stream and after the program's earlier launches; what follows in the
 *     stream comes after all of it
 *
 * So the watch sees the order that the graph states and no more: two branches that race do so in every launch.
 *
 * All functions need the lock. */
#ifndef WEIR_EMU_GRAPH_H
#define WEIR_EMU_GRAPH_H

#include "device/emu/emu_types.h"
#include "device/emu/queue.h"
#include "device/emu/slots.h"

struct emu_capture;
struct emu_graph_memory;

struct emu_task {
    unsigned references;
    CUgraphNodeType type;
    CUevent event;                   /* of a record or a wait */
    struct emu_graph_memory *memory; /* of an allocation or a free; a reference */
    struct emu_operation operation;
};

struct CUgraphNode_st {
    struct emu_slot slot;
    CUgraph graph;
    size_t index; /* in the graph */
    unsigned lane;
    struct emu_task *task;
    CUgraphNode *after;
    size_t after_count;
};

struct CUgraph_st {
    struct emu_slot slot;
    CUgraphNode *nodes;
    size_t count, room;
    CUcontext *lanes; /* whose work each is */
    unsigned lane_count, lane_room;
    struct emu_capture *capture; /* what adds to it now */
};

/* A growing set of nodes, in the order of joining. */
struct emu_nodes {
    CUgraphNode *nodes;
    size_t count, room;
};

/* False: no host memory; nothing has changed. A node that is in the set already is not added. */
bool emu_nodes_add(struct emu_nodes *set, const CUgraphNode *nodes, size_t count);
bool emu_nodes_set(struct emu_nodes *set, const CUgraphNode *nodes, size_t count);

/* ---- graph.c ---------------------------------------------------------------------------------------------------- */

/* A task of one reference, with copies of the operation's name and accesses. NULL: no host memory. */
struct emu_task *emu_task_make(CUgraphNodeType type, const struct emu_operation *operation);
struct emu_task *emu_task_keep(struct emu_task *task);
void emu_task_drop(struct emu_task *task);

/* NULL: no host memory. */
CUgraph emu_graph_create(void);
/* The nodes go too; executable graphs that were made of it stay. */
void emu_graph_destroy(CUgraph graph);
bool emu_graph_alive(CUgraph graph);
bool emu_node_alive(CUgraphNode node);
/* False: no host memory. */
bool emu_graph_add_lane(CUgraph graph, CUcontext context, unsigned *lane);
/* Takes the reference to the task over when it succeeds. NULL: no host memory. */
CUgraphNode emu_graph_add(CUgraph graph, unsigned lane, struct emu_task *task, const CUgraphNode *after, size_t count);

/* ---- graph_launch.c --------------------------------------------------------------------------------------------- */

/* CUDA_ERROR_NOT_SUPPORTED: the graph allocates, and there is an executable one of it already. */
CUresult emu_exec_create(CUgraph graph, unsigned long long flags, CUgraphExec *exec);
/* What has been launched still happens; where it uses the graph's own memory, the host waits for it. */
CUresult emu_exec_destroy(CUgraphExec exec);
bool emu_exec_alive(CUgraphExec exec);
/* True when it allocates or frees. */
bool emu_exec_has_memory(CUgraphExec exec);
unsigned long long emu_exec_flags(CUgraphExec exec);
size_t emu_exec_steps(CUgraphExec exec);
/* Queues all of it. Fails before anything is queued with CUDA_ERROR_INVALID_VALUE when a step's memory or event is
 * there no more, or what it allocates is live still; with CUDA_ERROR_CONTEXT_IS_DESTROYED or CUDA_ERROR_OUT_OF_MEMORY;
 * else as emu_queue_push, and a part of it is queued. */
CUresult emu_exec_launch(CUgraphExec exec, struct emu_queue *queue);
/* Adds its steps to a graph instead, after *front, which then is what comes last of them. The first lane's steps go to
 * `lane`. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult emu_exec_embed(CUgraphExec exec, CUgraph graph, unsigned lane, struct emu_nodes *front);

#endif
