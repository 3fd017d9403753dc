"""Rights that are missing: one clear condition each, and the processor goes on as soon as it has them. Secrets that are rotated: the processor goes on with them."""

import os
import re
import shutil
import urllib.request
import uuid

import pytest
import wire
from harness import Group, wait_until

KAFKA = ", sasl: {mechanism: SCRAM-SHA-512, username: alice, passwordSecretRef: {name: kafka, key: password}}"


@pytest.fixture
def alices(tmp_path, guarded):
    """Makes a processor that runs as alice, with the rights given."""
    made = []

    def make(without=None):
        secrets = tmp_path / "secrets" / "kafka"
        secrets.mkdir(parents=True, exist_ok=True)
        (secrets / "password").write_text(guarded.users["alice"])
        g = Group(tmp_path, guarded, bootstrap=guarded.bootstrap("SASL_PLAINTEXT"), kafka=KAFKA, flags=["--secrets", tmp_path / "secrets"])
        made.append(g)
        g.rules = {
            "input": ("alice", "topic", g.input, "literal", "read"),
            "output": ("alice", "topic", g.output, "literal", "write"),
            "group": ("alice", "group", g.group, "literal", "read"),
            "transactional id": ("alice", "transactional-id", g.group, "prefixed", "all"),
            "own topics": ("alice", "topic", g.group, "prefixed", "all"),
            "describe": ("alice", "topic", g.output, "literal", "describe"),
        }
        guarded.allow(*(rule for name, rule in g.rules.items() if name != without))
        return g

    yield make
    for g in made:
        g.close()


def test_these_rights_are_enough(alices):
    g = alices()
    g.member()
    g.produce(100)
    g.finish()


@pytest.mark.parametrize("missing", ["input", "output", "group", "transactional id"])
def test_a_missing_right_is_named_and_comes_back(alices, guarded, missing):
    g = alices(without=missing)
    named = {"input": g.input, "output": g.output, "group": g.group, "transactional id": g.group}[missing]
    g.produce(100)
    member = g.member()
    message = member.wait_condition("AccessDenied")
    assert named in message, message
    assert "alice" in message or "ACL" in message or "allow" in message.lower(), message
    guarded.allow(g.rules[missing])
    g.finish()


# ---------------------------------------------------------------- rotated secrets

SECRETS = {
    "SASL_PLAINTEXT": ", sasl: {{mechanism: SCRAM-SHA-512, username: {user}, passwordSecretRef: {{name: user, key: password}}}}",
    "SSL": ", tls: {{caSecretRef: {{name: ca, key: ca.crt}}, certSecretRef: {{name: user, key: user.crt}}, keySecretRef: {{name: user, key: user.key}}}}",
}


