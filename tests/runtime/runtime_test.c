/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated runtime adds to the driver: devices a thread, last errors, checks of its own, registered kernels and
 * variables. Two devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "device/emu/emu_abi.h"
#include "device/emu/runtime/version.h"

#define assert_cuda(expected, call) assert_string_equal(cudaGetErrorName(expected), cudaGetErrorName(call))
#define assert_ok(call)             assert_cuda(cudaSuccess, call)

/* An entry of the driver that the runtime uses, the same one. */
static void *driver_entry(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    void *entry = dlsym(library, name);
    assert_non_null(entry);
    return entry;
}

static uint64_t idle_kernels(void) {
    CUresult (*counts)(struct weir_emu_counts *);
    void *entry = driver_entry("weirEmuCounts");
    memcpy(&counts, &entry, sizeof entry);
    struct weir_emu_counts now = {.size = sizeof now};
    assert_int_equal(counts(&now), CUDA_SUCCESS);
    return now.idle_kernels;
}

/* A gate that holds a stream until the test opens it. */
static void shut(cudaStream_t stream, struct weir_emu_gate **gate) {
    CUresult (*create)(struct weir_emu_gate **, unsigned);
    CUresult (*hold)(struct weir_emu_gate *, CUstream);
    void *entry = driver_entry("weirEmuGateCreate");
    memcpy(&create, &entry, sizeof entry);
    entry = driver_entry("weirEmuGateHold");
    memcpy(&hold, &entry, sizeof entry);
    assert_int_equal(create(gate, WEIR_EMU_GATE_PLAIN), CUDA_SUCCESS);
    assert_int_equal(hold(*gate, stream), CUDA_SUCCESS);
}

static void open_gate(struct weir_emu_gate *gate) {
    CUresult (*open)(struct weir_emu_gate *, uint64_t);
    CUresult (*destroy)(struct weir_emu_gate *);
    void *entry = driver_entry("weirEmuGateOpen");
    memcpy(&open, &entry, sizeof entry);
    entry = driver_entry("weirEmuGateDestroy");
    memcpy(&destroy, &entry, sizeof entry);
    assert_int_equal(open(gate, 0), CUDA_SUCCESS);
    assert_int_equal(destroy(gate), CUDA_SUCCESS);
}

static void in_another_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Each test begins on device 0 without a last error. */
static int begin(void **state) {
    (void)state;
    (void)cudaGetLastError();
    return cudaSetDevice(0) == cudaSuccess ? 0 : -1;
}

/* ---- last errors ------------------------------------------------------------------------------------------------ */

static void a_failure_stays_the_last_error_until_it_is_asked_for(void **state) {
    (void)state;
    void *memory;
    assert_cuda(cudaErrorMemoryAllocation, cudaMalloc(&memory, SIZE_MAX / 2));
    assert_ok(cudaMalloc(&memory, 64)); /* a success does not take it away */
    assert_cuda(cudaErrorMemoryAllocation, cudaPeekAtLastError());
    assert_cuda(cudaErrorMemoryAllocation, cudaGetLastError());
    assert_ok(cudaGetLastError());
    assert_ok(cudaFree(memory));
}

static void a_later_failure_takes_the_place_of_an_earlier_one(void **state) {
    (void)state;
    assert_cuda(cudaErrorInvalidDevice, cudaSetDevice(77));
    assert_cuda(cudaErrorInvalidValue, cudaMalloc(NULL, 1));
    assert_cuda(cudaErrorInvalidValue, cudaGetLastError());
}

static void *see_no_error(void *seen) {
    *(cudaError_t *)seen = cudaPeekAtLastError();
    return NULL;
}

static void last_errors_are_a_threads_own(void **state) {
    (void)state;
    cudaError_t seen = cudaErrorUnknown;
    assert_cuda(cudaErrorInvalidDevice, cudaSetDevice(-1));
    in_another_thread(see_no_error, &seen);
    assert_ok(seen);
    assert_cuda(cudaErrorInvalidDevice, cudaGetLastError());
}

