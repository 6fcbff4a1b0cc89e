# SPDX-License-Identifier: Apache-2.0
"""usage: snapshot.py FILE: reads a snapshot as PyTorch's memory viewer does, checks what it needs, and prints the sums.

The viewer has an unpickler of its own: only some opcodes, batches of at most 1,000 items, integers that are exact in a
double. It finds a block's address by adding up, so blocks must tile their segment.
"""
import pickle
import pickletools
import sys

TAKEN = set("""PROTO FRAME MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT APPEND APPENDS SETITEM
SETITEMS NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINPUT LONG_BINPUT BINGET
LONG_BINGET MEMOIZE STOP""".split())
LARGEST_BATCH = 1000
LARGEST_NUMBER = 2**53
STATES = {"active_allocated", "active_pending_free", "inactive"}


def read(data):
    """A small machine for the opcodes that the writer uses."""
    stack, marks, memo = [], [], {}
    for opcode, argument, at in pickletools.genops(data):
        name = opcode.name
        assert name in TAKEN, f"{name} at {at} is not read by the viewer"
        if name == "PROTO":
            assert 2 <= argument <= 4
        elif name == "MARK":
            marks.append(len(stack))
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in ("APPENDS", "SETITEMS"):
            items = stack[marks[-1]:]
            del stack[marks.pop():]
            count = len(items) if name == "APPENDS" else len(items) // 2
            assert count <= LARGEST_BATCH, f"{count} items at {at}"
            if name == "APPENDS":
                stack[-1].extend(items)
            else:
                assert len(set(items[::2])) == count, f"a key comes twice before {at}"
                stack[-1].update(zip(items[::2], items[1::2]))
        elif name.startswith("BININT") or name == "LONG1":
            assert 0 <= argument <= LARGEST_NUMBER, f"{argument} at {at}"
            stack.append(argument)
        elif name in ("NEWTRUE", "NEWFALSE"):
            stack.append(name == "NEWTRUE")
        elif name == "BINUNICODE":
            stack.append(argument)
        elif name == "BINPUT":
            memo[argument] = stack[-1]
        elif name == "BINGET":
            stack.append(memo[argument])
        elif name == "TUPLE2":
            stack[-2:] = [tuple(stack[-2:])]
        else:
            assert name == "STOP", f"{name} at {at} is not used"
    assert len(stack) == 1 and not marks
    return stack[0]


def check_segment(segment, sums):
    address = segment["address"]
    own = dict.fromkeys(STATES, 0)
    assert segment["blocks"] and segment["frames"] == [] and segment["segment_pool_id"] == (0, 0)
    for block in segment["blocks"]:
        assert block["address"] == address and block["size"] > 0 and block["frames"] == []
        address += block["size"]
        own[block["state"]] += block["size"]
        allocated = block["state"] == "active_allocated"
        assert 0 <= block["requested_size"] <= (block["size"] if allocated else 0)
        assert segment["stream"] in (0, block["stream"])
        sums["requested"] += block["requested_size"]
        sums["blocks"] += allocated
    assert address == segment["address"] + segment["total_size"]
    assert segment["allocated_size"] == own["active_allocated"]
    assert segment["active_size"] == own["active_allocated"] + own["active_pending_free"]
    assert segment["requested_size"] == sum(block["requested_size"] for block in segment["blocks"])
    assert segment["segment_type"] in ("small", "large")
    for state in STATES:
        sums[state] += own[state]
    return address


class Mapped:
    """Addresses that have pages, as the entries of a trace say."""

    def __init__(self):
        self.runs = {}  # by begin: end

    def add(self, begin, end):
        assert all(b >= end or e <= begin for b, e in self.runs.items()), f"{begin:#x} is mapped twice"
        for b, e in list(self.runs.items()):
            if b == end or e == begin:
                del self.runs[b]
                begin, end = min(b, begin), max(e, end)
        self.runs[begin] = end

    def remove(self, begin, end):
        for b, e in list(self.runs.items()):
            if b <= begin and end <= e:
                del self.runs[b]
                self.runs.update({at: to for at, to in ((b, begin), (end, e)) if at < to})
                return
        assert False, f"{begin:#x} is unmapped and was not mapped"

    def has(self, begin, size):
        return any(b <= begin and begin + size <= e for b, e in self.runs.items())


def check_form(trace, segments):
    """What the viewer needs of each entry, and of the frees that are open at the end."""
    open_frees = {}
    for at, entry in enumerate(trace):
        action = entry["action"]
        keys = {"action", "size", "stream", "time_us", "frames", "device_free" if action == "oom" else "addr"}
        assert set(entry) == keys and entry["frames"] == [], entry  # no category: so none has to be unknown
        assert at == 0 or entry["time_us"] >= trace[at - 1]["time_us"], f"entry {at}: the clock goes back"
        if action == "free_requested":
            open_frees[entry["addr"]] = entry
            after = trace[at + 1]
            assert after == {**entry, "action": "free_completed"}, f"entry {at} is not shown as one free"
        elif action == "free_completed":
            assert open_frees.pop(entry["addr"], None), f"entry {at} ends a free that was not requested"
    pending = {b["address"] for s in segments for b in s["blocks"] if b["state"] == "active_pending_free"}
    assert set(open_frees) <= pending


