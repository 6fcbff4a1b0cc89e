/* SPDX-License-Identifier: Apache-2.0 */
/* A block that can be exported stands alone on its handle: another process imports it and both have the same bytes, also after the
 * block was freed here; to the pool it is a block like any other, whose memory serves others when it is needed. */
#include <dlfcn.h>

#include "device/emu/entries.h"
#include "support.h"
#include "tests/peer.h"

enum { PAGES = 16, BYTES = 3 * 16384 };
enum { HERE = 0x11, THERE = 0x22 };

static weir_stream a, b;

/* ---- the peer, a process with a driver of its own --------------------------------------------------------------- */

static CUmemGenericAllocationHandle page;
static CUdeviceptr place;

static bool import(int descriptor) {
    const struct weir__driver *driver = test_device()->driver;
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult (*get)(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
    void *library = dlopen(driver->path, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&get = dlsym(library, "cuMemImportFromShareableHandle");
    return get(&page, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS &&
           close(descriptor) == 0 && driver->address_reserve(&place, BYTES, 0, 0, 0) == CUDA_SUCCESS &&
           driver->page_map(place, BYTES, 0, page, 0) == CUDA_SUCCESS &&
           driver->page_set_access(place, BYTES, &access, 1) == CUDA_SUCCESS;
}

static bool holds(unsigned char value) {
    bool same = true;
    for (size_t i = 0; i < BYTES; i++) same = same && ((const unsigned char *)place)[i] == value;
    return same;
}

static bool obey(char order, int descriptor) {
    const struct weir__driver *driver = test_device()->driver;
    switch (order) {
    case IMPORT:
        return import(descriptor);
    case READ:
        return holds(HERE);
    case WRITE:
        memset((void *)place, THERE, BYTES);
        return true;
    case GIVE_UP:
        return driver->page_unmap(place, BYTES) == CUDA_SUCCESS && driver->page_release(page) == CUDA_SUCCESS;
    }
    return false;
}

static bool get_ready(void) { return weir__device_enter(test_device()) == WEIR_OK; }

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static unsigned char *alloc_exportable(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    void *block = NULL;
    OK(weir_pool_alloc_exportable(pool, bytes, stream, &block));
    return block;
}

static void share(enum weir_policy policy) {
    struct weir_pool *pool = open_pool(policy, 4 * PAGES);
    void *other = alloc(pool, PAGE, a);
    OK(weir_pool_free(pool, alloc(pool, BYTES - 100, a), a)); /* no block of that size serves that is none of its own */
    unsigned char *block = alloc_exportable(pool, BYTES - 100, a);
    int fd = -1;
    assert_int_equal(weir_pool_export(pool, other, &fd), WEIR_INVALID);
    assert_int_equal(fd, -1);
    OK(weir_pool_export(pool, block, &fd));
    OK(weir_set(test_device(), block, HERE, BYTES, a));
    OK(weir_device_synchronize(test_device()));
    ask_peer(IMPORT, fd);
    close(fd);
    ask_peer(READ, -1);
    ask_peer(WRITE, -1);
    for (size_t i = 0; i < BYTES; i++) assert_int_equal(block[i], THERE);
    OK(weir_set(test_device(), block, HERE, BYTES, a));
    OK(weir_pool_free(pool, block, a));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(weir_pool_export(pool, block, &fd), WEIR_INVALID);
    ask_peer(READ, -1); /* it has the memory still */
    ask_peer(GIVE_UP, -1);
    OK(weir_pool_free(pool, other, a));
    close_pool(pool);
}

static void another_process_has_the_same_bytes(void **state) {
    (void)state;
    share(WEIR_POLICY_LATENCY);
    share(WEIR_POLICY_FOOTPRINT);
    share(WEIR_POLICY_PER_STREAM);
}

/* Nothing idle, of either kind or of a sub-pool, goes for a request that would be refused all the same. */
static void one_that_can_not_come_takes_nothing_away(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub;
    OK(weir_pool_create_sub(pool, &(struct weir_sub_pool_options){.size = sizeof(struct weir_sub_pool_options)}, &sub));
    void *live = alloc(pool, 4 * PAGE, a), *none = NULL;
    OK(weir_pool_free(pool, alloc(pool, 4 * PAGE, a), a));
    OK(weir_pool_free(pool, alloc_exportable(pool, 2 * PAGE, a), a));
    OK(weir_pool_free(sub, alloc(sub, 2 * PAGE, a), a));
    OK(weir_device_synchronize(test_device()));
    const struct weir_pool_stats before = stats_of(pool);
    assert_int_equal(weir_pool_alloc_exportable(pool, (PAGES - 4) * PAGE + 1, b, &none), WEIR_OUT_OF_MEMORY);
    assert_int_equal(stats_of(pool).held_bytes, before.held_bytes);
    assert_int_equal(stats_of(pool).memory_calls, before.memory_calls);
    assert_int_equal(stats_of(sub).held_bytes, 2 * PAGE);
    OK(weir_pool_free(pool, alloc_exportable(pool, (PAGES - 4) * PAGE, b), b)); /* this one can */
    OK(weir_pool_free(pool, live, a));
    close_pool(sub);
    finish_pool(pool);
}

/* Either kind of memory serves the other kind's requests, after the uses have ended. */
static void its_memory_serves_others_and_theirs_it(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    for (int i = 0; i < 3; i++) {
        unsigned char *block = alloc_exportable(pool, PAGES * PAGE, a);
        void *none = NULL;
        assert_int_equal(weir_pool_alloc(pool, 512, b, &none), WEIR_OUT_OF_MEMORY);
        assert_int_equal(weir_pool_alloc_exportable(pool, 1, b, &none), WEIR_OUT_OF_MEMORY);
        OK(weir_pool_check(pool));
        queue_fill(a, block, PAGES * PAGE, 1);
        queue_check(a, block, PAGES * PAGE, 1);
        OK(weir_pool_free(pool, block, a));
        OK(weir_pool_check(pool));
        assert_int_equal(stats_of(pool).idle_bytes, PAGES * PAGE);
        unsigned char *plain = alloc(pool, PAGES * PAGE, b);
        assert_int_equal(fills_run(),
                         2 * (unsigned)i + 1); /* the host has waited: it went to the driver and came back */
        queue_fill(b, plain, PAGES * PAGE, 2);
        queue_check(b, plain, PAGES * PAGE, 2);
        OK(weir_pool_free(pool, plain, b));
        unsigned char *next = alloc_exportable(pool, 2 * PAGE + 1, a);
        assert_int_equal(stats_of(pool).live_bytes, 3 * PAGE);
        OK(weir_pool_free_any(pool, next));
        OK(weir_device_synchronize(test_device()));
    }
    assert_int_equal(wrong_bytes(), 0);
    for (int i = 0; i < 1000 && stats_of(pool).held_bytes > 0; i++) /* a mark of the context passes soon, not at once */
        OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    close_pool(pool);
}

/* Below its limit, where others have the rest of the device. */
static void idle_memory_of_either_kind_goes_to_the_driver_and_back(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    size_t free_bytes, all_bytes;
    OK(weir_pool_free(pool, alloc(pool, 8 * PAGE, a), a));
    OK(weir_device_memory(test_device(), &free_bytes, &all_bytes));
    assert_int_equal(test_device()->driver->emu_others(test_device()->handle, free_bytes - 2 * PAGE), CUDA_SUCCESS);
    unsigned char *block = alloc_exportable(pool, 9 * PAGE, a);
    queue_fill(a, block, 9 * PAGE, 3);
    OK(weir_pool_free(pool, block, a));
    OK(weir_pool_free(pool, alloc(pool, 9 * PAGE, b), b));
    assert_int_equal(test_device()->driver->emu_others(test_device()->handle, 0), CUDA_SUCCESS);
    close_pool(pool);
}

static void it_serves_other_pools_of_the_family_when_it_is_idle(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES), *member = NULL;
    const struct weir_sub_pool_options options = {.size = sizeof options};
    OK(weir_pool_create_sub(pool, &options, &member));
    for (int pending = 0; pending < 2; pending++) {
        unsigned char *block = alloc_exportable(member, PAGES * PAGE, a);
        queue_fill(a, block, PAGES * PAGE, 4);
        OK(weir_pool_free(member, block, a));
        if (!pending) OK(weir_device_synchronize(test_device()));
        OK(weir_pool_free(pool, alloc(pool, PAGES * PAGE, b), b));
        OK(weir_pool_check(member));
    }
    close_pool(member);
    close_pool(pool);
}

/* Accounts, notes, inner addresses, streams that go, lowered limits: as with any block. */
static void it_is_a_block_like_any_other(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream gone = new_stream();
    unsigned char *block = alloc_exportable(pool, 0, gone), *second = alloc_exportable(pool, 100, gone);
    struct weir_block found = {.size = sizeof found};
    OK(weir_pool_find(pool, second + 99, &found));
    assert_ptr_equal(found.start, second);
    assert_int_equal(found.bytes, PAGE);
    assert_int_equal(found.requested_bytes, 100);
    OK(weir_pool_note(pool, second, a));
    OK(weir_pool_register(pool, second, 100));
    assert_int_equal(weir_pool_resize(pool, second, PAGE + 1, gone), WEIR_NOT_READY);
    OK(weir_pool_resize(pool, second, 10, gone));
    assert_int_equal(stats_of(pool).live_bytes, 2 * PAGE);
    OK(weir_pool_resize(pool, second, 100, gone));
    OK(weir_pool_free(pool, block, gone));
    OK(weir_stream_destroy(test_device(), gone));
    for (int i = 0; i < 20; i++) { /* their slots are used again */
        weir_stream stream = new_stream();
        OK(weir_pool_free(pool, alloc(pool, PAGE, stream), stream));
        OK(weir_stream_destroy(test_device(), stream));
        OK(weir_pool_check(pool));
    }
    OK(weir_pool_free(pool, second, a));
    assert_int_equal(weir_pool_free(pool, second, a), WEIR_INVALID);
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_set_limit(pool, PAGE));
    assert_int_equal(stats_of(pool).held_bytes, PAGE);
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, PAGE); /* what is registered stays */
    OK(weir_pool_unregister(pool, second, 100));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    close_pool(pool);
}

static int open_streams(void **state) {
    (void)state;
    a = new_stream();
    b = new_stream();
    return 0;
}

static int close_streams(void **state) {
    (void)state;
    return end_peer() ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process_has_the_same_bytes),
        cmocka_unit_test(its_memory_serves_others_and_theirs_it),
        cmocka_unit_test(one_that_can_not_come_takes_nothing_away),
        cmocka_unit_test(idle_memory_of_either_kind_goes_to_the_driver_and_back),
        cmocka_unit_test(it_serves_other_pools_of_the_family_when_it_is_idle),
        cmocka_unit_test(it_is_a_block_like_any_other),
    };
    start_peer(get_ready, obey);
    return cmocka_run_group_tests_name("export", tests, open_streams, close_streams);
}
