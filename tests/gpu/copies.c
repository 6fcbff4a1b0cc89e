/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and sets: what they move, and what is over when they return. */
#include "suite.h"

#define SUBJECT         "copies"
#define REFERENCE       "CUDA Driver API, Memory Management, "
#define SYNCHRONIZATION "CUDA Driver API, API synchronization behavior, "

enum { BYTES = 1 << 16 };

static void fill(unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)(seed + i * 7 + i / 251);
}

static bool is_filled(const unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != (unsigned char)(seed + i * 7 + i / 251)) return false;
    return true;
}

/* ---- plain copies ----------------------------------------------------------------------------------------------- */

CASE(what_is_copied_there_and_back_is_the_same, REFERENCE "cuMemcpyHtoD, cuMemcpyDtoH") {
    static unsigned char mine[BYTES], back[BYTES];
    const CUdeviceptr block = new_block(BYTES);
    fill(mine, BYTES, 1);
    OK(cu.MemcpyHtoD(block, mine, BYTES));
    OK(cu.MemcpyDtoH(back, block, BYTES));
    CHECK(is_filled(back, BYTES, 1));
    OK(cu.MemFree(block));
}

CASE(device_memory_is_copied_on_the_device, REFERENCE "cuMemcpyDtoD") {
    static unsigned char mine[BYTES], back[BYTES];
    const CUdeviceptr from = new_block(BYTES), to = new_block(BYTES);
    fill(mine, BYTES, 2);
    OK(cu.MemcpyHtoD(from, mine, BYTES));
    OK(cu.MemcpyDtoD(to, from, BYTES));
    OK(cu.MemcpyDtoH(back, to, BYTES));
    CHECK(is_filled(back, BYTES, 2));
    OK(cu.MemFree(from));
    OK(cu.MemFree(to));
}

CASE(one_copy_call_tells_places_by_their_addresses,
     REFERENCE "cuMemcpy \"infers the type of the transfer ... from the pointer values\"") {
    static unsigned char mine[BYTES], back[BYTES];
    unsigned char *pinned = new_pinned(BYTES);
    const CUdeviceptr first = new_block(BYTES), second = new_block(BYTES);
    fill(mine, BYTES, 3);
    OK(cu.Memcpy(as_device(pinned), as_device(mine), BYTES)); /* host to host */
    OK(cu.Memcpy(first, as_device(pinned), BYTES));
    OK(cu.Memcpy(second, first, BYTES));
    OK(cu.Memcpy(as_device(back), second, BYTES));
    CHECK(is_filled(back, BYTES, 3));
    OK(cu.MemFree(first));
    OK(cu.MemFree(second));
    OK(cu.MemFreeHost(pinned));
}

CASE(host_memory_is_copied_to_host_memory_at_once,
     SYNCHRONIZATION "\"from any host memory to any host memory, the function is fully synchronous\"") {
    static unsigned char mine[BYTES], back[BYTES];
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    fill(mine, BYTES, 4);
    OK(cu.MemcpyAsync(as_device(back), as_device(mine), BYTES, stream));
    CHECK(is_filled(back, BYTES, 4));
    OK(cu.StreamDestroy(stream));
}

CASE(copies_start_and_end_at_any_byte, REFERENCE "cuMemcpyHtoD, cuMemcpyDtoD, cuMemcpyDtoH") {
    static unsigned char mine[2000], back[2000];
    const CUdeviceptr first = new_block(4000), second = new_block(4000);
    fill(mine, sizeof mine, 5);
    for (size_t offset = 1; offset <= 7; offset += 3) {
        const size_t count = 1001 + offset;
        memset(back, 0, sizeof back);
        OK(cu.MemcpyHtoD(first + offset, mine, count));
        OK(cu.MemcpyDtoD(second + 2 * offset + 1, first + offset, count));
        OK(cu.MemcpyDtoH(back, second + 2 * offset + 1, count));
        CHECK(is_filled(back, count, 5));
        CHECK(all_are(back + count, sizeof back - count, 0));
    }
    OK(cu.MemFree(first));
    OK(cu.MemFree(second));
}

