/* SPDX-License-Identifier: Apache-2.0 */
/* Faces: one pool a device for the whole process, and C functions of the shapes that other programs' allocators take.
 *
 * Every face of a process, the preloaded library too, uses the same pool of a device, so that what one frees serves the others.
 * It is made at first use, with what WEIR_OPTIONS says, and never destroyed: the system takes its memory back at exit.
 *
 * Errors: functions that can't answer with a status answer as their caller expects it: NULL, or nothing. weir_last_error() has
 * the sentence, and WEIR_LOG (off by default in a library) writes it.
 * Threads: any. After a fork the child has no pool: allocations answer NULL. */
#ifndef WEIR_FACES_H
#define WEIR_FACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "weir/pool.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Gives: the pool of the driver's device `ordinal`, which the faces use. Where WEIR_OPTIONS does not say `movable`, pages stay
 * where they are in it (off): programs behind a face may register addresses with a network, unseen. Where it does not say
 * `wait_limit`, there is none while memory that was freed without a stream is in use. Not to be destroyed.
 * Fails: WEIR_INVALID for a number below 0 or above 63; as weir_device_open and weir_pool_create; *out is NULL, and the next
 * call tries again. */
WEIR_API enum weir_status weir_process_pool(int ordinal, struct weir_pool **out);

/* What callers got wrong, or where they do not agree with weir's own record, which wins. */
struct weir_face_counts {
    size_t size;        /* in: sizeof(struct weir_face_counts) */
    uint64_t odd_sizes; /* frees that named another size than was asked for; the first one is logged */
    uint64_t strangers; /* frees and uses of what is no live block: nothing happened, and each is logged */
};
/* Fails: WEIR_INVALID without a size. */
WEIR_API enum weir_status weir_face_get_counts(struct weir_face_counts *counts);

/* ---- PyTorch: torch.cuda.memory.CUDAPluggableAllocator (docs/faces.md; weir_torch.py sets all of them) ------------- */

/* Gives: memory of the device that is ready for use on `stream`; bytes == 0: a unique address of no size.
 * Fails: NULL, with the reason in weir_last_error(). Inside a MemPool that is what PyTorch expects: it gives its caches back and tries
 * again. As the process's allocator it must not see NULL, which it takes for memory: weir_torch_alloc_or_throw of
 * libweir-torch.so throws. */
WEIR_API void *weir_torch_alloc(ssize_t bytes, int device, weir_stream stream);
/* Takes a block back: its uses on `stream` so far are over before it serves others, and those that were told of. */
WEIR_API void weir_torch_free(void *block, ssize_t bytes, int device, weir_stream stream);
/* Tells that `stream` uses the block too (Tensor.record_stream); the position is taken at the free. */
WEIR_API void weir_torch_record_stream(void *block, weir_stream stream);
/* Pools are made at first use: nothing. */
WEIR_API void weir_torch_init(int device_count);
/* torch.cuda.empty_cache: all that is idle on every device goes back to the driver. Waits for the devices' work, but while
 * a stream is captured. */
WEIR_API void weir_torch_reset(void);
/* The limit of the device's pool as a fraction of its memory, from 0 (one page) to 1. */
WEIR_API void weir_torch_memory_fraction(double fraction, int device);
/* Gives: the start and the rounded size of the block that an address lies in; the address itself and 0 for a stranger's. */
WEIR_API void *weir_torch_base_alloc(void *address, size_t *bytes);

/* Requests between begin and end that `filter` is true for belong to a pool of PyTorch's: those on streams that capture a graph are served
 * from memory that is the graph's until the pool has been released as often as it was begun and the last block is freed. Other
 * requests are served as ever. `self` is passed on to filter and drop; drop is called once, when filter will not be called
 * again. filter is called under a lock and must not call weir. end may come before or after the driver's end of the capture. */
struct weir_torch_pool {
    uint64_t first, second; /* MempoolId */
};
typedef bool weir_torch_filter(void *self, weir_stream stream);
WEIR_API void weir_torch_begin_pool(int device, struct weir_torch_pool id, weir_torch_filter *filter,
                                    void (*drop)(void *self), void *self);
WEIR_API void weir_torch_end_pool(int device, struct weir_torch_pool id);
WEIR_API void weir_torch_release_pool(int device, struct weir_torch_pool id);

/* ---- CuPy: cupy.cuda.memory.CFunctionAllocator --------------------------------------------------------------------- */

/* Blocks of no stream: ready for use on every stream at once, and unused once all that is queued at the free has passed.
 * `param` is not looked at. Fails: NULL, which CuPy does not look for: weir_cupy.py does. */
WEIR_API void *weir_cupy_malloc(void *param, size_t bytes, int device);
WEIR_API void weir_cupy_free(void *param, void *block, int device);

/* ---- RMM: callback_memory_resource, and weir/rmm.hpp --------------------------------------------------------------- */

/* arg: NULL, then it is the device of the thread's context, else 0; or which. The library does not keep it. */
struct weir_face_device {
    size_t size; /* sizeof(struct weir_face_device) */
    int ordinal;
};
/* Aligned to 512. Fails: NULL. */
WEIR_API void *weir_rmm_alloc(size_t bytes, weir_stream stream, void *arg);
WEIR_API void weir_rmm_free(void *block, size_t bytes, weir_stream stream, void *arg);

/* ---- NCCL: ncclMemAlloc and ncclMemFree ---------------------------------------------------------------------------- */

/* Gives: a buffer on the device of the thread's context, else 0, alone on a shareable handle, in whole pages, never moved, that the
 * other devices which can may use too: for ncclCommRegister and ncclCommWindowRegister. Where memory can't be shared, an
 * ordinary block that is not moved. bytes == 0: NULL.
 * Fails: as an ncclResult_t: 1 (the driver, or no memory), 2 (the system), 3 (inside weir), 4 (an argument), 5 (not here). *out is NULL. */
WEIR_API int weir_nccl_mem_alloc(void **out, size_t bytes);
/* The buffer must be registered with no communicator any more. NULL is allowed. Fails: 4 for what is none. */
WEIR_API int weir_nccl_mem_free(void *buffer);

#if defined(__cplusplus)
}
#endif
#endif
