/* SPDX-License-Identifier: Apache-2.0 */
/* usage: host SCENE: what programs do with pinned host memory; each scene checks what it gets and says its name at the end. */
#include <pthread.h>
#include <stdbool.h>

#include "driver.h"

/* X(symbol, parameters): what driver.h does not list. */
#define MORE_LIST(X)                                                                                                   \
    X(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                                                  \
    X(cuMemAllocHost_v2, (void **address, size_t bytes))                                                               \
    X(cuMemFreeHost, (void *address))                                                                                  \
    X(cuMemHostGetFlags, (unsigned *flags, void *address))                                                             \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *host, unsigned flags))                               \
    X(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr address))                         \
    X(cuPointerGetAttributes, (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address))     \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                         \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                            \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                          \
    X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))                                          \
    X(cuCtxPopCurrent_v2, (CUcontext * context))                                                                       \
    X(cuCtxDestroy_v2, (CUcontext context))                                                                            \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                \
    X(weirEmuNow, (uint64_t * ns))                                                                                     \
    X(weirEmuFault, (const char *faults, char *message, size_t room))                                                  \
    X(weirEmuGateCreate, (struct weir_emu_gate * *gate, unsigned flags))                                               \
    X(weirEmuGateHold, (struct weir_emu_gate * gate, CUstream stream))                                                 \
    X(weirEmuGateOpen, (struct weir_emu_gate * gate, uint64_t delay_ns))                                               \
    X(weirEmuGateDestroy, (struct weir_emu_gate * gate))

struct weir_emu_gate;
#define MEMBER(symbol, parameters) CUresult(*symbol) parameters;
static struct { MORE_LIST(MEMBER) } more;
#undef MEMBER
#define MORE(call) CHECK(more.call == CUDA_SUCCESS)

static bool uses_both;

