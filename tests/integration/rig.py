"""What the integration tests share: a scratch folder, commands, one `millstream run`."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build")) / "bin"
DEADLINE = 60.0  # seconds; bounds a failing test only

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: counting}
spec:
  inputs: [{topic: in}]
  stores: [{name: counts}]
  outputs: [{topic: out, create: {partitions: 3}}]
"""


def wait_until(condition, what, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {deadline:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.05)


class Rig(unittest.TestCase):
    """Every test has a folder of its own, and everything it started is killed at its end."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ms-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.folder / "data"
        self.manifest = self.folder / "processor.yaml"
        self.manifest.write_text(MANIFEST)
        self.process = None
        self.addCleanup(self.kill)

    # ---------------------------------------------------------------- commands

    def command(self, *arguments, stdin=None, code=0, env=None, cwd=None):
        """Runs `millstream ARGUMENTS`, checks its exit code, returns what it printed."""
        done = subprocess.run([str(BIN / "millstream"), *map(str, arguments)], input=stdin.encode() if isinstance(stdin, str) else stdin,
                              stdin=subprocess.DEVNULL if stdin is None else None, capture_output=True, timeout=DEADLINE,
                              env=dict(os.environ, **(env or {})), cwd=cwd or self.folder)
        self.err = done.stderr.decode(errors="replace")
        self.out = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"millstream {' '.join(map(str, arguments))}\n{self.out}\n{self.err}")
        return self.out

    def on_data(self, *arguments, **options):
        at = arguments.index("--") if "--" in arguments else len(arguments)
        return self.command(*arguments[:at], "--data", self.data, *arguments[at:], **options)

    def produce(self, pairs, topic="in"):
        self.on_data("produce", topic, "--format", "keyvalue", "--partitions", 3, stdin="".join(f"{k}={v}\n" for k, v in pairs))

    def consume(self, topic, *arguments):
        return [json.loads(line) for line in self.on_data("consume", topic, *arguments).splitlines()]

    # ---------------------------------------------------------------- the run

    def start(self, *arguments, worker=None, manifests=None, env=None):
        self.assertIsNone(self.process)
        self.log_path = self.folder / f"run-{time.monotonic_ns()}.log"
        command = [BIN / "millstream", "run"]
        for manifest in manifests or [self.manifest]:
            command += ["-f", manifest]
        command += ["--data", self.data, *arguments]
        if worker is not False:
            command += ["--", *(worker or [BIN / "counting_worker"])]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.folder, env=dict(os.environ, **(env or {})))

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_log(self, text, times=1):
        def found():
            if self.process.poll() is not None and self.log().count(text) < times:
                raise AssertionError(f"ended with {self.process.returncode}, {text!r} not in\n{self.log()}")
            return self.log().count(text) >= times

        wait_until(found, lambda: f"{text!r} not {times} times in\n{self.log()}")

    def stop(self, number=signal.SIGINT, code=0):
        self.process.send_signal(number)
        self.assertEqual(self.process.wait(DEADLINE), code, self.log())
        self.process = None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(DEADLINE)
            self.process = None

    def children(self):
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def worker(self):
        """The pid of the one running worker."""
        return wait_until(lambda: self.process.poll() is None and self.children(), lambda: f"no worker\n{self.log()}")[0]

    def counts(self):
        return {row["key"]: row["value"] for row in map(json.loads, self.on_data("state", "scan", "counts", "-o", "json").splitlines())}

    def wait_counts(self, expected):
        def there():
            done = subprocess.run([str(BIN / "millstream"), "state", "scan", "counts", "-o", "json", "--data", str(self.data)],
                                  capture_output=True, timeout=DEADLINE)
            self.last = done.stdout.decode() + done.stderr.decode()
            if done.returncode != 0:
                return False
            return {row["key"]: row["value"] for row in map(json.loads, done.stdout.decode().splitlines())} == expected

        wait_until(there, lambda: f"expected {expected}, got {self.last}\n{self.log()}")
