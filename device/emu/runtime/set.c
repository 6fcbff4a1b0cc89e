/* SPDX-License-Identifier: Apache-2.0 */
/* Sets. The synchronous ones only wait where the driver's do. */
#include "device/emu/runtime/rt.h"

RT_PASS(cudaMemset, (void *at, int value, size_t bytes), cuMemsetD8_v2, (at, (unsigned char)value, bytes))
RT_PASS(cudaMemsetAsync, (void *at, int value, size_t bytes, cudaStream_t stream), cuMemsetD8Async,
        (at, (unsigned char)value, bytes, stream))

cudaError_t cudaMemset_ptds(void *at, int value, size_t bytes) {
    return cudaMemsetAsync(at, value, bytes, cudaStreamPerThread);
}
cudaError_t cudaMemsetAsync_ptsz(void *at, int value, size_t bytes, cudaStream_t stream) {
    return cudaMemsetAsync(at, value, bytes, rt_per_thread(stream));
}

/* ---- rows and slices -------------------------------------------------------------------------------------------- */

/* The legacy stream is set by the entry that may wait. */
static cudaError_t set_rows(void *at, size_t pitch, int value, size_t width_bytes, size_t height, cudaStream_t stream,
                            bool may_wait) {
    const unsigned char byte = (unsigned char)value;
    return may_wait ? RT_CALL(cuMemsetD2D8_v2, (at, pitch, byte, width_bytes, height))
                    : RT_CALL(cuMemsetD2D8Async, (at, pitch, byte, width_bytes, height, stream));
}

static cudaError_t set_3d(struct cudaPitchedPtr place, int value, struct cudaExtent extent, cudaStream_t stream,
                          bool may_wait) {
    cudaError_t code = rt_begin();
    if (code != cudaSuccess) return rt_end(code);
    if (extent.height > 1 && extent.width > place.pitch) return rt_end(cudaErrorInvalidPitchValue);
    if (extent.width == 0 || extent.height == 0) return cudaSuccess;
    for (size_t z = 0; code == cudaSuccess && z < extent.depth; z++)
        code = set_rows((char *)place.ptr + z * place.pitch * place.ysize, place.pitch, value, extent.width,
                        extent.height, stream, may_wait);
    return rt_end(code);
}

static cudaError_t set_2d(void *at, size_t pitch, int value, size_t width_bytes, size_t height, cudaStream_t stream,
                          bool may_wait) {
    const struct cudaPitchedPtr place = {.ptr = at, .pitch = pitch, .xsize = width_bytes, .ysize = height};
    const struct cudaExtent extent = {.width = width_bytes, .height = height, .depth = 1};
    return set_3d(place, value, extent, stream, may_wait);
}

cudaError_t cudaMemset2D(void *at, size_t pitch, int value, size_t width_bytes, size_t height) {
    return set_2d(at, pitch, value, width_bytes, height, NULL, true);
}
cudaError_t cudaMemset2D_ptds(void *at, size_t pitch, int value, size_t width_bytes, size_t height) {
    return set_2d(at, pitch, value, width_bytes, height, cudaStreamPerThread, false);
}
cudaError_t cudaMemset2DAsync(void *at, size_t pitch, int value, size_t width_bytes, size_t height,
                              cudaStream_t stream) {
    return set_2d(at, pitch, value, width_bytes, height, stream, false);
}
cudaError_t cudaMemset2DAsync_ptsz(void *at, size_t pitch, int value, size_t width_bytes, size_t height,
                                   cudaStream_t stream) {
    return set_2d(at, pitch, value, width_bytes, height, rt_per_thread(stream), false);
}
cudaError_t cudaMemset3D(struct cudaPitchedPtr place, int value, struct cudaExtent extent) {
    return set_3d(place, value, extent, NULL, true);
}
cudaError_t cudaMemset3D_ptds(struct cudaPitchedPtr place, int value, struct cudaExtent extent) {
    return set_3d(place, value, extent, cudaStreamPerThread, false);
}
cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr place, int value, struct cudaExtent extent, cudaStream_t stream) {
    return set_3d(place, value, extent, stream, false);
}
cudaError_t cudaMemset3DAsync_ptsz(struct cudaPitchedPtr place, int value, struct cudaExtent extent,
                                   cudaStream_t stream) {
    return set_3d(place, value, extent, rt_per_thread(stream), false);
}
