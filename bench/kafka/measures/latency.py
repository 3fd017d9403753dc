"""Latency at a steady rate: from when a record was due to be sent until its output is read as committed (kafka_load latency)."""

import time

import machine


def measure(bed, peer, job, rate, seconds, warmup):
    """One run: percentiles in milliseconds."""
    process = peer.start(job)
    try:
        busy, start = machine.busy_seconds(), time.monotonic()
        found = bed.load("latency", input=job.input, output=job.output, rate=rate, seconds=seconds, warmup=warmup)
        busy, elapsed = machine.busy_seconds() - busy, time.monotonic() - start
        process.check_alive()
        details = peer.details(process)
        process.stop()
    finally:
        process.kill()
    return {"p50 ms": found["p50"], "p99 ms": found["p99"], "p99.9 ms": found["p99.9"], "max ms": found["max"], "machine busy %": 100 * busy / elapsed,
            "details": details, "checked": bed.check(job)}
