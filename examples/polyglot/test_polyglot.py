"""The polyglot pipeline: three programs in three languages, killed on the way, against an independent computation."""

import os
import shutil
import signal
import subprocess
import time

import pytest

FLIGHTS = 20_000
PATIENCE = 120


@pytest.fixture
def pipeline(polyglot, tmp_path):
    """The folder the programs run in, built."""
    if shutil.which("go") is None or shutil.which("node") is None:
        pytest.skip("go and node are needed")
    for name in ("legs.py", "legs.yaml", "routes.yaml", "airports.yaml"):
        shutil.copy(polyglot.folder / name, tmp_path)
    subprocess.run([polyglot.folder / "build.sh", tmp_path / "build"], check=True)
    return tmp_path


class Pipeline:
    def __init__(self, folder):
        self.folder = folder
        self.process = None

    def start(self):
        with (self.folder / "run.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["millstream", "run", "-f", "legs.yaml", "-f", "routes.yaml", "-f", "airports.yaml", "--http", "off", "--data", "data"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def kill(self):
        """Sidecars and workers, all at once."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def arrived(self):
        done = subprocess.run(["millstream", "consume", "arrivals", "--from-beginning", "-o", "json", "--data", self.folder / "data"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return done.stdout.count(b"\n")

    def log(self):
        return (self.folder / "run.log").read_text(errors="replace")[-3000:]


def test_every_flight_counts_once_through_three_languages(polyglot, pipeline):
    run = Pipeline(pipeline)
    try:
        run.start()
        subprocess.run([polyglot.folder / "load.sh", "--limit", str(FLIGHTS), "--data", pipeline / "data"], check=True)
        deadline = time.monotonic() + PATIENCE
        while run.arrived() < FLIGHTS // 4:
            assert time.monotonic() < deadline and run.process.poll() is None, run.log()
            time.sleep(0.1)
        run.kill()
        run.start()
        said = polyglot.verified(pipeline / "data", ["--limit", str(FLIGHTS)], patience=PATIENCE)
        assert run.stop() == 0, run.log()
        said = polyglot.verified(pipeline / "data", ["--limit", str(FLIGHTS)], patience=0)
        assert f"{FLIGHTS:,} flights through three programs, every one counted once" in said
    finally:
        run.kill()


def test_the_computation_notices_a_slip(polyglot):
    verify = polyglot.module("verify")
    flights = verify.expected(500)
    routes = {f"{origin}-{to}": verify.sums(legs) for to, origins in flights.items() for origin, legs in origins.items()}
    airports = {to: {origin: verify.sums(legs) for origin, legs in origins.items()} for to, origins in flights.items()}
    arrivals = []
    for to, origins in flights.items():
        legs = [leg for origin in origins.values() for leg in origin]
        arrivals += [(to, {**verify.sums(legs[: n + 1]), "routes": len(origins)}) for n in range(len(legs))]
    assert verify.differences(routes, airports, arrivals, 500) == []
    assert len(verify.differences(routes, airports, arrivals + arrivals[-1:], 500)) == 1
    assert len(verify.differences(routes, airports, arrivals[1:], 500)) == 1
    some = next(iter(routes))
    assert some in verify.differences({**routes, some: {**routes[some], "late": -1}}, airports, arrivals, 500)[0]
