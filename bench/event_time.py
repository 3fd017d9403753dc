#!/usr/bin/env python3
"""Event time on the embedded log, with the C++ worker: what windows and timers cost.

    bench/event_time.py                                all three
    bench/event_time.py --only windows                 counts per key and minute beside counts per key, over the same input
    bench/event_time.py --only timers                  each record sets a timer, each of them fires
    bench/event_time.py --only pending --pending 10000000     timers that wait: memory of the sidecar as they become more, and after a restart

Windows: 100,000 keys; a minute of event time has --per-minute records, so that a window gets several of them, and many windows end
while it runs. Plain and windowed runs take turns; the ratio is that of their medians.

Timers: every record has a key of its own and sets a timer a minute later, and event time goes on with the records: at any time a minute's
timers are pending. Per second are timers that were set and have fired.

Pending: no timer is due. The anonymous memory of the sidecar (not pages of files) is printed for every tenth of them; flat is what it is
meant to be, since timers lie with the state.
"""

import argparse
import base64
import contextlib
import pathlib
import random
import re
import subprocess
import tempfile
import time
import urllib.request

import counting

START = 1_700_000_040_000  # a full minute
MINUTE = 60_000
HEAD = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: counting}}
spec:
  guarantee: {guarantee}
  inputs: [{{topic: words}}]
  outputs: [{{topic: counted, create: {{partitions: {tasks}}}}}]
"""
WINDOWED = HEAD + "  stores: [{{name: counts, type: Window, window: {{size: 1m, grace: 10s}}}}]\n"
TIMED = HEAD + "  timers: {{}}\n"


def produce(folder, lines, tasks):
    """Writes (time, key) to the input."""
    value = base64.b64encode(b"v" * counting.VALUE_BYTES).decode()
    process = subprocess.Popen([str(counting.BIN / "millstream"), "produce", "words", "--data", str(folder / "data"), "--format", "base64",
                                "--partitions", str(tasks)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    with process.stdin as out:
        for at, key in lines:
            out.write(f"{at}\t{base64.b64encode(key.encode()).decode()}\t{value}\n")
    if process.wait() != 0:
        raise SystemExit(f"millstream produce ended with {process.returncode}")


def metric(run, name):
    """0 while nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{run.port}/metrics", timeout=10) as answer:
            found = re.search(rf"^{name}\{{[^}}]*\}} (\S+)", answer.read().decode(), re.M)
    except OSError:
        return 0
    return int(float(found.group(1))) if found else 0


