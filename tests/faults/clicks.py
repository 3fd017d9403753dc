"""What the tests of event time share: a shop whose clicks have times of their own, and its rounds of random kills."""

import json
import os
import signal
import sys
import time

from harness import HERE, Rig, wait_until


class ClickRig(Rig):
    """A processor `shop` that reads the topic `clicks`; `worker` is a program of this folder."""

    def __init__(self, folder, worker, manifest):
        super().__init__(folder, name="shop", partitions=2, worker=[sys.executable, HERE / worker])
        self.manifest.write_text(manifest)
        self.n = 0

    def click(self, rows):
        """Rows are (key, timestamp); a command that is killed meanwhile may write some of them."""
        lines = []
        for key, timestamp in rows:
            self.n += 1
            lines.append(json.dumps({"key": key, "n": self.n, "at": timestamp}))
        self.command("produce", "clicks", "--data", self.data, "--key", "key", "--timestamp", "at", "--partitions", self.partitions,
                     stdin=("\n".join(lines) + "\n").encode(), check=False)

    def input(self):
        """[(partition, timestamp, key, n)] in the order of each partition."""
        return [(p, t, k.decode(), json.loads(v)["n"]) for p, _, t, k, v in sorted(self.consume("clicks"))]

    def scan(self, store):
        """The rows of a store by the command line; None while a task is not there."""
        done = self.command("state", "scan", store, "--data", self.data, "--limit", 10_000_000, "-o", "json", check=False)
        if done.returncode != 0:
            assert b"UNAVAILABLE" in done.stderr, done.stderr.decode(errors="replace")
            return None
        return [json.loads(line) for line in done.stdout.decode().splitlines()]


def yesterday():
    return int(time.time() * 1000) - 86_400_000


def killed_at_random_times(s, seed, batch, now, rounds, most):
    """Rounds of up to `most` clicks of batch(seed, now, count), each ended by kill -9 of the sidecar, some after one of the worker. Gives the time reached."""
    for _ in range(int(os.environ.get("FAULTS_ROUNDS", rounds))):
        rows, now = batch(seed, now, seed.randrange(1, most))
        s.click(rows)
        s.start(mode=seed.choice(["", "slow"]))
        time.sleep(seed.random() * seed.choice([0.3, 0.8, 1.5]))  # a random time, not a wait for anything
        if seed.random() < 0.3 and s.worker_pids():
            s.signal_worker(signal.SIGKILL)
            rows, now = batch(seed, now, 50)
            s.click(rows)
        s.kill()
    s.start()
    return now


def killed_at_a_point(s, seed, batch, now, point, times):
    """Clicks of batch(seed, now, count) until the sidecar has passed that crash point so many times and is killed there; it is started again. Gives the time reached."""
    rows, now = batch(seed, now, 400)
    s.click(rows)
    s.start(crash_at=f"{point}:{times}")

    def ended():
        nonlocal now
        more, now = batch(seed, now, 20)
        if s.alive():
            s.click(more)
        return not s.alive()

    wait_until(ended, f"{point} was not passed {times} times")
    assert s.wait_exit() == -signal.SIGKILL
    s.start()
    return now


def shops(kind, folder):
    """For a fixture: a function that makes them; all are closed at the end."""
    made = []

    def make(**options):
        made.append(kind(folder, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
