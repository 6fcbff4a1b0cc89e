/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory: reservations, pages, mappings, rights. */
#include "suite.h"

#define SUBJECT   "virtual memory"
#define REFERENCE "CUDA Driver API, Virtual Memory Management, "

enum { HOST_PAGE = 4096 };

static size_t granularity(CUmemAllocationGranularity_flags option) {
    const CUmemAllocationProp properties = page_properties();
    size_t bytes = 0;
    OK(cu.MemGetAllocationGranularity(&bytes, &properties, option));
    return bytes;
}

/* ---- granularity ------------------------------------------------------------------------------------------------ */

CASE(the_device_has_virtual_memory, "CUDA Driver API, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED") {
    CHECK_EQUAL(1, attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
}

CASE(the_recommended_granularity_is_a_multiple_of_the_least, REFERENCE "cuMemGetAllocationGranularity") {
    const size_t least = granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    CHECK(least > 0);
    CHECK_EQUAL(0, granularity(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) % least);
    CHECK_EQUAL(0, least % HOST_PAGE);
}

CASE(a_place_that_is_none_has_no_granularity, REFERENCE "cuMemGetAllocationGranularity: CUDA_ERROR_INVALID_VALUE") {
    CUmemAllocationProp properties = page_properties();
    size_t bytes;
    properties.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    REFUSED(cu.MemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

/* ---- reservations ----------------------------------------------------------------------------------------------- */

CASE(a_reservation_has_the_alignment_asked_for, REFERENCE "cuMemAddressReserve") {
    for (size_t alignment = granule(); alignment <= 64 * granule(); alignment *= 4) {
        CUdeviceptr at = 0;
        OK(cu.MemAddressReserve(&at, 4 * granule(), alignment, 0, 0));
        CHECK(at != 0);
        CHECK_EQUAL(0, at % alignment);
        OK(cu.MemAddressFree(at, 4 * granule()));
    }
}

CASE(an_alignment_that_is_no_power_of_two_is_refused,
     REFERENCE "cuMemAddressReserve: \"alignment must be a power of two or zero\"") {
    CUdeviceptr at;
    GIVES(cu.MemAddressReserve(&at, 4 * granule(), 3 * granule(), 0, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_reservation_of_part_of_a_host_page_is_refused,
     REFERENCE "cuMemAddressReserve: \"must be a multiple of the host page size\"") {
    CUdeviceptr at;
    GIVES(cu.MemAddressReserve(&at, 1000, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_reservation_of_no_bytes_is_refused, REFERENCE "cuMemAddressReserve: CUDA_ERROR_INVALID_VALUE") {
    CUdeviceptr at;
    GIVES(cu.MemAddressReserve(&at, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_reservation_takes_no_flags, REFERENCE "cuMemAddressReserve: flags \"Currently unused, must be zero\"") {
    CUdeviceptr at;
    GIVES(cu.MemAddressReserve(&at, granule(), 0, 0, 0x100), CUDA_ERROR_INVALID_VALUE);
}

CASE(reservations_do_not_overlap, REFERENCE "cuMemAddressReserve") {
    enum { COUNT = 8 };
    CUdeviceptr at[COUNT];
    const size_t bytes = 3 * granule();
    for (int i = 0; i < COUNT; i++) {
        at[i] = new_reservation(bytes);
        for (int j = 0; j < i; j++) CHECK(at[i] + bytes <= at[j] || at[j] + bytes <= at[i]);
    }
    for (int i = 0; i < COUNT; i++) OK(cu.MemAddressFree(at[i], bytes));
}

CASE(a_wanted_address_is_a_hint, REFERENCE "cuMemAddressReserve: \"the driver treats it as a hint\"") {
    const size_t bytes = 4 * granule();
    const CUdeviceptr taken = new_reservation(bytes);
    CUdeviceptr at = 0;
    OK(cu.MemAddressReserve(&at, bytes, 0, taken, 0)); /* it cannot be had, and another is given */
    CHECK(at + bytes <= taken || taken + bytes <= at);
    OK(cu.MemAddressFree(at, bytes));
    OK(cu.MemAddressFree(taken, bytes));
}

CASE(addresses_cost_no_memory, REFERENCE "cuMemAddressReserve reserves a virtual address range") {
    const size_t bytes = (2 * total_memory() + granule() - 1) / granule() * granule(), before = free_memory();
    const CUdeviceptr at = new_reservation(bytes);
    CHECK(free_memory() >= before - large_amount() / 2);
    OK(cu.MemAddressFree(at, bytes));
}

CASE(more_addresses_than_there_are_cannot_be_reserved, REFERENCE "cuMemAddressReserve: CUDA_ERROR_OUT_OF_MEMORY") {
    CUdeviceptr at;
    GIVES(cu.MemAddressReserve(&at, (size_t)1 << 60, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE);
}

CASE(a_reservation_is_freed_with_the_size_that_it_was_made_with,
     REFERENCE "cuMemAddressFree: \"The size must match\"") {
    const CUdeviceptr at = new_reservation(4 * granule());
    GIVES(cu.MemAddressFree(at, 2 * granule()), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemAddressFree(at, 4 * granule()));
}

CASE(a_reservation_is_freed_at_its_start, REFERENCE "cuMemAddressFree: \"the ptr given must match\"") {
    const CUdeviceptr at = new_reservation(4 * granule());
    GIVES(cu.MemAddressFree(at + 2 * granule(), 2 * granule()), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemAddressFree(at, 4 * granule()));
}

CASE(a_reservation_is_freed_once,
     REFERENCE "cuMemAddressFree: \"a virtual address range reserved by cuMemAddressReserve\"") {
    const CUdeviceptr at = new_reservation(4 * granule());
    OK(cu.MemAddressFree(at, 4 * granule()));
    GIVES(cu.MemAddressFree(at, 4 * granule()), CUDA_ERROR_INVALID_VALUE);
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

CASE(a_page_is_a_multiple_of_the_granularity, REFERENCE "cuMemCreate: size \"must be a multiple of\" the granularity") {
    const CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page;
    GIVES(cu.MemCreate(&page, granule() + granule() / 2, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemCreate(&page, 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_page_of_no_bytes_is_refused, REFERENCE "cuMemCreate: CUDA_ERROR_INVALID_VALUE") {
    const CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page;
    GIVES(cu.MemCreate(&page, 0, &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_page_takes_no_flags, REFERENCE "cuMemCreate: flags \"must be zero now\"") {
    const CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page;
    GIVES(cu.MemCreate(&page, granule(), &properties, 0x100), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_page_needs_a_device_that_is_there, REFERENCE "cuMemCreate: CUDA_ERROR_INVALID_DEVICE") {
    CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page;
    properties.location.id = device_count() + 5;
    GIVES(cu.MemCreate(&page, granule(), &properties, 0), CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE);
}

CASE(a_page_needs_a_type, REFERENCE "cuMemCreate: CUDA_ERROR_INVALID_VALUE") {
    CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page;
    properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    GIVES(cu.MemCreate(&page, granule(), &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_page_beyond_the_device_is_out_of_memory, REFERENCE "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY") {
    const CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page;
    const size_t bytes = 2 * total_memory() / granule() * granule();
    GIVES(cu.MemCreate(&page, bytes, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

CASE(a_huge_page_does_not_wrap, REFERENCE "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE") {
    const CUmemAllocationProp properties = page_properties();
    CUmemGenericAllocationHandle page;
    GIVES(cu.MemCreate(&page, SIZE_MAX / granule() * granule(), &properties, 0), CUDA_ERROR_OUT_OF_MEMORY,
          CUDA_ERROR_INVALID_VALUE);
}

CASE(a_page_tells_its_properties, REFERENCE "cuMemGetAllocationPropertiesFromHandle") {
    const CUmemGenericAllocationHandle page = new_page(granule());
    CUmemAllocationProp properties;
    memset(&properties, 0xff, sizeof properties);
    OK(cu.MemGetAllocationPropertiesFromHandle(&properties, page));
    CHECK_EQUAL(CU_MEM_ALLOCATION_TYPE_PINNED, properties.type);
    CHECK_EQUAL(CU_MEM_LOCATION_TYPE_DEVICE, properties.location.type);
    CHECK_EQUAL(DEVICE, properties.location.id);
    OK(cu.MemRelease(page));
}

/* ---- mappings --------------------------------------------------------------------------------------------------- */

CASE(a_mapped_page_keeps_what_is_written_to_it, REFERENCE "cuMemMap, cuMemSetAccess") {
    const size_t bytes = 2 * granule();
    const CUdeviceptr at = new_reservation(bytes);
    const CUmemGenericAllocationHandle page = new_page(bytes);
    map_page(at, bytes, page);
    set(at, 7, bytes, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(at, bytes, 7));
    OK(cu.MemUnmap(at, bytes));
    OK(cu.MemRelease(page));
    OK(cu.MemAddressFree(at, bytes));
}

/* A reservation of four granules and a page of two. */
struct ground {
    size_t unit;
    CUdeviceptr at;
    CUmemGenericAllocationHandle page;
};

static struct ground new_ground(void) {
    struct ground ground = {.unit = granule()};
    ground.at = new_reservation(4 * ground.unit);
    ground.page = new_page(2 * ground.unit);
    return ground;
}

static void drop_ground(struct ground *ground) {
    OK(cu.MemRelease(ground->page));
    OK(cu.MemAddressFree(ground->at, 4 * ground->unit));
}

CASE(a_mapping_starts_at_the_pages_start, REFERENCE "cuMemMap: offset \"currently must be zero\"") {
    struct ground ground = new_ground();
    GIVES(cu.MemMap(ground.at, ground.unit, ground.unit, ground.page, 0), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(a_mapping_takes_no_flags, REFERENCE "cuMemMap: flags \"must be zero now\"") {
    struct ground ground = new_ground();
    GIVES(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0x100), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(a_mapping_is_aligned_to_the_granularity,
     REFERENCE "cuMemMap: \"Both ptr, size, and offset must be a multiple of\" the granularity") {
    struct ground ground = new_ground();
    GIVES(cu.MemMap(ground.at + ground.unit / 2, 2 * ground.unit, 0, ground.page, 0), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemMap(ground.at, ground.unit + ground.unit / 2, 0, ground.page, 0), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(a_mapping_is_no_larger_than_its_page,
     REFERENCE "cuMemMap: \"offset + size must be less than the size of the memory allocation\"") {
    struct ground ground = new_ground();
    GIVES(cu.MemMap(ground.at, 4 * ground.unit, 0, ground.page, 0), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(a_mapping_lies_in_a_reservation,
     REFERENCE "cuMemMap: \"This range must be an address reservation previously reserved\"") {
    struct ground ground = new_ground();
    const CUdeviceptr gone = new_reservation(2 * ground.unit);
    OK(cu.MemAddressFree(gone, 2 * ground.unit));
    GIVES(cu.MemMap(gone, 2 * ground.unit, 0, ground.page, 0), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(a_mapping_ends_within_its_reservation,
     REFERENCE "cuMemMap: \"This range must be an address reservation previously reserved\"") {
    struct ground ground = new_ground();
    GIVES(cu.MemMap(ground.at + 3 * ground.unit, 2 * ground.unit, 0, ground.page, 0), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(a_plain_block_is_no_reservation,
     REFERENCE "cuMemMap: \"This range must be an address reservation previously reserved\"") {
    struct ground ground = new_ground();
    const CUdeviceptr block = new_block(4 * ground.unit),
                      aligned = (block + ground.unit - 1) / ground.unit * ground.unit;
    REFUSED(cu.MemMap(aligned, 2 * ground.unit, 0, ground.page, 0));
    OK(cu.MemFree(block));
    drop_ground(&ground);
}

CASE(mapped_addresses_are_not_mapped_again,
     REFERENCE "cuMemMap \"can only create mappings on VA range reservations that are not currently mapped\"") {
    struct ground ground = new_ground();
    const CUmemGenericAllocationHandle other = new_page(ground.unit);
    map_page(ground.at, 2 * ground.unit, ground.page);
    GIVES(cu.MemMap(ground.at, ground.unit, 0, other, 0), CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_ALREADY_MAPPED);
    GIVES(cu.MemMap(ground.at + ground.unit, ground.unit, 0, other, 0), CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_ALREADY_MAPPED);
    set(ground.at, 1, 2 * ground.unit, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    OK(cu.MemRelease(other));
    drop_ground(&ground);
}

CASE(a_page_mapped_twice_is_one_memory,
     "CUDA C++ Programming Guide, Virtual Memory Management, Virtual Aliasing Support") {
    struct ground ground = new_ground();
    map_page(ground.at, 2 * ground.unit, ground.page);
    map_page(ground.at + 2 * ground.unit, 2 * ground.unit, ground.page);
    set(ground.at, 5, 2 * ground.unit, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(ground.at + 2 * ground.unit, 2 * ground.unit, 5));
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    set(ground.at + 2 * ground.unit, 6, 2 * ground.unit, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(ground.at + 2 * ground.unit, 2 * ground.unit, 6));
    OK(cu.MemUnmap(ground.at + 2 * ground.unit, 2 * ground.unit));
    drop_ground(&ground);
}

CASE(a_copy_runs_over_neighbouring_mappings, REFERENCE "cuMemMap, cuMemSetAccess: \"a contiguous mapped VA range\"") {
    const size_t unit = granule();
    const CUdeviceptr at = new_reservation(4 * unit);
    CUmemGenericAllocationHandle pages[4];
    for (size_t i = 0; i < 4; i++) {
        pages[i] = new_page(unit);
        OK(cu.MemMap(at + i * unit, unit, 0, pages[i], 0));
    }
    let_access(at, 4 * unit); /* one call for all of them */
    set(at + unit / 2, 3, 3 * unit, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(at + unit / 2, 3 * unit, 3));
    for (size_t i = 0; i < 4; i++) {
        OK(cu.MemUnmap(at + i * unit, unit));
        OK(cu.MemRelease(pages[i]));
    }
    OK(cu.MemAddressFree(at, 4 * unit));
}

/* ---- unmap and release ------------------------------------------------------------------------------------------ */

CASE(part_of_a_mapping_is_not_unmapped,
     REFERENCE "cuMemUnmap \"cannot unmap a sub-range of an address range mapped\"") {
    struct ground ground = new_ground();
    map_page(ground.at, 2 * ground.unit, ground.page);
    GIVES(cu.MemUnmap(ground.at, ground.unit), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemUnmap(ground.at + ground.unit, ground.unit), CUDA_ERROR_INVALID_VALUE);
    set(ground.at, 4, 2 * ground.unit, NULL); /* it is all still there */
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(ground.at, 2 * ground.unit, 4));
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    drop_ground(&ground);
}

CASE(neighbouring_mappings_are_unmapped_by_one_call,
     REFERENCE "cuMemUnmap: \"the entire contiguous address range that was mapped to\"") {
    const size_t unit = granule();
    const CUdeviceptr at = new_reservation(2 * unit);
    const CUmemGenericAllocationHandle first = new_page(unit), second = new_page(unit);
    map_page(at, unit, first);
    map_page(at + unit, unit, second);
    OK(cu.MemUnmap(at, 2 * unit));
    map_page(at, unit, second);
    OK(cu.MemUnmap(at, unit));
    OK(cu.MemRelease(first));
    OK(cu.MemRelease(second));
    OK(cu.MemAddressFree(at, 2 * unit));
}

CASE(addresses_that_are_not_mapped_are_not_unmapped, REFERENCE "cuMemUnmap: CUDA_ERROR_INVALID_VALUE") {
    struct ground ground = new_ground();
    GIVES(cu.MemUnmap(ground.at, ground.unit), CUDA_ERROR_INVALID_VALUE);
    map_page(ground.at, 2 * ground.unit, ground.page);
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    GIVES(cu.MemUnmap(ground.at, 2 * ground.unit), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

CASE(unmapped_addresses_can_be_mapped_again,
     REFERENCE "cuMemUnmap: \"converted to an address reservation and can be used for a future calls to cuMemMap\"") {
    struct ground ground = new_ground();
    for (int times = 1; times <= 3; times++) {
        map_page(ground.at, 2 * ground.unit, ground.page);
        set(ground.at, times, 2 * ground.unit, NULL);
        OK(cu.CtxSynchronize());
        CHECK(device_all_are(ground.at, 2 * ground.unit, times));
        OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    }
    drop_ground(&ground);
}

CASE(a_page_keeps_its_contents_while_it_is_not_mapped, REFERENCE
     "cuMemUnmap: memory is freed \"if there are no existing mappings and there are no unreleased memory handles\"") {
    struct ground ground = new_ground();
    map_page(ground.at, 2 * ground.unit, ground.page);
    set(ground.at, 8, 2 * ground.unit, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    map_page(ground.at + 2 * ground.unit, 2 * ground.unit, ground.page);
    CHECK(device_all_are(ground.at + 2 * ground.unit, 2 * ground.unit, 8));
    OK(cu.MemUnmap(ground.at + 2 * ground.unit, 2 * ground.unit));
    drop_ground(&ground);
}

CASE(a_released_page_lives_while_it_is_mapped,
     REFERENCE "cuMemRelease: \"can be freed when there are still outstanding mappings\"") {
    const size_t bytes = large_amount(), before = free_memory();
    const CUdeviceptr at = new_reservation(bytes);
    const CUmemGenericAllocationHandle page = new_page(bytes);
    map_page(at, bytes, page);
    OK(cu.MemRelease(page));
    CHECK(free_memory() <= before - bytes / 2);
    set(at, 2, granule(), NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(at, granule(), 2));
    OK(cu.MemUnmap(at, bytes));
    CHECK(free_memory() >= before - bytes / 2);
    OK(cu.MemAddressFree(at, bytes));
}

CASE(an_unmapped_page_lives_until_it_is_released,
     REFERENCE "cuMemRelease: \"freed when all outstanding mappings ... are unmapped and when all outstanding "
               "references ... are also released\"") {
    const size_t bytes = large_amount(), before = free_memory();
    const CUdeviceptr at = new_reservation(bytes);
    const CUmemGenericAllocationHandle page = new_page(bytes);
    map_page(at, bytes, page);
    OK(cu.MemUnmap(at, bytes));
    CHECK(free_memory() <= before - bytes / 2);
    OK(cu.MemRelease(page));
    CHECK(free_memory() >= before - bytes / 2);
    OK(cu.MemAddressFree(at, bytes));
}

CASE(a_retained_page_needs_another_release,
     REFERENCE "cuMemRetainAllocationHandle: \"must be released with corresponding number of calls\"") {
    const size_t bytes = large_amount(), before = free_memory();
    const CUdeviceptr at = new_reservation(bytes);
    const CUmemGenericAllocationHandle page = new_page(bytes);
    CUmemGenericAllocationHandle retained = 0;
    map_page(at, bytes, page);
    OK(cu.MemRetainAllocationHandle(&retained, (void *)(uintptr_t)(at + granule() / 2)));
    CHECK(retained == page); /* "guaranteed to be the same handle value used to map the memory" */
    OK(cu.MemUnmap(at, bytes));
    OK(cu.MemRelease(page));
    CHECK(free_memory() <= before - bytes / 2);
    OK(cu.MemRelease(retained));
    CHECK(free_memory() >= before - bytes / 2);
    OK(cu.MemAddressFree(at, bytes));
}

CASE(an_address_that_is_not_mapped_has_no_page,
     REFERENCE "cuMemRetainAllocationHandle: \"If the address requested is not mapped, the function will fail\"") {
    struct ground ground = new_ground();
    CUmemGenericAllocationHandle page;
    GIVES(cu.MemRetainAllocationHandle(&page, (void *)(uintptr_t)ground.at), CUDA_ERROR_INVALID_VALUE);
    drop_ground(&ground);
}

/* ---- rights ----------------------------------------------------------------------------------------------------- */

static unsigned long long rights(CUdeviceptr at) {
    const CUmemAccessDesc access = access_description(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    unsigned long long flags = 99;
    const CUresult code = cu.MemGetAccess(&flags, &access.location, at);
    if (code == CUDA_ERROR_INVALID_VALUE)
        return CU_MEM_ACCESS_FLAGS_PROT_NONE; /* a driver may have no answer for none */
    OK(code);
    return flags;
}

CASE(rights_are_what_was_set, REFERENCE "cuMemGetAccess") {
    struct ground ground = new_ground();
    OK(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0));
    let_access(ground.at, 2 * ground.unit);
    CHECK_EQUAL(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(ground.at));
    CHECK_EQUAL(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, rights(ground.at + ground.unit));
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    drop_ground(&ground);
}

CASE(a_new_mapping_gives_no_rights, REFERENCE "cuMemUnmap: \"all mappings start with no accessibility setup\"") {
    struct ground ground = new_ground();
    OK(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0));
    CHECK_EQUAL(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(ground.at));
    let_access(ground.at, 2 * ground.unit);
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    OK(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0));
    CHECK_EQUAL(CU_MEM_ACCESS_FLAGS_PROT_NONE, rights(ground.at));
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    drop_ground(&ground);
}

CASE(rights_need_a_mapping, REFERENCE "cuMemSetAccess: \"The range must be a fully mapped address range\"") {
    struct ground ground = new_ground();
    const CUmemAccessDesc access = access_description(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    GIVES(cu.MemSetAccess(ground.at, ground.unit, &access, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0));
    GIVES(cu.MemSetAccess(ground.at, 3 * ground.unit, &access, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    drop_ground(&ground);
}

CASE(rights_need_a_device_that_is_there,
     REFERENCE "cuMemSetAccess: CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE") {
    struct ground ground = new_ground();
    CUmemAccessDesc access = access_description(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    access.location.id = device_count() + 5;
    OK(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0));
    GIVES(cu.MemSetAccess(ground.at, 2 * ground.unit, &access, 1), CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    drop_ground(&ground);
}

/* True when a set of the bytes fails, in the call or afterwards. The context may be of no use then. */
static bool a_set_fails(CUdeviceptr at, size_t bytes) {
    if (cu.MemsetD8Async(at, 1, bytes, NULL) != CUDA_SUCCESS) return true;
    return cu.CtxSynchronize() != CUDA_SUCCESS;
}

CASE_APART(a_mapping_without_rights_cannot_be_written,
           REFERENCE "cuMemMap: \"calling cuMemMap does not make the address accessible\"") {
    struct ground ground = new_ground();
    OK(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0));
    CHECK(a_set_fails(ground.at, ground.unit));
}

CASE_APART(unmapped_addresses_cannot_be_written,
           REFERENCE "cuMemUnmap: \"the address range is converted to an address reservation\"") {
    struct ground ground = new_ground();
    map_page(ground.at, 2 * ground.unit, ground.page);
    set(ground.at, 1, ground.unit, NULL);
    OK(cu.CtxSynchronize());
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    CHECK(a_set_fails(ground.at, ground.unit));
}

CASE_APART(a_remapped_address_cannot_be_written_before_it_has_rights,
           REFERENCE "cuMemUnmap: \"will need to have access granted through cuMemSetAccess\"") {
    struct ground ground = new_ground();
    map_page(ground.at, 2 * ground.unit, ground.page);
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    OK(cu.MemMap(ground.at, 2 * ground.unit, 0, ground.page, 0));
    CHECK(a_set_fails(ground.at, ground.unit));
}

CASE_APART(a_mapping_for_reading_cannot_be_written, REFERENCE "cuMemSetAccess, CU_MEM_ACCESS_FLAGS_PROT_READ") {
    struct ground ground = new_ground();
    const CUmemAccessDesc access = access_description(CU_MEM_ACCESS_FLAGS_PROT_READ);
    map_page(ground.at, 2 * ground.unit, ground.page);
    set(ground.at, 3, 2 * ground.unit, NULL);
    OK(cu.CtxSynchronize());
    const CUresult code = cu.MemSetAccess(ground.at, 2 * ground.unit, &access, 1);
    SKIP_IF(code != CUDA_SUCCESS, "the driver has no rights for reading only");
    CHECK(device_all_are(ground.at, 2 * ground.unit, 3));
    CHECK(a_set_fails(ground.at, ground.unit));
}

CASE(pages_can_be_mapped_while_work_runs, REFERENCE "cuMemMap, cuMemUnmap are host calls") {
    struct ground ground = new_ground();
    const CUdeviceptr block = new_block(1 << 16);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate *gate = hold(stream);
    set(block, 6, 1 << 16, stream);
    let_go_after(gate, 10);
    map_page(ground.at, 2 * ground.unit, ground.page);
    set(ground.at, 5, 2 * ground.unit, stream);
    OK(cu.StreamSynchronize(stream));
    CHECK(device_all_are(block, 1 << 16, 6));
    CHECK(device_all_are(ground.at, 2 * ground.unit, 5));
    OK(cu.MemUnmap(ground.at, 2 * ground.unit));
    OK(cu.StreamDestroy(stream));
    OK(cu.MemFree(block));
    drop_ground(&ground);
}
