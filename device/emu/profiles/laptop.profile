# SPDX-License-Identifier: Apache-2.0
# laptop: a GPU of the class of an NVIDIA GeForce RTX 4070 Laptop (8 GB GDDR6), on PCIe 4 x8. "Assumption": no source
# was found; `weir-profile` measures it.
name        = NVIDIA GeForce RTX 4070 Laptop GPU
note        = a laptop's GPU; published figures and assumptions
capacity    = 7940 MiB  # assumption: 8 GiB less what the driver keeps
granularity = 2 MiB     # cuMemGetAllocationGranularity on NVIDIA's GPUs

arithmetic         = 30 TFLOP/s  # assumption: bf16 with sums in fp32, at about 60 W
memory_rate        = 218 GB/s    # assumption: 85 % of the data sheet's 256
to_device_rate     = 12.5 GB/s   # assumption: 80 % of the link's 15.75 (PCIe 4 x8)
to_host_rate       = 12.5 GB/s   # the same
to_device_together = 10 GB/s     # assumption
to_host_together   = 10 GB/s     # assumption
peer_latency       = 10 us       # assumption; peers, if any, go through the host: peer_rate is as a copy's
network_rate       = 0.125 GB/s  # gigabit Ethernet
network_latency    = 50 us       # assumption
copy_time          = 5 us        # assumption
kernel_time        = 2 us        # assumption
host_function_time = 20 us       # assumption
launch_time        = 5 us        # assumption
wake_time          = 20 us       # assumption
jitter             = 10 %        # assumption
pool_call          = 0.25 us      # in a training trace, driver calls apart: docs/profiles.md

call                     = 0.3 us         # assumption
call.cuMemCreate         = 30 us          # assumption; with those of pages below near the 80 us that a page of 2 MiB,
call.cuMemRelease        = 20 us          # one by one, took on an A100: antgroup/glake issue 22; assumption
call.cuMemMap            = 2 us           # assumption
call.cuMemSetAccess      = 40 us/handle   # assumption; a handle each: pytorch/pytorch pull request 172056
call.cuMemUnmap          = 35 us/handle   # assumption; a handle each: the same
call.cuMemAddressReserve = 20 us          # assumption
call.cuMemAddressFree    = 20 us          # assumption
call.cuMemAlloc          = 300 us + 1 us/MiB    # assumption
call.cuMemFree           = 300 us + 1 us/MiB    # assumption
call.cuMemHostAlloc      = 100 us + 100 us/MiB  # pinning 1 GiB takes 0.1 s: rapidsai/rmm pull request 2496
call.cuMemFreeHost       = 100 us + 20 us/MiB   # assumption
call.cuMemHostRegister   = 100 us + 100 us/MiB  # as cuMemHostAlloc
call.cuMemHostUnregister = 100 us + 20 us/MiB   # assumption
call.cuMemcpy*           = 2.3 us         # taco-project/FlexKV pull request 193
call.cuMemset*           = 2.3 us         # assumption: as a copy
call.cuLaunch*           = 5 us           # assumption; kernels and host functions
call.cuEventRecord       = 0.5 us         # cms-patatrack/pixeltrack-standalone issue 218
call.cuCtxRecordEvent    = 0.5 us         # as cuEventRecord
call.cuStreamIsCapturing = 0 us           # reads a flag; in pool_call
call.cuThreadExchangeStreamCaptureMode = 0 us  # changes a flag of the thread
call.cuEventCreate       = 2.4 us         # pytorch/pytorch pull request 78279
call.cuEventDestroy      = 2.6 us         # the same
