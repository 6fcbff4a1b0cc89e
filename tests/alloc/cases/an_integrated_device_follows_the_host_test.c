/* SPDX-License-Identifier: Apache-2.0 */
/* Where CPU and GPU share memory, what the driver calls free leaves out the page cache, which it gives up when memory is
 * asked for. So a device's budget follows the host: what the machine has available and what the cgroups leave.
 * Runs on 121 GiB of which 79.5 are page cache. */
#include "device/budget.h"
#include "tests/alloc/cases/scene.h"
#include "tests/fake_root.h"

#define SCALED_GIB ((size_t)1 << 28) /* a quarter, since a sanitizer leaves little address space */
#define TOTAL      (121 * SCALED_GIB)

/* What the kernel says, in scaled GiB. used: by the process's cgroup, as memory of a host pool is. */
static void set_host(double available, double group_limit, double group_used) {
    char text[64];
    snprintf(text, sizeof text, "MemAvailable: %.0f kB\n", available * (double)SCALED_GIB / 1024);
    assert_true(write_fake_file("proc/meminfo", text));
    assert_true(write_fake_file("proc/self/cgroup", "0::/job\n"));
    snprintf(text, sizeof text, "%.0f\n", group_limit * (double)SCALED_GIB);
    assert_true(write_fake_file("sys/fs/cgroup/job/memory.max", text));
    snprintf(text, sizeof text, "%.0f\n", group_used * (double)SCALED_GIB);
    assert_true(write_fake_file("sys/fs/cgroup/job/memory.current", text));
}

static size_t free_bytes(void) {
    size_t left, total;
    OK(weir_device_memory(test_device(), &left, &total));
    assert_int_equal(total, TOTAL);
    return left;
}

static struct weir_pool *open_unlimited(void) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .wait_limit_ns = 2000000000u, .trace_path = ""};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

static void the_driver_counts_page_cache_as_taken(void **state) {
    (void)state;
    size_t left, total;
    assert_true(test_device()->integrated);
    OK(weir__device_enter(test_device()));
    assert_int_equal(test_device()->driver->memory_info(&left, &total), CUDA_SUCCESS);
    weir__device_leave(test_device());
    assert_int_equal(left, 83 * SCALED_GIB / 2);
    assert_int_equal(total, TOTAL);
    assert_int_equal(free_bytes(), left); /* where the kernel says nothing there is nothing better */
}

static void the_budget_is_what_the_host_leaves(void **state) {
    (void)state;
    set_host(115.6, 100, 0);
    assert_int_equal(free_bytes(), 100 * SCALED_GIB);
    set_host(95.6, 100, 20); /* a host pool has taken 20 */
    assert_int_equal(free_bytes(), 80 * SCALED_GIB);
    set_host(30, 100, 20); /* others have taken what is not in the cgroup */
    assert_int_equal(free_bytes(), 30 * SCALED_GIB);
    set_host(30, 100, 120); /* a group above its limit */
    assert_int_equal(free_bytes(), 0);
    set_host(500, 400, 0); /* never more than there is */
    assert_int_equal(free_bytes(), TOTAL);
}

static void a_pool_takes_what_the_driver_does_not_call_free(void **state) {
    (void)state;
    set_host(95.6, 100, 20);
    struct weir_pool *pool = open_unlimited();
    assert_int_equal(stats_of(pool).capacity_bytes, 80 * SCALED_GIB);
    assert_int_equal(stats_of(pool).limit_bytes, 80 * SCALED_GIB);
    void *block = alloc(pool, 60 * SCALED_GIB, NULL);
    expect_refused(pool, 21 * SCALED_GIB, NULL);
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    OK(weir_pool_get_refusal(pool, &refusal));
    assert_int_equal(refusal.untaken_bytes, 20 * SCALED_GIB);
    assert_int_equal(refusal.others_bytes, 0); /* page cache is nobody's */
    void *rest = alloc(pool, 20 * SCALED_GIB, NULL);
    OK(weir_pool_free(pool, rest, NULL));
    OK(weir_pool_free(pool, block, NULL));
    close_pool(pool);
}

static void a_pool_is_limited_to_what_the_host_leaves(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 80 * SCALED_GIB, .trace_path = ""};
    set_host(30, 100, 20);
    assert_int_equal(weir_pool_create(test_device(), &options, &pool), WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, "above the device's capacity of 8053063680"));
    pool = open_unlimited();
    assert_int_equal(stats_of(pool).limit_bytes, 30 * SCALED_GIB);
    assert_int_equal(weir_pool_set_limit(pool, 31 * SCALED_GIB), WEIR_INVALID);
    expect_refused(pool, 31 * SCALED_GIB, NULL);
    close_pool(pool);
    set_host(0.001, 100, 20); /* less than a page */
    assert_int_equal(weir_pool_create(test_device(), NULL, &pool), WEIR_INVALID);
    assert_null(pool);
}

static int open_integrated(void **state) {
    (void)state;
    struct weir_device_options options = {.size = sizeof options, .machine = "emulated"};
    struct weir_device *device = NULL;
    OK(weir_device_open(&options, &device)); /* as WEIR_EMU says; the shared one is the same device then */
    if (device != test_device()) return -1;
    weir_device_close(device);
    test_device()->host_root = fake_root;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_counts_page_cache_as_taken),
        cmocka_unit_test(the_budget_is_what_the_host_leaves),
        cmocka_unit_test(a_pool_takes_what_the_driver_does_not_call_free),
        cmocka_unit_test(a_pool_is_limited_to_what_the_host_leaves),
    };
    if (!make_fake_root()) return 1;
    const int failed =
        cmocka_run_group_tests_name("an_integrated_device_follows_the_host", tests, open_integrated, NULL);
    remove_fake_root();
    return failed;
}