CASE(a_copy_touches_no_byte_beside, REFERENCE "cuMemcpyHtoD: ByteCount \"specifies the number of bytes to copy\"") {
    static unsigned char mine[100];
    const CUdeviceptr block = new_block(1000);
    memset(mine, 9, sizeof mine);
    set(block, 1, 1000, NULL);
    OK(cu.MemcpyHtoD(block + 450, mine, 100));
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 450, 1) && device_all_are(block + 450, 100, 9) && device_all_are(block + 550, 450, 1));
    OK(cu.MemFree(block));
}

CASE(a_copy_of_no_bytes_does_nothing, REFERENCE "cuMemcpyAsync") {
    const CUdeviceptr block = new_block(256);
    unsigned char *pinned = new_pinned(256);
    OK(cu.MemcpyAsync(block, as_device(pinned), 0, NULL));
    OK(cu.MemcpyAsync(as_device(pinned), block, 0, NULL));
    OK(cu.CtxSynchronize());
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(pinned));
}

CASE(the_three_copies_that_name_their_places_have_asynchronous_forms,
     REFERENCE "cuMemcpyHtoDAsync, cuMemcpyDtoDAsync, cuMemcpyDtoHAsync") {
    unsigned char *mine = new_pinned(BYTES), *back = new_pinned(BYTES);
    const CUdeviceptr first = new_block(BYTES), second = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    fill(mine, BYTES, 6);
    OK(cu.MemcpyHtoDAsync(first, mine, BYTES, stream));
    OK(cu.MemcpyDtoDAsync(second, first, BYTES, stream));
    OK(cu.MemcpyDtoHAsync(back, second, BYTES, stream));
    OK(cu.StreamSynchronize(stream));
    CHECK(is_filled(back, BYTES, 6));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(first));
    OK(cu.MemFree(second));
    OK(cu.MemFreeHost(mine));
    OK(cu.MemFreeHost(back));
}

/* ---- what is over at return ------------------------------------------------------------------------------------- */

CASE(a_pageable_source_can_be_reused_when_a_copy_returns,
     SYNCHRONIZATION "\"return once the pageable buffer has been copied to the staging memory\"") {
    static unsigned char mine[BYTES];
    const CUdeviceptr block = new_block(BYTES);
    for (unsigned times = 0; times < 20; times++) {
        memset(mine, (int)times, BYTES);
        OK(cu.MemcpyHtoD(block, mine, BYTES));
        memset(mine, 0xff, BYTES);
        OK(cu.CtxSynchronize());
        CHECK(device_all_are(block, BYTES, (int)times));
    }
    OK(cu.MemFree(block));
}

CASE(a_pageable_source_can_be_reused_when_an_asynchronous_copy_returns,
     "CUDA Runtime API, API synchronization behavior, Asynchronous: pageable memory is staged, \"may synchronize with "
     "the stream and stage the copy\"") {
    SKIP_IF(attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) != 0,
            "the device reads pageable memory itself");
    static unsigned char mine[BYTES];
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    memset(mine, 5, BYTES);
    struct gate *gate = hold(stream);
    let_go_after(gate, 10); /* the copy may wait for the stream */
    copy(block, as_device(mine), BYTES, stream);
    memset(mine, 0xff, BYTES);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 5));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(
    a_copy_to_pageable_memory_is_complete_when_it_returns, SYNCHRONIZATION
    "\"from device to either pageable or pinned host memory, the function returns only once the copy has completed\"") {
    static unsigned char back[BYTES];
    const CUdeviceptr block = new_block(BYTES);
    for (int times = 1; times <= 20; times++) {
        set(block, times, BYTES, NULL);
        OK(cu.MemcpyDtoH(back, block, BYTES));
        CHECK(all_are(back, BYTES, times));
    }
    OK(cu.MemFree(block));
}

CASE(
    a_copy_to_pinned_memory_is_complete_when_it_returns, SYNCHRONIZATION
    "\"from device to either pageable or pinned host memory, the function returns only once the copy has completed\"") {
    unsigned char *back = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    for (int times = 1; times <= 20; times++) {
        set(block, times, BYTES, NULL);
        OK(cu.MemcpyDtoH(back, block, BYTES));
        CHECK(all_are(back, BYTES, times));
    }
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(back));
}

