#!/usr/bin/env python3
"""Random kills under load: soak.py [SECONDS] [SEED]. Prints its seed; ends with what was checked.

A processor sums numbers per key. Records are produced all the time; the sidecar and the worker are killed at random moments. At the
end state, outputs and changelog must be what a plain sum over the produced records is, and every output must be there once.

Meanwhile the simulation of the engine (sidecar/engine/simulation_test.cc) runs with fresh seeds, so that nobody has to think of them.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from local_run import Failed, Run, json_lines, millstream

KEYS = 500
RECORDS_PER_ROUND = 20_000

PROGRAM = """import millstream
app = millstream.App()
@app.on("numbers")
def add(ctx, record):
    total = ctx.state("sums").get(default=0) + record.value["n"]
    ctx.state("sums").set(total)
    ctx.emit("sums-now", key=record.key, value={"id": record.value["id"], "total": total})
app.run()
"""
MANIFEST = """apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: soak}
spec:
  inputs: [{topic: numbers}]
  stores: [{name: sums}]
  outputs: [{topic: sums-now, create: {partitions: 4}}]
"""


class Soak:
    def __init__(self, folder, seed):
        self.folder, self.data = folder, folder / "data"
        self.random = random.Random(seed)
        self.sums, self.produced = {}, 0
        (folder / "sums.py").write_text(PROGRAM, encoding="utf-8")
        (folder / "processor.yaml").write_text(MANIFEST, encoding="utf-8")
        self.run = Run(folder / "processor.yaml", self.data, ["python", str(folder / "sums.py")], folder / "run.log")

    def produce(self, count):
        lines = []
        for _ in range(count):
            key, n = f"key-{self.random.randrange(KEYS)}", self.random.randrange(1000)
            lines.append(json.dumps({"k": key, "n": n, "id": self.produced}))
            self.produced += 1
            self.sums[key] = self.sums.get(key, 0) + n
        path = self.folder / "records.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with path.open("rb") as records:
            millstream("produce", "numbers", "--key", "k", data=self.data, stdin=records)

    def one_round(self):
        """Some records, then one to three kills while they are processed."""
        self.produce(self.random.randrange(1, RECORDS_PER_ROUND))
        kills = []
        for _ in range(self.random.randrange(1, 4)):
            time.sleep(self.random.uniform(0, 1.5))
            victim = self.random.choice(["sidecar", "worker", "worker stopped"])
            kills.append(victim)
            if victim == "sidecar":
                self.run.kill()
                self.run.start()
            elif victim == "worker":
                self.run.kill_worker()
            else:
                self.stop_and_continue()
        return kills

    def stop_and_continue(self):
        for worker in self.run.workers()[:1]:
            try:
                os.kill(worker, signal.SIGSTOP)
                time.sleep(self.random.uniform(0, 2))
                os.kill(worker, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def check(self):
        self.run.wait_for(self.produced, patience=60)
        state = {row["key"]: row["value"] for row in json_lines(millstream("state", "scan", "sums", "--limit", "1000000", "-o", "json", data=self.data))}
        if state != self.sums:
            wrong = {key: (state.get(key), self.sums.get(key)) for key in state.keys() | self.sums.keys() if state.get(key) != self.sums.get(key)}
            raise Failed(f"state differs from the model for {len(wrong)} keys (state, model): {dict(list(wrong.items())[:10])}")
        outputs = json_lines(millstream("consume", "sums-now", "--from-beginning", "-o", "json", data=self.data))
        ids = sorted(record["value"]["id"] for record in outputs)
        if ids != list(range(self.produced)):
            raise Failed(f"{self.produced} records in, {len(ids)} outputs, {len(set(ids))} different ones")


class Simulation:
    """engine_simulation_test in a thread, one range of seeds after the other, until it fails or is stopped."""

    SEEDS_AT_A_TIME = 50  # per scenario: under a minute

    def __init__(self, seed):
        self.next_seed = random.Random(seed).randrange(1 << 48)
        self.runs, self.failure = 0, None
        self.process, self.stopping = None, False
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.repeat)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with self.lock:
            self.stopping = True
            if self.process is not None:
                self.process.kill()
        self.thread.join()

    def repeat(self):
        program = shutil.which("engine_simulation_test")
        while self.failure is None:
            env = dict(os.environ, MILLSTREAM_SIM_FIRST=str(self.next_seed), MILLSTREAM_SIM_SEEDS=str(self.SEEDS_AT_A_TIME))
            with self.lock:
                if self.stopping:
                    return
                self.process = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
            said = self.process.communicate()[0].decode(errors="replace")
            with self.lock:
                if self.process.returncode != 0 and not self.stopping:
                    self.failure = self.explain(said)
                    return
                if not self.stopping:
                    self.runs += 1
                    self.next_seed += self.SEEDS_AT_A_TIME

    @staticmethod
    def explain(said):
        seed = re.search(r"(?:seed|in seed) (\d+)", said)
        test = re.search(r"\[ +RUN +\] (\S+)(?![\s\S]*\[ +RUN)", said)
        again = f"MILLSTREAM_SIM_SEED={seed.group(1)} build/bin/engine_simulation_test" + (f" --gtest_filter={test.group(1)}" if test else "") if seed else "?"
        return f"{said[-4000:]}\nthe simulation of the engine failed; repeat it with: {again}"

    def check(self):
        if self.failure:
            raise Failed(self.failure)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}, {seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="millstream-soak.") as folder, Simulation(seed) as simulation:
        soak = Soak(Path(folder), seed)
        try:
            soak.run.start()
            started, rounds = time.monotonic(), 0
            while time.monotonic() - started < seconds:
                kills = soak.one_round()
                soak.check()
                simulation.check()
                rounds += 1
                print(f"round {rounds}: {soak.produced} records so far, killed {', '.join(kills)}: every result once", flush=True)
            soak.run.stop()
            soak.run.start()  # and the state that was on disk at an orderly stop
            soak.check()
            simulation.check()
        except Failed as error:
            print(f"FAILED with seed {seed}: {error}")
            return 1
        finally:
            soak.run.close()
    print(f"simulation of the engine: {simulation.runs * Simulation.SEEDS_AT_A_TIME} seeds per scenario")
    print(f"{rounds} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
