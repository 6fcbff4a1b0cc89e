/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the CUDA runtime whose memory is weir's: its cudaStream_t passes to the pool without a cast.
 *
 * By CMake package: see CMakeLists.txt. By pkg-config: cc link.c -o link $(pkg-config --cflags --libs weir) -I CUDA/include
 * -L CUDA/lib64 -lcudart. Without a GPU: LD_LIBRARY_PATH=$(pkg-config --variable=libdir weir)/weir/emu ./link */
#include <stdio.h>
#include <string.h>
#include <weir/faces.h>

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#else /* without the toolkit: what is used here, as it declares it */
typedef struct CUstream_st *cudaStream_t;
typedef int cudaError_t;
enum { cudaSuccess, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream);
const char *cudaGetErrorString(cudaError_t code);
#endif

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t code = (call);                                                                               \
        if (code != cudaSuccess) {                                                                                     \
            fprintf(stderr, "link: %s: %s\n", #call, cudaGetErrorString(code));                                        \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#define WEIR(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != WEIR_OK) {                                                                                       \
            fprintf(stderr, "link: %s: %s\n", #call, weir_last_error()->message);                                      \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { BYTES = 1 << 20 };
static char sent[BYTES], back[BYTES];

int main(void) {
    struct weir_pool *pool = NULL;
    struct weir_pool_stats stats = {.size = sizeof stats};
    cudaStream_t stream;
    void *block = NULL;
    memset(sent, 7, BYTES);
    CUDA(cudaStreamCreate(&stream));
    WEIR(weir_process_pool(0, &pool)); /* the one that weir's other faces in this process use too */

    WEIR(weir_pool_alloc(pool, BYTES, stream, &block)); /* in the place of cudaMallocAsync */
    CUDA(cudaMemcpyAsync(block, sent, BYTES, cudaMemcpyHostToDevice, stream));
    CUDA(cudaMemcpyAsync(back, block, BYTES, cudaMemcpyDeviceToHost, stream));
    WEIR(weir_pool_free(pool, block, stream)); /* in the place of cudaFreeAsync */

    CUDA(cudaStreamSynchronize(stream));
    WEIR(weir_pool_get_stats(pool, &stats));
    printf("%zu bytes came back as they went, peak live %zu, held %zu\n", sizeof back, stats.peak_live_bytes,
           stats.held_bytes);
    CUDA(cudaStreamDestroy(stream));
    return memcmp(sent, back, BYTES) != 0;
}
