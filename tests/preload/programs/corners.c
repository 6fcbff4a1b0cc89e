/* SPDX-License-Identifier: Apache-2.0 */
/* usage: corners SCENE: what programs do at the edges; each scene checks what it gets and says its name at the end. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/time.h>
#include <time.h>

#include "device/emu/emu_abi.h"
#include "driver.h"

/* An entry that driver.h does not list. */
#define ENTRY(name, parameters)                                                                                        \
    CUresult(*name) parameters;                                                                                        \
    do {                                                                                                               \
        void *found_##name = symbol_of(open_driver(), #name);                                                          \
        memcpy(&name, &found_##name, sizeof found_##name);                                                             \
    } while (0)

static CUdeviceptr plain(size_t bytes) {
    CUdeviceptr block;
    CUDA(cuMemAlloc(&block, bytes));
    return block;
}

static size_t free_bytes(void) {
    size_t left, total;
    CUDA(cuMemGetInfo(&left, &total));
    CHECK(left <= total);
    return left;
}

/* ---- look-ups ----------------------------------------------------------------------------------------------------- */

/* By its object and name, which are the same in every run. */
static void tell(const char *how, void *address) {
    Dl_info info;
    const bool known = address != NULL && dladdr(address, &info) != 0;
    const char *slash = known ? strrchr(info.dli_fname, '/') : NULL;
    printf("%s: %s %s\n", how,
           !known          ? "none"
           : slash == NULL ? info.dli_fname
                           : slash + 1,
           known && info.dli_sname != NULL ? info.dli_sname : "");
}

static void tell_if(const char *how, const void *address) { printf("%s: %s\n", how, address == NULL ? "none" : "one"); }

__attribute__((visibility("default"))) CUresult cuHelper(void);
CUresult cuHelper(void) { return CUDA_SUCCESS; }

static void look_ups(void) {
    tell_if("before a driver is there", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    tell_if("next before a driver is there", dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
    void *self = dlopen(NULL, RTLD_NOW), *driver = open_driver();
    tell("cuInit of the driver", dlsym(driver, "cuInit"));
    tell("cuInit by default", dlsym(RTLD_DEFAULT, "cuInit"));
    tell("cuInit next", dlsym(RTLD_NEXT, "cuInit"));
    tell("own by default", dlsym(RTLD_DEFAULT, "cuHelper"));
    tell("own of itself", dlsym(self, "cuHelper"));
    tell("own next", dlsym(RTLD_NEXT, "cuHelper"));
    tell("of the C library", dlsym(RTLD_DEFAULT, "qsort"));
    tell("with a version", dlvsym(RTLD_DEFAULT, "qsort", "GLIBC_2.2.5"));
    tell("of no object", dlsym(driver, "cuNoSuchEntry"));
    CHECK(dlerror() != NULL);
    tell_if("a replaced one", dlsym(driver, "cuMemAlloc_v2"));
    tell("the first form", dlsym(driver, "cuMemAlloc"));
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuGetProcAddress, (const char *, void **, int, uint64_t));
    void *found = NULL;
    CHECK(cuGetProcAddress("cuMemAlloc", &found, 2000, 0) == CUDA_SUCCESS);
    tell("of version 2000", found);
    CHECK(cuGetProcAddress("cuNoSuchEntry", &found, 12000, 0) == CUDA_ERROR_NOT_FOUND);
    CHECK(cuGetProcAddress("cuMemAllocAsync", &found, 11000, 0) == CUDA_ERROR_NOT_FOUND);
    three_blocks("program");
}

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void sizes(void) {
    static const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 510,        SIZE_MAX - 511,
                                   (size_t)1 << 63, ((size_t)1 << 63) - 1, SIZE_MAX - 7};
    find_all(12000, 0);
    use_device(0);
    const CUdeviceptr p = plain(512);
    const size_t left = free_bytes();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr block = 7;
        const double began = now_ms();
        CHECK(cuda.cuMemAlloc(&block, sizes[i]) == CUDA_ERROR_OUT_OF_MEMORY);
        CHECK(cuda.cuMemAllocAsync(&block, sizes[i], NULL) == CUDA_ERROR_OUT_OF_MEMORY);
        CHECK(now_ms() - began < 2000 && block == 7); /* far less where nothing else runs */
        CHECK(free_bytes() == left);
        const CUdeviceptr q = plain(512);
        CHECK(q != p);
        CUDA(cuMemFree(q));
    }
    ENTRY(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned));
    CUdeviceptr block = 7;
    size_t pitch = 0;
    CHECK(cuMemAllocPitch_v2(&block, &pitch, SIZE_MAX - 3, 2, 4) != CUDA_SUCCESS);
    CHECK(cuMemAllocPitch_v2(&block, &pitch, 1000, SIZE_MAX / 500, 4) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAllocPitch_v2(&block, &pitch, 1000, 3, 5) == CUDA_ERROR_INVALID_VALUE && block == 7);
    CHECK(cuda.cuMemAlloc(&block, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda.cuMemAlloc(NULL, 512) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda.cuMemFree(0) == CUDA_SUCCESS);
    CUDA(cuMemFree(p));
}

