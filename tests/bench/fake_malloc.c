/* SPDX-License-Identifier: Apache-2.0 */
/* The entries by which mimalloc 2.0.9, or jemalloc 5.3.0, tells its version; built once for each. */
#include <stddef.h>
#include <string.h>

#ifdef FAKE_MIMALLOC
int mi_version(void);
int mi_version(void) { return 209; }
#else
int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes) {
    static const char *const version = "5.3.0-0-g54eaed1";
    if (strcmp(name, "version") != 0 || *old_bytes != sizeof version || new != NULL || new_bytes != 0) return 22;
    memcpy(old, &version, sizeof version);
    return 0;
}
#endif