static void not_ready_is_an_answer_and_no_last_error(void **state) {
    (void)state;
    cudaStream_t stream;
    cudaEvent_t event;
    struct weir_emu_gate *gate;
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_ok(cudaEventCreate(&event));
    shut(stream, &gate);
    assert_ok(cudaEventRecord(event, stream));
    const cudaError_t of_stream = cudaStreamQuery(stream), of_event = cudaEventQuery(event);
    const cudaError_t last = cudaPeekAtLastError();
    open_gate(gate); /* before anything fails, which would leave it shut */
    assert_cuda(cudaErrorNotReady, of_stream);
    assert_cuda(cudaErrorNotReady, of_event);
    assert_ok(last);
    assert_ok(cudaStreamSynchronize(stream));
    assert_ok(cudaEventQuery(event));
    assert_ok(cudaEventDestroy(event));
    assert_ok(cudaStreamDestroy(stream));
}

static void every_code_has_its_name_and_a_text(void **state) {
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaErrorStreamCaptureImplicit), "cudaErrorStreamCaptureImplicit");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
}

static void what_is_not_supported_says_so(void **state) {
    (void)state;
    cudaError_t (*make_array)(void **, const struct cudaChannelFormatDesc *, size_t, size_t, unsigned);
    void *entry = dlsym(RTLD_DEFAULT, "cudaMallocArray"), *array = NULL;
    assert_non_null(entry);
    memcpy(&make_array, &entry, sizeof entry);
    const struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    assert_cuda(cudaErrorNotSupported, make_array(&array, &format, 8, 8, 0));
    assert_cuda(cudaErrorNotSupported, cudaGetLastError());
    const void *table = &format;
    assert_cuda(cudaErrorNotSupported, cudaGetExportTable(&table, NULL));
    assert_null(table);
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

static void *choose_the_second(void *device) {
    int before = -1;
    assert_ok(cudaGetDevice(&before));
    assert_int_equal(before, 0); /* not the other thread's */
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaGetDevice(device));
    return NULL;
}

static void a_device_is_chosen_a_thread(void **state) {
    (void)state;
    int there = -1, here = -1;
    in_another_thread(choose_the_second, &there);
    assert_int_equal(there, 1);
    assert_ok(cudaGetDevice(&here));
    assert_int_equal(here, 0);
}

static void memory_lies_on_the_threads_device(void **state) {
    (void)state;
    for (int device = 1; device >= 0; device--) {
        struct cudaPointerAttributes attributes;
        void *memory;
        assert_ok(cudaSetDevice(device));
        assert_ok(cudaMalloc(&memory, 64));
        assert_ok(cudaPointerGetAttributes(&attributes, (char *)memory + 8));
        assert_int_equal(attributes.type, cudaMemoryTypeDevice);
        assert_int_equal(attributes.device, device);
        assert_ptr_equal(attributes.devicePointer, (char *)memory + 8);
        assert_ok(cudaFree(memory));
    }
}

static void a_context_of_the_programs_own_is_used(void **state) {
    (void)state;
    CUresult (*retain)(CUcontext *, CUdevice), (*set)(CUcontext);
    void *entry = driver_entry("cuDevicePrimaryCtxRetain");
    memcpy(&retain, &entry, sizeof entry);
    entry = driver_entry("cuCtxSetCurrent");
    memcpy(&set, &entry, sizeof entry);
    CUcontext second;
    int device = -1;
    assert_int_equal(retain(&second, 1), CUDA_SUCCESS);
    assert_int_equal(set(second), CUDA_SUCCESS); /* behind the runtime's back */
    assert_ok(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
}

static void a_device_that_was_reset_starts_anew(void **state) {
    (void)state;
    size_t before, left, total;
    void *memory;
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaMemGetInfo(&before, &total));
    assert_ok(cudaMalloc(&memory, 1 << 16));
    assert_ok(cudaDeviceReset());
    assert_ok(cudaMemGetInfo(&left, &total));
    assert_int_equal(left, before);
    assert_ok(cudaMalloc(&memory, 1 << 16));
    assert_ok(cudaMemset(memory, 1, 1 << 16));
    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaFree(memory));
}

