/* SPDX-License-Identifier: Apache-2.0 */
/* Which NUMA node the host pool lives on, and the binding of memory to it.
 *
 * The choice is a pure function over a plain topology. GPU memory that Linux shows as a node has no CPUs, and is never
 * chosen. Memory is bound before it is first touched: a policy takes effect at the fault, and pinned pages stay. */
#ifndef WEIR_OFFLOAD_NUMA_H
#define WEIR_OFFLOAD_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"

enum { WEIR__NUMA_NODES = 64 };

struct weir__numa_node {
    int id;
    bool has_cpus;
    bool allowed;                             /* the process may take memory there (cpuset) */
    unsigned char distance[WEIR__NUMA_NODES]; /* to the topology's nodes, by index; 10 is the node itself */
};

struct weir__numa_topology {
    int count; /* 0: no NUMA support, nothing can be bound */
    int here;  /* id of the node that the calling thread runs on, -1: not known */
    struct weir__numa_node nodes[WEIR__NUMA_NODES];
};

struct weir__numa_choice {
    int node;        /* -1: unbound */
    const char *why; /* for the log */
};

/* Chooses: `wanted` when it is not -1; else the device's node; else, when that has no CPUs or may not be used, the
 * nearest node that has; else (device's node unknown) the calling thread's node; else the first with CPUs.
 * Fails: WEIR_INVALID when the wanted node does not exist, has no CPUs or may not be used. */
enum weir_status weir__numa_choose(const struct weir__numa_topology *topology, int wanted, int device_node,
                                   struct weir__numa_choice *out);

/* Reads the machine's topology from `root`/sys/devices/system/node ("" for this machine; there the kernel must also
 * support memory policies). What can't be read is left out. */
void weir__numa_read(const char *root, struct weir__numa_topology *out);

/* Binds untouched pages to a node, strictly. Gives 0, or the errno (EPERM and ENOSYS are usual in containers). */
int weir__numa_bind(void *address, size_t bytes, int node);

/* How many of up to 64 evenly spaced pages, all touched, are not on `node`; -1 when the system does not say. */
int weir__numa_strays(char *address, size_t bytes, int node);

/* The CPUs of a node, as sysfs lists them; an empty set when it does not. (libnuma's own calls for this keep a cache that
 * several threads must not fill at once.) */
void weir__numa_cpus(int node, cpu_set_t *out);

#endif
