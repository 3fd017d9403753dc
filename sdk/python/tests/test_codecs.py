"""Codecs round trip, and refuse what they should."""

import json
import os
import random

import pytest

from millstream import BYTES, INT, JSON, STR
from millstream.codecs import resolve


def test_str_keeps_any_bytes():
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print("SEED", seed)
    rng = random.Random(seed)
    for data in [b"", b"\xff", b"\xed\xa0\x80", "é€𝄞".encode(), *[rng.randbytes(rng.randrange(40)) for _ in range(3000)]]:
        assert STR.encode(STR.decode(data)) == data


@pytest.mark.parametrize("value", [
    0, -1, 10**30, 1.5, True, False, "", "é€𝄞", [], {}, [1, [2, {"a": None}]], {"k": "v", "n": [1.25, "x"]}, "\udcff",
    {"\udcff": 1}, " \n",
])
def test_json_round_trip(value):
    assert JSON.decode(JSON.encode(value)) == value
    assert type(JSON.decode(JSON.encode(value))) is type(value)
    json.loads(JSON.encode(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"x", [object()], {(1, 2): 1}])
def test_json_refuses_values(value):
    with pytest.raises((TypeError, ValueError)):
        JSON.encode(value)


def test_a_value_that_contains_itself():
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        JSON.encode(loop)
    assert JSON.encode([]) == b"[]"


def test_json_equals_the_library_on_random_values():
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print("SEED", seed)
    rng = random.Random(seed)

    def value(depth):
        kind = rng.randrange(8 if depth else 6)
        if kind == 6:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        if kind == 7:
            return {rng.choice(["a", "é", "\udc80", 1, None, True, 2.5]): value(depth - 1) for _ in range(rng.randrange(4))}
        return rng.choice([None, True, rng.randrange(-10**20, 10**20), rng.uniform(-1e300, 1e300), "", "x\n\"\\\u2028é𝄞\0"])

    for _ in range(500):
        v = value(4)
        assert json.loads(JSON.encode(v)) == json.loads(json.dumps(v))


def test_json_is_compact_utf8():
    assert JSON.encode({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'.encode()


@pytest.mark.parametrize("text", [b" 5 ", b"\n[1, 2]\n", b'\t"x"'])
def test_json_takes_blanks_around(text):
    assert JSON.decode(text) == json.loads(text)


@pytest.mark.parametrize("text", [b"", b"{", b"[1] x", b"\xff", b"nope", b"\xef\xbb\xbf1"])
def test_json_refuses(text):
    with pytest.raises(ValueError):
        JSON.decode(text)


def test_int_is_kafkas_long():
    assert INT.encode(1) == b"\0\0\0\0\0\0\0\1" and INT.decode(b"\xff" * 8) == -1
    for wrong in (1 << 63, "1", 1.0, True):
        with pytest.raises((TypeError, OverflowError)):
            INT.encode(wrong)
    with pytest.raises(ValueError, match="these are 3 bytes"):
        INT.decode(b"abc")


def test_bytes():
    assert BYTES.encode(bytearray(b"x")) == b"x" and type(BYTES.encode(memoryview(b"x"))) is bytes
    with pytest.raises(TypeError):
        BYTES.encode("x")


def test_resolve():
    assert resolve("json") is JSON
    with pytest.raises(TypeError, match="encode"):
        resolve(5)  # type: ignore[arg-type]
