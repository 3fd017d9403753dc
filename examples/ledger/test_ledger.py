"""The ledger example: the program on a real PostgreSQL without a sidecar, then the whole, with everybody killed in turn."""

import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from millstream.testing import Fed, TestKit

POSTINGS = 6_000


@pytest.fixture
def server(ledger):
    """Empty, in a folder that its user can reach (pytest's own are closed to others)."""
    pytest.importorskip("psycopg")
    database = ledger.module("database")
    made = database.Server(tempfile.mkdtemp(prefix="ms-pg-"))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def kit(ledger, server, monkeypatch):
    monkeypatch.setenv("LEDGER_DATABASE", server.url)
    return TestKit(ledger.module("ledger").app, ledger.folder / "processor.yaml")


def in_database(ledger, server):
    return ledger.module("verify").in_database(server.url)


def test_entries_and_balances(ledger, server, kit):
    kit.feed("postings", {"id": 1, "cents": 500}, key="anna")
    kit.feed("postings", {"id": 2, "cents": -200}, key="anna")
    assert in_database(ledger, server) == ({"anna": 300}, [(1, "anna", 500), (2, "anna", -200)])
    assert [o.value for o in kit.outputs("balances")] == [{"id": 1, "cents": 500}, {"id": 2, "cents": 300}]


def test_what_would_overdraw_is_rejected(ledger, server, kit):
    kit.feed("postings", {"id": 1, "cents": 100}, key="anna")
    kit.feed("postings", {"id": 2, "cents": -101}, key="anna")
    assert in_database(ledger, server)[0] == {"anna": 100}
    assert [(o.key, o.value) for o in kit.outputs("rejected")] == [("anna", {"id": 2, "missing": 1})]


def test_a_posting_that_fails_leaves_nothing(ledger, server, monkeypatch):
    monkeypatch.setenv("LEDGER_DATABASE", server.url)
    kit = TestKit(ledger.module("ledger").app, ledger.folder / "processor.yaml", on_failure="skip")
    kit.feed_batch([Fed("postings", {"id": 1, "cents": 5}, "anna"), Fed("postings", {"id": "two", "cents": 5}, "anna"),
                    Fed("postings", {"id": 3, "cents": 5}, "anna")])
    assert in_database(ledger, server) == ({"anna": 10}, [(1, "anna", 5), (3, "anna", 5)])
    assert "InvalidTextRepresentation" in kit.failures[0].error


def test_the_computations_agree_and_notice_a_slip(ledger, server, kit):
    made = list(ledger.module("postings").postings(2000))
    for at in range(0, len(made), 500):
        kit.feed_batch([Fed("postings", {"id": one["id"], "cents": one["cents"]}, one["account"]) for one in made[at : at + 500]])
    accounts, entries = in_database(ledger, server)
    balances, rejected = ([(o.key, o.value) for o in kit.outputs(n)] for n in ("balances", "rejected"))
    differences = ledger.module("verify").differences
    assert differences(accounts, entries, balances, rejected, count=2000) == []
    assert len(rejected) > 100
    assert differences(accounts, entries + entries[:1], balances, rejected, count=2000)
    assert differences(accounts, entries[1:], balances, rejected, count=2000)
    assert differences(accounts, entries, balances + balances[-1:], rejected, count=2000)
    assert differences(accounts, entries, balances, rejected[1:], count=2000)
    one = next(iter(accounts))
    assert one in differences({**accounts, one: accounts[one] + 1}, entries, balances, rejected, count=2000)[0]


class Whole:
    """A run on a data folder, with the server's address in its environment."""

    def __init__(self, ledger, server, folder, monkeypatch):
        if shutil.which("millstream") is None:
            pytest.skip("millstream is not on the PATH (./dev shell)")
        from local_run import Run

        monkeypatch.setenv("LEDGER_DATABASE", server.url)
        folder.mkdir(exist_ok=True)
        self.ledger = ledger
        self.data = folder / "data"
        self.run = Run(ledger.folder / "processor.yaml", self.data, [sys.executable, str(ledger.folder / "ledger.py")], folder / "run.log")

    def load(self, count=POSTINGS):
        return subprocess.Popen([self.ledger.folder / "load.sh", "--postings", str(count), "--data", self.data], stdin=subprocess.DEVNULL)

    def verified(self, count=POSTINGS, patience=60):
        return self.ledger.verified(self.data, ["--postings", str(count)], patience=patience)


@pytest.fixture
def whole(ledger, server, tmp_path, monkeypatch):
    made = []

    def make(name="a"):
        made.append(Whole(ledger, server, tmp_path / name, monkeypatch))
        return made[-1]

    yield make
    for one in made:
        one.run.close()


def test_all_postings_with_everybody_killed(server, whole):
    one = whole()
    one.run.start()
    loading = one.load()
    try:
        one.run.wait_for(POSTINGS // 6, patience=60)
        one.run.kill_worker()
        one.run.wait_for(POSTINGS // 3, patience=60)
        server.kill()
        server.start()
        one.run.wait_for(POSTINGS // 2, patience=120)
        assert loading.wait(120) == 0
    finally:
        if loading.poll() is None:
            loading.kill()
            loading.wait()
    one.run.kill()
    server.kill()
    server.start()
    one.run.start()
    one.run.wait_for(POSTINGS, patience=120)
    assert "every one counted once" in one.verified()
    one.run.stop()


def test_another_log_on_the_same_database_is_stopped(whole):
    one, other = whole("a"), whole("b")
    assert one.load(1000).wait(120) == 0
    one.run.start()
    one.run.wait_for(1000, patience=60)
    assert "every one counted once" in one.verified(1000)
    assert other.load(1000).wait(120) == 0
    other.run.start()
    until = time.monotonic() + 60
    while "CheckpointMismatch" not in str(other.run.tasks()):
        assert time.monotonic() < until, other.run.tail()
        time.sleep(0.05)
    other.run.kill()
    assert "every one counted once" in one.verified(1000), "the first one's entries are untouched"
