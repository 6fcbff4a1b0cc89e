/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of any image are accepted, ordered, counted and said once a name; what could not be launched is refused.
 * From the driver API's "Module Management", "Library Management", "Execution Control" and "Occupancy". */
#include "tests/device/api.h"

static char log_path[] = "/tmp/weir_kernel_test_XXXXXX";
static const char image[] = "no image at all";

static CUmodule load_module(void) {
    CUmodule module;
    assert_done(cu.cuModuleLoadData(&module, image));
    return module;
}

static CUfunction function_of(CUmodule module, const char *name) {
    CUfunction function;
    assert_done(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

static CUresult launch(CUfunction function, CUstream stream) {
    return cu.cuLaunchKernel(function, 2, 3, 1, 64, 2, 1, 1024, stream, NULL, NULL);
}

static uint64_t idle_kernels(void) {
    struct weir_emu_counts counts = {.size = sizeof counts};
    assert_done(cu.weirEmuCounts(&counts));
    return counts.idle_kernels;
}

static void a_kernel_comes_after_what_its_stream_holds(void **state) {
    (void)state;
    CUmodule module = load_module();
    CUfunction function = function_of(module, "ordered");
    CUstream stream;
    struct weir_emu_gate *gate;
    atomic_int calls = 0;
    assert_done(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateHold(gate, stream));
    assert_done(launch(function, stream));
    assert_done(cu.cuLaunchHostFunc(stream, bump, &calls));
    assert_code(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
    assert_int_equal(calls, 0);
    assert_done(cu.cuModuleUnload(module)); /* what was launched still happens */
    assert_done(cu.weirEmuGateOpen(gate, 0));
    assert_done(cu.cuStreamSynchronize(stream));
    assert_int_equal(calls, 1);
    assert_done(cu.weirEmuGateDestroy(gate));
    assert_done(cu.cuStreamDestroy_v2(stream));
}

static size_t lines_with(const char *text) {
    char line[600];
    size_t count = 0;
    FILE *log = fopen(log_path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL) count += strstr(line, text) != NULL;
    fclose(log);
    return count;
}

static void kernels_are_counted_and_said_once_a_name(void **state) {
    (void)state;
    CUmodule module = load_module(), other = load_module();
    const uint64_t before = idle_kernels();
    assert_done(launch(function_of(module, "spoken_of"), NULL));
    assert_done(launch(function_of(module, "spoken_of"), CU_STREAM_PER_THREAD));
    assert_done(launch(function_of(other, "spoken_of"), NULL));
    assert_int_equal(idle_kernels(), before + 3);
    assert_int_equal(lines_with("spoken_of"), 1);
    assert_done(cu.cuModuleUnload(module));
    assert_done(cu.cuModuleUnload(other));
}

static void a_kernel_is_the_same_by_every_way_to_it(void **state) {
    (void)state;
    CUlibrary library, of;
    CUkernel kernel, again;
    CUfunction function;
    const char *name;
    assert_done(cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    assert_done(cu.cuLibraryGetKernel(&kernel, library, "by_library"));
    assert_done(cu.cuLibraryGetKernel(&again, library, "by_library"));
    assert_ptr_equal(kernel, again);
    assert_done(cu.cuKernelGetFunction(&function, kernel));
    assert_done(cu.cuKernelGetName(&name, kernel));
    assert_string_equal(name, "by_library");
    assert_done(cu.cuFuncGetName(&name, function));
    assert_string_equal(name, "by_library");
    assert_done(cu.cuKernelGetLibrary(&of, kernel));
    assert_ptr_equal(of, library);
    assert_done(launch(function, NULL));
    assert_done(launch((CUfunction)(void *)kernel, NULL)); /* as the documentation allows */
    assert_done(cu.cuLibraryUnload(library));
    assert_code(CUDA_ERROR_INVALID_HANDLE, launch(function, NULL));
    assert_code(CUDA_ERROR_INVALID_HANDLE, cu.cuLibraryUnload(library));
}

static void an_impossible_launch_is_refused(void **state) {
    (void)state;
    CUmodule module = load_module();
    CUfunction f = function_of(module, "refused");
    void *parameters[1] = {&module}, *extra[1] = {CU_LAUNCH_PARAM_END};
    const uint64_t before = idle_kernels();
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 1, 1, 1, 33, 32, 1, 0, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 48 * 1024 + 1, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra));
    assert_code(CUDA_ERROR_INVALID_HANDLE,
                cu.cuLaunchKernel((CUfunction)(void *)&module, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernelEx(NULL, f, NULL, NULL));
    assert_int_equal(idle_kernels(), before);
    assert_done(cu.cuModuleUnload(module));
}

/* "The maximum size in bytes of dynamically-allocated shared memory that can be used by this function." */
static void more_shared_memory_must_be_asked_for(void **state) {
    (void)state;
    enum { MUCH = 100 * 1024, TOO_MUCH = 228 * 1024 };
    CUmodule module = load_module();
    CUfunction f = function_of(module, "shared");
    int value;
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, MUCH, NULL, NULL, NULL));
    assert_done(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MUCH));
    assert_done(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    assert_int_equal(value, MUCH);
    assert_done(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, MUCH, NULL, NULL, NULL));
    assert_code(CUDA_ERROR_INVALID_VALUE,
                cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, TOO_MUCH));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
    assert_done(cu.cuModuleUnload(module));
}

