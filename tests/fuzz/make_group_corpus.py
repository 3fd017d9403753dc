#!/usr/bin/env python3
"""make_group_corpus.py FOLDER: seeds of the group fuzzer: a good example of everything that brokers and members send (group_fuzz.cc)."""
import pathlib
import struct
import sys


def text(value):
    return b"\xff\xff" if value is None else struct.pack(">h", len(value)) + value


def raw(value):
    return struct.pack(">i", len(value)) + value


def array(*items):
    return struct.pack(">i", len(items)) + b"".join(items)


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def tagged(**fields):
    return b"MS\x01\x01" + b"".join(bytes([int(tag[1:])]) + varint(len(content)) + content for tag, content in fields.items())


def strings(*rests):
    return varint(len(rests)) + b"".join(varint(shared) + text(rest) for shared, rest in rests)


IDS = strings((0, b"orders-pod-0-0-a"), (15, b"b"))
ROSTER = struct.pack(">i", 7) + strings((0, b"orders-pod-0-0-a"), (15, b"b"), (11, b"1-0-a"))
MEMBER = tagged(t1=text(b"pod-0:8080"), t2=struct.pack(">i", 12), t5=IDS, t6=varint(2) + varint(0) + varint(8) + varint(3) + varint(8),
                t7=varint(1) + varint(4) + varint(100) + varint(6), t8=ROSTER, t9=varint(77))
DRAINING = tagged(t1=text(b"pod-1:8080"), t2=struct.pack(">i", 12), t3=b"", t4=varint(3) + varint(0) + varint(1) + varint(5), t5=IDS, t6=varint(0))
GIVEN = tagged(t1=varint(2) + varint(0) + varint(3), t6=varint(1) + varint(1), t2=struct.pack(">i", 2), t3=b"12345678", t4=text(b"pod-0:8080"), t5=ROSTER)
ZERO = b"\0\0\0\0\0\0"  # no throttling, no error


def subscription(data):
    return struct.pack(">h", 1) + array(text(b"in"), text(b"loop")) + raw(data) + array(text(b"in") + array(struct.pack(">i", 3)))


JOINED = ZERO + struct.pack(">i", 8) + text(b"millstream") + text(b"a") + text(b"a") + array(
    text(b"a") + text(None) + raw(subscription(MEMBER)), text(b"b") + text(b"pod-1") + raw(subscription(DRAINING)))
SEEDS = [
    b"\0\0" + array(struct.pack(">hhh", 11, 0, 9), struct.pack(">hhh", 18, 0, 4)),
    ZERO + text(None) + struct.pack(">i", 1) + text(b"broker") + struct.pack(">i", 9092),
    JOINED,
    ZERO + raw(b"assignment"),
    ZERO,
    ZERO + array(text(b"a") + text(b"pod") + b"\0\x19"),
    ZERO + struct.pack(">qh", 4711, 3),
    b"\0\0" + array(text(b"PLAIN"), text(b"SCRAM-SHA-512")),
    b"\0\0" + text(None) + raw(b"v=abc") + struct.pack(">q", 60000),
    text(b"g") + struct.pack(">ii", 45000, 60000) + text(b"a") + text(None) + text(b"consumer") + array(text(b"millstream") + raw(subscription(MEMBER))),
    subscription(MEMBER),
    struct.pack(">h", 1) + array(text(b"in") + array(struct.pack(">i", 0))) + raw(GIVEN),
    MEMBER,
    GIVEN,
    JOINED,
]
target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
for number, seed in enumerate(SEEDS):
    (target / f"seed-{number}").write_bytes(bytes([number]) + seed)
(target / "draining").write_bytes(bytes([12]) + DRAINING)
