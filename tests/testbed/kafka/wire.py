"""The few requests of the Kafka protocol that starting a cluster needs, written out; only Python's standard library.

Format: https://kafka.apache.org/protocol. Versions are fixed ones that every broker from 2.7 to 4.4 answers.
"""

import hashlib
import os
import socket
import struct

API_METADATA, API_FIND_COORDINATOR, API_DESCRIBE_ACLS, API_CREATE_ACLS, API_DESCRIBE_SCRAM, API_ALTER_SCRAM = 3, 10, 29, 30, 50, 51


class WireError(Exception):
    """The broker answered with an error, or not at all."""


def string(text):
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def uvarint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact(raw):
    """Compact string or bytes of the flexible versions."""
    raw = raw.encode() if isinstance(raw, str) else raw
    return uvarint(len(raw) + 1) + raw


class Reader:
    """Takes an answer apart, front to back."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values[0] if len(values) == 1 else values

    def raw(self, length):
        self.at += length
        return self.data[self.at - length:self.at]

    def string(self):
        length = self.take("h")
        return None if length < 0 else self.raw(length).decode()

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def compact_string(self):
        length = self.uvarint()
        return None if length == 0 else self.raw(length - 1).decode(errors="replace")

    def tags(self):
        for _ in range(self.uvarint()):
            self.uvarint()
            self.raw(self.uvarint())


def receive(connection, length):
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise WireError("the broker closed the connection")
        data += piece
    return bytes(data)


def request(address, api, version, body, *, flexible=False, timeout=10.0):
    """One request on a connection of its own; returns a Reader at the start of the answer's body."""
    with socket.create_connection(address, timeout=timeout) as connection:
        frame = struct.pack(">hhi", api, version, 1) + string("millstream-testbed") + (b"\0" if flexible else b"") + body
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        answer = Reader(receive(connection, struct.unpack(">i", receive(connection, 4))[0]))
    if answer.take("i") != 1:
        raise WireError("an answer to a different request")
    if flexible:
        answer.tags()
    return answer


def metadata(address, topics=()):
    """(broker ids, controller id, {topic: (error, {partition: leader})}); no topics named: brokers only."""
    answer = request(address, API_METADATA, 1, struct.pack(">i", len(topics)) + b"".join(map(string, topics)), timeout=5.0)
    brokers = []
    for _ in range(answer.take("i")):
        brokers.append(answer.take("i"))
        answer.string(), answer.take("i"), answer.string()
    controller, found = answer.take("i"), {}
    for _ in range(answer.take("i")):
        error, name, _ = answer.take("h"), answer.string(), answer.take("b")
        leaders = {}
        for _ in range(answer.take("i")):
            _, partition, leader = answer.take("hii")
            leaders[partition] = leader
            answer.raw(4 * answer.take("i")), answer.raw(4 * answer.take("i"))
        found[name] = (error, leaders)
    return sorted(brokers), controller, found


def find_coordinator(address, key, transactional):
    """The node id of the coordinator of a group, or of a transactional id; None while there is none."""
    answer = request(address, API_FIND_COORDINATOR, 2, string(key) + struct.pack(">b", 1 if transactional else 0))
    _, error, _ = answer.take("i"), answer.take("h"), answer.string()
    return answer.take("i") if error == 0 else None


MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}


def set_scram(address, users, iterations=4096):
    """Makes the users ({name: password}) known to both SCRAM mechanisms; one request each, a broker takes one credential per user."""
    for number, digest in MECHANISMS.values():
        body = b""
        for name, password in users.items():
            salt = os.urandom(24)
            salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
            body += compact(name) + struct.pack(">bi", number, iterations) + compact(salt) + compact(salted) + b"\0"
        alter_scram(address, uvarint(1) + uvarint(len(users) + 1) + body + b"\0")


def alter_scram(address, body):
    answer = request(address, API_ALTER_SCRAM, 0, body, flexible=True)
    answer.take("i")
    for _ in range(answer.uvarint() - 1):
        user, error, text = answer.compact_string(), answer.take("h"), answer.compact_string()
        answer.tags()
        if error:
            raise WireError(f"SCRAM credentials of {user}: error {error} {text}")


def scram_users(address):
    """The names of which this broker knows credentials for every SCRAM mechanism (it hears of them a moment after they are set)."""
    answer = request(address, API_DESCRIBE_SCRAM, 0, uvarint(0) + b"\0", flexible=True)
    _, error, text, names = answer.take("i"), answer.take("h"), answer.compact_string(), set()
    if error:
        raise WireError(f"SCRAM users: error {error} {text}")
    for _ in range(answer.uvarint() - 1):
        name = answer.compact_string()
        answer.take("h"), answer.compact_string()
        mechanisms = answer.uvarint() - 1
        for _ in range(mechanisms):
            answer.take("bi"), answer.tags()
        answer.tags()
        if mechanisms == len(MECHANISMS):
            names.add(name)
    return names


RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5}
OPERATIONS = {"all": 2, "read": 3, "write": 4, "create": 5, "delete": 6, "alter": 7, "describe": 8, "describe-configs": 10, "alter-configs": 11,
              "idempotent-write": 12}
PATTERNS = {"literal": 3, "prefixed": 4}


def allow(address, rules):
    """Access rules (principal, resource kind, name, "literal" or "prefixed", operation), all of them "allow from anywhere"."""
    body = struct.pack(">i", len(rules))
    for principal, kind, name, pattern, operation in rules:
        body += struct.pack(">b", RESOURCES[kind]) + string(name) + struct.pack(">b", PATTERNS[pattern]) + string(f"User:{principal}")
        body += string("*") + struct.pack(">bb", OPERATIONS[operation], 3)
    answer = request(address, API_CREATE_ACLS, 1, body)
    answer.take("i")
    for rule in range(answer.take("i")):
        error, text = answer.take("h"), answer.string()
        if error:
            raise WireError(f"access rule {rules[rule]}: error {error} {text}")


def rule_count(address):
    """How many access rules this broker knows."""
    answer = request(address, API_DESCRIBE_ACLS, 1, struct.pack(">bhbhhbb", 1, -1, 1, -1, -1, 1, 1))
    _, error, text, count = answer.take("i"), answer.take("h"), answer.string(), 0
    if error:
        raise WireError(f"access rules: error {error} {text}")
    for _ in range(answer.take("i")):
        answer.take("b"), answer.string(), answer.take("b")
        for _ in range(answer.take("i")):
            answer.string(), answer.string(), answer.take("bb")
            count += 1
    return count
