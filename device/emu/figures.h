/* SPDX-License-Identifier: Apache-2.0 */
/* Figures that programs ask a device for, of compute capability 9.0 (CUDA C++ Programming Guide, table "Technical
 * Specifications per Compute Capability"); counts and rates that the guide does not give are those of an H200. */
#ifndef WEIR_EMU_FIGURES_H
#define WEIR_EMU_FIGURES_H

enum {
    EMU_PROCESSORS = 132,
    EMU_WARP_THREADS = 32,
    EMU_BLOCK_THREADS = 1024,
    EMU_BLOCK_WIDTH = 1024,
    EMU_BLOCK_DEPTH = 64,
    EMU_GRID_WIDTH = 0x7fffffff,
    EMU_GRID_HEIGHT = 65535,
    EMU_PROCESSOR_THREADS = 2048,
    EMU_PROCESSOR_BLOCKS = 32,
    EMU_PROCESSOR_SHARED_BYTES = 228 * 1024,
    EMU_BLOCK_SHARED_BYTES = 48 * 1024,
    EMU_BLOCK_SHARED_MOST_BYTES = 227 * 1024, /* when the kernel opts in */
    EMU_BLOCK_SHARED_RESERVED_BYTES = 1024,
    EMU_REGISTERS = 65536,       /* a block, and a processor */
    EMU_CAPABILITY_MAJOR = 9,    /* .0 */
    EMU_TEXTURE_ALIGNMENT = 512, /* and that of the rows of cuMemAllocPitch */
    EMU_LEAST_PRIORITY = 0,
    EMU_GREATEST_PRIORITY = -5,
};

#endif
