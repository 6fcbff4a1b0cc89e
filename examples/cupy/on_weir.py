# SPDX-License-Identifier: Apache-2.0
"""CuPy's arrays come from weir's pool. Needs a GPU: CuPy's own copy of the CUDA runtime does not run on the emulated driver."""
import cupy
import weir
import weir_cupy

weir_cupy.install()
array = cupy.arange(1 << 20, dtype=cupy.float32)
print("sum", float(array.sum()), "live", weir.stats()["live_bytes"])
try:
    cupy.empty(1 << 50, dtype=cupy.uint8)
except cupy.cuda.memory.OutOfMemoryError as error:
    print(error)