CASE(a_copy_from_pinned_memory_is_over_when_it_returns, SYNCHRONIZATION
     "\"from pinned host memory to device memory, the function is synchronous with respect to the host\"") {
    unsigned char *mine = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    for (int times = 1; times <= 20; times++) {
        memset(mine, times, BYTES);
        OK(cu.MemcpyHtoD(block, mine, BYTES));
        memset(mine, 0xff, BYTES);
        CHECK(device_all_are(block, BYTES, times));
    }
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(mine));
}

CASE(an_asynchronous_copy_to_pageable_memory_is_there_after_the_stream_is_waited_for,
     REFERENCE "cuMemcpyAsync; cuStreamSynchronize") {
    static unsigned char back[BYTES];
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set(block, 7, BYTES, stream);
    copy(as_device(back), block, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(back, BYTES, 7));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(an_asynchronous_copy_reads_pinned_memory_in_stream_order,
     "CUDA C++ Programming Guide, Streams: commands of a stream \"execute in order\"") {
    unsigned char *mine = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    memset(mine, 1, BYTES);
    struct gate *gate = hold(stream);
    copy(block, as_device(mine), BYTES, stream);
    stays_pending(stream);
    memset(mine, 2, BYTES);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 2));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(mine));
}

CASE(an_asynchronous_copy_to_pinned_memory_does_not_wait,
     "CUDA C++ Programming Guide, Asynchronous Concurrent Execution: copies with an Async suffix return before they "
     "are done") {
    unsigned char *back = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set(block, 4, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    struct gate *gate = hold(stream);
    copy(as_device(back), block, BYTES, stream);
    stays_pending(stream);
    CHECK(all_are(back, BYTES, 0));
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(back, BYTES, 4));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(back));
}

/* ---- rows and boxes --------------------------------------------------------------------------------------------- */

CASE(rows_are_copied_with_their_pitches, REFERENCE "cuMemcpy2D") {
    enum { WIDTH = 100, HEIGHT = 9, MINE = 128, THEIRS = 256 };
    static unsigned char mine[MINE * HEIGHT], back[MINE * HEIGHT];
    const CUdeviceptr block = new_block(THEIRS * HEIGHT);
    fill(mine, sizeof mine, 1);
    CUDA_MEMCPY2D there, here;
    memset(&there, 0, sizeof there);
    there.srcMemoryType = CU_MEMORYTYPE_HOST;
    there.srcHost = mine;
    there.srcPitch = MINE;
    there.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    there.dstDevice = block;
    there.dstPitch = THEIRS;
    there.WidthInBytes = WIDTH;
    there.Height = HEIGHT;
    memset(&here, 0, sizeof here);
    here.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    here.srcDevice = block;
    here.srcPitch = THEIRS;
    here.dstMemoryType = CU_MEMORYTYPE_HOST;
    here.dstHost = back;
    here.dstPitch = MINE;
    here.WidthInBytes = WIDTH;
    here.Height = HEIGHT;
    OK(cu.Memcpy2D(&there));
    OK(cu.Memcpy2D(&here));
    for (size_t row = 0; row < HEIGHT; row++) {
        CHECK(memcmp(mine + row * MINE, back + row * MINE, WIDTH) == 0);
        CHECK(all_are(back + row * MINE + WIDTH, MINE - WIDTH, 0));
    }
    OK(cu.MemFree(block));
}

