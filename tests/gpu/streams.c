/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and host functions. */
#include "suite.h"

#include <stdatomic.h>

#define SUBJECT   "streams"
#define REFERENCE "CUDA Driver API, Stream Management, "

enum { BYTES = 1 << 14 };

CASE(work_of_a_stream_happens_in_order,
     "CUDA C++ Programming Guide, Streams: \"a sequence of commands ... that execute in order\"") {
    unsigned char *seen = new_pinned(BYTES);
    const CUdeviceptr first = new_block(BYTES), second = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set(first, 1, BYTES, stream);
    copy(second, first, BYTES, stream);
    set(first, 2, BYTES, stream);
    copy(as_device(seen), second, BYTES, stream);
    set(second, 3, BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(seen, BYTES, 1));
    CHECK(device_all_are(first, BYTES, 2) && device_all_are(second, BYTES, 3));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(first));
    OK(cu.MemFree(second));
    OK(cu.MemFreeHost(seen));
}

CASE(a_stream_without_work_is_done, REFERENCE "cuStreamQuery") {
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    OK(cu.StreamQuery(stream));
    OK(cu.StreamSynchronize(stream));
    OK(cu.StreamDestroy(stream));
}

CASE(a_stream_with_work_ahead_is_not_ready, REFERENCE "cuStreamQuery: CUDA_ERROR_NOT_READY") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    stays_pending(stream);
    let_go(gate);
    becomes_done(stream);
    OK(cu.StreamDestroy(stream));
}

CASE(synchronize_waits_until_all_is_done, REFERENCE "cuStreamSynchronize") {
    unsigned char *seen = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(block, 8, BYTES, stream);
    copy(as_device(seen), block, BYTES, stream);
    let_go_after(gate, 15);
    OK(cu.StreamSynchronize(stream));
    CHECK(all_are(seen, BYTES, 8));
    OK(cu.StreamQuery(stream));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(seen));
}

CASE(synchronizing_a_context_waits_for_all_its_streams, "CUDA Driver API, Context Management, cuCtxSynchronize") {
    enum { COUNT = 4 };
    unsigned char *seen = new_pinned(BYTES * COUNT);
    const CUdeviceptr block = new_block(BYTES);
    CUstream streams[COUNT];
    set(block, 6, BYTES, NULL);
    OK(cu.CtxSynchronize());
    for (int i = 0; i < COUNT; i++) streams[i] = new_stream(i % 2 == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(streams[COUNT - 1]);
    for (int i = 0; i < COUNT; i++) copy(as_device(seen + i * BYTES), block, BYTES, streams[i]);
    let_go_after(gate, 15);
    OK(cu.CtxSynchronize());
    CHECK(all_are(seen, BYTES * COUNT, 6));
    for (int i = 0; i < COUNT; i++) {
        OK(cu.StreamQuery(streams[i]));
        OK(cu.StreamDestroy(streams[i]));
    }
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(seen));
}

CASE(streams_do_not_wait_for_one_another, "CUDA C++ Programming Guide, Streams: \"Different streams ... may execute "
                                          "their commands out of order with respect to one another or concurrently\"") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(held);
    set(block, 2, BYTES, other);
    becomes_done(other);
    GIVES(cu.StreamQuery(held), CUDA_ERROR_NOT_READY);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(held));
    OK(cu.StreamDestroy(other));
    OK(cu.MemFree(block));
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

CASE(a_stream_remembers_its_flags, REFERENCE "cuStreamGetFlags") {
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), apart = new_stream(CU_STREAM_NON_BLOCKING);
    unsigned flags = 99;
    OK(cu.StreamGetFlags(blocking, &flags));
    CHECK_EQUAL(CU_STREAM_DEFAULT, flags);
    OK(cu.StreamGetFlags(apart, &flags));
    CHECK_EQUAL(CU_STREAM_NON_BLOCKING, flags);
    OK(cu.StreamDestroy(blocking));
    OK(cu.StreamDestroy(apart));
}

