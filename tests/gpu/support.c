/* SPDX-License-Identifier: Apache-2.0 */
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the driver ------------------------------------------------------------------------------------------------- */

/* Stand in for entries that the driver lacks. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define LACKING(member, name, parameters)                                                                              \
    static CUresult lacks_##member parameters { gpu_skip("the driver lacks %s", name); }
GPU_ENTRIES(LACKING)
#undef LACKING
#pragma GCC diagnostic pop

struct gpu_api cu;
CUcontext primary;
static void *library;

const char *driver_path(void) {
    const char *path = getenv("GPU_DRIVER");
    return path != NULL && path[0] != '\0' ? path : "libcuda.so.1";
}

bool driver_has(const char *name) { return dlsym(library, name) != NULL; }

/* A function's address where an object's is asked for, as POSIX has it. */
static void look_up(const char *name, void *place) {
    void *found = dlsym(library, name);
    if (found != NULL) memcpy(place, &found, sizeof found);
}

const char *driver_load(void) {
    library = dlopen(driver_path(), RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return dlerror();
#define LOOK_UP(member, name, parameters)                                                                              \
    cu.member = lacks_##member;                                                                                        \
    look_up(name, (void *)&cu.member);
    GPU_ENTRIES(LOOK_UP)
#undef LOOK_UP
#define LOOK_UP_EMULATOR(member, name, parameters) look_up(name, (void *)&cu.member);
    GPU_EMULATOR_ENTRIES(LOOK_UP_EMULATOR)
#undef LOOK_UP_EMULATOR
    return NULL;
}

bool machine_is_emulated(void) { return cu.EmuProfile != NULL; }

bool machine_has_virtual_clock(void) {
    const char *settings = getenv("WEIR_EMU");
    return cu.EmuGateHold != NULL && settings != NULL && strstr(settings, "clock:virtual") != NULL;
}

/* ---- the machine ------------------------------------------------------------------------------------------------ */

static void nothing(void *argument) { (void)argument; }

/* A driver may load what a sort of work needs when it is first asked for, and wait for the device then. */
static void warm_up(void) {
    enum { BYTES = 4096 };
    const CUdeviceptr block = new_block(2 * BYTES);
    unsigned char *pinned = new_pinned(BYTES), pageable[BYTES] = {0};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set(block, 1, 2 * BYTES, stream);
    copy(block + BYTES, block, BYTES, stream);
    copy(as_device(pinned), block, BYTES, stream);
    copy(block, as_device(pinned), BYTES, stream);
    copy(block, as_device(pageable), BYTES, stream);
    copy(as_device(pageable), block, BYTES, stream);
    OK(cu.LaunchHostFunc(stream, nothing, NULL));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFreeHost(pinned));
    OK(cu.MemFree(block));
}

void machine_begin(void) {
    OK(cu.Init(0));
    OK(cu.DevicePrimaryCtxRetain(&primary, DEVICE));
    OK(cu.CtxPushCurrent(primary));
    warm_up();
}

void machine_check(void) {
    CUcontext current = NULL;
    OK(cu.CtxGetCurrent(&current));
    CHECK(current == primary);
    OK(cu.CtxSynchronize());
}

int device_count(void) {
    int count = 0;
    OK(cu.DeviceGetCount(&count));
    return count;
}

int attribute(CUdevice_attribute which) {
    int value = 0;
    return cu.DeviceGetAttribute(&value, which, DEVICE) == CUDA_SUCCESS ? value : 0;
}

size_t total_memory(void) {
    size_t unused, total = 0;
    OK(cu.MemGetInfo(&unused, &total));
    return total;
}

size_t free_memory(void) {
    size_t unused = 0, total;
    OK(cu.MemGetInfo(&unused, &total));
    return unused;
}

CUmemAllocationProp page_properties(void) {
    CUmemAllocationProp properties;
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = DEVICE;
    return properties;
}

