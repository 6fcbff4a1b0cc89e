# SPDX-License-Identifier: Apache-2.0
"""RMM on weir.

    import weir_rmm
    weir_rmm.install()            # the resource of the current device

C++ programs have weir/rmm.hpp, which makes no detour through Python.
"""
import ctypes

import weir

__all__ = ["install", "resource"]


class _Device(ctypes.Structure):
    """struct weir_face_device"""
    _fields_ = [("size", ctypes.c_size_t), ("ordinal", ctypes.c_int)]


def _handle(stream):
    return stream.__cuda_stream__()[1]


def resource(device=0):
    """Gives: an rmm.mr.CallbackMemoryResource for a device, in stream order on both sides."""
    import rmm
    from rmm.pylibrmm.stream import Stream

    if not hasattr(Stream, "__cuda_stream__"):
        raise RuntimeError(f"weir_rmm: RMM {rmm.__version__} does not tell Python a stream's handle")
    library = weir.library()
    alloc, free = library.weir_rmm_alloc, library.weir_rmm_free
    alloc.restype = ctypes.c_void_p
    alloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    which = _Device(ctypes.sizeof(_Device), device)
    named = ctypes.addressof(which)

    def allocate(size, stream, _keep=which):
        block = alloc(size, _handle(stream), named)
        if block is None:
            weir.raise_last(device)  # a MemoryError is std::bad_alloc in C++
        return block

    def deallocate(block, size, stream, _keep=which):
        free(block, size, _handle(stream), named)

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def install(device=0):
    """Makes weir the resource of a device."""
    import rmm

    rmm.mr.set_per_device_resource(device, resource(device))
