"""Questions that come to the wrong member."""

from harness import wait_until


def test_a_member_says_who_has_the_task_that_is_asked_for(group, one):
    g = group(one)
    first, second = g.member(), g.member()
    wait_until(lambda: len(first.active()) == len(second.active()) == 2, g.logs)
    g.produce(100)
    g.wait_outputs()
    answers = [first.http(f"/v1/stores/ledger/keys/key-{n}") for n in range(20)]
    elsewhere = [body for status, body in answers if status != 200]
    assert 0 < len(elsewhere) < 20, answers
    for body in elsewhere:
        assert f"127.0.0.1:{second.port}" in str(body), body
    g.finish()
