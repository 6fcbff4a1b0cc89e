/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices: their memories, copies between them, direct access. */
#include "suite.h"

#define SUBJECT   "peers"
#define REFERENCE "CUDA Driver API, Peer Context Memory Access, "

enum { BYTES = 1 << 16, OTHER = 1 };

/* ---- what one device can be asked -------------------------------------------------------------------------------- */

CASE(a_device_has_no_link_to_itself,
     REFERENCE "cuDeviceGetP2PAttribute: \"CUDA_ERROR_INVALID_DEVICE ... if they represent the same device\"") {
    int value;
    GIVES(cu.DeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, DEVICE, DEVICE),
          CUDA_ERROR_INVALID_DEVICE);
}

CASE(a_context_is_no_peer_of_itself,
     REFERENCE "cuCtxEnablePeerAccess: \"CUDA_ERROR_INVALID_CONTEXT ... if the current context is peerContext\"") {
    GIVES(cu.CtxEnablePeerAccess(primary, 0), CUDA_ERROR_INVALID_CONTEXT);
}

CASE(a_device_that_is_not_there_is_no_peer, REFERENCE "cuDeviceCanAccessPeer: CUDA_ERROR_INVALID_DEVICE") {
    int can;
    GIVES(cu.DeviceCanAccessPeer(&can, DEVICE, device_count() + 5), CUDA_ERROR_INVALID_DEVICE);
}

CASE(a_peer_copy_works_within_one_context, "CUDA Driver API, Memory Management, cuMemcpyPeer") {
    const CUdeviceptr from = new_block(BYTES), to = new_block(BYTES);
    set(from, 4, BYTES, NULL);
    OK(cu.MemcpyPeer(to, primary, from, primary, BYTES));
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(to, BYTES, 4));
    OK(cu.MemFree(from));
    OK(cu.MemFree(to));
}

/* ---- two devices ------------------------------------------------------------------------------------------------ */

static CUcontext other; /* the primary context of OTHER */

static void need_two_devices(void) {
    SKIP_IF(device_count() < 2, "there is one device");
    OK(cu.DevicePrimaryCtxRetain(&other, OTHER));
}

static void enter_other(void) { OK(cu.CtxPushCurrent(other)); }

static void leave_other(void) {
    CUcontext popped = NULL;
    OK(cu.CtxPopCurrent(&popped));
    CHECK(popped == other);
}

static void need_peers(void) {
    int can = 0, can_back = 0;
    need_two_devices();
    OK(cu.DeviceCanAccessPeer(&can, DEVICE, OTHER));
    OK(cu.DeviceCanAccessPeer(&can_back, OTHER, DEVICE));
    SKIP_IF(can == 0 || can_back == 0, "the devices cannot reach each other's memory");
}

static CUdeviceptr new_other_block(int value) {
    enter_other();
    const CUdeviceptr block = new_block(BYTES);
    set(block, value, BYTES, NULL);
    OK(cu.CtxSynchronize());
    leave_other();
    return block;
}

static void drop_other_block(CUdeviceptr block) {
    enter_other();
    OK(cu.CtxSynchronize());
    OK(cu.MemFree(block));
    leave_other();
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(each_device_has_memory_of_its_own, "CUDA Driver API, Memory Management, cuMemGetInfo") {
    need_two_devices();
    const size_t before = free_memory(), amount = large_amount();
    enter_other();
    const size_t other_before = free_memory();
    const CUdeviceptr block = new_block(amount);
    CHECK(free_memory() <= other_before - amount / 2);
    leave_other();
    CHECK(free_memory() >= before - amount / 2);
    drop_other_block(block);
}

CASE(a_block_knows_which_device_it_is_on, "CUDA Driver API, Unified Addressing, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL") {
    need_two_devices();
    const CUdeviceptr block = new_other_block(1);
    int ordinal = -1;
    OK(cu.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
    CHECK_EQUAL(OTHER, ordinal);
    drop_other_block(block);
}

CASE(data_is_copied_between_devices_without_peer_access, "CUDA Driver API, Memory Management, cuMemcpyPeer") {
    need_two_devices();
    const CUdeviceptr theirs = new_other_block(7), mine = new_block(BYTES);
    OK(cu.MemcpyPeer(mine, primary, theirs, other, BYTES));
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(mine, BYTES, 7));
    OK(cu.MemFree(mine));
    drop_other_block(theirs);
}

CASE(a_copy_between_devices_has_its_place_in_the_stream, "CUDA Driver API, Memory Management, cuMemcpyPeerAsync") {
    need_two_devices();
    const CUdeviceptr theirs = new_other_block(1), mine = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(mine, 8, BYTES, stream);
    OK(cu.MemcpyPeerAsync(theirs, other, mine, primary, BYTES, stream));
    set(mine, 9, BYTES, stream);
    stays_pending(stream);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    enter_other();
    CHECK(device_all_are(theirs, BYTES, 8));
    leave_other();
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(mine));
    drop_other_block(theirs);
}

CASE(a_plain_copy_between_devices_tells_them_by_address,
     "CUDA Driver API, Memory Management, cuMemcpy; Unified Addressing") {
    need_two_devices();
    const CUdeviceptr theirs = new_other_block(6), mine = new_block(BYTES);
    OK(cu.Memcpy(mine, theirs, BYTES));
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(mine, BYTES, 6));
    OK(cu.MemFree(mine));
    drop_other_block(theirs);
}

