"""The arrivals example: the program without a sidecar, then the whole."""

import json
import shutil
import subprocess

import pytest

from millstream.testing import Fed, RecordFailed, TestKit

LIMIT = 20_000


@pytest.fixture
def kit(arrivals):
    kit = TestKit(arrivals.module("arrivals").app, arrivals.folder / "processor.yaml")
    for code, airport in arrivals.module("verify").flights_data.airports().items():
        kit.join("airports")[code] = airport
    for line in (arrivals.folder / "regions.txt").read_text().splitlines():
        region, states = line.split("=")
        for state in states.split():
            kit.lookup("regions")[state] = region
    return kit


def test_a_flight_is_counted_where_it_lands(kit):
    kit.feed("flights", {"origin": "LAX", "destination": "ORD", "delay": 7}, key="LAX")
    kit.feed("flights", {"origin": "JFK", "destination": "ORD", "delay": -3}, key="JFK")
    assert dict(kit.state("arrived")) == {"ORD": {"flights": 2, "late": 7, "from": {"West": 1, "Northeast": 1}}}
    assert [(o.key, o.value) for o in kit.outputs("arrivals")] == [
        ("ORD", {"city": "Chicago", "flights": 1, "late": 7}), ("ORD", {"city": "Chicago", "flights": 2, "late": 7})]


def test_an_unknown_airport_is_rejected(kit):
    with pytest.raises(RecordFailed, match="no airport Q0Q"):
        kit.feed("flights", {"origin": "Q0Q", "destination": "ORD", "delay": 7}, key="Q0Q")
    assert len(kit.state("arrived")) == 0 and kit.outputs("loop") == []


def test_the_computations_agree_and_notice_a_slip(arrivals, kit):
    lines = [json.loads(line) for line in arrivals.module("verify").flights_data.json_lines(5000)]
    for at in range(0, 5000, 500):
        kit.feed_batch([Fed("flights", flight, flight["origin"]) for flight in lines[at : at + 500]])
    state, outputs = dict(kit.state("arrived")), [(o.key, o.value) for o in kit.outputs("arrivals")]
    differences = arrivals.module("verify").differences
    assert differences(state, outputs, 5000) == []
    assert differences(state, outputs + outputs[-1:], 5000)
    assert differences(state, outputs[1:], 5000)


def test_flights_through_a_run_with_kills(arrivals, tmp_path):
    if shutil.which("millstream") is None:
        pytest.skip("millstream is not on the PATH (./dev shell)")
    # The tables first: a join shows what is there when a flight is handled.
    subprocess.run([arrivals.folder / "load.sh", "tables", "--data", tmp_path / "data"], check=True, stdin=subprocess.DEVNULL)
    said = arrivals.run_and_verify(tmp_path, "arrivals.py", LIMIT, ["flights", "--limit", str(LIMIT)], ["--limit", str(LIMIT)])
    assert f"{LIMIT:,} flights in, each through the loop once" in said
