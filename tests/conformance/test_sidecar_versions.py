"""The sidecar with workers of an older, a newer and a future revision of the protocol (peer.py). The reverse, every SDK with older and
newer sidecars, is the cases of recorded.yaml: millstream conform --case recorded/."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: mirror}
spec:
  inputs: [{topic: in}]
  outputs: [{topic: out, create: {partitions: 1}}]
"""


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)
    return value


class Mirror:
    def __init__(self, folder, mode):
        self.folder, self.answer = folder, folder / "answer.json"
        (folder / "p.yaml").write_text(MANIFEST)
        with (folder / "run.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["millstream", "run", "-f", "p.yaml", "--data", "data", "--http", "off", "--partitions", "1", "--", sys.executable, HERE / "peer.py", mode, self.answer],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def log(self):
        return (self.folder / "run.log").read_text(errors="replace")

    def hello_answer(self):
        wait_for(self.answer.exists, self.log)
        return json.loads(self.answer.read_text())

    def command(self, *arguments, text=""):
        return subprocess.run(["millstream", *arguments, "--data", "data"], cwd=self.folder, input=text, capture_output=True, text=True, check=False)

    def out(self):
        done = self.command("consume", "out", "--from-beginning", "-o", "json")
        return [(row["key"], row["value"]) for row in map(json.loads, done.stdout.splitlines())]

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def mirror(tmp_path, request):
    mirror = Mirror(tmp_path, request.param)
    yield mirror
    mirror.close()


@pytest.mark.parametrize("mirror", ["older", "newer"], indirect=True)
def test_workers_of_other_revisions_are_served(mirror):
    kind, welcome = mirror.hello_answer()
    assert kind == 2 and welcome["protocol"] == 1
    assert welcome["capabilities"] == [], "what the sidecar does not know is not agreed on"
    done = mirror.command("produce", "in", "--format", "keyvalue", text="a=1\nb=2\na=3\n")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: mirror.out() == [("a", 1), ("b", 2), ("a", 3)], lambda: f"{mirror.out()}\n{mirror.log()}")


@pytest.mark.parametrize("mirror", ["future"], indirect=True)
def test_a_worker_without_a_common_version_is_told_both_ranges(mirror):
    kind, (code, message) = mirror.hello_answer()
    assert (kind, code) == (22, "VersionMismatch")
    assert "7 to 8" in message and "1 to 1" in message and "upgrade" in message
