/* SPDX-License-Identifier: Apache-2.0 */
/* In a program that was started without standard streams, nothing that is opened for it takes their numbers, so that what is
 * printed goes nowhere. Each test is a process of its own, whose streams are closed before it has a driver. */
#include "tests/device/api.h"

#include <sys/wait.h>

#include "device/standard.h"

enum { BYTES = 4096, VALUE = 0x5a };

static bool all_closed(void) {
    for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++)
        if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) return false;
    return true;
}

static bool print_nowhere(void) {
    for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++)
        if (write(descriptor, "printed\n", 8) != -1 || errno != EBADF) return false;
    return true;
}

/* Gives: the number of the first that did not hold, 0: all held. */
static int without_streams(int (*first_wrong)(void)) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++) close(descriptor);
        _exit(first_wrong());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int move_descriptors(void) {
    const int moved = weir__above_standard(open("/", O_RDONLY));
    if (moved <= STDERR_FILENO || !all_closed()) return 1;
    if (fcntl(moved, F_GETFD) != FD_CLOEXEC) return 2;
    if (weir__above_standard(moved) != moved) return 3;
    if (weir__above_standard(open("/nowhere/at/all", O_RDONLY)) != -1 || errno != ENOENT) return 4;
    return 0;
}

static int take_numbers(void) {
    char byte;
    weir__take_closed_standard();
    const int next = open("/", O_RDONLY);
    if (next <= STDERR_FILENO) return 1;
    if (!print_nowhere() || read(STDIN_FILENO, &byte, 1) != -1) return 2;
    if (open("/proc/self/fd/1", O_WRONLY) != -1) return 3;
    for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++)
        if (fcntl(descriptor, F_GETFD) != FD_CLOEXEC) return 4;
    close(next);
    weir__take_closed_standard(); /* where none is closed any more, nothing is left open */
    return open("/", O_RDONLY) == next ? 0 : 5;
}

static bool make_memory(CUdeviceptr *address) {
    CUcontext context;
    return load_api() && cu.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
           cu.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS && cu.cuMemAlloc_v2(address, BYTES) == CUDA_SUCCESS &&
           cu.cuMemsetD8_v2(*address, VALUE, BYTES) == CUDA_SUCCESS && cu.cuCtxSynchronize() == CUDA_SUCCESS;
}

static int keep_memory(void) {
    CUdeviceptr address;
    unsigned char bytes[BYTES] = {0};
    if (!make_memory(&address)) return 1;
    if (!print_nowhere()) return 2;
    if (cu.cuMemcpyDtoH_v2(bytes, address, BYTES) != CUDA_SUCCESS) return 3;
    for (size_t i = 0; i < BYTES; i++)
        if (bytes[i] != VALUE) return 4;
    return all_closed() ? 0 : 5;
}

static int export_page(void) {
    const CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUdeviceptr address;
    CUmemGenericAllocationHandle page;
    int descriptor = -1;
    size_t granule = 0;
    if (!make_memory(&address)) return 1;
    if (cu.cuMemGetAllocationGranularity(&granule, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) return 2;
    if (cu.cuMemCreate(&page, granule, &wanted, 0) != CUDA_SUCCESS) return 3;
    if (cu.cuMemExportToShareableHandle(&descriptor, page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS)
        return 4;
    return descriptor > STDERR_FILENO && all_closed() ? 0 : 5;
}

static void a_descriptor_is_moved_above_the_standard_ones(void **state) {
    (void)state;
    assert_int_equal(without_streams(move_descriptors), 0);
}

static void a_programs_closed_streams_are_taken_by_what_refuses_all(void **state) {
    (void)state;
    assert_int_equal(without_streams(take_numbers), 0);
}

static void what_is_printed_does_not_land_in_device_memory(void **state) {
    (void)state;
    assert_int_equal(without_streams(keep_memory), 0);
}

static void an_exported_page_is_no_standard_stream(void **state) {
    (void)state;
    assert_int_equal(without_streams(export_page), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_descriptor_is_moved_above_the_standard_ones),
        cmocka_unit_test(a_programs_closed_streams_are_taken_by_what_refuses_all),
        cmocka_unit_test(what_is_printed_does_not_land_in_device_memory),
        cmocka_unit_test(an_exported_page_is_no_standard_stream),
    };
    return cmocka_run_group_tests_name("closed standard streams", tests, NULL, NULL);
}
