"""Members as in a pod: `millstream-sidecar` under a name of its own beside a worker that somebody else started, with orders in a projected file and a preStop hook."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import BIN, DEADLINE, Group, Member, wait_until


class Pod(Member):
    """One pod of a Group: start() starts both containers, terminate() ends them as the kubelet does."""

    def __init__(self, group, number):
        super().__init__(group, number)
        self.name = f"pod-{group.id}-{number}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ms-pod-"))  # short: a socket is in it
        self.socket = self.folder / "w.sock"
        self.orders = self.folder / "orders"
        self.worker = None

    def start(self, flags=(), **worker):
        assert self.process is None
        self.starts += 1
        self.log_path = self.group.folder / f"{self.name}-{self.starts}.log"
        command = [BIN / "millstream-sidecar", "--manifest", self.group.manifest, "--kafka", self.group.bootstrap, "--state", self.data, "--member", self.name,
                   "--socket", self.socket, "--http-port", self.port, "--orders", self.orders / "orders", "--log-format", "text", *self.group.flags, *flags]
        with open(self.log_path, "wb") as out:
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.start_worker(**worker)
        return self

    def start_worker(self, mode=""):
        """Unless one is there: it outlives its sidecar."""
        if self.worker and self.worker.poll() is None:
            return
        env = dict(os.environ, LEDGER_MODE=mode, LEDGER_FLAG=str(self.folder / "flag"), MILLSTREAM_SOCKET=str(self.socket))
        with open(self.log_path, "ab") as out:
            self.worker = subprocess.Popen([sys.executable, str(self.group.worker)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)

    def order(self, content=None, **orders):
        """Replaces the file as the kubelet does with a projected annotation: the folder behind a symbolic link is another one."""
        self.orders.mkdir(exist_ok=True)
        if not (self.orders / "orders").is_symlink():
            (self.orders / "orders").symlink_to("..data/orders")
        version = self.orders / f"..{time.monotonic_ns()}"
        version.mkdir()
        (version / "orders").write_text(json.dumps(orders) if content is None else content)
        (self.orders / "..data_tmp").symlink_to(version.name)
        os.replace(self.orders / "..data_tmp", self.orders / "..data")

    def report(self):
        """/v1/tasks, or {} while nothing answers."""
        status, body = self.http("/v1/tasks")
        return body if status == 200 else {}

    def wait_report(self, deadline=DEADLINE, **fields):
        wait_until(lambda: all(self.report().get(name) == value for name, value in fields.items()),
                   lambda: f"never {fields}, but {self.report()}\n{self.log()}", deadline)

    def pre_stop(self):
        return subprocess.Popen([BIN / "millstream-sidecar", "drain", "--state", self.data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def terminate(self):
        """The worker gets SIGTERM and the hook runs beside it; the sidecar gets SIGTERM when both have ended. Returns the exit codes of worker and sidecar."""
        hook = self.pre_stop()
        self.worker.send_signal(signal.SIGTERM)
        said = hook.communicate(timeout=DEADLINE)[0]
        assert hook.returncode == 0, f"{said}\n{self.log()}"
        code = self.worker.wait(DEADLINE)
        self.worker = None
        return code, self.stop()

    def kill(self):
        """SIGKILL of both, as a machine that goes away."""
        super().kill()
        if self.worker:
            self.worker.kill()
            self.worker.wait(DEADLINE)
            self.worker = None

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class PodGroup(Group):
    """A processor whose members are pods."""

    def pod(self, **options):
        self.members.append(Pod(self, next(self.member_numbers)))
        return self.members[-1].start(**options)

    def finish(self):
        self.wait_outputs()
        self.check()
        for pod in self.members:
            if pod.process:
                assert pod.terminate() == (0, 0), pod.log()

    def close(self):
        super().close()
        for pod in self.members:
            pod.close()