CASE(unknown_stream_flags_are_refused, REFERENCE "cuStreamCreate: CUDA_ERROR_INVALID_VALUE") {
    CUstream stream;
    GIVES(cu.StreamCreate(&stream, 0x80), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_stream_needs_a_place_for_its_handle, REFERENCE "cuStreamCreate: CUDA_ERROR_INVALID_VALUE") {
    GIVES(cu.StreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(open_streams_have_different_handles, REFERENCE "cuStreamCreate") {
    enum { COUNT = 100 };
    CUstream streams[COUNT];
    for (int i = 0; i < COUNT; i++) {
        streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
        for (int j = 0; j < i; j++) CHECK(streams[j] != streams[i]);
    }
    for (int i = 0; i < COUNT; i++) OK(cu.StreamDestroy(streams[i]));
}

CASE(streams_can_be_made_and_destroyed_over_and_over, REFERENCE "cuStreamCreate, cuStreamDestroy") {
    enum { TIMES = 300 };
    const CUdeviceptr block = new_block(256 * TIMES);
    for (int i = 0; i < TIMES; i++) {
        CUstream stream = new_stream(i % 2 == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        set(block + (size_t)i * 256, 5, 256, stream);
        OK(cu.StreamDestroy(stream));
    }
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 256 * TIMES, 5));
    OK(cu.MemFree(block));
}

CASE(many_streams_work_at_once, REFERENCE "cuStreamCreate") {
    enum { COUNT = 64 };
    unsigned char *seen = new_pinned(256 * COUNT);
    const CUdeviceptr block = new_block(256 * COUNT);
    CUstream streams[COUNT];
    for (int i = 0; i < COUNT; i++) {
        streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
        set(block + (size_t)i * 256, i + 1, 256, streams[i]);
        copy(as_device(seen + i * 256), block + (size_t)i * 256, 256, streams[i]);
    }
    OK(cu.CtxSynchronize());
    for (int i = 0; i < COUNT; i++) {
        CHECK(all_are(seen + i * 256, 256, i + 1));
        OK(cu.StreamDestroy(streams[i]));
    }
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(seen));
}

CASE(a_stream_knows_its_context, REFERENCE "cuStreamGetCtx") {
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    CUcontext context = NULL;
    OK(cu.StreamGetCtx(stream, &context));
    CHECK(context == primary);
    context = NULL;
    OK(cu.StreamGetCtx(NULL, &context)); /* "Specifying any of the special handles will return the context current" */
    CHECK(context == primary);
    OK(cu.StreamDestroy(stream));
}

CASE(stream_numbers_are_never_used_twice, REFERENCE "cuStreamGetId: \"The Id is unique for the life of the program\"") {
    enum { COUNT = 50 };
    unsigned long long ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        OK(cu.StreamGetId(stream, &ids[i]));
        OK(cu.StreamDestroy(stream));
        for (int j = 0; j < i; j++) CHECK(ids[j] != ids[i]);
    }
}

/* ---- priorities ------------------------------------------------------------------------------------------------- */

CASE(lower_numbers_are_greater_priorities, "CUDA Driver API, Context Management, cuCtxGetStreamPriorityRange") {
    int least = -99, greatest = 99;
    OK(cu.CtxGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
}

CASE(a_stream_made_without_one_has_priority_0,
     REFERENCE "cuStreamCreateWithPriority: \"'0' represents default priority\"") {
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    int priority = 99;
    OK(cu.StreamGetPriority(stream, &priority));
    CHECK_EQUAL(0, priority);
    OK(cu.StreamDestroy(stream));
}

CASE(a_priority_beyond_the_range_is_cut, REFERENCE "cuStreamCreateWithPriority: \"automatically be clamped\"") {
    int least, greatest, priority = 99;
    CUstream low = NULL, high = NULL;
    OK(cu.CtxGetStreamPriorityRange(&least, &greatest));
    OK(cu.StreamCreateWithPriority(&low, CU_STREAM_NON_BLOCKING, least + 100));
    OK(cu.StreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, greatest - 100));
    OK(cu.StreamGetPriority(low, &priority));
    CHECK_EQUAL(least, priority);
    OK(cu.StreamGetPriority(high, &priority));
    CHECK_EQUAL(greatest, priority);
    OK(cu.StreamDestroy(low));
    OK(cu.StreamDestroy(high));
}

