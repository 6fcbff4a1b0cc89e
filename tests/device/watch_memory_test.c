/* SPDX-License-Identifier: Apache-2.0 */
/* The watch follows memory through its life: mapped and unmapped, freed, written for the first time, handed out and
 * taken back by pools, at two addresses, from two devices. */
#include "tests/device/watch_scene.h"

#include <dlfcn.h>

/* ---- memory that comes and goes --------------------------------------------------------------------------------- */

static CUmemGenericAllocationHandle new_page(struct scene *scene) {
    CUmemGenericAllocationHandle page;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    assert_code(CUDA_SUCCESS, scene->driver->page_create(&page, SCENE_GRANULE, &properties, 0));
    return page;
}

static void map(struct scene *scene, CUdeviceptr at, CUmemGenericAllocationHandle page) {
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_code(CUDA_SUCCESS, scene->driver->page_map(at, SCENE_GRANULE, 0, page, 0));
    assert_code(CUDA_SUCCESS, scene->driver->page_set_access(at, SCENE_GRANULE, &access, 1));
}

static CUdeviceptr reserve(struct scene *scene, size_t granules) {
    CUdeviceptr at;
    assert_code(CUDA_SUCCESS, scene->driver->address_reserve(&at, granules * SCENE_GRANULE, 0, 0, 0));
    return at;
}

static void unreserve(struct scene *scene, CUdeviceptr at, size_t granules) {
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    assert_code(CUDA_SUCCESS, scene->driver->address_free(at, granules * SCENE_GRANULE));
}

SCENE(a_page_must_not_be_unmapped_under_use) {
    const struct weir__driver *driver = scene->driver;
    const CUmemGenericAllocationHandle page = new_page(scene);
    const CUdeviceptr at = reserve(scene, 1);
    map(scene, at, page);
    scene_access(scene, scene->a, "writer", at, 64, true);
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, SCENE_GRANULE));
    expect_race(scene, "writer", "cuMemUnmap by the host");
    map(scene, at, page);
    scene_follow(scene, scene->b, scene->a);
    scene_access(scene, scene->b, "other writer", at, 64, true);
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(scene->b));
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, SCENE_GRANULE));
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    unreserve(scene, at, 1);
}

SCENE(addresses_without_a_mapping_must_not_be_used) {
    const struct weir__driver *driver = scene->driver;
    const CUmemGenericAllocationHandle page = new_page(scene);
    const CUdeviceptr at = reserve(scene, 2);
    scene_access(scene, scene->a, "not mapped", at, 64, true);
    assert_int_equal(scene_reports(scene), 1);
    assert_int_equal(scene_report(scene, 0).kind, WEIR_EMU_USE_AFTER_FREE);
    assert_string_equal(scene_report(scene, 0).second, "not mapped");
    assert_code(CUDA_SUCCESS, scene->driver->emu_watch_clear());
    map(scene, at, page);
    scene_access(scene, scene->a, "half mapped", at, 2 * SCENE_GRANULE, true);
    assert_int_equal(scene_reports(scene), 1);
    const struct weir_emu_report half = scene_report(scene, 0);
    assert_code(CUDA_SUCCESS, scene->driver->emu_watch_clear());
    assert_ptr_equal(half.address, at + SCENE_GRANULE);
    assert_int_equal(half.bytes, SCENE_GRANULE);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, SCENE_GRANULE));
    expect_clean(scene);
    scene_access(scene, scene->a, "late", at + 128, 64, false);
    const struct weir_emu_report late = expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "cuMemUnmap by the host", "late");
    assert_ptr_equal(late.address, at + 128);
    assert_int_equal(late.bytes, 64);
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    unreserve(scene, at, 2);
    scene_access(scene, scene->a, "later", at + 128, 64, false);
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "cuMemUnmap by the host", "later");
}

SCENE(a_plain_free_waits_and_what_comes_later_is_a_use_after_it) {
    const struct weir__driver *driver = scene->driver;
    CUdeviceptr block;
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&block, SCENE_GRANULE));
    scene_access(scene, scene->a, "writer", block, 64, true);
    assert_code(CUDA_SUCCESS, driver->memory_free(block));
    expect_clean(scene);
    scene_access(scene, scene->a, "late", block, 64, true);
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "cuMemFree by the host", "late");
}

