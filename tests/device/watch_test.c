/* SPDX-License-Identifier: Apache-2.0 */
/* The watch finds accesses that nothing orders, whatever the timing was, and says nothing where there is order. */
#include "tests/device/watch_scene.h"

/* ---- between streams -------------------------------------------------------------------------------------------- */

SCENE(two_writes_on_two_streams_race_unless_one_waits_for_the_other) {
    scene_write(scene, scene->a, "one");
    scene_write(scene, scene->b, "two");
    expect_race(scene, "one", "two");
    scene_follow(scene, scene->c, scene->b);
    scene_write(scene, scene->c, "three");
    expect_clean(scene);
}

SCENE(a_read_races_with_a_write_before_it_that_it_does_not_wait_for) {
    scene_write(scene, scene->a, "writer");
    scene_read(scene, scene->b, "reader");
    expect_race(scene, "writer", "reader");
    scene_follow(scene, scene->c, scene->a);
    scene_read(scene, scene->c, "good reader");
    expect_clean(scene);
}

SCENE(a_write_races_with_each_read_before_it_that_it_does_not_wait_for) {
    scene_read(scene, scene->a, "reader");
    scene_read(scene, scene->b, "other reader");
    expect_clean(scene);
    scene_follow(scene, scene->c, scene->a);
    scene_write(scene, scene->c, "writer");
    expect_race(scene, "other reader", "writer");
    scene_follow(scene, scene->c, scene->a);
    scene_follow(scene, scene->c, scene->b);
    scene_write(scene, scene->c, "writer again");
    expect_clean(scene);
}

SCENE(an_event_that_is_recorded_before_the_write_does_not_cover_it) {
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, scene->a));
    scene_write(scene, scene->a, "writer");
    assert_code(CUDA_SUCCESS, scene->driver->stream_wait(scene->b, scene->event, 0));
    scene_read(scene, scene->b, "reader");
    expect_race(scene, "writer", "reader");
}

SCENE(an_event_that_was_never_recorded_orders_nothing) {
    scene_write(scene, scene->a, "writer");
    assert_code(CUDA_SUCCESS, scene->driver->stream_wait(scene->b, scene->event, 0));
    scene_read(scene, scene->b, "reader");
    expect_race(scene, "writer", "reader");
}

SCENE(a_wait_is_for_the_latest_record_before_it) {
    scene_write(scene, scene->a, "first");
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, scene->a));
    assert_code(CUDA_SUCCESS, scene->driver->stream_wait(scene->b, scene->event, 0));
    scene_write(scene, scene->a, "second");
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, scene->a));
    scene_read(scene, scene->b, "too early");
    expect_race(scene, "second", "too early");
    assert_code(CUDA_SUCCESS, scene->driver->stream_wait(scene->b, scene->event, 0));
    scene_read(scene, scene->b, "reader");
    expect_clean(scene);
}

SCENE(order_goes_through_a_third_stream) {
    scene_write(scene, scene->a, "writer");
    scene_follow(scene, scene->b, scene->a);
    scene_follow(scene, scene->c, scene->b);
    scene_write(scene, scene->c, "writer behind");
    expect_clean(scene);
    scene_read(scene, scene->a, "reader");
    expect_race(scene, "writer behind", "reader");
}

SCENE(waiting_for_a_stream_is_not_being_waited_for) {
    scene_follow(scene, scene->a, scene->b);
    scene_write(scene, scene->a, "writer");
    scene_read(scene, scene->b, "reader");
    expect_race(scene, "writer", "reader");
}

static CUstream blocking_stream(struct scene *scene) {
    CUstream stream;
    assert_code(CUDA_SUCCESS, scene->driver->stream_create(&stream, CU_STREAM_DEFAULT));
    if (scene->gate != NULL) assert_code(CUDA_SUCCESS, scene->driver->emu_gate_hold(scene->gate, stream));
    return stream;
}

SCENE(the_legacy_stream_is_ordered_with_blocking_streams_and_with_no_others) {
    CUstream one = blocking_stream(scene), other = blocking_stream(scene);
    scene_write(scene, one, "blocking");
    scene_write(scene, NULL, "legacy");
    scene_write(scene, other, "other blocking");
    expect_clean(scene);
    scene_read(scene, scene->a, "non-blocking");
    expect_race(scene, "other blocking", "non-blocking");
    scene_write(scene, NULL, "legacy again");
    expect_race(scene, "non-blocking", "legacy again");
    assert_code(CUDA_SUCCESS, scene->driver->stream_destroy(one));
    assert_code(CUDA_SUCCESS, scene->driver->stream_destroy(other));
}

