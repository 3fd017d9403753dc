"""Records at the edges of what a log may hold: what goes in comes out, byte by byte, in state, changelog and output."""

import base64
import json
import sys

import pytest

from harness import HERE, wait_until

FAR_FUTURE = 253402300800000  # the year 10000
EDGES = [
    # timestamp, key, value
    (1, b"plain", b"value"),
    (2, b"", b"an empty key is a key"),
    (3, None, b"a null key"),
    (4, b"null-value", None),
    (5, b"deleted", b"first"),
    (6, b"deleted", None),
    (7, b"empty-value", b""),
    (8, b"\xff\xfe\x00not utf-8", b"\x00\xff"),
    (9, b"\x00", b"zero byte"),
    (10, b"big", b"x" * 1_000_000),
    (-1, b"time-1", b"minus one"),
    (-62135596800000, b"year 1", b"far past"),
    (FAR_FUTURE, b"future", b"far future"),
    (0, b"epoch", b"zero"),
    (11, b"k" * 10_000, b"a long key"),
    (12, None, None),
]


def encoded(rows):
    text = lambda b: "-" if b is None else base64.b64encode(b).decode()
    return "".join(f"{t}\t{text(k)}\t{text(v)}\n" for t, k, v in rows).encode()


@pytest.mark.parametrize("guarantee", ["ExactlyOnce", "AtLeastOnce", "AtMostOnce"])
def test_come_through_unharmed(rig, guarantee):
    r = rig(worker=[sys.executable, HERE / "mirror_worker.py"], guarantee=guarantee)
    r.command("produce", "events", "--data", r.data, "--partitions", 4, "--format", "base64", stdin=encoded(EDGES))
    assert sorted(map(repr, [(t, k, v) for _, _, t, k, v in r.consume("events")])) == sorted(map(repr, EDGES))
    r.start()
    wait_until(lambda: len(r.consume("seen")) >= len(EDGES), lambda: f"{len(r.consume('seen'))} of {len(EDGES)}\n{r.log()[-3000:]}")
    assert sorted(map(repr, [(t, k, v) for _, _, t, k, v in r.consume("seen")])) == sorted(map(repr, EDGES))
    expected = {}
    for _, key, value in EDGES:
        if key is not None and value is not None:
            expected[key] = value
        else:
            expected.pop(key, None)
    done = r.command("consume", f"default.{r.name}-ledger-changelog", "--data", r.data, "--format", "base64")
    replay = {}
    for line in done.stdout.decode().splitlines():
        _, _, _, key, value = line.split("\t")
        key = base64.b64decode(key)
        if value == "-":
            replay.pop(key, None)
        else:
            replay[key] = base64.b64decode(value)
    assert replay == expected
    state = r.command("state", "scan", "ledger", "--data", r.data, "--limit", 1000, "--key-format", "base64", "--value-format", "base64",
                      "-o", "json")
    rows = [json.loads(line) for line in state.stdout.decode().splitlines()]
    assert {base64.b64decode(row["key"]): base64.b64decode(row["value"]) for row in rows} == expected
    assert r.stop() == 0


def test_state_without_a_key_fails_its_record_and_says_so(rig):
    r = rig(on_failure="DeadLetter")
    r.command("produce", "events", "--data", r.data, "--partitions", 4, "--format", "raw", stdin=b'{"n": 1}\n')
    r.produce(3)
    r.start()
    r.wait_outputs(3)
    wait_until(lambda: len(r.consume("default.totals-dead-letter")) == 1, lambda: r.log()[-3000:])
    assert "key" in r.log()


LOOP = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: totals}
spec:
  inputs: [{topic: events}]
  loop: {}
  outputs: [{topic: seen, create: {partitions: 4}}]
  errors: {maxAttempts: 2, backoff: {initial: 10ms, max: 100ms}, onFailure: DeadLetter}
"""


def test_a_loop_without_keys(rig):
    """A record for the loop without a key fails the one that sends it; one that somebody else wrote there is a record without a key."""
    r = rig(worker=[sys.executable, HERE / "keyless_loop_worker.py"])
    r.manifest.write_text(LOOP)
    events = [{"key": f"key-{n}", "n": n, "dull": n % 5 == 0} for n in range(20)]
    r.command("produce", "events", "--data", r.data, "--key", "key", "--partitions", 4,
              stdin="".join(json.dumps(event) + "\n" for event in events).encode())
    r.command("produce", "default.totals-loop", "--data", r.data, "--partitions", 4, stdin=b'{"n": 100}\n')
    r.start()
    dead = lambda: sorted(json.loads(value)["n"] for _, _, _, _, value in r.consume("default.totals-dead-letter"))
    seen = lambda: sorted((json.loads(value)["n"], key and key.decode()) for _, _, _, key, value in r.consume("seen"))
    wait_until(lambda: len(dead()) >= 4 and len(seen()) >= 17, lambda: f"{dead()}\n{seen()}\n{r.log()[-3000:]}")
    assert dead() == [0, 5, 10, 15]
    assert seen() == [*((n, f"key-{n}") for n in range(20) if n % 5), (100, None)]
    assert r.stop() == 0
    assert seen() == [*((n, f"key-{n}") for n in range(20) if n % 5), (100, None)]