SCENE(what_nobody_has_written_must_not_be_read) {
    const struct weir__driver *driver = scene->driver;
    const CUmemGenericAllocationHandle page = new_page(scene);
    const CUdeviceptr at = reserve(scene, 1);
    map(scene, at, page);
    scene_access(scene, scene->a, "reader", at, SCENE_GRANULE, false);
    const struct weir_emu_report report = expect_report(scene, WEIR_EMU_UNINITIALISED_READ, "nobody", "reader");
    assert_int_equal(report.bytes, SCENE_GRANULE);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, SCENE_GRANULE));
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    const CUmemGenericAllocationHandle again = new_page(scene); /* the same bytes, made anew */
    map(scene, at, again);
    assert_code(CUDA_SUCCESS, driver->set_bytes(at, 0, 100, scene->a));
    assert_code(CUDA_SUCCESS, driver->copy(scene->block, at, 100, scene->a));
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, driver->copy(scene->block, at, 164, scene->a));
    assert_int_equal(expect_report(scene, WEIR_EMU_UNINITIALISED_READ, "nobody", "copy").bytes, 64);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, SCENE_GRANULE));
    assert_code(CUDA_SUCCESS, driver->page_release(again));
    unreserve(scene, at, 1);
}

SCENE(a_page_keeps_what_was_written_when_it_moves) {
    const struct weir__driver *driver = scene->driver;
    const CUmemGenericAllocationHandle page = new_page(scene);
    const CUdeviceptr at = reserve(scene, 2);
    map(scene, at, page);
    assert_code(CUDA_SUCCESS, driver->set_bytes(at, 0, SCENE_GRANULE, scene->a));
    assert_code(CUDA_SUCCESS, driver->stream_synchronize(scene->a));
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, SCENE_GRANULE));
    map(scene, at + SCENE_GRANULE, page);
    scene_access(scene, scene->b, "reader", at + SCENE_GRANULE, SCENE_GRANULE, false);
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->page_unmap(at + SCENE_GRANULE, SCENE_GRANULE));
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    unreserve(scene, at, 2);
}

SCENE(one_page_at_two_addresses_is_the_same_bytes) {
    const struct weir__driver *driver = scene->driver;
    const CUmemGenericAllocationHandle page = new_page(scene);
    const CUdeviceptr at = reserve(scene, 2);
    map(scene, at, page);
    map(scene, at + SCENE_GRANULE, page);
    scene_access(scene, scene->a, "writer", at + 256, 256, true);
    scene_access(scene, scene->b, "reader", at + SCENE_GRANULE + 384, 64, false);
    const struct weir_emu_report report = expect_report(scene, WEIR_EMU_RACE, "writer", "reader");
    assert_ptr_equal(report.address, at + SCENE_GRANULE + 384);
    scene_follow(scene, scene->c, scene->a);
    scene_access(scene, scene->c, "good reader", at + SCENE_GRANULE + 256, 256, false);
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->page_unmap(at, 2 * SCENE_GRANULE));
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    unreserve(scene, at, 2);
}

/* ---- addresses of one page -------------------------------------------------------------------------------------- */

static void unmap(struct scene *scene, CUdeviceptr at) {
    assert_code(CUDA_SUCCESS, scene->driver->page_unmap(at, SCENE_GRANULE));
}

/* A page that is mapped at two addresses. */
struct twice {
    CUmemGenericAllocationHandle page;
    CUdeviceptr one, other;
};

static struct twice map_twice(struct scene *scene) {
    struct twice twice = {.page = new_page(scene), .one = reserve(scene, 2)};
    twice.other = twice.one + SCENE_GRANULE;
    map(scene, twice.one, twice.page);
    map(scene, twice.other, twice.page);
    return twice;
}

/* Needs: nothing is mapped. */
static void end_twice(struct scene *scene, const struct twice *twice) {
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, scene->driver->page_release(twice->page));
    unreserve(scene, twice->one, 2);
}

