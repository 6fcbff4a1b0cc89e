/* SPDX-License-Identifier: Apache-2.0 */
/* Entries looked up by name and version. */
#include "suite.h"

#define SUBJECT   "look-up"
#define REFERENCE "CUDA Driver API, Driver Entry Point Access, cuGetProcAddress"

static int driver_version(void) {
    int version = 0;
    OK(cu.DriverGetVersion(&version));
    return version;
}

/* Puts the function's address where a pointer to it is meant to be. */
static void find(const char *symbol, int version, uint64_t flags, void *place) {
    void *found = NULL;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
    OK(cu.GetProcAddress(symbol, &found, version, flags, &status));
    if (found == NULL) gpu_fail(__FILE__, __LINE__, "%s of version %d is not found", symbol, version);
    CHECK_EQUAL(CU_GET_PROC_ADDRESS_SUCCESS, status);
    memcpy(place, &found, sizeof found);
}

CASE(an_entry_is_found_by_its_base_name, REFERENCE
     ": \"symbol would be cuMemAlloc and cudaVersion would be the ABI compatible CUDA version for the _v2 variant\"") {
    CUresult (*alloc)(CUdeviceptr * address, size_t bytes);
    CUresult (*release)(CUdeviceptr address);
    CUdeviceptr block = 0;
    find("cuMemAlloc", 3020, CU_GET_PROC_ADDRESS_DEFAULT, (void *)&alloc);
    find("cuMemFree", 3020, CU_GET_PROC_ADDRESS_DEFAULT, (void *)&release);
    OK(alloc(&block, 4096));
    set(block, 3, 4096, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 4096, 3));
    OK(release(block));
}

CASE(every_entry_that_is_exported_can_be_looked_up, REFERENCE) {
    static const char *const names[] = {
#define NAME(member, name, parameters) name,
        GPU_ENTRIES(NAME)
#undef NAME
    };
    const int version = driver_version();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char base[64];
        void *found;
        if (!driver_has(names[i])) continue;
        snprintf(base, sizeof base, "%s", names[i]);
        char *suffix = strstr(base, "_v");
        if (suffix != NULL) *suffix = '\0';
        find(base, version, CU_GET_PROC_ADDRESS_DEFAULT, (void *)&found);
    }
}

CASE(an_unknown_name_is_not_found, REFERENCE ": \"set the returned pfn to NULL if ... the driver symbol is invalid\"") {
    void *found = &found;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    GIVES(cu.GetProcAddress("cuNoSuchEntry", &found, driver_version(), 0, &status), CUDA_SUCCESS, CUDA_ERROR_NOT_FOUND);
    CHECK(found == NULL);
    CHECK_EQUAL(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
}

CASE(an_entry_younger_than_the_version_is_not_given, REFERENCE ": CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT") {
    void *found = &found;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    GIVES(cu.GetProcAddress("cuMemAllocAsync", &found, 10000, 0, &status), CUDA_SUCCESS, CUDA_ERROR_NOT_FOUND);
    CHECK(found == NULL);
    CHECK_EQUAL(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
}

CASE(a_version_beyond_the_drivers_is_refused, REFERENCE ": \"If the specified CUDA version is greater than the driver "
                                                        "version, the API will return CUDA_ERROR_INVALID_VALUE\"") {
    void *found;
    CUdriverProcAddressQueryResult status;
    GIVES(cu.GetProcAddress("cuMemAlloc", &found, driver_version() + 10000, 0, &status), CUDA_ERROR_INVALID_VALUE);
}

CASE(the_status_may_be_left_out, REFERENCE ": \"Optional location to store the status\"") {
    void *found = NULL;
    OK(cu.GetProcAddress("cuStreamQuery", &found, driver_version(), 0, NULL));
    CHECK(found != NULL);
}

CASE(the_older_form_finds_entries_too,
     "CUDA Driver API 11.3, Driver Entry Point Access, cuGetProcAddress with four parameters") {
    CUresult (*query)(CUstream stream);
    void *found = NULL;
    OK(cu.GetProcAddressOld("cuStreamQuery", &found, 11030, 0));
    CHECK(found != NULL);
    memcpy((void *)&query, &found, sizeof found);
    OK(query(NULL));
    found = &found;
    GIVES(cu.GetProcAddressOld("cuNoSuchEntry", &found, 11030, 0), CUDA_ERROR_NOT_FOUND, CUDA_SUCCESS);
    CHECK(found == NULL);
}

CASE(the_version_says_which_form_of_an_entry_is_given,
     REFERENCE ": \"the function pointer to the corresponding versioned function\"") {
    CUresult (*six)(CUstream, CUstreamCaptureStatus *, uint64_t *, CUgraph *, const CUgraphNode **, size_t *);
    CUresult (*seven)(CUstream, CUstreamCaptureStatus *, uint64_t *, CUgraph *, const CUgraphNode **, const void **,
                      size_t *);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)99;
    uint64_t id;
    CUgraph graph;
    const CUgraphNode *nodes;
    const void *edges;
    size_t count;
    find("cuStreamGetCaptureInfo", 11030, 0, (void *)&six);
    OK(six(stream, &status, &id, &graph, &nodes, &count));
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status);
    SKIP_IF(driver_version() < 12030, "the driver is older than the later form");
    status = (CUstreamCaptureStatus)99;
    find("cuStreamGetCaptureInfo", 12030, 0, (void *)&seven);
    OK(seven(stream, &status, &id, &graph, &nodes, &edges, &count));
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status);
    OK(cu.StreamDestroy(stream));
}

