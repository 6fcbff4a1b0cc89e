# SPDX-License-Identifier: Apache-2.0
# demo: a scale model, no real device. Its granules are 16 KiB where a GPU's are 2 MiB, so that a job of tens of MiB
# takes as many pages, and leaves as much stranded, as one of tens of GiB takes on a GPU.
# A granule costs what 2 MiB cost on a GPU: rates are those of profile gh200 over 128, times and calls are its own.
name        = weir emulated device, scale model
note        = a scale model: 16 KiB granules stand for 2 MiB ones
capacity    = 64 MiB   # 4,096 granules; WEIR_EMU=capacity:... changes it
granularity = 16 KiB   # in the place of 2 MiB

arithmetic         = 5.2 TFLOP/s   # gh200 over 128
memory_rate        = 26.6 GB/s     # gh200 over 128
to_device_rate     = 2.7 GB/s      # gh200 over 128
to_host_rate       = 2.3 GB/s      # gh200 over 128
to_device_together = 1.35 GB/s     # gh200 over 128
to_host_together   = 1.15 GB/s     # gh200 over 128
peer_rate          = 1.17 GB/s     # gh200 over 128
peer_latency       = 2 us          # as gh200
network_rate       = 195 MB/s      # gh200 over 128
network_latency    = 5 us          # as gh200
copy_time          = 1.3 us        # as gh200
kernel_time        = 2 us          # as gh200
host_function_time = 10 us         # as gh200
launch_time        = 3 us          # as gh200
wake_time          = 10 us         # as gh200
jitter             = 5 %           # as gh200
pool_call          = 0.25 us      # in a training trace, driver calls apart: docs/profiles.md

call                     = 0.3 us                 # as gh200
call.cuMemCreate         = 30 us                  # as gh200
call.cuMemRelease        = 20 us                  # as gh200
call.cuMemMap            = 2 us                   # as gh200
call.cuMemSetAccess      = 40 us/handle           # as gh200
call.cuMemUnmap          = 35 us/handle           # as gh200
call.cuMemAddressReserve = 20 us                  # as gh200
call.cuMemAddressFree    = 20 us                  # as gh200
call.cuMemAlloc          = 100 us + 30 us/page    # as gh200, a page of 2 MiB
call.cuMemFree           = 100 us + 30 us/page    # as gh200, a page of 2 MiB
call.cuMemHostAlloc      = 100 us + 200 us/page   # as gh200, a page of 2 MiB
call.cuMemFreeHost       = 100 us + 40 us/page    # as gh200, a page of 2 MiB
call.cuMemHostRegister   = 100 us + 200 us/page   # as gh200, a page of 2 MiB
call.cuMemHostUnregister = 100 us + 40 us/page    # as gh200, a page of 2 MiB
call.cuMemcpy*           = 2.3 us                 # as gh200
call.cuMemset*           = 2.3 us                 # as gh200
call.cuLaunch*           = 5 us                   # as gh200
call.cuEventRecord       = 0.5 us                 # as gh200
call.cuCtxRecordEvent    = 0.5 us                 # as cuEventRecord
call.cuStreamIsCapturing = 0 us                   # reads a flag; in pool_call
call.cuThreadExchangeStreamCaptureMode = 0 us  # changes a flag of the thread
call.cuEventCreate       = 2.4 us                 # as gh200
call.cuEventDestroy      = 2.6 us                 # as gh200
