/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watched.h"

static void check(CUresult code, const char *entry) {
    if (code != CUDA_SUCCESS) weir__log(WEIR__LOG_WARN, "device: %s failed with %d", entry, (int)code);
}

void weir__device_hand_out(struct weir_device *device, const void *address, size_t bytes, weir_stream stream) {
    if (!device->watched || bytes == 0) return;
    check(device->driver->emu_hand_out(address, bytes, stream), "weirEmuHandOut");
}

void weir__device_take_back(struct weir_device *device, const void *address, size_t bytes, const weir_stream *streams,
                            size_t count, weir_event event) {
    if (!device->watched || bytes == 0) return;
    check(device->driver->emu_take_back(address, bytes, streams, count, event), "weirEmuTakeBack");
}

void weir__device_host_access(struct weir_device *device, const void *address, size_t bytes, bool write) {
    if (!device->watched || bytes == 0) return;
    check(device->driver->emu_host_access(address, bytes, write), "weirEmuHostAccess");
}
