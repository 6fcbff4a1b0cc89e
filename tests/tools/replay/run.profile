# SPDX-License-Identifier: Apache-2.0
# Round figures, for times computed by hand.
name        = test device
capacity    = 128 GiB
granularity = 2 MiB

arithmetic     = 1 TFLOP/s
memory_rate    = 10 GB/s
to_device_rate = 1 GB/s
to_host_rate   = 1 GB/s
launch_time    = 5 us
wake_time      = 3 us
pool_call      = 2 us

call           = 1 us
call.cuStreamIsCapturing = 0 us  # reads a flag
call.cuThreadExchangeStreamCaptureMode = 0 us  # changes a flag of the thread
call.cuLaunch* = 10 us
