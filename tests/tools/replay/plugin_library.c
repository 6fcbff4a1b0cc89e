/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in for tests, over the runtime. It is linked to none: it is found in the process. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "plugin_library.h"

#define API __attribute__((visibility("default")))

enum { LIMIT = 8 << 20 };

int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);

API void *counting_alloc(ssize_t bytes, int device, void *stream);
API void counting_free(void *block, ssize_t bytes, int device, void *stream);
API void counting_use(void *block, void *stream);
API void *limited_alloc(ssize_t bytes, int device, void *stream);
API void *crashing_alloc(ssize_t bytes, int device, void *stream);
API void *leaving_alloc(ssize_t bytes, int device, void *stream);
API void *host_alloc(ssize_t bytes, int device, void *stream);
API void *short_alloc(ssize_t bytes, int device, void *stream);
API void *inner_alloc(ssize_t bytes, int device, void *stream);

static struct seen *seen(void) {
    void *place = NULL;
    const char *where = getenv("PLUGIN_SEEN");
    if (where != NULL) sscanf(where, "%p", &place);
    return place;
}

void *counting_alloc(ssize_t bytes, int device, void *stream) {
    void *block = NULL;
    seen()->allocs++;
    seen()->alloc_bytes += bytes;
    seen()->alloc_stream = stream;
    seen()->devices += device != 0;
    return cudaMalloc(&block, (size_t)bytes) == 0 ? block : NULL;
}

void counting_free(void *block, ssize_t bytes, int device, void *stream) {
    seen()->frees++;
    seen()->free_bytes += bytes;
    seen()->free_stream = stream;
    seen()->devices += device != 0;
    cudaFree(block);
}

void counting_use(void *block, void *stream) {
    (void)block;
    seen()->uses++;
    seen()->use_stream = stream;
}

/* Refuses by itself, whatever the device has. */
void *limited_alloc(ssize_t bytes, int device, void *stream) {
    return bytes > LIMIT ? NULL : counting_alloc(bytes, device, stream);
}

void *crashing_alloc(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    abort();
}

void *leaving_alloc(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    exit(3);
}

/* Memory, but not the device's. */
void *host_alloc(ssize_t bytes, int device, void *stream) {
    (void)device;
    (void)stream;
    return malloc((size_t)bytes);
}

/* The device's, but not all of it. */
void *short_alloc(ssize_t bytes, int device, void *stream) { return counting_alloc(bytes / 4, device, stream); }

/* From one block of the device's, so many KiB from its start as the request has bytes beyond 4096, whatever is live. */
void *inner_alloc(ssize_t bytes, int device, void *stream) {
    static char *block;
    if (block == NULL) block = counting_alloc(LIMIT, device, stream);
    return block != NULL ? block + bytes % 4096 * 1024 : NULL;
}
