/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in that keeps the driver's entries: in data that the linker fills, and as its constructor finds them. */
#define WAY_NAME
#include "driver.h"

__attribute__((visibility("default"))) void plugin(void);

static const struct {
    CUresult (*alloc)(CUdeviceptr *, size_t), (*free)(CUdeviceptr);
} linked = {cuMemAlloc_v2, cuMemFree_v2};
static CUresult (*found_alloc)(CUdeviceptr *, size_t), (*found_free)(CUdeviceptr);

__attribute__((constructor)) static void find(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *alloc = dlsym(driver, "cuMemAlloc_v2"),
         *give = dlsym(driver, "cuMemFree_v2");
    memcpy(&found_alloc, &alloc, sizeof alloc);
    memcpy(&found_free, &give, sizeof give);
}

void plugin(void) {
    CUdeviceptr a, b, c;
    find_all(13000, 0);
    use_device(0);
    CHECK(linked.alloc(&a, MEBI) == CUDA_SUCCESS && found_alloc(&b, MEBI) == CUDA_SUCCESS);
    CUDA(cuMemAlloc(&c, MEBI));
    CHECK(found_free(a) == CUDA_SUCCESS && linked.free(c) == CUDA_SUCCESS);
    CUDA(cuMemFree(b));
    puts("plug-in: what it kept");
}
