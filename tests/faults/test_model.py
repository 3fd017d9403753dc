"""The oracle must be able to fail: each kind of damage is found."""

import model

EVENTS = [(b"a", 1), (b"b", 2), (b"a", 3)]
LEDGERS, AFTER = model.expected_ledgers(EVENTS)


def result(state=None, changelog=None, outputs=None):
    return model.check_exactly_once(
        EVENTS,
        LEDGERS if state is None else state,
        list(LEDGERS.items()) if changelog is None else changelog,
        [(k, {"n": n, "ledger": AFTER[n]}) for k, n in EVENTS] if outputs is None else outputs,
    )


def test_the_right_answer_passes():
    assert result() == []


def test_lost_and_doubled_state_is_found():
    assert "state" in result(state={b"a": LEDGERS[b"a"]})[0]
    twice, _ = model.expected_ledgers(EVENTS + [(b"b", 2)])
    assert "state" in result(state=twice)[0]


def test_a_changelog_that_differs_is_found():
    assert "changelog" in result(changelog=[(b"a", LEDGERS[b"a"])])[0]
    assert "changelog" in result(changelog=list(LEDGERS.items()) + [(b"a", None)])[0]


def test_lost_doubled_and_reordered_outputs_are_found():
    outputs = [(k, {"n": n, "ledger": AFTER[n]}) for k, n in EVENTS]
    assert "lost" in result(outputs=outputs[1:])[0]
    assert "2 times" in result(outputs=outputs + outputs[:1])[0]
    assert "order" in result(outputs=[outputs[2], outputs[1], outputs[0]])[0]