/* ---- frees -------------------------------------------------------------------------------------------------------- */

static void *free_there(void *block) {
    use_device(0);
    CUDA(cuMemFree(*(CUdeviceptr *)block));
    return NULL;
}

static void frees(void) {
    enum { BYTES = 512 << 10 };
    pthread_t thread;
    find_all(12000, 0);
    use_device(0);
    const CUdeviceptr p = plain(BYTES);
    CUDA(cuMemFree(p));
    CHECK(cuda.cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda.cuMemFreeAsync(p, NULL) == CUDA_ERROR_INVALID_VALUE);
    const CUdeviceptr q = plain(BYTES);
    CUdeviceptr r = plain(BYTES), base;
    size_t bytes;
    CHECK(q != r);
    CHECK(cuda.cuMemFree(q + 512) == CUDA_ERROR_INVALID_VALUE);
    ENTRY(cuMemUnmap, (CUdeviceptr, size_t));
    ENTRY(cuMemAddressFree, (CUdeviceptr, size_t));
    const CUdeviceptr large = plain(4 * MEBI), page = large / (2 * MEBI) * (2 * MEBI);
    CHECK(cuMemUnmap(page, 2 * MEBI) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAddressFree(page, 2 * MEBI) == CUDA_ERROR_INVALID_VALUE);
    CUDA(cuMemsetD8Async(large, 1, 4 * MEBI, NULL));
    CUDA(cuMemFree(large));
    CUDA(cuMemGetAddressRange(&base, &bytes, q + 512));
    CHECK(base == q && bytes == BYTES);
    CHECK(pthread_create(&thread, NULL, free_there, &r) == 0);
    pthread_join(thread, NULL);
    CHECK(cuda.cuMemFree(r) == CUDA_ERROR_INVALID_VALUE);
    CUDA(cuMemFree(q));
    /* A block of the driver's own pool, freed by the plain call. */
    ENTRY(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *));
    ENTRY(cuMemPoolDestroy, (CUmemoryPool));
    ENTRY(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream));
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr foreign;
    CHECK(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    const size_t left = free_bytes();
    CHECK(cuMemAllocFromPoolAsync(&foreign, MEBI, pool, NULL) == CUDA_SUCCESS);
    CUDA(cuStreamSynchronize(NULL));
    CHECK(free_bytes() < left);
    CUDA(cuMemFree(foreign));
    CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS && free_bytes() == left);
}

/* ---- the driver's pools ------------------------------------------------------------------------------------------- */

static size_t figure(CUmemoryPool pool, CUmemPool_attribute attribute) {
    uint64_t value = 0;
    ENTRY(cuMemPoolGetAttribute, (CUmemoryPool, CUmemPool_attribute, void *));
    CHECK(cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS);
    return value;
}

static void pools(void) {
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *));
    ENTRY(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice));
    ENTRY(cuDeviceSetMemPool, (CUdevice, CUmemoryPool));
    ENTRY(cuMemSetMemPool, (CUmemLocation *, CUmemAllocationType, CUmemoryPool));
    ENTRY(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream));
    ENTRY(cuMemPoolTrimTo, (CUmemoryPool, size_t));
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool usual, own;
    CUdeviceptr block;
    CHECK(cuMemPoolCreate(&own, &properties) == CUDA_SUCCESS);
    CHECK(cuDeviceGetDefaultMemPool(&usual, 0) == CUDA_SUCCESS);
    CHECK(cuMemAllocFromPoolAsync(&block, MEBI, usual, NULL) == CUDA_SUCCESS); /* served */
    CHECK(figure(usual, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == MEBI);
    CUDA(cuMemFreeAsync(block, NULL));
    CUDA(cuStreamSynchronize(NULL));
    CHECK(cuMemPoolTrimTo(usual, 0) == CUDA_SUCCESS);
    CHECK(figure(usual, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    CHECK(cuDeviceSetMemPool(0, own) == CUDA_SUCCESS);
    CUDA(cuMemAllocAsync(&block, MEBI, NULL)); /* the driver's */
    CHECK(figure(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= MEBI);
    CUDA(cuMemFreeAsync(block, NULL));
    CHECK(cuDeviceSetMemPool(0, usual) == CUDA_SUCCESS);
    CUDA(cuMemAllocAsync(&block, MEBI, NULL)); /* served */
    CUDA(cuMemFreeAsync(block, NULL));
    CUDA(cuStreamSynchronize(NULL));
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE}; /* CUDA 13 has another way */
    CHECK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, own) == CUDA_SUCCESS);
    CUDA(cuMemAllocAsync(&block, 2 * MEBI, NULL)); /* the driver's */
    CHECK(figure(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 2 * MEBI);
    CUDA(cuMemFreeAsync(block, NULL));
    CHECK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, usual) == CUDA_SUCCESS);
}

