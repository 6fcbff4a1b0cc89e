/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver tells of devices and of results. */
#include "suite.h"

#define SUBJECT   "device"
#define REFERENCE "CUDA Driver API, Device Management, "

CASE(there_is_a_device, REFERENCE "cuDeviceGetCount") { CHECK(device_count() > 0); }

CASE(each_ordinal_has_its_own_device, REFERENCE "cuDeviceGet") {
    CUdevice first = -1;
    OK(cu.DeviceGet(&first, 0));
    for (int ordinal = 1; ordinal < device_count(); ordinal++) {
        CUdevice device = first;
        OK(cu.DeviceGet(&device, ordinal));
        CHECK(device != first);
    }
}

CASE(an_ordinal_beyond_the_last_is_refused, REFERENCE "cuDeviceGet: ordinal in [0, cuDeviceGetCount()-1]") {
    CUdevice device;
    GIVES(cu.DeviceGet(&device, device_count()), CUDA_ERROR_INVALID_DEVICE);
    GIVES(cu.DeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

CASE(the_version_is_1000_times_major_plus_10_times_minor, "CUDA Driver API, Version Management, cuDriverGetVersion") {
    int version = 0;
    OK(cu.DriverGetVersion(&version));
    CHECK(version >= 11000 && version < 100000);
    CHECK_EQUAL(0, version % 10);
}

CASE(the_version_needs_a_place,
     "CUDA Driver API, Version Management, cuDriverGetVersion: \"CUDA_ERROR_INVALID_VALUE if driverVersion is NULL\"") {
    GIVES(cu.DriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_device_has_a_name, REFERENCE "cuDeviceGetName") {
    char name[256];
    memset(name, 'x', sizeof name);
    OK(cu.DeviceGetName(name, sizeof name, DEVICE));
    CHECK(memchr(name, '\0', sizeof name) != NULL && name[0] != '\0');
}

CASE(a_name_is_cut_to_its_room, REFERENCE "cuDeviceGetName: \"name is shortened to the specified len\"") {
    char whole[256], cut[8] = "xxxxxxx";
    OK(cu.DeviceGetName(whole, sizeof whole, DEVICE));
    OK(cu.DeviceGetName(cut, 4, DEVICE));
    CHECK(memchr(cut, '\0', 4) != NULL);
    CHECK(strncmp(cut, whole, strlen(cut)) == 0);
    CHECK(cut[4] == 'x');
}

CASE(a_device_has_memory, REFERENCE "cuDeviceTotalMem") {
    size_t bytes = 0;
    OK(cu.DeviceTotalMem(&bytes, DEVICE));
    CHECK(bytes > 0 && total_memory() <= bytes);
}

CASE(a_device_that_is_not_there_has_no_memory, REFERENCE "cuDeviceTotalMem: CUDA_ERROR_INVALID_DEVICE") {
    size_t bytes;
    GIVES(cu.DeviceTotalMem(&bytes, device_count() + 5), CUDA_ERROR_INVALID_DEVICE);
}

CASE(a_device_that_is_not_there_has_no_attributes, REFERENCE "cuDeviceGetAttribute: CUDA_ERROR_INVALID_DEVICE") {
    int value;
    GIVES(cu.DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device_count() + 5), CUDA_ERROR_INVALID_DEVICE);
}

CASE(an_unknown_attribute_is_refused, REFERENCE "cuDeviceGetAttribute: CUDA_ERROR_INVALID_VALUE") {
    int value;
    GIVES(cu.DeviceGetAttribute(&value, (CUdevice_attribute)100000, DEVICE), CUDA_ERROR_INVALID_VALUE);
}

CASE(a_device_shares_one_address_space_with_the_host, "CUDA Driver API, Unified Addressing, Supported Platforms") {
    CHECK_EQUAL(1, attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING));
}

CASE(a_device_says_whether_it_shares_the_hosts_memory,
     REFERENCE "cuDeviceGetAttribute: CU_DEVICE_ATTRIBUTE_INTEGRATED") {
    const int integrated = attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED);
    CHECK(integrated == 0 || integrated == 1);
}

CASE(a_device_has_a_compute_capability,
     REFERENCE "cuDeviceGetAttribute: CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR") {
    CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 5);
}

CASE(the_bus_id_says_what_the_attributes_say, REFERENCE "cuDeviceGetPCIBusId: [domain]:[bus]:[device].[function]") {
    char id[32] = "";
    unsigned domain, bus, slot, function;
    OK(cu.DeviceGetPCIBusId(id, sizeof id, DEVICE));
    CHECK(sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4);
    CHECK_EQUAL(attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID), domain);
    CHECK_EQUAL(attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), bus);
    CHECK_EQUAL(attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID), slot);
}

