# SPDX-License-Identifier: Apache-2.0
# Round figures, for tests of the virtual clock.
name        = test device
capacity    = 128 GiB
granularity = 2 MiB

arithmetic         = 1 TFLOP/s
memory_rate        = 10 GB/s
to_device_rate     = 1 GB/s
to_host_rate       = 1 GB/s
to_device_together = 0.5 GB/s
to_host_together   = 0.5 GB/s
peer_rate          = 1 GB/s
peer_latency       = 1 us
network_rate       = 1 GB/s
network_latency    = 1 us
copy_time          = 0.1 us
kernel_time        = 10 us
host_function_time = 20 us
launch_time        = 5 us
wake_time          = 1 us
jitter             = 10 %

call = 1 us
call.cuThreadExchangeStreamCaptureMode = 0 us  # changes a flag of the thread
