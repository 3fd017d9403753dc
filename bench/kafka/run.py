#!/usr/bin/env python3
"""Millstream and peers on one real broker of this machine: throughput, latency, recovery, restore; every run's result is checked.

    ./dev bench kafka                    all measures, about ten minutes on two cores
    ./dev bench kafka --full             large sizes: most of an hour
    ./dev bench kafka --only throughput --peers "Millstream|floor"
    ./dev bench kafka --smoke            seconds: does it work at all (no Kafka Streams, no figures worth reading)

Runs of different peers take turns, so that whatever else the machine does meets all of them; figures are min / median / max of the repeats. "others %" is
the CPU that neither the peer, the broker nor this program used during a run, in percent of one core: a run is worth reading when it is small.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bed import ROOT, Bed  # noqa: E402  (finds the test bed for the others)
import machine  # noqa: E402
import report  # noqa: E402
from measures import latency, recovery, throughput  # noqa: E402
from peers.floor import Floor  # noqa: E402
from peers.millstream import Millstream  # noqa: E402
from peers.streams import Streams  # noqa: E402

PROGRAMS = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build")) / "bin"
MEASURES = ["throughput", "latency", "recovery", "restore"]
EO, ALO = "ExactlyOnce", "AtLeastOnce"

SIZES = {
    "smoke": {"repeats": 1, "warm": 0, "records": 30_000, "keys": 1_000, "slow": 1, "seconds": 1, "warmup": 1, "state": 2_000, "large": 1_000},
    "default": {"repeats": 3, "warm": 1_000_000, "records": 1_500_000, "keys": 100_000, "slow": 2, "seconds": 5, "warmup": 2, "state": 1_000_000, "large": 200_000},
    "full": {"repeats": 3, "warm": 1_000_000, "records": 6_000_000, "keys": 100_000, "slow": 1, "seconds": 30, "warmup": 10, "state": 20_000_000, "large": 2_000_000},
}


class Plan:
    """What is measured: the sizes, and who takes part in what, after the filter of --peers."""

    def __init__(self, options):
        self.size = dict(SIZES["smoke" if options.smoke else "full" if options.full else "default"])
        for name in ("repeats", "records"):
            if getattr(options, name):
                self.size[name] = getattr(options, name)
        self.only = options.only.split(",") if options.only else ["throughput"] if options.smoke else MEASURES
        wanted = re.compile(options.peers or ".", re.I)
        self.cpp, self.python = Millstream(PROGRAMS), [Millstream(PROGRAMS, "python", n) for n in (1, 2)]
        self.streams, self.floor, self.floor_20 = [Streams(n) for n in (1, 2)], Floor(PROGRAMS), Floor(PROGRAMS, 20)
        slow = [] if options.smoke else [*((each, EO) for each in self.python), *((each, EO) for each in self.streams)]
        pick = lambda cases: [case for case in cases if wanted.search(label(*case))]
        slow += [] if options.smoke else [(self.cpp, ALO), (self.streams[0], ALO)]
        self.throughput = pick([(self.cpp, EO), (self.floor, EO), *slow])
        self.latency = pick([(self.cpp, EO), (self.cpp, ALO), (self.floor, EO),
                             *([] if options.smoke else [(self.streams[0], EO), (self.streams[0], ALO)]), *([(self.floor_20, EO)] if options.full else [])])
        self.recovery = pick([(self.cpp, EO), *([] if options.smoke else [(self.streams[1], EO)])])
        self.restore = pick([(self.cpp, EO)])

    def records(self, peer):
        """Slower peers get a part of the input: a run of theirs takes as long as one of ours."""
        return self.size["records"] if peer in (self.cpp, self.floor) else self.size["records"] // self.size["slow"]


def label(peer, guarantee):
    return peer.label if isinstance(peer, Floor) else f"{peer.label}, {guarantee}"


def note(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def warm(bed, plan):
    """The broker's code gets compiled, for everybody alike: many records, then many small transactions."""
    words = bed.topic("words")
    bed.load("fill", topic=words, records=plan.size["warm"], keys=plan.size["keys"])
    job = bed.job(input=words)
    throughput.measure(bed, plan.floor, job, plan.size["warm"])
    bed.end(job)
    job = bed.job()
    latency.measure(bed, Floor(PROGRAMS, 5), job, 1000, 5, 0)
    bed.end(job)
    bed.remove_topics(words, job.input)