SCENE(an_unmap_concerns_only_what_came_through_its_addresses) {
    const struct twice twice = map_twice(scene);
    scene_access(scene, scene->a, "writer", twice.one, 64, true);
    unmap(scene, twice.other);
    expect_clean(scene);
    map(scene, twice.other, twice.page);
    scene_follow(scene, scene->b, scene->a);
    scene_access(scene, scene->b, "reader", twice.other, 64, false);
    unmap(scene, twice.one);
    const struct weir_emu_report report = expect_report(scene, WEIR_EMU_RACE, "writer", "cuMemUnmap by the host");
    assert_ptr_equal(report.address, twice.one);
    assert_int_equal(report.bytes, 64);
    assert_int_equal(report.device, 0);
    unmap(scene, twice.other);
    expect_race(scene, "reader", "cuMemUnmap by the host");
    end_twice(scene, &twice);
}

SCENE(a_use_through_one_address_does_not_stand_for_an_earlier_one_through_another) {
    const struct twice twice = map_twice(scene);
    scene_access(scene, scene->a, "writer", twice.one, 64, true);
    scene_follow(scene, scene->b, scene->a);
    scene_access(scene, scene->b, "later writer", twice.other, 64, true);
    unmap(scene, twice.one);
    expect_race(scene, "writer", "cuMemUnmap by the host");
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->b));
    unmap(scene, twice.other);
    end_twice(scene, &twice);
}

SCENE(an_unmap_waits_for_every_stream_that_used_its_addresses) {
    const struct twice twice = map_twice(scene);
    scene_access(scene, scene->a, "writer", twice.one, 64, true);
    scene_follow(scene, scene->b, scene->a);
    scene_follow(scene, scene->c, scene->a);
    scene_access(scene, scene->b, "reader", twice.one, 64, false);
    scene_access(scene, scene->c, "slow reader", twice.one, 64, false);
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->b));
    unmap(scene, twice.one);
    expect_race(scene, "slow reader", "cuMemUnmap by the host");
    unmap(scene, twice.other);
    end_twice(scene, &twice);
}

SCENE(a_page_keeps_its_history_when_one_of_its_addresses_goes) {
    const struct twice twice = map_twice(scene);
    scene_access(scene, scene->a, "writer", twice.one, 64, true);
    unmap(scene, twice.other);
    scene_access(scene, scene->b, "reader", twice.one, 64, false);
    expect_race(scene, "writer", "reader");
    scene_follow(scene, scene->b, scene->a);
    scene_access(scene, scene->b, "good reader", twice.one, 64, false);
    scene_access(scene, scene->b, "late", twice.other, 64, false);
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "cuMemUnmap by the host", "late");
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    unmap(scene, twice.one);
    end_twice(scene, &twice);
}

SCENE(what_is_mapped_at_an_address_was_not_used_through_it_before) {
    const struct twice twice = map_twice(scene);
    const CUmemGenericAllocationHandle another = new_page(scene);
    scene_access(scene, scene->a, "writer", twice.one, 64, true);
    unmap(scene, twice.one);
    expect_race(scene, "writer", "cuMemUnmap by the host");
    map(scene, twice.one, twice.page);
    unmap(scene, twice.one);
    scene_access(scene, scene->a, "late", twice.one, 64, true);
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "cuMemUnmap by the host", "late");
    map(scene, twice.one, another);
    unmap(scene, twice.one);
    unmap(scene, twice.other);
    assert_code(CUDA_SUCCESS, scene->driver->page_release(another));
    end_twice(scene, &twice);
}

SCENE(a_part_of_a_run_is_unmapped_by_itself) {
    const struct twice twice = map_twice(scene);
    const CUdeviceptr run = reserve(scene, 3);
    const CUmemGenericAllocationHandle next = new_page(scene);
    map(scene, run, twice.page);
    map(scene, run + SCENE_GRANULE, next);
    scene_access(scene, scene->a, "writer", run + SCENE_GRANULE - 32, 64, true);
    unmap(scene, twice.one);
    unmap(scene, twice.other);
    expect_clean(scene);
    unmap(scene, run);
    assert_int_equal(expect_report(scene, WEIR_EMU_RACE, "writer", "cuMemUnmap by the host").bytes, 32);
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->a));
    unmap(scene, run + SCENE_GRANULE);
    assert_code(CUDA_SUCCESS, scene->driver->page_release(next));
    unreserve(scene, run, 3);
    end_twice(scene, &twice);
}

