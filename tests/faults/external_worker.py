"""The user program of both test_external.py: counts per key in PostgreSQL, and says of each event what it saw.

LEDGER_MODE=slow makes every record take a millisecond. EXTERNAL_KILL_SERVER=STEP:N kills the database's server, once, at the N-th time that the
program comes to a step of its way through the database; the file LEDGER_FLAG says that it was done.
"""

import os
import pathlib
import signal
import threading
import time

import psycopg

import millstream
from millstream.external import SqlStore

SLOW = os.environ.get("LEDGER_MODE") == "slow"
PATIENCE = 60.0


class Steps:
    """Where this thread is, and where the server has to die."""

    def __init__(self, plan):
        self.step, _, number = plan.partition(":")
        self.left = int(number or 0)
        self.lock = threading.Lock()
        self.here = threading.local()  # .job: "load", "store" or, in handlers, nothing

    def reach(self, step, connection=None):
        with self.lock:
            if step != self.step or self.left == 0:
                return
            self.left -= 1
            if self.left == 0:
                kill_server(connection)


def first_time():
    try:
        os.close(os.open(os.environ["LEDGER_FLAG"], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # nobody may wait for it
    except OSError:
        return False


def kill_server(connection):
    """SIGKILL; returns when the process that serves `connection` has noticed, so that nothing is answered any more."""
    if not first_time():
        return
    folder = pathlib.Path(psycopg.conninfo.conninfo_to_dict(os.environ["EXTERNAL_DATABASE"])["host"])
    os.kill(int((folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while connection is not None and runs(connection.info.backend_pid):
        assert time.monotonic() < until, "the server's child lives on"
        time.sleep(0.005)


STEPS = Steps(os.environ.get("EXTERNAL_KILL_SERVER", ""))


class Connection(psycopg.Connection):
    def commit(self):
        job = getattr(STEPS.here, "job", "other")
        STEPS.reach(f"{job}-before-commit", self)
        super().commit()
        STEPS.reach(f"{job}-after-commit", self)


class Store(SqlStore):
    def load(self, processor, task):
        return self.watched("load", super().load, processor, task)

    def store(self, processor, task, fence, checkpoint):
        return self.watched("store", super().store, processor, task, fence, checkpoint)

    def watched(self, job, function, *arguments):
        STEPS.here.job = job
        try:
            return function(*arguments)
        finally:
            STEPS.here.job = "other"


def connect():
    STEPS.reach("before-connect")
    return Connection.connect(os.environ["EXTERNAL_DATABASE"], connect_timeout=5, options="-c lock_timeout=20s")


app = millstream.App()
app.external_store(Store(connect))


@app.on("events")
def handle(ctx, record):
    if SLOW:
        time.sleep(0.001)
    event = record.value
    STEPS.reach("before-statement", ctx.sql.connection)
    ctx.sql.execute(
        "INSERT INTO sums (key, count, sum) VALUES (%s, 1, %s) "
        "ON CONFLICT (key) DO UPDATE SET count = sums.count + 1, sum = sums.sum + excluded.sum RETURNING count, sum",
        (record.key, event["n"]),
    )
    count, total = ctx.sql.fetchone()
    STEPS.reach("after-statement", ctx.sql.connection)
    if event.get("trouble") == "kill-once" and first_time():
        os.kill(os.getpid(), signal.SIGKILL)
    ctx.emit("seen", key=record.key, value={"n": event["n"], "count": count, "sum": total})


@app.committed
def committed(task):
    STEPS.reach("committed")


if __name__ == "__main__":
    app.run()
