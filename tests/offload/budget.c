/* SPDX-License-Identifier: Apache-2.0 */
/* The default budget follows the least of what the machine and each cgroup above the process leave, over the ranks. */
#include "offload/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "world.h"

static char root[] = "/tmp/weir-budget-XXXXXX";

static void write_file(const char *file, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, file);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static int clear_root(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s/*", root);
    return system(command);
}

static void the_machine_limits_where_no_cgroup_does(void **state) {
    (void)state;
    assert_int_equal(weir__memory_available(root), SIZE_MAX); /* nothing is known */
    write_file("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:    800 kB\n");
    write_file("proc/self/cgroup", "0::/\n");
    assert_int_equal(weir__memory_available(root), 800 * 1024);
    write_file("sys/fs/cgroup/memory.max", "max\n");
    write_file("sys/fs/cgroup/memory.current", "4096\n");
    assert_int_equal(weir__memory_available(root), 800 * 1024);
}

static void the_tightest_group_above_the_process_limits(void **state) {
    (void)state;
    write_file("proc/meminfo", "MemAvailable:    800000 kB\n");
    write_file("proc/self/cgroup", "1:name=systemd:/x\n0::/job/rank\n");
    write_file("sys/fs/cgroup/job/rank/memory.max", "max\n");
    write_file("sys/fs/cgroup/job/rank/memory.current", "50000\n");
    write_file("sys/fs/cgroup/job/memory.max", "1000000\n");
    write_file("sys/fs/cgroup/job/memory.current", "700000\n");
    assert_int_equal(weir__memory_available(root), 300000);
    write_file("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file_x 9\ninactive_file 200000\n");
    assert_int_equal(weir__memory_available(root), 500000); /* page cache that can be dropped */
    write_file("sys/fs/cgroup/job/memory.current", "1300000\n");
    assert_int_equal(weir__memory_available(root), 0); /* over its limit: never a huge number */
}

static void version_one_groups_limit_too(void **state) {
    (void)state;
    write_file("proc/meminfo", "MemAvailable:    800000 kB\n");
    write_file("proc/self/cgroup", "4:cpu,memory:/docker/abc\n0::/\n");
    write_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n"); /* in a container: the path is the host's */
    write_file("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
    write_file("sys/fs/cgroup/memory/memory.stat", "cache 7\ntotal_inactive_file 100000\n");
    assert_int_equal(weir__memory_available(root), 1600000);
}

static void a_half_is_shared_by_the_ranks(void **state) {
    (void)state;
    assert_int_equal(weir__default_budget(8000, 0), 4000);
    assert_int_equal(weir__default_budget(8000, 4), 1000);
    assert_true(weir__default_budget(SIZE_MAX, 1) <= (size_t)1 << 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_machine_limits_where_no_cgroup_does, clear_root),
        cmocka_unit_test_setup(the_tightest_group_above_the_process_limits, clear_root),
        cmocka_unit_test_setup(version_one_groups_limit_too, clear_root),
        cmocka_unit_test(a_half_is_shared_by_the_ranks),
    };
    if (mkdtemp(root) == NULL) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)clear_root(NULL);
    (void)remove(root);
    return failed;
}
