/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that copy and set, beside the two that the library uses. A synchronous one works on the default stream and
 * waits where host memory is touched; so does an asynchronous one with pageable memory. Arrays are not there. */
#include "device/emu/enter.h"
#include "device/emu/machine.h"
#include "device/emu/memory.h"
#include "device/emu/submit.h"
#include "device/emu/variants.h"

static CUstream default_stream(void) { return emu_default_is_own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY; }

static struct emu_rows one_row(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return (struct emu_rows){(uintptr_t)to, (uintptr_t)from, bytes, 1, bytes, bytes};
}

static CUresult copy_now(enum emu_entry entry, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                         enum emu_copy_kind kind) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(entry, default_stream(), &queue);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_rows rows = one_row(to, from, bytes);
    return emu_leave(emu_submit_copy_and_wait(queue, &rows, kind));
}

static CUresult copy_on(enum emu_entry entry, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                        enum emu_copy_kind kind) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(entry, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    const struct emu_rows rows = one_row(to, from, bytes);
    return emu_leave(emu_submit_copy(queue, &rows, kind));
}

/* ---- one row ---------------------------------------------------------------------------------------------------- */

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy_now(EMU_AT_cuMemcpy, to, from, bytes, EMU_COPY_ANY);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    return copy_now(EMU_AT_cuMemcpyHtoD_v2, to, (uintptr_t)from, bytes, EMU_COPY_TO_DEVICE);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    return copy_now(EMU_AT_cuMemcpyDtoH_v2, (uintptr_t)to, from, bytes, EMU_COPY_TO_HOST);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy_now(EMU_AT_cuMemcpyDtoD_v2, to, from, bytes, EMU_COPY_WITHIN);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return copy_on(EMU_AT_cuMemcpyHtoDAsync_v2, to, (uintptr_t)from, bytes, stream, EMU_COPY_TO_DEVICE);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_on(EMU_AT_cuMemcpyDtoHAsync_v2, (uintptr_t)to, from, bytes, stream, EMU_COPY_TO_HOST);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_on(EMU_AT_cuMemcpyDtoDAsync_v2, to, from, bytes, stream, EMU_COPY_WITHIN);
}

CUresult weirEmuCopyTime(CUdeviceptr to, CUdeviceptr from, size_t bytes, double *ns) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (to == 0 || ns == NULL) return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    const CUresult code = emu_submit_time(to, from, bytes, ns);
    emu_unlock();
    return code;
}

/* ---- between devices -------------------------------------------------------------------------------------------- */

/* All devices share the process's addresses, so the contexts are only checked. Needs the lock. */
static bool exists(CUcontext context) {
    for (CUdevice device = 0; emu_device_exists(device); device++)
        for (CUcontext each = emu_contexts(device); each != NULL; each = each->next)
            if (each == context) return emu_context_alive(each);
    return false;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuMemcpyPeer, default_stream(), &queue);
    if (code != CUDA_SUCCESS) return code;
    if (!exists(to_context) || !exists(from_context)) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    const struct emu_rows rows = one_row(to, from, bytes);
    return emu_leave(emu_submit_copy_and_wait(queue, &rows, EMU_COPY_WITHIN));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(EMU_AT_cuMemcpyPeerAsync, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    if (!exists(to_context) || !exists(from_context)) return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    const struct emu_rows rows = one_row(to, from, bytes);
    return emu_leave(emu_submit_copy(queue, &rows, EMU_COPY_WITHIN));
}

/* ---- rows and slices -------------------------------------------------------------------------------------------- */

/* One side of a copy, as the structures name it. */
struct side {
    CUmemorytype type;
    uintptr_t host, device;
    size_t x, y, z, pitch, height;
};

struct box {
    struct side to, from;
    size_t width, height, depth;
};

