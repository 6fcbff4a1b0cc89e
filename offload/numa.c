/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/numa.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/error.h"

/* ---- the choice ------------------------------------------------------------------------------------------------ */

static int find(const struct weir__numa_topology *topology, int id) {
    for (int i = 0; i < topology->count; i++)
        if (topology->nodes[i].id == id) return i;
    return -1;
}

static bool usable(const struct weir__numa_topology *topology, int index) {
    return index >= 0 && topology->nodes[index].has_cpus && topology->nodes[index].allowed;
}

static int nearest(const struct weir__numa_topology *topology, int from) {
    int best = -1;
    for (int i = 0; i < topology->count; i++) {
        const unsigned char *distance = topology->nodes[from].distance;
        if (usable(topology, i) && (best < 0 || distance[i] < distance[best])) best = i;
    }
    return best;
}

static int first(const struct weir__numa_topology *topology) {
    for (int i = 0; i < topology->count; i++)
        if (usable(topology, i)) return i;
    return -1;
}

static enum weir_status choose_wanted(const struct weir__numa_topology *topology, int wanted,
                                      struct weir__numa_choice *out) {
    int index = find(topology, wanted);
    if (index < 0) return WEIR__INVALID("host pool: NUMA node %d does not exist; %d nodes do", wanted, topology->count);
    if (!topology->nodes[index].has_cpus)
        return WEIR__INVALID("host pool: NUMA node %d has no CPUs (GPU memory shown as a node?)", wanted);
    if (!topology->nodes[index].allowed)
        return WEIR__INVALID("host pool: NUMA node %d is not among the nodes that this process may use", wanted);
    *out = (struct weir__numa_choice){wanted, "as asked"};
    return WEIR_OK;
}

enum weir_status weir__numa_choose(const struct weir__numa_topology *topology, int wanted, int device_node,
                                   struct weir__numa_choice *out) {
    *out = (struct weir__numa_choice){-1, "no NUMA support"};
    if (topology->count == 0) return WEIR_OK;
    if (wanted != -1) return choose_wanted(topology, wanted, out);
    int index = find(topology, device_node);
    const char *why = "the device's own";
    if (index >= 0 && !usable(topology, index)) {
        index = nearest(topology, index);
        why = "the nearest with CPUs, since the device's own has none or may not be used";
    } else if (index < 0) {
        int here = find(topology, topology->here);
        index = usable(topology, here) ? here : first(topology);
        why = index == here ? "the calling thread's, since the device's is not known"
                            : "the first with CPUs, since the device's is not known";
    }
    if (index < 0) {
        out->why = "no node with CPUs may be used";
        return WEIR_OK;
    }
    *out = (struct weir__numa_choice){topology->nodes[index].id, why};
    return WEIR_OK;
}

/* ---- the machine ----------------------------------------------------------------------------------------------- */

static bool read_line(const char *root, const char *file, char *line, size_t room) {
    char path[512];
    int length = snprintf(path, sizeof path, "%s/sys/devices/system/node/%s", root, file);
    FILE *in = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    if (in == NULL) return false;
    bool ok = fgets(line, (int)room, in) != NULL;
    fclose(in);
    return ok;
}

/* True when `id` is in a list as sysfs prints it ("0-3,8"). */
static bool listed(const char *list, int id) {
    while (*list != '\0' && *list != '\n') {
        char *end;
        long from = strtol(list, &end, 10);
        long to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        if (end == list) return false;
        if (id >= from && id <= to) return true;
        list = *end == ',' ? end + 1 : end;
    }
    return false;
}

static void read_distances(const char *root, struct weir__numa_topology *topology, struct weir__numa_node *node) {
    char file[64];
    char line[1024];
    memset(node->distance, 255, sizeof node->distance);
    snprintf(file, sizeof file, "node%d/distance", node->id);
    if (!read_line(root, file, line, sizeof line)) return;
    const char *at = line;
    for (int i = 0; i < topology->count; i++) { /* the file has one figure for each node online, in order */
        char *end;
        long distance = strtol(at, &end, 10);
        if (end == at) return;
        node->distance[i] = (unsigned char)(distance < 0 || distance > 255 ? 255 : distance);
        at = end;
    }
}

/* Fills `allowed` and `here`, which only this machine can say. */
static void read_own(struct weir__numa_topology *topology) {
    unsigned cpu = 0;
    unsigned node = 0;
    topology->here = getcpu(&cpu, &node) == 0 ? (int)node : -1;
    struct bitmask *allowed = numa_get_mems_allowed();
    for (int i = 0; i < topology->count; i++) {
        topology->nodes[i].allowed =
            allowed == NULL || numa_bitmask_isbitset(allowed, (unsigned)topology->nodes[i].id) != 0;
    }
    numa_bitmask_free(allowed);
}

void weir__numa_read(const char *root, struct weir__numa_topology *out) {
    char online[256];
    char has_cpu[256];
    bool own = root[0] == '\0';
    *out = (struct weir__numa_topology){.here = -1};
    if (!read_line(root, "online", online, sizeof online) || !read_line(root, "has_cpu", has_cpu, sizeof has_cpu))
        return;
    if (own && numa_available() < 0) return;
    for (int id = 0; id < 1024 && out->count < WEIR__NUMA_NODES; id++) {
        if (listed(online, id)) {
            out->nodes[out->count++] =
                (struct weir__numa_node){.id = id, .has_cpus = listed(has_cpu, id), .allowed = true};
        }
    }
    for (int i = 0; i < out->count; i++) read_distances(root, out, &out->nodes[i]);
    if (own) read_own(out);
}

int weir__numa_bind(void *address, size_t bytes, int node) {
    enum { BITS = 8 * sizeof(unsigned long) };
    unsigned long mask[1024 / BITS] = {0};
    mask[node / BITS] = 1UL << (node % BITS);
    return mbind(address, bytes, MPOL_BIND, mask, 1024, 0) == 0 ? 0 : errno;
}

int weir__numa_strays(char *address, size_t bytes, int node) {
    enum { SAMPLES = 64 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t step = (bytes / SAMPLES + page - 1) / page * page;
    void *pages[SAMPLES];
    int nodes[SAMPLES];
    unsigned long count = 0;
    for (size_t offset = 0; offset < bytes && count < SAMPLES; offset += step) pages[count++] = address + offset;
    if (move_pages(0, count, pages, NULL, nodes, 0) != 0) return -1;
    int strays = 0;
    for (unsigned long i = 0; i < count; i++) strays += nodes[i] != node;
    return strays;
}

void weir__numa_cpus(int node, cpu_set_t *out) {
    char file[64];
    char line[1024];
    CPU_ZERO(out);
    snprintf(file, sizeof file, "node%d/cpulist", node);
    if (node >= 0 && read_line("", file, line, sizeof line)) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (listed(line, cpu)) CPU_SET((size_t)cpu, out);
    }
}
