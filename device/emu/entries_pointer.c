/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that tell what lies at an address. */
#include <string.h>

#include "device/emu/emu.h"
#include "device/emu/host.h"
#include "device/emu/memory_inside.h"
#include "device/emu/pool.h"

/* What the books say of an address: all NULL for what the driver does not know. */
struct found {
    uintptr_t address;
    const struct emu_pinned *pinned;
    const struct reservation *reservation;
    const struct mapping *mapping;
};

static struct found find(CUdeviceptr address) {
    const uintptr_t at = (uintptr_t)address;
    struct found found = {.address = at, .pinned = emu_host_find(at)};
    if (found.pinned == NULL) found.reservation = emu_reservation_at(at);
    if (found.reservation != NULL) found.mapping = emu_mapping_at(at);
    return found;
}

static bool is_plain(const struct found *found) {
    return found->reservation != NULL && found->reservation->plain.context != NULL;
}

/* ---- whose it is ------------------------------------------------------------------------------------------------ */

/* Pages that the program maps belong to no context. */
static CUcontext context_of(const struct found *found) {
    if (found->pinned != NULL) return found->pinned->context;
    return is_plain(found) ? found->reservation->plain.context : NULL;
}

static CUdevice device_of(const struct found *found) {
    if (found->pinned != NULL) return found->pinned->context->device;
    return found->mapping != NULL ? found->mapping->page->device : -2 /* CU_DEVICE_INVALID */;
}

static uint64_t id_of(const struct found *found) {
    if (found->pinned != NULL) return found->pinned->id;
    if (is_plain(found)) return found->reservation->id;
    return found->mapping != NULL ? found->mapping->page->id : 0;
}

static bool is_managed(const struct found *found) { return is_plain(found) && found->reservation->plain.managed; }

static CUmemoryPool pool_of(const struct found *found) {
    return is_plain(found) ? found->reservation->plain.pool : NULL;
}

/* ---- where it lies ---------------------------------------------------------------------------------------------- */

struct run {
    uintptr_t start;
    size_t bytes;
};

/* What was asked for, of whatever kind; for pages, the reservation. */
static struct run range_of(const struct found *found) {
    if (found->pinned != NULL) return (struct run){found->pinned->start, found->pinned->bytes};
    if (found->reservation == NULL) return (struct run){0};
    const struct reservation *reservation = found->reservation;
    return (struct run){reservation->range.start, is_plain(found) ? reservation->asked : reservation->range.bytes};
}

/* What is mapped in one piece. */
static struct run mapped_of(const struct found *found) {
    if (found->pinned != NULL || is_plain(found)) return range_of(found);
    if (found->mapping == NULL) return (struct run){0};
    return (struct run){found->mapping->range.start, found->mapping->range.bytes};
}

static bool inside(const struct run run, uintptr_t address) {
    return run.bytes > 0 && address >= run.start && address - run.start < run.bytes;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuMemGetAddressRange_v2, &context);
    if (code != CUDA_SUCCESS) return code;
    const struct found found = find(address);
    const struct run run = mapped_of(&found);
    if (!inside(run, (uintptr_t)address)) return emu_leave(CUDA_ERROR_NOT_FOUND);
    if (base != NULL) *base = run.start;
    if (bytes != NULL) *bytes = run.bytes;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

/* How long each attribute's value is, for those that can be asked here; 0: not known. */
static size_t value_bytes(CUpointer_attribute attribute) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return 8;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return 1;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        break;
    }
    return 0;
}

static bool host_may_touch(const struct found *found) { return found->pinned != NULL || is_managed(found); }

static uint64_t handle_types(const struct found *found) {
    const bool page = found->mapping != NULL && !is_plain(found);
    return page ? (uint64_t)found->mapping->page->properties.requestedHandleTypes : 0;
}

/* Device memory that is not mapped has a range, and little else. */
static CUresult read_attribute(const struct found *found, CUpointer_attribute attribute, CUdevice device,
                               uint64_t *value) {
    const bool known = found->pinned != NULL || found->mapping != NULL;
    const bool range_only = attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                            attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE || attribute == CU_POINTER_ATTRIBUTE_MAPPED;
    *value = 0;
    if (!known && !(range_only && found->reservation != NULL)) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *value = (uintptr_t)context_of(found);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *value = found->pinned != NULL ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *value = found->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host_may_touch(found)) return CUDA_ERROR_INVALID_VALUE;
        *value = found->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *value = id_of(found);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *value = found->mapping != NULL ? found->mapping->page->id : id_of(found);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *value = is_managed(found);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *value = (uint32_t)device_of(found);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *value = range_of(found).start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *value = range_of(found).bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *value = known;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *value = mapped_of(found).start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *value = mapped_of(found).bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *value = handle_types(found);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *value = found->mapping != NULL ? found->mapping->access[device] : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *value = (uintptr_t)pool_of(found);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: /* none of these can be had here */
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        break;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Values are little-endian wherever CUDA is, so the low bytes are the shorter value. */
static void write_value(void *place, uint64_t value, size_t bytes) { memcpy(place, &value, bytes); }

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    CUcontext context;
    CUresult code = emu_enter(EMU_AT_cuPointerGetAttribute, &context);
    if (code != CUDA_SUCCESS) return code;
    const struct found found = find(address);
    uint64_t value;
    if (data == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (value_bytes(attribute) == 0) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    code = read_attribute(&found, attribute, context->device, &value);
    if (code == CUDA_SUCCESS) write_value(data, value, value_bytes(attribute));
    return emu_leave(code);
}

/* What does not apply is 0, and no error; of the device ordinal, CU_DEVICE_INVALID. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuPointerGetAttributes, &context);
    if (code != CUDA_SUCCESS) return code;
    if (count == 0 || attributes == NULL || data == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++)
        if (value_bytes(attributes[i]) == 0 || data[i] == NULL) return emu_leave(CUDA_ERROR_INVALID_VALUE);
    const struct found found = find(address);
    for (unsigned i = 0; i < count; i++) {
        uint64_t value;
        const CUresult each = read_attribute(&found, attributes[i], context->device, &value);
        if (each != CUDA_SUCCESS && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            value = (uint32_t)device_of(&found);
        write_value(data[i], value, value_bytes(attributes[i]));
    }
    return emu_leave(CUDA_SUCCESS);
}

/* The one attribute that can be set asks for what is so anyway: a synchronous call is over when it returns. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    CUcontext context;
    const CUresult code = emu_enter(EMU_AT_cuPointerSetAttribute, &context);
    if (code != CUDA_SUCCESS) return code;
    const struct found found = find(address);
    const bool known = found.pinned != NULL || found.mapping != NULL;
    const bool valid = value != NULL && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && known;
    return emu_leave(valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
