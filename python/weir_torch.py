# SPDX-License-Identifier: Apache-2.0
"""PyTorch on weir: all of a process's CUDA memory comes from weir's pools.

    import torch, weir_torch
    weir_torch.install()          # before anything uses CUDA

or, with PyTorch's own allocator in place, a pool of it whose segments come from weir:

    pool = torch.cuda.MemPool(weir_torch.allocator())

docs/faces.md says what PyTorch can't do with any allocator but its own.
"""
import ctypes

import weir
from weir import set_limit as _set_limit

__all__ = ["allocator", "install", "is_installed", "report", "set_limit", "snapshot", "stats"]

# PyTorch keeps no reference to what its hooks point at: the libraries (weir.load) and these stay for ever.
_installed = None
_for_pools = None

# setter of PyTorch's: library, function
_HOOKS = {
    "set_init_fn": ("libweir.so.0", "weir_torch_init"),
    "set_reset_fn": ("libweir.so.0", "weir_torch_reset"),
    "set_memory_fraction_fn": ("libweir.so.0", "weir_torch_memory_fraction"),
    "set_base_alloc_fn": ("libweir.so.0", "weir_torch_base_alloc"),
    "set_record_stream_fn": ("libweir.so.0", "weir_torch_record_stream"),
    "set_begin_allocate_to_pool": ("libweir-torch.so.0", "weir_torch_begin_allocate_to_pool"),
    "set_end_allocate_to_pool_fn": ("libweir-torch.so.0", "weir_torch_end_allocate_to_pool"),
    "set_release_pool": ("libweir-torch.so.0", "weir_torch_release"),
}


def _address(library, name):
    return ctypes.cast(getattr(weir.load(library), name), ctypes.c_void_p).value


def _make(alloc_library, alloc_name):
    import torch

    made = torch._C._cuda_customAllocator(_address(alloc_library, alloc_name), _address("libweir.so.0", "weir_torch_free"))
    return made


def is_installed():
    """Gives: whether install() has been called."""
    return _installed is not None


def install(statistics=True):
    """Makes weir the allocator of all CUDA memory of this process.

    Needs: nothing has used CUDA yet; then it raises RuntimeError and nothing has changed. A second call does nothing.
    statistics: torch.cuda.memory_stats, memory_allocated, max_memory_allocated, memory_reserved, memory_summary and
    reset_peak_memory_stats, which raise with any allocator but PyTorch's own, answer with weir's figures.
    """
    global _installed
    import torch

    if _installed is not None:
        return
    if not hasattr(torch._C, "_cuda_customAllocator"):
        raise RuntimeError(f"weir_torch: this PyTorch ({torch.__version__}) is no CUDA build, or too old to take an allocator")
    weir.library()
    made = _make("libweir-torch.so.0", "weir_torch_alloc_or_throw")
    missing = [setter for setter in _HOOKS if not hasattr(made, setter)]
    if "set_record_stream_fn" in missing:
        raise RuntimeError(f"weir_torch: this PyTorch ({torch.__version__}) can't tell an allocator of record_stream, without which "
                           "memory would be given away while it is in use")
    for setter, hook in _HOOKS.items():
        if setter not in missing:
            getattr(made, setter)(_address(*hook))
    try:
        if torch.cuda.is_initialized():
            raise RuntimeError("CUDA is initialised")
        torch._C._cuda_changeCurrentAllocator(made)
    except RuntimeError as error:
        raise RuntimeError("weir_torch.install() comes too late: something has used CUDA already, and PyTorch's own allocator "
                           "can't be replaced any more. Call it right after `import torch`.") from error
    _installed = made
    if statistics:
        _replace_statistics()


def allocator():
    """Gives: an allocator for torch.cuda.MemPool, whose segments then come from weir. PyTorch keeps what the pool frees until
    the pool is released, and when weir has no more it gives its caches back and tries again."""
    global _for_pools
    if _for_pools is None:
        _for_pools = _make("libweir.so.0", "weir_torch_alloc")
    return _for_pools


# ---- what it tells ---------------------------------------------------------------------------------------------------


def _ordinal(device):
    """Asks PyTorch for its current device only where it has one: asking would begin its use of CUDA, too early for install()."""
    import torch

    if isinstance(device, int):
        return device
    index = None if device is None else torch.device(device).index
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    return index


def stats(device=None):
    """Gives: the figures of the device's pool (None: the current device), as weir.stats."""
    return weir.stats(_ordinal(device))


def report(device=None):
    """Gives: weir's report of the device's pool."""
    return weir.report(_ordinal(device))


def snapshot(path, device=None):
    """Writes a snapshot for https://pytorch.org/memory_viz."""
    weir.snapshot(path, _ordinal(device))


def set_limit(limit, device=None):
    """Sets the most bytes that the pool may hold (int), or which part of the device's memory (float)."""
    _set_limit(limit, _ordinal(device))


def _stats_as_nested_dict(device=None):
    import torch

    if not torch.cuda.is_initialized():
        return {}
    s = stats(device)

    def metric(current, peak, **totals):
        return {"all": {"current": current, "peak": peak, **totals}}

    live = metric(s["live_bytes"], s["peak_live_bytes"])
    blocks = {"all": {"current": s["live_blocks"], "allocated": s["allocs"], "freed": s["frees"]}}
    return {"allocated_bytes": live, "active_bytes": live, "requested_bytes": metric(s["requested_bytes"], s["peak_requested_bytes"]),
            "reserved_bytes": metric(s["held_bytes"], s["peak_held_bytes"]), "allocation": blocks, "active": blocks,
            "num_ooms": s["out_of_memory"], "num_alloc_retries": 0, "weir": s}


def _reset_peak_memory_stats(device=None):
    weir.reset_peaks(_ordinal(device))


def _replace_statistics():
    import torch

    def memory_summary(device=None, abbreviated=False):
        """What weir tells of the device."""
        return report(device)

    replaced = {"memory_stats_as_nested_dict": _stats_as_nested_dict, "memory_summary": memory_summary,
                "reset_peak_memory_stats": _reset_peak_memory_stats, "reset_max_memory_allocated": _reset_peak_memory_stats,
                "reset_max_memory_cached": _reset_peak_memory_stats}
    for name, function in replaced.items():
        for module in (torch.cuda.memory, torch.cuda):
            if hasattr(module, name):
                setattr(module, name, function)