CASE(a_copy_of_rows_starts_at_its_offsets, REFERENCE "cuMemcpy2D: Start = srcDevice+srcY*srcPitch+srcXInBytes") {
    enum { PITCH = 64, ROWS = 8 };
    static unsigned char mine[PITCH * ROWS], back[PITCH * ROWS];
    const CUdeviceptr block = new_block(PITCH * ROWS);
    fill(mine, sizeof mine, 2);
    OK(cu.MemcpyHtoD(block, mine, sizeof mine));
    CUDA_MEMCPY2D part;
    memset(&part, 0, sizeof part);
    part.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    part.srcDevice = block;
    part.srcPitch = PITCH;
    part.srcXInBytes = 5;
    part.srcY = 2;
    part.dstMemoryType = CU_MEMORYTYPE_HOST;
    part.dstHost = back;
    part.dstPitch = PITCH;
    part.dstXInBytes = 11;
    part.dstY = 3;
    part.WidthInBytes = 20;
    part.Height = 4;
    OK(cu.Memcpy2D(&part));
    for (size_t row = 0; row < 4; row++)
        CHECK(memcmp(back + (3 + row) * PITCH + 11, mine + (2 + row) * PITCH + 5, 20) == 0);
    CHECK(all_are(back, 3 * PITCH + 11, 0) && all_are(back + 7 * PITCH, PITCH, 0));
    OK(cu.MemFree(block));
}

CASE(rows_wider_than_their_pitch_are_refused,
     REFERENCE "cuMemcpy2D: \"srcPitch must be greater than or equal to WidthInBytes + srcXInBytes\"") {
    const CUdeviceptr block = new_block(4096), other = new_block(4096);
    CUDA_MEMCPY2D wide;
    memset(&wide, 0, sizeof wide);
    wide.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    wide.srcDevice = block;
    wide.srcPitch = 64;
    wide.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    wide.dstDevice = other;
    wide.dstPitch = 256;
    wide.WidthInBytes = 100;
    wide.Height = 4;
    GIVES(cu.Memcpy2D(&wide), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemFree(block));
    OK(cu.MemFree(other));
}

CASE(rows_are_copied_in_stream_order, REFERENCE "cuMemcpy2DAsync") {
    CUdeviceptr from = 0, to = 0;
    size_t from_pitch, to_pitch;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.MemAllocPitch(&from, &from_pitch, 300, 6, 4));
    OK(cu.MemAllocPitch(&to, &to_pitch, 300, 6, 4));
    CUDA_MEMCPY2D rows;
    memset(&rows, 0, sizeof rows);
    rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = from;
    rows.srcPitch = from_pitch;
    rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.dstDevice = to;
    rows.dstPitch = to_pitch;
    rows.WidthInBytes = 300;
    rows.Height = 6;
    struct gate *gate = hold(stream);
    set(from, 8, from_pitch * 6, stream);
    OK(cu.Memcpy2DAsync(&rows, stream));
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    for (size_t row = 0; row < 6; row++) CHECK(device_all_are(to + row * to_pitch, 300, 8));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(from));
    OK(cu.MemFree(to));
}

CASE(boxes_are_copied_with_their_pitches_and_heights, REFERENCE "cuMemcpy3D") {
    enum { PITCH = 64, HEIGHT = 6, DEPTH = 3, WIDTH = 40, ROWS = 4 };
    static unsigned char mine[PITCH * HEIGHT * DEPTH], back[WIDTH * ROWS * DEPTH];
    const CUdeviceptr block = new_block(sizeof mine);
    fill(mine, sizeof mine, 3);
    OK(cu.MemcpyHtoD(block, mine, sizeof mine));
    CUDA_MEMCPY3D box;
    memset(&box, 0, sizeof box);
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = block;
    box.srcPitch = PITCH;
    box.srcHeight = HEIGHT;
    box.srcXInBytes = 3;
    box.srcY = 1;
    box.dstMemoryType = CU_MEMORYTYPE_HOST;
    box.dstHost = back;
    box.dstPitch = WIDTH;
    box.dstHeight = ROWS;
    box.WidthInBytes = WIDTH;
    box.Height = ROWS;
    box.Depth = DEPTH;
    OK(cu.Memcpy3D(&box));
    for (size_t z = 0; z < DEPTH; z++)
        for (size_t y = 0; y < ROWS; y++)
            CHECK(memcmp(back + (z * ROWS + y) * WIDTH, mine + (z * HEIGHT + y + 1) * PITCH + 3, WIDTH) == 0);
    OK(cu.MemFree(block));
}

