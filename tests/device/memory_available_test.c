/* SPDX-License-Identifier: Apache-2.0 */
/* What memory the process may still take is the least of what the machine and each cgroup above the process leave. */
#include "device/budget.h"
#include "tests/device/machine.h"
#include "tests/fake_root.h"

static int clear_root(void **state) {
    (void)state;
    return clear_fake_root() ? 0 : -1;
}

static void the_machine_limits_where_no_cgroup_does(void **state) {
    (void)state;
    assert_int_equal(weir__memory_available(fake_root), SIZE_MAX); /* nothing is known */
    assert_true(write_fake_file("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:    800 kB\n"));
    assert_true(write_fake_file("proc/self/cgroup", "0::/\n"));
    assert_int_equal(weir__memory_available(fake_root), 800 * 1024);
    assert_true(write_fake_file("sys/fs/cgroup/memory.max", "max\n"));
    assert_true(write_fake_file("sys/fs/cgroup/memory.current", "4096\n"));
    assert_int_equal(weir__memory_available(fake_root), 800 * 1024);
}

static void the_tightest_group_above_the_process_limits(void **state) {
    (void)state;
    assert_true(write_fake_file("proc/meminfo", "MemAvailable:    800000 kB\n"));
    assert_true(write_fake_file("proc/self/cgroup", "1:name=systemd:/x\n0::/job/rank\n"));
    assert_true(write_fake_file("sys/fs/cgroup/job/rank/memory.max", "max\n"));
    assert_true(write_fake_file("sys/fs/cgroup/job/rank/memory.current", "50000\n"));
    assert_true(write_fake_file("sys/fs/cgroup/job/memory.max", "1000000\n"));
    assert_true(write_fake_file("sys/fs/cgroup/job/memory.current", "700000\n"));
    assert_int_equal(weir__memory_available(fake_root), 300000);
    assert_true(write_fake_file("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file_x 9\ninactive_file 200000\n"));
    assert_int_equal(weir__memory_available(fake_root), 500000); /* page cache that can be dropped */
    assert_true(write_fake_file("sys/fs/cgroup/job/memory.current", "1300000\n"));
    assert_int_equal(weir__memory_available(fake_root), 0); /* over its limit: never a huge number */
}

static void version_one_groups_limit_too(void **state) {
    (void)state;
    assert_true(write_fake_file("proc/meminfo", "MemAvailable:    800000 kB\n"));
    assert_true(write_fake_file("proc/self/cgroup", "4:cpu,memory:/docker/abc\n0::/\n"));
    assert_true(write_fake_file("sys/fs/cgroup/memory/memory.limit_in_bytes",
                                "2000000\n")); /* in a container: the path is the host's */
    assert_true(write_fake_file("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n"));
    assert_true(write_fake_file("sys/fs/cgroup/memory/memory.stat", "cache 7\ntotal_inactive_file 100000\n"));
    assert_int_equal(weir__memory_available(fake_root), 1600000);
}

static void a_device_with_memory_of_its_own_has_what_its_driver_says(void **state) {
    struct weir_device *device = *state;
    size_t left, total, budget, driver_left, driver_total;
    assert_true(write_fake_file("proc/meminfo", "MemAvailable:    4 kB\n"));
    device->host_root = fake_root;
    assert_ok(weir__device_enter(device));
    assert_int_equal(device->driver->memory_info(&driver_left, &driver_total), CUDA_SUCCESS);
    weir__device_leave(device);
    assert_ok(weir_device_memory(device, &left, &total));
    assert_int_equal(left, driver_left);
    assert_ok(weir__device_budget(device, &budget));
    assert_int_equal(budget, driver_total);
    device->host_root = "";
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_machine_limits_where_no_cgroup_does, clear_root),
        cmocka_unit_test_setup(the_tightest_group_above_the_process_limits, clear_root),
        cmocka_unit_test_setup(version_one_groups_limit_too, clear_root),
        device_test(a_device_with_memory_of_its_own_has_what_its_driver_says),
    };
    if (!make_fake_root()) return 1;
    const int failed = cmocka_run_group_tests_name("memory_available", tests, NULL, NULL);
    remove_fake_root();
    return failed;
}
