/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates and frees until it is killed, or a minute is over. */
#include <unistd.h>

#include "scenes.h"

int main(void) {
    void *block;
    alarm(60);
    for (;;) {
        CUDA(cudaMalloc(&block, MEBI));
        CUDA(cudaFree(block));
    }
}
