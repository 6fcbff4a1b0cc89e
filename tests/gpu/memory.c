/* SPDX-License-Identifier: Apache-2.0 */
/* Plain device memory and what the driver says is free. */
#include "suite.h"

#define SUBJECT   "memory"
#define REFERENCE "CUDA Driver API, Memory Management, "

CASE(a_block_keeps_what_is_written_to_it, REFERENCE "cuMemAlloc") {
    enum { BYTES = 100000 };
    const CUdeviceptr block = new_block(BYTES);
    set(block, 0x5a, BYTES, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, BYTES, 0x5a));
    OK(cu.MemFree(block));
}

CASE(a_block_of_no_bytes_is_refused,
     REFERENCE "cuMemAlloc: \"If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE\"") {
    CUdeviceptr block = 0;
    GIVES(cu.MemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_block_needs_a_place_for_its_address, REFERENCE "cuMemAlloc: CUDA_ERROR_INVALID_VALUE") {
    GIVES(cu.MemAlloc(NULL, 256), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_block_of_one_byte_is_one, REFERENCE "cuMemAlloc") {
    const CUdeviceptr block = new_block(1);
    set(block, 9, 1, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 1, 9));
    OK(cu.MemFree(block));
}

CASE(blocks_are_aligned_to_256,
     "CUDA C++ Programming Guide, Device Memory Accesses: allocations are \"always aligned to at least 256 bytes\"") {
    static const size_t sizes[] = {1, 3, 255, 257, 1000, 4097, 70001};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    CUdeviceptr blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = new_block(sizes[i]);
        CHECK_EQUAL(0, blocks[i] % 256);
    }
    for (int i = 0; i < COUNT; i++) OK(cu.MemFree(blocks[i]));
}

CASE(blocks_do_not_overlap, REFERENCE "cuMemAlloc") {
    enum { COUNT = 24 };
    CUdeviceptr blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = new_block((size_t)(i * 777 + 1));
        set(blocks[i], i + 1, (size_t)(i * 777 + 1), NULL);
    }
    OK(cu.CtxSynchronize());
    for (int i = 0; i < COUNT; i++) CHECK(device_all_are(blocks[i], (size_t)(i * 777 + 1), i + 1));
    for (int i = 0; i < COUNT; i++) OK(cu.MemFree(blocks[i]));
}

CASE(a_block_beyond_the_device_is_out_of_memory, REFERENCE "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY") {
    CUdeviceptr block = 0;
    GIVES(cu.MemAlloc(&block, total_memory() * 2), CUDA_ERROR_OUT_OF_MEMORY);
}

CASE(a_huge_size_does_not_wrap, REFERENCE "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE") {
    CUdeviceptr block = 0;
    GIVES(cu.MemAlloc(&block, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemAlloc(&block, SIZE_MAX - 4095), CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemAlloc(&block, (size_t)1 << 63), CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE);
}

CASE(after_out_of_memory_smaller_blocks_are_given, REFERENCE "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY") {
    CUdeviceptr block = 0;
    GIVES(cu.MemAlloc(&block, total_memory() * 2), CUDA_ERROR_OUT_OF_MEMORY);
    block = new_block(4096);
    set(block, 1, 4096, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.MemFree(block));
}

CASE(a_full_device_gives_again_what_is_freed, REFERENCE "cuMemAlloc, cuMemFree") {
    enum { MOST = 64 };
    CUdeviceptr blocks[MOST], block = 0;
    const size_t bytes = total_memory() / 8;
    int count = 0;
    CUresult code = CUDA_SUCCESS;
    while (count < MOST && (code = cu.MemAlloc(&blocks[count], bytes)) == CUDA_SUCCESS) count++;
    GIVES(code, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(count > 0 && count <= 8);
    OK(cu.MemFree(blocks[--count]));
    OK(cu.MemAlloc(&block, bytes));
    OK(cu.MemFree(block));
    while (count > 0) OK(cu.MemFree(blocks[--count]));
}

/* ---- free ------------------------------------------------------------------------------------------------------- */

CASE(an_address_inside_a_block_cannot_be_freed, REFERENCE "cuMemFree: \"must have been returned by a previous call\"") {
    const CUdeviceptr block = new_block(4096);
    GIVES(cu.MemFree(block + 256), CUDA_ERROR_INVALID_VALUE);
    set(block, 2, 4096, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.MemFree(block));
}

CASE(a_block_cannot_be_freed_twice, REFERENCE "cuMemFree: \"must have been returned by a previous call\"") {
    const CUdeviceptr block = new_block(4096);
    OK(cu.MemFree(block));
    GIVES(cu.MemFree(block), CUDA_ERROR_INVALID_VALUE);
}

CASE(host_memory_is_not_a_block, REFERENCE "cuMemFree: \"must have been returned by a previous call\"") {
    int mine = 0;
    GIVES(cu.MemFree(as_device(&mine)), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_free_lets_pending_work_have_the_block,
     REFERENCE "cuMemFree: \"this API may perform implicit synchronization\"; programs rely on it") {
    enum { BYTES = 1 << 16 };
    const CUdeviceptr block = new_block(BYTES);
    unsigned char *result = new_pinned(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(block, 6, BYTES, stream);
    copy(as_device(result), block, BYTES, stream);
    let_go_after(gate, 20);
    OK(cu.MemFree(block));
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(result, BYTES, 6));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFreeHost(result));
}

CASE(a_free_does_not_disturb_work_on_other_blocks, REFERENCE "cuMemFree") {
    enum { BYTES = 1 << 16 };
    const CUdeviceptr block = new_block(BYTES), other = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(other, 4, BYTES, stream);
    let_go_after(gate, 10);
    OK(cu.MemFree(block));
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(other, BYTES, 4));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(other));
}