def wait_metric(run, name, goal):
    """Returns the time at which it is there."""
    end = time.monotonic() + counting.RUN_TIMEOUT
    while True:
        now, there = time.monotonic(), metric(run, name)
        if there >= goal:
            return now
        if now > end or run.process.poll() is not None:
            raise SystemExit(f"{name} is {there}, not {goal}\n{run.log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.02)


def anonymous_mb(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def worker(*flags):
    return [str(counting.BIN / "counting_worker"), "--input=words", *flags]


class Bench:
    def __init__(self, options):
        self.options = options

    def folder(self):
        return tempfile.TemporaryDirectory(dir=self.options.dir)

    # ---------------------------------------------------------------- windows

    def count(self, program, manifest, seed):
        options = self.options
        with self.folder() as name:
            folder = pathlib.Path(name)
            chooser = random.Random(seed)
            produce(folder, ((START + n * MINUTE // options.per_minute, f"key-{chooser.randrange(options.keys)}") for n in range(options.records)),
                    options.tasks)
            run = counting.Run(folder, program, "ExactlyOnce", options.tasks, manifest=manifest)
            try:
                first, last = run.wait(options.records, counting.RUN_TIMEOUT)
            finally:
                if run.process.poll() is None:
                    run.stop()
        done = last[1] - first[1]
        return {"records/s": done / (last[0] - first[0]), "sidecar us/record": 1e6 * (last[2] - first[2]) / done,
                "worker us/record": 1e6 * (last[3] - first[3]) / done,
                **{f"{part} us": 1e6 * (last[4][part] - first[4][part]) / done for part in ("own", "disk", "log")}}

    def windows(self):
        cases = {"plain": (worker("--output=counted"), counting.MANIFEST), "windowed, 1 min": (worker("--output=counted", "--state=window"), WINDOWED)}
        samples = {label: [] for label in cases}
        for repeat in range(self.options.repeats):
            for label, (program, manifest) in cases.items():
                samples[label].append(self.count(program, manifest, repeat))
        for label, values in samples.items():
            counting.show(label, values)
        plain, windowed = (sorted(sample["records/s"] for sample in values)[len(values) // 2] for values in samples.values())
        print(f"windowed / plain: {100 * windowed / plain:.0f} % of the records per second (target: at least 60 %)", flush=True)

    # ---------------------------------------------------------------- timers

    def set_and_fire(self):
        options = self.options
        with self.folder() as name:
            folder = pathlib.Path(name)
            # Ten minutes; behind them records of every task that make the last timers due, and set some that are not.
            lines = [(START + n * 10 * MINUTE // options.records, f"key-{n}") for n in range(options.records)]
            lines += [(START + 20 * MINUTE, f"end-{n}") for n in range(64 * options.tasks)]
            produce(folder, lines, options.tasks)
            run = counting.Run(folder, worker("--state=timer", "--output="), "ExactlyOnce", options.tasks, manifest=TIMED)
            try:
                while counting.committed(run.port) == 0:
                    time.sleep(0.01)
                begin, done, cpu = time.monotonic(), metric(run, "millstream_timers_fired_total"), counting.cpu_seconds(run.process.pid)
                end = wait_metric(run, "millstream_timers_fired_total", options.records)
                fired = options.records - done
                return {"timers/s": fired / (end - begin), "sidecar us/timer": 1e6 * (counting.cpu_seconds(run.process.pid) - cpu) / fired}
            finally:
                if run.process.poll() is None:
                    run.stop()

    def timers(self):
        counting.show("timers set and fired", [self.set_and_fire() for _ in range(self.options.repeats)])

    # ---------------------------------------------------------------- pending

    def pending(self):
        options, each = self.options, 10
        records = options.pending // each
        with self.folder() as name:
            folder = pathlib.Path(name)
            produce(folder, ((START + n * MINUTE // records, f"key-{n}") for n in range(records)), options.tasks)
            program = worker("--state=timer", "--output=", f"--timers={each}", "--after-ms=86400000")
            with self.run_of(folder, program) as run:
                began = time.monotonic()
                for tenth in range(1, 11):
                    at = wait_metric(run, "millstream_records_total", records * tenth // 10)
                    print(f"{options.pending * tenth // 10:12,} pending   {anonymous_mb(run.process.pid):6.0f} MB   {at - began:6.1f} s", flush=True)
            began = time.monotonic()
            with self.run_of(folder, program) as run:
                self.wait_ready(run)
                print(f"started again: ready after {time.monotonic() - began:.1f} s, {anonymous_mb(run.process.pid):.0f} MB", flush=True)

    @contextlib.contextmanager
    def run_of(self, folder, program):
        run = counting.Run(folder, program, "ExactlyOnce", self.options.tasks, memory=self.options.memory, manifest=TIMED)
        try:
            yield run
        finally:
            if run.process.poll() is None:
                run.stop()

    def wait_ready(self, run):
        end = time.monotonic() + counting.RUN_TIMEOUT
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{run.port}/readyz", timeout=5):
                    return
            except OSError:
                pass
            if time.monotonic() > end or run.process.poll() is not None:
                raise SystemExit(run.log.read_text(errors="replace")[-3000:])
            time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["windows", "timers", "pending"])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--per-minute", type=int, default=500_000)
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--memory", default="512Mi", help="budget of the sidecar in the runs with pending timers")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dir", help="put data folders there")
    options = parser.parse_args()
    bench = Bench(options)
    for name in ("windows", "timers", "pending"):
        if options.only in (None, name):
            getattr(bench, name)()


if __name__ == "__main__":
    main()