static void set_back(CUmemoryPool pool, CUmemPool_attribute peak) {
    uint64_t none = 0;
    ENTRY(cuMemPoolSetAttribute, (CUmemoryPool, CUmemPool_attribute, void *));
    CHECK(cuMemPoolSetAttribute(pool, peak, &none) == CUDA_SUCCESS);
}

/* Each of the two peaks for itself. */
static void peaks(void) {
    CUmemoryPool usual;
    CUdeviceptr block;
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice));
    ENTRY(cuMemPoolTrimTo, (CUmemoryPool, size_t));
    CHECK(cuDeviceGetDefaultMemPool(&usual, 0) == CUDA_SUCCESS);
    for (int mebi = 8; mebi > 0; mebi -= 4) {
        CUDA(cuMemAllocAsync(&block, (size_t)mebi * MEBI, NULL));
        CUDA(cuMemFreeAsync(block, NULL));
        CUDA(cuStreamSynchronize(NULL));
        CHECK(cuMemPoolTrimTo(usual, 0) == CUDA_SUCCESS);
        CHECK(figure(usual, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == (size_t)mebi * MEBI);
        CHECK(figure(usual, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 8 * MEBI);
        set_back(usual, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
        CHECK(figure(usual, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    }
    set_back(usual, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
    CHECK(figure(usual, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 0);
}

/* ---- limits ------------------------------------------------------------------------------------------------------- */

/* The library's own functions, as a program that knows weir finds them. */
static void *of_weir(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL);
    return found;
}

/* Needs: a limit of 32 MiB. */
static void limits(void) {
    struct weir_pool *pool = NULL;
    int (*process_pool)(int, struct weir_pool **), (*set_limit)(struct weir_pool *, size_t),
        (*trim)(struct weir_pool *, size_t);
    void *found[] = {of_weir("weir_process_pool"), of_weir("weir_pool_set_limit"), of_weir("weir_pool_trim")};
    memcpy(&process_pool, &found[0], sizeof found[0]);
    memcpy(&set_limit, &found[1], sizeof found[1]);
    memcpy(&trim, &found[2], sizeof found[2]);
    find_all(12000, 0);
    use_device(0);
    CHECK(free_bytes() == 32 * MEBI);
    CUDA(cuMemFree(plain(16 * MEBI)));
    CHECK(free_bytes() == 32 * MEBI);
    const CUdeviceptr b = plain(24 * MEBI);
    CHECK(free_bytes() == 8 * MEBI);
    CUdeviceptr more;
    CHECK(cuda.cuMemAlloc(&more, 9 * MEBI) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(process_pool(0, &pool) == 0 && set_limit(pool, 20 * MEBI) == 0);
    CHECK(free_bytes() == 0);
    CUDA(cuMemFree(b));
    CHECK(free_bytes() == 20 * MEBI);
    CUDA(cuStreamSynchronize(NULL));
    CHECK(trim(pool, 0) == 0 && free_bytes() == 20 * MEBI);
}

/* ---- what is idle, and the driver could use ----------------------------------------------------------------------- */

enum { IDLE = 48 * MEBI, TAKEN = 32 * MEBI };

/* For so long by the emulated clock. */
static void work_on(CUdeviceptr block, CUstream stream, unsigned seconds) {
    ENTRY(weirEmuSubmit, (const struct weir_emu_work *, CUstream));
    const struct weir_emu_access access = {.address = (void *)(uintptr_t)block, .bytes = IDLE, .write = true};
    const struct weir_emu_work work = {.size = sizeof work,
                                       .name = "long",
                                       .accesses = &access,
                                       .access_count = 1,
                                       .alone_ns = seconds * 1000000000ull};
    CHECK(weirEmuSubmit(&work, stream) == CUDA_SUCCESS);
}

/* Of 64 MiB most is idle, and used by a stream for another second. */
static CUstream leave_idle(void) {
    CUstream stream;
    CUdeviceptr block;
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUDA(cuMemAllocAsync(&block, IDLE, stream));
    work_on(block, stream, 1);
    CUDA(cuMemFreeAsync(block, stream));
    CHECK(free_bytes() == 64 * MEBI);
    return stream;
}

static void idle_for_pages(void) {
    CUmemGenericAllocationHandle page;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long));
    leave_idle();
    CHECK(cuMemCreate(&page, 65 * MEBI, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    leave_idle();
    CHECK(cuMemCreate(&page, TAKEN, &properties, 0) == CUDA_SUCCESS);
    CHECK(free_bytes() == 64 * MEBI - TAKEN);
}

static void idle_for_managed(void) {
    CUdeviceptr block;
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned));
    leave_idle();
    CHECK(cuMemAllocManaged(&block, TAKEN, 1) == CUDA_SUCCESS);
}

static void idle_for_a_pool(void) {
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr block;
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *));
    ENTRY(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream));
    const CUstream stream = leave_idle();
    CHECK(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    CHECK(cuMemAllocFromPoolAsync(&block, TAKEN, pool, stream) == CUDA_SUCCESS);
}

/* The emulated driver takes a graph's memory as it is made, a real one when the graph is launched. */
static void idle_for_a_graph(void) {
    CUdeviceptr block;
    CUgraph graph;
    CUgraphExec exec;
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode));
    ENTRY(cuStreamEndCapture, (CUstream, CUgraph *));
    ENTRY(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long));
    ENTRY(cuGraphLaunch, (CUgraphExec, CUstream));
    const CUstream stream = leave_idle();
    CUDA(cuStreamSynchronize(stream)); /* nothing else can be waited for while it captures */
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CUDA(cuMemAllocAsync(&block, TAKEN, stream));
    CUDA(cuMemsetD8Async(block, 1, TAKEN, stream));
    CUDA(cuMemFreeAsync(block, stream));
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS && cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    CUDA(cuStreamSynchronize(stream));
}

