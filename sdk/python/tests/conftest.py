"""Fixtures: a fake sidecar, and an App that serves it on a thread of the test process."""

from __future__ import annotations

import threading
from typing import Any, Iterator

import pytest

import millstream
from fake_sidecar import TIMEOUT, Connection, FakeSidecar
from millstream.worker import Worker


class Running:
    """An app served by one worker on a thread; `error` is what it ended with."""

    def __init__(self, app: millstream.App, sidecar: FakeSidecar, **options: Any) -> None:
        self.error: BaseException | None = None
        any_async = app._declared.any_async
        threads = options.pop("parallel", 4 if any_async else 1)
        arguments = dict(
            path=sidecar.path, name="test", threads=threads, ahead=0 if any_async else 1, concurrency=64,
            start_seconds=5.0, lost_seconds=5.0, stop_seconds=2.0,
        )
        arguments.update(options)
        self.worker = Worker(app._declared, **arguments)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def join(self, timeout: float = TIMEOUT) -> None:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the worker did not end"


@pytest.fixture
def sidecar() -> Iterator[FakeSidecar]:
    fake = FakeSidecar()
    yield fake
    fake.close()


@pytest.fixture
def serve(sidecar: FakeSidecar) -> Iterator[Any]:
    """serve(app, **welcome fields) -> a connection after the handshake; `.hello` is the HELLO's map."""
    running = []

    def start(app: millstream.App, options: dict | None = None, **fields: Any) -> Connection:
        running.append(Running(app, sidecar, **(options or {})))
        connection = sidecar.accept()
        connection.hello = connection.handshake(**fields)  # type: ignore[attr-defined]
        connection.running = running[-1]  # type: ignore[attr-defined]
        return connection

    yield start
    for one in running:
        one.worker.stop()
    sidecar.close()
    for one in running:
        one.join()
