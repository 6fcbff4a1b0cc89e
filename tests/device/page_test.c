/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory: pages, addresses and what is mapped where behave as the driver's documentation says. */
#include "tests/device/machine.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { GRANULE = 16 * 1024, RUN = 8 * GRANULE };

static const CUmemAllocationProp pinned = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc read_write = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmemAccessDesc read_only = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READ};
static const CUmemAccessDesc no_access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE};

struct run {
    const struct weir__driver *driver;
    CUdeviceptr at; /* RUN bytes of addresses */
};

static struct run reserve(struct weir_device *device) {
    struct run run = {.driver = enter(device)};
    assert_code(CUDA_SUCCESS, run.driver->address_reserve(&run.at, RUN, 0, 0, 0));
    return run;
}

static void unreserve(struct weir_device *device, const struct run *run) {
    assert_code(CUDA_SUCCESS, run->driver->address_free(run->at, RUN));
    weir__device_leave(device);
}

static CUmemGenericAllocationHandle new_page(const struct run *run, size_t bytes) {
    CUmemGenericAllocationHandle page = 0;
    assert_code(CUDA_SUCCESS, run->driver->page_create(&page, bytes, &pinned, 0));
    return page;
}

static void map(const struct run *run, size_t offset, size_t bytes, CUmemGenericAllocationHandle page) {
    assert_code(CUDA_SUCCESS, run->driver->page_map(run->at + offset, bytes, 0, page, 0));
    assert_code(CUDA_SUCCESS, run->driver->page_set_access(run->at + offset, bytes, &read_write, 1));
}

static unsigned char *bytes_at(const struct run *run, size_t offset) {
    return (unsigned char *)(uintptr_t)(run->at + offset);
}

static size_t free_bytes(const struct run *run) {
    size_t left, total;
    assert_code(CUDA_SUCCESS, run->driver->memory_info(&left, &total));
    return left;
}

/* How a child process ends that touches an address: 0, or the signal that killed it. */
static int signal_of_touching(unsigned char *address, bool write) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* the sanitizers have a handler of their own */
        volatile unsigned char *volatile at = address;
        const unsigned char value = *at;
        if (write) *at = value;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void one_page_at_two_addresses_is_the_same_bytes(void **state) {
    const struct run run = reserve(*state);
    const CUmemGenericAllocationHandle page = new_page(&run, GRANULE);
    map(&run, 0, GRANULE, page);
    map(&run, 2 * GRANULE, GRANULE, page);
    bytes_at(&run, 0)[5] = 42;
    assert_int_equal(bytes_at(&run, 2 * GRANULE)[5], 42);
    assert_code(CUDA_SUCCESS, run.driver->page_unmap(run.at, GRANULE));
    assert_int_equal(bytes_at(&run, 2 * GRANULE)[5], 42);
    assert_code(CUDA_SUCCESS, run.driver->page_unmap(run.at + 2 * GRANULE, GRANULE));
    assert_code(CUDA_SUCCESS, run.driver->page_release(page));
    unreserve(*state, &run);
}

static void a_page_can_be_touched_only_as_its_access_says(void **state) {
    const struct run run = reserve(*state);
    const CUmemGenericAllocationHandle page = new_page(&run, GRANULE);
    unsigned char *at = bytes_at(&run, 0);
    assert_int_equal(signal_of_touching(at, false), SIGSEGV); /* reserved */
    assert_code(CUDA_SUCCESS, run.driver->page_map(run.at, GRANULE, 0, page, 0));
    assert_int_equal(signal_of_touching(at, false), SIGSEGV); /* mapped */
    assert_code(CUDA_SUCCESS, run.driver->page_set_access(run.at, GRANULE, &read_only, 1));
    assert_int_equal(signal_of_touching(at, false), 0);
    assert_int_equal(signal_of_touching(at, true), SIGSEGV);
    assert_code(CUDA_SUCCESS, run.driver->page_set_access(run.at, GRANULE, &read_write, 1));
    assert_int_equal(signal_of_touching(at, true), 0);
    assert_code(CUDA_SUCCESS, run.driver->page_set_access(run.at, GRANULE, &no_access, 1));
    assert_int_equal(signal_of_touching(at, false), SIGSEGV);
    assert_code(CUDA_SUCCESS, run.driver->page_set_access(run.at, GRANULE, &read_write, 1));
    assert_code(CUDA_SUCCESS, run.driver->page_unmap(run.at, GRANULE));
    assert_int_equal(signal_of_touching(at, false), SIGSEGV); /* unmapped */
    assert_code(CUDA_SUCCESS, run.driver->page_release(page));
    unreserve(*state, &run);
}

