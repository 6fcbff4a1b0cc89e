# SPDX-License-Identifier: Apache-2.0
# h200: one NVIDIA H200 SXM (141 GB HBM3e) of a host of eight, on PCIe 5 x16. "Assumption": no source was found;
# `weir-profile` measures it.
name        = NVIDIA H200
note        = one GPU of a host of eight; published figures and assumptions
capacity    = 143164 MiB  # about 139.8 GiB, as CUDA reports it; the data sheet says 141 GB
granularity = 2 MiB       # cuMemGetAllocationGranularity on NVIDIA's GPUs

arithmetic         = 660 TFLOP/s  # assumption: two thirds of the data sheet's 989 (bf16, dense)
memory_rate        = 4.1 TB/s     # assumption: 85 % of the data sheet's 4.8, the share that a GH200 reaches of its 4
to_device_rate     = 55.3 GB/s    # measured on one H200, 64 MiB pinned: deepspeedai/DeepSpeed issue 8283
to_host_rate       = 52.5 GB/s    # measured on one H200: the same
to_device_together = 45 GB/s      # assumption
to_host_together   = 45 GB/s      # assumption
peer_rate          = 380 GB/s     # NVLink, one direction, measured on H100 SXM: NVIDIA/nccl issue 1264
peer_latency       = 2 us         # assumption
network_rate       = 50 GB/s      # one NDR400 a GPU: the DGX H200 data sheet
network_latency    = 5 us         # assumption
copy_time          = 2 us         # assumption
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
