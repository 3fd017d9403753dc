#!/usr/bin/env python3
"""End to end on the embedded log: counting keys, one output per input, state with a changelog, ExactlyOnce.

    bench/counting.py                       the standard set: C++ worker, Python worker, guarantees, idle cost
    bench/counting.py --tasks 1,10,100      cost per record over the number of tasks
    bench/counting.py --keys 10000,1000000  cost per record over the number of keys

A curve shows what a record costs the sidecar in all, the ratio to the curve's first row, and where that goes: the threads of the
sidecar itself, the threads that flush and compact its state (the part that grows with the disk), the upkeep of the embedded log
(which a run on Kafka does not have), and how much of the whole was the kernel's. Each run counts twice as many records as there
are keys, at least: the first half of them are new keys, the rest updates.

The input is produced first; then the processor runs until everything is committed. Records per second are taken between
the first commit and the last. CPU is that of the sidecar process alone (/proc), the worker's is shown apart.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build")) / "bin"
TICK = os.sysconf("SC_CLK_TCK")
VALUE_BYTES = 100  # as in bench/kafka
START_TIMEOUT, RUN_TIMEOUT = 60, 900  # seconds

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: counting}}
spec:
  guarantee: {guarantee}
  inputs: [{{topic: words}}]
  stores: [{{name: counts}}]
  outputs: [{{topic: counted, create: {{partitions: {tasks}}}}}]
"""

PYTHON_WORKER = '''
import millstream
app = millstream.App(key="bytes", value="bytes")

@app.on("words")
def count(ctx, record):
    counts = ctx.state("counts")
    n = b"%d" % (int(counts.get(default=b"0")) + 1)
    counts.set(n)
    ctx.emit("counted", key=record.key, value=n)

app.run()
'''


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


# Threads of the sidecar that work for the disk or the log; all others are its own.
BACKGROUND = {"rocksdb:high": "disk", "rocksdb:low": "disk", "log upkeep": "log"}


def cpu_by_part(pid):
    """Seconds of the threads running now: own, disk, log; and system, of all of them."""
    parts = {"own": 0.0, "disk": 0.0, "log": 0.0, "system": 0.0}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except OSError:
            continue  # ended meanwhile
        name = text[text.index("(") + 1:text.rindex(")")]
        fields = text.rsplit(")", 1)[1].split()
        parts[BACKGROUND.get(name, "own")] += (int(fields[11]) + int(fields[12])) / TICK
        parts["system"] += int(fields[12]) / TICK
    return parts