CASE(boxes_are_copied_in_stream_order, REFERENCE "cuMemcpy3DAsync") {
    enum { WIDTH = 60, ROWS = 4, DEPTH = 3 };
    CUdeviceptr from = 0, to = 0;
    size_t from_pitch, to_pitch;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.MemAllocPitch(&from, &from_pitch, WIDTH, ROWS * DEPTH, 4));
    OK(cu.MemAllocPitch(&to, &to_pitch, WIDTH, ROWS * DEPTH, 4));
    CUDA_MEMCPY3D box;
    memset(&box, 0, sizeof box);
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = from;
    box.srcPitch = from_pitch;
    box.srcHeight = ROWS;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = to;
    box.dstPitch = to_pitch;
    box.dstHeight = ROWS;
    box.WidthInBytes = WIDTH;
    box.Height = ROWS;
    box.Depth = DEPTH;
    struct gate *gate = hold(stream);
    set(from, 5, from_pitch * ROWS * DEPTH, stream);
    OK(cu.Memcpy3DAsync(&box, stream));
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    for (size_t row = 0; row < ROWS * DEPTH; row++) CHECK(device_all_are(to + row * to_pitch, WIDTH, 5));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(from));
    OK(cu.MemFree(to));
}

CASE(rows_of_any_pitch_are_copied_on_the_device,
     REFERENCE "cuMemcpy2DUnaligned: has no restriction to pitches of cuMemAllocPitch") {
    enum { PITCH = 37, ROWS = 5 };
    const CUdeviceptr from = new_block(PITCH * ROWS), to = new_block(PITCH * ROWS);
    set(from, 6, PITCH * ROWS, NULL);
    set(to, 1, PITCH * ROWS, NULL);
    CUDA_MEMCPY2D rows;
    memset(&rows, 0, sizeof rows);
    rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = from;
    rows.srcPitch = PITCH;
    rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.dstDevice = to;
    rows.dstPitch = PITCH;
    rows.WidthInBytes = 30;
    rows.Height = ROWS;
    OK(cu.Memcpy2DUnaligned(&rows));
    OK(cu.CtxSynchronize());
    for (size_t row = 0; row < ROWS; row++)
        CHECK(device_all_are(to + row * PITCH, 30, 6) && device_all_are(to + row * PITCH + 30, 7, 1));
    OK(cu.MemFree(from));
    OK(cu.MemFree(to));
}

/* ---- sets ------------------------------------------------------------------------------------------------------- */

#undef SUBJECT
#define SUBJECT "sets"

CASE(a_set_counts_bytes, REFERENCE "cuMemsetD8: \"the memory range of N 8-bit values\"") {
    const CUdeviceptr block = new_block(1000);
    OK(cu.MemsetD8(block, 1, 1000));
    OK(cu.MemsetD8(block + 100, 2, 300));
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 100, 1) && device_all_are(block + 100, 300, 2) && device_all_are(block + 400, 600, 1));
    OK(cu.MemFree(block));
}

CASE(a_set_of_two_byte_values_counts_values, REFERENCE "cuMemsetD16: \"the memory range of N 16-bit values\"") {
    static uint16_t back[500];
    const CUdeviceptr block = new_block(sizeof back);
    OK(cu.MemsetD16(block, 0x1111, 500));
    OK(cu.MemsetD16(block + 200, 0xabcd, 100));
    OK(cu.MemcpyDtoH(back, block, sizeof back));
    for (int i = 0; i < 500; i++) CHECK_EQUAL(i >= 100 && i < 200 ? 0xabcd : 0x1111, back[i]);
    OK(cu.MemFree(block));
}

CASE(a_set_of_four_byte_values_counts_values, REFERENCE "cuMemsetD32: \"the memory range of N 32-bit values\"") {
    static uint32_t back[500];
    const CUdeviceptr block = new_block(sizeof back);
    OK(cu.MemsetD32(block, 0x12345678, 500));
    OK(cu.MemsetD32(block + 400, 0xdeadbeef, 100));
    OK(cu.MemcpyDtoH(back, block, sizeof back));
    for (int i = 0; i < 500; i++) CHECK_EQUAL(i >= 100 && i < 200 ? 0xdeadbeefu : 0x12345678u, back[i]);
    OK(cu.MemFree(block));
}

