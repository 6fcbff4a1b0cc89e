/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are made to fail, on the emulated device: a failed call does nothing else, and the next one succeeds.
 * Runs with WEIR_EMU=fault:cuMemCreate@2=CUDA_ERROR_OUT_OF_MEMORY. */
#include "tests/device/machine.h"

static const struct weir__driver *driver;

static int begin(void **state) {
    if (open_device(state) != 0) return -1;
    driver = enter(*state);
    return 0;
}

static int end(void **state) {
    char message[100];
    driver->emu_fault("", message, sizeof message);
    weir__device_leave(*state);
    return close_device(state);
}

static CUresult create(struct weir_device *device, CUmemGenericAllocationHandle *handle) {
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->handle}};
    return driver->page_create(handle, device->granularity_bytes, &properties, 0);
}

static size_t free_bytes(void) {
    size_t left, total;
    assert_code(CUDA_SUCCESS, driver->memory_info(&left, &total));
    return left;
}

static void the_setting_makes_the_nth_call_fail(void **state) {
    CUmemGenericAllocationHandle first, second = 7, third;
    assert_code(CUDA_SUCCESS, create(*state, &first));
    const size_t left = free_bytes();
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, create(*state, &second));
    assert_int_equal(second, 7); /* nothing was made */
    assert_int_equal(free_bytes(), left);
    assert_code(CUDA_SUCCESS, create(*state, &third));
    assert_code(CUDA_SUCCESS, driver->page_release(first));
    assert_code(CUDA_SUCCESS, driver->page_release(third));
}

static void fault(const char *text) {
    char message[300] = "";
    if (driver->emu_fault(text, message, sizeof message) != CUDA_SUCCESS) fail_msg("%s", message);
}

static void a_fault_can_come_and_go_while_the_program_runs(void **state) {
    (void)state;
    CUstream stream;
    CUevent event;
    assert_code(CUDA_SUCCESS, driver->stream_create(&stream, CU_STREAM_NON_BLOCKING));
    assert_code(CUDA_SUCCESS, driver->event_create(&event, CU_EVENT_DISABLE_TIMING));
    fault("cuEventRecord@1+=CUDA_ERROR_LAUNCH_FAILED;cuStreamWaitEvent@1+=719");
    assert_code(CUDA_ERROR_LAUNCH_FAILED, driver->event_record(event, stream));
    assert_code(CUDA_ERROR_LAUNCH_FAILED, driver->stream_wait(stream, event, 0));
    assert_code(CUDA_SUCCESS, driver->stream_query(stream));
    fault("");
    assert_code(CUDA_SUCCESS, driver->event_record(event, stream));
    assert_code(CUDA_SUCCESS, driver->stream_wait(stream, event, 0));
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(stream));
    assert_code(CUDA_SUCCESS, driver->event_destroy(event));
    assert_code(CUDA_SUCCESS, driver->stream_destroy(stream));
}

static void work_that_is_made_to_fail_does_not_happen(void **state) {
    (void)state;
    CUstream stream;
    atomic_int done = 0;
    assert_code(CUDA_SUCCESS, driver->stream_create(&stream, CU_STREAM_NON_BLOCKING));
    fault("cuLaunchHostFunc@1+=CUDA_ERROR_OUT_OF_MEMORY");
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, driver->host_function(stream, bump, &done));
    fault("");
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(stream));
    assert_int_equal(atomic_load(&done), 0);
    assert_code(CUDA_SUCCESS, driver->host_function(stream, bump, &done));
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(stream));
    assert_int_equal(atomic_load(&done), 1);
    assert_code(CUDA_SUCCESS, driver->stream_destroy(stream));
}

static void faults_are_counted(void **state) {
    (void)state;
    struct weir_emu_counts before = {.size = sizeof before}, after = {.size = sizeof after};
    size_t left, total;
    assert_code(CUDA_SUCCESS, driver->emu_counts(&before));
    fault("cuMemGetInfo@1+=CUDA_ERROR_UNKNOWN");
    assert_code(CUDA_ERROR_UNKNOWN, driver->memory_info(&left, &total));
    assert_code(CUDA_ERROR_UNKNOWN, driver->memory_info(&left, &total));
    assert_code(CUDA_SUCCESS, driver->emu_counts(&after));
    assert_int_equal(after.faults - before.faults, 2);
}

static void a_malformed_fault_is_refused_with_a_sentence(void **state) {
    (void)state;
    char message[300];
    size_t left, total;
    assert_code(CUDA_ERROR_INVALID_VALUE,
                driver->emu_fault("cuMemGetInfo@1+=2;cuMemGetInf@1=2", message, sizeof message));
    assert_non_null(strstr(message, "\"cuMemGetInf\" is no entry of the driver"));
    assert_non_null(strstr(message, "did you mean cuMemGetInfo?"));
    assert_code(CUDA_SUCCESS, driver->memory_info(&left, &total)); /* nothing of it was added */
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->emu_fault(NULL, message, sizeof message));
}

int main(void) {
#define fault_test(function) cmocka_unit_test_setup_teardown(function, begin, end)
    const struct CMUnitTest tests[] = {
        fault_test(the_setting_makes_the_nth_call_fail),
        fault_test(a_fault_can_come_and_go_while_the_program_runs),
        fault_test(work_that_is_made_to_fail_does_not_happen),
        fault_test(faults_are_counted),
        fault_test(a_malformed_fault_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
