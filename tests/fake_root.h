/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that stands for the machine's root: proc and sys as a test wants them. */
#ifndef WEIR_TESTS_FAKE_ROOT_H
#define WEIR_TESTS_FAKE_ROOT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char fake_root[] = "/tmp/weir-root-XXXXXX";

/* False when the folder or a file can't be made. */
static inline bool make_fake_root(void) { return mkdtemp(fake_root) != NULL; }

static inline bool write_fake_file(const char *file, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", fake_root, file);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    if (out == NULL) return false;
    const bool written = fputs(text, out) >= 0;
    return fclose(out) == 0 && written;
}

static inline bool clear_fake_root(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s/*", fake_root);
    return system(command) == 0;
}

static inline void remove_fake_root(void) {
    (void)clear_fake_root();
    (void)rmdir(fake_root);
}

#endif
