# SPDX-License-Identifier: Apache-2.0
"""CuPy, RMM and Numba as pip has them, on weir, on an emulated device, as far as they run there. One line a check; exit status 1 when one
failed.

CuPy's and RMM's wheels have NVIDIA's own runtime inside, which does not run on the emulated driver. So of CuPy it is the class that calls the
functions, and of RMM the callback resource, without its buffers."""
import ctypes
import gc
import sys

import weir

failures = 0
GONE = 1 << 50


def check(function):
    global failures
    try:
        said = function()
        print(f"ok      {function.__name__.replace('_', ' ')}" + (f": {said}" if said else ""))
    except Exception as error:  # whatever it is, it is the answer
        failures += 1
        print(f"FAILED  {function.__name__.replace('_', ' ')}: {type(error).__name__}: {str(error)[:300]}")


def raises(function, kind):
    try:
        function()
    except kind as error:
        assert "weir" in str(error) and "live" in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__}")


def live():
    gc.collect()
    return weir.stats()["live_blocks"]


def cupys_functions_are_weirs():
    import cupy
    import weir_cupy

    weir_cupy._device = lambda: 0  # the runtime is not to be asked here
    allocate = weir_cupy.allocator()
    pointer = allocate(1000)
    assert pointer.ptr % 512 == 0 and pointer.device_id == 0 and live() == 1
    nothing = allocate(0)
    del pointer, nothing
    assert live() == 0
    raises(lambda: allocate(GONE), cupy.cuda.memory.OutOfMemoryError)
    return f"CuPy {cupy.__version__}"


def rmms_callbacks_are_weirs():
    import rmm
    import weir_rmm
    from rmm.pylibrmm.stream import DEFAULT_STREAM

    resource = weir_rmm.resource(0)
    block = resource.allocate(1000, DEFAULT_STREAM)
    assert block % 256 == 0 and live() == 1
    resource.deallocate(block, 1000, DEFAULT_STREAM)
    assert live() == 0
    raises(lambda: resource.allocate(GONE, DEFAULT_STREAM), MemoryError)
    return f"RMM {rmm.__version__}"


def numbas_arrays_are_weirs():
    import numpy
    import numba_cuda
    import weir_numba
    from numba import cuda

    cuda.set_memory_manager(weir_numba.MemoryManager)
    array = cuda.to_device(numpy.full(100_000, 7, numpy.uint8))
    assert live() == 1 and (array.copy_to_host() == 7).all()
    stream = cuda.stream()
    pinned = cuda.pinned_array(1000, dtype=numpy.uint8)
    pinned[:] = 3
    other = cuda.to_device(pinned, stream=stream)
    back = other.copy_to_host(stream=stream)
    stream.synchronize()
    assert (back == 3).all() and live() == 2
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free < total
    raises(lambda: cuda.device_array(GONE, dtype=numpy.uint8), cuda.cudadrv.driver.CudaAPIError)
    del array, other
    assert live() == 0
    return f"numba-cuda {numba_cuda.__version__}"


class Counts(ctypes.Structure):
    """struct weir_emu_counts (device/emu/emu_abi.h)."""
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "calls", "operations", "idle_kernels", "unwatched", "reports", "faults", "unsupported_calls")]


def the_watch_has_found_nothing():
    counts = Counts(size=ctypes.sizeof(Counts))
    assert ctypes.CDLL("libcuda.so.1").weirEmuCounts(ctypes.byref(counts)) == 0
    assert counts.reports == 0, f"{counts.reports} reports"


for function in (cupys_functions_are_weirs, rmms_callbacks_are_weirs, numbas_arrays_are_weirs, the_watch_has_found_nothing):
    check(function)
sys.stdout.flush()
sys.exit(1 if failures else 0)