SCENE(memory_that_is_made_anew_has_no_history) {
    struct twice twice = map_twice(scene);
    scene_access(scene, scene->a, "writer", twice.one, 64, true);
    unmap(scene, twice.one);
    expect_race(scene, "writer", "cuMemUnmap by the host");
    unmap(scene, twice.other);
    assert_code(CUDA_SUCCESS, scene->driver->page_release(twice.page));
    twice.page = new_page(scene); /* the same bytes */
    map(scene, twice.one, twice.page);
    scene_access(scene, scene->b, "new writer", twice.one, 64, true);
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->b));
    unmap(scene, twice.one);
    end_twice(scene, &twice);
}

/* ---- pools ------------------------------------------------------------------------------------------------------ */

static void hand_out_at(struct scene *scene, CUdeviceptr at, CUstream stream) {
    assert_code(CUDA_SUCCESS, scene->driver->emu_hand_out((const void *)(uintptr_t)at, SCENE_GRANULE, stream));
}

static void take_back_at(struct scene *scene, CUdeviceptr at, CUstream stream) {
    assert_code(CUDA_SUCCESS,
                scene->driver->emu_take_back((const void *)(uintptr_t)at, SCENE_GRANULE, &stream, 1, NULL));
}

static void hand_out(struct scene *scene, CUstream stream) {
    assert_code(CUDA_SUCCESS, scene->driver->emu_hand_out((const void *)(uintptr_t)scene->block, SCENE_BYTES, stream));
}

static void take_back(struct scene *scene, const CUstream *streams, size_t count, CUevent event) {
    assert_code(CUDA_SUCCESS, scene->driver->emu_take_back((const void *)(uintptr_t)scene->block, SCENE_BYTES, streams,
                                                           count, event));
}

/* Something that is not an access, so that the stream's position is not 0. */
static void tick(struct scene *scene, CUstream stream) {
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, stream));
}

SCENE(a_block_is_handed_out_after_its_free_even_if_nobody_used_it) {
    hand_out(scene, scene->a);
    tick(scene, scene->a);
    take_back(scene, &scene->a, 1, NULL);
    hand_out(scene, scene->b);
    expect_race(scene, "free", "hand-out");
    take_back(scene, &scene->b, 1, NULL);
    scene_follow(scene, scene->c, scene->b);
    hand_out(scene, scene->c);
    take_back(scene, &scene->c, 1, NULL);
    hand_out(scene, scene->c);
    expect_clean(scene);
}

SCENE(a_block_for_any_stream_needs_the_host_to_know_that_it_is_unused) {
    hand_out(scene, scene->a);
    scene_write(scene, scene->a, "writer");
    take_back(scene, &scene->a, 1, NULL);
    hand_out(scene, WEIR_EMU_ANY_STREAM);
    expect_race(scene, "free", "hand-out");
    scene_write(scene, scene->b, "other writer");
    take_back(scene, &scene->b, 1, NULL);
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->b));
    hand_out(scene, WEIR_EMU_ANY_STREAM);
    scene_write(scene, scene->c, "anybody");
    expect_clean(scene);
}

SCENE(a_block_is_for_the_stream_that_it_was_handed_to_and_those_that_follow) {
    tick(scene, scene->a);
    hand_out(scene, scene->a);
    scene_write(scene, scene->b, "stranger");
    expect_race(scene, "hand-out", "stranger");
    scene_follow(scene, scene->c, scene->a);
    tick(scene, scene->c);
    take_back(scene, &scene->b, 1, NULL);
    scene_follow(scene, scene->a, scene->b);
    hand_out(scene, scene->a);
    scene_follow(scene, scene->c, scene->a);
    scene_write(scene, scene->c, "friend");
    expect_clean(scene);
}