def rss_mb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def committed(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return 0
    found = re.search(r"^millstream_records_total\{[^}]*\} (\S+)", text, re.M)
    return int(float(found.group(1))) if found else 0


def write_input(path, records, keys, seed):
    """key<TAB>value lines; every key appears, in random order."""
    chooser = random.Random(seed)
    pad = "v" * VALUE_BYTES
    with open(path, "w") as out:
        for start in range(0, records, 100_000):
            out.writelines(f"key-{chooser.randrange(keys)}\t{pad}\n" for _ in range(min(100_000, records - start)))


class Run:
    def __init__(self, folder, worker, guarantee, tasks, memory=None, manifest=MANIFEST):
        self.port = free_port()
        path = folder / "processor.yaml"
        path.write_text(manifest.format(guarantee=guarantee, tasks=tasks))
        command = [BIN / "millstream", "run", "-f", path, "--data", folder / "data", "--partitions", tasks, "--http", f"127.0.0.1:{self.port}"]
        if memory:
            command += ["--memory", memory]
        self.log = folder / "run.log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen([str(part) for part in command + ["--", *worker]], stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def wait(self, records, timeout):
        """(time, count) of the first commit seen and of the end."""
        end = time.monotonic() + timeout
        first = None
        while True:
            done = committed(self.port)
            now = time.monotonic()
            if done and first is None:
                first = (now, done, cpu_seconds(self.process.pid), self.worker_cpu(), cpu_by_part(self.process.pid))
            if done >= records:
                return first, (now, done, cpu_seconds(self.process.pid), self.worker_cpu(), cpu_by_part(self.process.pid))
            if now > end or self.process.poll() is not None:
                raise SystemExit(f"{done} of {records} records committed\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.02)

    def worker_cpu(self):
        return sum(cpu_seconds(pid) for pid in children(self.process.pid))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            raise SystemExit(f"exit {self.process.returncode}\n{self.log.read_text(errors='replace')[-3000:]}")


def measure(worker, records, keys, tasks=8, guarantee="ExactlyOnce", seed=1, base=None):
    with tempfile.TemporaryDirectory(dir=base) as name:
        folder = pathlib.Path(name)
        write_input(folder / "input", records, keys, seed)
        subprocess.run([str(BIN / "millstream"), "produce", "words", str(folder / "input"), "--data", str(folder / "data"), "--format", "raw",
                        "--partitions", str(tasks)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.unlink(folder / "input")
        run = Run(folder, worker, guarantee, tasks)
        try:
            first, last = run.wait(records, RUN_TIMEOUT)
            rss = rss_mb(run.process.pid)
        finally:
            if run.process.poll() is None:
                run.stop()
        counted = last[1] - first[1]
        return {"records/s": counted / (last[0] - first[0]), "sidecar us/record": 1e6 * (last[2] - first[2]) / counted,
                "worker us/record": 1e6 * (last[3] - first[3]) / counted, "rss MB": rss,
                "parts": {name: 1e6 * (last[4][name] - first[4][name]) / counted for name in last[4]}}


def idle(worker, seconds=10):
    """RSS and CPU of a sidecar with 8 tasks, a connected worker and nothing to do."""
    with tempfile.TemporaryDirectory() as name:
        run = Run(pathlib.Path(name), worker, "ExactlyOnce", 8)
        try:
            end = time.monotonic() + START_TIMEOUT
            while True:
                try:
                    if urllib.request.urlopen(f"http://127.0.0.1:{run.port}/readyz", timeout=5).status == 200:
                        break
                except OSError:
                    pass
                if time.monotonic() > end:
                    raise SystemExit(run.log.read_text(errors="replace"))
                time.sleep(0.05)
            time.sleep(3)  # start-up work is not idling
            before = cpu_seconds(run.process.pid)
            time.sleep(seconds)
            return {"rss MB": rss_mb(run.process.pid), "cpu %": 100 * (cpu_seconds(run.process.pid) - before) / seconds}
        finally:
            run.stop()


def show(label, samples):
    cells = []
    for name in samples[0]:
        if name == "parts":
            continue
        values = sorted(sample[name] for sample in samples)
        form = "{:,.0f}" if name == "records/s" else "{:.2f}"
        cells.append(f"{name} " + " / ".join(form.format(v) for v in (values[0], statistics.median(values), values[-1])))
    print(f"{label:28} " + "   ".join(cells), flush=True)


def show_curve(samples):
    """Medians, one row a case; the ratio is to the first row."""
    print(f"{'sidecar us/record, medians':28} {'in all':>7} {'ratio':>6} | {'own':>6} {'disk':>6} {'log':>6} | {'system':>7} | {'worker':>7} {'records/s':>10} {'rss MB':>7}")
    base = None
    for label, runs in samples.items():
        middle = lambda of: statistics.median(of(run) for run in runs)
        total = middle(lambda run: run["sidecar us/record"])
        base = base or total
        own, disk, log, system = (middle(lambda run: run["parts"][name]) for name in ("own", "disk", "log", "system"))
        print(f"{label:28} {total:7.2f} {total / base:6.2f} | {own:6.2f} {disk:6.2f} {log:6.2f} | {system:7.2f} | "
              f"{middle(lambda run: run['worker us/record']):7.2f} {middle(lambda run: run['records/s']):10,.0f} {middle(lambda run: run['rss MB']):7.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", default="100000")
    parser.add_argument("--tasks", default="8")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worker", choices=["cpp", "python", "both"], default="both")
    parser.add_argument("--dir", help="put data folders there")
    options = parser.parse_args()
    keys, tasks = ([int(n) for n in text.split(",")] for text in (options.keys, options.tasks))
    cpp = [str(BIN / "counting_worker"), "--input=words", "--output=counted"]
    with tempfile.TemporaryDirectory() as programs:
        script = pathlib.Path(programs) / "counting.py"
        script.write_text(PYTHON_WORKER)
        python = [sys.executable, str(script)]
        print("min / median / max of", options.repeats, "runs, interleaved")
        curve = len(keys) > 1 or len(tasks) > 1
        if curve:
            cases = [(f"C++ {t} tasks, {k:,} keys", cpp, max(options.records, 2 * k), k, t, "ExactlyOnce") for t in tasks for k in keys]
        else:
            cases = []
            if options.worker != "python":
                cases += [(f"C++ {g}", cpp, options.records, keys[0], tasks[0], g) for g in ("ExactlyOnce", "AtLeastOnce")]
            if options.worker != "cpp":
                cases += [("Python ExactlyOnce", python, max(options.records // 4, 1), keys[0], tasks[0], "ExactlyOnce")]
        samples = {case[0]: [] for case in cases}
        for repeat in range(options.repeats):
            for label, worker, records, k, t, guarantee in cases:
                samples[label].append(measure(worker, records, k, t, guarantee, seed=repeat, base=options.dir))
        for label, values in samples.items():
            show(label, values)
        if curve:
            show_curve(samples)
        if not curve:
            show("idle, 8 tasks", [idle(cpp if options.worker != "python" else python)])


if __name__ == "__main__":
    main()