static void peers_are_enabled_once(void **state) {
    (void)state;
    int can = -1;
    assert_ok(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_cuda(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(5, 0));
    assert_ok(cudaDeviceEnablePeerAccess(1, 0));
    assert_cuda(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
    assert_ok(cudaDeviceDisablePeerAccess(1));
    assert_cuda(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
}

/* ---- memory and copies ------------------------------------------------------------------------------------------ */

static void no_bytes_are_given_as_null(void **state) {
    (void)state;
    void *memory = state;
    assert_ok(cudaMalloc(&memory, 0));
    assert_null(memory);
    memory = state;
    assert_ok(cudaMallocHost(&memory, 0));
    assert_null(memory);
    assert_ok(cudaFree(NULL));
    assert_ok(cudaFreeHost(NULL));
}

static void an_address_is_told_for_what_it_is(void **state) {
    (void)state;
    struct cudaPointerAttributes attributes;
    void *pinned, *managed;
    int local = 0;
    assert_ok(cudaMallocHost(&pinned, 64));
    assert_ok(cudaPointerGetAttributes(&attributes, pinned));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    assert_ptr_equal(attributes.hostPointer, pinned);
    assert_ok(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
    assert_ok(cudaPointerGetAttributes(&attributes, managed));
    assert_int_equal(attributes.type, cudaMemoryTypeManaged);
    assert_ok(cudaPointerGetAttributes(&attributes, &local));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    assert_int_equal(attributes.device, cudaInvalidDeviceId);
    assert_ptr_equal(attributes.hostPointer, &local);
    assert_ok(cudaFree(managed));
    assert_ok(cudaFreeHost(pinned));
}

static void a_copys_kind_must_fit_its_addresses(void **state) {
    (void)state;
    char here[64] = "text", there[64] = "";
    void *memory;
    assert_ok(cudaMalloc(&memory, sizeof here));
    assert_cuda(cudaErrorInvalidMemcpyDirection, cudaMemcpy(memory, here, sizeof here, (enum cudaMemcpyKind)7));
    assert_cuda(cudaErrorInvalidValue, cudaMemcpy(there, here, sizeof here, cudaMemcpyHostToDevice));
    assert_cuda(cudaErrorInvalidValue, cudaMemcpy(there, here, sizeof here, cudaMemcpyDeviceToHost));
    assert_ok(cudaMemcpy(memory, here, sizeof here, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy(there, memory, sizeof here, cudaMemcpyDefault));
    assert_string_equal(there, "text");
    assert_ok(cudaFree(memory));
}

static void a_pitch_below_the_width_is_refused(void **state) {
    (void)state;
    char rows[64] = "";
    void *memory;
    size_t pitch;
    assert_ok(cudaMallocPitch(&memory, &pitch, 8, 8));
    assert_cuda(cudaErrorInvalidPitchValue, cudaMemcpy2D(memory, pitch, rows, 4, 8, 8, cudaMemcpyHostToDevice));
    assert_cuda(cudaErrorInvalidPitchValue, cudaMemset2D(memory, 4, 1, 8, 8));
    assert_ok(cudaMemcpy2D(memory, pitch, rows, 8, 8, 8, cudaMemcpyHostToDevice));
    assert_ok(cudaFree(memory));
}

static void boxes_are_copied_and_set_slice_by_slice(void **state) {
    (void)state;
    enum { W = 8, H = 4, D = 3 };
    unsigned char from[D][H][W], back[D][H][W];
    for (size_t i = 0; i < sizeof from; i++) ((unsigned char *)from)[i] = (unsigned char)i;
    memset(back, 0xFF, sizeof back);
    const struct cudaExtent whole = {.width = W, .height = H, .depth = D}, part = {.width = 2, .height = 2, .depth = 2};
    struct cudaPitchedPtr box;
    assert_ok(cudaMalloc3D(&box, whole));
    struct cudaMemcpy3DParms copy = {.srcPtr = {.ptr = from, .pitch = W, .xsize = W, .ysize = H},
                                     .dstPtr = box,
                                     .extent = whole,
                                     .kind = cudaMemcpyHostToDevice};
    assert_ok(cudaMemcpy3D(&copy));
    assert_ok(cudaMemset3D(box, 0xEE, part));
    copy = (struct cudaMemcpy3DParms){.srcPtr = box,
                                      .srcPos = {.x = 1, .y = 1, .z = 1},
                                      .dstPtr = {.ptr = back, .pitch = W, .xsize = W, .ysize = H},
                                      .extent = part,
                                      .kind = cudaMemcpyDeviceToHost};
    assert_ok(cudaMemcpy3D(&copy));
    assert_int_equal(back[0][0][0], 0xEE);          /* what was set */
    assert_int_equal(back[0][1][1], from[1][2][2]); /* what was not */
    assert_int_equal(back[1][0][0], from[2][1][1]);
    assert_int_equal(back[0][0][2], 0xFF);
    assert_ok(cudaFree(box.ptr));
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static void *wait_for_own_stream(void *code) {
    *(cudaError_t *)code = cudaStreamSynchronize_ptsz(NULL);
    return NULL;
}

static void the_per_thread_default_stream_is_a_threads_own(void **state) {
    (void)state;
    struct weir_emu_gate *gate;
    cudaError_t waited = cudaErrorUnknown;
    shut(cudaStreamPerThread, &gate);
    const cudaError_t before = cudaStreamQuery_ptsz(NULL);
    in_another_thread(wait_for_own_stream, &waited); /* returns, although this thread's is held */
    const cudaError_t after = cudaStreamQuery_ptsz(NULL);
    open_gate(gate);
    assert_cuda(cudaErrorNotReady, before);
    assert_ok(waited);
    assert_cuda(cudaErrorNotReady, after);
    assert_ok(cudaStreamSynchronize_ptsz(NULL));
}

static void the_default_streams_cant_be_destroyed(void **state) {
    (void)state;
    assert_cuda(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
    assert_cuda(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamPerThread));
    assert_cuda(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamLegacy));
}

static void call_the_runtime(void *code) {
    void *memory;
    *(cudaError_t *)code = cudaMalloc(&memory, 64);
}

static void host_functions_may_not_call_the_runtime(void **state) {
    (void)state;
    cudaError_t seen = cudaSuccess;
    assert_ok(cudaLaunchHostFunc(cudaStreamPerThread, call_the_runtime, &seen));
    assert_ok(cudaStreamSynchronize(cudaStreamPerThread));
    assert_cuda(cudaErrorNotPermitted, seen);
}

/* ---- kernels and variables, registered as nvcc's objects do ------------------------------------------------------ */

static char image[16], stub, other_stub;
static int shadow;

static void kernels_are_ordered_and_counted_and_do_nothing(void **state) {
    (void)state;
    cudaStream_t stream;
    struct weir_emu_gate *gate;
    cudaKernel_t kernel = NULL;
    const dim3 grid = {2, 1, 1}, block = {32, 1, 1};
    void **module = __cudaRegisterFatBinary(image);
    __cudaRegisterFunction(module, &stub, NULL, "a_kernel", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(module);
    assert_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const uint64_t before = idle_kernels();
    shut(stream, &gate);
    const cudaError_t by_stub = cudaLaunchKernel(&stub, grid, block, NULL, 0, stream);
    const cudaError_t found = __cudaGetKernel(&kernel, &stub);
    const cudaError_t by_handle = __cudaLaunchKernel(kernel, grid, block, NULL, 0, stream);
    const cudaError_t queried = cudaStreamQuery(stream);
    open_gate(gate);
    assert_ok(by_stub);
    assert_ok(found);
    assert_ok(by_handle);
    assert_cuda(cudaErrorNotReady, queried);
    assert_ok(cudaStreamSynchronize(stream));
    assert_int_equal(idle_kernels(), before + 2);
    assert_cuda(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&other_stub, grid, block, NULL, 0, stream));
    assert_cuda(cudaErrorInvalidConfiguration, cudaLaunchKernel(&stub, grid, (dim3){33, 32, 1}, NULL, 0, stream));
    __cudaUnregisterFatBinary(module);
    assert_cuda(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&stub, grid, block, NULL, 0, stream));
    assert_ok(cudaStreamDestroy(stream));
}

static void a_pushed_configuration_is_popped_once(void **state) {
    (void)state;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    assert_cuda(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&grid, &block, &shared, (void *)&stream));
    assert_int_equal(__cudaPushCallConfiguration((dim3){1, 2, 3}, (dim3){4, 5, 6}, 7, cudaStreamLegacy), 0);
    assert_int_equal(__cudaPushCallConfiguration((dim3){9, 9, 9}, (dim3){9, 9, 9}, 9, NULL), 0);
    assert_ok(__cudaPopCallConfiguration(&grid, &block, &shared, (void *)&stream));
    assert_int_equal(grid.x, 9);
    assert_ok(__cudaPopCallConfiguration(&grid, &block, &shared, (void *)&stream));
    assert_int_equal(grid.z, 3);
    assert_int_equal(block.y, 5);
    assert_int_equal(shared, 7);
    assert_ptr_equal(stream, cudaStreamLegacy);
    assert_cuda(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&grid, &block, &shared, (void *)&stream));
}

static void a_variable_has_zeroed_memory_of_its_size_a_device(void **state) {
    (void)state;
    void *first = NULL, *second = NULL, *again = NULL;
    int value = 5, back = -1;
    void **module = __cudaRegisterFatBinary(image);
    __cudaRegisterVar(module, (char *)&shadow, NULL, "shadow", 0, sizeof shadow, 0, 0);
    __cudaRegisterFatBinaryEnd(module);
    assert_ok(cudaMemcpyFromSymbol(&back, &shadow, sizeof back, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(back, 0);
    assert_ok(cudaMemcpyToSymbol(&shadow, &value, sizeof value, 0, cudaMemcpyHostToDevice));
    assert_cuda(cudaErrorInvalidValue, cudaMemcpyToSymbol(&shadow, &value, sizeof value, 1, cudaMemcpyHostToDevice));
    assert_ok(cudaGetSymbolAddress(&first, &shadow));
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaGetSymbolAddress(&second, &shadow));
    assert_ptr_not_equal(first, second);
    assert_ok(cudaMemcpyFromSymbol(&back, &shadow, sizeof back, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(back, 0); /* set on the other device only */
    assert_ok(cudaDeviceReset());
    assert_ok(cudaGetSymbolAddress(&again, &shadow));
    assert_ok(cudaMemset(again, 1, sizeof shadow));
    assert_cuda(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&again, &stub));
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaMemcpyFromSymbol(&back, &shadow, sizeof back, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(back, 5);
    __cudaUnregisterFatBinary(module);
    assert_cuda(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&again, &shadow));
}

struct found {
    pthread_t thread;
    void *address;
    cudaKernel_t kernel;
    cudaError_t of_address, of_kernel;
};

static void *find_both(void *argument) {
    struct found *found = argument;
    found->of_address = cudaGetSymbolAddress(&found->address, &shadow);
    found->of_kernel = __cudaGetKernel(&found->kernel, &stub);
    return NULL;
}

static void threads_that_come_at_once_find_one_variable(void **state) {
    (void)state;
    enum { THREADS = 8 };
    struct found found[THREADS];
    void **module = __cudaRegisterFatBinary(image);
    __cudaRegisterVar(module, (char *)&shadow, NULL, "shadow", 0, sizeof shadow, 0, 0);
    __cudaRegisterFunction(module, &stub, NULL, "a_kernel", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(module);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&found[i].thread, NULL, find_both, &found[i]), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(found[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_ok(found[i].of_address);
        assert_ok(found[i].of_kernel);
        assert_ptr_equal(found[i].address, found[0].address);
        assert_non_null(found[i].kernel);
    }
    __cudaUnregisterFatBinary(module);
}

static void *init_module(void *module) {
    assert_int_equal(__cudaInitModule(module), 1);
    return NULL;
}

static void managed_variables_are_the_hosts_too(void **state) {
    (void)state;
    int *managed = NULL, back = -1;
    void **module = __cudaRegisterFatBinary(image), *address = NULL;
    __cudaRegisterManagedVar(module, (void **)&managed, NULL, "managed", 0, sizeof *managed, 0, 0);
    __cudaRegisterFatBinaryEnd(module);
    in_another_thread(init_module, module);
    init_module(module); /* changes nothing */
    assert_non_null(managed);
    assert_int_equal(*managed, 0);
    *managed = 4;
    assert_ok(cudaMemcpyFromSymbol(&back, managed, sizeof back, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(back, 4);
    assert_ok(cudaGetSymbolAddress(&address, managed));
    assert_ptr_equal(address, managed);
    __cudaUnregisterFatBinary(module);
}

static void the_drivers_entries_are_found_by_version(void **state) {
    (void)state;
    void *entry = NULL, *older = NULL;
    enum cudaDriverEntryPointQueryResult status;
    assert_ok(cudaGetDriverEntryPointByVersion("cuMemAlloc", &entry, 12000, 0, &status));
    assert_int_equal(status, cudaDriverEntryPointSuccess);
    assert_ptr_equal(entry, driver_entry("cuMemAlloc_v2"));
    assert_ok(cudaGetDriverEntryPointByVersion("cuMemAlloc", &older, 2000, 0, &status));
    assert_ptr_equal(older, driver_entry("cuMemAlloc"));
    assert_ok(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &entry, 12000, 0, &status));
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    assert_null(entry);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup(function, begin)
    const struct CMUnitTest tests[] = {
        TEST(a_failure_stays_the_last_error_until_it_is_asked_for),
        TEST(a_later_failure_takes_the_place_of_an_earlier_one),
        TEST(last_errors_are_a_threads_own),
        TEST(not_ready_is_an_answer_and_no_last_error),
        TEST(every_code_has_its_name_and_a_text),
        TEST(what_is_not_supported_says_so),
        TEST(a_device_is_chosen_a_thread),
        TEST(memory_lies_on_the_threads_device),
        TEST(a_context_of_the_programs_own_is_used),
        TEST(a_device_that_was_reset_starts_anew),
        TEST(peers_are_enabled_once),
        TEST(no_bytes_are_given_as_null),
        TEST(an_address_is_told_for_what_it_is),
        TEST(a_copys_kind_must_fit_its_addresses),
        TEST(a_pitch_below_the_width_is_refused),
        TEST(boxes_are_copied_and_set_slice_by_slice),
        TEST(the_per_thread_default_stream_is_a_threads_own),
        TEST(the_default_streams_cant_be_destroyed),
        TEST(host_functions_may_not_call_the_runtime),
        TEST(kernels_are_ordered_and_counted_and_do_nothing),
        TEST(a_pushed_configuration_is_popped_once),
        TEST(a_variable_has_zeroed_memory_of_its_size_a_device),
        TEST(threads_that_come_at_once_find_one_variable),
        TEST(managed_variables_are_the_hosts_too),
        TEST(the_drivers_entries_are_found_by_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
