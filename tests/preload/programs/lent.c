/* SPDX-License-Identifier: Apache-2.0 */
/* Says whether it has more rights than its user, and which library its cuMemAlloc_v2 is of; then allocates. */
#include "driver.h"

#include <sys/auxv.h>

int main(void) {
    Dl_info library;
    void *entry;
    find_all(13000, 0);
    memcpy(&entry, &cuda.cuMemAlloc, sizeof entry);
    CHECK(dladdr(entry, &library) != 0 && library.dli_fname != NULL);
    const char *file = strrchr(library.dli_fname, '/');
    printf("%s rights, %s\n", getauxval(AT_SECURE) != 0 ? "more" : "usual",
           file != NULL ? file + 1 : library.dli_fname);
    use_device(0);
    three_blocks("program");
    return 0;
}
