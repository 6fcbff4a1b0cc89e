/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool beside_path(const char *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length <= 0) return false;
    folder[length] = 0;
    *strrchr(folder, '/') = 0;
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

void beside_put_emulator_first(void) {
    char emulator[PATH_MAX], path[3 * PATH_MAX];
    const char *before = getenv("LD_LIBRARY_PATH");
    setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0); /* PyTorch warns of each retry */
    setenv("WEIR_LOG", "error", 0);
    if (!beside_path("../lib/emu", emulator)) return;
    snprintf(path, sizeof path, "%s%s%s", emulator, before != NULL ? ":" : "", before != NULL ? before : "");
    setenv("LD_LIBRARY_PATH", path, 1);
}