/* ---- memory info ------------------------------------------------------------------------------------------------ */

CASE(no_more_is_free_than_there_is, REFERENCE "cuMemGetInfo") {
    CHECK(total_memory() > 0);
    CHECK(free_memory() <= total_memory());
}

CASE(a_block_is_missing_from_the_free_figure,
     REFERENCE "cuMemGetInfo: \"the amount of memory on the device that is free\"") {
    const size_t amount = large_amount(), before = free_memory();
    const CUdeviceptr block = new_block(amount);
    CHECK(free_memory() <= before - amount / 2);
    OK(cu.MemFree(block));
    CHECK(free_memory() >= before - amount / 2);
}

CASE(a_page_is_missing_from_the_free_figure, REFERENCE "cuMemGetInfo; Virtual Memory Management, cuMemCreate") {
    const size_t amount = large_amount(), before = free_memory();
    const CUmemGenericAllocationHandle page = new_page(amount);
    CHECK(free_memory() <= before - amount / 2);
    OK(cu.MemRelease(page));
    CHECK(free_memory() >= before - amount / 2);
}

CASE(a_refused_block_is_not_missing_from_the_free_figure, REFERENCE "cuMemGetInfo") {
    const size_t before = free_memory();
    CUdeviceptr block;
    GIVES(cu.MemAlloc(&block, total_memory() * 2), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(free_memory() >= before - large_amount() / 2);
}

/* ---- ranges, rows ----------------------------------------------------------------------------------------------- */

CASE(any_address_of_a_block_tells_its_range, REFERENCE "cuMemGetAddressRange") {
    enum { BYTES = 5000 };
    const CUdeviceptr block = new_block(BYTES);
    for (size_t offset = 0; offset < BYTES; offset += 1249) {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        OK(cu.MemGetAddressRange(&base, &bytes, block + offset));
        CHECK(base == block);
        CHECK(bytes >= BYTES);
    }
    OK(cu.MemFree(block));
}

CASE(either_part_of_a_range_may_be_left_out,
     REFERENCE "cuMemGetAddressRange: \"Both parameters pbase and psize are optional\"") {
    const CUdeviceptr block = new_block(5000);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    OK(cu.MemGetAddressRange(&base, NULL, block + 1));
    OK(cu.MemGetAddressRange(NULL, &bytes, block + 1));
    CHECK(base == block && bytes >= 5000);
    OK(cu.MemFree(block));
}

CASE(an_address_of_no_block_has_no_range,
     REFERENCE "cuMemGetAddressRange: CUDA_ERROR_NOT_FOUND, CUDA_ERROR_INVALID_VALUE") {
    int mine = 0;
    CUdeviceptr base;
    size_t bytes;
    GIVES(cu.MemGetAddressRange(&base, &bytes, as_device(&mine)), CUDA_ERROR_NOT_FOUND, CUDA_ERROR_INVALID_VALUE);
}

CASE(rows_are_as_wide_as_asked_and_apart_by_the_pitch, REFERENCE "cuMemAllocPitch") {
    enum { WIDTH = 1000, HEIGHT = 7 };
    CUdeviceptr block = 0;
    size_t pitch = 0;
    OK(cu.MemAllocPitch(&block, &pitch, WIDTH, HEIGHT, 4));
    CHECK(pitch >= WIDTH);
    for (size_t row = 0; row < HEIGHT; row++) set(block + row * pitch, (int)row + 1, WIDTH, NULL);
    OK(cu.CtxSynchronize());
    for (size_t row = 0; row < HEIGHT; row++) CHECK(device_all_are(block + row * pitch, WIDTH, (int)row + 1));
    OK(cu.MemFree(block));
}
