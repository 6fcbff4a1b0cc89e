/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer for NCCL from weir's pool: registered once, never moved.
 *
 *   cc nccl.c -o nccl $(pkg-config --cflags --libs weir) -lnccl -L CUDA/lib64 -lcudart */
#include <nccl.h>
#include <stdio.h>
#include <weir/faces.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const ncclResult_t result = (ncclResult_t)(call);                                                              \
        if (result != ncclSuccess) {                                                                                   \
            fprintf(stderr, "nccl: %s: %s\n", #call, ncclGetErrorString(result));                                      \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { BYTES = 32 << 20 };

int main(void) {
    ncclComm_t comm;
    void *buffer = NULL, *registered = NULL;
    int device = 0;
    CHECK(ncclCommInitAll(&comm, 1, &device));
    CHECK(weir_nccl_mem_alloc(&buffer, BYTES)); /* in the place of ncclMemAlloc */
    CHECK(ncclCommRegister(comm, buffer, BYTES, &registered));
    CHECK(ncclAllReduce(buffer, buffer, BYTES / sizeof(float), ncclFloat, ncclSum, comm, NULL));
    CHECK(ncclCommDeregister(comm, registered));
    CHECK(ncclCommDestroy(comm)); /* waits */
    CHECK(weir_nccl_mem_free(buffer));
    puts("one buffer was registered, reduced and given back");
    return 0;
}
