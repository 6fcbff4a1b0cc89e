# SPDX-License-Identifier: Apache-2.0
"""PyTorch on weir, on an emulated device: tensors on several streams, record_stream, graphs, MemPool, out of memory, 10,000 random steps.
Kernels compute nothing there, so contents are made by copies and sets. One line a check; exit status 1 when one failed.

usage: faces.py weir | native | pool | late [CHECK ...]      weir: as the process's allocator; native: PyTorch's own, the same steps; pool: a
MemPool whose segments come from weir; late: install() after CUDA has been used. CHECK: a function below; none: all of the mode's
weir and native say what was live and held at the peak of the random steps."""
import ctypes
import gc
import os
import random
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch

import weir
import weir_torch

MIB = 1 << 20
MODE = sys.argv[1]
failures = 0


def check(function):
    global failures
    try:
        said = function()
        print(f"ok      {function.__name__.replace('_', ' ')}" + (f": {said}" if said else ""))
    except Exception as error:  # whatever it is, it is the answer
        failures += 1
        print(f"FAILED  {function.__name__.replace('_', ' ')}: {type(error).__name__}: {str(error)[:300]}")


def device_bytes(count):
    return torch.empty(count, dtype=torch.uint8, device="cuda")


def give_all_back():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def raises(function, kind, text):
    try:
        function()
    except kind as error:
        assert text in str(error), str(error)
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


# ---- any allocator ----------------------------------------------------------------------------------------------------


def memory_is_given_and_taken_back():
    free = torch.cuda.mem_get_info()[0]
    tensors = [device_bytes(n * MIB) for n in (1, 2, 3, 20, 64)] + [device_bytes(0)]
    assert torch.cuda.memory_allocated() >= 90 * MIB and torch.cuda.max_memory_allocated() >= 90 * MIB
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    del tensors
    give_all_back()
    assert torch.cuda.memory_allocated() == 0 and torch.cuda.memory_reserved() == 0
    assert torch.cuda.mem_get_info()[0] == free
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0
    assert len(torch.cuda.memory_summary()) > 100


def several_streams_share_by_record_stream():
    streams = [torch.cuda.Stream(priority=p) for p in (0, 0, -1, -1)]
    event = torch.cuda.Event()
    for turn in range(50):
        for giver, taker in zip(streams, streams[1:] + streams[:1]):
            with torch.cuda.stream(giver):
                block = device_bytes(1 * MIB + 1000 * turn)
                block.zero_()
                event.record()
            taker.wait_event(event)
            with torch.cuda.stream(taker):
                copy = torch.empty_like(block)
                copy.copy_(block, non_blocking=True)
            block[100:].record_stream(taker)  # a view is told as its storage
            del block, copy
    torch.cuda.synchronize()