CASE(a_stream_with_a_priority_has_its_flags_too, REFERENCE "cuStreamCreateWithPriority") {
    CUstream stream = NULL;
    unsigned flags = 0;
    OK(cu.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    OK(cu.StreamGetFlags(stream, &flags));
    CHECK_EQUAL(CU_STREAM_NON_BLOCKING, flags);
    OK(cu.StreamDestroy(stream));
}

/* ---- destroy ---------------------------------------------------------------------------------------------------- */

CASE(destroying_a_stream_does_not_wait_and_its_work_goes_on,
     REFERENCE "cuStreamDestroy: \"the function will return immediately and the resources ... will be released "
               "automatically once the device has completed all work\"") {
    unsigned char *seen = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(block, 9, BYTES, stream);
    copy(as_device(seen), block, BYTES, stream);
    OK(cu.StreamDestroy(stream)); /* it would never return if it waited */
    CHECK(all_are(seen, BYTES, 0));
    let_go(gate);
    OK(cu.CtxSynchronize());
    CHECK(all_are(seen, BYTES, 9));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(seen));
}

CASE(a_new_stream_does_not_wait_for_a_destroyed_one, REFERENCE "cuStreamDestroy, cuStreamCreate") {
    const CUdeviceptr block = new_block(BYTES);
    CUstream old = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(old);
    OK(cu.StreamDestroy(old));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    set(block, 1, BYTES, stream);
    becomes_done(stream);
    let_go(gate);
    OK(cu.CtxSynchronize());
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}

/* ---- host functions --------------------------------------------------------------------------------------------- */

CASE(a_host_function_runs_between_the_work_around_it,
     "CUDA Driver API, Execution Control, cuLaunchHostFunc: \"called after currently enqueued work and will block work "
     "added after it\"") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 1; i <= 5; i++) mark(stream, i);
    OK(cu.StreamSynchronize(stream));
    CHECK(marks_are("12345"));
    OK(cu.StreamDestroy(stream));
}

struct look {
    const unsigned char *at;
    size_t count;
    int found;
};

static void look(void *argument) {
    struct look *at = argument;
    at->found = all_are(at->at, at->count, at->at[0]) ? at->at[0] : -1;
}

CASE(a_host_function_sees_what_was_copied_before_it,
     "CUDA Driver API, Execution Control, cuLaunchHostFunc: \"the same effect as synchronizing an event\"") {
    unsigned char *seen = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct look first = {seen, BYTES, 0}, second = {seen, BYTES, 0};
    set(block, 3, BYTES, stream);
    copy(as_device(seen), block, BYTES, stream);
    OK(cu.LaunchHostFunc(stream, look, &first));
    set(block, 4, BYTES, stream);
    copy(as_device(seen), block, BYTES, stream);
    OK(cu.LaunchHostFunc(stream, look, &second));
    OK(cu.StreamSynchronize(stream));
    CHECK_EQUAL(3, first.found);
    CHECK_EQUAL(4, second.found);
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(seen));
}

static void fill_for_the_device(void *argument) { memset(argument, 7, BYTES); }

CASE(a_copy_sees_what_a_host_function_wrote_before_it,
     "CUDA Driver API, Execution Control, cuLaunchHostFunc: \"will block work added after it\"") {
    unsigned char *mine = new_pinned(BYTES);
    const CUdeviceptr block = new_block(BYTES);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cu.LaunchHostFunc(stream, fill_for_the_device, mine));
    copy(block, as_device(mine), BYTES, stream);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, BYTES, 7));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
    OK(cu.MemFreeHost(mine));
}

