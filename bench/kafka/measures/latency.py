"""Latency at a steady rate: from when a record was due to be sent until its output is read as committed (kafka_load latency)."""

import machine


def measure(bed, peer, job, rate, seconds, warmup):
    """One run: percentiles in milliseconds."""
    process = peer.start(job)
    try:
        before = machine.busy_seconds(), process.cpu()
        found = bed.load("latency", input=job.input, output=job.output, rate=rate, seconds=seconds, warmup=warmup)
        process.check_alive()
        after = machine.busy_seconds(), process.cpu()
        process.stop()
    finally:
        process.kill()
    records = (seconds + warmup) * rate
    return {"p50 ms": found["p50"], "p99 ms": found["p99"], "p99.9 ms": found["p99.9"], "max ms": found["max"],
            "us/record": 1e6 * (after[1] - before[1]) / records, "machine busy %": 100 * (after[0] - before[0]) / (seconds + warmup),
            "checked": bed.check(job)}