static void idle_for_a_context(void) {
    CUcontext own;
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice));
    leave_idle();
    CHECK(cuCtxCreate_v2(&own, 0, 0) == CUDA_SUCCESS && free_bytes() == 64 * MEBI);
    plain(TAKEN);
    CHECK(free_bytes() == 64 * MEBI - TAKEN);
}

/* The driver's own free would have waited for the kernel, however long that takes. */
static void long_kernel(void) {
    CUstream stream;
    CUdeviceptr next;
    find_all(12000, 0);
    use_device(0);
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr block = plain(IDLE);
    work_on(block, stream, 20);
    CUDA(cuMemFree(block));
    if (getenv("WEIR_OPTIONS") == NULL)
        CUDA(cuMemAlloc(&next, IDLE));
    else
        CHECK(cuda.cuMemAlloc(&next, IDLE) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- contexts ----------------------------------------------------------------------------------------------------- */

static void contexts(void) {
    CUcontext own, none;
    CUdeviceptr block, other;
    CUstream stream;
    find_all(12000, 0);
    ENTRY(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice));
    ENTRY(cuCtxPushCurrent_v2, (CUcontext));
    ENTRY(cuCtxPopCurrent_v2, (CUcontext *));
    ENTRY(cuCtxDestroy_v2, (CUcontext));
    ENTRY(cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *));
    unsigned flags;
    int active = 1;
    CUDA(cuInit(0));
    CHECK(cuCtxCreate_v2(&own, 0, 0) == CUDA_SUCCESS);
    block = plain(MEBI); /* the driver's, in a context of the program's own */
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUDA(cuMemAllocAsync(&other, MEBI, stream));
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS && !active);
    CHECK(cuCtxPopCurrent_v2(&none) == CUDA_SUCCESS);
    use_device(0);
    const CUdeviceptr served = plain(MEBI);
    CUDA(cuMemFreeAsync(other, stream));
    CUDA(cuMemAllocAsync(&other, MEBI, stream)); /* the stream's context is what counts */
    CHECK(cuCtxPushCurrent_v2(own) == CUDA_SUCCESS);
    CUDA(cuMemFree(served)); /* and where a block comes from */
    CUDA(cuMemFree(block));
    CUDA(cuMemFreeAsync(other, stream));
    CUDA(cuStreamSynchronize(stream));
    CHECK(cuCtxPopCurrent_v2(&none) == CUDA_SUCCESS && cuCtxDestroy_v2(own) == CUDA_SUCCESS);
    three_blocks("program");
}

