# SPDX-License-Identifier: Apache-2.0
"""weir from Python: its library, and what the pool of each device tells. Needs nothing but Python.

The library is the one that the process has loaded already, else the one in the folder that WEIR_LIBRARY names, else the one that came with
this package, else the system's; the other libraries lie beside it. The pools are those that weir's faces use (weir/faces.h): one a device, made at first use.
weir_torch, weir_cupy, weir_rmm and weir_numba put other packages' allocations into them. Functions raise weir.Error, or
weir.OutOfMemory, with weir's own sentence.
"""
import ctypes
import operator
import os

__all__ = ["Error", "OutOfMemory", "library", "load", "pool", "report", "set_limit", "snapshot", "stats", "trim", "version"]


class Error(RuntimeError):
    """A call of weir failed; `status` is its status, as in weir/status.h."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class OutOfMemory(Error, MemoryError):
    """Out of device memory; the text has weir's report."""


_OUT_OF_MEMORY = -2
_MOST_BYTES = 2 ** (8 * ctypes.sizeof(ctypes.c_size_t)) - 1
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
_loaded = {}


def _folder_in_use():
    """Gives: where the libweir.so lies that the process has loaded, as libweir-preload.so does; else None."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith("libweir.so"):
                return os.path.dirname("/" + path)
    return None


def _candidates(name):
    folder = os.environ.get("WEIR_LIBRARY")
    if folder:
        return [os.path.join(folder, name)]
    return [os.path.join(folder, name) for folder in (_folder_in_use(), _FOLDER) if folder] + [name]


def load(name):
    """Gives: a library of weir's, "libweir.so.0" or "libweir-torch.so.0", as a ctypes.CDLL that is kept for ever."""
    if name in _loaded:
        return _loaded[name]
    tried = []
    try:  # a second copy would have pools of its own
        library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        library = None
    for path in [] if library is not None else _candidates(name):
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as error:
            tried.append(f"  {path}: {error}")
    if library is None:
        raise ImportError(f"weir's {name} is not found. Set WEIR_LIBRARY to the folder that has it (build/lib of a build, or "
                          "the lib folder of an installed weir). Tried:\n" + "\n".join(tried))
    _loaded[name] = library
    return library


class _LastError(ctypes.Structure):
    """struct weir_error"""
    _fields_ = [("status", ctypes.c_int), ("driver_code", ctypes.c_int), ("call", ctypes.c_char_p),
                ("message", ctypes.c_char * 384)]


# The fields of struct weir_pool_stats, in order (WEIR_POOL_STATS_LIST in weir/pool.h); each has 8 bytes.
STATS = ("capacity_bytes", "limit_bytes", "live_bytes", "requested_bytes", "held_bytes", "idle_bytes", "moving_bytes",
         "unmapped_bytes", "peak_live_bytes", "peak_requested_bytes", "peak_held_bytes", "live_blocks", "allocs", "frees",
         "out_of_memory", "memory_calls", "order_calls", "device_waits", "host_waits", "host_wait_ns", "pages_moved",
         "peak_stranded_bytes", "moved_bytes", "memory_call_ns", "order_call_ns")


class _Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in STATS]


def library():
    """Gives: libweir.so as a ctypes.CDLL."""
    lib = load("libweir.so.0")
    if not hasattr(lib, "weir_is_set_up"):
        lib.weir_last_error.restype = ctypes.POINTER(_LastError)
        lib.weir_version.restype = ctypes.c_char_p
        lib.weir_process_pool.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)]
        lib.weir_pool_get_stats.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Stats)]
        lib.weir_pool_report.restype = ctypes.c_size_t
        lib.weir_pool_report.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        lib.weir_pool_snapshot.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        for name in ("weir_pool_set_limit", "weir_pool_trim"):
            getattr(lib, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        lib.weir_pool_set_limit_fraction.argtypes = [ctypes.c_void_p, ctypes.c_double]
        lib.weir_pool_reset_peaks.argtypes = [ctypes.c_void_p]
        lib.weir_is_set_up = True
    return lib


def raise_last(device=None):
    """Raises this thread's last failure; out of memory with the report of a device."""
    error = library().weir_last_error().contents
    message = f"weir: {error.message.decode(errors='replace')}"
    if error.status != _OUT_OF_MEMORY:
        raise Error(error.status, message)
    raise OutOfMemory(error.status, message if device is None else f"{message}\n{report(device)}")


def _check(status):
    if status != 0:
        raise_last()


def version():
    """Gives: the library's version."""
    return library().weir_version().decode()


def _number(what, value, most):
    """ctypes cuts what is too large, without a word."""
    number = operator.index(value)  # TypeError for what is no whole number
    if not 0 <= number <= most:
        raise ValueError(f"weir: {what} is {number}; it must be from 0 to {most}")
    return number


def pool(device=0):
    """Gives: the pool of a device (struct weir_pool *) as an integer, for calls of the library itself."""
    out = ctypes.c_void_p()
    _check(library().weir_process_pool(_number("the device", device, 2**31 - 1), ctypes.byref(out)))
    return out.value


def stats(device=0):
    """Gives: the pool's figures as a dict, named as in weir/pool.h."""
    figures = _Stats(size=ctypes.sizeof(_Stats))
    _check(library().weir_pool_get_stats(pool(device), ctypes.byref(figures)))
    return {name: getattr(figures, name) for name in STATS}


def reset_peaks(device=0):
    """Peaks count from what is there now."""
    _check(library().weir_pool_reset_peaks(pool(device)))


def report(device=0):
    """Gives: a text for people: the last refusal if there was one, the state now unless nothing was served since; by stream."""
    at = pool(device)
    length = library().weir_pool_report(at, None, 0)
    text = ctypes.create_string_buffer(length + 1024)  # it may grow a little meanwhile
    library().weir_pool_report(at, text, len(text))
    return text.value.decode(errors="replace")


def snapshot(path, device=0):
    """Writes the pool's memory of this moment for PyTorch's memory viewer (docs/snapshot.md)."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("weir: a file's name with a zero in it")
    _check(library().weir_pool_snapshot(pool(device), name))


def set_limit(limit, device=0):
    """Sets the most bytes that the pool may hold: an int says bytes, a float from 0 to 1 a fraction of the device's memory."""
    if isinstance(limit, float):
        _check(library().weir_pool_set_limit_fraction(pool(device), limit))
    elif hasattr(limit, "__index__"):
        _check(library().weir_pool_set_limit(pool(device), _number("the limit", limit, _MOST_BYTES)))
    else:
        raise TypeError(f"weir: the limit is {limit!r}; it must be bytes (int) or a fraction of the device's memory (float)")


def trim(target_bytes=0, device=0):
    """Gives memory that is idle and complete back to the driver until no more than target_bytes are held."""
    _check(library().weir_pool_trim(pool(device), _number("target_bytes", target_bytes, _MOST_BYTES)))
