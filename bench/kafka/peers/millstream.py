"""Ours: `millstream run --kafka` with the C++ or the Python worker."""

import pathlib
import re
import shutil
import sys
import threading
import time
import urllib.request

import brokers
import machine
from peers.peer import Peer

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  guarantee: {guarantee}
  kafka: {{bootstrapServers: "replaced:1"}}
  inputs: [{{name: input, topic: {input}}}]
  stores: [{{name: state}}]
  outputs: [{{name: output, topic: {output}}}]
"""

PYTHON_WORKER = """\
import millstream

app = millstream.App(key="bytes", value="bytes")


@app.on("input")
def count(ctx, record):
    state = ctx.state("state")
    n = b"%d" % (int(state.get(default=b"0")) + 1)
    state.set(n)
    ctx.emit("output", key=record.key, value=n)


if __name__ == "__main__":
    app.run(processes={processes})
"""


class Metrics:
    """The metrics of one running sidecar."""

    def __init__(self, port):
        self.port = port

    def read(self):
        """{name with labels: value}; empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.M)}


def total(metrics, name, **labels):
    """Sum over the series of a metric that have these labels."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(value for series, value in metrics.items() if series.split("{")[0] == name and all(each in series for each in wanted))


OVER_SECONDS = 2  # working for so long without a restore: the tasks of the start are restored


class RestoreWatch(threading.Thread):
    """Looks at a starting sidecar until its restores are over: from when the first began to the last byte read back."""

    def __init__(self, process):
        super().__init__(daemon=True, name="restore watch")
        self.process, self.first, self.last, self.bytes = process, None, None, 0
        self.ended = threading.Event()
        self.start()

    def run(self):
        quiet_since = time.monotonic()
        while not self.ended.wait(0.02) and self.process.alive():
            metrics = self.process.metrics.read()
            now, done = time.monotonic(), total(metrics, "millstream_restored_bytes_total")
            restoring = total(metrics, "millstream_restoring_tasks") > 0
            if restoring and self.first is None:
                self.first = now
            if done > self.bytes:
                self.first, self.last, self.bytes = self.first or now, now, done
            if restoring or total(metrics, "millstream_records_total") == 0:
                quiet_since = now
            elif now - quiet_since > OVER_SECONDS:
                return


class Millstream(Peer):
    """`processes`: worker processes, of the Python worker."""

    def __init__(self, programs, worker="cpp", processes=1):
        self.programs, self.worker, self.processes = pathlib.Path(programs), worker, processes
        language = "C++ worker" if worker == "cpp" else f"Python worker, {processes} process{'es' if processes > 1 else ''}"
        self.label = f"Millstream, {language}"

    def start(self, job):
        port, = brokers.free_ports(1)
        manifest = job.folder / "processor.yaml"
        manifest.write_text(MANIFEST.format(name=job.name, guarantee=job.guarantee, input=job.input, output=job.output))
        if self.worker == "cpp":
            worker = [self.programs / "counting_worker", "--input=input", "--output=output", "--store=state", f"--state={job.task}"]
        else:
            program = job.folder / "worker.py"
            program.write_text(PYTHON_WORKER.format(processes=self.processes))
            worker = [sys.executable, program]
        process = machine.Process([self.programs / "millstream", "run", "-f", manifest, "--kafka", job.kafka, "--data", job.folder / "data",
                                   "--http", f"127.0.0.1:{port}", "--", *worker], job.folder / "millstream.log")
        process.metrics = Metrics(port)
        process.watch = RestoreWatch(process)
        return process

    def wipe(self, job):
        """The state only: the process's name in the group is no state."""
        shutil.rmtree(job.folder / "data" / "state", ignore_errors=True)

    def restored(self, process):
        watch = process.watch
        watch.ended.set()
        watch.join()
        return (watch.last - watch.first if watch.bytes else 0.0), watch.bytes

    def details(self, process):
        """Where the time of a transaction goes, in milliseconds, and how many records it has."""
        metrics = process.metrics.read()
        transactions = total(metrics, "millstream_transactions_total")
        found = {"transactions": transactions, "aborted": total(metrics, "millstream_transactions_aborted_total")}
        if transactions:
            found["records per transaction"] = total(metrics, "millstream_records_total") / transactions
        for phase in ("flush", "offsets", "commit", "apply"):
            count = total(metrics, "millstream_transaction_phase_seconds_count", phase=phase)
            if count:
                found[f"{phase} ms"] = 1000 * total(metrics, "millstream_transaction_phase_seconds_sum", phase=phase) / count
        count = total(metrics, "millstream_commit_seconds_count")
        if count:
            found["close to outcome ms"] = 1000 * total(metrics, "millstream_commit_seconds_sum") / count
        return found
