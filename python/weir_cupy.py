# SPDX-License-Identifier: Apache-2.0
"""CuPy on weir.

    import weir_cupy
    weir_cupy.install()           # all later arrays come from weir's pools

CuPy names no stream when it allocates or frees: a block is ready for every stream at once, and serves others when all that was queued by
its free has passed.
"""
import ctypes

import weir

__all__ = ["allocator", "install"]

_made = None


def _device():
    from cupy.cuda import runtime

    return runtime.getDevice()


def _make():
    from cupy.cuda import memory

    class OutOfMemoryError(memory.OutOfMemoryError):
        """CuPy's own, with weir's report."""

        def __init__(self, size, total, text):
            super().__init__(size, total)
            self._text = text

        def __str__(self):
            return self._text

    library = weir.library()
    functions = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in ("weir_cupy_malloc", "weir_cupy_free")]

    def allocate(size):
        """As CFunctionAllocator.malloc, but that NULL, for which CuPy does not look, is an error."""
        device = _device()
        block = memory.CFunctionAllocatorMemory(size, 0, *functions, device)
        if size > 0 and not block.ptr:
            try:
                weir.raise_last(device)
            except weir.OutOfMemory as error:
                raise OutOfMemoryError(size, weir.stats(device)["live_bytes"], str(error)) from None
        return memory.MemoryPointer(block, 0)

    return allocate


def allocator():
    """Gives: an allocator for cupy.cuda.set_allocator and using_allocator."""
    global _made
    if _made is None:
        _made = _make()
    return _made


def install():
    """Makes weir the allocator of CuPy's device memory; what CuPy has allocated before goes back where it came from."""
    import cupy

    cupy.cuda.set_allocator(allocator())
