/* SPDX-License-Identifier: Apache-2.0 */
/* usage: loader PLUGIN [deep] [first]: loads the plug-in, which uses the device; first: after the program itself has. */
#include "driver.h"

int main(int argc, char **argv) {
    int mode = RTLD_NOW | RTLD_LOCAL;
    void (*plugin)(void);
    CHECK(argc > 1);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "deep") == 0) mode |= RTLD_DEEPBIND;
        if (strcmp(argv[i], "first") != 0) continue;
        find_all(12000, 0);
        use_device(0);
        three_blocks("program");
    }
    void *library = dlopen(argv[1], mode), *entry = library == NULL ? NULL : dlsym(library, "plugin");
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(entry != NULL);
    memcpy(&plugin, &entry, sizeof entry);
    plugin();
    CHECK(dlclose(library) == 0);
    puts("closed");
    return 0;
}