def check_story(trace, segments):
    """A trace from the pool's first event on ends in the segments. Gives: the most that was live, and the refusals."""
    mapped, live, now, peak, refused = Mapped(), {}, 0, 0, 0
    for at, entry in enumerate(trace):
        action, address, size = entry["action"], entry.get("addr"), entry["size"]
        if action == "alloc":
            assert address not in live and mapped.has(address, size), f"entry {at}: {address:#x} is no free memory"
            live[address] = size
            now += size
            peak = max(peak, now)
        elif action == "free_completed":
            assert live.pop(address) == size, f"entry {at}"
            now -= size
        elif action in ("segment_map", "segment_alloc"):
            mapped.add(address, address + size)
        elif action in ("segment_unmap", "segment_free"):
            mapped.remove(address, address + size)
        else:
            assert action in ("free_requested", "oom", "snapshot"), action
            refused += action == "oom"
    blocks = {b["address"]: b["requested_size"] for s in segments for b in s["blocks"]
              if b["state"] == "active_allocated"}
    assert live == blocks, "what the trace leaves live is not what is live"
    runs = Mapped()
    for segment in segments:
        runs.add(segment["address"], segment["address"] + segment["total_size"])
    assert mapped.runs == runs.runs, "what the trace leaves mapped is not in segments"
    return peak, refused


class Drawing:
    """What the viewer draws of a step: segments in its order, and blocks by address. It begins with the snapshot's and
    undoes the trace, the newest entry first, with rules of its own: what has been mapped leaves the one segment that
    holds it all, and what has been unmapped joins neighbours of the same stream."""

    def __init__(self, segments):
        self.segments = sorted([s["address"], s["total_size"], s["stream"]] for s in segments)
        self.blocks = {b["address"] for s in segments for b in s["blocks"] if b["state"] != "inactive"}

    def enter(self, segment, joins):
        after = next((i for i, s in enumerate(self.segments) if s[0] > segment[0]), len(self.segments) if joins else -1)
        self.segments.insert(after, segment)
        if not joins:
            return
        if after + 1 < len(self.segments):
            following = self.segments[after + 1]
            if segment[0] + segment[1] == following[0] and segment[2] == following[2]:
                segment[1] += following[1]
                del self.segments[after + 1]
        if after > 0:
            leading = self.segments[after - 1]
            if leading[0] + leading[1] == segment[0] and leading[2] == segment[2]:
                leading[1] += segment[1]
                del self.segments[after]

    def leave(self, address, size, parts):
        holds = (lambda s: s[0] <= address and address + size <= s[0] + s[1]) if parts else (lambda s: s[0] == address)
        at = next((i for i, s in enumerate(self.segments) if holds(s)), None)
        assert at is not None, f"no segment holds {address:#x} with {size} bytes"
        begin, whole, stream = self.segments.pop(at)
        if parts:
            left = [[begin, address - begin, stream], [address + size, begin + whole - address - size, stream]]
            self.segments[at:at] = [segment for segment in left if segment[1] > 0]

    def undo(self, entry):
        action, address, size = entry["action"], entry.get("addr"), entry["size"]
        if action == "free_completed":
            self.blocks.add(address)
        elif action == "alloc":
            self.blocks.remove(address)
        elif action in ("segment_unmap", "segment_free"):
            self.enter([address, size, entry["stream"]], action == "segment_unmap")
        elif action in ("segment_map", "segment_alloc"):
            self.leave(address, size, action == "segment_map")

    def check(self):
        """Each block is drawn in its segment."""
        segments = sorted(self.segments)
        at = 0
        for block in sorted(self.blocks):
            while at < len(segments) and segments[at][0] + segments[at][1] <= block:
                at += 1
            assert at < len(segments) and segments[at][0] <= block, f"{block:#x} is drawn in no segment"


def check_drawing(trace, segments):
    drawing = Drawing(segments)
    for at in range(len(trace) - 1, -1, -1):
        try:
            drawing.check()
            drawing.undo(trace[at])
        except (AssertionError, KeyError) as error:
            sys.exit(f"the viewer can't draw what was before entry {at}, {trace[at]}: {error}")
    return drawing


def check_history(snapshot):
    trace, peak, refused = snapshot["device_traces"][-1], 0, 0
    if trace:
        assert trace[-1]["action"] == "snapshot"
        check_form(trace, snapshot["segments"])
        first = check_drawing(trace, snapshot["segments"])
        if not snapshot["trace_alloc_overflowed"]:
            peak, refused = check_story(trace, snapshot["segments"])
            assert not first.segments and not first.blocks
    events = sum(entry["action"] != "free_completed" for entry in trace)
    assert events <= snapshot["trace_alloc_max_entries"]
    assert events == snapshot["trace_alloc_max_entries"] or not snapshot["trace_alloc_overflowed"]
    return events, peak, refused


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    snapshot = read(data)
    assert snapshot == pickle.loads(data)
    sums = dict.fromkeys([*STATES, "requested", "blocks"], 0)
    end = 0
    for segment in snapshot["segments"]:
        assert segment["address"] >= end + segment["is_expandable"] or end == 0, "segments overlap, or are one"
        assert segment["device"] == 0
        end = check_segment(segment, sums)
    assert len(snapshot["device_traces"]) == 1 and snapshot["allocator_settings"]["backend"] == "weir"
    stats = snapshot["weir"]["stats"]
    assert sums["active_allocated"] == stats["live_bytes"] and sums["requested"] == stats["requested_bytes"]
    names = ",".join(stream["name"] for stream in snapshot["weir"]["streams"])
    print(sums["active_allocated"], sums["active_pending_free"], sums["inactive"], sums["requested"], sums["blocks"],
          len(snapshot["segments"]), *check_history(snapshot), snapshot["allocator_settings"]["pool"], names)


main()
