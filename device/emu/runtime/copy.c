/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and sets. A synchronous one goes to the legacy stream by the driver's synchronous entry, or to the per-thread
 * stream (_ptds), which is then waited for. */
#include "device/emu/runtime/rt.h"

/* ---- what a kind promises --------------------------------------------------------------------------------------- */

/* True when the device can't reach the address: host memory that the driver does not know. */
static bool out_of_reach(const void *address) {
    unsigned type = 0;
    int device, reachable = 0;
    if (RT_CALL(cuPointerGetAttribute, (&type, RT_POINTER_MEMORY_TYPE, address)) != cudaErrorInvalidValue) return false;
    if (rt_device(&device) != cudaSuccess) return false;
    (void)RT_CALL(cuDeviceGetAttribute, (&reachable, cudaDevAttrPageableMemoryAccess, device));
    return reachable == 0;
}

/* A kind that does not fit the addresses is undefined in CUDA; here it fails where it would on a device. */
static cudaError_t check_kind(const void *to, const void *from, enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return cudaSuccess;
    case cudaMemcpyHostToDevice:
        return out_of_reach(to) ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToHost:
        return out_of_reach(from) ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToDevice:
        return out_of_reach(to) || out_of_reach(from) ? cudaErrorInvalidValue : cudaSuccess;
    }
    return cudaErrorInvalidMemcpyDirection;
}

/* ---- plain ------------------------------------------------------------------------------------------------------ */

cudaError_t rt_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                    enum rt_wait wait) {
    const cudaError_t known = check_kind(to, from, bytes != 0 ? kind : cudaMemcpyDefault);
    if (known != cudaSuccess) return known;
    if (wait == RT_WAITS && stream == NULL) return RT_CALL(cuMemcpy, (to, from, bytes));
    const cudaError_t code = RT_CALL(cuMemcpyAsync, (to, from, bytes, stream));
    return code == cudaSuccess && wait == RT_WAITS ? RT_CALL(cuStreamSynchronize, (stream)) : code;
}

static cudaError_t begin_and_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                  cudaStream_t stream, enum rt_wait wait) {
    const cudaError_t begun = rt_begin();
    return rt_end(begun == cudaSuccess ? rt_copy(to, from, bytes, kind, stream, wait) : begun);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return begin_and_copy(to, from, bytes, kind, NULL, RT_WAITS);
}
cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return begin_and_copy(to, from, bytes, kind, cudaStreamPerThread, RT_WAITS);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return begin_and_copy(to, from, bytes, kind, stream, RT_ASYNC);
}
cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t stream) {
    return begin_and_copy(to, from, bytes, kind, rt_per_thread(stream), RT_ASYNC);
}

/* ---- between devices -------------------------------------------------------------------------------------------- */

static cudaError_t begin_peers(int to_device, int from_device, rt_context *to, rt_context *from) {
    cudaError_t code = rt_begin();
    if (code == cudaSuccess) code = rt_begin_with_device(to_device);
    if (code == cudaSuccess) code = rt_begin_with_device(from_device);
    if (code == cudaSuccess) code = rt_primary_context(to_device, to);
    return code == cudaSuccess ? rt_primary_context(from_device, from) : code;
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    rt_context there = NULL, here = NULL;
    const cudaError_t code = begin_peers(to_device, from_device, &there, &here);
    return rt_end(code == cudaSuccess ? RT_CALL(cuMemcpyPeer, (to, there, from, here, bytes)) : code);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream) {
    rt_context there = NULL, here = NULL;
    const cudaError_t code = begin_peers(to_device, from_device, &there, &here);
    return rt_end(code == cudaSuccess ? RT_CALL(cuMemcpyPeerAsync, (to, there, from, here, bytes, stream)) : code);
}

/* ---- rows and slices -------------------------------------------------------------------------------------------- */

struct place {
    char *at;
    size_t pitch, slice_bytes;
};

static void *address_of(const void *pointer) { return (void *)(size_t)pointer; }

static cudaError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                             size_t height, cudaStream_t stream, enum rt_wait wait) {
    const struct rt_copy_2d rows = {
        .from = {.type = RT_MEMORY_UNIFIED, .device = address_of(from), .pitch = from_pitch},
        .to = {.type = RT_MEMORY_UNIFIED, .device = to, .pitch = to_pitch},
        .width_bytes = width_bytes,
        .height = height,
    };
    if (wait == RT_WAITS && stream == NULL) return RT_CALL(cuMemcpy2DUnaligned_v2, (&rows));
    const cudaError_t code = RT_CALL(cuMemcpy2DAsync_v2, (&rows, stream));
    return code == cudaSuccess && wait == RT_WAITS ? RT_CALL(cuStreamSynchronize, (stream)) : code;
}

