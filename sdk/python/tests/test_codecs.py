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
