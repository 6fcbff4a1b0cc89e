/* SPDX-License-Identifier: Apache-2.0 */
/* A page that one process exports is memory of another that imports it, and lives until both have given it up, however
 * they end. From the driver API's "Virtual Memory Management". The peer is a process of its own, with a driver of its
 * own, that is told by a socket what to do. */
#include "tests/device/api.h"
#include "tests/peer.h"

enum { HERE = 0x11, THERE = 0x22 };

/* ---- pages ------------------------------------------------------------------------------------------------------ */

struct place {
    CUmemGenericAllocationHandle page;
    CUdeviceptr address;
    size_t bytes;
};

static CUmemAllocationProp properties(void) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
}

static size_t granularity(void) {
    const CUmemAllocationProp wanted = properties();
    size_t bytes = 0;
    cu.cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    return bytes;
}

static bool map(struct place *place) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cu.cuMemAddressReserve(&place->address, place->bytes, 0, 0, 0) == CUDA_SUCCESS &&
           cu.cuMemMap(place->address, place->bytes, 0, place->page, 0) == CUDA_SUCCESS &&
           cu.cuMemSetAccess(place->address, place->bytes, &access, 1) == CUDA_SUCCESS;
}

static bool unmap(const struct place *place) {
    return cu.cuMemUnmap(place->address, place->bytes) == CUDA_SUCCESS &&
           cu.cuMemAddressFree(place->address, place->bytes) == CUDA_SUCCESS &&
           cu.cuMemRelease(place->page) == CUDA_SUCCESS;
}

static bool fill(const struct place *place, unsigned char value) {
    return cu.cuMemsetD8_v2(place->address, value, place->bytes) == CUDA_SUCCESS &&
           cu.cuCtxSynchronize() == CUDA_SUCCESS;
}

static bool holds(const struct place *place, unsigned char value) {
    unsigned char *bytes = calloc(1, place->bytes);
    bool same = bytes != NULL && cu.cuMemcpyDtoH_v2(bytes, place->address, place->bytes) == CUDA_SUCCESS;
    for (size_t i = 0; same && i < place->bytes; i++) same = bytes[i] == value;
    free(bytes);
    return same;
}

/* ---- the peer --------------------------------------------------------------------------------------------------- */

static struct place theirs;

static bool obey(char order, int descriptor) {
    struct place *place = &theirs;
    switch (order) {
    case IMPORT:
        return cu.cuMemImportFromShareableHandle(&place->page, (void *)(intptr_t)descriptor,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS &&
               close(descriptor) == 0 && map(place);
    case READ:
        return holds(place, HERE);
    case WRITE:
        return fill(place, THERE);
    case GIVE_UP:
        return unmap(place);
    }
    return false;
}

static bool get_ready(void) {
    CUcontext context;
    if (!load_api() || cu.cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return false;
    if (cu.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) return false;
    theirs.bytes = 2 * granularity();
    return true;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static size_t free_bytes(void) {
    size_t all, left;
    assert_done(cu.cuMemGetInfo_v2(&left, &all));
    return left;
}

static struct place new_place(void) {
    struct place place = {.bytes = 2 * granularity()};
    const CUmemAllocationProp wanted = properties();
    assert_done(cu.cuMemCreate(&place.page, place.bytes, &wanted, 0));
    assert_true(map(&place));
    return place;
}

static int export(const struct place *place) {
    int descriptor = -1;
    assert_done(cu.cuMemExportToShareableHandle(&descriptor, place->page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return descriptor;
}

static void a_shared_page_is_one_memory_and_lives_as_long_as_anyone_has_it(void **state) {
    (void)state;
    const size_t before = free_bytes();
    struct place place = new_place(), other = new_place();
    assert_true(fill(&place, HERE));
    const int descriptor = export(&place);
    ask_peer(IMPORT, descriptor);
    ask_peer(READ, -1);
    ask_peer(WRITE, -1);
    assert_true(holds(&place, THERE));
    assert_true(unmap(&place));
    assert_true(unmap(&other));
    assert_int_equal(free_bytes(), before - place.bytes); /* the descriptor's, and the peer's */
    close(descriptor);
    assert_int_equal(free_bytes(), before - place.bytes);
    ask_peer(GIVE_UP, -1);
    assert_int_equal(free_bytes(), before);
}

static void a_descriptor_alone_keeps_a_page(void **state) {
    (void)state;
    const size_t before = free_bytes();
    struct place place = new_place();
    const int descriptor = export(&place);
    assert_true(unmap(&place));
    assert_int_equal(free_bytes(), before - place.bytes);
    close(descriptor);
    assert_int_equal(free_bytes(), before);
}

static void a_page_comes_back_when_its_peer_dies(void **state) {
    (void)state;
    const size_t before = free_bytes();
    struct place place = new_place();
    assert_true(fill(&place, HERE));
    const int descriptor = export(&place);
    ask_peer(IMPORT, descriptor);
    close(descriptor);
    assert_true(unmap(&place));
    assert_int_equal(free_bytes(), before - place.bytes);
    assert_true(end_peer());
    assert_int_equal(free_bytes(), before);
}

static void a_page_imported_where_it_was_made_is_the_same_page(void **state) {
    (void)state;
    const size_t before = free_bytes();
    struct place place = new_place(), again = {.bytes = place.bytes};
    const int descriptor = export(&place);
    assert_done(cu.cuMemImportFromShareableHandle(&again.page, (void *)(intptr_t)descriptor,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    assert_true(map(&again));
    assert_true(fill(&place, HERE));
    assert_true(holds(&again, HERE));
    assert_int_equal(free_bytes(), before - place.bytes);
    assert_true(unmap(&place));
    assert_true(holds(&again, HERE));
    assert_true(unmap(&again));
    assert_int_equal(free_bytes(), before);
}

static void what_is_no_exported_page_is_not_imported(void **state) {
    (void)state;
    CUmemGenericAllocationHandle page;
    int ends[2], descriptor;
    assert_int_equal(pipe(ends), 0);
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemImportFromShareableHandle(&page, (void *)(intptr_t)ends[0],
                                                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    assert_code(CUDA_ERROR_INVALID_VALUE, cu.cuMemImportFromShareableHandle(&page, (void *)(intptr_t)-1,
                                                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    assert_code(CUDA_ERROR_NOT_SUPPORTED,
                cu.cuMemImportFromShareableHandle(&page, (void *)(intptr_t)ends[0], CU_MEM_HANDLE_TYPE_FABRIC));
    close(ends[0]);
    close(ends[1]);
    CUmemAllocationProp plain = properties();
    plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    assert_done(cu.cuMemCreate(&page, granularity(), &plain, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE,
                cu.cuMemExportToShareableHandle(&descriptor, page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_done(cu.cuMemRelease(page));
    plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    assert_code(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemCreate(&page, granularity(), &plain, 0));
}

int main(void) {
    start_peer(get_ready, obey);
    const struct CMUnitTest tests[] = {
        context_test(a_shared_page_is_one_memory_and_lives_as_long_as_anyone_has_it),
        context_test(a_descriptor_alone_keeps_a_page),
        context_test(a_page_imported_where_it_was_made_is_the_same_page),
        context_test(what_is_no_exported_page_is_not_imported),
        context_test(a_page_comes_back_when_its_peer_dies),
    };
    return cmocka_run_group_tests(tests, load_driver, NULL);
}