def run_throughput(bed, plan):
    inputs = {}
    for records in sorted({plan.records(peer) for peer, _ in plan.throughput}):
        inputs[records] = bed.topic("words")
        bed.load("fill", topic=inputs[records], records=records, keys=plan.size["keys"])
    results = {label(*case): [] for case in plan.throughput}
    for _ in range(plan.size["repeats"]):
        for peer, guarantee in plan.throughput:
            records = plan.records(peer)
            job = bed.job(input=inputs[records], guarantee=guarantee)
            results[label(peer, guarantee)].append(throughput.measure(bed, peer, job, records))
            bed.end(job)
            note(f"{label(peer, guarantee)}: {results[label(peer, guarantee)][-1]['records/s']:,.0f} records/s")
    bed.remove_topics(*inputs.values())
    return results


def run_latency(bed, plan):
    results = {label(*case): [] for case in plan.latency}
    for _ in range(plan.size["repeats"]):
        for peer, guarantee in plan.latency:
            job = bed.job(guarantee=guarantee, low_latency=True)
            results[label(peer, guarantee)].append(latency.measure(bed, peer, job, 1000, plan.size["seconds"], plan.size["warmup"]))
            bed.end(job)
            bed.remove_topics(job.input)
            note(f"{label(peer, guarantee)}: p50 {results[label(peer, guarantee)][-1]['p50 ms']:.1f} ms")
    return results


def run_recovery(bed, plan, cases, keys, value_bytes, kills):
    results = {}
    for peer, guarantee in cases:
        job = bed.job(task="keep", guarantee=guarantee)
        results[label(peer, guarantee)] = recovery.measure(bed, peer, job, keys, value_bytes, plan.size["repeats"], kills)
        bed.end(job)
        bed.remove_topics(job.input)
        note(f"{label(peer, guarantee)}: restored {len(results[label(peer, guarantee)]['wiped'])} times")
    return results


def show_recovery(title, results):
    if any(found["killed"] for found in results.values()):
        report.table(f"{title}: started again after kill -9, disk kept: seconds to the first committed output, and to all that waited",
                     {name: found["killed"] for name, found in results.items()}, ["first s", "all s", "read back MB"])
    report.table(f"{title}: started on an empty disk", {name: found["wiped"] for name, found in results.items()},
                 ["first s", "all s", "restore s", "restore MB/s"])