SCENE(two_blocking_streams_are_not_ordered_by_being_blocking) {
    CUstream one = blocking_stream(scene), other = blocking_stream(scene);
    scene_write(scene, one, "blocking");
    scene_write(scene, other, "other blocking");
    expect_race(scene, "blocking", "other blocking");
    assert_code(CUDA_SUCCESS, scene->driver->stream_destroy(one));
    assert_code(CUDA_SUCCESS, scene->driver->stream_destroy(other));
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

SCENE(what_the_host_waited_for_comes_before_all_that_is_queued_later) {
    const struct weir__driver *driver = scene->driver;
    scene_write(scene, scene->a, "one");
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(scene->a));
    scene_write(scene, scene->b, "two");
    assert_code(CUDA_SUCCESS, driver->event_record(scene->event, scene->b));
    assert_code(CUDA_SUCCESS, driver->event_synchronize(scene->event));
    scene_write(scene, scene->c, "three");
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    scene_write(scene, scene->a, "four");
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(scene->a));
    assert_code(CUDA_SUCCESS, driver->event_record(scene->event, scene->a));
    while (driver->event_query(scene->event) != CUDA_SUCCESS) sched_yield();
    scene_write(scene, scene->b, "five");
    while (driver->stream_query(scene->b) != CUDA_SUCCESS) sched_yield();
    scene_write(scene, scene->c, "six");
    expect_clean(scene);
}

SCENE(waiting_for_one_stream_says_nothing_of_another) {
    scene_write(scene, scene->a, "one");
    scene_write(scene, scene->b, "mark");
    expect_race(scene, "one", "mark");
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->a));
    scene_write(scene, scene->c, "two");
    expect_race(scene, "mark", "two");
}

SCENE(an_event_synchronised_covers_what_was_queued_before_its_record_alone) {
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, scene->a));
    scene_write(scene, scene->a, "after the record");
    assert_code(CUDA_SUCCESS, scene->driver->event_synchronize(scene->event));
    scene_read(scene, scene->b, "reader");
    expect_race(scene, "after the record", "reader");
}

static void host(struct scene *scene, bool write) {
    assert_code(CUDA_SUCCESS,
                scene->driver->emu_host_access((const void *)(uintptr_t)scene->block, SCENE_BYTES, write));
}

SCENE(the_host_may_read_and_write_what_it_has_waited_for) {
    scene_read(scene, scene->a, "reader");
    host(scene, false);
    expect_clean(scene);
    host(scene, true);
    expect_race(scene, "reader", "the host");
    scene_write(scene, scene->a, "writer");
    host(scene, false);
    expect_race(scene, "writer", "the host");
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->a));
    host(scene, false);
    host(scene, true);
    scene_read(scene, scene->b, "reader of what the host wrote");
    expect_clean(scene);
}

SCENE(pinned_memory_is_watched_like_the_devices) {
    const struct weir__driver *driver = scene->driver;
    void *pinned;
    assert_code(CUDA_SUCCESS, driver->host_alloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
    assert_code(CUDA_SUCCESS, driver->copy((CUdeviceptr)(uintptr_t)pinned, scene->block, 4096, scene->a));
    assert_code(CUDA_SUCCESS, driver->emu_host_access(pinned, 4096, false));
    const struct weir_emu_report report = expect_report(scene, WEIR_EMU_RACE, "copy", "the host");
    assert_int_equal(report.device, -1);
    assert_ptr_equal(report.address, pinned);
    assert_int_equal(report.second_stream, UINT64_MAX);
    assert_code(CUDA_SUCCESS, driver->copy(scene->block, (CUdeviceptr)(uintptr_t)pinned, 4096, scene->b));
    assert_int_equal(scene_reports(scene), 1); /* of the pinned bytes and the block's, both by the copy on a */
    assert_code(CUDA_SUCCESS, driver->emu_watch_clear());
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->emu_host_access(pinned, 4096, true));
    assert_code(CUDA_SUCCESS, driver->copy(scene->block, (CUdeviceptr)(uintptr_t)pinned, 4096, scene->b));
    assert_code(CUDA_SUCCESS, driver->host_free(pinned)); /* waits */
    expect_clean(scene);
}

SCENE(registered_memory_must_not_be_unregistered_under_a_copy) {
    const struct weir__driver *driver = scene->driver;
    for (int wait = 0; wait < 2; wait++) {
        void *memory = aligned_alloc(4096, 4096);
        assert_non_null(memory);
        assert_code(CUDA_SUCCESS, driver->host_register(memory, 4096, CU_MEMHOSTREGISTER_PORTABLE));
        assert_code(CUDA_SUCCESS, driver->copy((CUdeviceptr)(uintptr_t)memory, scene->block, 4096, scene->a));
        if (wait) assert_code(CUDA_SUCCESS, driver->stream_synchronize(scene->a));
        assert_code(CUDA_SUCCESS, driver->host_unregister(memory));
        if (!wait) expect_race(scene, "copy", "cuMemHostUnregister by the host");
        expect_clean(scene);
        assert_code(CUDA_SUCCESS, driver->context_synchronize());
        free(memory);
    }
}

