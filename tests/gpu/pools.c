/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered allocation. */
#include "suite.h"

#define SUBJECT   "pools"
#define REFERENCE "CUDA Driver API, Stream Ordered Memory Allocator, "

enum { BYTES = 1 << 16 };

static void need_pools(void) {
    SKIP_IF(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0, "the device has no memory pools");
}

static CUdeviceptr new_in_order(size_t bytes, CUstream stream) {
    CUdeviceptr block = 0;
    OK(cu.MemAllocAsync(&block, bytes, stream));
    CHECK(block != 0);
    return block;
}

static CUmemoryPool default_pool(void) {
    CUmemoryPool pool = NULL;
    OK(cu.DeviceGetDefaultMemPool(&pool, DEVICE));
    CHECK(pool != NULL);
    return pool;
}

static CUmemoryPool new_pool(void) {
    CUmemPoolProps properties;
    CUmemoryPool pool = NULL;
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = DEVICE;
    OK(cu.MemPoolCreate(&pool, &properties));
    CHECK(pool != NULL);
    return pool;
}

static uint64_t figure(CUmemoryPool pool, CUmemPool_attribute which) {
    uint64_t value = 0;
    OK(cu.MemPoolGetAttribute(pool, which, &value));
    return value;
}

CASE(a_block_is_usable_behind_its_allocation, REFERENCE "cuMemAllocAsync: \"Basic stream ordering allows future work "
                                                        "submitted into the same stream to use the allocation\"") {
    need_pools();
    unsigned char *seen = new_pinned(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr block = new_in_order(BYTES, stream);
    set(block, 4, BYTES, stream);
    copy(as_device(seen), block, BYTES, stream);
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(seen, BYTES, 4));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFreeHost(seen));
}

CASE(an_ordered_allocation_does_not_wait_for_the_stream,
     REFERENCE "cuMemAllocAsync: \"A pointer to the allocated memory is returned immediately\"") {
    need_pools();
    unsigned char *seen = new_pinned(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.MemFreeAsync(new_in_order(BYTES, stream), stream)); /* the pool has what it needs */
    struct gate *gate = hold(stream);
    const CUdeviceptr block = new_in_order(BYTES, stream);
    set(block, 5, BYTES, stream);
    copy(as_device(seen), block, BYTES, stream);
    OK(cu.MemFreeAsync(block, stream));
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(seen, BYTES, 5));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFreeHost(seen));
}

CASE(ordered_blocks_do_not_overlap, REFERENCE "cuMemAllocAsync") {
    need_pools();
    enum { COUNT = 12 };
    CUdeviceptr blocks[COUNT];
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = new_in_order((size_t)(i * 3333 + 1), stream);
        set(blocks[i], i + 1, (size_t)(i * 3333 + 1), stream);
    }
    OK(cu.StreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++) CHECK(device_all_are(blocks[i], (size_t)(i * 3333 + 1), i + 1));
    for (int i = 0; i < COUNT; i++) OK(cu.MemFreeAsync(blocks[i], stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
}

CASE(another_stream_uses_a_block_after_an_event,
     REFERENCE "cuMemAllocAsync: \"Stream query, stream synchronize, and CUDA events can be used to guarantee that the "
               "allocation operation completes\"") {
    need_pools();
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    const CUdeviceptr block = new_in_order(BYTES, first);
    OK(cu.EventRecord(event, first));
    OK(cu.StreamWaitEvent(second, event, 0));
    set(block, 6, BYTES, second);
    OK(cu.StreamSynchronize(second));
    CHECK(device_all_are(block, BYTES, 6));
    OK(cu.MemFreeAsync(block, second));
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(first));
    OK(cu.StreamDestroy(second));
    OK(cu.EventDestroy(event));
}

CASE(a_freed_block_given_again_is_used_in_order,
     REFERENCE "cuMemFreeAsync: \"must not be accessed after stream execution reaches the free\"") {
    need_pools();
    unsigned char *seen = new_pinned(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr old = new_in_order(BYTES, stream);
    struct gate *gate = hold(stream);
    set(old, 1, BYTES, stream);
    copy(as_device(seen), old, BYTES, stream);
    OK(cu.MemFreeAsync(old, stream));
    const CUdeviceptr block = new_in_order(BYTES, stream); /* perhaps the same place */
    set(block, 2, BYTES, stream);
    let_go_after(gate, 10);
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(seen, BYTES, 1));
    CHECK(device_all_are(block, BYTES, 2));
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFreeHost(seen));
}

CASE(a_block_is_not_given_to_another_stream_before_it_is_free,
     REFERENCE "CU_MEMPOOL_ATTR_REUSE_*: reuse follows dependencies, completion, or makes one") {
    need_pools();
    unsigned char *seen = new_pinned(BYTES);
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr old = new_in_order(BYTES, first);
    OK(cu.StreamSynchronize(first));
    struct gate *gate = hold(first);
    set(old, 1, BYTES, first);
    copy(as_device(seen), old, BYTES, first);
    OK(cu.MemFreeAsync(old, first));
    let_go_after(gate, 15); /* the second stream may be made to wait for the first */
    const CUdeviceptr block = new_in_order(BYTES, second);
    set(block, 2, BYTES, second);
    OK(cu.StreamSynchronize(second));
    OK(cu.StreamSynchronize(first));
    CHECK(all_are(seen, BYTES, 1));
    CHECK(device_all_are(block, BYTES, 2));
    OK(cu.MemFreeAsync(block, second));
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(first));
    OK(cu.StreamDestroy(second));
    OK(cu.MemFreeHost(seen));
}

