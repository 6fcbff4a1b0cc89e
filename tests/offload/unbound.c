/* SPDX-License-Identifier: Apache-2.0 */
/* Where the system refuses to bind memory, as in many containers, the pool works unbound, and says so once. The test
 * program's own mbind stands for the system's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "offload/numa.h"
#include "world.h"

static int refused;

long mbind(void *address, unsigned long bytes, int mode, const unsigned long *nodes, unsigned long node_count,
           unsigned flags);

long mbind(void *address, unsigned long bytes, int mode, const unsigned long *nodes, unsigned long node_count,
           unsigned flags) {
    (void)address, (void)bytes, (void)mode, (void)nodes, (void)node_count, (void)flags;
    refused++;
    errno = EPERM;
    return -1;
}

static char log_path[] = "/tmp/weir-unbound-XXXXXX";

static int warnings(void) {
    char line[1024];
    int count = 0;
    FILE *in = fopen(log_path, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL) count += strstr(line, "goes on unbound") != NULL;
    fclose(in);
    return count;
}

static void the_pool_works_unbound_and_says_so_once(void **state) {
    (void)state;
    struct weir__numa_topology *topology = malloc(sizeof *topology);
    assert_non_null(topology);
    weir__numa_read("", topology);
    const bool numa = topology->count > 0;
    free(topology);
    if (!numa) {
        print_message("skipped: this system has no NUMA support that could be refused\n");
        skip();
    }
    struct world world;
    world_open(&world, (struct world_options){.slab_bytes = MIB});
    void *blocks[4];
    for (size_t i = 0; i < 4; i++) {
        assert_ok(weir_host_pool_alloc(world.host, MIB, &blocks[i]));
        fill_host(blocks[i], MIB, i);
    }
    assert_int_equal(host_stats(&world).slabs, 4);
    assert_false(host_stats(&world).bound);
    assert_int_equal(host_stats(&world).numa_node, -1);
    assert_int_equal(refused, 1);
    assert_int_equal(warnings(), 1);
    for (size_t i = 0; i < 4; i++) weir_host_pool_free(world.host, blocks[i]);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_pool_works_unbound_and_says_so_once)};
    char setting[128];
    int file = mkstemp(log_path);
    if (file < 0) return 1;
    close(file);
    snprintf(setting, sizeof setting, "warn:%s", log_path);
    setenv("WEIR_LOG", setting, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(log_path);
    return failed;
}