static void copies_and_sets_refuse_memory_without_access(void **state) {
    struct weir_device *device = *state;
    const struct run run = reserve(device);
    unsigned char host[GRANULE];
    const CUmemGenericAllocationHandle page = new_page(&run, GRANULE);
    map(&run, 0, GRANULE, page);
    assert_ok(weir_set(device, bytes_at(&run, 0), 1, GRANULE, NULL));
    assert_ok(weir_copy(device, host, bytes_at(&run, 0), GRANULE, NULL));
    assert_int_equal(weir_copy(device, host, bytes_at(&run, GRANULE / 2), GRANULE, NULL), WEIR_DRIVER); /* runs out */
    assert_int_equal(weir_last_error()->driver_code, CUDA_ERROR_INVALID_VALUE);
    assert_code(CUDA_SUCCESS, run.driver->page_set_access(run.at, GRANULE, &read_only, 1));
    assert_ok(weir_copy(device, host, bytes_at(&run, 0), GRANULE, NULL));
    assert_int_equal(weir_copy(device, bytes_at(&run, 0), host, GRANULE, NULL), WEIR_DRIVER);
    assert_int_equal(weir_set(device, bytes_at(&run, 0), 1, GRANULE, NULL), WEIR_DRIVER);
    assert_int_equal(weir_set(device, bytes_at(&run, 4 * GRANULE), 1, 1, NULL), WEIR_DRIVER);
    assert_int_equal(weir_set(device, host, 1, 1, NULL), WEIR_DRIVER); /* pageable host memory */
    assert_ok(weir_device_synchronize(device));
    assert_code(CUDA_SUCCESS, run.driver->page_unmap(run.at, GRANULE));
    assert_code(CUDA_SUCCESS, run.driver->page_release(page));
    unreserve(device, &run);
}

static void unmap_takes_whole_mappings_only(void **state) {
    const struct run run = reserve(*state);
    const CUmemGenericAllocationHandle big = new_page(&run, 2 * GRANULE), small = new_page(&run, GRANULE);
    map(&run, 0, 2 * GRANULE, big);
    map(&run, 2 * GRANULE, GRANULE, small);
    map(&run, 4 * GRANULE, GRANULE, small);
    const struct weir__driver *driver = run.driver;
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_unmap(run.at, GRANULE));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_unmap(run.at + GRANULE, GRANULE));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_unmap(run.at + GRANULE, 2 * GRANULE));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_unmap(run.at, 5 * GRANULE)); /* over a gap */
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_set_access(run.at, GRANULE, &read_write, 1));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->address_free(run.at, RUN)); /* mappings remain */
    assert_code(CUDA_SUCCESS, driver->page_unmap(run.at, 3 * GRANULE));       /* two whole ones */
    assert_code(CUDA_SUCCESS, driver->page_unmap(run.at + 4 * GRANULE, GRANULE));
    assert_code(CUDA_SUCCESS, driver->page_release(big));
    assert_code(CUDA_SUCCESS, driver->page_release(small));
    unreserve(*state, &run);
}

static void a_map_needs_free_reserved_addresses_and_a_held_page(void **state) {
    const struct run run = reserve(*state);
    const struct weir__driver *driver = run.driver;
    const CUmemGenericAllocationHandle page = new_page(&run, GRANULE);
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_map(run.at, GRANULE, GRANULE, page, 0)); /* offset */
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_map(run.at, 2 * GRANULE, 0, page, 0));   /* more than it has */
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_map(run.at + 512, GRANULE, 0, page, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_map(run.at + RUN, GRANULE, 0, page, 0));
    map(&run, 0, GRANULE, page);
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_map(run.at, GRANULE, 0, page, 0)); /* taken */
    assert_code(CUDA_SUCCESS, driver->page_release(page));
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_map(run.at + GRANULE, GRANULE, 0, page, 0)); /* released */
    assert_code(CUDA_ERROR_INVALID_VALUE, driver->page_release(page));
    assert_code(CUDA_SUCCESS, driver->page_unmap(run.at, GRANULE));
    unreserve(*state, &run);
}