class Rotating:
    """A user of its own on the guarded broker, and a folder with its secrets that is kept as the kubelet keeps one: a link to a folder is replaced."""

    def __init__(self, folder, cluster, listener):
        self.cluster, self.listener, self.folder = cluster, listener, folder / "mounted"
        self.user = f"u-{uuid.uuid4().hex[:8]}"
        self.folder.mkdir()

    def mount(self, **secrets):
        version = self.folder / f"..{uuid.uuid4().hex}"
        for name, files in {"ca": {"ca.crt": self.cluster.authority.ca.read_text()}, "user": {k.replace("_", "."): v for k, v in secrets.items()}}.items():
            (version / name).mkdir(parents=True)
            for key, text in files.items():
                (version / name / key).write_text(text)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        before = os.readlink(self.folder / "..data") if (self.folder / "..data").is_symlink() else None
        (self.folder / "..data_tmp").symlink_to(version.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")
        if before:
            shutil.rmtree(self.folder / before)

    def fresh(self):
        """New secrets of the user, in force at the broker: a password takes the place of the one before, a certificate does not."""
        if self.listener == "SSL":
            certificate, key = self.cluster.authority.issue(self.user)
            return {"user_crt": certificate.read_text(), "user_key": key.read_text()}
        password = uuid.uuid4().hex
        broker = self.cluster.brokers[0].internal
        wire.set_scram(broker, {self.user: password})
        wait_until(lambda: self.user in wire.scram_users(broker), "the broker never heard of the user")
        return {"password": password}

    def wrong(self):
        """Secrets that cannot be taken, and the condition that says so."""
        if self.listener == "SSL":
            certificate, _ = self.cluster.authority.issue(f"{self.user}-x")
            return {"user_crt": certificate.read_text(), "user_key": "no key"}, "SecretUnreadable", "kafka.tls.keySecretRef: Secret user, key user.key"
        return {"password": "wrong"}, "SecretRefused", "SCRAM-SHA-512"


def metric(member, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{member.port}/metrics", timeout=5) as answer:
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", answer.read().decode(), re.M))


def end_all_connections(cluster):
    cluster.brokers[0].stop()
    cluster.brokers[0].start()
    cluster.wait_ready()


def finish(g, member):
    """As Group.finish, but the process may end with 1: a call that was under way when its connection broke may come back only after the transaction timeout, and a
    process does not wait for calls that it has given up."""
    g.wait_outputs()
    g.check()
    assert member.stop() in (0, 1)


def rotated_group(tmp_path, guarded, listener):
    """A Rotating, and a group that reads its folder and has its rights."""
    rotating = Rotating(tmp_path, guarded, listener)
    rotating.mount(**rotating.fresh())
    user = rotating.user
    # A broker that is back after longer than the transaction timeout may end an open transaction before it knows the partitions' leaders, and
    # then leaves them without the marker (TransactionMarkerChannelManager): the timeout is longer than any restart.
    g = Group(tmp_path, guarded, bootstrap=guarded.bootstrap(listener), kafka=SECRETS[listener].format(user=user), flags=["--secrets", rotating.folder],
              transaction_timeout="60s")
    guarded.allow((user, "topic", g.input, "literal", "read"), (user, "topic", g.output, "literal", "write"),
                  (user, "topic", g.output, "literal", "describe"), (user, "topic", g.group, "prefixed", "all"),
                  (user, "group", g.group, "literal", "read"), (user, "transactional-id", g.group, "prefixed", "all"))
    return rotating, g


@pytest.mark.parametrize("listener", SECRETS)
def test_secrets_are_rotated_under_load(tmp_path, guarded, listener):
    rotating, g = rotated_group(tmp_path, guarded, listener)
    try:
        member = g.member()
        g.wait_active(member)
        generation, process = metric(member, "millstream_group_generation"), member.process.pid
        feeder = g.feed(per_second=400)
        try:
            wait_until(lambda: g.tail.count() > 800, member.log)  # both writers know their brokers
            rotated = rotating.fresh()
            wrong, reason, names = rotating.wrong()
            rotating.mount(**wrong)
            assert names in member.wait_condition(reason)
            member.wait_log(rf"{re.escape(names)}.*stay in use.*{reason}")
            assert metric(member, "millstream_secrets_waiting") == 1
            seen = g.tail.count()
            wait_until(lambda: g.tail.count() > seen + 200, member.log)  # with the secrets before
            assert metric(member, "millstream_secrets_taken_total") == 0

            rotating.mount(**rotated)
            wait_until(lambda: metric(member, "millstream_secrets_taken_total") == 1, member.log)
            wait_until(lambda: reason not in member.conditions(), member.log)
            wait_until(lambda: metric(member, "millstream_kafka_clients_renewed_total") >= 3, member.log)  # two writers and a reader at least
            seen = g.tail.count()
            wait_until(lambda: g.tail.count() > seen + 200, member.log)
            # Nobody was restarted, no task has moved.
            assert metric(member, "millstream_group_generation") == generation
            assert metric(member, "millstream_group_lost_total") == 0
            assert member.process.pid == process and member.starts == 1

            # Every connection is made anew: what is in use is what the broker takes now.
            if listener != "SSL":
                end_all_connections(guarded)
                seen = g.tail.count()
                wait_until(lambda: g.tail.count() > seen + 200, member.log)
        finally:
            feeder.close()
        assert member.alive() and member.starts == 1
        finish(g, member)
    finally:
        g.close()


def test_a_password_that_is_void_before_the_next_one_is_mounted(tmp_path, guarded):
    """No connection is left, and none can be made: the process waits, says why, and goes on as soon as the folder has the password."""
    rotating, g = rotated_group(tmp_path, guarded, "SASL_PLAINTEXT")
    try:
        member = g.member()
        g.wait_active(member)
        feeder = g.feed(per_second=400)
        try:
            wait_until(lambda: g.tail.count() > 400, member.log)
            rotated = rotating.fresh()
            end_all_connections(guarded)
            wait_until(lambda: "SCRAM-SHA-512" in member.conditions().get("NotInGroup", ""), member.log)
            rotating.mount(**rotated)
            wait_until(lambda: metric(member, "millstream_secrets_taken_total") == 1, member.log)
            wait_until(lambda: "NotInGroup" not in member.conditions(), member.log)
            seen = g.tail.count()
            wait_until(lambda: g.tail.count() > seen + 200, member.log)
        finally:
            feeder.close()
        assert member.alive() and member.starts == 1
        finish(g, member)
    finally:
        g.close()