static void call_the_driver(void *argument) {
    CUstream stream = NULL;
    *(CUresult *)argument = cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

CASE_APART(a_host_function_that_calls_the_driver_is_refused_or_served,
           "CUDA Driver API, Execution Control, cuLaunchHostFunc: \"may result in CUDA_ERROR_NOT_PERMITTED, but this "
           "is not required\"") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult code = CUDA_ERROR_UNKNOWN;
    OK(cu.LaunchHostFunc(stream, call_the_driver, &code));
    OK(cu.StreamSynchronize(stream));
    GIVES(code, CUDA_ERROR_NOT_PERMITTED, CUDA_SUCCESS);
}

struct callback {
    CUstream stream;
    CUresult code;
    int times;
};

static void called_back(CUstream stream, CUresult code, void *argument) {
    struct callback *callback = argument;
    callback->stream = stream;
    callback->code = code;
    callback->times++;
}

CASE(a_callback_is_called_once_with_its_stream_and_success,
     REFERENCE "cuStreamAddCallback: \"the callback will be executed exactly once\"") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct callback callback = {NULL, CUDA_ERROR_UNKNOWN, 0};
    struct gate *gate = hold(stream);
    OK(cu.StreamAddCallback(stream, called_back, &callback, 0));
    stays_pending(stream);
    CHECK_EQUAL(0, callback.times);
    let_go(gate);
    OK(cu.StreamSynchronize(stream));
    CHECK_EQUAL(1, callback.times);
    CHECK_EQUAL(CUDA_SUCCESS, callback.code);
    CHECK(callback.stream == stream);
    OK(cu.StreamDestroy(stream));
}

CASE(a_callback_takes_no_flags, REFERENCE "cuStreamAddCallback: flags \"Reserved for future use, must be 0\"") {
    struct callback callback = {NULL, CUDA_ERROR_UNKNOWN, 0};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    GIVES(cu.StreamAddCallback(stream, called_back, &callback, 4), CUDA_ERROR_INVALID_VALUE);
    OK(cu.StreamSynchronize(stream));
    CHECK_EQUAL(0, callback.times);
    OK(cu.StreamDestroy(stream));
}

struct counter {
    int next, wrong;
};

struct turn {
    struct counter *counter;
    int number;
};

static void take_turn(void *argument) {
    struct turn *turn = argument;
    turn->counter->wrong += turn->counter->next != turn->number;
    turn->counter->next++;
}

/* More than a launch queue of 1,024 holds: the calls may block, and all run in order. */
enum { TURNS = 3000 };

static void queue_turns(CUstream stream, struct counter *counter, unsigned held_ms) {
    static struct turn turns[TURNS];
    struct gate *gate = held_ms > 0 ? hold(stream) : NULL;
    if (gate != NULL) let_go_after(gate, held_ms);
    for (int i = 0; i < TURNS; i++) {
        turns[i] = (struct turn){counter, i};
        OK(cu.LaunchHostFunc(stream, take_turn, &turns[i]));
    }
    OK(cu.StreamSynchronize(stream));
    CHECK_EQUAL(0, counter->wrong);
    CHECK_EQUAL(TURNS, counter->next);
}

CASE(three_thousand_launches_run_in_order, "CUDA C++ Programming Guide, Streams: commands \"execute in order\"") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct counter counter = {0, 0};
    queue_turns(stream, &counter, 0);
    OK(cu.StreamDestroy(stream));
}

CASE(three_thousand_launches_behind_held_work_run_in_order,
     "CUDA C++ Programming Guide, Asynchronous Concurrent Execution: a launch may wait for room, and nothing is lost") {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct counter counter = {0, 0};
    queue_turns(stream, &counter, 30);
    OK(cu.StreamDestroy(stream));
}

CASE(three_thousand_sets_behind_held_work_leave_the_last,
     "CUDA C++ Programming Guide, Asynchronous Concurrent Execution: a launch may wait for room, and nothing is lost") {
    const CUdeviceptr block = new_block(256);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    let_go_after(gate, 30);
    for (int i = 0; i < TURNS; i++) set(block, i % 100, 256, stream);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, 256, (TURNS - 1) % 100));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
}
