/* SPDX-License-Identifier: Apache-2.0 */
/* A peer may use what the pool has mapped before it was named, what is mapped later, and blocks that stand alone. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "device/emu/entries.h"
#include "support.h"

enum { PAGES = 64, PEER = 1 };

static unsigned long long access_to(const void *block) {
    CUresult (*get)(unsigned long long *, const CUmemLocation *, CUdeviceptr);
    const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = PEER};
    unsigned long long flags = 0;
    void *entry = dlsym(dlopen(test_device()->driver->path, RTLD_NOW | RTLD_NOLOAD), "cuMemGetAccess");
    assert_non_null(entry);
    memcpy(&get, &entry, sizeof entry);
    OK(weir__device_enter(test_device()));
    assert_int_equal(get(&flags, &location, (CUdeviceptr)(uintptr_t)block), CUDA_SUCCESS);
    weir__device_leave(test_device());
    return flags;
}

static void *alone(struct weir_pool *pool, weir_stream stream) {
    void *block = NULL;
    OK(weir_pool_alloc_exportable(pool, PAGE, stream, &block));
    return block;
}

static void a_peer_may_use_all_memory_of_the_pool(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream s = new_stream();
    void *before = alloc(pool, 3 * PAGE, s), *alone_before = alone(pool, s);
    assert_int_equal(access_to(before), 0);
    OK(weir__pool_add_peer(pool, PEER));
    OK(weir__pool_add_peer(pool, PEER));
    void *after = alloc(pool, 8 * PAGE, s), *alone_after = alone(pool, s);
    const void *const blocks[] = {before, (char *)before + 2 * PAGE, alone_before,
                                  after,  (char *)after + 7 * PAGE,  alone_after};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        assert_int_equal(access_to(blocks[i]), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), s));
}

static void its_own_device_is_no_peer(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    OK(weir__pool_add_peer(pool, test_device()->handle));
    assert_int_equal(pool->pages.peer_count, 0);
    close_pool(pool);
}

/* ---- while other threads map ------------------------------------------------------------------------------------- */

enum { ROUNDS = 200 };

static void *map_and_give_back(void *argument) {
    struct weir_pool *pool = argument;
    weir_stream s = new_stream();
    for (int i = 0; i < ROUNDS; i++) {
        void *block = alloc(pool, 4 * PAGE, s);
        OK(weir_pool_free(pool, block, s));
        OK(weir_stream_synchronize(test_device(), s));
        OK(weir_pool_trim(pool, 0));
    }
    OK(weir_stream_destroy(test_device(), s));
    return NULL;
}

static void a_peer_is_added_while_others_map_and_unmap(void **state) {
    pthread_t thread[2];
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream s = new_stream();
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, map_and_give_back, pool), 0);
    void *block = alloc(pool, PAGE, s);
    OK(weir__pool_add_peer(pool, PEER));
    assert_int_equal(access_to(block), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_may_use_all_memory_of_the_pool),
        cmocka_unit_test(its_own_device_is_no_peer),
        cmocka_unit_test(a_peer_is_added_while_others_map_and_unmap),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
