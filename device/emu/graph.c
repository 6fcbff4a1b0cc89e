/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/graph_memory.h"

static struct emu_slots graphs = EMU_SLOTS_INITIALIZER(struct CUgraph_st);
static struct emu_slots nodes = EMU_SLOTS_INITIALIZER(struct CUgraphNode_st);

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

/* Gives room for `more` further members of `each` bytes. */
static bool make_room(void **array, size_t *room, size_t count, size_t more, size_t each) {
    if (count + more <= *room) return true;
    const size_t wanted = 2 * (count + more);
    void *grown = realloc(*array, wanted * each);
    if (grown == NULL) return false;
    *array = grown;
    *room = wanted;
    return true;
}

static bool holds(const struct emu_nodes *set, CUgraphNode node) {
    for (size_t i = 0; i < set->count; i++)
        if (set->nodes[i] == node) return true;
    return false;
}

bool emu_nodes_add(struct emu_nodes *set, const CUgraphNode *added, size_t count) {
    void *array = set->nodes;
    if (!make_room(&array, &set->room, set->count, count, sizeof *set->nodes)) return false;
    set->nodes = array;
    for (size_t i = 0; i < count; i++)
        if (!holds(set, added[i])) set->nodes[set->count++] = added[i];
    return true;
}

bool emu_nodes_set(struct emu_nodes *set, const CUgraphNode *members, size_t count) {
    struct emu_nodes made = {0};
    if (!emu_nodes_add(&made, members, count)) return false;
    free(set->nodes);
    *set = made;
    return true;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

/* The accesses lie behind the task, the name behind them. */
struct emu_task *emu_task_make(CUgraphNodeType type, const struct emu_operation *operation) {
    const size_t accesses = operation->access_count * sizeof *operation->accesses;
    const size_t name = operation->name != NULL ? strlen(operation->name) + 1 : 0;
    struct emu_task *task = calloc(1, sizeof *task + accesses + name);
    if (task == NULL) return NULL;
    *task = (struct emu_task){.references = 1, .type = type, .operation = *operation};
    struct weir_emu_access *copies = (struct weir_emu_access *)(void *)(task + 1);
    char *text = (char *)copies + accesses;
    if (accesses > 0) memcpy(copies, operation->accesses, accesses);
    if (name > 0) memcpy(text, operation->name, name);
    task->operation.accesses = accesses > 0 ? copies : NULL;
    task->operation.name = name > 0 ? text : NULL;
    return task;
}

struct emu_task *emu_task_keep(struct emu_task *task) {
    task->references++;
    return task;
}

void emu_task_drop(struct emu_task *task) {
    if (--task->references > 0) return;
    if (task->memory != NULL) emu_graph_memory_drop(task->memory);
    free(task);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

CUgraph emu_graph_create(void) {
    CUgraph graph = emu_slots_take(&graphs);
    if (graph == NULL) return NULL;
    *graph = (struct CUgraph_st){.slot = graph->slot};
    return graph;
}

bool emu_graph_alive(CUgraph graph) { return emu_slots_alive(&graphs, graph); }
bool emu_node_alive(CUgraphNode node) { return emu_slots_alive(&nodes, node); }

void emu_graph_destroy(CUgraph graph) {
    for (size_t i = 0; i < graph->count; i++) {
        emu_task_drop(graph->nodes[i]->task);
        free(graph->nodes[i]->after);
        emu_slots_give(&nodes, graph->nodes[i]);
    }
    free(graph->nodes);
    free(graph->lanes);
    emu_slots_give(&graphs, graph);
}

bool emu_graph_add_lane(CUgraph graph, CUcontext context, unsigned *lane) {
    size_t room = graph->lane_room;
    void *array = graph->lanes;
    if (!make_room(&array, &room, graph->lane_count, 1, sizeof *graph->lanes)) return false;
    graph->lanes = array;
    graph->lane_room = (unsigned)room;
    *lane = graph->lane_count++;
    graph->lanes[*lane] = context;
    return true;
}

CUgraphNode emu_graph_add(CUgraph graph, unsigned lane, struct emu_task *task, const CUgraphNode *after, size_t count) {
    assert(lane < graph->lane_count);
    struct emu_nodes before = {0};
    void *array = graph->nodes;
    if (!make_room(&array, &graph->room, graph->count, 1, sizeof *graph->nodes)) return NULL;
    graph->nodes = array;
    if (count > 0 && !emu_nodes_set(&before, after, count)) return NULL;
    CUgraphNode node = emu_slots_take(&nodes);
    if (node == NULL) {
        free(before.nodes);
        return NULL;
    }
    *node = (struct CUgraphNode_st){node->slot, graph, graph->count, lane, task, before.nodes, before.count};
    graph->nodes[graph->count++] = node;
    return node;
}
