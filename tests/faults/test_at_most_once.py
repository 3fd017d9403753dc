"""AtMostOnce with windows, sessions and timers: no handler is called twice, nothing is made up, and what no crash touched is all there.

Handlers write a line for every call to a file of their own, which no transaction takes back.
"""

import collections
import json

import pytest
from clicks import killed_at_a_point, killed_at_random_times, shops, yesterday
from harness import wait_until
from test_time import Shop, settle
from time_model import GAP, REMIND_AFTER, SIZE, batch


class OnceShop(Shop):
    def __init__(self, folder):
        super().__init__(folder, guarantee="AtMostOnce")
        self.calls_path = self.folder / "calls"

    def start(self, **options):
        return super().start(extra_env={"TIME_CALLS": str(self.calls_path)}, **options)

    def calls(self):
        """{line: how often}."""
        return collections.Counter(self.calls_path.read_text().splitlines() if self.calls_path.exists() else [])


@pytest.fixture
def shop(tmp_path):
    yield from shops(OnceShop, tmp_path)


def once_and_nothing_else(s):
    """Of what the input allows each thing at most once: calls, outputs, and what windows and sessions count."""
    rows = s.input()
    twice = {call: times for call, times in s.calls().items() if times > 1}
    assert not twice
    at = collections.defaultdict(list)
    for _, timestamp, key, _ in rows:
        at[key].append(timestamp)
    closed = [(k.decode(), json.loads(v)) for _, _, _, k, v in s.consume("closed")]
    assert len({(key, of["store"], of["start"], of["end"]) for key, of in closed}) == len(closed)
    for key, of in closed:
        assert 1 <= of["count"] <= sum(of["start"] <= timestamp <= of["end"] for timestamp in at[key]), (key, of)
    reminded = s.reminded()
    assert len(set(reminded)) == len(reminded)
    assert set(reminded) <= {(f"{key}/{n}", timestamp + REMIND_AFTER) for _, timestamp, key, n in rows}
    wait_until(lambda: s.visits() is not None, "the sessions cannot be read")
    for (key, start, end), count in s.visits().items():
        assert 1 <= count <= sum(start <= timestamp <= end for timestamp in at[key]), (key, start, end, count)


def untouched_are_all_there(s, seed, now, count):
    """What comes now is touched by no crash, its times are behind all others: every record reaches a handler."""
    before = s.n
    rows, _ = batch(seed, now + 10 * (SIZE + GAP), count)
    s.click(rows)
    last = {f"click\t{n}" for n in range(before + 1, s.n + 1)}
    wait_until(lambda: last <= s.calls().keys(), lambda: f"{len(last - s.calls().keys())} records are missing\n{s.log()[-3000:]}")


def test_nothing_is_killed(shop, seed):
    s = shop()
    rows, _ = batch(seed, yesterday(), 1500)
    s.click(rows)
    s.start()
    settle(s)
    assert {call.split("\t")[0] for call in s.calls()} == {"click", "close", "remind"}
    once_and_nothing_else(s)
    assert s.stop() == 0, s.log()[-3000:]


def test_killed_at_random_times(shop, seed):
    s = shop()
    now = killed_at_random_times(s, seed, batch, yesterday(), rounds=8, most=300)
    before = s.n
    untouched_are_all_there(s, seed, now, 300)
    reached = {}
    for partition, timestamp, _, _ in s.input():
        reached[partition] = max(timestamp, reached.get(partition, timestamp))
    timers = {
        (f"{key}/{n}", timestamp + REMIND_AFTER)
        for partition, timestamp, key, n in s.input()
        if n > before and timestamp + REMIND_AFTER <= reached[partition]
    }
    assert timers
    wait_until(lambda: timers <= set(s.reminded()), lambda: f"{len(timers - set(s.reminded()))} timers are missing\n{s.log()[-3000:]}")
    once_and_nothing_else(s)
    assert s.stop() == 0, s.log()[-3000:]


@pytest.mark.parametrize("point", ["after-reply", "after-flush", "commit-done-not-applied"])
def test_killed_at_a_point(shop, seed, point):
    s = shop()
    now = killed_at_a_point(s, seed, batch, yesterday(), point, 3)
    untouched_are_all_there(s, seed, now, 50)
    once_and_nothing_else(s)
