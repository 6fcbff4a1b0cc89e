/* SPDX-License-Identifier: Apache-2.0 */
/* usage: three [VERSION [per-thread]]. */
#include "driver.h"

int main(int argc, char **argv) {
    const int version = argc > 1 ? atoi(argv[1]) : 13000;
    find_all(version, argc > 2 ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0);
    use_device(0);
    if (argc > 2) { /* the thread's own stream is meant by 0 */
        CUdeviceptr block;
        unsigned char back[16];
        for (int i = 0; i < 3; i++) {
            CUDA(cuMemAllocAsync(&block, MEBI, NULL));
            CUDA(cuMemsetD8Async(block, 7, MEBI, NULL));
            CUDA(cuMemcpyDtoHAsync(back, block, sizeof back, NULL));
            CUDA(cuMemFreeAsync(block, NULL));
            CUDA(cuStreamSynchronize(NULL));
            CHECK(back[0] == 7 && back[15] == 7);
        }
        puts("on the thread's own stream");
    } else {
        three_blocks("program");
    }
    return 0;
}
