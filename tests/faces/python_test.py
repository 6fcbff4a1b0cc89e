# SPDX-License-Identifier: Apache-2.0
"""The Python modules on the emulated device, with stand-ins for the packages that they serve (tests/torch/run.sh and tests/faces/run.sh
have the real ones): they hand over functions that work, raise weir's errors as those packages expect them, and keep to the headers."""
import ctypes
import glob
import os
import sys
import tempfile
import types
import unittest

import weir

GONE = 1 << 50
HEADERS = os.environ["WEIR_HEADERS"]


def module(name, **members):
    """A stand-in; `a.b` is found in `a` too."""
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    if "." in name:
        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], made)
    return made


class Weir(unittest.TestCase):
    def test_the_figures_are_those_of_the_header(self):
        with open(os.path.join(HEADERS, "weir", "pool.h"), encoding="ascii") as header:
            text = header.read()
        block = text.split("#define WEIR_POOL_STATS_LIST(X)")[1].split("\n\n")[0]
        self.assertEqual(tuple(line.split(",")[1].strip() for line in block.split("X(")[1:]), weir.STATS)
        self.assertEqual(sorted(weir.stats()), sorted(weir.STATS))

    def test_errors_have_weirs_sentence(self):
        with self.assertRaisesRegex(weir.Error, "63 does not exist"):
            weir.stats(63)
        with self.assertRaisesRegex(weir.Error, "limit"):
            weir.set_limit(1 << 60)
        for wrong in (lambda: weir.set_limit(-1), lambda: weir.set_limit(1 << 64), lambda: weir.trim(-1),
                      lambda: weir.stats(1 << 32), lambda: weir.stats(-1), lambda: weir.snapshot("a\0b")):
            with self.assertRaisesRegex(ValueError, "weir: "):
                wrong()
        with self.assertRaisesRegex(TypeError, "'64M'"):
            weir.set_limit("64M")
        with self.assertRaises(TypeError):
            weir.stats("cuda:0")
        with self.assertRaisesRegex(weir.Error, "/nowhere"):
            weir.snapshot("/nowhere/snapshot.pickle")

    def test_limits_reports_and_snapshots(self):
        capacity = weir.stats()["capacity_bytes"]
        weir.set_limit(0.5)
        self.assertEqual(weir.stats()["limit_bytes"], capacity // 2)
        weir.set_limit(capacity)
        self.assertIn("live", weir.report())
        with tempfile.TemporaryDirectory() as folder:
            weir.snapshot(os.path.join(folder, "snapshot.pickle"))
            self.assertGreater(os.path.getsize(os.path.join(folder, "snapshot.pickle")), 10)
        weir.trim()
        weir.reset_peaks()
        self.assertRegex(weir.version(), r"^\d+\.\d+\.\d+$")

    def test_a_library_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(ImportError, "libweir-none.so.0"):
            weir.load("libweir-none.so.0")


class Examples(unittest.TestCase):
    def test_they_are_python(self):
        found = glob.glob(os.path.join(HEADERS, "..", "examples", "*", "*.py"))
        self.assertGreaterEqual(len(found), 3)
        for path in found:
            with open(path, encoding="utf-8") as file:
                compile(file.read(), path, "exec")


class Torch(unittest.TestCase):
    """As torch._C._cuda_customAllocator: it takes addresses."""

    @classmethod
    def setUpClass(cls):
        class Allocator:
            def __init__(self, alloc, free):
                self.hooks = {}
                self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(alloc)
                self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(free)

        for setter in ("set_init_fn", "set_reset_fn", "set_memory_fraction_fn", "set_base_alloc_fn", "set_record_stream_fn",
                       "set_begin_allocate_to_pool", "set_end_allocate_to_pool_fn", "set_release_pool"):
            setattr(Allocator, setter, lambda self, address, setter=setter: self.hooks.update({setter: address}))
        cls.late = False
        cls.chosen = []
        torch = module("torch", __version__="0")
        module("torch._C", _cuda_customAllocator=Allocator, _cuda_changeCurrentAllocator=cls.chosen.append)
        module("torch.cuda", is_initialized=lambda: cls.late, current_device=lambda: 0, memory_summary=None)
        module("torch.cuda.memory", memory_stats_as_nested_dict=None, reset_peak_memory_stats=None)
        module("torch.cuda._utils", _get_device_index=lambda device, optional: device)
        cls.torch = torch
        import weir_torch

        cls.weir_torch = weir_torch

    def test_install(self):
        type(self).late = True
        with self.assertRaisesRegex(RuntimeError, "too late"):
            self.weir_torch.install()
        self.assertFalse(self.weir_torch.is_installed())
        type(self).late = False
        self.weir_torch.install()
        self.weir_torch.install()
        self.assertTrue(self.weir_torch.is_installed())
        self.assertEqual(len(self.chosen), 1)
        made = self.chosen[0]
        self.assertEqual(len(made.hooks), 8)
        self.assertTrue(all(made.hooks.values()))
        block = made.alloc(1000, 0, None)
        type(self).late = True  # CUDA is in use now
        told = self.torch.cuda.memory.memory_stats_as_nested_dict()
        self.assertEqual(told["allocated_bytes"]["all"]["current"], 1024)
        self.assertEqual(told["requested_bytes"]["all"]["current"], 1000)
        self.assertIn("live", self.torch.cuda.memory_summary())
        made.free(block, 1000, 0, None)
        self.torch.cuda.memory.reset_peak_memory_stats()
        self.assertEqual(self.weir_torch.stats()["peak_live_bytes"], 0)

    def test_a_pools_allocator_answers_with_null(self):
        made = self.weir_torch.allocator()
        self.assertIs(made, self.weir_torch.allocator())
        self.assertIsNone(made.alloc(GONE, 0, None))


class Cupy(unittest.TestCase):
    def test_null_is_an_error(self):
        class Memory:
            def __init__(self, size, param, malloc, free, device):
                self.device = device
                self.release = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free)
                call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(malloc)
                self.ptr = call(param, size, device) or 0

            def __del__(self):
                self.release(0, self.ptr, self.device)

        class OutOfMemoryError(MemoryError):
            def __init__(self, size, total, limit=0):
                super().__init__(size, total, limit)

        kept = []
        module("cupy")
        module("cupy.cuda", set_allocator=kept.append)
        module("cupy.cuda.runtime", getDevice=lambda: 0)
        module("cupy.cuda.memory", CFunctionAllocatorMemory=Memory, MemoryPointer=lambda memory, offset: memory,
               OutOfMemoryError=OutOfMemoryError)
        import weir_cupy

        weir_cupy.install()
        allocate = kept[0]
        block = allocate(1000)
        self.assertEqual(weir.stats()["live_blocks"], 1)
        del block
        self.assertEqual(weir.stats()["live_blocks"], 0)
        with self.assertRaisesRegex(OutOfMemoryError, "weir: .*\n(.*\n)*.*live"):
            allocate(GONE)


class Rmm(unittest.TestCase):
    def test_callbacks_raise_memory_errors(self):
        class Stream:
            def __cuda_stream__(self):
                return 0, 0

        class Resource:
            def __init__(self, allocate, deallocate):
                self.allocate, self.deallocate = allocate, deallocate

        module("rmm", __version__="0")
        module("rmm.mr", CallbackMemoryResource=Resource, set_per_device_resource=lambda device, made: kept.append(made))
        module("rmm.pylibrmm")
        module("rmm.pylibrmm.stream", Stream=Stream)
        import weir_rmm

        kept = []
        weir_rmm.install()
        block = kept[0].allocate(1000, Stream())
        self.assertEqual(weir.stats()["live_blocks"], 1)
        kept[0].deallocate(block, 1000, Stream())
        self.assertEqual(weir.stats()["live_blocks"], 0)
        with self.assertRaisesRegex(MemoryError, "weir"):
            kept[0].allocate(GONE, Stream())


if __name__ == "__main__":
    unittest.main()
