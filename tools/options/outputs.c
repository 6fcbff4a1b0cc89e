/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/options/outputs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that exists; or the name that it will have in a folder that does. */
struct identity {
    dev_t device;
    ino_t inode;
    const char *name; /* "": it exists */
};

static bool is_standard_output(const char *path) { return *path == '\0' || strcmp(path, "-") == 0; }

/* False: several may write it, or nobody can. */
static bool identify(const char *path, struct identity *identity) {
    struct stat status;
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int length = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
    const bool there = is_standard_output(path) ? fstat(STDOUT_FILENO, &status) == 0 : stat(path, &status) == 0;
    identity->name = "";
    if (!there) {
        if (is_standard_output(path) || length >= PATH_MAX) return false;
        snprintf(folder, sizeof folder, "%.*s", length > 0 ? length : 1, length > 0 ? path : ".");
        if (stat(folder, &status) != 0) return false;
        identity->name = slash == NULL ? path : slash + 1;
    } else if (!S_ISREG(status.st_mode)) {
        return false;
    }
    identity->device = status.st_dev;
    identity->inode = status.st_ino;
    return true;
}

static bool are_same(const char *path, const char *other) {
    struct identity one, two;
    return identify(path, &one) && identify(other, &two) && one.device == two.device && one.inode == two.inode &&
           strcmp(one.name, two.name) == 0;
}

static bool is_part_of(const char *path, const char *other) {
    char part[PATH_MAX];
    if (is_standard_output(other)) return false;
    const int length = snprintf(part, sizeof part, "%s.part", other);
    return length < (int)sizeof part && are_same(path, part);
}

bool outputs_are_one(const char *path, const char *other) {
    return are_same(path, other) || is_part_of(path, other) || is_part_of(other, path);
}

bool outputs_differ(const struct named_output *outputs, size_t count, struct complaint complaint) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            const struct named_output *one = &outputs[i], *other = &outputs[j];
            if (one->path == NULL || other->path == NULL || !outputs_are_one(one->path, other->path)) continue;
            const char *path = is_standard_output(one->path) ? other->path : one->path;
            return complain(complaint, "%s and %s both go to %.200s: each needs a FILE of its own", one->asked,
                            other->asked, is_standard_output(path) ? "standard output" : path);
        }
    return true;
}
