/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and graphs, as programs make them: by the driver's own entries. */
#ifndef WEIR_TESTS_ALLOC_GRAPHS_H
#define WEIR_TESTS_ALLOC_GRAPHS_H

#include "tests/alloc/support.h"

typedef struct CUgraphExec_st *graph_exec;

/* Finds the entries and makes the device's context the thread's. For a group's setup. */
int load_graphs(void **state);

void begin_capture(weir_stream stream, CUstreamCaptureMode mode);
bool captures_well(weir_stream stream); /* it captures, and the capture is whole */
/* Needs a capture that is whole. */
graph_exec end_capture(weir_stream stream);
void launch_graph(graph_exec exec, weir_stream stream);
void destroy_graph(graph_exec exec);

/* Runs `body` once for each mode that a capture may have. */
void with_capture_modes(void (*body)(CUstreamCaptureMode mode));

struct weir_pool *open_graph_pool(struct weir_pool *parent);

bool lie_apart(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

#endif
