/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that graphs allocate. It has its addresses, and here its pages too, from the capture of the allocation until
 * the last graph that names it is gone; a launch reaches the allocation and makes it live, and a free ends that.
 *
 * All functions need the lock. */
#ifndef WEIR_EMU_GRAPH_MEMORY_H
#define WEIR_EMU_GRAPH_MEMORY_H

#include "device/emu/emu.h"

struct emu_graph_memory {
    struct emu_graph_memory *next; /* of all */
    unsigned references;           /* by tasks */
    uintptr_t start;
    size_t bytes;
    CUmemGenericAllocationHandle page;
    bool live;     /* allocated by a launch and not freed yet */
    bool prepared; /* there is an executable graph that allocates it: one at a time */
};

/* With one reference. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult emu_graph_memory_make(CUdevice device, size_t bytes, struct emu_graph_memory **memory);
void emu_graph_memory_drop(struct emu_graph_memory *memory);
/* What starts there, or NULL. */
struct emu_graph_memory *emu_graph_memory_at(uintptr_t start);

#endif
