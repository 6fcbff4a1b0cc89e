# SPDX-License-Identifier: Apache-2.0
"""Numba's device arrays come from weir's pool."""
import numpy
from numba import cuda

import weir
import weir_numba

cuda.set_memory_manager(weir_numba.MemoryManager)
array = cuda.to_device(numpy.arange(1 << 20, dtype=numpy.float32))
print("last", array.copy_to_host()[-1], "live", weir.stats()["live_bytes"])
try:
    cuda.device_array(1 << 50, dtype=numpy.uint8)
except cuda.cudadrv.driver.CudaAPIError as error:
    print(str(error).splitlines()[0])
