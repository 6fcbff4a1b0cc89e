# SPDX-License-Identifier: Apache-2.0
# demo: a scale model, no real device. Its granules are 16 KiB where a GPU's are 2 MiB, so that a job of tens of MiB
# takes as many pages, and leaves as much stranded, as one of tens of GiB takes on a GPU.
name        = weir emulated device, scale model
note        = a scale model: 16 KiB granules stand for 2 MiB ones
capacity    = 64 MiB   # 4,096 granules; WEIR_EMU=capacity:... changes it
granularity = 16 KiB
