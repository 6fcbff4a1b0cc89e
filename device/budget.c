/* SPDX-License-Identifier: Apache-2.0 */
#include "device/budget.h"

#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cgroup_files { /* one version's names */
    const char *limit, *usage, *cache;
};

static const struct cgroup_files version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
static const struct cgroup_files version_2 = {"memory.max", "memory.current", "inactive_file"};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The figure after `key` and white space at the start of a line of a file; with key "", the file's first figure. */
static bool read_figure(const char *folder, const char *file, const char *key, size_t *out) {
    char path[4400];
    char line[256];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    bool found = false;
    while (in != NULL && !found && fgets(line, sizeof line, in) != NULL) {
        char *end = line;
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *at = line + strlen(key);
            *out = (size_t)strtoull(at, &end, 10);
            found = end != at;
        }
    }
    if (in != NULL) fclose(in);
    return found;
}

/* What one group leaves; SIZE_MAX when it has no limit ("max") or is not there. */
static size_t group_available(const char *folder, const struct cgroup_files *files) {
    size_t limit;
    size_t usage;
    size_t cache = 0;
    if (!read_figure(folder, files->limit, "", &limit) || !read_figure(folder, files->usage, "", &usage))
        return SIZE_MAX;
    char key[32];
    snprintf(key, sizeof key, "%s ", files->cache);
    (void)read_figure(folder, "memory.stat", key, &cache);
    size_t used = usage - least(usage, cache);
    return limit - least(limit, used);
}

/* The least that the group at `mount``path` and the groups above it leave. In a container the path may be the host's,
 * and not be there: the walk up still ends at the mount's root, which is the container's own group. */
static size_t hierarchy_available(const char *mount, const char *path, const struct cgroup_files *files) {
    char folder[4300];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof folder) return SIZE_MAX;
    size_t available = SIZE_MAX;
    for (;;) {
        available = least(available, group_available(folder, files));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < strlen(mount)) return available;
        *slash = '\0';
    }
}

/* One line of /proc/self/cgroup: "0::PATH" is version 2, "N:CONTROLLERS:PATH" version 1. */
static size_t line_available(const char *root, char *line) {
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL) return SIZE_MAX;
    *controllers++ = '\0';
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    char mount[512];
    if (controllers[0] == '\0') {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        return hierarchy_available(mount, path, &version_2);
    }
    bool memory = false;
    for (char *rest = controllers, *name; (name = strsep(&rest, ",")) != NULL;)
        memory = memory || strcmp(name, "memory") == 0;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/memory", root);
    return memory ? hierarchy_available(mount, path, &version_1) : SIZE_MAX;
}

size_t weir__memory_available(const char *root) {
    char path[512];
    char line[4200];
    size_t available = SIZE_MAX;
    size_t kibibytes;
    snprintf(path, sizeof path, "%s/proc", root);
    if (read_figure(path, "meminfo", "MemAvailable:", &kibibytes)) available = kibibytes * 1024;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *in = fopen(path, "re");
    while (in != NULL && fgets(line, sizeof line, in) != NULL) available = least(available, line_available(root, line));
    if (in != NULL) fclose(in);
    return available;
}

/* ---- devices that share the host's memory ------------------------------------------------------------------------ */

size_t weir__device_free(const struct weir_device *device, size_t driver_free_bytes) {
    if (!device->integrated) return driver_free_bytes;
    const size_t available = weir__memory_available(device->host_root);
    return available == SIZE_MAX ? driver_free_bytes : least(available, device->capacity_bytes);
}

enum weir_status weir__device_budget(struct weir_device *device, size_t *bytes) {
    size_t total;
    *bytes = device->capacity_bytes;
    return device->integrated ? weir_device_memory(device, bytes, &total) : WEIR_OK;
}