SCENE(a_free_must_name_every_stream_that_used_the_block) {
    const CUstream both[] = {scene->a, scene->b};
    hand_out(scene, scene->a);
    scene_write(scene, scene->a, "writer");
    scene_follow(scene, scene->b, scene->a);
    scene_read(scene, scene->b, "reader");
    take_back(scene, &scene->a, 1, NULL);
    expect_race(scene, "reader", "free");
    hand_out(scene, scene->a);
    scene_write(scene, scene->a, "writer");
    scene_follow(scene, scene->b, scene->a);
    scene_read(scene, scene->b, "reader");
    take_back(scene, both, 2, NULL);
    expect_clean(scene);
    hand_out(scene, scene->a); /* a is not after what b was named with */
    expect_race(scene, "free", "hand-out");
}

SCENE(a_free_may_name_a_stream_that_follows_the_users) {
    hand_out(scene, scene->a);
    scene_write(scene, scene->a, "writer");
    scene_follow(scene, scene->b, scene->a);
    take_back(scene, &scene->b, 1, NULL);
    hand_out(scene, scene->b);
    expect_clean(scene);
}

SCENE(a_free_may_name_an_event_that_is_recorded_after_the_last_use) {
    hand_out(scene, scene->a);
    scene_write(scene, scene->a, "writer");
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, scene->a));
    take_back(scene, NULL, 0, scene->event);
    expect_clean(scene);
    hand_out(scene, scene->b);
    expect_race(scene, "free", "hand-out");
    scene_write(scene, scene->b, "after the record");
    take_back(scene, NULL, 0, scene->event);
    expect_race(scene, "after the record", "free");
    assert_code(CUDA_SUCCESS, scene->driver->stream_wait(scene->c, scene->event, 0));
    hand_out(scene, scene->c);
    expect_clean(scene);
}

SCENE(a_free_by_an_event_does_not_cover_what_its_stream_does_later) {
    hand_out(scene, scene->a);
    assert_code(CUDA_SUCCESS, scene->driver->event_record(scene->event, scene->a));
    scene_write(scene, scene->a, "after the record");
    take_back(scene, NULL, 0, scene->event);
    expect_race(scene, "after the record", "free");
}

SCENE(what_is_handed_out_at_one_address_is_taken_from_all_others) {
    const struct twice twice = map_twice(scene);
    hand_out_at(scene, twice.one, scene->a);
    scene_access(scene, scene->a, "writer", twice.one, 64, true);
    take_back_at(scene, twice.one, scene->a);
    scene_access(scene, scene->a, "careless", twice.other, 64, true);
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "free", "careless");
    tick(scene, scene->b);
    hand_out_at(scene, twice.other, scene->b);
    expect_race(scene, "free", "hand-out");
    scene_access(scene, scene->a, "late", twice.one, 64, true);
    expect_race(scene, "hand-out", "late");
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    unmap(scene, twice.one);
    unmap(scene, twice.other);
    end_twice(scene, &twice);
}

SCENE(an_unmap_comes_after_the_frees_of_its_addresses_and_no_others) {
    const struct twice twice = map_twice(scene);
    tick(scene, scene->a);
    tick(scene, scene->b);
    hand_out_at(scene, twice.one, scene->a);
    take_back_at(scene, twice.one, scene->a);
    scene_follow(scene, scene->b, scene->a);
    hand_out_at(scene, twice.other, scene->b);
    assert_code(CUDA_SUCCESS, scene->driver->stream_synchronize(scene->a));
    unmap(scene, twice.one);
    expect_clean(scene);
    tick(scene, scene->b);
    take_back_at(scene, twice.other, scene->b);
    map(scene, twice.one, twice.page);
    unmap(scene, twice.other);
    expect_race(scene, "free", "cuMemUnmap by the host");
    unmap(scene, twice.one);
    end_twice(scene, &twice);
}

SCENE(a_free_that_names_a_stream_that_is_gone_leaves_its_uses_to_the_hand_out) {
    const CUstream named[] = {scene->a, WEIR_EMU_ANY_STREAM};
    hand_out(scene, scene->a);
    scene_write(scene, scene->a, "writer");
    scene_follow(scene, scene->b, scene->a);
    scene_read(scene, scene->b, "reader");
    take_back(scene, named, 2, NULL);
    expect_clean(scene);
    hand_out(scene, scene->a);
    expect_race(scene, "reader", "hand-out");
}

