/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in allocator over the runtime: one region, cut into blocks of powers of two, a list of free ones for each size and
 * stream. Right as it stands; PLANT plants a fault: early, a free block serves any stream at once; double, now and then a
 * live block is handed out; corrupt, now and then a byte of a live block is changed; host, memory is the host's;
 * gone, all memory is given back while blocks are live; other, memory is another device's; context, one is left current;
 * shut, no device may touch the memory; exit, leave and crash end the process; late, a host function never ends; linger, what
 * the library does when it is unloaded never ends. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { REGION = 48 << 20, UNIT = 512, UNITS = REGION / UNIT, CLASSES = 20, STREAMS = 64, ONCE_IN = 100 };

int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);
int cudaMemset(void *at, int value, size_t bytes);
int cudaDeviceSynchronize(void);
int cudaSetDevice(int device);
int cudaStreamCreateWithFlags(void **stream, unsigned flags);
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *argument);
int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wanted, uint64_t flags);
int cuMemCreate(uint64_t *handle, size_t bytes, const void *properties, uint64_t flags);
int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, uint64_t flags);

API void *planted_alloc(ssize_t bytes, int device, void *stream);
API void planted_free(void *block, ssize_t bytes, int device, void *stream);
API void planted_use(void *block, void *stream);

struct unit {
    unsigned class, stream, next; /* next: of the list, by unit from 1 */
    int used;                     /* by other streams */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *region;
static struct unit units[UNITS];
static unsigned taken, lists[CLASSES][STREAMS], live[CLASSES]; /* live: one of each class, from 1 */
static void *streams[STREAMS];
static unsigned requests;

static int planted(const char *kind) {
    const char *plant = getenv("PLANT");
    return plant != NULL && strcmp(plant, kind) == 0;
}

static void never_end(void *argument) {
    (void)argument;
    for (;;) pause();
}

static void work_for_ever(void) {
    void *stream;
    cudaStreamCreateWithFlags(&stream, 1 /* cudaStreamNonBlocking */);
    cudaLaunchHostFunc(stream, never_end, NULL);
}

__attribute__((destructor)) static void unload(void) {
    if (planted("linger")) never_end(NULL);
}

/* Mapped, and no access is set. */
static void *map_shut(void) {
    const int properties[8] = {1 /* pinned */, 0, 1 /* of a device: 0 */};
    uint64_t address = 0, page = 0;
    cuMemAddressReserve(&address, REGION, 0, 0, 0);
    cuMemCreate(&page, REGION, properties, 0);
    cuMemMap(address, REGION, 0, page, 0);
    return (void *)(uintptr_t)address;
}

static void *map_region(void) {
    void *memory = NULL;
    if (planted("late")) work_for_ever();
    if (planted("shut")) return map_shut();
    if (planted("other")) cudaSetDevice(1);
    if (cudaMalloc(&memory, REGION) != 0) memory = NULL;
    if (planted("other")) cudaSetDevice(0);
    return memory;
}

static unsigned stream_number(void *stream) {
    unsigned number = 0;
    while (number < STREAMS - 1 && streams[number] != NULL && streams[number] != stream) number++;
    streams[number] = stream;
    return planted("early") ? 0 : number;
}

static unsigned take(unsigned class, unsigned stream) {
    unsigned *list = &lists[class][stream], unit = *list;
    if (unit != 0) {
        *list = units[unit - 1].next;
        return unit;
    }
    if (taken + (1u << class) > UNITS) return 0;
    unit = taken + 1;
    taken += 1u << class;
    return unit;
}

static void misbehave(unsigned class, unsigned *unit) {
    if (++requests < ONCE_IN || live[class] == 0) return;
    requests = 0;
    if (planted("double")) *unit = live[class];
    if (planted("gone")) cudaFree(region);
    if (planted("corrupt")) cudaMemset(region + (size_t)(live[class] - 1) * UNIT + 100, 0x5a, 1);
}

void *planted_alloc(ssize_t bytes, int device, void *stream) {
    static char host[512];
    unsigned class = 0;
    (void)device;
    if (planted("host")) return host;
    if (planted("nothing")) return NULL;
    if (planted("exit")) exit(0);
    if (planted("leave")) _exit(0);
    if (planted("crash")) abort();
    if (planted("context")) cudaSetDevice(1);
    pthread_mutex_lock(&lock);
    if (region == NULL) region = map_region();
    while (class < CLASSES - 1 && (size_t)UNIT << class < (size_t)bytes) class ++;
    const unsigned number = stream_number(stream);
    unsigned unit = region != NULL && (size_t)UNIT << class >= (size_t)bytes ? take(class, number) : 0;
    if (unit != 0) misbehave(class, &unit);
    if (unit != 0) {
        units[unit - 1] = (struct unit){.class = class, .stream = number};
        live[class] = bytes > 128 ? unit : 0;
    }
    pthread_mutex_unlock(&lock);
    return unit != 0 ? region + (size_t)(unit - 1) * UNIT : NULL;
}

void planted_free(void *block, ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    const unsigned unit = (unsigned)(((char *)block - region) / UNIT) + 1;
    struct unit *freed = &units[unit - 1];
    if (freed->used && !planted("early")) cudaDeviceSynchronize();
    pthread_mutex_lock(&lock);
    if (live[freed->class] == unit) live[freed->class] = 0;
    freed->next = lists[freed->class][freed->stream];
    lists[freed->class][freed->stream] = unit;
    pthread_mutex_unlock(&lock);
}

void planted_use(void *block, void *stream) {
    (void)stream;
    units[((char *)block - region) / UNIT].used = 1;
}
