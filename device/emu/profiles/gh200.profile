# SPDX-License-Identifier: Apache-2.0
# gh200: one NVIDIA GH200 of a node of four (96 GB HBM3), as in the JUPITER Booster. "Assumption": no source was found;
# `weir-profile` measures it.
name        = NVIDIA GH200 120GB
note        = one superchip of a node of four; published figures and assumptions
capacity    = 97280 MiB  # 102,005,473,280 bytes: as CUDA reports it on a node of four, Alps, CSCS
granularity = 2 MiB      # cuMemGetAllocationGranularity on NVIDIA's GPUs

arithmetic         = 660 TFLOP/s  # assumption: two thirds of the data sheet's 989 (bf16, dense)
memory_rate        = 3.4 TB/s     # measured on one GH200: arXiv 2407.07850; the data sheet says 4
to_device_rate     = 346 GB/s     # measured on one GH200, copy engine: NVIDIA/nvbandwidth issue 23
to_host_rate       = 295 GB/s     # measured on one GH200: nvbandwidth issue 23, arXiv 2407.07850 (297)
to_device_together = 173 GB/s     # both ways at once about half of each: nvbandwidth issue 41
to_host_together   = 147 GB/s     # the same
peer_rate          = 150 GB/s     # NVLink, a direction and pair of GPUs: the JUPITER configuration page, JSC
peer_latency       = 2 us         # assumption
network_rate       = 25 GB/s      # one InfiniBand NDR200 a GPU: the JUPITER configuration page, JSC
network_latency    = 5 us         # assumption
copy_time          = 1.3 us       # a copy's round trip on one GB300: sgl-project/sglang issue 40278
kernel_time        = 2 us         # assumption
host_function_time = 10 us        # assumption
launch_time        = 3 us         # assumption
wake_time          = 10 us        # assumption
jitter             = 5 %          # assumption
pool_call          = 0.25 us      # in a training trace, driver calls apart: docs/profiles.md

call                     = 0.3 us         # assumption
call.cuMemCreate         = 30 us          # assumption; with those of pages below near the 80 us that a page of 2 MiB,
call.cuMemRelease        = 20 us          # one by one, took on an A100: antgroup/glake issue 22; assumption
call.cuMemMap            = 2 us           # assumption
call.cuMemSetAccess      = 40 us/handle   # assumption; a handle each: pytorch/pytorch pull request 172056
call.cuMemUnmap          = 35 us/handle   # assumption; a handle each: the same
call.cuMemAddressReserve = 20 us          # assumption
call.cuMemAddressFree    = 20 us          # assumption
call.cuMemAlloc          = 100 us + 15 us/MiB   # alloc and free of 1 GiB took 32 ms on one GH200: vortex-data/vortex
call.cuMemFree           = 100 us + 15 us/MiB   # pull request 7815; its halves, and 100 us, by assumption
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
