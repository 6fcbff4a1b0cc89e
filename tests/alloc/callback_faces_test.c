/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of CuPy and RMM, and buffers for NCCL: what each contract says of devices, streams, sizes and strangers. */
#include <dlfcn.h>
#include <unistd.h>

#include "alloc/faces/process.h"
#include "device/emu/emu_types.h"
#include "support.h"
#include "weir/faces.h"

enum { BYTES = 5 * 16384 + 100 };

static weir_stream s1, s2;

static struct weir_pool *pool_of(int device) {
    struct weir_pool *pool = NULL;
    OK(weir_process_pool(device, &pool));
    return pool;
}

static uint64_t strangers(void) {
    struct weir_face_counts counts = {.size = sizeof counts};
    OK(weir_face_get_counts(&counts));
    return counts.strangers;
}

static size_t live(int device) { return stats_of(pool_of(device)).live_blocks; }

/* The thread's context becomes a device's. */
static void go_to(int device) {
    const struct weir__driver *driver = test_device()->driver;
    CUcontext context, before;
    CUdevice handle;
    assert_int_equal(driver->device_get(&handle, device), CUDA_SUCCESS);
    assert_int_equal(driver->primary_context_retain(&context, handle), CUDA_SUCCESS);
    while (driver->context_current(&before) == CUDA_SUCCESS && before != NULL) driver->context_pop(&before);
    assert_int_equal(driver->context_push(context), CUDA_SUCCESS);
    driver->primary_context_release(handle);
}

static int set_up(void **state) {
    (void)state;
    test_device();
    s1 = new_stream();
    s2 = new_stream();
    pool_of(1);
    return 0;
}

/* ---- CuPy ------------------------------------------------------------------------------------------------------- */

static void cupys_blocks_are_ready_on_every_stream_and_unused_after_all_of_them(void **state) {
    (void)state;
    struct weir_pool *pool = pool_of(0);
    const size_t before = stats_of(pool).limit_bytes;
    OK(weir_pool_set_limit(pool, 8 * PAGE));
    void *p = weir_cupy_malloc(NULL, BYTES, 0);
    assert_non_null(p);
    queue_fill(s1, p, BYTES, 1);
    weir_cupy_free(NULL, p, 0);
    void *q = weir_cupy_malloc(NULL, BYTES, 0); /* waits for s1, which nobody has named; the watch sees that it does */
    assert_non_null(q);
    queue_fill(s2, q, BYTES, 2);
    assert_null(weir_cupy_malloc(NULL, 9 * PAGE, 0));
    assert_int_equal(weir_last_error()->status, WEIR_OUT_OF_MEMORY);
    weir_cupy_free(NULL, q, 0);
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_set_limit(pool, before));
    assert_int_equal(live(0), 0);
}

static void cupys_devices_have_pools_of_their_own(void **state) {
    (void)state;
    void *p = weir_cupy_malloc(NULL, BYTES, 1);
    assert_non_null(p);
    assert_int_equal(live(0), 0);
    assert_int_equal(live(1), 1);
    const uint64_t before = strangers();
    weir_cupy_free(NULL, p, 0); /* the wrong one */
    weir_cupy_free(NULL, p, 9);
    assert_int_equal(strangers(), before + 2);
    assert_int_equal(live(1), 1);
    weir_cupy_free(NULL, p, 1);
    weir_cupy_free(NULL, NULL, 1);
    weir_cupy_free(NULL, NULL, 9);
    assert_int_equal(live(1), 0);
    assert_null(weir_cupy_malloc(NULL, BYTES, 9));
    assert_int_equal(weir_last_error()->status, WEIR_NO_DEVICE);
}

/* ---- RMM -------------------------------------------------------------------------------------------------------- */

static void rmms_argument_names_the_device_else_the_thread_does(void **state) {
    (void)state;
    struct weir_face_device one = {.size = sizeof one, .ordinal = 1};
    go_to(0);
    void *p = weir_rmm_alloc(BYTES, NULL, &one);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 256, 0);
    assert_int_equal(live(1), 1);
    void *q = weir_rmm_alloc(BYTES, s1, NULL);
    assert_int_equal(live(0), 1);
    go_to(1);
    void *r = weir_rmm_alloc(BYTES, NULL, NULL);
    assert_int_equal(live(1), 2);
    weir_rmm_free(q, BYTES, s1, NULL); /* whose it is says the address */
    assert_int_equal(live(0), 0);
    weir_rmm_free(p, BYTES, NULL, &one);
    weir_rmm_free(r, BYTES, NULL, NULL);
    assert_int_equal(live(1), 0);
    go_to(0);
}