/* ---- peers -------------------------------------------------------------------------------------------------------- */

/* That device 1 may use it is to the driver a property of each mapping. */
static void usable_by_1(CUdeviceptr block) {
    const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    unsigned long long flags = 0;
    ENTRY(cuMemGetAccess, (unsigned long long *, const CUmemLocation *, CUdeviceptr));
    CHECK(cuMemGetAccess(&flags, &location, block) == CUDA_SUCCESS && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static void peers(void) {
    CUcontext context[2];
    CUdeviceptr before;
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuCtxEnablePeerAccess, (CUcontext, unsigned));
    ENTRY(cuCtxDisablePeerAccess, (CUcontext));
    for (CUdevice device = 0; device < 2; device++) CUDA(cuDevicePrimaryCtxRetain(&context[device], device));
    before = plain(MEBI);
    CUDA(cuCtxSetCurrent(context[1]));
    CHECK(cuCtxEnablePeerAccess(context[0], 0) == CUDA_SUCCESS);
    CUDA(cuCtxSetCurrent(context[0]));
    usable_by_1(before);
    usable_by_1(plain(MEBI));
    CUDA(cuCtxSetCurrent(context[1]));
    CHECK(cuCtxDisablePeerAccess(context[0]) == CUDA_SUCCESS);
    CHECK(cuCtxDisablePeerAccess(context[0]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

/* By the default pool, before there is any memory of it or after. */
static void accessors(bool before) {
    CUmemoryPool usual;
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice));
    ENTRY(cuMemPoolSetAccess, (CUmemoryPool, const CUmemAccessDesc *, size_t));
    CHECK(cuDeviceGetDefaultMemPool(&usual, 0) == CUDA_SUCCESS);
    const CUdeviceptr first = before ? 0 : plain(MEBI);
    CHECK(cuMemPoolSetAccess(usual, &access, 1) == CUDA_SUCCESS);
    if (!before) usable_by_1(first);
    usable_by_1(plain(MEBI));
}

static void accessors_before(void) { accessors(true); }
static void accessors_after(void) { accessors(false); }

/* ---- a reset beside allocations ----------------------------------------------------------------------------------- */

static atomic_bool over;
static sem_t begun;

/* What a call gets that the reset comes upon is the driver's business; nothing else may come of it. */
static void *allocate_always(void *unused) {
    CUcontext context;
    (void)unused;
    CUDA(cuDevicePrimaryCtxRetain(&context, 0));
    sem_post(&begun);
    while (!over) {
        CUdeviceptr block, ordered;
        (void)cuda.cuCtxSetCurrent(context);
        if (cuda.cuMemAlloc(&block, MEBI) == CUDA_SUCCESS) (void)cuda.cuMemFree(block);
        if (cuda.cuMemAllocAsync(&ordered, MEBI, NULL) == CUDA_SUCCESS) (void)cuda.cuMemFreeAsync(ordered, NULL);
    }
    return NULL;
}

/* On a stream of its own, with work on each block that its free has to wait for. */
static atomic_int rounds;
static void *churn(void *unused) {
    CUcontext context;
    CUstream stream;
    (void)unused;
    CUDA(cuDevicePrimaryCtxRetain(&context, 0));
    CUDA(cuCtxSetCurrent(context));
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t round = 0; !over; round++) {
        CUdeviceptr block;
        rounds++;
        if (cuda.cuMemAllocAsync(&block, MEBI + round * 2654435761 % (8 * MEBI), stream) != CUDA_SUCCESS) continue;
        CUDA(cuMemsetD8Async(block, 1, 1, stream));
        CUDA(cuMemFreeAsync(block, stream));
    }
    return NULL;
}

/* The driver is asked for most of the device while others take and free it: it may be had or not. */
static void room_beside_others(void) {
    enum { THREADS = 2, ROUNDS = 40000 };
    pthread_t thread[THREADS];
    find_all(12000, 0);
    use_device(0);
    ENTRY(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, churn, NULL) == 0);
    while (rounds < ROUNDS) {
        CUdeviceptr block;
        const CUresult code = cuMemAllocManaged(&block, 48 * MEBI, CU_MEM_ATTACH_GLOBAL);
        CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY);
        if (code == CUDA_SUCCESS) CUDA(cuMemFree(block));
    }
    over = true;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void resets(void) {
    enum { THREADS = 3, RESETS = 50 };
    pthread_t thread[THREADS];
    find_all(12000, 0);
    use_device(0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, allocate_always, NULL) == 0);
    for (int i = 0; i < RESETS; i++) {
        CUdeviceptr block;
        (void)cuda.cuMemAlloc(&block, MEBI);
        sched_yield();
        CUDA(cuDevicePrimaryCtxReset(0));
        use_device(0);
    }
    over = true;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    CUDA(cuDevicePrimaryCtxReset(0));
    use_device(0);
    three_blocks("program");
}

