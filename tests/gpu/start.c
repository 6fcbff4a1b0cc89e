/* SPDX-License-Identifier: Apache-2.0 */
/* How a process begins with the driver, ends with it, and forks. */
#include "suite.h"

#define SUBJECT "start"

CASE_BARE(nothing_but_init_works_before_init, "CUDA Driver API, Initialization, cuInit") {
    int count;
    CUdevice device;
    CUdeviceptr block;
    CUstream stream;
    CUcontext context;
    GIVES(cu.DeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    GIVES(cu.DeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
    GIVES(cu.MemAlloc(&block, 256), CUDA_ERROR_NOT_INITIALIZED);
    GIVES(cu.StreamCreate(&stream, 0), CUDA_ERROR_NOT_INITIALIZED);
    GIVES(cu.DevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
}

CASE_BARE(the_version_can_be_asked_before_init, "CUDA Driver API, Version Management, cuDriverGetVersion") {
    int version = 0;
    OK(cu.DriverGetVersion(&version));
    CHECK(version >= 11000);
}

CASE_BARE(init_takes_no_flags,
          "CUDA Driver API, Initialization, cuInit: \"Currently, the Flags parameter must be 0\"") {
    GIVES(cu.Init(1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.Init(0));
}

CASE_BARE(init_may_be_called_again, "CUDA Driver API, Initialization, cuInit") {
    OK(cu.Init(0));
    OK(cu.Init(0));
    CHECK(device_count() > 0);
}

CASE_BARE(no_context_is_current_after_init, "CUDA Driver API, Context Management, cuCtxGetCurrent") {
    CUcontext current = (CUcontext)&current;
    OK(cu.Init(0));
    OK(cu.CtxGetCurrent(&current));
    CHECK(current == NULL);
}

CASE_BARE(calls_that_need_a_context_say_when_there_is_none,
          "CUDA Driver API, Memory Management, Stream Management: CUDA_ERROR_INVALID_CONTEXT") {
    OK(cu.Init(0));
    CUdeviceptr block;
    CUstream stream;
    CUevent event;
    size_t unused, total;
    void *pinned;
    GIVES(cu.MemAlloc(&block, 256), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.StreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.EventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.MemGetInfo(&unused, &total), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.MemHostAlloc(&pinned, 256, 0), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.CtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static void ask_in_child(void) {
    CUdeviceptr block;
    GIVES(cu.Init(0), CUDA_ERROR_NOT_INITIALIZED);
    GIVES(cu.MemAlloc(&block, 256), CUDA_ERROR_NOT_INITIALIZED);
}

CASE_APART(a_forked_process_is_told_that_it_has_no_driver,
           "CUDA Driver API, cuInit: the driver is initialised in the current process; CUDA_ERROR_NOT_INITIALIZED") {
    CHECK_EQUAL(0, in_forked_process(ask_in_child));
}

CASE_APART(the_parent_goes_on_after_a_fork,
           "CUDA Driver API, cuInit: the driver is initialised in the current process") {
    enum { BYTES = 4096 };
    const CUdeviceptr block = new_block(BYTES);
    set(block, 5, BYTES, NULL);
    OK(cu.CtxSynchronize());
    in_forked_process(ask_in_child);
    CHECK(device_all_are(block, BYTES, 5));
    OK(cu.MemFree(block));
}

static void begin_and_work(void) {
    machine_begin();
    const CUdeviceptr block = new_block(4096);
    set(block, 7, 4096, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 4096, 7));
}

CASE_BARE(a_process_forked_before_init_may_use_the_driver,
          "CUDA Driver API, cuInit: must be called first \"in the current process\"") {
    CHECK_EQUAL(0, in_forked_process(begin_and_work));
}

/* ---- exit ------------------------------------------------------------------------------------------------------- */

enum { BYTES = 1 << 16, SETS = 200 };

static void leave_with_work_pending(void) {
    machine_begin();
    const CUdeviceptr block = new_block(BYTES), other_block = new_block(BYTES);
    CUstream busy = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_DEFAULT);
    struct gate *gate = hold(busy);
    let_go_after(gate, 50);
    for (int i = 0; i < SETS; i++) {
        set(block, i & 0x7f, BYTES, busy);
        set(other_block, i & 0x7f, BYTES, other);
    }
    exit(7);
}

CASE_BARE(a_process_with_work_pending_ends_with_its_own_status,
          "CUDA C++ Programming Guide, Initialization; CUDA Driver API, CUDA_ERROR_DEINITIALIZED") {
    CHECK_EQUAL(7, in_forked_process(leave_with_work_pending));
}

static CUstream left_open;
static CUdeviceptr left_allocated;

/* Programs free in their exit handlers, when the driver may be shutting down already. */
static void free_at_exit(void) {
    cu.StreamDestroy(left_open);
    cu.MemFree(left_allocated);
}

static void free_in_an_exit_handler(void) {
    atexit(free_at_exit);
    machine_begin();
    left_open = new_stream(0);
    left_allocated = new_block(BYTES);
    set(left_allocated, 1, BYTES, left_open);
    exit(7);
}

CASE_BARE(
    an_exit_handler_that_frees_does_no_harm,
    "CUDA Driver API, Data types, CUDA_ERROR_DEINITIALIZED: \"the CUDA driver is in the process of shutting down\"") {
    CHECK_EQUAL(7, in_forked_process(free_in_an_exit_handler));
}

static void leave_allocated(void) {
    machine_begin();
    new_block(large_amount());
    CUmemGenericAllocationHandle page = new_page(large_amount());
    CHECK(page != 0);
    exit(7);
}

CASE_BARE(what_a_process_held_is_free_when_it_has_ended,
          "CUDA C++ Programming Guide, Contexts: destroyed with the process") {
    /* The next process can take it all again, as often as it likes. */
    for (int times = 0; times < 3; times++) CHECK_EQUAL(7, in_forked_process(leave_allocated));
}
