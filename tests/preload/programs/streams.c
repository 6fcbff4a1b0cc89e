/* SPDX-License-Identifier: Apache-2.0 */
/* usage: streams SCENE: what programs do with streams, captures and contexts; each scene says what code it got for what, which is to
 * be the same with the library and without. */
#include <pthread.h>
#include <stdbool.h>

#include "driver.h"

/* X(symbol, parameters): what driver.h does not list. */
#define MORE_LIST(X)                                                                                                   \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                            \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                          \
    X(cuGraphDestroy, (CUgraph graph))

#define MEMBER(symbol, parameters) CUresult(*symbol) parameters;
static struct { MORE_LIST(MEMBER) } more;
#undef MEMBER
#define MORE(call) CHECK(more.call == CUDA_SUCCESS)

static CUcontext primary;

static void begin(void) {
    find_all(12000, 0);
    void *driver = open_driver(), *entry;
#define FIND(symbol, parameters)                                                                                       \
    entry = symbol_of(driver, #symbol);                                                                                \
    memcpy(&more.symbol, &entry, sizeof entry);
    MORE_LIST(FIND)
#undef FIND
    use_device(0);
    CUDA(cuDevicePrimaryCtxRetain(&primary, 0));
}

static CUdeviceptr plain(size_t bytes) {
    CUdeviceptr block;
    CUDA(cuMemAlloc(&block, bytes));
    return block;
}

static CUstream stream_of(unsigned flags) {
    CUstream stream;
    CUDA(cuStreamCreate(&stream, flags));
    return stream;
}

static void in_thread(void *(*run)(void *argument), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    pthread_join(thread, NULL);
}

/* ---- captures ----------------------------------------------------------------------------------------------------- */

enum { FREES = 200 };
#define LARGE ((size_t)20 * MEBI) /* of a device of 64 */
#define MOST  ((size_t)48 * MEBI)

/* Work that a capture of another thread's, or a relaxed one, leaves alone. Needs: a block in use. */
struct beside {
    CUdeviceptr block;
    CUstream stream;
    bool ordered;
    CUresult code;
};

static void free_and_take(struct beside *beside) {
    CUdeviceptr block = 0;
    beside->code = cuda.cuMemFree(beside->block);
    for (int i = 0; i < FREES && beside->code == CUDA_SUCCESS; i++) {
        beside->code = cuda.cuMemAlloc(&block, 512 + (size_t)(i % 7) * 512);
        if (beside->code == CUDA_SUCCESS) beside->code = cuda.cuMemFree(block);
    }
    if (beside->code != CUDA_SUCCESS) return;
    beside->code = beside->ordered ? cuda.cuMemAllocAsync(&block, MOST, beside->stream) : cuda.cuMemAlloc(&block, MOST);
    if (beside->code != CUDA_SUCCESS) return;
    CUDA(cuMemsetD8Async(block, 2, MOST, beside->stream));
    beside->code = beside->ordered ? cuda.cuMemFreeAsync(block, beside->stream) : cuda.cuMemFree(block);
}

static void *free_and_take_in_thread(void *argument) {
    CUDA(cuCtxSetCurrent(primary));
    free_and_take(argument);
    return NULL;
}

/* On a stream that has never asked for memory. */
static void beside_capture(unsigned flags, bool thread, bool ordered) {
    CUstream captured = stream_of(flags);
    struct beside beside = {.block = plain(LARGE), .stream = stream_of(CU_STREAM_NON_BLOCKING), .ordered = ordered};
    CUgraph graph = NULL;
    CUdeviceptr used = plain(MEBI);
    CUDA(cuMemsetD8Async(beside.block, 1, LARGE, beside.stream));
    MORE(cuStreamBeginCapture_v2(captured,
                                 thread ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED));
    CUDA(cuMemsetD8Async(used, 1, MEBI, captured));
    if (thread)
        in_thread(free_and_take_in_thread, &beside);
    else
        free_and_take(&beside);
    const CUresult ended = more.cuStreamEndCapture(captured, &graph);
    printf("beside a capture, flags %u, thread %d, ordered %d: %d, end %d\n", flags, thread, ordered, beside.code,
           ended);
    if (ended == CUDA_SUCCESS) MORE(cuGraphDestroy(graph));
    CUDA(cuStreamDestroy(captured));
    CUDA(cuStreamDestroy(beside.stream));
    CUDA(cuMemFree(used));
}

static void captures(void) {
    begin();
    for (int i = 0; i < 8; i++)
        beside_capture(i & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, (i & 2) != 0, (i & 4) != 0);
}

/* A capture that ends with its stream is over. */
static void captures_end(void) {
    begin();
    CUstream captured = stream_of(CU_STREAM_NON_BLOCKING);
    MORE(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUDA(cuStreamDestroy(captured));
    for (int i = 0; i < FREES; i++) CUDA(cuMemFree(plain(MEBI)));
    CUdeviceptr most = plain(MOST);
    CUDA(cuMemFree(most));
}

/* ------------------------------------------------------------------------------------------------------------------- */

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {{"captures", captures}, {"captures_end", captures_end}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(argv[1], scenes[i].name) != 0) continue;
        scenes[i].play();
        puts(argv[1]);
        return 0;
    }
    return 2;
}