static void a_cooperative_launch_must_fit_the_device(void **state) {
    (void)state;
    CUmodule module = load_module();
    CUfunction f = function_of(module, "cooperative");
    int blocks, processors;
    assert_done(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 1024, 0));
    assert_done(cu.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_int_equal(blocks, 2);
    const unsigned fit = (unsigned)(blocks * processors);
    assert_done(cu.cuLaunchCooperativeKernel(f, fit, 1, 1, 1024, 1, 1, 0, NULL, NULL));
    assert_code(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                cu.cuLaunchCooperativeKernel(f, fit + 1, 1, 1, 1024, 1, 1, 0, NULL, NULL));
    assert_done(cu.cuModuleUnload(module));
}

static size_t half_a_kib_a_thread(int threads) { return (size_t)threads * 512; }

static void occupancy_follows_threads_and_shared_memory(void **state) {
    (void)state;
    CUmodule module = load_module();
    CUfunction f = function_of(module, "occupancy");
    int blocks, grid, block;
    size_t bytes;
    assert_done(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 0));
    assert_int_equal(blocks, 32); /* as many as a processor holds */
    assert_done(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 100 * 1024));
    assert_int_equal(blocks, 2); /* 101 KiB each of 228 */
    assert_done(cu.cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 0));
    assert_int_equal(block, 1024);
    assert_int_equal(grid, 2 * 132);
    assert_done(cu.cuOccupancyMaxPotentialBlockSize(&grid, &block, f, half_a_kib_a_thread, 0, 0));
    assert_true(block > 0 && block <= 454); /* 227 KiB are what a block can have */
    assert_done(cu.cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 2, 32));
    assert_int_equal(bytes, 113 * 1024);
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 0, 0));
    assert_done(cu.cuModuleUnload(module));
}

static void a_module_goes_with_its_context(void **state) {
    (void)state;
    CUcontext context;
    assert_done(cu.cuCtxCreate_v2(&context, 0, 0));
    CUmodule module = load_module();
    CUfunction function = function_of(module, "gone");
    assert_done(launch(function, NULL));
    assert_done(cu.cuCtxDestroy_v2(context));
    assert_code(CUDA_ERROR_INVALID_HANDLE, cu.cuModuleUnload(module));
    assert_code(CUDA_ERROR_INVALID_HANDLE, launch(function, NULL));
}

static void a_launch_records_the_event_that_it_names(void **state) {
    (void)state;
    CUmodule module = load_module();
    CUfunction function = function_of(module, "recording");
    CUevent event;
    assert_done(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
    attribute.value.launchCompletionEvent.event = event;
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, NULL, &attribute, 1};
    struct weir_emu_gate *gate;
    assert_done(cu.weirEmuGateCreate(&gate, WEIR_EMU_GATE_PLAIN));
    assert_done(cu.weirEmuGateHold(gate, NULL));
    assert_done(cu.cuLaunchKernelEx(&config, function, NULL, NULL));
    assert_code(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
    assert_done(cu.weirEmuGateOpen(gate, 0));
    assert_done(cu.cuEventSynchronize(event));
    assert_done(cu.weirEmuGateDestroy(gate));
    assert_done(cu.cuEventDestroy_v2(event));
    assert_done(cu.cuModuleUnload(module));
}

static void a_librarys_module_has_its_kernels_and_is_not_unloaded_for_itself(void **state) {
    (void)state;
    CUlibrary library;
    CUmodule module;
    assert_done(cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    assert_done(cu.cuLibraryGetModule(&module, library));
    assert_done(launch(function_of(module, "of_library"), NULL));
    assert_code(CUDA_ERROR_INVALID_HANDLE, cu.cuModuleUnload(module));
    assert_done(cu.cuLibraryUnload(library));
}

static void what_was_linked_is_loaded_and_launched(void **state) {
    (void)state;
    char text[64] = "";
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {text, (void *)(uintptr_t)sizeof text}, *linked;
    char source[] = ".version 9.0";
    size_t bytes;
    CUlinkState link;
    CUmodule module;
    assert_done(cu.cuLinkCreate_v2(2, options, values, &link));
    assert_done(cu.cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, source, sizeof source, "source", 0, NULL, NULL));
    assert_code(CUDA_ERROR_FILE_NOT_FOUND,
                cu.cuLinkAddFile_v2(link, CU_JIT_INPUT_LIBRARY, "/no/such/file", 0, NULL, NULL));
    assert_done(cu.cuLinkComplete(link, &linked, &bytes));
    assert_true(bytes > 0);
    assert_int_equal((uintptr_t)values[1], 0); /* the log is empty */
    assert_done(cu.cuModuleLoadData(&module, linked));
    assert_done(launch(function_of(module, "linked"), NULL));
    assert_done(cu.cuLinkDestroy(link));
    assert_code(CUDA_ERROR_INVALID_HANDLE, cu.cuLinkDestroy(link));
    assert_done(cu.cuModuleUnload(module));
}

static int load(void **state) {
    const int file = mkstemp(log_path);
    if (file < 0) return -1;
    close(file);
    char asked[64];
    snprintf(asked, sizeof asked, "warn:%s", log_path);
    setenv("WEIR_LOG", asked, 1);
    return load_driver(state);
}

static int unload(void **state) {
    (void)state;
    return unlink(log_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        context_test(a_kernel_comes_after_what_its_stream_holds),
        context_test(kernels_are_counted_and_said_once_a_name),
        context_test(a_kernel_is_the_same_by_every_way_to_it),
        context_test(an_impossible_launch_is_refused),
        context_test(more_shared_memory_must_be_asked_for),
        context_test(a_cooperative_launch_must_fit_the_device),
        context_test(occupancy_follows_threads_and_shared_memory),
        context_test(a_module_goes_with_its_context),
        context_test(a_launch_records_the_event_that_it_names),
        context_test(a_librarys_module_has_its_kernels_and_is_not_unloaded_for_itself),
        context_test(what_was_linked_is_loaded_and_launched),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
