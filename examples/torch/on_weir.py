# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors come from weir's pool."""
import torch

import weir_torch

weir_torch.install()  # before anything uses CUDA

side = torch.cuda.Stream()
with torch.cuda.stream(side):
    gathered = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    gathered.zero_()
del gathered  # idle on the side stream, and in reach of every other one: used before anything is refused (at once: policy:footprint)
activations = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print(error)  # what fills the device, by stream
print("allocated", torch.cuda.memory_allocated(), "reserved", torch.cuda.memory_reserved())
