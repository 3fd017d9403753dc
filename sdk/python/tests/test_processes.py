"""Whole programs as processes: signals, several workers, crashes."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from fake_sidecar import GOODBYE, RESULT, records

PROGRAM = """
import os, sys, time
import millstream
app = millstream.App()

@app.on("in")
def handle(ctx, record):
    if record.value == "crash":
        os.kill(os.getpid(), 9)
    if record.value == "exit":
        sys.exit(4)
    if record.value == "slow":
        time.sleep(0.3)
    ctx.emit("out", value=os.getpid())

app.run(**{options})
"""


@pytest.fixture
def start(sidecar):
    started = []

    def run(options=None, program=PROGRAM):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MILLSTREAM")}
        env["MILLSTREAM_SOCKET"] = sidecar.path
        code = textwrap.dedent(program).replace("{options}", repr(options or {}))
        process = subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def ended(process):
    _, stderr = process.communicate(timeout=20)
    return process.returncode, stderr


ASYNC_PROGRAM = PROGRAM.replace("def handle", "async def handle").replace("time.sleep(", "await __import__('asyncio').sleep(")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", [PROGRAM, ASYNC_PROGRAM], ids=["plain", "async"])
@pytest.mark.parametrize("options", [{}, {"parallel": 2}], ids=["", "parallel"])
def test_a_signal_in_the_middle_of_a_batch_serves_until_goodbye(sidecar, start, number, program, options):
    process = start(options, program)
    connection = sidecar.accept()
    connection.handshake()
    connection.batch(1, *records((b"a", b'"slow"'), (b"a", b'"slow"')))
    time.sleep(0.1)
    process.send_signal(number)
    process.send_signal(number)  # as when a terminal and a supervisor both say so
    assert connection.expect(RESULT)[1:4] == [1, 2, None]
    assert connection.run(2, (b"a", b"1"))[1:4] == [2, 1, None]
    connection.send(GOODBYE, "drained")
    code, stderr = ended(process)
    assert code == 0, stderr
    assert "Traceback" not in stderr


def test_sigterm_while_waiting_for_the_sidecar(sidecar, start):
    sidecar.stop_listening()
    process = start()
    assert "waiting for the sidecar: no sidecar at" in process.stderr.readline()
    process.terminate()
    assert ended(process)[0] == 0


def test_a_second_interrupt_ends_at_once(sidecar, start):
    process = start()
    connection = sidecar.accept()
    connection.handshake()
    process.send_signal(signal.SIGINT)
    time.sleep(0.7)  # sooner it would be the same Ctrl-C seen twice
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130


def test_sigterm_has_a_bound(sidecar, start):
    process = start({"stop_timeout": 0.2})
    connection = sidecar.accept()
    connection.handshake()
    process.terminate()
    assert connection.expect(GOODBYE)
    assert ended(process)[0] == 0


def test_a_handlers_exit_code_is_the_programs(sidecar, start):
    process = start()
    connection = sidecar.accept()
    connection.handshake()
    connection.batch(1, *records((b"a", b'"exit"')))
    code, stderr = ended(process)
    assert code == 4, stderr


def pids(connections):
    return {connection.run(1000 + n, (b"a", b"1"))[5][0][2] for n, connection in enumerate(connections)}


def test_two_processes_and_a_crash(sidecar, start):
    process = start({"processes": 2})
    first, second = sidecar.accept(), sidecar.accept()
    hellos = [first.handshake(session=1), second.handshake(session=2)]
    assert sorted(hello["name"].rsplit("/", 1)[1] for hello in hellos) == ["0", "1"]
    before = pids([first, second])
    assert len(before) == 2 and str(process.pid).encode() not in before
    first.batch(1, *records((b"a", b'"crash"')))
    assert first.receive() is None
    third = sidecar.accept()  # the crashed one again
    third.handshake(session=3)
    after = pids([second, third])
    assert len(after) == 2 and len(after & before) == 1
    process.terminate()
    for connection in (second, third):
        connection.send(GOODBYE, "drained")
    code, stderr = ended(process)
    assert code == 0, stderr
    assert "was killed by signal 9, starting it again" in stderr


def test_told_to_stop_before_the_sidecar_answers_hello(sidecar, start):
    process = start({})
    sidecar.accept()  # and never a WELCOME
    process.terminate()
    code, stderr = ended(process)
    assert code == 0, stderr


def test_a_killed_parent_leaves_no_workers_behind(sidecar, start):
    process = start({"processes": 2})
    connections = [sidecar.accept(), sidecar.accept()]
    for connection in connections:
        connection.handshake()
    process.kill()
    assert [connection.receive() for connection in connections] == [None, None]


def test_processes_stop_all_when_the_program_does_not_fit(sidecar, start):
    process = start({"processes": 2})

    def refuse():
        for _ in range(2):
            try:
                connection = sidecar.accept()
                connection.handshake(inputs=("other",))
            except (OSError, AssertionError):
                return

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    code, stderr = ended(process)
    assert code == 2 and "which the manifest does not declare; inputs: other" in stderr


def test_crashes_again_and_again_end_the_parent(sidecar, start):
    program = PROGRAM.replace("app.run(", "import millstream.processes as p; p._MAX_CRASHES = 2\napp.run(").replace(
        "app = millstream.App()", "app = millstream.App()\nimport millstream.session as s\n"
        "s.Session.open = classmethod(lambda *a: os.kill(os.getpid(), 9))")
    process = start({"processes": 2}, program)
    code, stderr = ended(process)
    assert code == 1 and "crashes within a minute, giving up" in stderr
