"""Records per second, what they cost, and where: the input is there from the start, the peer works until all of it is committed.

A record counts when its output can be read as committed. Taken over the last two thirds of the input: the start of the peer, its joining and the worst
of a JVM's warming up are left out for everybody. (An input so small that one look sees none and the next one all of it is taken as a whole.)
"""

import time

import machine
from bed import Progress

WARMUP = 1 / 3  # of the input


class Snapshot:
    """CPU used so far by the peer, the broker and the machine."""

    def __init__(self, bed, process):
        self.time = time.monotonic()
        self.peer, self.threads = process.cpu(), process.threads()
        self.broker = machine.cpu_seconds(bed.cluster.brokers[0].process.pid)
        self.harness = machine.read_stat("/proc/self")[1]
        self.machine = machine.busy_seconds()


def measure(bed, peer, job, records, deadline=600):
    """One run: {measure: value}."""
    process = peer.start(job)
    try:
        progress = Progress(bed.config, job.output)
        start = Snapshot(bed, process)
        while (seen := progress()) < records * WARMUP:
            process.check_alive()
            if time.monotonic() - process.started > deadline:
                process.fail(f"{seen} of {records} outputs after {deadline} s")
            time.sleep(0.02)
        first = Snapshot(bed, process)
        last, peak = first, process.rss_mb()
        end = process.started + deadline
        at, steps = seen, 0
        if seen >= records:  # over before the first look: all of it counts
            first, at, steps = start, 0, 1
        while seen < records:
            time.sleep(0.02)
            now = progress()
            if now != seen:
                seen, last, steps = now, Snapshot(bed, process), steps + 1
                peak = max(peak, process.rss_mb())
            process.check_alive()
            if time.monotonic() > end:
                process.fail(f"{seen} of {records} outputs after {deadline} s")
        bed.wait_outputs(job, process, records, 60, progress)
        details = peer.details(process)
        process.stop()
    finally:
        process.kill()
    checked = bed.check(job)
    counted, seconds = seen - at, last.time - first.time
    peer_cpu, broker_cpu = last.peer - first.peer, last.broker - first.broker
    others = last.machine - first.machine - peer_cpu - broker_cpu - (last.harness - first.harness)
    threads = {f"{name[0]} / {name[1]}": 1e6 * (cpu - first.threads[name]) / counted for name, cpu in last.threads.items()}
    return {"records/s": counted / seconds, "us/record": 1e6 * peer_cpu / counted, "RSS MB": peak,
            "broker us/record": 1e6 * broker_cpu / counted, "others %": 100 * max(0.0, others) / seconds, "steps": steps, "checked": checked, "details": details,
            "threads": dict(sorted(((name, each) for name, each in threads.items() if each > 0.01), key=lambda item: -item[1])[:8])}
