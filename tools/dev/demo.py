#!/usr/bin/env python3
"""./dev demo: the flights example over its whole table, killed twice on the way: demo.py [--kafka [BOOTSTRAP]] [--keep DIR].

Loads 231,083 real flights into the embedded log, or into a real Kafka broker that it starts (or the Kafka it is given), runs the processor, kills the sidecar and later the worker with kill -9 in the
middle of the work, and lets examples/flights/verify.py compare every state and every output with a computation of its own.
"""
import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from local_run import Failed, Run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "flights"
PATIENCE = 60  # seconds without any progress


class Screen:
    """One line that moves on a terminal; a line per tenth elsewhere."""

    def __init__(self, total):
        self.total, self.shown, self.open = total, -1, False

    def progress(self, records):
        step = records * 10 // self.total
        if sys.stdout.isatty():
            bar = "#" * (records * 40 // self.total)
            print(f"\r  [{bar:<40}] {records:>9,} of {self.total:,} committed", end="", flush=True)
            self.open = True
        elif step > self.shown:
            print(f"  {records:>9,} of {self.total:,} committed", flush=True)
        self.shown = max(self.shown, step)

    def say(self, text):
        if self.open:
            print()
            self.open = False
        print(text, flush=True)


def kill_in_the_middle(run, screen, what, at, kill):
    """Waits until `at` records are committed and kills; it must have been in the middle."""
    committed = run.wait_for(at, PATIENCE, screen.progress)
    if committed >= screen.total:
        raise Failed(f"everything was committed before the {what} could be killed")
    victim = kill()
    screen.say(f"  kill -9 of the {what} (pid {victim}) with {committed * 100 // screen.total} % committed")


@contextlib.contextmanager
def kafka(given, folder, say):
    """Options that lead to the topics: of the Kafka at `given`; "": of a broker that lives as long as this; None: of the folder."""
    if given != "":
        yield [] if given is None else ["--kafka", given]
        return
    sys.path.insert(0, str(ROOT / "tests" / "testbed" / "kafka"))
    from brokers import Cluster

    say("==> starting a Kafka broker (the first time it is downloaded)")
    with Cluster(folder / "kafka", brokers=1) as cluster:
        say(f"  it listens on {cluster.bootstrap()}")
        yield ["--kafka", cluster.bootstrap()]


def demo(folder, given):
    screen = Screen(0)
    with kafka(given, folder, screen.say) as where:
        flow(folder, screen, where)


def flow(folder, screen, where):
    sys.path.insert(0, str(EXAMPLE))
    import data as flights

    started = time.monotonic()
    screen.total = flights.FLIGHTS
    data = folder / "data"
    topics = f"Kafka at {where[1]}" if where else f"topics in {data}"
    screen.say(f"==> the data: {flights.csv_path()}")
    where_to = where or ["--data", data]
    half = flights.FLIGHTS // 2
    screen.say(f"==> loading the first half of {flights.FLIGHTS:,} flights into {topics}")
    subprocess.run([EXAMPLE / "load.sh", "--limit", str(half), *where_to], stdin=subprocess.DEVNULL, check=True)

    screen.say(f"==> millstream run -f examples/flights/processor.yaml {' '.join([*where, '--', ''])}python examples/flights/delays.py")
    run = Run(EXAMPLE / "processor.yaml", data, ["python", str(EXAMPLE / "delays.py")], folder / "run.log", options=where)
    try:
        run.start()

        def kill_sidecar():
            pid = run.process.pid
            run.kill()
            return pid

        kill_in_the_middle(run, screen, "sidecar", flights.FLIGHTS // 4, kill_sidecar)
        run.start()
        screen.say("  started again; it goes on where the last commit was, and the second half of the flights is loaded")
        with subprocess.Popen([EXAMPLE / "load.sh", "--skip", str(half), *where_to], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as loading:
            kill_in_the_middle(run, screen, "worker", flights.FLIGHTS * 6 // 10, run.kill_worker)
        if loading.returncode != 0:
            raise Failed(f"loading the second half ended with {loading.returncode}")
        run.wait_for(flights.FLIGHTS, PATIENCE, screen.progress)
        screen.say(f"  all committed, {time.monotonic() - started:.0f} s after the start of the demo")
        screen.say("==> comparing every state and every output with an independent computation over the table")
        verified = subprocess.run([sys.executable, EXAMPLE / "verify.py", "--data", data], stdin=subprocess.DEVNULL, check=False)
        if verified.returncode != 0:
            raise Failed("the results differ (above)")
        run.stop()
    finally:
        run.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", nargs="?", const="", metavar="BOOTSTRAP", help="topics on a Kafka: one that is started for the demo, or this one")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave topics and state in this folder, to look around with millstream")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-demo.") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            demo(folder, options.kafka)
        except (Failed, subprocess.CalledProcessError) as error:
            print(f"\nthe demo failed: {error}", file=sys.stderr)
            return 1
        if options.keep:
            print(f"\nlook around:  millstream topics list --data {folder}/data    millstream state get airports LAX --data {folder}/data")
    return 0


if __name__ == "__main__":
    sys.exit(main())
