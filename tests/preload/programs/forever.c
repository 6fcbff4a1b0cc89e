/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates and frees until it is killed, or five minutes are over. */
#include <unistd.h>

#include "scenes.h"

int main(void) {
    void *block;
    alarm(300);
    for (;;) {
        CUDA(cudaMalloc(&block, MEBI));
        CUDA(cudaFree(block));
    }
}
