/* SPDX-License-Identifier: Apache-2.0 */
/* usage: joined SCENE: streams that the program orders by events, and memory that goes from one to the other. */
#include <stdbool.h>

#include "driver.h"

/* X(symbol, parameters): what driver.h does not list. */
#define MORE_LIST(X)                                                                                                   \
    X(cuEventCreate, (CUevent * event, unsigned flags))                                                                \
    X(cuEventRecord, (CUevent event, CUstream stream))                                                                 \
    X(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags))                                        \
    X(cuEventDestroy_v2, (CUevent event))                                                                              \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                             \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                            \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                          \
    X(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                                                  \
    X(weirEmuNow, (uint64_t * ns))                                                                                     \
    X(weirEmuGateCreate, (struct weir_emu_gate * *gate, unsigned flags))                                               \
    X(weirEmuGateHold, (struct weir_emu_gate * gate, CUstream stream))                                                 \
    X(weirEmuGateOpen, (struct weir_emu_gate * gate, uint64_t delay_ns))

struct weir_emu_gate;
#define MEMBER(symbol, parameters) CUresult(*symbol) parameters;
static struct { MORE_LIST(MEMBER) } more;
#undef MEMBER
#define MORE(call) CHECK(more.call == CUDA_SUCCESS)

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

static CUstream new_stream(void) {
    CUstream stream;
    CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static CUevent new_event(void) {
    CUevent event;
    MORE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static CUdeviceptr take(size_t bytes, CUstream stream) {
    CUdeviceptr block;
    CUDA(cuMemAllocAsync(&block, bytes, stream));
    return block;
}

/* ---- which of two blocks -------------------------------------------------------------------------------------------- */

enum { BLOCK = 640 << 10 }; /* none for a front; the limit leaves room for two and a page */

enum join { NONE, PLAIN, FLAGS, DESTROYED, CAPTURED };

/* Two streams that stand at gates have given back a block each; a third one asks, after an event of the second where it is told so.
 * Says whose block it got. */
static void whose(enum join join) {
    struct weir_emu_gate *gate;
    CUstream asker, streams[2];
    CUdeviceptr blocks[2];
    CUgraph graph;
    begin();
    asker = new_stream();
    MORE(weirEmuGateCreate(&gate, 0));
    take(512, asker); /* so that the pool knows it */
    for (int i = 0; i < 2; i++) {
        streams[i] = new_stream();
        blocks[i] = take(BLOCK, streams[i]);
        MORE(weirEmuGateHold(gate, streams[i]));
        CUDA(cuMemsetD8Async(blocks[i], 1, BLOCK, streams[i]));
    }
    for (int i = 0; i < 2; i++) CUDA(cuMemFreeAsync(blocks[i], streams[i]));
    CUevent event = new_event();
    CUstream other = new_stream();
    if (join == CAPTURED) MORE(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (join == FLAGS)
        MORE(cuEventRecordWithFlags(event, streams[1], 0));
    else if (join != NONE)
        MORE(cuEventRecord(event, streams[1]));
    if (join == CAPTURED) MORE(cuStreamEndCapture(other, &graph));
    if (join == DESTROYED) {
        MORE(cuEventDestroy_v2(event));
        CUevent again = new_event();
        CHECK(again == event); /* the emulated driver gives a handle again; never recorded it holds nothing back */
    }
    MORE(cuStreamWaitEvent(asker, event, 0));
    const CUdeviceptr got = take(BLOCK, asker);
    printf("%s\n", got == blocks[0] ? "the first" : got == blocks[1] ? "the second" : "another");
    CUDA(cuMemsetD8Async(got, 2, BLOCK, asker));
    MORE(weirEmuGateOpen(gate, 0));
    CUDA(cuStreamSynchronize(asker));
}

static void none(void) { whose(NONE); }
static void recorded(void) { whose(PLAIN); }
static void flags(void) { whose(FLAGS); }
static void destroyed(void) { whose(DESTROYED); }
static void captured(void) { whose(CAPTURED); }

/* ---- steps ------------------------------------------------------------------------------------------------------------ */

enum { EVENTS = 16 };
static CUevent events[EVENTS];

static void join(CUstream later, CUstream first) {
    static unsigned count;
    const CUevent event = events[count++ % EVENTS];
    MORE(cuEventRecord(event, first));
    MORE(cuStreamWaitEvent(later, event, 0));
}

static void use(CUdeviceptr block, size_t bytes, int times, CUstream stream) {
    for (int i = 0; i < times; i++) CUDA(cuMemsetD8Async(block, 1, bytes, stream));
}

/* Weights of 16 to 32 MiB are gathered on one side stream, used and given back there; activations are copied to the host on another,
 * which gives them back. Says how long that took by the emulated driver's clock. */
static void steps(void) {
    enum { STEPS = 400 };
    uint64_t began, ended, seed = 1;
    void *host;
    begin();
    const CUstream compute = new_stream(), gather = new_stream(), copies = new_stream();
    for (int i = 0; i < EVENTS; i++) events[i] = new_event();
    MORE(cuMemHostAlloc(&host, (size_t)32 * MEBI, 0));
    MORE(weirEmuNow(&began));
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const size_t bytes = (16 + (seed >> 33) % 17) * MEBI;
        const CUdeviceptr activation = take(bytes, compute), weights = take(bytes, gather);
        use(activation, bytes, 20, compute);
        use(weights, bytes, 10, gather);
        join(compute, gather);
        use(weights, bytes, 10, compute);
        join(gather, compute);
        CUDA(cuMemFreeAsync(weights, gather));
        join(compute, gather);
        join(copies, compute);
        CUDA(cuMemcpyDtoHAsync(host, activation, bytes, copies));
        CUDA(cuMemFreeAsync(activation, copies));
    }
    const CUstream all[] = {compute, gather, copies};
    for (int i = 0; i < 3; i++) CUDA(cuStreamSynchronize(all[i]));
    MORE(weirEmuNow(&ended));
    printf("%llu us\n", (unsigned long long)(ended - began) / 1000);
}

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {{"none", none},           {"recorded", recorded}, {"flags", flags},
              {"destroyed", destroyed}, {"captured", captured}, {"steps", steps}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(argv[1], scenes[i].name) != 0) continue;
        scenes[i].play();
        return 0;
    }
    return 2;
}
