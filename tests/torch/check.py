# SPDX-License-Identifier: Apache-2.0
"""What PyTorch does on an emulated device: imports, allocates and frees on several streams, copies, runs out of memory,
captures. Kernels compute nothing there, so no results are looked at but those of copies and sets. One line a check; exit
status 1 when one failed. PYTORCH_CUDA_ALLOC_CONF says whether segments are expandable."""
import ctypes
import gc
import os
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch

MIB = 1 << 20
failures = 0


def check(function):
    """Runs one check, says how it went."""
    global failures
    try:
        said = function()
        print(f"ok      {function.__name__.replace('_', ' ')}" + (f": {said}" if said else ""))
    except Exception as error:  # whatever it is, it is the answer
        failures += 1
        print(f"FAILED  {function.__name__.replace('_', ' ')}: {type(error).__name__}: {str(error).splitlines()[0]}")


def device_bytes(count):
    return torch.empty(count, dtype=torch.uint8, device="cuda")


def give_all_back():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def the_device_is_there():
    assert torch.cuda.is_available()
    p = torch.cuda.get_device_properties(0)
    return f"{torch.cuda.device_count()} x {p.name}, {p.total_memory // MIB} MiB, {p.multi_processor_count} SMs"


def memory_is_given_and_taken_back():
    free, total = torch.cuda.mem_get_info()
    tensors = [device_bytes(n * MIB) for n in (1, 2, 3, 20, 64)]
    assert torch.cuda.memory_allocated() >= 90 * MIB
    assert torch.cuda.mem_get_info()[0] < free
    del tensors
    give_all_back()
    assert torch.cuda.memory_allocated() == 0 and torch.cuda.memory_reserved() == 0
    assert torch.cuda.mem_get_info()[0] == free
    return f"{free // MIB} of {total // MIB} MiB free before and after"


def several_streams_share_by_record_stream():
    streams = [torch.cuda.Stream(priority=p) for p in (0, 0, -1, -1)]
    event = torch.cuda.Event(enable_timing=True)
    for round in range(50):
        for giver, taker in zip(streams, streams[1:] + streams[:1]):
            with torch.cuda.stream(giver):
                block = device_bytes(1 * MIB + 1000 * round)
                block.zero_()
                event.record()
            taker.wait_event(event)
            with torch.cuda.stream(taker):
                copy = torch.empty_like(block)
                copy.copy_(block, non_blocking=True)
            block.record_stream(taker)
            del block, copy
    torch.cuda.synchronize()
    return f"{torch.cuda.memory_stats()['allocation.all.allocated']} blocks"


def copies_bring_the_bytes():
    there = torch.arange(100_000, dtype=torch.int64).pin_memory().to("cuda", non_blocking=True)
    twice = there.clone()
    back = torch.empty(100_000, dtype=torch.int64, pin_memory=True)
    back.copy_(twice, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    assert int(back[99_999]) == 99_999
    assert int(torch.zeros(10, device="cuda").cpu().sum()) == 0


def out_of_memory_is_an_answer():
    held = device_bytes(8 * MIB)
    try:
        device_bytes(torch.cuda.mem_get_info()[1] * 2)
    except torch.cuda.OutOfMemoryError:
        pass
    else:
        raise AssertionError("twice the device's memory was given")
    another = device_bytes(8 * MIB)
    assert another.data_ptr() != held.data_ptr()


def kernels_are_launched():
    x = torch.ones(1000, device="cuda")
    y = (x + 1).sum()  # not looked at: nobody has written it
    torch.cuda.synchronize()
    return f"a tensor of {y.numel()}"


def a_graph_is_captured_and_replayed():
    source, target = torch.zeros(1000, device="cuda"), torch.empty(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=stream):
        inside = source.clone()  # memory of the graph's own pool
        target.copy_(inside)
    source.copy_(torch.full((1000,), 7.0))
    graph.replay()
    torch.cuda.synchronize()
    assert float(target[999]) == 7.0
    return f"{torch.cuda.memory_reserved() // MIB} MiB reserved"


def statistics_add_up():
    give_all_back()
    s = torch.cuda.memory_stats()
    assert s["allocated_bytes.all.allocated"] - s["allocated_bytes.all.freed"] == s["allocated_bytes.all.current"]
    wanted = ("allocation.all.allocated", "allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_device_alloc",
              "num_device_free", "num_ooms")
    return ", ".join(f"{key} {s.get(key)}" for key in wanted)


class Counts(ctypes.Structure):
    """struct weir_emu_counts (device/emu/emu_abi.h)."""
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "calls", "operations", "idle_kernels", "unwatched", "reports", "faults", "unsupported_calls")]


def the_watch_has_found_nothing():
    counts = Counts(size=ctypes.sizeof(Counts))
    assert ctypes.CDLL("libcuda.so.1").weirEmuCounts(ctypes.byref(counts)) == 0
    assert counts.reports == 0, f"{counts.reports} reports"
    return (f"{counts.calls} calls, {counts.operations} operations, {counts.idle_kernels} kernels that did nothing, "
            f"{counts.unsupported_calls} calls not supported")


print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, "
      f"PYTORCH_CUDA_ALLOC_CONF={os.environ.get('PYTORCH_CUDA_ALLOC_CONF', '')}")
for function in (the_device_is_there, memory_is_given_and_taken_back, several_streams_share_by_record_stream,
                 copies_bring_the_bytes, out_of_memory_is_an_answer, kernels_are_launched,
                 a_graph_is_captured_and_replayed, statistics_add_up, the_watch_has_found_nothing):
    check(function)
    give_all_back()
sys.exit(1 if failures else 0)