size_t granule(void) {
    const CUmemAllocationProp properties = page_properties();
    size_t bytes = 0;
    OK(cu.MemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(bytes > 0);
    return bytes;
}

size_t large_amount(void) {
    enum { MOST = 1 << 30 };
    const size_t part = total_memory() / 8, bytes = part < MOST ? part : MOST;
    return bytes / granule() * granule();
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

CUstream new_stream(unsigned flags) {
    CUstream stream = NULL;
    OK(cu.StreamCreate(&stream, flags));
    CHECK(stream != NULL);
    return stream;
}

CUevent new_event(void) {
    CUevent event = NULL;
    OK(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(event != NULL);
    return event;
}

CUdeviceptr new_block(size_t bytes) {
    CUdeviceptr block = 0;
    OK(cu.MemAlloc(&block, bytes));
    CHECK(block != 0);
    return block;
}

unsigned char *new_pinned(size_t bytes) {
    void *address = NULL;
    OK(cu.MemHostAlloc(&address, bytes, 0));
    CHECK(address != NULL);
    memset(address, 0, bytes);
    return address;
}

CUdeviceptr as_device(const void *host) { return (CUdeviceptr)(uintptr_t)host; }

void set(CUdeviceptr at, int value, size_t bytes, CUstream stream) {
    OK(cu.MemsetD8Async(at, (unsigned char)value, bytes, stream));
}

void copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    OK(cu.MemcpyAsync(to, from, bytes, stream));
}

bool all_are(const unsigned char *bytes, size_t count, int value) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value) return false;
    return true;
}

bool device_all_are(CUdeviceptr at, size_t count, int value) {
    unsigned char *bytes = new_pinned(count);
    memset(bytes, ~value, count);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    copy(as_device(bytes), at, count, stream);
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
    const bool same = all_are(bytes, count, value);
    OK(cu.MemFreeHost(bytes));
    return same;
}

enum { MOST_MARKS = 64 };
static char marks[MOST_MARKS + 1];
static atomic_int mark_count;

static void make_mark(void *argument) {
    const int place = atomic_fetch_add(&mark_count, 1);
    if (place < MOST_MARKS) marks[place] = (char)('0' + (intptr_t)argument);
}

void mark(CUstream stream, int value) { OK(cu.LaunchHostFunc(stream, make_mark, (void *)(intptr_t)value)); }

bool marks_are(const char *digits) {
    const bool same = strcmp(marks, digits) == 0;
    if (!same) fprintf(stderr, "the order was %s, expected %s\n", marks, digits);
    memset(marks, 0, sizeof marks);
    atomic_store(&mark_count, 0);
    return same;
}

/* ---- holding work back ------------------------------------------------------------------------------------------ */

/* Never freed: a host function may still be returning from it. */
struct gate {
    sem_t opened;
    atomic_uint milliseconds;
    struct emu_gate *emulated;
};

