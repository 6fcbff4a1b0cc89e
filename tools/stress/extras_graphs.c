/* SPDX-License-Identifier: Apache-2.0 */
/* Captured graphs. What a graph does: it fills blocks that it was given in the capture, some in the place of others that were
 * freed there, and copies each to a block of the pool, where a launch's work is compared. Until the graph's pool is destroyed its
 * memory is nobody else's. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "stress.h"

enum { ENDS_ONCE_IN = 6 };

/* X(member, symbol, parameters): of the driver, as programs call them */
#define GRAPH_LIST(X)                                                                                                  \
    X(begin, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                     \
    X(end, cuStreamEndCapture, (CUstream stream, void **graph))                                                        \
    X(instantiate, cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))                  \
    X(launch, cuGraphLaunch, (void *exec, CUstream stream))                                                            \
    X(destroy, cuGraphDestroy, (void *graph))                                                                          \
    X(destroy_exec, cuGraphExecDestroy, (void *exec))

static struct {
#define GRAPH_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    GRAPH_LIST(GRAPH_MEMBER)
#undef GRAPH_MEMBER
} cu;

static bool find_entry(void *library, const char *symbol, void *member, char *why, size_t room) {
    void *entry = dlsym(library, symbol);
    memcpy(member, &entry, sizeof entry);
    if (entry == NULL) snprintf(why, room, "--extras graphs: the driver has no entry %s", symbol);
    return entry != NULL;
}

bool extras_find_graphs(const char *driver, char *why, size_t room) {
    bool found = true;
    void *library = dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
#define GRAPH_FIND(member, symbol, parameters) found = found && find_entry(library, #symbol, &cu.member, why, room);
    GRAPH_LIST(GRAPH_FIND)
#undef GRAPH_FIND
    return found;
}

static bool done(struct worker *worker, CUresult code, const char *call) {
    if (code == CUDA_SUCCESS) return true;
    faults_add(&worker->stress->faults, FAULT_FAILED, "%s failed with %d", call, (int)code);
    return false;
}

/* ---- the capture ------------------------------------------------------------------------------------------------ */

/* Gives: false when the pool has none, or there is no going on. */
static bool take_results(struct worker *worker, struct draw *draw, bool *going) {
    struct graph *graph = &worker->extras.graph;
    for (unsigned i = 0; i < GRAPH_BLOCKS; i++) {
        const struct request request = {.bytes = extra_size(worker, draw, 64), .stream = graph->home};
        *going = worker_ask(worker, &request, &graph->results[i]);
        if (!*going || graph->results[i] == NULL) return false;
    }
    return true;
}

/* The block of the graph that stands for result `i`, filled with what the result is to have; then freed, or not. */
static bool capture_one(struct worker *worker, struct draw *draw, unsigned i) {
    struct stress *stress = worker->stress;
    struct graph *graph = &worker->extras.graph;
    const struct block *result = graph->results[i];
    const uint32_t own = stress->options->streams + STREAM_OWN;
    const struct request request = {.bytes = result->bytes, .stream = own};
    if (!worker_ask(worker, &request, &graph->blocks[i])) return false;
    if (graph->blocks[i] == NULL) return true;
    struct block *block = graph->blocks[i];
    const struct block filled = {.number = result->number, .address = block->address, .bytes = block->bytes};
    if (!worker_good(worker, weir_set(stress->device, block->address, 0, block->bytes, worker->own_stream),
                     "a set in a capture") ||
        !worker_good(worker, contents_fill(&stress->contents, &filled, worker->own_stream), "a copy in a capture") ||
        !worker_good(worker,
                     weir_copy(stress->device, result->address, block->address, block->bytes, worker->own_stream),
                     "a copy in a capture"))
        return false;
    graph->kept[i] = random_once_in(&draw->random, 2);
    graph->placed[i] = graph->kept[i];
    if (graph->kept[i]) return true;
    live_take(stress->live, block);
    return worker_good(worker, weir_pool_free(stress->target.pool, block->address, worker->own_stream),
                       "a free in a capture");
}

/* What was freed in the capture is nobody else's either; but its place may be that of a later one. */
static void hold_places(struct worker *worker) {
    struct graph *graph = &worker->extras.graph;
    struct past other;
    for (unsigned i = 0; i < GRAPH_BLOCKS; i++)
        if (graph->blocks[i] != NULL && !graph->placed[i])
            graph->placed[i] = live_put(worker->stress->live, graph->blocks[i], &other);
}

