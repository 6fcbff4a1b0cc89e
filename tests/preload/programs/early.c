/* SPDX-License-Identifier: Apache-2.0 */
/* Looks names up as soon as it is loaded, as preloaded allocators and interposers do. */
#include <dlfcn.h>
#include <stdio.h>

__attribute__((constructor)) static void look_up_early(void) {
    const int found = dlsym(RTLD_NEXT, "malloc") != NULL && dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL;
    puts(found ? "early: found" : "early: not found");
}