/* While the thread's own stream is held, null means it for one of the functions only. */
static void null_means(CUresult (*legacy)(CUstream), CUresult (*per_thread)(CUstream)) {
    struct gate *gate = hold(CU_STREAM_PER_THREAD);
    GIVES(per_thread(NULL), CUDA_ERROR_NOT_READY);
    OK(legacy(NULL));
    let_go(gate);
    OK(cu.StreamSynchronize(CU_STREAM_PER_THREAD));
    OK(per_thread(NULL));
}

CASE(null_means_the_threads_stream_where_it_is_asked_for, REFERENCE ": CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM") {
    CUresult (*legacy)(CUstream), (*per_thread)(CUstream);
    find("cuStreamQuery", driver_version(), CU_GET_PROC_ADDRESS_LEGACY_STREAM, (void *)&legacy);
    find("cuStreamQuery", driver_version(), CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, (void *)&per_thread);
    null_means(legacy, per_thread);
}

CASE(an_entry_without_a_per_thread_form_is_given_as_it_is, REFERENCE
     ": \"If a per-thread version is not found, the API will return the legacy version of the driver function\"") {
    CUresult (*alloc)(CUdeviceptr * address, size_t bytes);
    CUdeviceptr block = 0;
    find("cuMemAlloc", driver_version(), CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, (void *)&alloc);
    OK(alloc(&block, 4096));
    OK(cu.MemFree(block));
}

CASE(copies_and_sets_have_per_thread_forms, REFERENCE ": CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM") {
    CUresult (*set_bytes)(CUdeviceptr, unsigned char, size_t, CUstream);
    CUresult (*copy_bytes)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    const CUdeviceptr first = new_block(4096), second = new_block(4096);
    find("cuMemsetD8Async", driver_version(), CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, (void *)&set_bytes);
    find("cuMemcpyAsync", driver_version(), CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, (void *)&copy_bytes);
    struct gate *gate = hold(CU_STREAM_PER_THREAD);
    OK(set_bytes(first, 5, 4096, NULL));
    OK(copy_bytes(second, first, 4096, NULL));
    OK(cu.StreamQuery(NULL)); /* the legacy stream has no part in it */
    stays_pending(CU_STREAM_PER_THREAD);
    let_go(gate);
    OK(cu.StreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(device_all_are(second, 4096, 5));
    OK(cu.MemFree(first));
    OK(cu.MemFree(second));
}