static void begin(void) {
    find_all(12000, 0);
    void *driver = open_driver(), *entry;
#define FIND(symbol, parameters)                                                                                       \
    entry = symbol_of(driver, #symbol);                                                                                \
    memcpy(&more.symbol, &entry, sizeof entry);
    MORE_LIST(FIND)
#undef FIND
    use_device(0);
}

static unsigned char *pinned(size_t bytes) {
    void *block = NULL;
    MORE(cuMemHostAlloc(&block, bytes, 0));
    CHECK(block != NULL);
    return block;
}

/* Frees, and waits until whatever it left has passed. */
static void let_go(void *address) {
    CUcontext other;
    MORE(cuMemFreeHost(address));
    MORE(cuCtxSynchronize());
    if (!uses_both) return;
    MORE(cuDevicePrimaryCtxRetain(&other, 1));
    CUDA(cuCtxSetCurrent(other));
    MORE(cuCtxSynchronize());
    use_device(0);
}

static CUdeviceptr at(void *address) { return (CUdeviceptr)(uintptr_t)address; }

static CUdeviceptr plain(size_t bytes) {
    CUdeviceptr block;
    CUDA(cuMemAlloc(&block, bytes));
    return block;
}

static void holds(CUdeviceptr block, size_t bytes, unsigned char value) {
    unsigned char *back = malloc(bytes);
    CHECK(back != NULL);
    CUDA(cuMemcpyDtoH(back, block, bytes));
    for (size_t i = 0; i < bytes; i++) CHECK(back[i] == value);
    free(back);
}

/* ---- reuse -------------------------------------------------------------------------------------------------------- */

/* One block, over and over, of either entry; sizes that are nearly the same. */
static void reuse(void) {
    begin();
    const CUdeviceptr block = plain(MEBI);
    void *address;
    for (int round = 0; round < 50; round++) {
        if (round % 2 == 0)
            address = pinned(MEBI - (size_t)round);
        else
            MORE(cuMemAllocHost_v2(&address, MEBI - (size_t)round));
        memset(address, round, MEBI - 64);
        MORE(cuMemcpyHtoDAsync_v2(block, address, MEBI - 64, NULL));
        CUDA(cuStreamSynchronize(NULL));
        holds(block, MEBI - 64, (unsigned char)round);
        let_go(address);
    }
    CUDA(cuMemFree(block));
}

/* ---- frees while copies are queued -------------------------------------------------------------------------------- */

/* Needs the library: the driver's free would wait for what waits at the gate. Of that size there is no idle block. */
static void one_queued(CUstream stream, size_t bytes) {
    struct weir_emu_gate *gate;
    const CUdeviceptr block = plain(bytes);
    unsigned char *first = pinned(bytes), *second;
    MORE(weirEmuGateCreate(&gate, 0));
    memset(first, 7, bytes);
    MORE(weirEmuGateHold(gate, stream));
    MORE(cuMemcpyHtoDAsync_v2(block, first, bytes, stream));
    MORE(cuMemFreeHost(first));
    if (uses_both) MORE(cuCtxSynchronize()); /* this device is done with it, the other is not */
    second = pinned(bytes);
    CHECK(second != first);
    memset(second, 9, bytes);
    MORE(weirEmuGateOpen(gate, 0));
    CUDA(cuStreamSynchronize(stream));
    holds(block, bytes, 7);
    let_go(second);
    CHECK(pinned(bytes) == first);
    let_go(first);
    MORE(weirEmuGateDestroy(gate));
    CUDA(cuMemFree(block));
}

static void queued(void) {
    CUcontext other;
    CUstream stream, there;
    begin();
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    one_queued(stream, MEBI);
    one_queued(NULL, 2 * MEBI);
    one_queued(CU_STREAM_PER_THREAD, 3 * MEBI);
    /* A stream of the other device, which has nothing else of this library's. */
    MORE(cuDevicePrimaryCtxRetain(&other, 1));
    CUDA(cuCtxSetCurrent(other));
    CUDA(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    uses_both = true;
    use_device(0);
    one_queued(there, 4 * MEBI);
}

/* ---- what is told of a block -------------------------------------------------------------------------------------- */

static size_t range_of(void *address) {
    size_t bytes = 0;
    MORE(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at(address)));
    return bytes;
}

static int type_of(void *address) {
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type = 77;
    void *place = &type;
    MORE(cuPointerGetAttributes(1, &attribute, &place, at(address)));
    return (int)type;
}

static void attributes(void) {
    enum { BYTES = 100000, PORTABLE = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP };
    void *block, *other;
    unsigned flags = 0;
    CUdeviceptr address, base;
    size_t bytes;
    begin();
    MORE(cuMemHostAlloc(&block, BYTES, PORTABLE));
    MORE(cuMemHostGetFlags(&flags, block));
    CHECK(flags == PORTABLE);
    MORE(cuMemHostGetDevicePointer_v2(&address, block, 0));
    CHECK(address == at(block));
    CHECK(range_of((char *)block + 5) == BYTES && type_of(block) == CU_MEMORYTYPE_HOST);
    CUDA(cuMemGetAddressRange(&base, &bytes, at(block) + BYTES - 1));
    CHECK(base == at(block) && bytes == BYTES);
    CHECK(more.cuMemFreeHost((char *)block + 64) == CUDA_ERROR_INVALID_VALUE);
    MORE(cuMemFreeHost(block));
    CHECK(more.cuMemFreeHost(block) == CUDA_ERROR_INVALID_VALUE);
    CHECK(more.cuMemHostGetFlags(&flags, block) == CUDA_ERROR_INVALID_VALUE);
    CHECK(more.cuMemHostGetDevicePointer_v2(&address, block, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(more.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at(block)) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda.cuMemGetAddressRange(&base, &bytes, at(block)) == CUDA_ERROR_NOT_FOUND);
    CHECK(type_of(block) == 0);
    MORE(cuMemHostAlloc(&other, BYTES, 0)); /* what it is not must not be seen of it */
    MORE(cuMemHostGetFlags(&flags, other));
    CHECK(flags == 0 && range_of(other) == BYTES);
    MORE(cuMemFreeHost(other));
    CHECK(more.cuMemHostAlloc(&other, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(more.cuMemHostAlloc(NULL, BYTES, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(more.cuMemHostAlloc(&other, BYTES, 0x4000) == CUDA_ERROR_INVALID_VALUE);
    CHECK(more.cuMemHostAlloc(&other, SIZE_MAX, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(more.cuMemHostAlloc(&other, (size_t)1 << 62, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- captures ----------------------------------------------------------------------------------------------------- */

/* What an event for all of the context would make invalid. */
static void captures(void) {
    CUstream stream;
    CUgraph graph;
    begin();
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    unsigned char *block = pinned(MEBI);
    MORE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("a free in a capture: %d\n", (int)more.cuMemFreeHost(block));
    printf("the capture's end: %d\n", (int)more.cuStreamEndCapture(stream, &graph));
    block = pinned(MEBI);
    let_go(block);
}

/* ---- contexts of the program's own -------------------------------------------------------------------------------- */

static void contexts(void) {
    CUcontext own, none;
    char why[200];
    begin();
    unsigned char *block = pinned(MEBI);
    let_go(block);
    MORE(cuCtxCreate_v2(&own, 0, 0));
    unsigned char *foreign = pinned(MEBI); /* in that context: the driver's */
    MORE(cuMemFreeHost(foreign));
    MORE(cuCtxPopCurrent_v2(&none));
    block = pinned(MEBI);
    MORE(weirEmuFault("cuMemFreeHost@2=CUDA_ERROR_UNKNOWN", why, sizeof why));
    CHECK(more.cuMemFreeHost(block) == CUDA_ERROR_UNKNOWN); /* the driver's: copies of that context may use it */
    memset(block, 1, MEBI);                                 /* as before */
    MORE(cuMemFreeHost(block));
    MORE(cuCtxDestroy_v2(own));
}

/* ---- memory that runs short --------------------------------------------------------------------------------------- */

static void sizes(void) {
    begin();
    for (size_t i = 1; i <= 40; i++) let_go(pinned((i + 60) * MEBI));
}

static void refusals(void) {
    char why[200];
    void *none;
    begin();
    let_go(pinned(MEBI));
    let_go(pinned(3 * MEBI));
    MORE(weirEmuFault("cuMemHostAlloc@3=CUDA_ERROR_OUT_OF_MEMORY", why, sizeof why));
    unsigned char *block = pinned(2 * MEBI); /* when an idle one has gone back */
    let_go(block);
    MORE(weirEmuFault("cuMemHostAlloc@1+=CUDA_ERROR_OUT_OF_MEMORY", why, sizeof why));
    CHECK(more.cuMemHostAlloc(&none, 4 * MEBI, 0) == CUDA_ERROR_OUT_OF_MEMORY); /* when all have */
    MORE(weirEmuFault("", why, sizeof why));
    let_go(pinned(4 * MEBI));
}

/* ---- a reset ------------------------------------------------------------------------------------------------------ */

static void reset(void) {
    begin();
    use_device(1);
    uses_both = true;
    unsigned char *others = pinned(MEBI);
    use_device(0);
    unsigned char *idle = pinned(MEBI), *live = pinned(2 * MEBI);
    let_go(idle);
    let_go(others);
    CUDA(cuDevicePrimaryCtxReset(0));
    use_device(0);
    (void)more.cuMemFreeHost(live); /* gone, or the driver's to take back */
    unsigned char *again = pinned(MEBI);
    use_device(1);
    CHECK(pinned(MEBI) == others); /* the other device's are as they were */
    use_device(0);
    let_go(again);
    CHECK(pinned(MEBI) == again);
    let_go(again);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

enum { THREADS = 6, ROUNDS = 100 };
static unsigned char *left[THREADS];
static pthread_barrier_t together;

static void *work(void *number) {
    const int me = *(int *)number;
    CUstream stream;
    use_device(0);
    pthread_barrier_wait(&together);
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr block = plain(MEBI);
    for (int round = 0; round < ROUNDS; round++) {
        const size_t bytes = (size_t)(1 + round % 3) * 10000;
        unsigned char *address = pinned(bytes);
        memset(address, me, bytes);
        MORE(cuMemcpyHtoDAsync_v2(block, address, bytes, stream));
        MORE(cuMemFreeHost(address));
        CUDA(cuStreamSynchronize(stream));
        holds(block, bytes, (unsigned char)me);
    }
    left[me] = pinned(MEBI);
    pthread_barrier_wait(&together);
    MORE(cuMemFreeHost(left[(me + 1) % THREADS]));
    CUDA(cuStreamDestroy(stream));
    CUDA(cuMemFree(block));
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    int number[THREADS];
    begin();
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        CHECK(pthread_create(&thread[i], NULL, work, &number[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

/* Idle and live blocks, a copy that is queued, a function at exit that frees. */
static unsigned char *last;
static void free_at_exit(void) { (void)more.cuMemFreeHost(last); }

static void ends(void) {
    begin();
    last = pinned(MEBI);
    memset(last, 1, MEBI);
    atexit(free_at_exit);
    MORE(cuMemFreeHost(pinned(MEBI)));
    MORE(cuMemcpyHtoDAsync_v2(plain(MEBI), last, MEBI, NULL));
}

/* ---- many allocations --------------------------------------------------------------------------------------------- */

/* Each round stages four buffers to the device and waits for them; says how long that took by the emulated driver's clock. */
static void heavy(void) {
    enum { STEPS = 500, BLOCKS = 4 };
    uint64_t began, ended;
    CUstream stream;
    begin();
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr block = plain((size_t)MEBI << BLOCKS);
    MORE(weirEmuNow(&began));
    for (int step = 0; step < STEPS; step++) {
        unsigned char *buffer[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            buffer[i] = pinned((size_t)MEBI << i);
            MORE(cuMemcpyHtoDAsync_v2(block + ((size_t)MEBI << i), buffer[i], (size_t)MEBI << i, stream));
        }
        for (int i = 0; i < BLOCKS; i++) MORE(cuMemFreeHost(buffer[i]));
        CUDA(cuStreamSynchronize(stream));
    }
    MORE(weirEmuNow(&ended));
    printf("%llu us\n", (unsigned long long)(ended - began) / 1000);
}

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {{"reuse", reuse},       {"queued", queued},     {"attributes", attributes},
              {"captures", captures}, {"contexts", contexts}, {"sizes", sizes},
              {"refusals", refusals}, {"reset", reset},       {"threads", threads},
              {"ends", ends},         {"heavy", heavy}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(argv[1], scenes[i].name) != 0) continue;
        scenes[i].play();
        puts(argv[1]);
        return 0;
    }
    return 2;
}