CASE(an_ordered_block_may_be_freed_plainly,
     "CUDA Driver API, Memory Management, cuMemFree: pointers of cuMemAllocAsync() are among those it frees") {
    need_pools();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr block = new_in_order(BYTES, stream);
    set(block, 1, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    OK(cu.MemFree(block));
    OK(cu.StreamDestroy(stream));
}

CASE(a_plain_block_may_be_used_beside_ordered_ones, REFERENCE "cuMemAllocAsync") {
    need_pools();
    const CUdeviceptr plain = new_block(BYTES), ordered = new_in_order(BYTES, NULL);
    set(plain, 1, BYTES, NULL);
    set(ordered, 2, BYTES, NULL);
    OK(cu.StreamSynchronize(NULL));
    CHECK(device_all_are(plain, BYTES, 1) && device_all_are(ordered, BYTES, 2));
    OK(cu.MemFreeAsync(ordered, NULL));
    OK(cu.CtxSynchronize());
    OK(cu.MemFree(plain));
}

CASE(an_ordered_block_beyond_the_device_is_out_of_memory, REFERENCE "cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY") {
    need_pools();
    CUdeviceptr block;
    GIVES(cu.MemAllocAsync(&block, total_memory() * 2, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.CtxSynchronize());
}

CASE(a_huge_ordered_size_does_not_wrap,
     REFERENCE "cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE") {
    need_pools();
    CUdeviceptr block;
    GIVES(cu.MemAllocAsync(&block, SIZE_MAX, NULL), CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemAllocAsync(&block, SIZE_MAX - 4095, NULL), CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE);
}

/* ---- the pools themselves --------------------------------------------------------------------------------------- */

CASE(a_device_has_one_default_pool, REFERENCE "cuDeviceGetDefaultMemPool") {
    need_pools();
    CHECK(default_pool() == default_pool());
}

CASE(the_default_pool_is_current_at_first,
     REFERENCE "cuDeviceGetMemPool: \"By default the current mempool is the default mempool for a device\"") {
    need_pools();
    CUmemoryPool pool = NULL;
    OK(cu.DeviceGetMemPool(&pool, DEVICE));
    CHECK(pool == default_pool());
}

CASE(the_default_pool_cannot_be_destroyed,
     REFERENCE "cuMemPoolDestroy: \"A device's default memory pool cannot be destroyed\"") {
    need_pools();
    REFUSED(cu.MemPoolDestroy(default_pool()));
    OK(cu.MemFreeAsync(new_in_order(BYTES, NULL), NULL));
    OK(cu.CtxSynchronize());
}

CASE(a_pool_made_current_is_allocated_from,
     REFERENCE "cuDeviceSetMemPool: \"cuMemAllocAsync allocates from the current mempool\"") {
    need_pools();
    CUmemoryPool pool = new_pool(), now = NULL;
    OK(cu.DeviceSetMemPool(DEVICE, pool));
    OK(cu.DeviceGetMemPool(&now, DEVICE));
    CHECK(now == pool);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr block = new_in_order(BYTES, stream);
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= BYTES);
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemPoolDestroy(pool)); /* "Destroying the current mempool of a device sets the default mempool" */
    OK(cu.DeviceGetMemPool(&now, DEVICE));
    CHECK(now == default_pool());
}

CASE(a_block_comes_from_the_pool_that_is_named, REFERENCE "cuMemAllocFromPoolAsync") {
    need_pools();
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr block = 0;
    CHECK_EQUAL(0, figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    OK(cu.MemAllocFromPoolAsync(&block, BYTES, pool, stream));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= BYTES);
    set(block, 7, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 7));
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK_EQUAL(0, figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemPoolDestroy(pool));
}

CASE(a_pool_destroyed_with_a_block_out_lets_the_block_live,
     REFERENCE "cuMemPoolDestroy: \"the resources associated with the pool will be released automatically once there "
               "are no more outstanding allocations\"") {
    need_pools();
    CUmemoryPool pool = new_pool();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr block = 0;
    OK(cu.MemAllocFromPoolAsync(&block, BYTES, pool, stream));
    OK(cu.MemPoolDestroy(pool));
    set(block, 3, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 3));
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
}

CASE(a_pool_needs_a_device_that_is_there, REFERENCE "cuMemPoolCreate: CUDA_ERROR_INVALID_VALUE") {
    need_pools();
    CUmemPoolProps properties;
    CUmemoryPool pool;
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device_count() + 5;
    GIVES(cu.MemPoolCreate(&pool, &properties), CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE);
}

