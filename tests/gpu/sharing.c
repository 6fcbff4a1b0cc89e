/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that are exported, here and to another process. */
#include "suite.h"

#include <sys/socket.h>
#include <unistd.h>

#define SUBJECT   "sharing"
#define REFERENCE "CUDA Driver API, Virtual Memory Management, "

static CUmemGenericAllocationHandle new_shareable(size_t bytes) {
    SKIP_IF(attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0,
            "the device shares no memory by file descriptor");
    CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page = 0;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cu.MemCreate(&page, bytes, &properties, 0));
    return page;
}

static int exported(CUmemGenericAllocationHandle page) {
    int descriptor = -1;
    OK(cu.MemExportToShareableHandle(&descriptor, page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(descriptor >= 0);
    return descriptor;
}

static CUmemGenericAllocationHandle imported(int descriptor) {
    CUmemGenericAllocationHandle page = 0;
    OK(cu.MemImportFromShareableHandle(&page, (void *)(uintptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return page;
}

CASE(an_imported_page_is_the_exported_one, REFERENCE "cuMemExportToShareableHandle, cuMemImportFromShareableHandle") {
    const size_t unit = granule();
    const CUmemGenericAllocationHandle page = new_shareable(unit);
    const CUdeviceptr at = new_reservation(2 * unit);
    const int descriptor = exported(page);
    const CUmemGenericAllocationHandle same = imported(descriptor);
    CHECK(close(descriptor) == 0);
    map_page(at, unit, page);
    map_page(at + unit, unit, same);
    set(at, 6, unit, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(at + unit, unit, 6));
    OK(cu.MemUnmap(at, unit));
    OK(cu.MemUnmap(at + unit, unit));
    OK(cu.MemRelease(page));
    OK(cu.MemRelease(same));
    OK(cu.MemAddressFree(at, 2 * unit));
}

CASE(a_page_lives_as_long_as_a_shareable_handle_of_it,
     REFERENCE "cuMemRelease: freed when all references \"including it's shareable counterparts\" are released") {
    const size_t unit = granule();
    const CUdeviceptr at = new_reservation(unit);
    CUmemGenericAllocationHandle page = new_shareable(unit);
    map_page(at, unit, page);
    set(at, 7, unit, NULL);
    OK(cu.CtxSynchronize());
    const int descriptor = exported(page);
    OK(cu.MemUnmap(at, unit));
    OK(cu.MemRelease(page));
    page = imported(descriptor);
    CHECK(close(descriptor) == 0);
    map_page(at, unit, page);
    CHECK(device_all_are(at, unit, 7));
    OK(cu.MemUnmap(at, unit));
    OK(cu.MemRelease(page));
    OK(cu.MemAddressFree(at, unit));
}

CASE(a_page_that_was_not_made_for_it_is_not_exported,
     "CUDA C++ Programming Guide, Virtual Memory Management, Shareable Memory Allocations: the types are requested at "
     "creation") {
    const CUmemGenericAllocationHandle page = new_page(granule());
    int descriptor = -1;
    REFUSED(cu.MemExportToShareableHandle(&descriptor, page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cu.MemRelease(page));
}

CASE(an_export_takes_no_flags, REFERENCE "cuMemExportToShareableHandle: flags \"Reserved, must be zero\"") {
    const CUmemGenericAllocationHandle page = new_shareable(granule());
    int descriptor = -1;
    GIVES(cu.MemExportToShareableHandle(&descriptor, page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0x100),
          CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemRelease(page));
}

/* ---- another process --------------------------------------------------------------------------------------------- */

static int sockets[2]; /* the exporter's end, the importer's */

static void send_descriptor(int descriptor) {
    char byte = 0;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room};
    message.msg_controllen = sizeof control.room;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    CHECK(sendmsg(sockets[0], &message, 0) == 1);
}

static int received_descriptor(void) {
    char byte;
    int descriptor = -1;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room};
    message.msg_controllen = sizeof control.room;
    CHECK(recvmsg(sockets[1], &message, 0) == 1);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL && header->cmsg_type == SCM_RIGHTS);
    memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

static void import_and_change(void) {
    close(sockets[0]); /* without an exporter the wait below ends */
    const int descriptor = received_descriptor();
    machine_begin();
    const size_t unit = granule();
    const CUdeviceptr at = new_reservation(unit);
    const CUmemGenericAllocationHandle page = imported(descriptor);
    map_page(at, unit, page);
    CHECK(device_all_are(at, unit, 9));
    set(at, 3, unit, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.MemUnmap(at, unit));
    OK(cu.MemRelease(page));
}

static CUdeviceptr exported_at;

static void export_and_fill(void) {
    machine_begin();
    const size_t unit = granule();
    const CUmemGenericAllocationHandle page = new_shareable(unit);
    exported_at = new_reservation(unit);
    map_page(exported_at, unit, page);
    set(exported_at, 9, unit, NULL);
    OK(cu.CtxSynchronize());
    send_descriptor(exported(page));
}

/* The importer is forked before the driver is initialised. */
CASE_BARE(two_processes_share_a_page,
          REFERENCE "cuMemExportToShareableHandle: \"to share the memory with other processes\"") {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    const int importer = begin_forked_process(import_and_change);
    close(sockets[1]);
    export_and_fill();
    CHECK_EQUAL(0, end_of_forked_process(importer));
    CHECK(device_all_are(exported_at, granule(), 3));
}