CASE(a_stream_waits_for_another_devices_event,
     "CUDA Driver API, Stream Management, cuStreamWaitEvent: \"may be from a different context or device\"") {
    need_two_devices();
    CUevent event = new_event();
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING);
    enter_other();
    CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
    leave_other();
    struct gate *gate = hold(first);
    mark(first, 1);
    OK(cu.EventRecord(event, first));
    enter_other();
    OK(cu.StreamWaitEvent(second, event, 0));
    mark(second, 2);
    stays_pending(second);
    let_go(gate);
    OK(cu.StreamSynchronize(second));
    OK(cu.StreamDestroy(second));
    leave_other();
    CHECK(marks_are("12"));
    OK(cu.StreamDestroy(first));
    OK(cu.EventDestroy(event));
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(an_event_of_one_device_is_not_recorded_on_another,
     "CUDA Driver API, Event Management, cuEventRecord: CUDA_ERROR_INVALID_HANDLE") {
    need_two_devices();
    CUevent event = new_event();
    enter_other();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    GIVES(cu.EventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.StreamDestroy(stream));
    leave_other();
    OK(cu.EventDestroy(event));
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(pinned_memory_is_reached_by_all_devices,
     "CUDA Driver API, Memory Management, cuMemHostAlloc: \"immediately accessible to all contexts on all devices\"") {
    need_two_devices();
    const CUdeviceptr theirs = new_other_block(5);
    unsigned char *pinned = new_pinned(BYTES);
    enter_other();
    copy(as_device(pinned), theirs, BYTES, NULL);
    OK(cu.CtxSynchronize());
    leave_other();
    CHECK(all_are(pinned, BYTES, 5));
    OK(cu.MemFreeHost(pinned));
    drop_other_block(theirs);
}

/* ---- direct access ---------------------------------------------------------------------------------------------- */

CASE(the_link_says_whether_access_is_possible,
     REFERENCE "cuDeviceCanAccessPeer, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED") {
    need_two_devices();
    int can = 99, supported = 99;
    OK(cu.DeviceCanAccessPeer(&can, DEVICE, OTHER));
    OK(cu.DeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, DEVICE, OTHER));
    CHECK_EQUAL(can, supported);
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(access_takes_no_flags, REFERENCE "cuCtxEnablePeerAccess: \"CUDA_ERROR_INVALID_VALUE if Flags is not 0\"") {
    need_peers();
    GIVES(cu.CtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(access_is_enabled_once, REFERENCE "cuCtxEnablePeerAccess: CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED") {
    need_peers();
    OK(cu.CtxEnablePeerAccess(other, 0));
    GIVES(cu.CtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cu.CtxDisablePeerAccess(other));
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(access_that_is_not_enabled_is_not_disabled,
     REFERENCE "cuCtxDisablePeerAccess: CUDA_ERROR_PEER_ACCESS_NOT_ENABLED") {
    need_peers();
    GIVES(cu.CtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cu.CtxEnablePeerAccess(other, 0));
    OK(cu.CtxDisablePeerAccess(other));
    GIVES(cu.CtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(access_goes_one_way, REFERENCE "cuCtxEnablePeerAccess: \"unidirectional\"") {
    need_peers();
    OK(cu.CtxEnablePeerAccess(other, 0));
    enter_other();
    GIVES(cu.CtxDisablePeerAccess(primary), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cu.CtxEnablePeerAccess(primary, 0));
    OK(cu.CtxDisablePeerAccess(primary));
    leave_other();
    OK(cu.CtxDisablePeerAccess(other));
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}

CASE(an_enabled_peers_block_is_set_from_here, REFERENCE "cuCtxEnablePeerAccess: \"all allocations from peerContext "
                                                        "will immediately be accessible by the current context\"") {
    need_peers();
    const CUdeviceptr theirs = new_other_block(1);
    OK(cu.CtxEnablePeerAccess(other, 0));
    set(theirs, 3, BYTES, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.CtxDisablePeerAccess(other));
    enter_other();
    CHECK(device_all_are(theirs, BYTES, 3));
    leave_other();
    drop_other_block(theirs);
}

CASE(a_page_of_one_device_is_mapped_for_another, "CUDA Driver API, Virtual Memory Management, cuMemSetAccess") {
    need_peers();
    CUmemAllocationProp properties = page_properties();
    CUmemAccessDesc access[2] = {access_description(CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                                 access_description(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
    CUmemGenericAllocationHandle page;
    size_t bytes = 0;
    properties.location.id = OTHER;
    access[1].location.id = OTHER;
    OK(cu.MemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    const CUdeviceptr at = new_reservation(bytes);
    OK(cu.MemCreate(&page, bytes, &properties, 0));
    OK(cu.MemMap(at, bytes, 0, page, 0));
    OK(cu.MemSetAccess(at, bytes, access, 2));
    set(at, 4, bytes, NULL);
    OK(cu.CtxSynchronize());
    enter_other();
    CHECK(device_all_are(at, bytes, 4));
    leave_other();
    OK(cu.MemUnmap(at, bytes));
    OK(cu.MemRelease(page));
    OK(cu.MemAddressFree(at, bytes));
    OK(cu.DevicePrimaryCtxRelease(OTHER));
}
