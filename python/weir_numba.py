# SPDX-License-Identifier: Apache-2.0
"""Numba on weir: an external memory manager.

    NUMBA_CUDA_MEMORY_MANAGER=weir_numba python program.py

or, before anything uses CUDA, numba.cuda.set_memory_manager(weir_numba.MemoryManager). Numba names no stream when it allocates or
frees: a block is ready for every stream at once, and serves others when all that was queued by its free has passed.
"""
import ctypes
import weakref

import weir
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError, driver

__all__ = ["MemoryManager"]

_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):
    """Device memory from weir's pools; pinned memory as ever. Fails as Numba's own does: CudaAPIError, with weir's report."""

    @property
    def interface_version(self):
        return 1

    def initialize(self):
        self._library = weir.library()
        self._malloc = self._library.weir_cupy_malloc  # blocks of no stream
        self._malloc.restype = ctypes.c_void_p
        self._malloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._free = self._library.weir_cupy_free
        self._free.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]

    def memalloc(self, size):
        device = self.context.device.id

        def allocate():
            block = self._malloc(None, size, device)
            if block is None:
                try:
                    weir.raise_last(device)
                except weir.OutOfMemory as error:
                    raise CudaAPIError(_OUT_OF_MEMORY, str(error)) from None
            return block

        block = self._attempt_allocation(allocate)
        free = self._free
        return cuda.MemoryPointer(weakref.proxy(self.context), ctypes.c_void_p(block), size,
                                  finalizer=lambda: free(None, block, device))

    def get_memory_info(self):
        free, total = driver.cuMemGetInfo()
        figures = weir.stats(self.context.device.id)
        return cuda.MemoryInfo(free=free + figures["held_bytes"] - figures["live_bytes"], total=total)

    def get_ipc_handle(self, memory):
        raise NotImplementedError("weir's memory has no IPC handle")


_numba_memory_manager = MemoryManager
