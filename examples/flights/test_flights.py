"""The flights example: the program without a sidecar, then the whole."""

import json

import pytest

from millstream.testing import Fed, RecordFailed, TestKit

FLIGHT = {"origin": "MCI", "destination": "MDW", "delay": 14, "distance": 405}


def test_counts_and_sums_per_airport(flights):
    kit = TestKit(flights.module("delays").app, flights.folder / "processor.yaml")
    kit.feed("flights", FLIGHT, key="MCI")
    kit.feed("flights", {**FLIGHT, "delay": -11}, key="MCI")
    kit.feed("flights", {**FLIGHT, "delay": 181}, key="LAX")
    assert dict(kit.state("airports")) == {
        "LAX": {"flights": 1, "late": 1, "delay_sum": 181, "delay_max": 181, "distance_sum": 405},
        "MCI": {"flights": 2, "late": 1, "delay_sum": 14, "delay_max": 14, "distance_sum": 810},
    }
    assert [(o.key, o.value["flights"]) for o in kit.outputs("airport-delays")] == [("MCI", 1), ("MCI", 2), ("LAX", 1)]
    (long,) = kit.outputs("long-delays")
    assert long.key == "LAX" and long.headers == [("minutes", b"181")] and long.value["destination"] == "MDW"


def test_a_flight_without_delay_fails_and_changes_nothing(flights):
    kit = TestKit(flights.module("delays").app, flights.folder / "processor.yaml")
    with pytest.raises(RecordFailed, match="KeyError: 'delay'"):
        kit.feed("flights", {"origin": "MCI"}, key="MCI")
    assert len(kit.state("airports")) == 0 and kit.outputs("airport-delays") == []


def kit_over(flights, count):
    kit = TestKit(flights.module("delays").app, flights.folder / "processor.yaml")
    lines = [json.loads(line) for line in flights.module("data").json_lines(count)]
    for at in range(0, count, 500):
        kit.feed_batch([Fed("flights", flight, flight["origin"]) for flight in lines[at : at + 500]])
    return dict(kit.state("airports")), *([(o.key, o.value) for o in kit.outputs(n)] for n in ("airport-delays", "long-delays"))


def test_the_computations_agree_and_notice_a_slip(flights):
    state, outputs, long_delays = kit_over(flights, 20_000)
    differences = flights.module("verify").differences
    assert differences(state, outputs, long_delays, limit=20_000) == []
    assert long_delays
    twice = differences(state, outputs + outputs[-1:], long_delays, limit=20_000)
    assert len(twice) == 1 and "airport-delays" in twice[0]
    assert differences(state, outputs[1:], long_delays, limit=20_000)
    assert differences(state, outputs, long_delays[:-1], limit=20_000)
    state["LAX"] = {**state["LAX"], "flights": state["LAX"]["flights"] + 1}
    assert "state of LAX" in differences(state, outputs, long_delays, limit=20_000)[0]


def test_the_whole_table_through_a_run_with_kills(flights, tmp_path):
    count = flights.module("data").FLIGHTS
    said = flights.run_and_verify(tmp_path, "delays.py", count, [], [])
    assert f"{count:,} records in, every result counted once" in said