def out_of_memory_is_raised_and_caught():
    held = device_bytes(8 * MIB)
    total = torch.cuda.mem_get_info()[1]
    for count in (2 * total, 1 << 62):
        raises(lambda: device_bytes(count), torch.OutOfMemoryError, "")
    half = device_bytes(total // 2)
    text = raises(lambda: device_bytes(total // 2 + MIB), torch.cuda.OutOfMemoryError, "")
    del half
    larger = device_bytes(total // 8 * 5)  # what was given back serves a larger one
    assert larger.data_ptr() != held.data_ptr()
    if MODE == "weir":
        assert "weir" in text and "idle" in text and "live" in text, text
        return text.splitlines()[0]


def the_fraction_is_a_limit():
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        raises(lambda: device_bytes(total // 4 + MIB), torch.OutOfMemoryError, "")
        device_bytes(total // 4 - 32 * MIB)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def a_graph_is_captured_and_replayed():
    source, target = torch.zeros(1000, device="cuda"), torch.empty(1000, device="cuda")
    graph, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = source.clone()
        target.copy_(inside)
        del inside
        inside = source.clone()  # the same memory again
    with torch.cuda.graph(other, pool=graph.pool()):
        second = inside.clone()
    source.copy_(torch.full((1000,), 7.0))
    graph.replay()
    other.replay()
    torch.cuda.synchronize()
    assert float(target[999]) == 7.0 and float(second[999]) == 7.0
    graph.reset()
    other.replay()
    torch.cuda.synchronize()
    other.reset()
    assert float(second[999]) == 7.0  # a result outlives its graph
    del inside, second


def ten_thousand_random_steps():
    """Contents are checked when a block is freed, in the order of its stream."""
    chance = random.Random(123)
    streams = [torch.cuda.Stream() for _ in range(4)]
    patterns = [torch.full((8 * MIB,), value, dtype=torch.uint8).pin_memory() for value in range(8)]
    live, pending, live_bytes = [], [], 0

    def verify():
        torch.cuda.synchronize()
        for back, value in pending:
            assert torch.equal(back, patterns[value][:len(back)]), f"a block of {len(back)} bytes has lost its contents"
        pending.clear()

    def allocate():
        nonlocal live_bytes
        count = int(2 ** chance.uniform(0, 23))
        stream, value = chance.randrange(4), chance.randrange(8)
        with torch.cuda.stream(streams[stream]):
            block = device_bytes(count)
            block.copy_(patterns[value][:count], non_blocking=True)
        live.append((block, stream, value))
        live_bytes += count

    def use():
        block, stream, value = chance.choice(live)
        other = chance.randrange(4)
        streams[other].wait_stream(streams[stream])
        with torch.cuda.stream(streams[other]):
            back = torch.empty(len(block), dtype=torch.uint8, pin_memory=True)
            back.copy_(block, non_blocking=True)
        block.record_stream(streams[other])
        pending.append((back, value))

    def free():
        nonlocal live_bytes
        block, stream, value = live.pop(chance.randrange(len(live)))
        live_bytes -= len(block)
        with torch.cuda.stream(streams[stream]):
            back = torch.empty(len(block), dtype=torch.uint8, pin_memory=True)
            back.copy_(block, non_blocking=True)
        pending.append((back, value))

    torch.cuda.reset_peak_memory_stats()
    for step in range(10_000):
        draw = chance.random()
        if live_bytes > 300 * MIB or (live and draw < 0.42):
            free()
        elif live and draw < 0.5:
            use()
        else:
            allocate()
        if step % 200 == 199:
            verify()
        if chance.random() < 0.001:
            torch.cuda.empty_cache()
    verify()
    live.clear()
    most_live, most_held = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return f"{MODE}: peak live {most_live}, peak held {most_held}, {most_held / most_live:.3f}"


class Counts(ctypes.Structure):
    """struct weir_emu_counts (device/emu/emu_abi.h)."""
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "calls", "operations", "idle_kernels", "unwatched", "reports", "faults", "unsupported_calls")]


def the_watch_has_found_nothing():
    counts = Counts(size=ctypes.sizeof(Counts))
    assert ctypes.CDLL("libcuda.so.1").weirEmuCounts(ctypes.byref(counts)) == 0
    assert counts.reports == 0, f"{counts.reports} reports"
    return f"{counts.operations} operations"


# ---- weir as the process's allocator -----------------------------------------------------------------------------------


def weir_tells_what_it_does():
    held = device_bytes(5 * MIB)
    assert weir_torch.is_installed() and weir_torch.stats()["live_bytes"] >= len(held)
    weir_torch.install()  # once more is nothing
    assert "live" in weir_torch.report()
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"weir-{os.getpid()}.pickle")
    weir_torch.snapshot(path)
    assert os.path.getsize(path) > 100
    os.remove(path)
    raises(lambda: weir_torch.snapshot("/nowhere/x"), weir.Error, "/nowhere")
    capacity = weir_torch.stats()["capacity_bytes"]
    weir_torch.set_limit(0.5)
    assert weir_torch.stats()["limit_bytes"] == capacity // 2
    weir_torch.set_limit(capacity)
    raises(lambda: weir_torch.set_limit(capacity + 1), weir.Error, "limit")


def the_figures_are_those_of_the_header():
    with open(os.path.join(os.environ["WEIR_HEADERS"], "weir", "pool.h"), encoding="ascii") as header:
        text = header.read()
    block = text.split("#define WEIR_POOL_STATS_LIST(X)")[1].split("\n\n")[0]
    assert tuple(line.split(",")[1].strip() for line in block.split("X(")[1:]) == weir.STATS


def what_pytorch_lets_no_other_allocator_do_raises():
    def share():
        return device_bytes(1000).untyped_storage()._share_cuda_()

    for function in (torch.cuda.MemPool, torch.cuda.memory_snapshot, torch.cuda.get_per_process_memory_fraction, share,
                     torch.cuda.memory._record_memory_history):
        raises(function, RuntimeError, "does not yet support")


def a_pool_that_has_an_id_alone_is_served_as_all_are():
    class Pool:
        id = (0, 4711)

    before = weir_torch.stats()["live_bytes"]
    with torch.cuda.use_mem_pool(Pool()):
        inside = device_bytes(3 * MIB)
        assert weir_torch.stats()["live_bytes"] == before + len(inside)
    inside.zero_()


# ---- a MemPool whose segments come from weir -----------------------------------------------------------------------------


def a_pools_segments_come_from_weir():
    pool = torch.cuda.MemPool(weir_torch.allocator())
    before = device_bytes(1000)
    assert weir_torch.stats()["live_blocks"] == 0
    with torch.cuda.use_mem_pool(pool):
        inside = device_bytes(1000)
        assert weir_torch.stats()["live_bytes"] == 2 * MIB
    assert len(pool.snapshot()) == 1
    del inside, before, pool
    give_all_back()
    assert weir_torch.stats()["live_blocks"] == 0
    return "a segment of 2 MiB for 1,000 bytes"


def in_a_pool_out_of_memory_gives_back_and_tries_again():
    pool = torch.cuda.MemPool(weir_torch.allocator())
    cached = device_bytes(600 * MIB)
    del cached  # PyTorch keeps it
    with torch.cuda.use_mem_pool(pool):
        larger = device_bytes(700 * MIB)  # weir has no room: PyTorch gives its 600 MiB back, and asks again
        assert weir_torch.stats()["out_of_memory"] == 1
        raises(lambda: device_bytes(400 * MIB), torch.OutOfMemoryError, "")
        assert weir_torch.stats()["out_of_memory"] > 1
        small = device_bytes(100 * MIB)
    del larger, small, pool
    give_all_back()
    assert weir_torch.stats()["live_blocks"] == 0


# ---- late ---------------------------------------------------------------------------------------------------------------


def a_late_install_is_refused():
    kept = device_bytes(1000)
    raises(weir_torch.install, RuntimeError, "too late")
    assert not weir_torch.is_installed() and device_bytes(1000).data_ptr() != kept.data_ptr()


def a_library_that_is_not_there_is_named():
    os.environ["WEIR_LIBRARY"] = "/nowhere"
    weir._loaded.clear()
    raises(lambda: weir.load("libweir-none.so.0"), ImportError, "/nowhere/libweir-none.so.0")


ANY = (memory_is_given_and_taken_back, several_streams_share_by_record_stream, out_of_memory_is_raised_and_caught,
       the_fraction_is_a_limit, a_graph_is_captured_and_replayed, ten_thousand_random_steps)
CHECKS = {
    "weir": ANY + (weir_tells_what_it_does, the_figures_are_those_of_the_header, what_pytorch_lets_no_other_allocator_do_raises,
                   a_pool_that_has_an_id_alone_is_served_as_all_are),
    "native": ANY,
    "pool": (a_pools_segments_come_from_weir, in_a_pool_out_of_memory_gives_back_and_tries_again),
    "late": (a_late_install_is_refused, a_library_that_is_not_there_is_named),
}
print(f"torch {torch.__version__}, {MODE}")
if MODE == "weir":
    weir_torch.install()
for function in [globals()[name] for name in sys.argv[2:]] or CHECKS[MODE]:
    check(function)
    give_all_back()
check(the_watch_has_found_nothing)
sys.exit(1 if failures else 0)