static void sizes_are_whole_granules(void **state) {
    const struct run run = reserve(*state);
    CUmemGenericAllocationHandle page;
    CUdeviceptr at;
    size_t granule;
    assert_code(CUDA_SUCCESS, run.driver->page_granularity(&granule, &pinned, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    assert_int_equal(granule, GRANULE);
    assert_code(CUDA_ERROR_INVALID_VALUE, run.driver->page_create(&page, GRANULE - 1, &pinned, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, run.driver->page_create(&page, 0, &pinned, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, run.driver->address_reserve(&at, GRANULE + 512, 0, 0, 0));
    assert_code(CUDA_ERROR_INVALID_VALUE, run.driver->address_reserve(&at, GRANULE, 3 * GRANULE, 0, 0));
    assert_code(CUDA_SUCCESS, run.driver->address_reserve(&at, GRANULE, 64 * GRANULE, 0, 0));
    assert_int_equal(at % (64 * GRANULE), 0);
    assert_code(CUDA_ERROR_INVALID_VALUE, run.driver->address_free(at, 2 * GRANULE));
    assert_code(CUDA_ERROR_INVALID_VALUE, run.driver->address_free(at + GRANULE, GRANULE));
    assert_code(CUDA_SUCCESS, run.driver->address_free(at, GRANULE));
    unreserve(*state, &run);
}

static void addresses_start_at_a_fixed_base_and_are_used_again(void **state) {
    const struct run run = reserve(*state);
    assert_true(run.at >= 0x550000000000ull);
    unreserve(*state, &run);
    const struct run again = reserve(*state);
    assert_int_equal(run.at, again.at);
    unreserve(*state, &again);
}

static void a_released_page_lives_while_it_is_mapped(void **state) {
    const struct run run = reserve(*state);
    const size_t before = free_bytes(&run);
    const CUmemGenericAllocationHandle page = new_page(&run, GRANULE);
    map(&run, 0, GRANULE, page);
    bytes_at(&run, 0)[0] = 1;
    assert_code(CUDA_SUCCESS, run.driver->page_release(page));
    assert_int_equal(free_bytes(&run), before - GRANULE);
    assert_int_equal(bytes_at(&run, 0)[0], 1);
    assert_code(CUDA_SUCCESS, run.driver->page_unmap(run.at, GRANULE));
    assert_int_equal(free_bytes(&run), before);
    unreserve(*state, &run);
}

static void the_device_never_gives_more_than_its_capacity(void **state) {
    const struct run run = reserve(*state);
    const size_t capacity = free_bytes(&run);
    const CUmemGenericAllocationHandle most = new_page(&run, capacity - GRANULE);
    CUmemGenericAllocationHandle last = new_page(&run, GRANULE), none;
    CUdeviceptr plain;
    assert_int_equal(free_bytes(&run), 0);
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, run.driver->page_create(&none, GRANULE, &pinned, 0));
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, run.driver->memory_alloc(&plain, 1));
    assert_code(CUDA_SUCCESS, run.driver->page_release(last));
    assert_code(CUDA_ERROR_OUT_OF_MEMORY, run.driver->page_create(&none, 2 * GRANULE, &pinned, 0));
    last = new_page(&run, GRANULE);
    assert_code(CUDA_SUCCESS, run.driver->page_release(last));
    assert_code(CUDA_SUCCESS, run.driver->page_release(most));
    assert_int_equal(free_bytes(&run), capacity);
    assert_code(CUDA_ERROR_OUT_OF_MEMORY,
                run.driver->page_create(&none, SIZE_MAX / GRANULE * GRANULE, &pinned, 0)); /* near 2^64 */
    unreserve(*state, &run);
}

/* Bytes of memory behind the device, as the system counts them. */
static size_t resident_bytes(void) {
    DIR *folder = opendir("/proc/self/fd");
    size_t resident = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char target[64] = "";
        struct stat about;
        const int descriptor = atoi(entry->d_name);
        if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) < 0) continue;
        if (strstr(target, "memfd:weir-emu") != NULL && fstat(descriptor, &about) == 0)
            resident += (size_t)about.st_blocks * 512;
    }
    closedir(folder);
    return resident;
}

static void released_memory_is_given_back_to_the_system_and_comes_back_as_zero(void **state) {
    const struct run run = reserve(*state);
    const size_t before = resident_bytes();
    for (int times = 0; times < 3; times++) {
        const CUmemGenericAllocationHandle page = new_page(&run, RUN);
        map(&run, 0, RUN, page);
        for (size_t i = 0; i < RUN; i += 512) assert_int_equal(bytes_at(&run, i)[0], 0);
        memset(bytes_at(&run, 0), 0xAB, RUN);
        assert_true(resident_bytes() >= before + RUN);
        assert_code(CUDA_SUCCESS, run.driver->page_unmap(run.at, RUN));
        assert_code(CUDA_SUCCESS, run.driver->page_release(page));
        assert_true(resident_bytes() <= before);
    }
    unreserve(*state, &run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        device_test(one_page_at_two_addresses_is_the_same_bytes),
        device_test(a_page_can_be_touched_only_as_its_access_says),
        device_test(copies_and_sets_refuse_memory_without_access),
        device_test(unmap_takes_whole_mappings_only),
        device_test(a_map_needs_free_reserved_addresses_and_a_held_page),
        device_test(sizes_are_whole_granules),
        device_test(addresses_start_at_a_fixed_base_and_are_used_again),
        device_test(a_released_page_lives_while_it_is_mapped),
        device_test(the_device_never_gives_more_than_its_capacity),
        device_test(released_memory_is_given_back_to_the_system_and_comes_back_as_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
