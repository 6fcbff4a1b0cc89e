/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/preload/pinned.h"

#include <stdlib.h>

#include "alloc/table.h"
#include "device/watched.h"

enum { CLASSES = 512, STEP = 256 };
#define SPARE ((size_t)64 << 20) /* so much may be held idle, whatever was live */

struct block {
    struct block *next; /* in its class's list */
    void *start;
    size_t capacity, asked;
    unsigned flags;
    int ordinal;
    enum { LIVE, IDLE, BUSY } state;
    uint64_t freed; /* when: the later the larger */
    int mark_count;
    CUevent marks[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__table known; /* by address */
static struct { struct block *oldest, *newest; } classes[CLASSES];
static size_t live, held;
static uint64_t frees;

static uintptr_t key_of(const void *start) { return (uintptr_t)start; }

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

/* The highest power of two below it, as a shift; of 2 and more. */
static unsigned below(size_t bytes) { return 63u - (unsigned)__builtin_clzll(bytes - 1); }

static size_t capacity_of(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return bytes;
    const size_t step = bytes <= (size_t)8 * STEP ? STEP : (size_t)1 << (below(bytes) - 3);
    return (bytes + step - 1) / step * step;
}

/* A number of its own for each capacity. */
static size_t class_of(size_t capacity) {
    if (capacity <= (size_t)8 * STEP) return capacity / STEP;
    const unsigned power = below(capacity);
    return (size_t)power * 8 + (((capacity - 1) >> (power - 3)) & 7);
}

static void count_bytes(void) {
    if (live > weir__preload_counts.host_peak_live_bytes)
        __atomic_store_n(&weir__preload_counts.host_peak_live_bytes, live, __ATOMIC_RELAXED);
    if (held > weir__preload_counts.host_peak_held_bytes)
        __atomic_store_n(&weir__preload_counts.host_peak_held_bytes, held, __ATOMIC_RELAXED);
}

/* ---- marks -------------------------------------------------------------------------------------------------------- */

/* A driver before CUDA 12.5 has no events for a context: the host waits, as it does in the driver's own free. */
static bool mark_device(struct weir_device *device, CUevent *event) {
    const struct weir__driver *driver = device->driver;
    if (weir__device_enter(device) != WEIR_OK) return false;
    CUresult code = *event != NULL ? CUDA_SUCCESS : driver->event_create(event, CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS && driver->context_record != NULL) code = driver->context_record(device->context, *event);
    if (driver->context_record == NULL || code == CUDA_ERROR_NOT_SUPPORTED) code = driver->context_synchronize();
    weir__device_leave(device);
    return code == CUDA_SUCCESS;
}

/* Any device may have been told to use the block. */
static bool mark(const struct weir__real *driver, struct block *block) {
    bool good = weir__preload_quiet_begin();
    for (int i = 0; i < block->mark_count && good; i++) {
        struct weir_device *device = NULL;
        good = weir__preload_device(driver, i, &device) && (device == NULL || mark_device(device, &block->marks[i]));
    }
    weir__preload_quiet_end();
    return good;
}

/* What the driver says of the marks when it is asked by one of its calls; the first that is no success. */
enum question { HAS_PASSED, WAIT, DESTROY };
static CUresult ask(const struct block *block, int index, enum question question) {
    struct weir_device *device = weir__process_device_made(index);
    if (block->marks[index] == NULL || device == NULL) return CUDA_SUCCESS;
    if (weir__device_enter(device) != WEIR_OK) return CUDA_ERROR_NOT_READY;
    const struct weir__driver *driver = device->driver;
    const CUresult code = question == HAS_PASSED ? driver->event_query(block->marks[index])
                          : question == WAIT     ? driver->event_synchronize(block->marks[index])
                                                 : driver->event_destroy(block->marks[index]);
    weir__device_leave(device);
    return code;
}

static CUresult ask_all(const struct block *block, enum question question) {
    CUresult first = CUDA_SUCCESS;
    for (int i = 0; i < block->mark_count; i++) {
        const CUresult code = ask(block, i, question);
        if (first == CUDA_SUCCESS) first = code;
    }
    return first;
}

/* ---- idle blocks -------------------------------------------------------------------------------------------------- */

/* Needs the lock, as the next three. */
static void put_idle(struct block *block, bool first) {
    const size_t class = class_of(block->capacity);
    block->state = IDLE;
    block->next = first ? classes[class].oldest : NULL;
    if (classes[class].oldest == NULL || first)
        classes[class].oldest = block;
    else
        classes[class].newest->next = block;
    if (block->next == NULL) classes[class].newest = block;
}

static struct block *unlink_after(size_t class, struct block *before) {
    struct block *block = before == NULL ? classes[class].oldest : before->next;
    if (before == NULL)
        classes[class].oldest = block->next;
    else
        before->next = block->next;
    if (block->next == NULL) classes[class].newest = before;
    block->state = BUSY;
    return block;
}

static struct block *find_idle(size_t capacity, unsigned flags, int ordinal) {
    const size_t class = class_of(capacity);
    struct block *before = NULL;
    for (struct block *at = classes[class].oldest; at != NULL; before = at, at = at->next)
        if (at->flags == flags && at->ordinal == ordinal) return unlink_after(class, before);
    return NULL;
}

static struct block *pop_oldest(void) {
    size_t oldest = CLASSES;
    for (size_t i = 0; i < CLASSES; i++)
        if (classes[i].oldest != NULL &&
            (oldest == CLASSES || classes[i].oldest->freed < classes[oldest].oldest->freed))
            oldest = i;
    return oldest == CLASSES ? NULL : unlink_after(oldest, NULL);
}

/* Of what matches, the one that was freed first has the earliest marks. */
static struct block *take_idle(size_t capacity, unsigned flags, int ordinal) {
    pthread_mutex_lock(&lock);
    struct block *block = find_idle(capacity, flags, ordinal);
    pthread_mutex_unlock(&lock);
    if (block == NULL || ask_all(block, HAS_PASSED) == CUDA_SUCCESS) return block;
    pthread_mutex_lock(&lock);
    put_idle(block, true);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- to and from the driver --------------------------------------------------------------------------------------- */

CUresult weir__pinned_from_driver(const struct weir__real *driver, void **address, size_t bytes, unsigned flags) {
    if (flags != WEIR__PINNED_PLAIN) return driver->cuMemHostAlloc(address, bytes, flags);
    return driver->cuMemAllocHost_v2 == NULL ? CUDA_ERROR_NOT_INITIALIZED : driver->cuMemAllocHost_v2(address, bytes);
}

/* The table forgets it first: its address may be another block's as soon as the driver has it. */
static CUresult give_back(const struct weir__real *driver, struct block *block, bool was_live) {
    pthread_mutex_lock(&lock);
    weir__table_take(&known, key_of(block->start));
    pthread_mutex_unlock(&lock);
    const CUresult code = driver->cuMemFreeHost(block->start);
    WEIR__COUNT(host_calls);
    if (code == CUDA_SUCCESS) (void)ask_all(block, DESTROY);
    pthread_mutex_lock(&lock);
    const bool again = code != CUDA_SUCCESS && weir__table_reserve(&known);
    if (again) weir__table_put(&known, key_of(block->start), block);
    if (again && was_live) block->state = LIVE;
    if (again && !was_live) put_idle(block, true);
    if (!again) held -= block->capacity;
    if (!again && was_live) live -= block->capacity;
    pthread_mutex_unlock(&lock);
    if (!again) free(block);
    return code;
}

static bool unpin(const struct weir__real *driver, struct block *block) {
    (void)ask_all(block, WAIT); /* the driver's own free need not know of all contexts */
    return give_back(driver, block, false) == CUDA_SUCCESS;
}

/* So that programs whose sizes change do not pin ever more. */
static void make_room(const struct weir__real *driver, size_t capacity) {
    for (bool good = true; good;) {
        pthread_mutex_lock(&lock);
        size_t most = weir__preload_counts.host_peak_live_bytes;
        if (live + capacity > most) most = live + capacity;
        struct block *block = held + capacity > most + most / 4 + SPARE ? pop_oldest() : NULL;
        pthread_mutex_unlock(&lock);
        good = block != NULL && unpin(driver, block);
    }
}

static CUresult pin(const struct weir__real *driver, struct block *block) {
    CUresult code = weir__pinned_from_driver(driver, &block->start, block->capacity, block->flags);
    WEIR__COUNT(host_calls);
    while (code == CUDA_ERROR_OUT_OF_MEMORY) {
        pthread_mutex_lock(&lock);
        struct block *idle = pop_oldest();
        pthread_mutex_unlock(&lock);
        if (idle == NULL || !unpin(driver, idle)) return code;
        code = weir__pinned_from_driver(driver, &block->start, block->capacity, block->flags);
        WEIR__COUNT(host_calls);
    }
    return code;
}

static struct block *new_block(const struct weir__real *driver, size_t capacity, unsigned flags, int ordinal) {
    int devices = 0;
    if (driver->cuDeviceGetCount == NULL || driver->cuDeviceGetCount(&devices) != CUDA_SUCCESS) return NULL;
    struct block *block = calloc(1, sizeof *block + (size_t)devices * sizeof(CUevent));
    if (block == NULL) return NULL;
    *block =
        (struct block){.capacity = capacity, .flags = flags, .ordinal = ordinal, .state = BUSY, .mark_count = devices};
    return block;
}

/* Gives: NULL and *code. A new block is in the table. */
static struct block *make(const struct weir__real *driver, size_t capacity, unsigned flags, int ordinal,
                          CUresult *code) {
    make_room(driver, capacity);
    struct block *block = new_block(driver, capacity, flags, ordinal);
    *code = block == NULL ? CUDA_ERROR_OUT_OF_MEMORY : pin(driver, block);
    if (*code == CUDA_SUCCESS) {
        pthread_mutex_lock(&lock);
        if (weir__table_reserve(&known))
            weir__table_put(&known, key_of(block->start), block);
        else
            *code = CUDA_ERROR_OUT_OF_MEMORY;
        if (*code == CUDA_SUCCESS) held += capacity;
        pthread_mutex_unlock(&lock);
        if (*code != CUDA_SUCCESS) (void)driver->cuMemFreeHost(block->start);
    }
    if (*code == CUDA_SUCCESS) return block;
    free(block);
    return NULL;
}

/* ---- what programs ask for ---------------------------------------------------------------------------------------- */

CUresult weir__pinned_alloc(const struct weir__real *driver, int ordinal, size_t bytes, unsigned flags,
                            void **address) {
    const size_t capacity = capacity_of(bytes);
    CUresult code = CUDA_SUCCESS;
    struct block *block = take_idle(capacity, flags, ordinal);
    if (block != NULL) /* whoever had it before is done: the watch, where there is one, checks that */
        weir__device_host_access(weir__process_device_made(ordinal), block->start, capacity, true);
    else
        block = make(driver, capacity, flags, ordinal, &code);
    if (code == CUDA_ERROR_OUT_OF_MEMORY && capacity > bytes)
        return weir__pinned_from_driver(driver, address, bytes, flags); /* it may have just that much */
    if (block == NULL) return code;
    pthread_mutex_lock(&lock);
    block->state = LIVE;
    block->asked = bytes;
    live += capacity;
    count_bytes();
    pthread_mutex_unlock(&lock);
    *address = block->start;
    WEIR__COUNT(host_allocs);
    return CUDA_SUCCESS;
}

CUresult weir__pinned_free(const struct weir__real *driver, void *address, bool *ours) {
    pthread_mutex_lock(&lock);
    struct block *block = weir__table_get(&known, key_of(address));
    const bool was_live = block != NULL && block->state == LIVE;
    if (was_live) block->state = BUSY;
    pthread_mutex_unlock(&lock);
    *ours = block != NULL;
    if (!*ours) return driver->cuMemFreeHost(address);
    if (!was_live) return CUDA_ERROR_INVALID_VALUE;
    const bool marked = mark(driver, block);
    const CUresult code = marked ? CUDA_SUCCESS : give_back(driver, block, true);
    if (code == CUDA_SUCCESS) WEIR__COUNT(host_frees);
    if (!marked) return code;
    pthread_mutex_lock(&lock);
    block->freed = ++frees;
    live -= block->capacity;
    put_idle(block, false);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Where an allocation begins that an address lies in is what the driver knows. */
bool weir__pinned_find(const struct weir__real *driver, CUdeviceptr address, struct weir__pinned_found *found) {
    CUdeviceptr start = 0;
    if (__atomic_load_n(&weir__preload_counts.host_allocs, __ATOMIC_RELAXED) == 0 ||
        driver->cuPointerGetAttribute == NULL ||
        driver->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS)
        return false;
    pthread_mutex_lock(&lock);
    const struct block *block = weir__table_get(&known, (uintptr_t)start);
    if (block != NULL)
        *found = (struct weir__pinned_found){.live = block->state == LIVE && address - start < block->asked,
                                             .start = block->start,
                                             .bytes = block->asked};
    pthread_mutex_unlock(&lock);
    return block != NULL;
}

/* ---- a reset ------------------------------------------------------------------------------------------------------ */

static struct block *block_of(int ordinal) {
    for (size_t i = 0; i < known.room; i++) {
        struct block *block = known.entries[i].value;
        if (known.entries[i].key != 0 && block->ordinal == ordinal) return block;
    }
    return NULL;
}

static void unlink_idle(struct block *block) {
    const size_t class = class_of(block->capacity);
    struct block *before = NULL;
    for (struct block *at = classes[class].oldest; at != block; at = at->next) before = at;
    (void)unlink_after(class, before);
}

/* Live blocks are the program's to lose, as those of the driver's own are; it may free them, and the driver answers. */
void weir__pinned_reset(const struct weir__real *driver, int ordinal) {
    for (struct block *block; (block = block_of(ordinal)) != NULL;) {
        if (block->state == IDLE) {
            unlink_idle(block);
            (void)ask_all(block, WAIT);
            (void)driver->cuMemFreeHost(block->start);
        } else {
            live -= block->capacity;
        }
        weir__table_take(&known, key_of(block->start));
        (void)ask_all(block, DESTROY);
        held -= block->capacity;
        free(block);
    }
    for (size_t i = 0; i < known.room; i++) {
        struct block *block = known.entries[i].value;
        if (known.entries[i].key == 0 || ordinal >= block->mark_count) continue;
        (void)ask(block, ordinal, DESTROY);
        block->marks[ordinal] = NULL;
    }
}
