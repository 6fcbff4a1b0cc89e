/* SPDX-License-Identifier: Apache-2.0 */
/* A wait is missing: the copy stream sends a buffer to the host that the compute stream fills. On most runs nothing goes
 * wrong. The emulated driver's watch says so on every run:
 *
 *     WEIR_DEVICE=emulated WEIR_EMU=watch:on WEIR_LOG=warn ./watch             reports the race
 *     WEIR_DEVICE=emulated WEIR_EMU=watch:on WEIR_LOG=warn ./watch --wait      says nothing */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

static void must(enum weir_status status) {
    if (status != WEIR_OK) fprintf(stderr, "watch: %s\n", weir_last_error()->message);
}

int main(int count, char **arguments) {
    enum { BYTES = 1 << 20 };
    struct weir_device *device = NULL;
    struct weir_pool *pool = NULL;
    weir_stream compute = NULL, copies = NULL;
    weir_event filled = NULL;
    void *buffer = NULL, *host = NULL;
    must(weir_device_open(NULL, &device));
    if (device == NULL) return 1;
    must(weir_pool_create(device, NULL, &pool));
    must(weir_stream_create(device, &compute));
    must(weir_stream_create(device, &copies));
    must(weir_event_create(device, false, &filled));
    must(weir_host_alloc(device, BYTES, &host));

    must(weir_pool_alloc(pool, BYTES, compute, &buffer));
    must(weir_set(device, buffer, 42, BYTES, compute));
    must(weir_event_record(device, filled, compute));
    if (count > 1 && strcmp(arguments[1], "--wait") == 0) must(weir_stream_wait(device, copies, filled));
    must(weir_copy(device, host, buffer, BYTES, copies));
    must(weir_stream_synchronize(device, copies));
    printf("the first byte is %d\n", *(unsigned char *)host);

    must(weir_pool_note(pool, buffer, copies));
    must(weir_pool_free(pool, buffer, compute));
    must(weir_host_free(device, host));
    must(weir_event_destroy(device, filled));
    must(weir_stream_destroy(device, compute));
    must(weir_stream_destroy(device, copies));
    weir_pool_destroy(pool);
    weir_device_close(device);
    return 0;
}
