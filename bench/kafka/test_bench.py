"""The measurements themselves: the whole of a tiny run, and a check that finds what it is there to find."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import bed  # noqa: E402
import clients  # noqa: E402
import machine  # noqa: E402

PROGRAMS = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", bed.ROOT / "build")) / "bin"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with bed.Bed(tmp_path_factory.mktemp("bench"), PROGRAMS) as started:
        yield started


def answered(broker, outputs):
    """A job whose input has five records of two keys, and whose output has what a peer might have made of them."""
    job = broker.job()
    clients.write(broker.config, job.input, [(0, "a", "x"), (0, "b", "x"), (0, "a", "x"), (1, "c", "x"), (0, "a", "x")])
    clients.write(broker.config, job.output, outputs)
    return job


RIGHT = [(0, "a", "1"), (0, "b", "1"), (0, "a", "2"), (1, "c", "1"), (0, "a", "3")]


def test_right_outputs_pass(broker):
    found = broker.check(answered(broker, RIGHT))
    assert found == {"inputs": 5, "outputs": 5, "keys": 3, "lost": 0, "doubled": 0, "wrong": 0}


@pytest.mark.parametrize("outputs, fault", [
    (RIGHT[:-1], '"lost": 1'),
    ([*RIGHT, (1, "c", "2")], '"doubled": 1'),
    ([*RIGHT[:-1], (0, "a", "4")], '"wrong": 1'),
    ([RIGHT[2], *RIGHT[:2], *RIGHT[3:]], '"wrong": 2'),
])
def test_a_fault_ends_the_run(broker, outputs, fault):
    with pytest.raises(machine.Failed, match=fault):
        broker.check(answered(broker, outputs))


def test_outputs_of_an_aborted_transaction_do_not_count(broker):
    job = answered(broker, RIGHT[:-1])
    producer = clients.transactional(broker.config, job.name)
    producer.begin_transaction()
    producer.produce(job.output, "3", "a", 0)
    producer.flush(60)
    producer.abort_transaction(60)
    with pytest.raises(machine.Failed, match='"lost": 1'):
        broker.check(job)


def test_smoke():
    done = subprocess.run([sys.executable, HERE / "run.py", "--smoke"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join([*done.stderr.splitlines()[-1:], done.stdout, done.stderr])  # the cause first
    assert "none lost, none doubled" in done.stdout