def ratios(plan, results):
    """The figures of the targets (P1..P12), where this run has them."""
    lines = report.Ratios()
    runs = results.get("throughput", {})
    get = lambda peer, guarantee, name: report.median(runs.get(label(peer, guarantee), []), name)
    best = max((value for value in (get(each, EO, "records/s") for each in plan.streams) if value), default=None)
    cheapest = min((value for value in (get(each, EO, "us/record") for each in plan.streams) if value), default=None)
    ours = get(plan.cpp, EO, "records/s")
    lines.add("P1 throughput, C++ worker / Kafka Streams (the better of 1, 2 threads)", report.over(ours, best), 2.5)
    threads = [max(run["threads"].values(), default=0) for run in runs.get(label(plan.cpp, EO), [])]
    lines.add("P1 us/record of the busiest thread", sorted(threads)[len(threads) // 2] if threads else None, 3, at_least=False)
    lines.add("P2 CPU per record / Kafka Streams", report.over(get(plan.cpp, EO, "us/record"), cheapest), 0.33, at_least=False)
    for number in (0, 1):
        lines.add(f"P3 Python, {number + 1} process(es) / Kafka Streams, {number + 1} thread(s)",
                  report.over(get(plan.python[number], EO, "records/s"), get(plan.streams[number], EO, "records/s")), 1.0)
    lines.add("P5 throughput / bare loop", report.over(ours, get(plan.floor, EO, "records/s")), 0.6)
    lines.add("P12 exactly once / at least once", report.over(ours, get(plan.cpp, ALO, "records/s")), 0.85)
    runs = results.get("latency", {})
    for name, target in (("p50 ms", 0.2), ("p99 ms", 0.25), ("p99.9 ms", 0.33)):
        lines.add(f"P6 latency {name} / Kafka Streams", report.over(get(plan.cpp, EO, name), get(plan.streams[0], EO, name)), target, at_least=False)
    runs = {name: found["killed"] for name, found in results.get("recovery", {}).items()}
    lines.add("P7 seconds to the first output after kill -9", get(plan.cpp, EO, "first s"), 1.0, at_least=False)
    runs = {name: found["wiped"] for name, found in results.get("restore", {}).items()}
    lines.add("P8 restore MB/s, 1 KB values", get(plan.cpp, EO, "restore MB/s"), 150)
    runs = {name: found["wiped"] for name, found in results.get("recovery", {}).items()}
    lines.add("P8 restore MB/s / Kafka Streams, 100-byte values",
              report.over(get(plan.cpp, EO, "restore MB/s"), get(plan.streams[1], EO, "restore MB/s")), 3.0)
    return lines


def measure(plan, options, results):
    """Fills `results`, one measure after the other."""
    with tempfile.TemporaryDirectory(prefix="millstream-bench.", dir=options.dir) as folder, Bed(folder, PROGRAMS) as bed:
        if plan.size["warm"]:
            warm(bed, plan)
        if "throughput" in plan.only:
            runs = results["throughput"] = run_throughput(bed, plan)
            report.table(f"throughput: count per key, {plan.size['keys']:,} keys, 8 partitions, 100-byte values, one output per record", runs,
                         ["records/s", "us/record", "RSS MB", "broker us/record", "others %"])
            report.short(runs)
            report.details(runs)
        if "latency" in plan.only:
            runs = results["latency"] = run_latency(bed, plan)
            report.table("latency at 1,000 records/s", runs, ["p50 ms", "p99 ms", "p99.9 ms", "max ms", "machine busy %"])
            report.details(runs)
        if "recovery" in plan.only:
            results["recovery"] = run_recovery(bed, plan, plan.recovery, plan.size["state"], 100, kills=True)
            show_recovery(f"{plan.size['state']:,} keys of 100 bytes", results["recovery"])
        if "restore" in plan.only:
            results["restore"] = run_recovery(bed, plan, plan.restore, plan.size["large"], 1000, kills=False)
            show_recovery(f"{plan.size['large']:,} keys of 1,000 bytes", results["restore"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="large sizes")
    size.add_argument("--smoke", action="store_true", help="tiny sizes, ours and the bare loop alone")
    parser.add_argument("--only", help=f"some of {','.join(MEASURES)}")
    parser.add_argument("--peers", help="regular expression over the labels of the tables")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--records", type=int, help="of a throughput run")
    parser.add_argument("--dir", help="broker, state and logs go below this folder (default: the system's for temporary files)")
    parser.add_argument("--json", help="write everything to this file, each run by itself")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # in order: peers and broker end too
    plan = Plan(options)
    if unknown := set(plan.only) - set(MEASURES):
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    for peer in {peer for cases in (plan.throughput, plan.latency, plan.recovery, plan.restore) for peer, _ in cases}:
        peer.prepare()
    started, before = time.monotonic(), machine.description()
    print(f"machine: {before['processor']}, {before['cores']} cores, {before['memory MB']} MB; load before {before['load']}")
    print(f"min / median / max of {plan.size['repeats']} runs, taking turns; broker, peers and this program share the machine")
    results, after = {}, None
    try:
        measure(plan, options, results)
        after = machine.description()
    except machine.Failed as error:
        sys.exit(f"FAILED: {error}")
    finally:  # what was measured before it failed or was told to end is kept
        lines = ratios(plan, results)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps({"before": before, "after": after, "size": plan.size, "results": results,
                                                              "targets": lines.lines}, indent=1))
    if not options.smoke:
        lines.show()
    print(f"\nevery run's outputs were compared with its input: none lost, none doubled\nload after {after['load']}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
