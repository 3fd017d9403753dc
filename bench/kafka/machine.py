"""Processes that are measured: their CPU, threads, memory, and what else the machine did meanwhile."""

import collections
import os
import pathlib
import signal
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
STOP_TIMEOUT = 60  # seconds; generous: it only bounds a failing run


class Failed(Exception):
    """A run that did not do what it should; the message ends with the log of the peer."""


def read_stat(path):
    """(name, user and system seconds, resident MB) of a process or thread; None when it has ended."""
    try:
        text = pathlib.Path(path, "stat").read_text()
    except OSError:
        return None
    fields = text.rsplit(")", 1)[1].split()
    return text[text.index("(") + 1:text.rindex(")")], (int(fields[11]) + int(fields[12])) / TICK, int(fields[21]) * PAGE_MB


def family(pid):
    """The process and all its descendants."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        found.append(current)
        try:
            for task in pathlib.Path(f"/proc/{current}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass  # ended meanwhile
    return found


def cpu_seconds(pid):
    """Of the process and its descendants that live."""
    return sum(stat[1] for stat in map(read_stat, (f"/proc/{each}" for each in family(pid))) if stat)


def busy_seconds():
    """Of all cores since the machine started: everything but idle and waiting for disks."""
    fields = [int(each) for each in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICK


class Process:
    """One peer under measurement: started with a log file, ended in order or by kill -9, with all its descendants."""

    def __init__(self, command, log, **options):
        self.log_path = pathlib.Path(log)
        self.started = time.monotonic()
        with open(self.log_path, "ab") as out:
            self.popen = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                          **options)
        self.pid = self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def log(self, tail=3000):
        return self.log_path.read_text(errors="replace")[-tail:]

    def fail(self, what):
        raise Failed(f"{what}\n--- {self.log_path.name}\n{self.log()}")

    def check_alive(self):
        if not self.alive():
            self.fail(f"it ended with exit code {self.popen.returncode}")

    def cpu(self):
        return cpu_seconds(self.pid)

    def rss_mb(self):
        return sum(stat[2] for stat in map(read_stat, (f"/proc/{pid}" for pid in family(self.pid))) if stat)

    def threads(self):
        """{(process name, thread name): CPU seconds}; threads of one name are added up, numbers in names left out."""
        found = collections.Counter()
        for pid in family(self.pid):
            process = read_stat(f"/proc/{pid}")
            try:
                tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
            except OSError:
                continue
            for task in tasks:
                if process and (stat := read_stat(task)):
                    found[(process[0], stat[0].rstrip("0123456789-"))] += stat[1]
        return found

    def stop(self):
        """SIGTERM, and an orderly end."""
        if not self.alive():
            return
        self.popen.terminate()
        try:
            self.popen.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            self.fail(f"it did not end within {STOP_TIMEOUT} s of SIGTERM")

    def kill(self):
        """SIGKILL to it and all its descendants at the same moment; nothing if it has ended."""
        if not self.alive():
            return
        for pid in family(self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.popen.wait()


def description():
    """What a reader needs to judge figures: processor, cores, memory, load."""
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "unknown")
    memory = int(pathlib.Path("/proc/meminfo").read_text().split(None, 2)[1]) // 1024
    return {"processor": model, "cores": os.cpu_count(), "memory MB": memory, "load": [round(each, 2) for each in os.getloadavg()]}
