/* SPDX-License-Identifier: Apache-2.0 */
/* Two streams share one pool: what the copy stream gave back serves the compute stream.
 *
 * By CMake package: see CMakeLists.txt. By pkg-config: cc streams.c -o streams $(pkg-config --cflags --libs weir), and where weir
 * is outside the system's folders, -Wl,-rpath,$(pkg-config --variable=libdir weir) too.
 * Without a GPU: WEIR_DEVICE=emulated ./streams */
#include <stdio.h>
#include <weir/weir.h>

static int fail(const char *what) {
    fprintf(stderr, "streams: %s: %s\n", what, weir_last_error()->message);
    return 1;
}

int main(void) {
    struct weir_device *device = NULL;
    struct weir_pool *pool = NULL;
    struct weir_device_options options = {.size = sizeof options, .machine = "auto"};
    if (weir_device_open(&options, &device) != WEIR_OK) return fail("opening the device");
    if (weir_pool_create(device, NULL, &pool) != WEIR_OK) return fail("creating the pool");

    struct weir_device_info info = {.size = sizeof info};
    weir_device_get_info(device, &info);
    size_t bytes = info.capacity_bytes / 8 * 5; /* five eighths of the device: two of them never fit at once */

    weir_stream compute = NULL;
    weir_stream copies = NULL;
    if (weir_stream_create(device, &compute) != WEIR_OK) return fail("creating a stream");
    if (weir_stream_create(device, &copies) != WEIR_OK) return fail("creating a stream");

    void *block = NULL;
    if (weir_pool_alloc(pool, bytes, copies, &block) != WEIR_OK) return fail("the copy stream's block");
    if (weir_set(device, block, 1, bytes, copies) != WEIR_OK) return fail("filling it");
    weir_pool_free(pool, block, copies);
    /* With a pool a stream this memory would be of no use to compute: the host would have to wait for the copies and
     * pass it through the driver. Here compute waits for them on the device, and the host goes on. */
    if (weir_pool_alloc(pool, bytes, compute, &block) != WEIR_OK) return fail("the compute stream's block");
    if (weir_set(device, block, 2, bytes, compute) != WEIR_OK) return fail("filling it");
    weir_pool_free(pool, block, compute);

    struct weir_pool_stats stats = {.size = sizeof stats};
    weir_pool_get_stats(pool, &stats);
    printf("weir %s on %s%s: peak live %zu of %zu bytes, held %zu, waits on the device: %llu\n", weir_version(),
           info.name, info.emulated ? " (emulated)" : "", stats.peak_live_bytes, stats.capacity_bytes, stats.held_bytes,
           (unsigned long long)stats.device_waits);

    weir_stream_destroy(device, compute);
    weir_stream_destroy(device, copies);
    weir_pool_destroy(pool);
    weir_device_close(device);
    return 0;
}
