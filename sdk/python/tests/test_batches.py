"""What one batch does: the prefix rule, reads and writes, limits, and bytes that survive."""

import pytest

import millstream
from fake_sidecar import GET, NOT_PREFETCHED, RESULT, ROWS, SCAN, VALUES, records


def test_counts_and_emits(serve):
    app = millstream.App()

    @app.on("in")
    def count(ctx, record):
        n = ctx.state("s").get(default=0) + record.value["n"]
        ctx.state("s").set(n)
        ctx.emit("out", key=record.key, value={"n": n})

    sidecar = serve(app)
    result = sidecar.run(7, (b"a", b'{"n":1}'), (b"b", b'{"n":5}'), (b"a", b'{"n":2}'), state={0: [b"10", None]})
    assert result == [RESULT, 7, 3, None, {0: [[b"a", b"13"], [b"b", b"5"]]}, [
        [0, b"a", b'{"n":11}', 1000], [0, b"b", b'{"n":5}', 1001],
        [0, b"a", b'{"n":13}', 1002],
    ]]


def test_a_failing_item_ends_the_batch_and_takes_its_own_effects_along(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        state = ctx.state("s")
        state.set(record.value)
        state.delete(key="gone")
        ctx.emit("out", key=record.key, value=record.value)
        if record.value == 3:
            raise ValueError("three is not liked")

    result = serve(app).run(1, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"))
    assert result[2] == 2
    assert result[4] == {0: [[b"a", b"1"], [b"gone", None], [b"b", b"2"]]}
    assert [row[2] for row in result[5]] == [b"1", b"2"]
    failure = result[3]
    assert failure["class"] == "Handler" and failure["error"] == "ValueError" and failure["retriable"] is True
    assert failure["message"].splitlines()[0] == "ValueError: three is not liked"
    assert "test_batches.py" in failure["message"] and 'raise ValueError("three is not liked")' in failure["message"]
    assert "millstream/batch.py" not in failure["message"]


def test_the_first_item_can_fail(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.state("s").set(1)
        raise RuntimeError

    result = serve(app).run(1, (b"a", b"1"))
    assert result[2] == 0 and result[4] == {} and result[5] == []
    assert result[3]["message"].startswith("RuntimeError\n")


def test_reads_see_own_writes_then_prefetched_then_get(serve):
    app = millstream.App()
    seen = []

    @app.on("in")
    def handle(ctx, record):
        state = ctx.state("s")
        seen.append(state.get())
        seen.append(state.get(key="other"))
        seen.append(state.get(key="b"))
        state.set([record.value])
        state.set("foreign", key="other")
        seen.append(state.get())
        seen.append(state.get(key="other"))
        state.delete()
        seen.append(state.get(default="nothing"))

    sidecar = serve(app)
    sidecar.batch(3, *records((b"a", b"1"), (b"b", b"2")), state={0: [b'"A"', NOT_PREFETCHED]})
    get = sidecar.expect(GET)
    assert get[1] == 3 and get[3] == 0 and get[4] == [b"other"]
    sidecar.send(VALUES, 3, get[2], [b'"O"'])
    get_b = sidecar.expect(GET)
    assert get_b[4] == [b"b"] and get_b[2] != get[2]
    sidecar.send(VALUES, 3, get_b[2], [None])
    result = sidecar.expect(RESULT)
    assert result[2:4] == [2, None]
    assert seen == ["A", "O", None, [1], "foreign", "nothing", None, "foreign", None, [2], "foreign", "nothing"]


def test_get_many_asks_once_for_what_is_missing(serve):
    app = millstream.App()
    seen = []

    @app.on("in")
    def handle(ctx, record):
        ctx.state("s").set(5, key="w")
        seen.append(ctx.state("s").get_many(["x", "a", "w", "y", "x"]))

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1")), state={0: [b"7"]})
    get = sidecar.expect(GET)
    assert get[4] == [b"x", b"y"]
    sidecar.send(VALUES, 1, get[2], [b"1", None])
    assert sidecar.expect(RESULT)[2:4] == [1, None]
    assert seen == [[1, 7, 5, None, 1]]


def test_get_many_asks_for_fewer_when_the_values_do_not_fit_a_frame(serve):
    app = millstream.App()
    seen = []
    app.on("in")(lambda ctx, record: seen.append(ctx.state("s").get_many(["x", "y", "z"])))
    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1")))
    asked = []
    while (frame := sidecar.receive())[0] == GET:
        asked.append(frame[4])
        if len(frame[4]) > 1:
            sidecar.send(VALUES, 1, frame[2], [], "the values take too many bytes: ask for fewer keys at once")
        else:
            sidecar.send(VALUES, 1, frame[2], [b'"' + frame[4][0] + b'"'])
    assert frame[2:4] == [1, None] and seen == [["x", "y", "z"]]
    assert asked == [[b"x", b"y", b"z"], [b"x"], [b"y", b"z"], [b"y"], [b"z"]]


def test_an_error_from_the_sidecar_fails_the_item(serve):
    app = millstream.App()
    app.on("in")(lambda ctx, record: ctx.state("s").get(key="x"))
    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1")))
    sidecar.send(VALUES, 1, sidecar.expect(GET)[2], [], "disk is gone")
    failure = sidecar.expect(RESULT)[3]
    assert failure["class"] == "Handler" and failure["retriable"] and "disk is gone" in failure["message"]


def test_scan_pages_and_tells_new_writes(serve):
    app = millstream.App()
    seen = []

    @app.on("in")
    def handle(ctx, record):
        state = ctx.state("s")
        state.set(record.value)
        if record.value == 2:
            seen.extend(state.scan("a", "n", reverse=True))
            state.set(9, key="z")
            seen.append(list(state.scan(prefix="x\x7f", limit=1)))

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1"), (b"b", b"2")))
    scan = sidecar.expect(SCAN)
    assert scan[1] == 1 and scan[3:] == [0, b"a", b"n", 0, True, None, {0: [[b"a", b"1", 0], [b"b", b"2", 1]]}]
    sidecar.send(ROWS, 1, scan[2], [[b"c", b"30"], [b"b", b"2"]], b"cursor-1")
    second = sidecar.expect(SCAN)
    assert second[4:] == [b"a", b"n", 0, True, b"cursor-1"]
    sidecar.send(ROWS, 1, second[2], [[b"a", b"1"]], None)
    third = sidecar.expect(SCAN)
    assert third[4:] == [b"x\x7f", b"x\x80", 1, False, None, {0: [[b"z", b"9", 1]]}]
    sidecar.send(ROWS, 1, third[2], [[b"x\x7f1", b"0"]], b"more")
    assert sidecar.expect(RESULT)[2:4] == [2, None]
    assert seen == [("c", 30), ("b", 2), ("a", 1), [("x\x7f1", 0)]]


def test_bytes_survive(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.state("s").set(1)
        ctx.state("s").set(2, key=record.key)
        ctx.emit("out", key=record.key, value=None if record.value is None else record.value, headers=record.headers)

    key = b"\xff\x00\xc3(caf\xc3\xa9"
    headers = [["h", b"\xff1"], ["h", None], ["h", b""], [b"\xff", b"x"], ["é", b"y"]]
    result = serve(app).run(1, (key, None, {"headers": headers}), (b"", b'""'), state={0: [None, None]})
    assert result[2:4] == [2, None]
    assert result[4] == {0: [[key, b"2"], [b"", b"2"]]}
    assert result[5] == [[0, key, None, 1000, headers], [0, b"", b'""', 1001]]


def test_text_where_bytes_belong_and_further_fields(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        assert record.headers == [("h", b"v")] and record.header("h") == b"v" and record.header("x") is None
        ctx.state("s").set(ctx.state("s").get() + record.value)

    sidecar = serve(app)
    sidecar.batch(1, ["k"], [[0, 0, 0, 5, 0, "1", [["h", "v"]], 1, "future", {}]], {0: ["41"]}, more=("future",))
    assert sidecar.expect(RESULT)[2:5] == [1, None, {0: [[b"k", b"42"]]}]


def test_records_without_key(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        assert record.key is None
        if record.value == "state":
            ctx.state("s").get()
        ctx.emit("out", value="no key")

    result = serve(app).run(1, (None, b'"a"'), (None, b'"state"'), state={0: []})
    assert result[2] == 1 and result[5] == [[0, None, b'"no key"', 1000]]
    assert result[3]["error"] == "NoKeyError" and "has no key" in result[3]["message"]


def test_record_facts(serve):
    app = millstream.App()
    facts = []

    @app.on("in")
    def handle(ctx, record):
        facts.append((record.offset, record.timestamp, record.partition, record.task, record.input, record.topic,
                      record.attempt, record.raw_key, record.raw_value, ctx.task, ctx.processor, ctx.watermark))
        facts.append(repr(record))
        facts.append(record.time.isoformat())

    sidecar = serve(app)
    sidecar.send(5, 9, 6, 0, [b"k"], [[0, 0, 1 << 40, 1500, 0, b"1", None, 3]], {}, 1234)
    assert sidecar.expect(RESULT)[2] == 1
    assert facts[0] == (1 << 40, 1500, 6, 6, "in", "topic-in", 3, b"k", b"1", 6, "test", 1234)
    assert "partition=6" in facts[1] and facts[2] == "1970-01-01T00:00:01.500000+00:00"


@pytest.mark.parametrize("value, words", [
    (b"{nope", ["input 'in'", "topic 'topic-in'", "partition 0", "offset 0", "begins with b'{nope'"]),
    (b"\x00\x00\x00\x00\x07Hrest", ["schema registry", "schema id 7", "millstream.BYTES"]),
    (b"\xff\xfe", ["not json", "begins with b'\\xff\\xfe'"]),
    (b"", ["0 bytes"]),
    (b'{"a":1} trailing', ["Extra data"]),
])
def test_values_that_are_not_json(serve, value, words):
    app = millstream.App()
    app.on("in")(lambda ctx, record: record.value)
    result = serve(app).run(1, (b"a", value))
    failure = result[3]
    assert result[2] == 0 and failure["class"] == "Decode" and failure["retriable"] is False
    for word in words:
        assert word in failure["message"]


def test_a_handler_may_deal_with_undecodable_values_itself(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        try:
            record.value
        except millstream.DecodeError:
            ctx.emit("out", value="bad")

    result = serve(app).run(1, (b"a", b"{"))
    assert result[3] is None and result[5][0][2] == b'"bad"'


@pytest.mark.parametrize("action, words", [
    (lambda ctx, r: ctx.state("s").set("x" * 200), ["store 's'", "203 bytes", "limit is 100"]),
    (lambda ctx, r: ctx.state("s").set(object()), ["type object", "as json"]),
    (lambda ctx, r: ctx.state("s").set(float("nan")), ["as json"]),
    (lambda ctx, r: ctx.state("s").set(None), ["use delete()"]),
    (lambda ctx, r: ctx.state("s").get(key=5), ["key 5", "as str"]),
    (lambda ctx, r: ctx.emit("out", value="x" * 200), ["output 'out'", "202 bytes", "limit is 100"]),
    (lambda ctx, r: ctx.emit("out", key="k" * 60, headers={"h": b"v" * 60}), ["121 bytes"]),
    (lambda ctx, r: ctx.emit("out", value={1, 2}), ["type set", "as json"]),
    (lambda ctx, r: ctx.emit("out", key=3), ["a key of type int", "as str"]),
    (lambda ctx, r: ctx.emit("out", timestamp=-5), ["timestamp -5 is outside 0 to"]),
    (lambda ctx, r: ctx.emit("out", timestamp=1 << 60), ["is outside"]),
    (lambda ctx, r: ctx.emit("out", timestamp=1.5), ["milliseconds since 1970"]),
    (lambda ctx, r: ctx.emit("out", partition=-1), ["not a partition number"]),
    (lambda ctx, r: ctx.emit("out", headers={"h": 5}), ["header value is bytes, str or None"]),
    (lambda ctx, r: ctx.emit("out", headers=[(b"h", b"x")]), ["header name is str"]),
])
def test_limits_and_encoding_fail_their_item(serve, action, words):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.emit("out", value=1)
        if record.value:
            action(ctx, record)

    result = serve(app, max_value=100, max_bytes=100).run(1, (b"a", b"0"), (b"a", b"1"), (b"a", b"0"))
    failure = result[3]
    assert result[2] == 1 and len(result[5]) == 1
    assert failure["class"] == "Output" and failure["retriable"] is False
    for word in words:
        assert word in failure["message"]


def test_undeclared_names_list_the_declared_ones(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        if record.value == 1:
            ctx.state("totls")
        ctx.emit("owt")

    sidecar = serve(app, stores=("totals", "seen"), outputs=("out", "alerts"))
    message = sidecar.run(1, (b"a", b"1"), state={})[3]["message"]
    assert "no store 'totls' in the manifest; did you mean 'totals'? Declared stores: totals, seen." in message
    message = sidecar.run(2, (b"a", b"2"), state={})[3]["message"]
    assert "no output 'owt' in the manifest" in message and "Declared outputs: out, alerts." in message


def test_reject_record_is_not_retriable(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        raise millstream.RejectRecord("unknown currency")

    failure = serve(app).run(1, (b"a", b"1"))[3]
    assert failure["class"] == "Handler" and failure["retriable"] is False


def test_timestamps_default_to_the_records_own(serve):
    import datetime
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.emit("out")
        ctx.emit("out", timestamp=77)
        ctx.emit("out", timestamp=datetime.datetime(1970, 1, 1, 0, 0, 9, tzinfo=datetime.timezone.utc))

    result = serve(app).run(1, (b"a", b"1", {"timestamp": 5}), (b"a", b"1", {"timestamp": -5}))
    assert [row[3] for row in result[5]] == [5, 77, 9000, None, 77, 9000]


def test_a_result_that_would_not_fit_ends_early_without_failure(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.state("s").set("x" * record.value)

    sidecar = serve(app, frame=128 << 10)
    result = sidecar.run(1, *[(b"%d" % n, b"20000") for n in range(10)])
    assert result[2] == 5 and result[3] is None and len(result[4][0]) == 5
    result = sidecar.run(2, (b"a", b"20000"), (b"b", b"120000"))
    assert result[4] == {0: [[b"a", b'"' + b"x" * 20000 + b'"']]}
    assert result[2] == 1 and result[3]["class"] == "Output" and "does not fit a frame" in result[3]["message"]


def test_state_of_another_codec_says_so(serve):
    app = millstream.App()
    app.on("in")(lambda ctx, record: ctx.state("s").get())
    failure = serve(app).run(1, (b"a", b"1"), state={0: [b"\x00\x01"]})[3]
    assert failure["class"] == "Handler" and failure["error"] == "StateDecodeError"
    assert "app.store('s', value=...)" in failure["message"]


def test_codecs_per_input_store_and_output(serve):
    class Hex:
        name = "hex"

        def encode(self, value):
            return value.encode()

        def decode(self, data):
            return data.decode().upper()

    app = millstream.App(value="str")
    app.store("s", key="int", value=millstream.INT)
    app.output("out", key="bytes", value=millstream.JSON)

    @app.on("in", key="int", value=Hex())
    def handle(ctx, record):
        ctx.state("s").set(ctx.state("s").get(key=record.key, default=10) + 1, key=record.key)
        ctx.emit("out", key=b"\x01", value=[record.key, record.value])

    key = (-3).to_bytes(8, "big", signed=True)
    result = serve(app).run(1, (key, b"abc"))
    assert result[2:4] == [1, None]
    assert result[4] == {0: [[key, (11).to_bytes(8, "big")]]}
    assert result[5][0][1:3] == [b"\x01", b'[-3,"ABC"]']


def test_several_inputs(serve):
    app = millstream.App()

    @app.on("a")
    def on_a(ctx, record):
        ctx.emit("out", value="a")

    @app.on("b")
    def on_b(ctx, record):
        ctx.emit("out", value="b")

    result = serve(app, inputs=("b", "a")).run(1, (b"k", b"1", {"input": 0}), (b"k", b"1", {"input": 1}))
    assert [row[2] for row in result[5]] == [b'"b"', b'"a"']


def test_empty_batch(serve):
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    assert serve(app).run(1)[1:] == [1, 0, None, {}, []]