static void sleep_ms(unsigned milliseconds) {
    struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static void stand_at(void *argument) {
    struct gate *gate = argument;
    while (sem_wait(&gate->opened) != 0) {
    }
    sleep_ms(atomic_load(&gate->milliseconds));
}

/* Under the emulated driver's virtual clock a host function that blocks would stop the clock: its own gates are for
 * that. */
struct gate *hold(CUstream stream) {
    enum { MOST_GATES = 64 };
    static struct gate gates[MOST_GATES];
    static int used;
    CHECK(used < MOST_GATES);
    struct gate *gate = &gates[used++];
    if (machine_has_virtual_clock()) {
        OK(cu.EmuGateCreate(&gate->emulated, 0));
        OK(cu.EmuGateHold(gate->emulated, stream));
        return gate;
    }
    CHECK(sem_init(&gate->opened, 0, 0) == 0);
    OK(cu.LaunchHostFunc(stream, stand_at, gate));
    return gate;
}

void let_go_after(struct gate *gate, unsigned milliseconds) {
    if (gate->emulated != NULL) {
        OK(cu.EmuGateOpen(gate->emulated, (uint64_t)milliseconds * 1000000));
        return;
    }
    atomic_store(&gate->milliseconds, milliseconds);
    CHECK(sem_post(&gate->opened) == 0);
}

void let_go(struct gate *gate) { let_go_after(gate, 0); }

enum { LOOKS = 40 };

static void pause_between_looks(void) {
    const struct timespec moment = {0, 100000};
    if (!machine_has_virtual_clock())
        nanosleep(&moment, NULL);
    else if (cu.EmuPause != NULL)
        OK(cu.EmuPause(100000));
}

void stays_pending(CUstream stream) {
    for (int i = 0; i < LOOKS; i++, pause_between_looks()) GIVES(cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
}

void event_stays_pending(CUevent event) {
    for (int i = 0; i < LOOKS; i++, pause_between_looks()) GIVES(cu.EventQuery(event), CUDA_ERROR_NOT_READY);
}

enum { MOST_LOOKS = 30000 };
static const char held_back[] =
    "work is held back that nothing orders behind the held stream; it may, but need not, run beside it";

void becomes_done(CUstream stream) {
    for (int i = 0; i < MOST_LOOKS; i++, pause_between_looks()) {
        const CUresult code = cu.StreamQuery(stream);
        if (code == CUDA_SUCCESS) return;
        GIVES(code, CUDA_ERROR_NOT_READY);
    }
    gpu_skip("%s", held_back);
}

void event_becomes_done(CUevent event) {
    for (int i = 0; i < MOST_LOOKS; i++, pause_between_looks()) {
        const CUresult code = cu.EventQuery(event);
        if (code == CUDA_SUCCESS) return;
        GIVES(code, CUDA_ERROR_NOT_READY);
    }
    gpu_skip("%s", held_back);
}

/* ---- threads and processes -------------------------------------------------------------------------------------- */

struct call {
    void (*run)(void *argument);
    void *argument;
};

static void *make_call(void *argument) {
    const struct call *call = argument;
    if (machine_has_virtual_clock()) OK(cu.EmuThreadBegin("other", 1));
    call->run(call->argument);
    if (machine_has_virtual_clock()) OK(cu.EmuThreadEnd());
    return NULL;
}

/* Under the virtual clock the calling thread steps out of it meanwhile, since it waits for another in a way that the
 * clock doesn't see. */
void on_another_thread(void (*run)(void *argument), void *argument) {
    struct call call = {run, argument};
    pthread_t thread;
    if (machine_has_virtual_clock()) OK(cu.EmuThreadEnd());
    CHECK(pthread_create(&thread, NULL, make_call, &call) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (machine_has_virtual_clock()) OK(cu.EmuThreadBegin("main", 1));
}

int begin_forked_process(void (*run)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        enum { SECONDS = 15 };
        alarm(SECONDS); /* a hang ends with a signal */
        run();
        _exit(0);
    }
    return child;
}

int end_of_forked_process(int child) {
    int status = 0;
    while (waitpid(child, &status, 0) != child) CHECK(errno == EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int in_forked_process(void (*run)(void)) { return end_of_forked_process(begin_forked_process(run)); }

/* ---- virtual memory --------------------------------------------------------------------------------------------- */

CUmemAccessDesc access_description(CUmemAccess_flags flags) {
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = DEVICE;
    access.flags = flags;
    return access;
}

CUmemGenericAllocationHandle new_page(size_t bytes) {
    const CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page = 0;
    OK(cu.MemCreate(&page, bytes, &properties, 0));
    return page;
}

CUdeviceptr new_reservation(size_t bytes) {
    CUdeviceptr at = 0;
    OK(cu.MemAddressReserve(&at, bytes, 0, 0, 0));
    CHECK(at != 0);
    return at;
}

void let_access(CUdeviceptr at, size_t bytes) {
    const CUmemAccessDesc access = access_description(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cu.MemSetAccess(at, bytes, &access, 1));
}

void map_page(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle page) {
    OK(cu.MemMap(at, bytes, 0, page, 0));
    let_access(at, bytes);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

CUstream new_capture(CUstreamCaptureMode mode) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.StreamBeginCapture(stream, mode));
    return stream;
}

CUgraph end_capture(CUstream stream) {
    CUgraph graph = NULL;
    OK(cu.StreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
    return graph;
}

CUgraphExec made_ready(CUgraph graph) {
    CUgraphExec executable = NULL;
    OK(cu.GraphInstantiate(&executable, graph, 0));
    CHECK(executable != NULL);
    return executable;
}

size_t node_count(CUgraph graph) {
    size_t count = 99;
    OK(cu.GraphGetNodes(graph, NULL, &count));
    return count;
}