CASE(a_pools_memory_is_its_devices_to_use, REFERENCE
     "cuMemPoolCreate: \"By default, the pool's memory will be accessible from the device it is allocated on\"") {
    need_pools();
    CUmemoryPool pool = new_pool();
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemLocation location = access_description(flags).location;
    OK(cu.MemPoolGetAccess(&flags, pool, &location));
    CHECK_EQUAL(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
    OK(cu.MemPoolDestroy(pool));
}

CASE(a_pool_holds_on_to_nothing_at_first, REFERENCE "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: \"(default 0)\"") {
    need_pools();
    CUmemoryPool pool = new_pool();
    CHECK_EQUAL(0, figure(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
    OK(cu.MemPoolDestroy(pool));
}

CASE(all_reuse_is_allowed_at_first, REFERENCE "CU_MEMPOOL_ATTR_REUSE_*: \"(default enabled)\"") {
    need_pools();
    CUmemoryPool pool = new_pool();
    for (int which = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
         which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; which++) {
        int enabled = 99, off = 0;
        OK(cu.MemPoolGetAttribute(pool, (CUmemPool_attribute)which, &enabled));
        CHECK_EQUAL(1, enabled);
        OK(cu.MemPoolSetAttribute(pool, (CUmemPool_attribute)which, &off));
        OK(cu.MemPoolGetAttribute(pool, (CUmemPool_attribute)which, &enabled));
        CHECK_EQUAL(0, enabled);
    }
    OK(cu.MemPoolDestroy(pool));
}

/* A pool that keeps what it has, with `bytes` of it free. */
static CUmemoryPool new_keeping_pool(size_t bytes, CUstream stream) {
    CUmemoryPool pool = new_pool();
    uint64_t all = UINT64_MAX;
    CUdeviceptr block = 0;
    OK(cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == all);
    OK(cu.MemAllocFromPoolAsync(&block, bytes, pool, stream));
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    return pool;
}

CASE(a_pool_keeps_memory_up_to_its_threshold,
     REFERENCE "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: \"Amount of reserved memory in bytes to hold onto\"") {
    need_pools();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = new_keeping_pool(BYTES, stream);
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= BYTES);
    CHECK_EQUAL(0, figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    OK(cu.MemPoolDestroy(pool));
    OK(cu.StreamDestroy(stream));
}

CASE(a_pool_without_a_threshold_gives_back_at_synchronization, REFERENCE
     "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: more than it is released \"on the next call to stream, event or context "
     "synchronize\"") {
    need_pools();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = new_pool();
    CUdeviceptr block = 0;
    const size_t before = free_memory();
    OK(cu.MemAllocFromPoolAsync(&block, large_amount(), pool, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK(free_memory() <= before - large_amount() / 2);
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK(free_memory() >= before - large_amount() / 2);
    OK(cu.MemPoolDestroy(pool));
    OK(cu.StreamDestroy(stream));
}

CASE(a_trimmed_pool_gives_back_what_is_free, REFERENCE "cuMemPoolTrimTo") {
    need_pools();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = new_keeping_pool(large_amount(), stream);
    const size_t before = free_memory();
    OK(cu.MemPoolTrimTo(pool, 0));
    CHECK_EQUAL(0, figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    CHECK(free_memory() >= before + large_amount() / 2);
    OK(cu.MemPoolDestroy(pool));
    OK(cu.StreamDestroy(stream));
}

CASE(a_pool_is_not_trimmed_below_what_is_to_be_kept,
     REFERENCE "cuMemPoolTrimTo: \"the pool will be guaranteed to have at least minBytesToKeep bytes reserved\"") {
    need_pools();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = new_keeping_pool(large_amount(), stream);
    const uint64_t reserved = figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    OK(cu.MemPoolTrimTo(pool, (size_t)reserved + 1));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == reserved);
    OK(cu.MemPoolTrimTo(pool, (size_t)reserved / 2));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= reserved / 2);
    OK(cu.MemPoolDestroy(pool));
    OK(cu.StreamDestroy(stream));
}

CASE(a_block_out_is_not_trimmed_away,
     REFERENCE "cuMemPoolTrimTo: \"cannot release OS allocations that back outstanding asynchronous allocations\"") {
    need_pools();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = new_pool();
    CUdeviceptr block = 0;
    OK(cu.MemAllocFromPoolAsync(&block, BYTES, pool, stream));
    set(block, 8, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    OK(cu.MemPoolTrimTo(pool, 0));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= BYTES);
    CHECK(device_all_are(block, BYTES, 8));
    OK(cu.MemFreeAsync(block, stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.MemPoolDestroy(pool));
    OK(cu.StreamDestroy(stream));
}

CASE(a_pool_remembers_the_most_that_was_used, REFERENCE "CU_MEMPOOL_ATTR_USED_MEM_HIGH") {
    need_pools();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool = new_keeping_pool(BYTES, stream);
    uint64_t zero = 0, one = 1;
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= BYTES);
    REFUSED(cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
                                   &one)); /* "illegal to set this attribute to a non-zero value" */
    OK(cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) < BYTES);
    OK(cu.MemPoolDestroy(pool));
    OK(cu.StreamDestroy(stream));
}
