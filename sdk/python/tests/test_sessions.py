"""Trace, keep-alive, cancel, goodbye, reconnect: what happens around batches."""

import threading
import time

import millstream
from conftest import Running
from fake_sidecar import CANCEL, CLOSE, ERROR, EXTEND, GET, GOODBYE, OPEN, PING, PONG, RESULT, VALUES, records


def wait_for(condition, timeout=10.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "condition did not come true"
        time.sleep(0.002)


def test_trace_says_extend_before_each_item(serve):
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    sidecar = serve(app)
    sidecar.batch(4, *records((b"a", b"1"), (b"b", b"1"), (b"c", b"1")), trace=True)
    assert [sidecar.receive() for _ in range(4)] == [
        [EXTEND, 4, 0], [EXTEND, 4, 1], [EXTEND, 4, 2], [RESULT, 4, 3, None, {}, []],
    ]


def test_extend_is_sent_before_the_item_it_names_runs(serve):
    app = millstream.App()
    reached = threading.Event()

    @app.on("in")
    def handle(ctx, record):
        if record.value == 2:
            reached.wait(10)

    sidecar = serve(app)
    sidecar.batch(4, *records((b"a", b"1"), (b"b", b"2")), trace=True)
    assert sidecar.receive() == [EXTEND, 4, 0]
    assert sidecar.receive() == [EXTEND, 4, 1]  # while item 1 still runs
    reached.set()
    sidecar.expect(RESULT)


def test_slow_batches_are_kept_alive_while_they_make_progress(serve):
    app = millstream.App()
    go = threading.Event()

    @app.on("in")
    def handle(ctx, record):
        if record.value == "slow":
            time.sleep(0.15)
        if record.value == "hang":
            go.wait(10)

    sidecar = serve(app, deadline_ms=200)
    sidecar.batch(1, *records((b"a", b'"slow"'), (b"a", b'"slow"'), (b"a", b'"hang"')))
    told = [sidecar.expect(EXTEND)[2]]
    while told[-1] < 2:
        told.append(sidecar.expect(EXTEND)[2])
    assert told == sorted(set(told))
    sidecar.socket.settimeout(0.5)
    try:
        frame = sidecar.receive()
        raise AssertionError(f"a hanging item must not be kept alive, got {frame}")
    except TimeoutError:
        pass
    go.set()


def test_a_waiting_batch_gets_its_turn(serve):
    app = millstream.App()
    order = []

    @app.on("in")
    def handle(ctx, record):
        order.append(ctx.task)
        time.sleep(0.03)

    sidecar = serve(app, deadline_ms=400)
    sidecar.batch(1, *records(*[(b"a", b"1")] * 20), task=0)
    sidecar.batch(2, *records(*[(b"a", b"1")] * 5), task=1)
    results = []
    while len(results) < 2:
        frame = sidecar.receive()
        if frame[0] == RESULT:
            assert frame[3] is None
            results.append((frame[1], frame[2]))
    assert results[1] == (2, 5)
    assert results[0][0] == 1 and 0 < results[0][1] < 20  # ended early: the rest is sent again
    assert order == [0] * results[0][1] + [1] * 5


def test_a_batch_behind_a_slow_record_is_handed_back(serve):
    app = millstream.App()
    go, ran = threading.Event(), []

    @app.on("in")
    def handle(ctx, record):
        ran.append(ctx.task)
        if ctx.task == 0:
            go.wait(10)

    sidecar = serve(app, deadline_ms=300)
    sidecar.batch(1, *records((b"a", b"1")), task=0)
    wait_for(lambda: ran)
    sidecar.batch(2, *records((b"a", b"1")), task=1)
    assert sidecar.receive() == [RESULT, 2, 0, None, {}, []]
    sidecar.batch(3, *records((b"a", b"1")), task=1)
    go.set()
    assert sidecar.expect(RESULT)[1:4] == [1, 1, None]
    assert sidecar.expect(RESULT)[1:4] == [3, 1, None]
    assert ran == [0, 1]


def test_the_next_batch_of_a_task_may_follow_a_cancelled_one_at_once(serve):
    """Found with a full disk: the sidecar aborts, cancels and sends again while the handler still runs."""
    app = millstream.App()
    ran, go = [], threading.Event()

    @app.on("in")
    def handle(ctx, record):
        ran.append(record.value)
        if len(ran) == 1:
            go.wait(10)

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1"), (b"a", b"2")))
    wait_for(lambda: ran)
    sidecar.send(CANCEL, 1)
    sidecar.batch(2, *records((b"a", b"3")))
    sidecar.send(PING, 5)
    assert sidecar.receive() == [PONG, 5]  # so both were read
    go.set()
    results = [sidecar.expect(RESULT)[1:3] for _ in range(2)]
    assert results == [[1, 0], [2, 1]] and ran == [1, 3]


def test_cancel_ends_the_batch_between_items(serve):
    app = millstream.App()
    ran, go = [], threading.Event()

    @app.on("in")
    def handle(ctx, record):
        ran.append(record.value)
        ctx.state("s").set(1)
        go.wait(10)

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1"), (b"a", b"2")))
    wait_for(lambda: ran)
    sidecar.send(CANCEL, 1)
    sidecar.send(PING, 5)
    assert sidecar.receive() == [PONG, 5]  # so CANCEL was read
    go.set()
    assert sidecar.receive() == [RESULT, 1, 0, None, {}, []]
    assert ran == [1]
    assert sidecar.run(2, (b"a", b"3"))[1:4] == [2, 1, None]


def test_cancel_wakes_a_waiting_get(serve):
    app = millstream.App()
    swallowed = []

    @app.on("in")
    def handle(ctx, record):
        try:
            ctx.state("s").get(key="x")
        except Exception as error:
            swallowed.append(error)

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1"), (b"a", b"1")))
    rid = sidecar.expect(GET)[2]
    sidecar.send(CANCEL, 1)
    sidecar.send(VALUES, 1, rid, [], "cancelled")
    assert sidecar.receive() == [RESULT, 1, 0, None, {}, []]
    assert swallowed == []
    sidecar.send(CANCEL, 1)  # of a batch that ended: nothing to do
    sidecar.batch(2, *records((b"a", b"1")))
    sidecar.send(VALUES, 2, sidecar.expect(GET)[2], [None])
    assert sidecar.expect(RESULT)[1:4] == [2, 1, None]


def test_close_of_a_task_voids_its_batch(serve):
    app = millstream.App()
    app.on("in")(lambda ctx, record: ctx.state("s").get(key="x"))
    sidecar = serve(app)
    sidecar.send(OPEN, 3)
    sidecar.batch(1, *records((b"a", b"1")), task=3)
    sidecar.expect(GET)
    sidecar.send(CLOSE, 3)
    assert sidecar.receive() == [RESULT, 1, 0, None, {}, []]


def test_ping_is_answered_during_a_batch(serve):
    app = millstream.App()
    go = threading.Event()
    app.on("in")(lambda ctx, record: go.wait(10) and None)
    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1")))
    sidecar.send(PING, 99)
    assert sidecar.receive() == [PONG, 99]
    go.set()
    sidecar.expect(RESULT)


def test_goodbye_lets_the_batch_end_then_disconnects_and_a_stopped_worker_returns(serve):
    app = millstream.App()
    go = threading.Event()
    app.on("in")(lambda ctx, record: go.wait(10) and None)
    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1")))
    sidecar.running.worker.stop()
    sidecar.send(GOODBYE, "drained")
    go.set()
    assert sidecar.expect(RESULT)[1:4] == [1, 1, None]
    assert sidecar.receive() is None
    sidecar.running.join()
    assert sidecar.running.error is None


def test_a_stopping_worker_serves_until_goodbye(serve):
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    sidecar = serve(app, options=dict(stop_seconds=30.0))
    sidecar.running.worker.stop()
    for seq in range(1, 4):
        assert sidecar.run(seq, (b"a", b"1"))[1:4] == [seq, 1, None]
    sidecar.send(GOODBYE, "drained")
    sidecar.running.join()
    assert sidecar.running.error is None


def test_without_goodbye_a_stopping_worker_leaves_after_its_bound(serve):
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    sidecar = serve(app, options=dict(stop_seconds=0.1))
    sidecar.running.worker.stop()
    assert sidecar.expect(GOODBYE)[1] == "the worker was told to stop"
    assert sidecar.receive() is None
    sidecar.running.join()
    assert sidecar.running.error is None


def test_reconnects_and_answers_nothing_of_the_old_session(sidecar):
    app = millstream.App()
    go, ran = threading.Event(), []

    @app.on("in")
    def handle(ctx, record):
        ran.append(record.value)
        if record.value == 1:
            go.wait(10)

    running = Running(app, sidecar)
    first = sidecar.accept()
    first.handshake(session=1)
    first.batch(1, *records((b"a", b"1"), (b"a", b"11")))
    wait_for(lambda: ran)
    session = running.worker._session
    first.close()
    sidecar.stop_listening()
    wait_for(session._ended.is_set)
    go.set()
    sidecar.listen()
    second = sidecar.accept()
    second.handshake(session=2)
    assert second.run(1, (b"a", b"2"))[1:4] == [1, 1, None]
    assert ran == [1, 2]  # the rest of the old batch was not begun
    running.worker.stop()
    second.send(GOODBYE, "")
    running.join()
    assert running.error is None


def test_gives_up_when_the_sidecar_stays_away(sidecar):
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    running = Running(app, sidecar, lost_seconds=0.2)
    first = sidecar.accept()
    first.handshake()
    sidecar.stop_listening()
    first.close()
    running.join()
    assert isinstance(running.error, millstream.NoSidecarError)
    assert "did not come back within 0.2 s" in str(running.error)


def test_an_error_from_the_sidecar_is_survived(sidecar):
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    running = Running(app, sidecar)
    first = sidecar.accept()
    first.handshake()
    first.send(ERROR, "DeadlineExceeded", "batch 7 took longer than 60 s")
    second = sidecar.accept()
    second.handshake()
    assert second.run(1, (b"a", b"1"))[1:4] == [1, 1, None]
    running.worker.stop()
    second.send(GOODBYE, "")
    running.join()


def test_tasks_in_threads(serve):
    app = millstream.App()
    together = threading.Barrier(2)
    app.on("in")(lambda ctx, record: together.wait(10) and None)
    sidecar = serve(app, options=dict(threads=2))
    assert sidecar.hello["parallel"] == 3
    sidecar.batch(1, *records((b"a", b"1")), task=0)
    sidecar.batch(2, *records((b"a", b"1")), task=1)
    assert sorted(sidecar.expect(RESULT)[1] for _ in range(2)) == [1, 2]


def test_system_exit_in_a_handler_ends_the_program(serve):
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        raise SystemExit(7)

    for options in ({}, {"threads": 2}):
        sidecar = serve(app, options=options) if not options else serve(app, options)
        sidecar.batch(1, *records((b"a", b"1")))
        assert sidecar.receive() is None  # no RESULT, no GOODBYE: to the sidecar it is a crash
        sidecar.running.join()
        assert isinstance(sidecar.running.error, SystemExit) and sidecar.running.error.code == 7