CASE(sets_of_wider_values_happen_in_stream_order, REFERENCE "cuMemsetD16Async, cuMemsetD32Async") {
    static uint32_t back[256];
    const CUdeviceptr block = new_block(sizeof back);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    OK(cu.MemsetD32Async(block, 0x01020304, 256, stream));
    OK(cu.MemsetD16Async(block, 0x0506, 256, stream));
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    OK(cu.MemcpyDtoH(back, block, sizeof back));
    for (int i = 0; i < 256; i++) CHECK_EQUAL(i < 128 ? 0x05060506 : 0x01020304, back[i]);
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(wider_values_are_set_at_their_alignment,
     REFERENCE "cuMemsetD16: \"must be two byte aligned\"; cuMemsetD32: \"must be four byte aligned\"") {
    const CUdeviceptr block = new_block(1000);
    GIVES(cu.MemsetD16(block + 1, 1, 10), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemsetD32(block + 2, 1, 10), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemFree(block));
}

CASE(a_set_of_no_values_does_nothing, REFERENCE "cuMemsetD8Async") {
    const CUdeviceptr block = new_block(256);
    set(block, 3, 256, NULL);
    set(block, 4, 0, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 256, 3));
    OK(cu.MemFree(block));
}

CASE(a_set_of_rows_leaves_what_is_between_them, REFERENCE "cuMemsetD2D8") {
    const CUdeviceptr block = new_block(8 * 128);
    OK(cu.MemsetD8(block, 1, 8 * 128));
    OK(cu.MemsetD2D8(block, 128, 7, 100, 8));
    OK(cu.CtxSynchronize());
    for (size_t row = 0; row < 8; row++)
        CHECK(device_all_are(block + row * 128, 100, 7) && device_all_are(block + row * 128 + 100, 28, 1));
    OK(cu.MemFree(block));
}

CASE(rows_of_wider_values_are_counted_in_values, REFERENCE "cuMemsetD2D16, cuMemsetD2D32") {
    static uint32_t back[4 * 32];
    const CUdeviceptr block = new_block(sizeof back);
    OK(cu.MemsetD8(block, 0, sizeof back));
    OK(cu.MemsetD2D32(block, 128, 0x0a0b0c0d, 20, 4));
    OK(cu.MemsetD2D16(block, 128, 0x1122, 10, 2));
    OK(cu.MemcpyDtoH(back, block, sizeof back));
    for (int row = 0; row < 4; row++)
        for (int i = 0; i < 32; i++)
            CHECK_EQUAL(i >= 20 ? 0 : row < 2 && i < 5 ? 0x11221122 : 0x0a0b0c0d, back[row * 32 + i]);
    OK(cu.MemFree(block));
}

CASE(a_set_of_pinned_memory_is_over_when_it_returns, SYNCHRONIZATION
     "Memset: \"except when the target is pinned host memory ... in which case they are fully synchronous\"") {
    unsigned char *pinned = new_pinned(BYTES);
    for (int times = 1; times <= 10; times++) {
        OK(cu.MemsetD8(as_device(pinned), (unsigned char)times, BYTES));
        CHECK(all_are(pinned, BYTES, times));
    }
    OK(cu.MemFreeHost(pinned));
}

CASE(an_asynchronous_set_does_not_wait,
     SYNCHRONIZATION "Memset: \"The async version of the memset is always asynchronous with respect to the host\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(block, 1, BYTES, stream);
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 1));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

CASE(a_set_of_rows_happens_in_stream_order, REFERENCE "cuMemsetD2D8Async") {
    const CUdeviceptr block = new_block(8 * 128);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(block, 1, 8 * 128, stream);
    OK(cu.MemsetD2D8Async(block, 128, 2, 50, 8, stream));
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    for (size_t row = 0; row < 8; row++)
        CHECK(device_all_are(block + row * 128, 50, 2) && device_all_are(block + row * 128 + 50, 78, 1));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}
