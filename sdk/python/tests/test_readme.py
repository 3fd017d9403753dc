"""The README's programs do what it says."""

import asyncio
import pathlib
import re

import pytest
import yaml

import millstream
from millstream.testing import TestKit

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text()


def sample(name):
    code = re.search(rf"<!-- sample: {name} -->\n```python\n(.*?)```", README, re.S).group(1)
    scope = {"__name__": "sample"}
    exec(compile(code, f"README:{name}", "exec"), scope)
    return scope["app"]


def test_map():
    kit = TestKit(sample("map"), outputs=["order-cents"])
    kit.feed("orders", {"amount": 1.25}, key="a", headers=[("h", b"1"), ("h", None)])
    kit.feed("orders", {"amount": 0}, key="a")
    out = kit.outputs("order-cents")
    assert [(o.key, o.value, o.headers) for o in out] == [("a", 125, [("h", b"1"), ("h", None)])]


def test_count():
    kit = TestKit(sample("count"), stores=["counts"], outputs=["word-counts"])
    for word in ("x", "y", b"\xff", "x", b"\xff"):
        kit.feed("words", key=word)
    assert dict(kit.state("counts")) == {"x": 2, "y": 1, "\udcff": 2}
    assert [(o.raw_key, o.value) for o in kit.outputs("word-counts")] == [
        (b"x", 1), (b"y", 1), (b"\xff", 1), (b"x", 2), (b"\xff", 2)]


def test_hours():
    [stores] = re.findall(r"```yaml\n(  stores:\n.*?)```", README, re.S)
    kit = TestKit(sample("hours"), stores=yaml.safe_load(stores)["stores"], outputs=["averages"])
    hour = 3_600_000
    for celsius, time, quality in ((10, hour, "good"), (99, hour, "bad"), (20, 2 * hour - 1, "good"), (5, 2 * hour, "good"), (30, hour, "good")):
        kit.feed("readings", {"celsius": celsius}, key="s", timestamp=time, headers={"quality": quality})
    assert [(o.value, o.headers) for o in kit.outputs("averages")] == [
        (value, [("hour", b"%d" % start)]) for value, start in ((10, hour), (15, hour), (5, 2 * hour), (20, hour))]
    assert kit.windows("hours")["s", hour, 2 * hour] == {"n": 3, "sum": 60}
    kit.feed("readings", {"celsius": 1}, key="s", timestamp=2 * hour + 300_000)
    kit.feed("readings", {"celsius": 1}, key="s", timestamp=hour)
    assert kit.late == 1


def test_all_that_is_exported_is_documented():
    for name in millstream.__all__:
        thing = getattr(millstream, name)
        if isinstance(thing, type):
            assert thing.__doc__, name
            for method, value in vars(thing).items():
                if not method.startswith("_") and callable(value):
                    assert value.__doc__ or name.endswith("Codec") or name == "Codec", f"{name}.{method}"