SCENE(a_copy_to_pageable_memory_is_over_when_it_returns) {
    char memory[512];
    assert_code(CUDA_SUCCESS,
                scene->driver->copy((CUdeviceptr)(uintptr_t)memory, scene->block, sizeof memory, scene->a));
    assert_code(CUDA_SUCCESS, scene->driver->emu_host_access(memory, sizeof memory, true));
    scene_write(scene, scene->b, "what is written over");
    expect_clean(scene);
}

/* "The DMA transfer to final destination may not have completed." */
SCENE(a_copy_from_pageable_memory_is_over_for_its_source_only) {
    char memory[512] = {0};
    assert_code(CUDA_SUCCESS,
                scene->driver->copy(scene->block, (CUdeviceptr)(uintptr_t)memory, sizeof memory, scene->a));
    assert_code(CUDA_SUCCESS, scene->driver->emu_host_access(memory, sizeof memory, true));
    expect_clean(scene);
    scene_read(scene, scene->b, "too early");
    expect_race(scene, "copy", "too early");
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->a));
    scene_write(scene, scene->b, "in time");
    expect_clean(scene);
}

SCENE(a_stream_made_later_is_not_ordered_after_a_destroyed_one) {
    const struct weir__driver *driver = scene->driver;
    CUstream first, second;
    assert_code(CUDA_SUCCESS, driver->stream_create(&first, CU_STREAM_NON_BLOCKING));
    scene_write(scene, first, "on the destroyed one");
    assert_code(CUDA_SUCCESS, driver->stream_destroy(first));
    assert_code(CUDA_SUCCESS, driver->stream_create(&second, CU_STREAM_NON_BLOCKING));
    scene_write(scene, second, "on the later one");
    expect_race(scene, "on the destroyed one", "on the later one");
    assert_code(CUDA_SUCCESS, driver->stream_destroy(second));
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->stream_create(&second, CU_STREAM_NON_BLOCKING));
    scene_write(scene, second, "on the last one");
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, driver->stream_destroy(second));
}

/* ---- what is said ----------------------------------------------------------------------------------------------- */

SCENE(the_bytes_at_fault_are_told_exactly) {
    scene_access(scene, scene->a, "writer", scene->block + 1000, 100, true);
    scene_access(scene, scene->b, "reader", scene->block + 1060, 500, false);
    const struct weir_emu_report report = expect_report(scene, WEIR_EMU_RACE, "writer", "reader");
    assert_ptr_equal(report.address, scene->block + 1060);
    assert_int_equal(report.bytes, 40);
    assert_int_equal(report.device, 0);
    scene_access(scene, scene->c, "beside", scene->block + 900, 100, true);
    scene_access(scene, scene->c, "behind", scene->block + 1560, 100, true);
    expect_clean(scene);
}

SCENE(two_culprits_are_reported_once_in_a_sentence_that_names_both) {
    uint64_t a, b;
    for (size_t i = 0; i < 10; i++) scene_access(scene, scene->c, "stripes", scene->block + 2048 * i, 1024, true);
    assert_code(CUDA_SUCCESS, scene->driver->emu_watch_clear());
    scene_follow(scene, scene->a, scene->c);
    scene_write(scene, scene->a, "expert gemm");
    scene_read(scene, scene->b, "exchange");
    assert_code(CUDA_SUCCESS, scene->driver->emu_stream_number(scene->a, &a));
    assert_code(CUDA_SUCCESS, scene->driver->emu_stream_number(scene->b, &b));
    const struct weir_emu_report report = expect_report(scene, WEIR_EMU_RACE, "expert gemm", "exchange");
    assert_int_equal(report.first_stream, a);
    assert_int_equal(report.second_stream, b);
    assert_int_equal(report.bytes, SCENE_BYTES);
    char expected[400];
    snprintf(expected, sizeof expected,
             "race: \"expert gemm\" (stream %llu, position %llu) writes %d bytes at %#llx that \"exchange\" (stream "
             "%llu, position %llu) reads; nothing orders the second after the first",
             (unsigned long long)a, (unsigned long long)report.first_position, (int)SCENE_BYTES,
             (unsigned long long)scene->block, (unsigned long long)b, (unsigned long long)report.second_position);
    assert_string_equal(report.text, expected);
}