SCENE(what_was_taken_back_is_nobodys) {
    hand_out(scene, scene->a);
    scene_write(scene, scene->a, "writer");
    take_back(scene, &scene->a, 1, NULL);
    scene_write(scene, scene->a, "late");
    const struct weir_emu_report report = expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "free", "late");
    uint64_t number;
    assert_code(CUDA_SUCCESS, scene->driver->emu_stream_number(scene->a, &number));
    assert_int_equal(report.first_stream, number);
    scene_read(scene, scene->a, "later");
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "free", "later");
    hand_out(scene, scene->a);
    scene_read(scene, scene->a, "reader");
    expect_report(scene, WEIR_EMU_UNINITIALISED_READ, "hand-out", "reader");
}

/* ---- the driver's own pools ------------------------------------------------------------------------------------- */

static CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
static CUresult (*free_async)(CUdeviceptr, CUstream);

static void find_pool_entries(struct scene *scene) {
    Dl_info library;
    void *init;
    memcpy(&init, &scene->driver->init, sizeof init);
    assert_int_not_equal(dladdr(init, &library), 0);
    void *handle = dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(handle);
    void *alloc = dlsym(handle, "cuMemAllocAsync"), *release = dlsym(handle, "cuMemFreeAsync");
    assert_true(alloc != NULL && release != NULL);
    memcpy(&alloc_async, &alloc, sizeof alloc);
    memcpy(&free_async, &release, sizeof release);
    dlclose(handle);
}

SCENE(memory_of_a_stream_is_for_those_that_follow_it_until_it_is_given_back) {
    CUdeviceptr block;
    find_pool_entries(scene);
    tick(scene, scene->a);
    assert_code(CUDA_SUCCESS, alloc_async(&block, SCENE_BYTES, scene->a));
    scene_access(scene, scene->b, "stranger", block, 64, true);
    expect_race(scene, "cuMemAllocAsync", "stranger");
    scene_follow(scene, scene->c, scene->a);
    scene_access(scene, scene->c, "friend", block + 64, 64, true);
    expect_clean(scene);
    scene_follow(scene, scene->a, scene->b);
    assert_code(CUDA_SUCCESS, free_async(block, scene->a));
    expect_race(scene, "friend", "cuMemFreeAsync");
    scene_access(scene, scene->a, "late", block, 64, true);
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "cuMemFreeAsync", "late");
    assert_code(CUDA_SUCCESS, scene->driver->context_synchronize());
    scene_access(scene, scene->a, "later", block, 64, true); /* it is gone by now; who freed it is the same */
    expect_report(scene, WEIR_EMU_USE_AFTER_FREE, "cuMemFreeAsync", "later");
}

struct opening {
    const struct weir__driver *driver;
    struct weir_emu_gate *gate;
};

static void open_it(void *self) {
    const struct opening *opening = self;
    if (opening->driver->emu_gate_open(opening->gate, 0) != CUDA_SUCCESS) abort();
}

SCENE(addresses_that_a_stream_gave_back_are_as_new) {
    const struct weir__driver *driver = scene->driver;
    struct weir_emu_gate *passed; /* order that the watch does not see: the host never learns of the free by it */
    CUdeviceptr block, again;
    find_pool_entries(scene);
    assert_code(CUDA_SUCCESS, driver->emu_gate_create(&passed, 0));
    assert_code(CUDA_SUCCESS, alloc_async(&block, SCENE_GRANULE, scene->a));
    scene_access(scene, scene->a, "writer", block, 64, true);
    assert_code(CUDA_SUCCESS, free_async(block, scene->a));
    struct opening opening = {driver, passed};
    assert_code(CUDA_SUCCESS, driver->host_function(scene->a, open_it, &opening));
    if (scene->gate != NULL) assert_code(CUDA_SUCCESS, driver->emu_gate_open(scene->gate, 0));
    assert_code(CUDA_SUCCESS, driver->emu_gate_wait(passed));
    assert_code(CUDA_SUCCESS, driver->address_reserve(&again, SCENE_GRANULE, 0, block, 0));
    assert_int_equal(again, block);
    const CUmemGenericAllocationHandle page = new_page(scene);
    map(scene, again, page);
    unmap(scene, again);
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    unreserve(scene, again, 1);
    assert_code(CUDA_SUCCESS, driver->emu_gate_destroy(passed));
}

