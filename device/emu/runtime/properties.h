/* SPDX-License-Identifier: Apache-2.0 */
/* Which device attribute each member of the device's properties is. */
#ifndef WEIR_EMU_RUNTIME_PROPERTIES_H
#define WEIR_EMU_RUNTIME_PROPERTIES_H

/* X(member, device attribute): members of the device's properties, of both versions and of one. */
#define RT_PROPERTY_LIST(X)                                                                                            \
    X(sharedMemPerBlock, 8)                                                                                            \
    X(regsPerBlock, 12)                                                                                                \
    X(warpSize, 10)                                                                                                    \
    X(memPitch, 11)                                                                                                    \
    X(maxThreadsPerBlock, 1)                                                                                           \
    X(maxThreadsDim[0], 2)                                                                                             \
    X(maxThreadsDim[1], 3)                                                                                             \
    X(maxThreadsDim[2], 4)                                                                                             \
    X(maxGridSize[0], 5)                                                                                               \
    X(maxGridSize[1], 6)                                                                                               \
    X(maxGridSize[2], 7)                                                                                               \
    X(totalConstMem, 9)                                                                                                \
    X(major, 75)                                                                                                       \
    X(minor, 76)                                                                                                       \
    X(textureAlignment, 14)                                                                                            \
    X(texturePitchAlignment, 51)                                                                                       \
    X(multiProcessorCount, 16)                                                                                         \
    X(integrated, 18)                                                                                                  \
    X(canMapHostMemory, 19)                                                                                            \
    X(maxTexture1D, 21)                                                                                                \
    X(maxTexture1DMipmap, 77)                                                                                          \
    X(maxTexture2D[0], 22)                                                                                             \
    X(maxTexture2D[1], 23)                                                                                             \
    X(maxTexture2DMipmap[0], 73)                                                                                       \
    X(maxTexture2DMipmap[1], 74)                                                                                       \
    X(maxTexture2DLinear[0], 70)                                                                                       \
    X(maxTexture2DLinear[1], 71)                                                                                       \
    X(maxTexture2DLinear[2], 72)                                                                                       \
    X(maxTexture2DGather[0], 45)                                                                                       \
    X(maxTexture2DGather[1], 46)                                                                                       \
    X(maxTexture3D[0], 24)                                                                                             \
    X(maxTexture3D[1], 25)                                                                                             \
    X(maxTexture3D[2], 26)                                                                                             \
    X(maxTexture3DAlt[0], 47)                                                                                          \
    X(maxTexture3DAlt[1], 48)                                                                                          \
    X(maxTexture3DAlt[2], 49)                                                                                          \
    X(maxTextureCubemap, 52)                                                                                           \
    X(maxTexture1DLayered[0], 42)                                                                                      \
    X(maxTexture1DLayered[1], 43)                                                                                      \
    X(maxTexture2DLayered[0], 27)                                                                                      \
    X(maxTexture2DLayered[1], 28)                                                                                      \
    X(maxTexture2DLayered[2], 29)                                                                                      \
    X(maxTextureCubemapLayered[0], 53)                                                                                 \
    X(maxTextureCubemapLayered[1], 54)                                                                                 \
    X(maxSurface1D, 55)                                                                                                \
    X(maxSurface2D[0], 56)                                                                                             \
    X(maxSurface2D[1], 57)                                                                                             \
    X(maxSurface3D[0], 58)                                                                                             \
    X(maxSurface3D[1], 59)                                                                                             \
    X(maxSurface3D[2], 60)                                                                                             \
    X(maxSurface1DLayered[0], 61)                                                                                      \
    X(maxSurface1DLayered[1], 62)                                                                                      \
    X(maxSurface2DLayered[0], 63)                                                                                      \
    X(maxSurface2DLayered[1], 64)                                                                                      \
    X(maxSurface2DLayered[2], 65)                                                                                      \
    X(maxSurfaceCubemap, 66)                                                                                           \
    X(maxSurfaceCubemapLayered[0], 67)                                                                                 \
    X(maxSurfaceCubemapLayered[1], 68)                                                                                 \
    X(surfaceAlignment, 30)                                                                                            \
    X(concurrentKernels, 31)                                                                                           \
    X(ECCEnabled, 32)                                                                                                  \
    X(pciBusID, 33)                                                                                                    \
    X(pciDeviceID, 34)                                                                                                 \
    X(pciDomainID, 50)                                                                                                 \
    X(tccDriver, 35)                                                                                                   \
    X(asyncEngineCount, 40)                                                                                            \
    X(unifiedAddressing, 41)                                                                                           \
    X(memoryBusWidth, 37)                                                                                              \
    X(l2CacheSize, 38)                                                                                                 \
    X(persistingL2CacheMaxSize, 108)                                                                                   \
    X(maxThreadsPerMultiProcessor, 39)                                                                                 \
    X(streamPrioritiesSupported, 78)                                                                                   \
    X(globalL1CacheSupported, 79)                                                                                      \
    X(localL1CacheSupported, 80)                                                                                       \
    X(sharedMemPerMultiprocessor, 81)                                                                                  \
    X(regsPerMultiprocessor, 82)                                                                                       \
    X(managedMemory, 83)                                                                                               \
    X(isMultiGpuBoard, 84)                                                                                             \
    X(multiGpuBoardGroupID, 85)                                                                                        \
    X(hostNativeAtomicSupported, 86)                                                                                   \
    X(pageableMemoryAccess, 88)                                                                                        \
    X(concurrentManagedAccess, 89)                                                                                     \
    X(computePreemptionSupported, 90)                                                                                  \
    X(canUseHostPointerForRegisteredMem, 91)                                                                           \
    X(cooperativeLaunch, 95)                                                                                           \
    X(sharedMemPerBlockOptin, 97)                                                                                      \
    X(pageableMemoryAccessUsesHostPageTables, 100)                                                                     \
    X(directManagedMemAccessFromHost, 101)                                                                             \
    X(maxBlocksPerMultiProcessor, 106)                                                                                 \
    X(accessPolicyMaxWindowSize, 109)                                                                                  \
    X(reservedSharedMemPerBlock, 111)                                                                                  \
    X(hostRegisterSupported, 99)                                                                                       \
    X(sparseCudaArraySupported, 112)                                                                                   \
    X(hostRegisterReadOnlySupported, 113)                                                                              \
    X(timelineSemaphoreInteropSupported, 114)                                                                          \
    X(memoryPoolsSupported, 115)                                                                                       \
    X(gpuDirectRDMASupported, 116)                                                                                     \
    X(gpuDirectRDMAFlushWritesOptions, 117)                                                                            \
    X(gpuDirectRDMAWritesOrdering, 118)                                                                                \
    X(memoryPoolSupportedHandleTypes, 119)                                                                             \
    X(deferredMappingCudaArraySupported, 121)                                                                          \
    X(ipcEventSupported, 125)                                                                                          \
    X(clusterLaunch, 120)                                                                                              \
    X(unifiedFunctionPointers, 129)
#define RT_PROPERTY_12_LIST(X)                                                                                         \
    X(clockRate, 13)                                                                                                   \
    X(deviceOverlap, 15)                                                                                               \
    X(kernelExecTimeoutEnabled, 17)                                                                                    \
    X(computeMode, 20)                                                                                                 \
    X(maxTexture1DLinear, 69)                                                                                          \
    X(memoryClockRate, 36)                                                                                             \
    X(singleToDoublePrecisionPerfRatio, 87)                                                                            \
    X(cooperativeMultiDeviceLaunch, 96)
#define RT_PROPERTY_13_LIST(X)                                                                                         \
    X(deviceNumaConfig, 130)                                                                                           \
    X(deviceNumaId, 131)                                                                                               \
    X(mpsEnabled, 133)                                                                                                 \
    X(hostNumaId, 134)                                                                                                 \
    X(gpuPciDeviceID, 139)                                                                                             \
    X(gpuPciSubsystemID, 140)                                                                                          \
    X(hostNumaMultinodeIpcSupported, 143)

#if RT_MAJOR == 12
#define RT_PROPERTY_OWN_LIST RT_PROPERTY_12_LIST
#else
#define RT_PROPERTY_OWN_LIST RT_PROPERTY_13_LIST
#endif

#endif
