/* SPDX-License-Identifier: Apache-2.0 */
/* The host pool lives on a node with CPUs, near its GPU. The choice over topologies that machines have, and the reading of
 * a topology from a made-up sysfs. */
#include "offload/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "world.h"

/* Nodes 0 to count - 1; those in `cpus` (a bit each) have CPUs. A node is 10 from itself and 20 + 10 * |i - j| from others. */
static struct weir__numa_topology topology(int count, unsigned cpus, int here) {
    struct weir__numa_topology made = {.count = count, .here = here};
    for (int i = 0; i < count; i++) {
        made.nodes[i].id = i;
        made.nodes[i].has_cpus = (cpus >> i & 1) != 0;
        made.nodes[i].allowed = true;
        for (int j = 0; j < count; j++) made.nodes[i].distance[j] = (unsigned char)(i == j ? 10 : 20 + 10 * abs(i - j));
    }
    return made;
}

static int choose(const struct weir__numa_topology *from, int wanted, int device_node) {
    struct weir__numa_choice choice;
    assert_ok(weir__numa_choose(from, wanted, device_node, &choice));
    assert_non_null(choice.why);
    return choice.node;
}

static void gpu_memory_shown_as_nodes_is_never_chosen(void **state) {
    (void)state;
    const struct weir__numa_topology gh200 = topology(9, 1, 0);
    struct weir__numa_choice choice;
    for (int device_node = -1; device_node < 9; device_node++) assert_int_equal(choose(&gh200, -1, device_node), 0);
    for (int wanted = 1; wanted < 9; wanted++) {
        assert_int_equal(weir__numa_choose(&gh200, wanted, 0, &choice), WEIR_INVALID);
        assert_non_null(strstr(weir_last_error()->message, "no CPUs"));
    }
    assert_int_equal(weir__numa_choose(&gh200, 9, 0, &choice), WEIR_INVALID);
}

static void each_gpu_gets_its_own_node(void **state) {
    (void)state;
    const struct weir__numa_topology two = topology(2, 3, 1);
    assert_int_equal(choose(&two, -1, 0), 0);
    assert_int_equal(choose(&two, -1, 1), 1);
    assert_int_equal(choose(&two, 0, 1), 0);   /* as asked */
    assert_int_equal(choose(&two, -1, -1), 1); /* not known: where the caller runs */
    const struct weir__numa_topology six = topology(6, 63, 4);
    const int gpu_nodes[] = {0, 2, 3, 5};
    for (int i = 0; i < 4; i++) assert_int_equal(choose(&six, -1, gpu_nodes[i]), gpu_nodes[i]);
}

static void a_node_that_may_not_be_used_gives_way_to_the_nearest_that_may(void **state) {
    (void)state;
    struct weir__numa_topology four = topology(4, 1 << 0 | 1 << 2, 0);
    struct weir__numa_choice choice;
    assert_int_equal(choose(&four, -1, 3), 2); /* no CPUs on 3 */
    four.nodes[2].allowed = false;
    assert_int_equal(choose(&four, -1, 2), 0);
    assert_int_equal(weir__numa_choose(&four, 2, 2, &choice), WEIR_INVALID);
    four.nodes[0].allowed = false;
    assert_int_equal(choose(&four, -1, 2), -1); /* nowhere to bind to */
}

static void without_numa_support_nothing_is_bound(void **state) {
    (void)state;
    const struct weir__numa_topology none = {.here = -1};
    assert_int_equal(choose(&none, -1, 0), -1);
    assert_int_equal(choose(&none, 0, -1), -1);
}

/* ---- reading ---- */

static void write_file(const char *root, const char *file, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/sys/devices/system/node/%s", root, file);
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

static void sysfs_is_read_as_it_stands(void **state) {
    (void)state;
    char root[] = "/tmp/weir-numa-XXXXXX";
    char remove[64];
    struct weir__numa_topology read;
    assert_non_null(mkdtemp(root));
    weir__numa_read(root, &read);
    assert_int_equal(read.count, 0); /* nothing there yet */
    write_file(root, "online", "0-1,8\n");
    write_file(root, "has_cpu", "0-1\n");
    write_file(root, "node0/distance", "10 40 80\n");
    write_file(root, "node8/distance", "80 90 10\n");
    weir__numa_read(root, &read);
    assert_int_equal(read.count, 3);
    assert_int_equal(read.nodes[2].id, 8);
    assert_true(read.nodes[1].has_cpus);
    assert_false(read.nodes[2].has_cpus);
    assert_int_equal(read.nodes[0].distance[1], 40);
    assert_int_equal(read.nodes[1].distance[0], 255); /* its file is missing */
    assert_int_equal(choose(&read, -1, 8), 0);
    snprintf(remove, sizeof remove, "rm -r %s", root);
    assert_int_equal(system(remove), 0);
}

static void this_machine_can_be_read(void **state) {
    (void)state;
    struct weir__numa_topology own;
    weir__numa_read("", &own);
    (void)choose(&own, -1, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_memory_shown_as_nodes_is_never_chosen),
        cmocka_unit_test(each_gpu_gets_its_own_node),
        cmocka_unit_test(a_node_that_may_not_be_used_gives_way_to_the_nearest_that_may),
        cmocka_unit_test(without_numa_support_nothing_is_bound),
        cmocka_unit_test(sysfs_is_read_as_it_stands),
        cmocka_unit_test(this_machine_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