/* ---- many allocations --------------------------------------------------------------------------------------------- */

/* Each round takes four blocks, writes to them and gives them back; says how long that took by the emulated driver's clock. */
static void heavy(bool ordered) {
    enum { ROUNDS = 2000, BLOCKS = 4 };
    CUstream stream = NULL;
    uint64_t began, ended;
    find_all(12000, 0);
    use_device(0);
    ENTRY(weirEmuNow, (uint64_t *));
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(weirEmuNow(&began) == CUDA_SUCCESS);
    for (int round = 0; round < ROUNDS; round++) {
        CUdeviceptr block[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            if (ordered)
                CUDA(cuMemAllocAsync(&block[i], (size_t)MEBI << i, stream));
            else
                block[i] = plain((size_t)MEBI << i);
            CUDA(cuMemsetD8Async(block[i], 1, (size_t)MEBI << i, stream));
        }
        for (int i = 0; i < BLOCKS; i++)
            CHECK((ordered ? cuda.cuMemFreeAsync(block[i], stream) : cuda.cuMemFree(block[i])) == CUDA_SUCCESS);
    }
    CUDA(cuStreamSynchronize(stream));
    CHECK(weirEmuNow(&ended) == CUDA_SUCCESS);
    printf("%llu us\n", (unsigned long long)(ended - began) / 1000);
}

static void heavy_plain(void) { heavy(false); }
static void heavy_ordered(void) { heavy(true); }

/* ---- the end ------------------------------------------------------------------------------------------------------ */

/* Ends while threads allocate, with a function at exit that frees. */
static CUdeviceptr last;
static void free_at_exit(void) { (void)cuda.cuMemFree(last); }

static void ends(void) {
    pthread_t thread;
    enum { THREADS = 3 };
    find_all(12000, 0);
    use_device(0);
    last = plain(MEBI);
    atexit(free_at_exit);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread, NULL, allocate_always, NULL) == 0);
    for (int i = 0; i < THREADS; i++) sem_wait(&begun); /* a driver that ends refuses contexts */
    CUDA(cuMemsetD8Async(plain(MEBI), 1, MEBI, NULL));
}

/* Ends from a signal's handler, in the middle of whatever comes upon it. */
static void end_now(int signal) {
    (void)signal;
    exit(0);
}

static void handler(void) {
    const struct itimerval soon = {.it_value.tv_usec = 1000};
    find_all(12000, 0);
    use_device(0);
    signal(SIGALRM, end_now);
    for (unsigned round = 0;; round++) {
        CUdeviceptr block;
        if (round == 100) CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        CUDA(cuMemAllocAsync(&block, (round * 7919 % 64 + 1) * 4096, NULL));
        CUDA(cuMemFreeAsync(block, NULL));
    }
}

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {{"look_ups", look_ups},
              {"sizes", sizes},
              {"frees", frees},
              {"pools", pools},
              {"peaks", peaks},
              {"limits", limits},
              {"idle_for_pages", idle_for_pages},
              {"idle_for_managed", idle_for_managed},
              {"room_beside_others", room_beside_others},
              {"idle_for_a_pool", idle_for_a_pool},
              {"idle_for_a_graph", idle_for_a_graph},
              {"idle_for_a_context", idle_for_a_context},
              {"long_kernel", long_kernel},
              {"contexts", contexts},
              {"peers", peers},
              {"accessors_before", accessors_before},
              {"accessors_after", accessors_after},
              {"resets", resets},
              {"ends", ends},
              {"handler", handler},
              {"heavy_plain", heavy_plain},
              {"heavy_ordered", heavy_ordered}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(argv[1], scenes[i].name) != 0) continue;
        scenes[i].play();
        puts(argv[1]);
        return 0;
    }
    return 2;
}
