/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA program with kernels as anyone might write it: variables, templates, launches in every form. On an emulated
 * device kernels do nothing, so it looks at what the calls say and at what copies bring, not at results. */
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)

__device__ int counter;
__constant__ float table[16];
__managed__ int both_see;

__global__ void add(int *values, int n) {
    values[threadIdx.x] += n + counter + both_see + (int)table[threadIdx.x % 16];
}

template <class T> __global__ void fill(T *values, T value) { values[blockIdx.x * blockDim.x + threadIdx.x] = value; }

__global__ void together(int *values) {
    cooperative_groups::this_grid().sync();
    values[0] = 1;
}

static int *launched_inside(int *values, cudaStream_t stream) {
    fill<int><<<1, 32, 0, stream>>>(values, 1);
    return values;
}

int main() {
    int *values, value = 5, back = 0;
    cudaStream_t stream;
    cudaEvent_t event;
    CUDA(cudaMalloc(&values, 1 << 16));
    CUDA(cudaMemset(values, 0, 1 << 16));
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&event));

    add<<<1, 128>>>(values, 1);
    CUDA(cudaGetLastError());
    fill<float><<<dim3(4, 2), dim3(16, 16), 1024, stream>>>((float *)values, 2.0f);
    CUDA(cudaGetLastError());
    add<<<1, 32, 0, stream>>>(launched_inside(values, stream), 2); /* the arguments launch, too */
    CUDA(cudaGetLastError());
    add<<<1, 32, 0, cudaStreamPerThread>>>(values, 3);
    CUDA(cudaGetLastError());
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaEventSynchronize(event));

    add<<<1, 2048>>>(values, 1); /* too many threads */
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    add<<<0, 32>>>(values, 1);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);

    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 64;
    config.stream = stream;
    CUDA(cudaLaunchKernelEx(&config, add, values, 4));
    void *arguments[] = {&values};
    CUDA(cudaLaunchCooperativeKernel(together, 1, 32, arguments));
    CHECK(cudaLaunchKernel((void *)&value, 1, 1, arguments, 0, stream) == cudaErrorInvalidDeviceFunction);
    CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);

    cudaFuncAttributes attributes;
    CUDA(cudaFuncGetAttributes(&attributes, add));
    CHECK(attributes.maxThreadsPerBlock >= 128);
    CUDA(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
    const char *name = nullptr;
    CUDA(cudaFuncGetName(&name, (const void *)add));
    CHECK(name != nullptr && name[0] == '_');
    int blocks = 0;
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, 0));
    CHECK(blocks >= 1);

    CUDA(cudaMemcpyToSymbol(counter, &value, sizeof value));
    CUDA(cudaMemcpyFromSymbol(&back, counter, sizeof back));
    CHECK(back == value);
    float row[16] = {1, 2, 3}, row_back[16] = {};
    CUDA(cudaMemcpyToSymbolAsync(table, row, sizeof row, 0, cudaMemcpyHostToDevice, stream));
    CUDA(cudaMemcpyFromSymbolAsync(row_back, table, sizeof row, 0, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(row_back[2] == 3);
    CHECK(cudaMemcpyToSymbol(table, row, sizeof row, 4) == cudaErrorInvalidValue); /* past its end */
    void *address;
    size_t bytes;
    CUDA(cudaGetSymbolAddress(&address, counter));
    CUDA(cudaGetSymbolSize(&bytes, table));
    CHECK(address != nullptr && bytes == sizeof row);
    CUDA(cudaMemset(address, 0, sizeof counter));
    CUDA(cudaMemcpyFromSymbol(&back, counter, sizeof back));
    CHECK(back == 0);
    both_see = 4;
    CUDA(cudaDeviceSynchronize());
    CHECK(both_see == 4);

    CUDA(cudaEventDestroy(event));
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(values));
    CUDA(cudaDeviceSynchronize());
    puts("all as it should be");
    return 0;
}