static void rmms_free_is_in_the_order_of_its_stream(void **state) {
    (void)state;
    struct weir_pool *pool = pool_of(0);
    const size_t before = stats_of(pool).limit_bytes;
    weir_torch_reset();
    OK(weir_pool_set_limit(pool, 6 * PAGE));
    void *p = weir_rmm_alloc(BYTES, s1, NULL);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, p, BYTES, 1);
    weir_rmm_free(p, BYTES, s1, NULL);
    void *q = weir_rmm_alloc(BYTES, s2, NULL); /* s2 waits on the device: the watch sees that it does */
    assert_non_null(q);
    queue_fill(s2, q, BYTES, 2);
    queue_check(s2, q, BYTES, 2);
    open_gate(gate);
    weir_rmm_free(q, BYTES, s2, NULL);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    OK(weir_pool_set_limit(pool, before));
}

static void rmms_strangers_are_counted(void **state) {
    (void)state;
    int foreign = 0;
    const uint64_t before = strangers();
    weir_rmm_free(&foreign, 4, s1, NULL);
    weir_rmm_free(NULL, 4, s1, NULL);
    assert_int_equal(strangers(), before + 1);
}

/* ---- NCCL ------------------------------------------------------------------------------------------------------- */

static bool may_use(const void *address, CUdevice device) {
    CUresult (*get)(unsigned long long *, const CUmemLocation *, CUdeviceptr) = NULL;
    void *driver = dlopen(test_device()->driver->path, RTLD_NOLOAD | RTLD_NOW);
    assert_non_null(driver);
    unsigned long long flags = 0;
    const CUmemLocation at = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    *(void **)&get = dlsym(driver, "cuMemGetAccess");
    assert_int_equal(get(&flags, &at, (CUdeviceptr)(uintptr_t)address), CUDA_SUCCESS);
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static void nccls_buffers_stand_alone_and_their_devices_peers_may_use_them(void **state) {
    (void)state;
    go_to(0);
    void *p = NULL, *q = NULL;
    int fd = -1;
    assert_int_equal(weir_nccl_mem_alloc(&p, BYTES), 0);
    assert_int_equal((uintptr_t)p % PAGE, 0);
    struct weir_block block = {.size = sizeof block};
    OK(weir_pool_find(pool_of(0), p, &block));
    assert_int_equal(block.bytes, 6 * PAGE);
    OK(weir_pool_export(pool_of(0), p, &fd));
    close(fd);
    assert_true(may_use(p, 0));
    assert_true(may_use(p, 1));
    go_to(1);
    assert_int_equal(weir_nccl_mem_alloc(&q, 1), 0);
    assert_int_equal(live(1), 1);
    go_to(0);
    queue_fill(s1, p, BYTES, 1); /* at once, on any stream */
    assert_int_equal(weir_nccl_mem_free(p), 0);
    assert_int_equal(weir_nccl_mem_free(q), 0);
    assert_int_equal(live(0) + live(1), 0);
    OK(weir_pool_check(pool_of(0)));
}

static void nccls_answers_are_nccls(void **state) {
    (void)state;
    int foreign = 0;
    void *p = &foreign;
    assert_int_equal(weir_nccl_mem_alloc(NULL, 1), 4);
    assert_int_equal(weir_nccl_mem_alloc(&p, 0), 0);
    assert_null(p);
    assert_int_equal(weir_nccl_mem_free(NULL), 0);
    assert_int_equal(weir_nccl_mem_free(&foreign), 4);
    p = &foreign;
    assert_int_equal(weir_nccl_mem_alloc(&p, SIZE_MAX - 8), 1);
    assert_null(p);
    assert_int_equal(weir_nccl_mem_alloc(&p, BYTES), 0);
    assert_int_equal(weir_nccl_mem_free((char *)p + 512), 4);
    assert_int_equal(weir_nccl_mem_free(p), 0);
    assert_int_equal(weir_nccl_mem_free(p), 4);
    void *other = weir_rmm_alloc(BYTES, s1, NULL); /* a block, but no buffer */
    assert_int_equal(weir_nccl_mem_free(other), 4);
    weir_rmm_free(other, BYTES, s1, NULL);
    assert_int_equal(live(0), 0);
}

static void counts_need_their_size(void **state) {
    (void)state;
    struct weir_face_counts counts = {0};
    assert_int_equal(weir_face_get_counts(NULL), WEIR_INVALID);
    assert_int_equal(weir_face_get_counts(&counts), WEIR_INVALID);
    counts.size = offsetof(struct weir_face_counts, strangers);
    counts.strangers = 77;
    OK(weir_face_get_counts(&counts));
    assert_int_equal(counts.strangers, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cupys_blocks_are_ready_on_every_stream_and_unused_after_all_of_them),
        cmocka_unit_test(cupys_devices_have_pools_of_their_own),
        cmocka_unit_test(rmms_argument_names_the_device_else_the_thread_does),
        cmocka_unit_test(rmms_free_is_in_the_order_of_its_stream),
        cmocka_unit_test(rmms_strangers_are_counted),
        cmocka_unit_test(nccls_buffers_stand_alone_and_their_devices_peers_may_use_them),
        cmocka_unit_test(nccls_answers_are_nccls),
        cmocka_unit_test(counts_need_their_size),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
