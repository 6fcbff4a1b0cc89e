/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of the driver pays for the memory that it takes anew and gives back, and not for what it keeps. Runs with
 * WEIR_EMU=clock:virtual on virtual_clock.profile: a call is 1 us, whatever it does. */
#include "tests/device/api.h"

enum { BYTES = 4 << 20, US = 1000 };

static uint64_t last;

static void expect_us(uint64_t us) {
    uint64_t ns;
    assert_done(cu.weirEmuNow(&ns));
    assert_int_equal(ns - last, us * US);
    last = ns;
}

static void memory_taken_anew_costs_what_taking_pages_costs_and_kept_memory_a_call(void **state) {
    (void)state;
    CUmemoryPool pool;
    CUdeviceptr first, second;
    uint64_t all = UINT64_MAX;
    assert_done(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    assert_done(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    assert_done(cu.weirEmuNow(&last));
    assert_done(cu.cuMemAllocAsync(&first, BYTES, NULL));
    expect_us(4); /* the call, and a handle made, mapped and given access */
    assert_done(cu.cuMemFreeAsync(first, NULL));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.weirEmuNow(&last));
    assert_done(cu.cuMemAllocAsync(&second, BYTES, NULL));
    expect_us(1);
    assert_int_equal(second, first);
    assert_done(cu.cuMemFreeAsync(second, NULL));
    assert_done(cu.cuCtxSynchronize());
    assert_done(cu.weirEmuNow(&last));
    assert_done(cu.cuMemPoolTrimTo(pool, 0));
    expect_us(3); /* the call, and a handle unmapped and released */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        context_test(memory_taken_anew_costs_what_taking_pages_costs_and_kept_memory_a_call),
    };
    return cmocka_run_group_tests(tests, load_driver, NULL);
}
