#!/usr/bin/env python3
"""./dev e2e figures: how long things take and what they weigh on a real node. Prints a table; the machine should have nothing else to do.

From `kubectl apply` to the first committed output (image on the node, topics made, empty volume); a rolling restart of three pods: the longest time
in which a partition had no committed output; memory and processor of the sidecar in a pod, idle and at 10,000 records a second.
"""

import os
import pathlib
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import rig  # noqa: E402

import clients  # found where rig.py looks for it
import load

SECONDS = 20  # of each measurement of processor time
TICKS = os.sysconf("SC_CLK_TCK")


class Gaps:
    """The longest time between two committed outputs of each partition, as a reader sees them."""

    def __init__(self, tail):
        self.tail, self.last, self.longest, self.ended = tail, {}, {}, False
        self.at = tail.count()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ended:
            with self.tail.lock:
                fresh, self.at = self.tail.seen[self.at:], len(self.tail.seen)
            now = time.monotonic()
            for partition in {each[0] for each in fresh}:
                self.longest[partition] = max(self.longest.get(partition, 0.0), now - self.last.get(partition, now))
                self.last[partition] = now
            time.sleep(0.01)

    def end(self):
        self.ended = True
        self.thread.join()
        return dict(sorted(self.longest.items()))


def say(what, value):
    print(f"{what:60} {value}", flush=True)


def usage(world, namespace, pod):
    """(resident MB, processor seconds so far) of the sidecar."""
    pid = world.pid(namespace, pod, "millstream")
    read = lambda name: world.cluster.node.run("cat", f"/proc/{pid}/{name}").stdout
    fields = read("stat").rpartition(")")[2].split()
    return int(read("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, (int(fields[11]) + int(fields[12])) / TICKS


def weigh(world, namespace, pod, what):
    _, before = usage(world, namespace, pod)
    time.sleep(SECONDS)
    memory, after = usage(world, namespace, pod)
    say(f"sidecar, {what}", f"{memory:.0f} MB resident, {100 * (after - before) / SECONDS:.1f} % of a core")


def begin(world, namespace, name, **spec):
    """Topics with events in them, the processor, and how long it takes until its output is there. What a task reads and what it writes has the same
    number of partitions and the same keys: a partition of the output is a task."""
    config = world.kafka.client("INTERNAL")
    for suffix in ("in", "out"):
        clients.create_topic(config, f"{name}-{suffix}", 6)
    made = load.Load(world, namespace, name)
    made.start()
    began = time.monotonic()
    world.admin.create(rig.processor(namespace, name, outputs=[{"name": "seen", "topic": f"{name}-out"}], **spec))
    assert made.tail.wait(bool, 600), "no output within ten minutes"
    return made, time.monotonic() - began


def main():
    with tempfile.TemporaryDirectory(prefix="millstream-figures.") as scratch, rig.World(pathlib.Path(scratch) / "run") as world:
        world.image(rig.WORKER, [HERE / "worker.py"])
        world.install()
        space = world.cluster.namespace("figures", rig.RESTRICTED)
        say("load of this machine (1 minute)", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")

        steady, first = begin(world, space, "roll", replicas=3)
        say("kubectl apply to the first committed output, 3 pods", f"{first:.1f} s")
        world.wait_ready(space, "roll")
        gaps = Gaps(steady.tail)
        uids = lambda: {each["metadata"]["uid"] for each in world.admin.list("Pod", space, labelSelector="app.kubernetes.io/instance=roll,app.kubernetes.io/component=processor")}
        before, began = uids(), time.monotonic()
        world.cluster.kubectl("annotate", "sp", "roll", "-n", space, "millstream.dev/restartedAt=now", "--overwrite")
        world.wait(lambda: not uids() & before and world.is_ready(space, "roll"), "all pods to be replaced")
        say("rolling restart of 3 pods at 100 records/s, all of it", f"{time.monotonic() - began:.1f} s")
        say("  longest time without a committed output, per partition", " ".join(f"{each:.1f}" for each in gaps.end().values()) + " s")
        problems = steady.problems()
        say("  lost or doubled", "nothing" if not problems else problems[0])
        steady.close()
        world.admin.delete("StreamProcessor", space, "roll")

        made, first = begin(world, space, "weigh")
        say("kubectl apply to the first committed output, 1 pod", f"{first:.1f} s")
        world.wait_ready(space, "weigh")
        made.problems()
        with made.writing:
            weigh(world, space, "weigh-0", "idle, 6 tasks")
        made.rate = 10_000
        began, before = time.monotonic(), made.count()
        time.sleep(5)
        weigh(world, space, "weigh-0", "at 10,000 records/s offered")
        say("  committed outputs meanwhile", f"{(made.count() - before) / (time.monotonic() - began):.0f} records/s")
        made.close()


if __name__ == "__main__":
    main()
