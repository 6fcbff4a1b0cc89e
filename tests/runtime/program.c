/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA program in C as anyone might write it, which knows nothing of the emulator: pinned buffers go to the device on
 * one stream, are changed there, and come back on another, with events between. */
#include <string.h>

#include "tests/runtime/runtime.h"

enum { BYTES = 1 << 20, ROUNDS = 8 };

static void tell_the_device(void) {
    int devices = 0, device = -1, runtime = 0, driver = 0, threads = 0;
    CUDA(cudaGetDeviceCount(&devices));
    CHECK(devices >= 1);
    CUDA(cudaSetDevice(0));
    CUDA(cudaGetDevice(&device));
    CHECK(device == 0);
    CUDA(cudaRuntimeGetVersion(&runtime));
    CUDA(cudaDriverGetVersion(&driver));
    CHECK(driver >= runtime);
    CUDA(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, 0));
    CHECK(threads >= 512);
#if !defined(RT_MAJOR) || RT_MAJOR == 13
    struct cudaDeviceProp properties;
    CUDA(cudaGetDeviceProperties(&properties, 0));
#else
    struct rt_device_prop_12 properties;
    CUDA(cudaGetDeviceProperties_v2(&properties, 0));
#endif
    size_t free_bytes = 0, total_bytes = 0;
    CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    CHECK(properties.totalGlobalMem == total_bytes && free_bytes <= total_bytes);
    CHECK(properties.maxThreadsPerBlock == threads && properties.warpSize == 32);
    printf("%s, compute capability %d.%d, %zu MiB\n", properties.name, properties.major, properties.minor,
           properties.totalGlobalMem >> 20);
}

static void count_up(void *argument) { ++*(int *)argument; }

static void go_there_and_back(void) {
    char *host, *back, *device;
    cudaStream_t in, out;
    cudaEvent_t begun, there, done;
    int least, greatest, count = 0;
    CUDA(cudaMallocHost((void **)&host, BYTES));
    CUDA(cudaHostAlloc((void **)&back, BYTES, cudaHostAllocDefault));
    CUDA(cudaMalloc((void **)&device, BYTES));
    CUDA(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
    CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA(cudaStreamCreateWithPriority(&out, cudaStreamNonBlocking, greatest));
    CUDA(cudaEventCreate(&begun));
    CUDA(cudaEventCreate(&done));
    CUDA(cudaEventCreateWithFlags(&there, cudaEventDisableTiming));
    for (int round = 1; round <= ROUNDS; round++) {
        memset(host, round, BYTES);
        CUDA(cudaEventRecord(begun, in));
        CUDA(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, in));
        CUDA(cudaMemsetAsync(device, 0x55, BYTES / 4, in));
        CUDA(cudaEventRecord(there, in));
        CUDA(cudaStreamWaitEvent(out, there, 0));
        CUDA(cudaMemcpyAsync(back, device, BYTES, cudaMemcpyDeviceToHost, out));
        CUDA(cudaLaunchHostFunc(out, count_up, &count));
        CUDA(cudaEventRecord(done, out));
        CUDA(cudaEventSynchronize(done));
        CHECK(count == round);
        CHECK(back[0] == 0x55 && back[BYTES / 4 - 1] == 0x55 && back[BYTES / 4] == round && back[BYTES - 1] == round);
        float ms = -1;
        CUDA(cudaEventElapsedTime(&ms, begun, done));
        CHECK(ms >= 0);
    }
    CUDA(cudaStreamQuery(in));
    CUDA(cudaEventDestroy(begun));
    CUDA(cudaEventDestroy(there));
    CUDA(cudaEventDestroy(done));
    CUDA(cudaStreamDestroy(in));
    CUDA(cudaStreamDestroy(out));
    CUDA(cudaFree(device));
    CUDA(cudaFreeHost(host));
    CUDA(cudaFreeHost(back));
}

static void move_a_picture(void) {
    enum { WIDTH = 100, HEIGHT = 10 };
    char picture[HEIGHT][WIDTH], back[HEIGHT][WIDTH];
    char *device;
    size_t pitch;
    for (int y = 0; y < HEIGHT; y++) memset(picture[y], y + 1, WIDTH);
    CUDA(cudaMallocPitch((void **)&device, &pitch, WIDTH, HEIGHT));
    CHECK(pitch >= WIDTH);
    CUDA(cudaMemcpy2D(device, pitch, picture, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
    CUDA(cudaMemset2D(device, pitch, 0x7F, 3, HEIGHT));
    CUDA(cudaMemcpy2D(back, WIDTH, device, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    for (int y = 0; y < HEIGHT; y++) CHECK(back[y][0] == 0x7F && back[y][2] == 0x7F && back[y][3] == y + 1);
    CUDA(cudaFree(device));
}

static void use_stream_ordered_memory(void) {
    cudaStream_t stream;
    cudaMemPool_t pool;
    int *device, value = 7, back = 0;
    unsigned long long keep = ~0ull;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
    CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaMallocAsync((void **)&device, sizeof *device, stream));
        CUDA(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyHostToDevice, stream));
        CUDA(cudaMemcpyAsync(&back, device, sizeof back, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaFreeAsync(device, stream));
    }
    CUDA(cudaStreamSynchronize(stream));
    CHECK(back == value);
    CUDA(cudaStreamDestroy(stream));
}

static void replay_a_graph(void) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    enum cudaStreamCaptureStatus status;
    char *device, back[16];
    CUDA(cudaMalloc((void **)&device, sizeof back));
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUDA(cudaMemsetAsync(device, 3, sizeof back, stream));
    CUDA(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaMemset(device, 1, sizeof back));
        CUDA(cudaGraphLaunch(executable, stream));
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost));
        CHECK(back[0] == 3 && back[15] == 3);
    }
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(device));
}

static void see_errors(void) {
    void *device;
    CHECK(cudaMalloc(&device, (size_t)1 << 60) == cudaErrorMemoryAllocation);
    CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
    CHECK(strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation") == 0);
    CHECK(cudaGetLastError() == cudaSuccess);
}

int main(void) {
    tell_the_device();
    go_there_and_back();
    move_a_picture();
    use_stream_ordered_memory();
    replay_a_graph();
    see_errors();
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaDeviceReset());
    puts("all as it should be");
    return 0;
}
