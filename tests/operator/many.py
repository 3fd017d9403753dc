"""Many processors at once: how long it takes, and what it costs."""

import collections
import dataclasses
import os
import pathlib
import time

from rig import OURS, processor


@dataclasses.dataclass
class Figures:
    created: float  # seconds until the last one was created
    children: float  # seconds from then until all had a StatefulSet
    ready: float  # and until all were Ready
    memory: int  # bytes of the operator, when all were
    calls: float  # of the operator, for each processor, leases left out
    writes: float
    kinds: collections.Counter  # "verb resource" -> calls


def memory_of(process):
    return int(pathlib.Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def is_ready(thing):
    return any(each["type"] == "Ready" and each["status"] == "True" for each in thing.get("status", {}).get("conditions", []))


def create(world, space, count):
    before = len(world.calls())
    started = time.monotonic()
    for number in range(count):
        world.admin.create(processor(space, f"p{number}"))
    created = time.monotonic()
    world.wait(lambda: len(world.admin.list("StatefulSet", space, **OURS)) == count, "every processor to have its pods")
    children = time.monotonic()
    world.wait(lambda: sum(map(is_ready, world.admin.list("StreamProcessor", space))) == count, "every processor to be ready")
    ready = time.monotonic()
    calls = [call for call in world.calls()[before:] if call["resource"] != "leases"]
    writes = [call for call in calls if call["verb"] not in ("get", "list", "watch")]
    kinds = collections.Counter(f"{call['verb']} {call['resource']}{'/' + call['subresource'] if call['subresource'] else ''}" for call in calls)
    return Figures(created - started, children - created, ready - created, memory_of(world.operator().mains[0].process), len(calls) / count, len(writes) / count, kinds)
