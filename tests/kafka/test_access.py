"""Rights that are missing: one clear condition each, and the processor goes on as soon as it has them."""

import pytest
from harness import Group

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
