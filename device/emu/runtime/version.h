/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between CUDA 12's runtime and CUDA 13's: RT_MAJOR says which one is built. Where CUDA 13 gave a name a new
 * type, CUDA 12 calls the new one by another name. */
#ifndef WEIR_EMU_RUNTIME_VERSION_H
#define WEIR_EMU_RUNTIME_VERSION_H

#include "device/emu/runtime/properties.h"
#include "device/emu/runtime/rt.h"

#if RT_MAJOR == 12
#define RT_NEW(name)    name##_v2
#define RT_NEWEST(name) name##_v3 /* of what was renewed twice */
RT_12_LIST(RT_DECLARE)
extern RT_API __typeof__(cudaMemPrefetchAsync) cudaMemPrefetchAsync_ptsz;
extern RT_API __typeof__(cudaMemPrefetchAsync_v2) cudaMemPrefetchAsync_v2_ptsz;
extern RT_API __typeof__(cudaStreamGetCaptureInfo) cudaStreamGetCaptureInfo_ptsz;
extern RT_API __typeof__(cudaStreamGetCaptureInfo_v2) cudaStreamGetCaptureInfo_v2_ptsz;
extern RT_API __typeof__(cudaStreamGetCaptureInfo_v3) cudaStreamGetCaptureInfo_v3_ptsz;
extern RT_API __typeof__(cudaStreamUpdateCaptureDependencies) cudaStreamUpdateCaptureDependencies_ptsz;
extern RT_API __typeof__(cudaStreamUpdateCaptureDependencies_v2) cudaStreamUpdateCaptureDependencies_v2_ptsz;
#else
#define RT_NEW(name)    name
#define RT_NEWEST(name) name
RT_13_LIST(RT_DECLARE)
RT_13_PTSZ_LIST(RT_DECLARE_PTSZ)
#endif

/* versioned.c: a device attribute; one that the driver does not know is 0. */
int rt_attribute(int attribute, int device);
#define RT_FILL(member, attribute) properties->member = (__typeof__(properties->member))rt_attribute(attribute, device);
/* Name, uuid and capacity; places are those of the properties' members. */
cudaError_t rt_identify(int device, char *name, size_t room, cudaUUID_t *uuid, size_t *bytes);

#endif