/* *start: where the first row begins; the pitch may be left out where there is one row. */
static CUresult place_side(struct side *side, const struct box *box, uintptr_t *start) {
    if (side->type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
    if (side->type < CU_MEMORYTYPE_HOST || side->type > CU_MEMORYTYPE_UNIFIED) return CUDA_ERROR_INVALID_VALUE;
    if (side->pitch == 0) side->pitch = side->x + box->width;
    if (side->height == 0) side->height = side->y + box->height;
    if (side->x > side->pitch || box->width > side->pitch - side->x) return CUDA_ERROR_INVALID_VALUE;
    if (box->depth > 1 && box->height > side->height) return CUDA_ERROR_INVALID_VALUE;
    const uintptr_t base = side->type == CU_MEMORYTYPE_HOST ? side->host : side->device;
    *start = base == 0 ? 0 : base + (side->z * side->height + side->y) * side->pitch + side->x;
    return CUDA_SUCCESS;
}

static enum emu_copy_kind kind_of(const struct box *box) {
    const bool to = box->to.type == CU_MEMORYTYPE_DEVICE, from = box->from.type == CU_MEMORYTYPE_DEVICE;
    if (to && from) return EMU_COPY_WITHIN;
    return to ? EMU_COPY_TO_DEVICE : from ? EMU_COPY_TO_HOST : EMU_COPY_ANY;
}

/* A slice is an operation of its own. */
static CUresult copy_box(struct emu_queue *queue, struct box *box, bool wait) {
    struct emu_rows rows = {.bytes = box->width, .rows = box->height};
    if (box->width == 0 || box->height == 0 || box->depth == 0) return CUDA_SUCCESS;
    CUresult code = place_side(&box->to, box, &rows.to);
    if (code == CUDA_SUCCESS) code = place_side(&box->from, box, &rows.from);
    rows.to_pitch = box->to.pitch;
    rows.from_pitch = box->from.pitch;
    for (size_t slice = 0; slice < box->depth && code == CUDA_SUCCESS; slice++) {
        code =
            wait ? emu_submit_copy_and_wait(queue, &rows, kind_of(box)) : emu_submit_copy(queue, &rows, kind_of(box));
        rows.to += box->to.height * box->to.pitch;
        rows.from += box->from.height * box->from.pitch;
    }
    return code;
}

static CUresult enter_box(enum emu_entry entry, struct box box, bool valid, CUstream stream, bool wait) {
    struct emu_queue *queue;
    const CUresult code = emu_enter_stream(entry, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    return emu_leave(valid ? copy_box(queue, &box, wait) : CUDA_ERROR_INVALID_VALUE);
}

static struct box box_of_2d(const CUDA_MEMCPY2D *copy) {
    if (copy == NULL) return (struct box){0};
    return (struct box){.to = {copy->dstMemoryType, (uintptr_t)copy->dstHost, (uintptr_t)copy->dstDevice,
                               copy->dstXInBytes, copy->dstY, 0, copy->dstPitch, 0},
                        .from = {copy->srcMemoryType, (uintptr_t)copy->srcHost, (uintptr_t)copy->srcDevice,
                                 copy->srcXInBytes, copy->srcY, 0, copy->srcPitch, 0},
                        .width = copy->WidthInBytes,
                        .height = copy->Height,
                        .depth = 1};
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) {
    return enter_box(EMU_AT_cuMemcpy2D_v2, box_of_2d(copy), copy != NULL, default_stream(), true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) {
    return enter_box(EMU_AT_cuMemcpy2DUnaligned_v2, box_of_2d(copy), copy != NULL, default_stream(), true);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
    return enter_box(EMU_AT_cuMemcpy2DAsync_v2, box_of_2d(copy), copy != NULL, stream, false);
}

/* Of either structure: their members have the same names. */
#define BOX_OF_3D(copy)                                                                                                \
    (struct box) {                                                                                                     \
        .to = {copy->dstMemoryType,                                                                                    \
               (uintptr_t)copy->dstHost,                                                                               \
               (uintptr_t)copy->dstDevice,                                                                             \
               copy->dstXInBytes,                                                                                      \
               copy->dstY,                                                                                             \
               copy->dstZ,                                                                                             \
               copy->dstPitch,                                                                                         \
               copy->dstHeight},                                                                                       \
        .from = {copy->srcMemoryType,                                                                                  \
                 (uintptr_t)copy->srcHost,                                                                             \
                 (uintptr_t)copy->srcDevice,                                                                           \
                 copy->srcXInBytes,                                                                                    \
                 copy->srcY,                                                                                           \
                 copy->srcZ,                                                                                           \
                 copy->srcPitch,                                                                                       \
                 copy->srcHeight},                                                                                     \
        .width = copy->WidthInBytes, .height = copy->Height, .depth = copy->Depth                                      \
    }

static struct box box_of_3d(const CUDA_MEMCPY3D *copy) { return copy == NULL ? (struct box){0} : BOX_OF_3D(copy); }

static struct box box_of_peer(const CUDA_MEMCPY3D_PEER *copy) {
    return copy == NULL ? (struct box){0} : BOX_OF_3D(copy);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) {
    return enter_box(EMU_AT_cuMemcpy3D_v2, box_of_3d(copy), copy != NULL, default_stream(), true);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) {
    return enter_box(EMU_AT_cuMemcpy3DAsync_v2, box_of_3d(copy), copy != NULL, stream, false);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy) {
    return enter_box(EMU_AT_cuMemcpy3DPeer, box_of_peer(copy), copy != NULL, default_stream(), true);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream) {
    return enter_box(EMU_AT_cuMemcpy3DPeerAsync, box_of_peer(copy), copy != NULL, stream, false);
}

/* ---- sets ------------------------------------------------------------------------------------------------------- */

/* A set of device memory is asynchronous in both forms; one of pinned memory is over when the synchronous form
 * returns. */
static CUresult set(enum emu_entry entry, CUdeviceptr at, uint32_t value, unsigned unit, size_t count, size_t rows,
                    size_t pitch, CUstream stream, bool wait) {
    struct emu_queue *queue;
    CUresult code = emu_enter_stream(entry, stream, &queue);
    if (code != CUDA_SUCCESS) return code;
    code = emu_submit_set(queue, (uintptr_t)at, value, unit, count, rows, pitch);
    if (wait && code == CUDA_SUCCESS && count > 0 && rows > 0 &&
        emu_memory_place((uintptr_t)at, unit, true) != EMU_PLACE_DEVICE)
        code = emu_stream_wait(queue);
    return emu_leave(code);
}

#define SETS(bits, type)                                                                                               \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr at, type value, size_t count) {                                          \
        return set(EMU_AT_cuMemsetD##bits##_v2, at, value, bits / 8, count, 1, count * (bits / 8), default_stream(),   \
                   true);                                                                                              \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height) {           \
        return set(EMU_AT_cuMemsetD2D##bits##_v2, at, value, bits / 8, width, height, pitch, default_stream(), true);  \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height,           \
                                      CUstream stream) {                                                               \
        return set(EMU_AT_cuMemsetD2D##bits##Async, at, value, bits / 8, width, height, pitch, stream, false);         \
    }
SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned)

CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t count, CUstream stream) {
    return set(EMU_AT_cuMemsetD16Async, at, value, 2, count, 1, count * 2, stream, false);
}

CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream) {
    return set(EMU_AT_cuMemsetD32Async, at, value, 4, count, 1, count * 4, stream, false);
}
