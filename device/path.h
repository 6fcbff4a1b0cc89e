/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_DEVICE_PATH_H
#define WEIR_DEVICE_PATH_H

#include <stdlib.h>
#include <string.h>

/* Where a file lies that a new one is to replace: a symbolic link, as /dev/stdout is one, stays. Gives: to be freed; NULL: no
 * host memory. */
static inline char *weir__behind_links(const char *path) {
    char *real = realpath(path, NULL);
    return real != NULL ? real : strdup(path);
}

#endif
