/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the CUDA driver as people write them: the Toolkit's cuda.h alone, linked to libcuda.so.1. It is built
 * twice, with the legacy default stream and with each thread's own. Exit status 0: all was as it should be. */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, WIDTH = 1000, ROWS = 50 };

static int failures;

static void check(CUresult code, const char *call) {
    const char *name = "unknown";
    if (code == CUDA_SUCCESS) return;
    cuGetErrorName(code, &name);
    fprintf(stderr, "%s: %s\n", call, name);
    failures++;
}

static void expect(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    failures++;
}

#define CHECK(call)     check(call, #call)
#define EXPECT(formula) expect(formula, #formula)

static void copy_rows(const unsigned char *host) {
    unsigned char back[WIDTH];
    CUdeviceptr flat, pitched;
    size_t pitch;
    CHECK(cuMemAlloc(&flat, BYTES));
    CHECK(cuMemAllocPitch(&pitched, &pitch, WIDTH, ROWS, 4));
    CHECK(cuMemcpyHtoD(flat, host, BYTES));
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = flat,
                                .srcPitch = WIDTH,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = pitched,
                                .dstPitch = pitch,
                                .WidthInBytes = WIDTH,
                                .Height = ROWS};
    CHECK(cuMemcpy2D(&rows));
    CHECK(cuMemcpyDtoH(back, pitched + 3 * pitch, WIDTH));
    EXPECT(memcmp(back, host + 3 * WIDTH, WIDTH) == 0);
    CHECK(cuMemFree(flat));
    CHECK(cuMemFree(pitched));
}

/* A box of 16 x 4 x 3 bytes out of a larger one. */
static void copy_slices(const unsigned char *host) {
    unsigned char back[32 * 4 * 3];
    CUdeviceptr box;
    int same = 1;
    CHECK(cuMemAlloc(&box, sizeof back));
    CHECK(cuMemsetD8(box, 0, sizeof back));
    const CUDA_MEMCPY3D slices = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                  .srcHost = host,
                                  .srcPitch = 64,
                                  .srcHeight = 8,
                                  .srcXInBytes = 4,
                                  .srcY = 1,
                                  .srcZ = 1,
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = box,
                                  .dstPitch = 32,
                                  .dstHeight = 4,
                                  .WidthInBytes = 16,
                                  .Height = 4,
                                  .Depth = 3};
    CHECK(cuMemcpy3D(&slices));
    CHECK(cuMemcpyDtoH(back, box, sizeof back));
    for (int z = 0; z < 3; z++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 16; x++) same &= back[(z * 4 + y) * 32 + x] == host[((z + 1) * 8 + y + 1) * 64 + x + 4];
    EXPECT(same);
    CHECK(cuMemFree(box));
}

static void CUDA_CB called(CUstream stream, CUresult status, void *argument) {
    *(int *)argument = status == CUDA_SUCCESS && stream != NULL;
}

static void use_stream(CUcontext context) {
    int calls = 0, priority = 0;
    CUcontext of = NULL;
    CUdeviceptr block;
    CUstream stream;
    CUmodule module;
    CUfunction function;
    CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1));
    CHECK(cuStreamGetPriority(stream, &priority));
    CHECK(cuStreamGetCtx(stream, &of));
    EXPECT(priority == -1 && of == context);
    CHECK(cuMemAllocAsync(&block, 1000, stream));
    CHECK(cuMemsetD32Async(block, 5, 250, stream));
    CHECK(cuModuleLoadData(&module, "an image"));
    CHECK(cuModuleGetFunction(&function, module, "a_kernel"));
    void *parameters[] = {&block};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    CHECK(cuMemFreeAsync(block, stream));
    CHECK(cuStreamAddCallback(stream, called, &calls, 0));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(calls == 1);
    CHECK(cuModuleUnload(module));
    CHECK(cuStreamDestroy(stream));
}

/* The default stream is the legacy one, or the thread's own: the entries that cuda.h names differ. */
static void tell_default_stream(void) {
    unsigned long long of_default, of_legacy, of_thread;
    CHECK(cuStreamGetId(NULL, &of_default));
    CHECK(cuStreamGetId(CU_STREAM_LEGACY, &of_legacy));
    CHECK(cuStreamGetId(CU_STREAM_PER_THREAD, &of_thread));
    EXPECT(of_legacy != of_thread);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    EXPECT(of_default == of_thread);
#else
    EXPECT(of_default == of_legacy);
#endif
}

int main(void) {
    static unsigned char host[BYTES];
    CUdevice device;
    CUcontext context = NULL;
    for (size_t i = 0; i < BYTES; i++) host[i] = (unsigned char)(i * 7 + i / 256);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuCtxCreate(&context, NULL, 0, device));
    copy_rows(host);
    copy_slices(host);
    use_stream(context);
    tell_default_stream();
    CHECK(cuCtxDestroy(context));
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