static bool capture(struct worker *worker, struct draw *draw) {
    struct weir_pool *pool = worker->stress->target.pool;
    struct graph *graph = &worker->extras.graph;
    void *made = NULL;
    bool going = worker_good(worker, weir_pool_capture_begin(pool, graph->pool, worker->own_stream), "a capture") &&
                 done(worker, cu.begin(worker->own_stream, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
    for (unsigned i = 0; i < GRAPH_BLOCKS && going; i++) going = capture_one(worker, draw, i);
    going = going && done(worker, cu.end(worker->own_stream, &made), "cuStreamEndCapture") &&
            worker_good(worker, weir_pool_capture_end(pool, graph->pool), "a capture's end") &&
            done(worker, cu.instantiate(&graph->exec, made, 0), "cuGraphInstantiate") &&
            done(worker, cu.destroy(made), "cuGraphDestroy");
    hold_places(worker);
    return going;
}

static bool make_graph(struct worker *worker, struct draw *draw) {
    struct stress *stress = worker->stress;
    struct graph *graph = &worker->extras.graph;
    const struct weir_sub_pool_options options = {.size = sizeof options, .name = "stress: graph", .graph = true};
    bool going = true;
    *graph = (struct graph){.home = extra_stream(worker, draw)};
    if (!take_results(worker, draw, &going)) return graph_close(worker) && going;
    if (!worker_good(worker, weir_pool_create_sub(stress->target.pool, &options, &graph->pool), "a graph's pool") ||
        !worker_good(worker, weir_stream_create(stress->device, &worker->own_stream), "a stream"))
        return false;
    going = capture(worker, draw);
    return worker_good(worker, weir_stream_destroy(stress->device, worker->own_stream), "a stream's end") && going;
}

/* ---- launches --------------------------------------------------------------------------------------------------- */

/* On any stream, after what the results' stream has done so far; that one goes on after it. */
static bool launch(struct worker *worker, uint32_t stream) {
    const struct stress *stress = worker->stress;
    const struct graph *graph = &worker->extras.graph;
    const weir_stream handle = worker_stream(worker, stream);
    bool going = stream == graph->home || worker_order(worker, graph->home, stream);
    for (unsigned i = 0; i < GRAPH_BLOCKS && going; i++)
        if (graph->blocks[i] != NULL)
            going = worker_good(
                worker, weir_set(stress->device, graph->results[i]->address, 0, graph->results[i]->bytes, handle),
                "a set");
    going = going && done(worker, cu.launch(graph->exec, handle), "cuGraphLaunch");
    for (unsigned i = 0; i < GRAPH_BLOCKS && going; i++) going = worker_look(worker, graph->results[i], stream);
    return going && (stream == graph->home || worker_order(worker, stream, graph->home));
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static bool free_results(struct worker *worker) {
    struct graph *graph = &worker->extras.graph;
    bool going = true;
    for (unsigned i = 0; i < GRAPH_BLOCKS && going; i++) {
        struct block *result = graph->results[i];
        graph->results[i] = NULL;
        if (result != NULL) going = worker_free(worker, result, TARGET_STREAM);
    }
    return going;
}

/* Needs: the pool may be destroyed. */
static bool destroy_graph(struct worker *worker) {
    struct stress *stress = worker->stress;
    struct graph *graph = &worker->extras.graph;
    bool going = graph->exec == NULL || done(worker, cu.destroy_exec(graph->exec), "cuGraphExecDestroy");
    for (unsigned i = 0; i < GRAPH_BLOCKS; i++) /* one of those that no free in the capture gave back */
        if (going && graph->blocks[i] != NULL && graph->kept[i] && i % 2 == 0)
            going = worker_good(
                worker,
                weir_pool_free(stress->target.pool, graph->blocks[i]->address, worker_stream(worker, graph->home)),
                "a free of a graph's block");
    for (unsigned i = 0; i < GRAPH_BLOCKS; i++)
        if (graph->placed[i]) live_take(stress->live, graph->blocks[i]);
    extra_destroy_end(worker, graph->pool);
    for (unsigned i = 0; i < GRAPH_BLOCKS; i++)
        if (graph->blocks[i] != NULL) live_end(stress->live, graph->blocks[i]);
    going = free_results(worker) && going;
    *graph = (struct graph){0};
    return going;
}

bool graph_close(struct worker *worker) {
    if (worker->extras.graph.pool == NULL) return free_results(worker);
    extra_destroy_wait(worker);
    return destroy_graph(worker);
}

bool extra_graph(struct worker *worker, struct draw *draw) {
    const struct graph *graph = &worker->extras.graph;
    const bool ends = random_once_in(&draw->random, ENDS_ONCE_IN);
    if (graph->pool != NULL)
        return ends && extra_destroy_may(worker) ? destroy_graph(worker) : launch(worker, extra_stream(worker, draw));
    if (!extra_capture_may(worker)) return true;
    const bool going = make_graph(worker, draw);
    extra_capture_end(worker);
    return going;
}
