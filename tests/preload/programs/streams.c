/* SPDX-License-Identifier: Apache-2.0 */
/* usage: streams SCENE: what programs do with streams, captures and contexts; each scene says what code it got for what, which is to
 * be the same with the library and without. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "driver.h"

/* X(symbol, parameters): what driver.h does not list. */
#define MORE_LIST(X)                                                                                                   \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                            \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                          \
    X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument))                                          \
    X(cuGraphDestroy, (CUgraph graph))                                                                                 \
    X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))                                          \
    X(cuCtxPopCurrent_v2, (CUcontext * context))

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
#define LARGE ((size_t)5 * MEBI) /* of a device of 16 */
#define MOST  ((size_t)12 * MEBI)

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

#define SOME ((size_t)4 * MEBI) /* more than half of the pool's limit there, so that what is freed is given again */

/* ---- frees on streams of others, and of nobody -------------------------------------------------------------------- */

static CUdeviceptr ordered(size_t bytes, CUstream stream) {
    CUdeviceptr block;
    CUDA(cuMemAllocAsync(&block, bytes, stream));
    CUDA(cuStreamSynchronize(stream));
    return block;
}

/* A block in each way it may have come. What is queued there before its free comes before the next use, which the watch checks. */
static void free_on(const char *whose, CUcontext context, CUstream other) {
    CUstream own = stream_of(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2; i++) {
        CUdeviceptr block = i == 0 ? plain(SOME) : ordered(SOME, own);
        CUDA(cuCtxSetCurrent(context));
        const CUresult set = cuda.cuMemsetD8Async(block, 1, SOME, other), freed = cuda.cuMemFreeAsync(block, other);
        printf("on %s: set %d, free %d\n", whose, set, freed);
        CUDA(cuCtxSetCurrent(primary));
        CUDA(cuMemAllocAsync(&block, SOME, own));
        CUDA(cuMemsetD8Async(block, 2, SOME, own));
        CUDA(cuMemFreeAsync(block, own));
        CUDA(cuStreamSynchronize(own));
    }
    CUDA(cuStreamDestroy(own));
}

static void elsewhere(void) {
    CUcontext second, own, popped;
    begin();
    CUDA(cuDevicePrimaryCtxRetain(&second, 1));
    CUDA(cuCtxSetCurrent(second));
    CUstream of_second = stream_of(CU_STREAM_NON_BLOCKING);
    MORE(cuCtxCreate_v2(&own, 0, 0));
    CUstream of_own = stream_of(CU_STREAM_NON_BLOCKING);
    MORE(cuCtxPopCurrent_v2(&popped));
    CUDA(cuCtxSetCurrent(primary));
    free_on("a stream of another device", primary, of_second);
    free_on("the default stream of another device", second, NULL);
    free_on("its thread's own", second, CU_STREAM_PER_THREAD);
    free_on("a stream of a context of the program's own", own, of_own);
    free_on("the default stream of that", own, NULL);
}

/* The right free after the wrong one works. */
static void free_on_none(const char *whose, CUstream none, CUstream own) {
    for (int i = 0; i < 2; i++) {
        const CUdeviceptr block = i == 0 ? plain(SOME) : ordered(SOME, own);
        const CUresult wrong = cuda.cuMemFreeAsync(block, none), right = cuda.cuMemFreeAsync(block, own);
        printf("on %s: %d, then %d\n", whose, wrong, right);
        CUDA(cuStreamSynchronize(own));
    }
}

static void nowhere(void) {
    begin();
    CUstream own = stream_of(CU_STREAM_NON_BLOCKING), gone = stream_of(CU_STREAM_NON_BLOCKING);
    CUstream never = (CUstream)(uintptr_t)0x1234;
    CUDA(cuStreamDestroy(gone));
    free_on_none("a stream that is gone", gone, own);
    free_on_none("no stream", never, own);
    CUDA(cuCtxSetCurrent(NULL));
    CUdeviceptr block = 0;
    printf("without a context: %d %d\n", cuda.cuMemAllocAsync(&block, MEBI, NULL), cuda.cuMemFreeAsync(block, NULL));
}

/* ---- streams that are destroyed while others name them ------------------------------------------------------------ */

enum { THREADS = 3, STREAMS = 4, ENDS = 30000 };
static CUstream shared[STREAMS];
static bool over;

static void check_code(CUresult code) { CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_INVALID_HANDLE); }