SCENE(rows_are_watched_without_what_lies_between) {
    struct weir_emu_access rows[] = {{(const void *)(uintptr_t)scene->block, 64, 1},
                                     {(const void *)(uintptr_t)(scene->block + 128), 64, 1}};
    const struct weir_emu_work work = {.size = sizeof work, .name = "rows", .accesses = rows, .access_count = 2};
    assert_code(CUDA_SUCCESS, scene->driver->emu_submit(&work, scene->a));
    scene_access(scene, scene->b, "between", scene->block + 64, 64, true);
    expect_clean(scene);
    scene_access(scene, scene->b, "across", scene->block, 192, true);
    assert_int_equal(expect_report(scene, WEIR_EMU_RACE, "rows", "across").bytes, 128);
}

SCENE(work_may_read_and_write_the_same_bytes) {
    struct weir_emu_access both[] = {{(const void *)(uintptr_t)scene->block, 64, 1},
                                     {(const void *)(uintptr_t)scene->block, 64, 0}};
    const struct weir_emu_work work = {.size = sizeof work, .name = "in place", .accesses = both, .access_count = 2};
    assert_code(CUDA_SUCCESS, scene->driver->emu_submit(&work, scene->a));
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, scene->driver->emu_submit(&work, scene->b));
    expect_race(scene, "in place", "in place"); /* once, not once as a reader and once as a writer */
}

static void nothing(void *argument) { (void)argument; }

SCENE(work_without_a_description_is_not_watched_and_counted) {
    struct weir_emu_counts before = {.size = sizeof before}, after = before;
    assert_code(CUDA_SUCCESS, scene->driver->emu_counts(&before));
    scene_write(scene, scene->a, "writer");
    assert_code(CUDA_SUCCESS, scene->driver->host_function(scene->b, nothing, NULL));
    const struct weir_emu_work work = {.size = sizeof work, .name = "silent", .function = nothing};
    assert_code(CUDA_SUCCESS, scene->driver->emu_submit(&work, scene->b));
    assert_code(CUDA_SUCCESS, scene->driver->emu_counts(&after));
    assert_int_equal(after.unwatched - before.unwatched, 2);
    expect_clean(scene);
}

SCENE(a_thousand_reports_are_kept_and_all_are_counted) {
    for (int i = 0; i < 550; i++) {
        scene_access(scene, scene->a, "one", scene->block, 8, true);
        scene_access(scene, scene->b, "other", scene->block, 8, true);
        if (i % 100 == 99) assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    }
    assert_true(scene_reports(scene) > 1050);
    scene_report(scene, 999);
    struct weir_emu_report none = {.size = sizeof none};
    assert_code(CUDA_ERROR_NOT_FOUND, scene->driver->emu_watch_report(1000, &none));
    none.size = 1;
    assert_code(CUDA_ERROR_INVALID_VALUE, scene->driver->emu_watch_report(0, &none));
    assert_code(CUDA_SUCCESS, scene->driver->emu_watch_clear());
    expect_clean(scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(two_writes_on_two_streams_race_unless_one_waits_for_the_other),
        device_test(a_read_races_with_a_write_before_it_that_it_does_not_wait_for),
        device_test(a_write_races_with_each_read_before_it_that_it_does_not_wait_for),
        device_test(an_event_that_is_recorded_before_the_write_does_not_cover_it),
        device_test(an_event_that_was_never_recorded_orders_nothing),
        device_test(a_wait_is_for_the_latest_record_before_it),
        device_test(order_goes_through_a_third_stream),
        device_test(waiting_for_a_stream_is_not_being_waited_for),
        device_test(the_legacy_stream_is_ordered_with_blocking_streams_and_with_no_others),
        device_test(two_blocking_streams_are_not_ordered_by_being_blocking),
        device_test(what_the_host_waited_for_comes_before_all_that_is_queued_later),
        device_test(waiting_for_one_stream_says_nothing_of_another),
        device_test(an_event_synchronised_covers_what_was_queued_before_its_record_alone),
        device_test(the_host_may_read_and_write_what_it_has_waited_for),
        device_test(pinned_memory_is_watched_like_the_devices),
        device_test(registered_memory_must_not_be_unregistered_under_a_copy),
        device_test(a_copy_to_pageable_memory_is_over_when_it_returns),
        device_test(a_copy_from_pageable_memory_is_over_for_its_source_only),
        device_test(a_stream_made_later_is_not_ordered_after_a_destroyed_one),
        device_test(the_bytes_at_fault_are_told_exactly),
        device_test(two_culprits_are_reported_once_in_a_sentence_that_names_both),
        device_test(rows_are_watched_without_what_lies_between),
        device_test(work_may_read_and_write_the_same_bytes),
        device_test(work_without_a_description_is_not_watched_and_counted),
        device_test(a_thousand_reports_are_kept_and_all_are_counted),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
