/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/prefault.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "offload/numa.h"

enum {
    THREADS_MAX = 8,      /* clearing pages is bound by memory: more threads add little */
    SHARE_MIN = 16 << 20, /* below this a thread costs more than it brings */
};

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct share {
    char *address;
    size_t bytes;
    const cpu_set_t *cpus;
    int error;
};

/* The system call says ENOMEM or EHWPOISON where a plain touch would be a fatal fault. */
static int populate(char *address, size_t bytes) {
    if (madvise(address, bytes, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno != EINVAL) return errno;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t offset = 0; offset < bytes; offset += page) ((volatile char *)address)[offset] = 0;
    return 0;
}

static void *run(void *argument) {
    struct share *share = argument;
    if (CPU_COUNT(share->cpus) > 0)
        (void)sched_setaffinity(0, sizeof *share->cpus, share->cpus); /* only speed is at stake */
    share->error = populate(share->address, share->bytes);
    return NULL;
}

static size_t thread_count(size_t bytes) {
    cpu_set_t set;
    size_t count = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
    size_t useful = bytes / SHARE_MIN + 1;
    count = count < useful ? count : useful;
    return count < THREADS_MAX ? count : THREADS_MAX;
}

int weir__prefault(char *address, size_t bytes, int node) {
    struct share shares[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t count = thread_count(bytes);
    size_t each = (bytes / count + page - 1) / page * page;
    cpu_set_t cpus;
    weir__numa_cpus(node, &cpus);
    size_t started = 0;
    size_t offset = 0;
    while (count > 1 && started < count && offset < bytes) {
        size_t part = bytes - offset < each ? bytes - offset : each;
        shares[started] = (struct share){.address = address + offset, .bytes = part, .cpus = &cpus};
        if (pthread_create(&threads[started], NULL, run, &shares[started]) != 0) break;
        started++;
        offset += part;
    }
    int error = offset < bytes ? populate(address + offset, bytes - offset) : 0;
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        error = error != 0 ? error : shares[i].error;
    }
    return error;
}
