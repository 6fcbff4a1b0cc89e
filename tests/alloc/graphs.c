/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/alloc/graphs.h"

#include <dlfcn.h>

#include "device/emu/entries.h"

static struct {
    CUresult (*begin)(CUstream, CUstreamCaptureMode);
    CUresult (*end)(CUstream, CUgraph *);
    CUresult (*status)(CUstream, CUstreamCaptureStatus *);
    CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
    CUresult (*launch)(CUgraphExec, CUstream);
    CUresult (*destroy)(CUgraph);
    CUresult (*destroy_exec)(CUgraphExec);
} cu;

int load_graphs(void **state) {
    (void)state;
    void *library = dlopen(test_device()->driver->path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return -1;
    *(void **)&cu.begin = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)&cu.end = dlsym(library, "cuStreamEndCapture");
    *(void **)&cu.status = dlsym(library, "cuStreamIsCapturing");
    *(void **)&cu.instantiate = dlsym(library, "cuGraphInstantiateWithFlags");
    *(void **)&cu.launch = dlsym(library, "cuGraphLaunch");
    *(void **)&cu.destroy = dlsym(library, "cuGraphDestroy");
    *(void **)&cu.destroy_exec = dlsym(library, "cuGraphExecDestroy");
    return test_device()->driver->context_push(test_device()->context) == CUDA_SUCCESS ? 0 : -1;
}

#define DONE(call) assert_int_equal(call, CUDA_SUCCESS)

void begin_capture(weir_stream stream, CUstreamCaptureMode mode) { DONE(cu.begin(stream, mode)); }

bool captures_well(weir_stream stream) {
    CUstreamCaptureStatus status;
    DONE(cu.status(stream, &status));
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

graph_exec end_capture(weir_stream stream) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    assert_true(captures_well(stream));
    DONE(cu.end(stream, &graph));
    DONE(cu.instantiate(&exec, graph, 0));
    DONE(cu.destroy(graph));
    return exec;
}

void launch_graph(graph_exec exec, weir_stream stream) { DONE(cu.launch(exec, stream)); }

void destroy_graph(graph_exec exec) { DONE(cu.destroy_exec(exec)); }

void with_capture_modes(void (*body)(CUstreamCaptureMode mode)) {
    body(CU_STREAM_CAPTURE_MODE_GLOBAL);
    body(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    body(CU_STREAM_CAPTURE_MODE_RELAXED);
}

struct weir_pool *open_graph_pool(struct weir_pool *parent) {
    struct weir_pool *graph = NULL;
    struct weir_sub_pool_options options = {.size = sizeof options, .name = "graph", .graph = true};
    OK(weir_pool_create_sub(parent, &options, &graph));
    return graph;
}

bool lie_apart(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return (const char *)a + a_bytes <= (const char *)b || (const char *)b + b_bytes <= (const char *)a;
}