/* ---- peers ------------------------------------------------------------------------------------------------------ */

SCENE(work_of_one_device_on_the_memory_of_another_is_watched) {
    struct weir_device *other;
    const struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .ordinal = 1};
    assert_ok(weir_device_open(&options, &other));
    const struct weir__driver *driver = enter(other);
    CUdeviceptr theirs;
    CUstream stream;
    CUevent event;
    assert_code(CUDA_SUCCESS, driver->memory_alloc(&theirs, SCENE_BYTES));
    assert_code(CUDA_SUCCESS, driver->stream_create(&stream, CU_STREAM_NON_BLOCKING));
    assert_code(CUDA_SUCCESS, driver->event_create(&event, CU_EVENT_DISABLE_TIMING));
    weir__device_leave(other);
    scene_write(scene, scene->a, "writer");
    enter(other);
    assert_code(CUDA_SUCCESS, driver->copy(theirs, scene->block, SCENE_BYTES, stream));
    assert_int_equal(expect_report(scene, WEIR_EMU_RACE, "writer", "copy").device, 0);
    assert_code(CUDA_SUCCESS, driver->event_record(event, stream));
    weir__device_leave(other);
    scene_access(scene, scene->a, "reader", theirs, 64, false);
    assert_int_equal(expect_report(scene, WEIR_EMU_RACE, "copy", "reader").device, 1);
    assert_code(CUDA_SUCCESS, driver->stream_wait(scene->b, event, 0));
    scene_access(scene, scene->b, "good reader", theirs, 64, false);
    expect_clean(scene);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    enter(other);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->memory_free(theirs));
    weir__device_leave(other);
    weir_device_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(a_page_must_not_be_unmapped_under_use),
        device_test(addresses_without_a_mapping_must_not_be_used),
        device_test(a_plain_free_waits_and_what_comes_later_is_a_use_after_it),
        device_test(what_nobody_has_written_must_not_be_read),
        device_test(a_page_keeps_what_was_written_when_it_moves),
        device_test(one_page_at_two_addresses_is_the_same_bytes),
        device_test(an_unmap_concerns_only_what_came_through_its_addresses),
        device_test(a_use_through_one_address_does_not_stand_for_an_earlier_one_through_another),
        device_test(an_unmap_waits_for_every_stream_that_used_its_addresses),
        device_test(a_page_keeps_its_history_when_one_of_its_addresses_goes),
        device_test(what_is_mapped_at_an_address_was_not_used_through_it_before),
        device_test(a_part_of_a_run_is_unmapped_by_itself),
        device_test(memory_that_is_made_anew_has_no_history),
        device_test(a_block_is_handed_out_after_its_free_even_if_nobody_used_it),
        device_test(a_block_for_any_stream_needs_the_host_to_know_that_it_is_unused),
        device_test(a_block_is_for_the_stream_that_it_was_handed_to_and_those_that_follow),
        device_test(a_free_must_name_every_stream_that_used_the_block),
        device_test(a_free_may_name_a_stream_that_follows_the_users),
        device_test(a_free_may_name_an_event_that_is_recorded_after_the_last_use),
        device_test(a_free_by_an_event_does_not_cover_what_its_stream_does_later),
        device_test(what_is_handed_out_at_one_address_is_taken_from_all_others),
        device_test(an_unmap_comes_after_the_frees_of_its_addresses_and_no_others),
        device_test(a_free_that_names_a_stream_that_is_gone_leaves_its_uses_to_the_hand_out),
        device_test(what_was_taken_back_is_nobodys),
        device_test(memory_of_a_stream_is_for_those_that_follow_it_until_it_is_given_back),
        device_test(addresses_that_a_stream_gave_back_are_as_new),
        device_test(work_of_one_device_on_the_memory_of_another_is_watched),
    };
    return cmocka_run_group_tests_name("watch_memory", tests, NULL, NULL);
}
