/* SPDX-License-Identifier: Apache-2.0 */
/* When the driver is shutting down, or the program has taken its context away, calls that give something back succeed, and
 * a driver that has said that it is shutting down is asked nothing more. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static const struct weir__driver *real;
static struct weir__driver ended;
static CUresult answer;
static unsigned calls;

static CUresult push(CUcontext context) {
    (void)context;
    calls++;
    return answer;
}
static CUresult captures(CUstream stream, CUstreamCaptureStatus *status) {
    (void)stream;
    (void)status;
    return answer;
}
static CUresult release_context(CUdevice device) {
    (void)device;
    calls++;
    return answer;
}

/* All that there is to give back, twice over. */
struct things {
    struct weir_pool *pool;
    weir_stream streams[2];
    weir_event event;
    void *blocks[WEIR__MARK_FREES + 4];
    void *host;
};

enum { BLOCKS = WEIR__MARK_FREES + 4 };

static struct things make_things(void) {
    struct things made = {.pool = open_pool(WEIR_POLICY_LATENCY, 64)};
    for (int i = 0; i < 2; i++) made.streams[i] = new_stream();
    for (int i = 0; i < BLOCKS; i++) made.blocks[i] = alloc(made.pool, 512, made.streams[0]);
    OK(weir_event_create(test_device(), false, &made.event));
    OK(weir_event_record(test_device(), made.event, made.streams[0]));
    OK(weir_host_alloc(test_device(), 4096, &made.host));
    OK(weir_pool_note(made.pool, made.blocks[0], made.streams[1]));
    OK(weir_device_synchronize(test_device()));
    return made;
}

static void give_all_back(CUresult code) {
    struct things made = make_things();
    void *none;
    ended = *(real = test_device()->driver);
    ended.context_push = push;
    ended.stream_is_capturing = captures;
    ended.primary_context_release = release_context;
    answer = code;
    calls = 0;
    test_device()->driver = &ended;
    OK(weir_pool_free_after(made.pool, made.blocks[0], made.event));
    OK(weir_pool_free_any(made.pool, made.blocks[1]));
    for (int i = 2; i < BLOCKS - 1; i++) OK(weir_pool_free(made.pool, made.blocks[i], made.streams[i % 2]));
    assert_int_equal(weir_pool_alloc(made.pool, 8 * PAGE, made.streams[0], &none), WEIR_DRIVER);
    assert_null(none);
    assert_int_equal(weir_pool_alloc(made.pool, 512, made.streams[0], &none), WEIR_DRIVER); /* its front has some */
    assert_null(none);
    OK(weir_pool_trim(made.pool, 0));
    OK(weir_pool_check(made.pool));
    OK(weir_event_destroy(test_device(), made.event));
    OK(weir_stream_destroy(test_device(), made.streams[0]));
    OK(weir_host_free(test_device(), made.host));
    weir_pool_destroy(made.pool); /* one block is live */
}

static void calls_that_give_back_succeed_without_a_context(void **state) {
    (void)state;
    const CUresult codes[] = {CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT};
    for (int i = 0; i < 2; i++) {
        give_all_back(codes[i]);
        test_device()->driver = real;
    }
}

/* So a pool, also one that an engine uses, never has a device that is gone. */
static void a_device_with_pools_is_not_closed(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    void *block = alloc(pool, PAGE, stream);
    weir_device_close(test_device());
    assert_int_equal(weir_last_error()->status, WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, "weir_device_close: device 0 has pools"));
    OK(weir_set(test_device(), block, 1, PAGE, stream));
    OK(weir_pool_free(pool, block, stream));
    finish_pool(pool);
}

static void a_device_that_was_reset_hands_out_nothing(void **state) {
    (void)state;
    struct things made = make_things();
    struct weir_device *device = test_device();
    CUresult (*reset)(CUdevice);
    CUcontext context;
    void *none, *library = dlopen(device->driver->path, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&reset = dlsym(library, "cuDevicePrimaryCtxReset_v2");
    OK(weir_pool_free(made.pool, made.blocks[2], made.streams[0]));
    assert_int_equal(reset(device->handle), CUDA_SUCCESS);
    OK(weir_pool_free(made.pool, made.blocks[3], made.streams[0]));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_pool_alloc(made.pool, 512, made.streams[i], &none), WEIR_DRIVER);
        assert_null(none);
    }
    weir_pool_destroy(made.pool);
    assert_int_equal(device->driver->primary_context_retain(&context, device->handle), CUDA_SUCCESS); /* for the rest */
    assert_int_equal(device->driver->primary_context_release(device->handle), CUDA_SUCCESS);
}

/* The last test: from here on the driver is asked nothing in this process. */
static void a_driver_that_shuts_down_is_asked_once(void **state) {
    (void)state;
    give_all_back(CUDA_ERROR_DEINITIALIZED);
    assert_int_equal(calls, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_give_back_succeed_without_a_context),
        cmocka_unit_test(a_device_with_pools_is_not_closed),
        cmocka_unit_test(a_device_that_was_reset_hands_out_nothing),
        cmocka_unit_test(a_driver_that_shuts_down_is_asked_once),
    };
    return cmocka_run_group_tests_name("over", tests, NULL, NULL);
}
