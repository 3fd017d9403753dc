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


def asked(world, since):
    """What the operator asked since that many calls, but for its lease: (all, writes)."""
    calls = [call for call in world.calls()[since:] if call["resource"] != "leases"]
    return calls, [call for call in calls if call["verb"] not in ("get", "list", "watch")]


def kinds(calls):
    """How many calls of each kind: "verb resource"."""
    return collections.Counter(f"{call['verb']} {call['resource']}{'/' + call['subresource'] if call['subresource'] else ''}" for call in calls)


def steady(world, quiet, seconds):
    """Waits until it writes nothing for `quiet` seconds, then looks for so many: (seconds until then, calls and writes of that time, by kind)."""
    began = since = time.monotonic()
    count = len(asked(world, 0)[1])
    while time.monotonic() < since + quiet:
        time.sleep(5)  # the audit log is read each time
        now = len(asked(world, 0)[1])
        if now != count:
            count, since = now, time.monotonic()
    before = len(world.calls())
    time.sleep(seconds)
    calls, writes = asked(world, before)
    return since - began, kinds(calls), kinds(writes)


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
    calls, writes = asked(world, before)
    return Figures(created - started, children - created, ready - created, memory_of(world.operator().mains[0].process), len(calls) / count, len(writes) / count, kinds(calls))


def report(world, space, count, quiet, seconds):
    """Makes so many processors, prints what that took and what they cost when all is quiet; the Figures."""
    figures = create(world, space, count)
    print(f"{count} processors, created in {figures.created:.1f} s")
    print(f"all have their children    {figures.children:.1f} s after the last one was created")
    print(f"all are Ready              {figures.ready:.1f} s after the last one was created")
    print(f"memory of the operator     {figures.memory / 1e6:.0f} MB")
    print(f"API calls per processor    {figures.calls:.1f}, of which writes {figures.writes:.1f}")
    for what, number in figures.kinds.most_common(12):
        print(f"  {number / count:6.2f}  {what}")
    settled, calls, writes = steady(world, quiet, seconds)
    print(f"nothing is written any more from {settled:.0f} s after that on")
    print(f"in {seconds} s then             {sum(writes.values())} writes {dict(writes)}, {sum(calls.values()) - sum(writes.values())} reads {dict(calls - writes)}")
    print(f"memory then                {memory_of(world.operator().mains[0].process) / 1e6:.0f} MB", flush=True)
    return figures
