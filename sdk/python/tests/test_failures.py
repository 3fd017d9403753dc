"""What the sidecar is told about an exception."""

from millstream.failures import MAX_MESSAGE_BYTES, failure_of


def caught(function):
    try:
        function()
    except Exception as error:
        return failure_of(error)


def test_innermost_frame_first_then_causes():
    def inner():
        return {}["amount"]

    def outer():
        try:
            inner()
        except KeyError as error:
            raise ValueError("bad order") from error

    lines = caught(outer)["message"].splitlines()
    assert lines[0] == "ValueError: bad order"
    assert "in outer" in lines[1] and lines[2].strip() == 'raise ValueError("bad order") from error'
    cause = lines.index("caused by: KeyError: 'amount'")
    assert "in inner" in lines[cause + 1] and lines[cause + 2].strip() == 'return {}["amount"]'
    assert "in outer" in lines[cause + 3]


def test_messages_are_bounded():
    def deep(n):
        if n:
            deep(n - 1)
        raise ValueError("é" * 100_000)

    message = caught(lambda: deep(200))["message"]
    assert len(message.encode()) <= MAX_MESSAGE_BYTES and message.startswith("ValueError: é")


def test_an_exception_whose_text_fails():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    def fail():
        raise Broken

    failure = caught(fail)
    assert failure["error"] == "Broken" and "text cannot be had" in failure["message"]


def test_lone_surrogates_do_not_break_the_frame():
    def fail():
        raise ValueError("\udcff")

    caught(fail)["message"].encode("utf-8")


def test_endless_recursion():
    def fail():
        fail()

    failure = caught(fail)
    assert failure["error"] == "RecursionError" and len(failure["message"]) < MAX_MESSAGE_BYTES