/* What is refused leaves the block as it was. */
static void *name_streams(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    CUDA(cuCtxSetCurrent(primary));
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        CUdeviceptr block;
        const CUstream stream = __atomic_load_n(&shared[rand_r(&seed) % STREAMS], __ATOMIC_RELAXED);
        CUresult code = cuda.cuMemAllocAsync(&block, 1 + (size_t)rand_r(&seed) % 100000, stream);
        check_code(code);
        if (code != CUDA_SUCCESS) continue;
        const CUdeviceptr other = plain(1 + (size_t)rand_r(&seed) % 100000);
        code = cuda.cuMemFreeAsync(block, stream);
        check_code(code);
        if (code != CUDA_SUCCESS) CUDA(cuMemFree(block));
        CUDA(cuMemFree(other));
    }
    return NULL;
}

static void gone(void) {
    pthread_t threads[THREADS];
    unsigned seed = 1;
    begin();
    for (int i = 0; i < STREAMS; i++) shared[i] = stream_of(CU_STREAM_NON_BLOCKING);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, name_streams, (void *)(i + 1)) == 0);
    for (int i = 0; i < ENDS; i++) {
        CUstream *at = &shared[rand_r(&seed) % STREAMS];
        CUDA(cuStreamDestroy(*at));
        __atomic_store_n(at, stream_of(CU_STREAM_NON_BLOCKING), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < STREAMS; i++) CUDA(cuStreamDestroy(shared[i]));
    CUDA(cuMemFree(plain(MOST)));
}

/* ---- calls in host functions -------------------------------------------------------------------------------------- */

static struct {
    CUdeviceptr block;
    CUstream stream;
    bool started, wanted; /* atomic */
    CUresult codes[6];
} inside;

static void call_all(void *unused) {
    CUdeviceptr block = 0;
    size_t left, total;
    (void)unused;
    __atomic_store_n(&inside.started, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&inside.wanted, __ATOMIC_ACQUIRE)) sched_yield();
    inside.codes[0] = cuda.cuMemAlloc(&block, MEBI);
    inside.codes[1] = cuda.cuMemFree(inside.block);
    inside.codes[2] = cuda.cuMemGetInfo(&left, &total);
    inside.codes[3] = cuda.cuMemAllocAsync(&block, MEBI, inside.stream);
    inside.codes[4] = cuda.cuMemFreeAsync(inside.block, inside.stream);
    inside.codes[5] = cuda.cuDevicePrimaryCtxReset(0);
}

static void start_inside(void) {
    begin();
    inside.block = plain(MEBI);
    inside.stream = stream_of(CU_STREAM_NON_BLOCKING);
    MORE(cuLaunchHostFunc(inside.stream, call_all, NULL));
    while (!__atomic_load_n(&inside.started, __ATOMIC_ACQUIRE)) sched_yield();
}

static void tell_codes(void) {
    for (size_t i = 0; i < sizeof inside.codes / sizeof *inside.codes; i++) printf("%d ", inside.codes[i]);
    printf("in a host function\n");
}

static void inside_alone(void) {
    start_inside();
    __atomic_store_n(&inside.wanted, true, __ATOMIC_RELEASE);
    CUDA(cuStreamSynchronize(inside.stream));
    tell_codes();
    CUDA(cuMemFree(inside.block));
}

/* Once the other thread is likely to be in the reset, which waits for the function; whichever comes first, all goes on. */
static void *let_go(void *argument) {
    for (int i = 0; i < 1000; i++) sched_yield();
    __atomic_store_n(&inside.wanted, true, __ATOMIC_RELEASE);
    return argument;
}

static void inside_reset(void) {
    pthread_t thread;
    start_inside();
    CHECK(pthread_create(&thread, NULL, let_go, NULL) == 0);
    CUDA(cuDevicePrimaryCtxReset(0));
    pthread_join(thread, NULL);
    tell_codes();
}

/* ------------------------------------------------------------------------------------------------------------------- */

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {
    {"captures", captures}, {"captures_end", captures_end}, {"elsewhere", elsewhere},      {"nowhere", nowhere},
    {"gone", gone},         {"inside_alone", inside_alone}, {"inside_reset", inside_reset}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(argv[1], scenes[i].name) != 0) continue;
        scenes[i].play();
        puts(argv[1]);
        return 0;
    }
    return 2;
}
