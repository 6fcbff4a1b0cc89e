/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for ops_cuda.cu and comm_nccl.c in a build without the CUDA Toolkit. */
#include "trainer/comm.h"
#include "trainer/ops.h"

enum weir_status ops_open_cuda(struct weir_device *device, enum wire wire, struct ops *out) {
    (void)device, (void)wire, (void)out;
    return WEIR_NOT_SUPPORTED;
}

enum weir_status comm_open_nccl(int *argc, char ***argv, int ep, struct comm *out) {
    (void)argc, (void)argv, (void)ep, (void)out;
    return WEIR_NOT_SUPPORTED;
}
