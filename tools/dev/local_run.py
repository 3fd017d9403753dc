"""Drives `millstream` as a person with two terminals would: start a run, look at it, kill it. Used by the demo and the soak."""
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path


class Failed(Exception):
    """The run did something it must not; the text says what."""


def millstream(*arguments, data, stdin=subprocess.DEVNULL):
    """Runs one command of the second terminal and gives its standard output."""
    result = subprocess.run(["millstream", *arguments, "--data", str(data)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if result.returncode != 0:
        raise Failed(f"millstream {' '.join(arguments)} ended with {result.returncode}:\n{result.stderr.decode(errors='replace')[-2000:]}")
    return result.stdout


def json_lines(output):
    return [json.loads(line) for line in output.splitlines() if line.strip()]


def free_port():
    """One below the range that the system hands to outgoing connections: still free when it is used, and after a kill."""
    for port in random.SystemRandom().sample(range(15000, 32000), 1000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Failed("no free port between 15000 and 32000")


class Run:
    """One `millstream run` over a data folder, started again after each kill."""

    def __init__(self, manifest, data, command, log, options=()):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.arguments = ["millstream", "run", "-f", str(manifest), "--data", str(data), "--http", f"127.0.0.1:{port}", *options, "--", *command]
        self.log_path = Path(log)
        self.process = None

    def start(self, patience=60):
        """Returns when the run answers over HTTP."""
        with self.log_path.open("ab") as out:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failed(f"{' '.join(self.arguments)} ended with {self.process.returncode}:\n{self.tail()}")
            try:
                self.tasks()
                return
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        raise Failed(f"{' '.join(self.arguments)} does not answer after {patience} s:\n{self.tail()}")

    def tail(self):
        return self.log_path.read_bytes()[-3000:].decode(errors="replace")

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            return json.load(response)

    def tasks(self):
        return self.get("/v1/tasks")

    def committed(self):
        """Records whose effects are committed: the sum of the committed offsets of all inputs of all tasks."""
        return sum(max(0, given.get("committed") or 0) for task in self.tasks()["tasks"] for given in task["inputs"])

    def workers(self):
        """Process ids of the worker processes: the children of the run."""
        children = set()
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            children.update(int(pid) for pid in task.read_text(encoding="ascii").split())
        return sorted(children)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kill_worker(self):
        workers = self.workers()
        if not workers:
            return None
        os.kill(workers[0], signal.SIGKILL)
        return workers[0]

    def wait_for(self, records, patience, on_step=None):
        """Until so many records are committed. Fails when nothing moves for `patience` seconds."""
        last, moved = -1, time.monotonic()
        while True:
            if self.process.poll() is not None:
                raise Failed(f"millstream run ended by itself with {self.process.returncode}:\n{self.tail()}")
            now = self.committed()
            if on_step:
                on_step(now)
            if now >= records:
                return now
            if now != last:
                last, moved = now, time.monotonic()
            elif time.monotonic() - moved > patience:
                raise Failed(f"{now} of {records} records are committed and nothing moved for {patience} s:\n{self.tail()}")
            time.sleep(0.05)

    def stop(self, patience=30):
        """Ctrl-C; must drain and exit 0."""
        self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise Failed(f"millstream run does not end {patience} s after Ctrl-C:\n{self.tail()}") from error
        if status != 0:
            raise Failed(f"millstream run ended with {status} after Ctrl-C:\n{self.tail()}")

    def close(self):
        """Leaves nothing behind, whatever happened."""
        if self.process is not None and self.process.poll() is None:
            workers = self.workers()
            self.kill()
            deadline = time.monotonic() + 5
            while workers and time.monotonic() < deadline:  # a worker ends by itself when its sidecar is gone
                workers = [pid for pid in workers if Path(f"/proc/{pid}").exists()]
                time.sleep(0.05)
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