static cudaError_t copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                           size_t height, enum cudaMemcpyKind kind, cudaStream_t stream, enum rt_wait wait) {
    cudaError_t code = rt_begin();
    if (code != cudaSuccess) return rt_end(code);
    if (width_bytes > to_pitch || width_bytes > from_pitch) return rt_end(cudaErrorInvalidPitchValue);
    if (width_bytes == 0 || height == 0) return cudaSuccess;
    code = check_kind(to, from, kind);
    if (code == cudaSuccess) code = copy_rows(to, to_pitch, from, from_pitch, width_bytes, height, stream, wait);
    return rt_end(code);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                         size_t height, enum cudaMemcpyKind kind) {
    return copy_2d(to, to_pitch, from, from_pitch, width_bytes, height, kind, NULL, RT_WAITS);
}
cudaError_t cudaMemcpy2D_ptds(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                              size_t height, enum cudaMemcpyKind kind) {
    return copy_2d(to, to_pitch, from, from_pitch, width_bytes, height, kind, cudaStreamPerThread, RT_WAITS);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_2d(to, to_pitch, from, from_pitch, width_bytes, height, kind, stream, RT_ASYNC);
}
cudaError_t cudaMemcpy2DAsync_ptsz(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                                   size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_2d(to, to_pitch, from, from_pitch, width_bytes, height, kind, rt_per_thread(stream), RT_ASYNC);
}

static struct place place_of(struct cudaPitchedPtr pointer, struct cudaPos position) {
    const size_t slice = pointer.pitch * pointer.ysize;
    return (struct place){
        .at = (char *)pointer.ptr + position.z * slice + position.y * pointer.pitch + position.x,
        .pitch = pointer.pitch,
        .slice_bytes = slice,
    };
}

/* Slice by slice; without arrays, for which the emulated device has no texture units. */
static cudaError_t copy_3d(const struct cudaMemcpy3DPeerParms *what, enum cudaMemcpyKind kind, cudaStream_t stream,
                           enum rt_wait wait) {
    cudaError_t code = rt_begin();
    if (code != cudaSuccess) return rt_end(code);
    if (what->srcArray != NULL || what->dstArray != NULL) return rt_end(rt_missing("a copy of a CUDA array"));
    const struct cudaExtent extent = what->extent;
    if (extent.width > what->srcPtr.pitch || extent.width > what->dstPtr.pitch)
        return rt_end(cudaErrorInvalidPitchValue);
    if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
    const struct place from = place_of(what->srcPtr, what->srcPos), to = place_of(what->dstPtr, what->dstPos);
    code = check_kind(to.at, from.at, kind);
    for (size_t z = 0; code == cudaSuccess && z < extent.depth; z++)
        code = copy_rows(to.at + z * to.slice_bytes, to.pitch, from.at + z * from.slice_bytes, from.pitch, extent.width,
                         extent.height, stream, wait);
    return rt_end(code);
}

static cudaError_t copy_3d_here(const struct cudaMemcpy3DParms *what, cudaStream_t stream, enum rt_wait wait) {
    if (what == NULL) return rt_end(cudaErrorInvalidValue);
    const struct cudaMemcpy3DPeerParms same = {
        .srcArray = what->srcArray,
        .srcPos = what->srcPos,
        .srcPtr = what->srcPtr,
        .dstArray = what->dstArray,
        .dstPos = what->dstPos,
        .dstPtr = what->dstPtr,
        .extent = what->extent,
    };
    return copy_3d(&same, what->kind, stream, wait);
}

static cudaError_t copy_3d_peer(const struct cudaMemcpy3DPeerParms *what, cudaStream_t stream, enum rt_wait wait) {
    return what == NULL ? rt_end(cudaErrorInvalidValue) : copy_3d(what, cudaMemcpyDefault, stream, wait);
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *what) { return copy_3d_here(what, NULL, RT_WAITS); }
cudaError_t cudaMemcpy3D_ptds(const struct cudaMemcpy3DParms *what) {
    return copy_3d_here(what, cudaStreamPerThread, RT_WAITS);
}
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *what, cudaStream_t stream) {
    return copy_3d_here(what, stream, RT_ASYNC);
}
cudaError_t cudaMemcpy3DAsync_ptsz(const struct cudaMemcpy3DParms *what, cudaStream_t stream) {
    return copy_3d_here(what, rt_per_thread(stream), RT_ASYNC);
}
cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *what) { return copy_3d_peer(what, NULL, RT_WAITS); }
cudaError_t cudaMemcpy3DPeer_ptds(const struct cudaMemcpy3DPeerParms *what) {
    return copy_3d_peer(what, cudaStreamPerThread, RT_WAITS);
}
cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *what, cudaStream_t stream) {
    return copy_3d_peer(what, stream, RT_ASYNC);
}
cudaError_t cudaMemcpy3DPeerAsync_ptsz(const struct cudaMemcpy3DPeerParms *what, cudaStream_t stream) {
    return copy_3d_peer(what, rt_per_thread(stream), RT_ASYNC);
}