CASE(a_bus_id_leads_back_to_its_device, REFERENCE "cuDeviceGetByPCIBusId") {
    char id[32] = "";
    CUdevice device = -1;
    OK(cu.DeviceGetPCIBusId(id, sizeof id, DEVICE));
    OK(cu.DeviceGetByPCIBusId(&device, id));
    CHECK_EQUAL(DEVICE, device);
}

CASE(no_two_devices_have_one_uuid, REFERENCE "cuDeviceGetUuid") {
    CUuuid first, other;
    OK(cu.DeviceGetUuid(&first, DEVICE));
    for (int ordinal = 1; ordinal < device_count(); ordinal++) {
        OK(cu.DeviceGetUuid(&other, ordinal));
        CHECK(memcmp(&first, &other, sizeof first) != 0);
    }
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

#undef SUBJECT
#define SUBJECT "errors"

CASE(a_result_has_the_name_that_the_header_gives_it, "CUDA Driver API, Error Handling, cuGetErrorName") {
    static const struct {
        CUresult code;
        const char *name;
    } results[] = {
#define RESULT(name) {name, #name}
        RESULT(CUDA_SUCCESS),
        RESULT(CUDA_ERROR_INVALID_VALUE),
        RESULT(CUDA_ERROR_OUT_OF_MEMORY),
        RESULT(CUDA_ERROR_NOT_INITIALIZED),
        RESULT(CUDA_ERROR_DEINITIALIZED),
        RESULT(CUDA_ERROR_NO_DEVICE),
        RESULT(CUDA_ERROR_INVALID_DEVICE),
        RESULT(CUDA_ERROR_INVALID_CONTEXT),
        RESULT(CUDA_ERROR_INVALID_HANDLE),
        RESULT(CUDA_ERROR_NOT_FOUND),
        RESULT(CUDA_ERROR_NOT_READY),
        RESULT(CUDA_ERROR_ILLEGAL_ADDRESS),
        RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED),
        RESULT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
        RESULT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
        RESULT(CUDA_ERROR_LAUNCH_FAILED),
        RESULT(CUDA_ERROR_NOT_PERMITTED),
        RESULT(CUDA_ERROR_NOT_SUPPORTED),
        RESULT(CUDA_ERROR_UNKNOWN),
#undef RESULT
    };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        const char *name = NULL;
        OK(cu.GetErrorName(results[i].code, &name));
        CHECK(name != NULL && strcmp(name, results[i].name) == 0);
    }
}

CASE(capture_and_peer_results_have_names_too, "CUDA Driver API, Data types, CUresult") {
    const char *name = NULL;
    OK(cu.GetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, &name));
    CHECK(name != NULL && strcmp(name, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED") == 0);
    OK(cu.GetErrorName(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, &name));
    CHECK(name != NULL && strcmp(name, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION") == 0);
    OK(cu.GetErrorName(CUDA_ERROR_CAPTURED_EVENT, &name));
    CHECK(name != NULL && strcmp(name, "CUDA_ERROR_CAPTURED_EVENT") == 0);
    OK(cu.GetErrorName(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, &name));
    CHECK(name != NULL && strcmp(name, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED") == 0);
}

CASE(a_result_has_a_text, "CUDA Driver API, Error Handling, cuGetErrorString") {
    const char *text = NULL;
    OK(cu.GetErrorString(CUDA_SUCCESS, &text));
    CHECK(text != NULL && text[0] != '\0');
    OK(cu.GetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(text != NULL && text[0] != '\0');
}

CASE(a_number_that_is_no_result_has_neither_name_nor_text,
     "CUDA Driver API, Error Handling, cuGetErrorName: \"CUDA_ERROR_INVALID_VALUE will be returned and *pStr will be "
     "set to the NULL address\"") {
    const char *name = "x", *text = "x";
    GIVES(cu.GetErrorName((CUresult)54321, &name), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.GetErrorString((CUresult)54321, &text), CUDA_ERROR_INVALID_VALUE);
    CHECK(name == NULL && text == NULL);
}

CASE(an_argument_error_does_not_spoil_the_context,
     "CUDA Driver API, Data types, CUresult: only some results leave the process in an inconsistent state") {
    CUdeviceptr block = 0;
    REFUSED(cu.MemAlloc(&block, 0));
    block = new_block(4096);
    set(block, 3, 4096, NULL);
    OK(cu.CtxSynchronize());
    CHECK(device_all_are(block, 4096, 3));
    OK(cu.MemFree(block));
}
