"""A test kit: feed records to an :class:`~millstream.App`, look at state and outputs. No sidecar needed.

::

    from millstream.testing import TestKit
    from totals import app

    def test_total():
        kit = TestKit(app, manifest="processor.yaml")
        kit.feed("orders", key="anna", value={"amount": 3})
        kit.feed("orders", key="anna", value={"amount": 4})
        assert kit.state("totals")["anna"] == 7
        assert [o.value for o in kit.outputs("customer-totals")] == [{"spent": 3}, {"spent": 7}]

The records go through the same code as in production, as frames of the worker protocol: codecs, limits, the prefix rule,
reads of own writes, windows, sessions, timers, visits. Event time is that of the records fed; timers of the wall clock follow
:meth:`TestKit.advance`. What becomes due is delivered before feed() returns, and so are all rows of a visit that is started. A
program with an external store has it committed behind every batch; give its SqlStore a function that returns one connection,
e.g. to ``sqlite3.connect(":memory:")``: a kit closes none. What it does not imitate: retries with backoff,
partitions (a kit is one task), `timestamps.maxAhead`, and the log itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import msgpack

from . import messages
from .app import App
from .async_run import AsyncRun
from .batch import Batch, NewOps, ScanPage, run_plain
from .codecs import Codec
from .context import Headers, Timestamp, encode_headers
from .errors import ConfigError, MillstreamError
from .hooks import Hooks, run_hook, run_hook_async
from .manifest import ManifestLike, Names, names_of
from .schema import EXTERNAL_STORE, LOOP, OutputPort, Schema, StorePort, check_program, listed
from .testing_time import KitTime, StoreRules, milliseconds
from .testing_visits import KitVisits
from .visiting import START

__all__ = ["FailedRecord", "Fed", "OutputRecord", "RecordFailed", "StateView", "TestKit"]

# Rounds of timers that make timers due.
_MOST_DUE = 10_000
_START = 1_700_000_000_000
_MAX_VALUE = 1 << 20
# A loop that is still not empty after so many batches is taken for an endless one.
_MAX_ROUNDS = 10_000
# Rows per page of a scan: small, so that tests meet paging.
_PAGE = 3


@dataclass(frozen=True)
class Fed:
    """A record for :meth:`TestKit.feed_batch`; the fields are those of :meth:`TestKit.feed`."""

    input: str
    value: Any = None
    key: Any = None
    headers: Optional[Headers] = None
    timestamp: Optional[Timestamp] = None


@dataclass(frozen=True)
class OutputRecord:
    """A record the program emitted, decoded by the output's codecs."""

    output: str
    key: Any
    value: Any
    headers: List[Tuple[str, Optional[bytes]]]
    timestamp: Optional[int]
    partition: Optional[int]
    raw_key: Optional[bytes] = field(repr=False)
    raw_value: Optional[bytes] = field(repr=False)


@dataclass(frozen=True)
class FailedRecord:
    """A record whose handler failed, as the sidecar would be told."""

    input: str
    offset: int
    failure_class: str
    error: str
    message: str
    retriable: bool
    exception: Optional[Exception] = field(repr=False)


class RecordFailed(MillstreamError):
    """Raised by feed() when a handler failed; the handler's own exception is its ``__cause__``, `failed` the details."""

    def __init__(self, failed: FailedRecord) -> None:
        super().__init__(f"{failed.failure_class} failure of {failed.input!r} offset {failed.offset}: {failed.message}")
        self.failed = failed


class StateView(Mapping[Any, Any]):
    """The committed state of a store, or what a join or lookup holds, as a mapping in the order of the key bytes; assignment and ``del`` prepare a test."""

    def __init__(self, port: StorePort, rows: Dict[bytes, bytes]) -> None:
        self._port = port
        self._rows = rows

    def __getitem__(self, key: Any) -> Any:
        return self._port.value.decode(self._rows[self._port.key.encode(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._rows[self._port.key.encode(key)] = self._port.value.encode(value)

    def __delitem__(self, key: Any) -> None:
        del self._rows[self._port.key.encode(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter([self._port.key.decode(raw) for raw in sorted(self._rows)])

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"StateView({self._port.name!r}, {dict(self)!r})"


class TestKit:
    """One task of a processor in memory. Not thread-safe.

    :param app: the program's App; do not call its run() at import (guard it with ``if __name__ == "__main__"``).
    :param manifest: path of the processor.yaml (needs ``millstream[testing]``), looked for in the working folder, then beside
        the test; or a parsed one. `processor` chooses one of several. Without it, give the names of `stores`, `outputs`, `joins` and `lookups`, and the store of each of `visits`; inputs are those with handlers.
    :param on_failure: ``"raise"`` (feed() raises RecordFailed; what came before in the batch is kept) or ``"skip"`` (the
        record goes to `failures`, the rest is handled).
    :param prefetch: False makes every read of state a question to the sidecar, as for values too large to travel along.
    """

    __test__ = False  # pytest: not a test class

    def __init__(
        self, app: App, manifest: Optional[ManifestLike] = None, *, processor: Optional[str] = None,
        inputs: Optional[Sequence[str]] = None, stores: Sequence[Union[str, Mapping[str, Any]]] = (),
        outputs: Sequence[str] = (), joins: Sequence[str] = (), lookups: Sequence[str] = (), timers: bool = False,
        visits: Optional[Mapping[str, str]] = None, external_store: bool = False, task: int = 0, on_failure: str = "raise",
        prefetch: bool = True,
    ) -> None:
        if on_failure not in ("raise", "skip"):
            raise ValueError('on_failure is "raise" or "skip"')
        if manifest is not None:
            names = names_of(_found(manifest, sys._getframe(1).f_globals.get("__file__")), processor)
        else:
            all_inputs = app.inputs if inputs is None else list(inputs)
            specs = {s["name"]: s for s in ({"name": s} if isinstance(s, str) else s for s in stores)}
            names = Names("test", {n: n for n in all_inputs}, {n: n for n in outputs}, list(specs),
                          {n: n for n in joins}, {n: n for n in lookups}, specs, timers=timers, visits=dict(visits or {}),
                          external_store=external_store)
        rules = {name: StoreRules(names.store_specs.get(name, {"name": name})) for name in names.stores}
        self.task = task
        self.now = _START  # the timestamp of records that are fed without one; see advance()
        self.failures: List[FailedRecord] = []
        self._schema = Schema.from_welcome(_welcome(names, prefetch, rules), app._declared)
        self._time = KitTime(rules, self._schema.stores,
                             [milliseconds(names.lateness.get(port.name)) for port in self._schema.inputs], names.late_policy)
        self._visits = KitVisits([(port.name, port.store.id) for port in self._schema.visits])
        self._codecs: Dict[str, Tuple[Codec, Codec]] = {
            port.name: (port.handler.key, port.handler.value) for port in self._schema.inputs
        }
        self._any_async = app._declared.any_async
        self._on_failure = on_failure
        self._prefetch = prefetch
        self._rows: List[Dict[bytes, bytes]] = [{} for _ in self._schema.readable]
        self._outputs: List[List[OutputRecord]] = [[] for _ in self._schema.outputs]
        self._offsets = [0] * len(self._schema.inputs)
        self._seq = 0
        check_program(app._declared)
        self._store = app._declared.external
        if self._store is not None:
            self._store._keep_open = True
            self._fence, _ = self._store.load(names.processor, task)
        self._hooks = app._declared.hooks or Hooks()
        self._gathered: Dict[Any, Any] = {}
        self._looping: List[List[Any]] = []  # sent to the loop and not handled yet, as _item gives records

    # -- in

    def feed(
        self, input: str, value: Any = None, *, key: Any = None, headers: Optional[Headers] = None,
        timestamp: Optional[Timestamp] = None,
    ) -> None:
        """One record as a batch of its own. `key` and `value` go through the input's codecs; ``bytes`` are taken as they
        are, so a test can feed what is not valid. Raises RecordFailed (see `on_failure`)."""
        self.feed_batch([Fed(input, value, key, headers, timestamp)])

    def feed_batch(self, records: Iterable[Fed]) -> None:
        """Several records as one batch, in this order: a failure keeps what came before it, as in production. What they
        emit to the loop follows as further batches until nothing comes back."""
        self._transaction([self._item(record) for record in records])
        rounds = 0
        while self._looping:
            rounds += 1
            if rounds > _MAX_ROUNDS:
                raise MillstreamError(f"records came back through the loop {_MAX_ROUNDS} times: the loop does not end")
            items, self._looping = self._looping, []
            self._transaction(items)

    def _transaction(self, items: List[List[Any]]) -> None:
        """With the program's hooks around. One that raises fails the test: production would abort and try again."""
        self._run_hook("begin")
        try:
            self._handle(items)
        finally:
            self._commit_external()
        self._run_hook("finalize")
        if self._hooks.committed is not None:
            self._hooks.committed(self.task)

    def _commit_external(self) -> None:
        """What the program's database holds of the batch, as STORE would. Nothing of the log can fail behind it in a kit."""
        if self._store is not None and not self._store.store(self._schema.processor, self.task, self._fence, b""):
            raise MillstreamError(
                "another owner has raised the fence of the checkpoint: two kits, or a kit and a running worker, have one database"
            )

    def _run_hook(self, name: str) -> None:
        if getattr(self._hooks, name) is None:
            return
        self._seq += 1
        link = _KitLink(self._rows, self._gathered)
        batch = Batch([messages.BATCH, self._seq, self.task, 0, [], [], {}, None], self._schema, link, name)
        if self._any_async:
            asyncio.run(run_hook_async(batch, self._hooks))
        else:
            run_hook(batch, self._hooks)
        if batch.error is not None:
            raise batch.error
        _, _, ops = self._take_result(link)
        self._apply(ops, {}, self.now)
        self._deliver()

    def _handle(self, items: List[List[Any]]) -> None:
        while items:
            done, failure, error = self._run(items)
            items = items[done:]
            if failure is not None:  # else all, or as many as fit one RESULT
                self._failed(self._schema.inputs[items[0][0]].name, items[0][1], failure, error)
                self._time.advance(items[0][0], items[0][2])
                items = items[1:]
            self._deliver()

    def advance(self, *, seconds: float = 0.0, milliseconds: int = 0) -> None:
        """Moves `now`, and delivers timers of the wall clock that it makes due. Event time only moves with records."""
        self.now += round(seconds * 1000) + milliseconds
        self._deliver()

    def visit(self, name: str, data: Any = None) -> None:
        """Starts a visit as a handler would (``ctx.visits.start``), at `now`; it runs to its end before this returns."""
        port = self._schema.visits_by_name.get(name)
        if port is None:
            raise KeyError(f"no visit {name!r}; visits: {listed(self._schema.visits_by_name)}")
        self._visits.apply(port.id, START, None if data is None else self._schema.default_value.encode(data), self.now)
        self._deliver()

    def _failed(self, input: str, offset: int, failure: Dict[str, Any], error: Optional[Exception]) -> None:
        failed = FailedRecord(
            input, offset, failure["class"], failure["error"], failure["message"], failure["retriable"], error,
        )
        self.failures.append(failed)
        if self._on_failure == "raise":
            raise RecordFailed(failed) from error

    def _deliver(self) -> None:
        """Timers and closings that are due, and rows of visits, until there are none. A handler may make more due."""
        for _ in range(_MOST_DUE):
            self._time.sweep(self._rows)
            due: List[Tuple[Optional[bytes], List[Any]]] = [*self._time.due(self.now, self._rows)]
            due = due or self._visits.page(self._rows)
            if not due:
                return
            done, failure, error = self._run_due(due)
            if failure is not None:
                key, item = due[done]
                self._settle(key, item)  # given up, as a record would be
                self._failed(self._name_of(item), -1, failure, error)
        raise MillstreamError(f"timers make timers due, or visits start visits, without end: {_MOST_DUE} rounds")

    def _settle(self, key: Optional[bytes], item: List[Any]) -> None:
        if item[0] == messages.ITEM_VISIT:
            self._visits.done(item[1], key)
        else:
            assert key is not None
            self._time.done(key, item)

    def _name_of(self, item: List[Any]) -> str:
        if item[0] == messages.ITEM_TIMER:
            return str(item[2])
        name: str = (self._schema.visits if item[0] == messages.ITEM_VISIT else self._schema.stores)[item[1]].name
        return name

    # -- out

    @property
    def watermark(self) -> Optional[int]:
        """Stream time: how far event time has come. None before the first record."""
        return self._time.now

    @property
    def late(self) -> int:
        """Records that were late for all their windows."""
        return self._time.late

    def timers(self) -> List[Tuple[Any, str, int]]:
        """(key, name, time) of the pending timers."""
        return [(self._schema.default_key.decode(key), name, time) for (key, _, name), time in self._time.timers.items()]

    def visits(self) -> List[str]:
        """The visits that were started and have not ended: those that are paused."""
        return self._visits.under_way()

    def windows(self, store: str) -> Dict[Tuple[Any, int, int], Any]:
        """The values of a store of windows or sessions by (key, start, end)."""
        port = self._schema.stores_by_name[store]
        return {
            (port.key.decode(key), *bounds): port.value.decode(self._rows[port.id][row]) if self._rows[port.id][row] else None
            for row, (key, bounds) in sorted(self._time._bounds[port.id].items()) if row in self._rows[port.id]
        }

    def state(self, store: str) -> StateView:
        """The committed state of a store; of windows and sessions see :meth:`windows`."""
        return self._view("store", store, self._schema.stores_by_name)

    def join(self, name: str) -> StateView:
        """What a join holds: assign to it what its topic would have said."""
        return self._view("join", name, self._schema.joins_by_name)

    def lookup(self, name: str) -> StateView:
        """What a lookup holds: assign to it what its topic would have said."""
        return self._view("lookup", name, self._schema.lookups_by_name)

    def outputs(self, output: str) -> List[OutputRecord]:
        """What was emitted to an output so far, in order."""
        return list(self._outputs[self._output(output).id])

    def take(self, output: str) -> List[OutputRecord]:
        """As outputs(), and forgets them, so that the next call shows only newer ones."""
        kept = self._outputs[self._output(output).id]
        taken = list(kept)
        kept.clear()
        return taken

    def _view(self, kind: str, name: str, ports: Mapping[str, StorePort]) -> StateView:
        port = ports.get(name)
        if port is None:
            raise KeyError(f"no {kind} {name!r}; {kind}s: {listed(ports)}")
        return StateView(port, self._rows[port.id])

    def _output(self, name: str) -> OutputPort:
        port = self._schema.outputs_by_name.get(name)
        if port is None:
            raise KeyError(f"no output {name!r}; outputs: {listed(self._schema.outputs_by_name)}")
        return port

    # -- the sidecar's part

    def _item(self, record: Fed) -> List[Any]:
        """[input, offset, timestamp, key, value, headers], encoded."""
        if record.input not in self._codecs:
            raise ConfigError(f"no input {record.input!r}; inputs: {listed(self._codecs)}")
        port = next(port for port in self._schema.inputs if port.name == record.input)
        key_codec, value_codec = self._codecs[record.input]
        timestamp = self.now if record.timestamp is None else _milliseconds(record.timestamp)
        offset = self._offsets[port.id]
        self._offsets[port.id] += 1
        headers = None
        if record.headers is not None:
            headers = encode_headers(f"input {record.input!r}", record.headers)
        return [port.id, offset, timestamp, _encoded(key_codec, record.key), _encoded(value_codec, record.value), headers]

    def _run(self, items: List[List[Any]]) -> Tuple[int, Optional[Dict[str, Any]], Optional[Exception]]:
        """How many of the records are done; late ones are done without a call."""
        if self._time.forgets:
            items = items[:1]  # each sees what is hidden by its own time; the sidecar ends a batch where that changes
        keys = list(dict.fromkeys(item[3] for item in items if item[3] is not None))
        places = {key: place for place, key in enumerate(keys)}
        sessions: List[Dict[bytes, List[Any]]] = [{} for _ in self._rows]
        sent: List[int] = []
        rows, windows = [], []
        # What-if: only what is done moves the kit's own time.
        before = (self._time.now, list(self._time._highest), self._time.late)
        for place, (input, offset, timestamp, key, value, headers) in enumerate(items):
            self._time.advance(input, timestamp)
            of_item = self._time.open_windows(sessions, key, timestamp)
            if of_item is None:
                continue
            sent.append(place)
            windows.append(of_item)
            row = [messages.ITEM_RECORD, input, offset, timestamp, places.get(key), value, headers, 1]
            rows.append([*row, of_item] if of_item else row)
        at, late = self._time.now, self._time.late
        self._time.now, self._time._highest, self._time.late = before
        failure = error = None
        done = 0
        if rows:
            done, failure, error, ops = self._send(keys, rows, before[0], at)
        finished = len(items) if done == len(rows) else sent[done]
        for input, _, timestamp, *_ in items[:finished]:
            self._time.advance(input, timestamp)
        self._time.late = late if finished == len(items) else before[2] + finished - done
        if rows:
            self._apply(ops, {item[3]: item[2] for item in items[:finished]}, items[finished - 1][2] if finished else 0)
            for place, of_item in zip(sent[:done], windows):
                if of_item and items[place][3] is not None:
                    self._time.merge(of_item, items[place][3], self._rows)
        return finished, failure, error

    def _run_due(
        self, due: List[Tuple[Optional[bytes], List[Any]]]
    ) -> Tuple[int, Optional[Dict[str, Any]], Optional[Exception]]:
        keys = list(dict.fromkeys(key for key, _ in due if key is not None))
        rows = []
        for key, item in due:
            place = None if key is None else keys.index(key)
            if item[0] == messages.ITEM_VISIT:
                rows.append([messages.ITEM_VISIT, item[1], place, item[2], item[3], 1])
            elif item[0] == messages.ITEM_TIMER:
                rows.append([messages.ITEM_TIMER, place, item[1], item[2], item[3], 1])
            else:
                rows.append([messages.ITEM_CLOSING, item[1], place, item[2], item[3], item[4], 1])
        done, failure, error, ops = self._send(keys, rows, self._time.now, self._time.now, [(k, i) for k, i in due])
        self._apply(ops, {}, self._time.now if self._time.now is not None else self.now)
        return done, failure, error

    def _send(
        self, keys: List[bytes], rows: List[Any], watermark: Optional[int], at: Optional[int],
        due: Sequence[Tuple[Optional[bytes], List[Any]]] = (),
    ) -> Tuple[int, Optional[Dict[str, Any]], Optional[Exception], Dict[int, Any]]:
        self._seq += 1
        visible = [
            {key: value for key, value in stored.items() if not self._time.expired(id, key, at)}
            for id, stored in enumerate(self._rows)
        ]
        state: Dict[int, Any] = {}
        for read in self._schema.readable:
            windowed = self._time.state(read.id, keys, visible[read.id])
            if windowed is not None:
                state[read.id] = windowed
            elif self._prefetch and read.kind != "lookup":
                state[read.id] = [visible[read.id].get(key) for key in keys]
        frame = [messages.BATCH, self._seq, self.task, 0, keys, rows, state, watermark]
        link = _KitLink(visible, self._gathered)
        batch = Batch(messages.decode(msgpack.packb(frame)), self._schema, link)
        if self._store is not None:
            batch.sql = self._store.transaction(self.task)
        if self._any_async:
            asyncio.run(AsyncRun(batch, concurrency=64).run())
        else:
            run_plain(batch)
        done, failure, ops = self._take_result(link, due, [item[3] for item in batch.items])
        return done, failure, batch.error, ops

    def _take_result(
        self, link: "_KitLink", due: Sequence[Tuple[Optional[bytes], List[Any]]] = (), times: Sequence[int] = (),
    ) -> Tuple[int, Optional[Dict[str, Any]], Dict[int, Any]]:
        assert link.told is not None
        told = msgpack.unpackb(msgpack.packb(link.told), raw=False, strict_map_key=False)
        _, _, done, failure, ops, outputs = told[:6]
        for key, item in due[:done]:
            self._settle(key, item)
        for visit, what, data, *_ in told[7] if len(told) > 7 else ():
            self._visits.apply(visit, what, data, times[done - 1])
        for key, clock, name, time in told[6] if len(told) > 6 else ():
            if time is None:
                self._time.timers.pop((key, clock, name), None)
            else:
                self._time.timers[(key, clock, name)] = time
        for output in outputs:
            self._collect(*output)
        return done, failure, ops

    def _apply(self, ops: Dict[int, Any], times: Dict[Optional[bytes], int], otherwise: int) -> None:
        for id, writes in ops.items():
            for key, value in writes:
                if value is None:
                    self._rows[id].pop(key, None)
                else:
                    self._rows[id][key] = value
                    self._time.wrote(id, key, times.get(key, otherwise))

    def _collect(
        self, id: int, key: Optional[bytes], value: Optional[bytes], timestamp: Optional[int] = None,
        headers: Any = None, partition: Optional[int] = None,
    ) -> None:
        port = self._schema.outputs[id]
        if port.loop:
            back = next(input for input in self._schema.inputs if input.name == LOOP)
            at = self.now if timestamp is None else timestamp
            self._looping.append([back.id, self._offsets[back.id], at, key, value, headers])
            self._offsets[back.id] += 1
        self._outputs[id].append(OutputRecord(
            port.name, None if key is None else port.key.decode(key), None if value is None else port.value.decode(value),
            [(name if isinstance(name, str) else name.decode("utf-8", "surrogateescape"), data) for name, data in headers or ()], timestamp, partition, key, value,
        ))


class _KitLink:
    """The Link of a kit's batches: answers from committed state and the batch's own writes."""

    def __init__(self, rows: List[Dict[bytes, bytes]], gathered: Dict[Any, Any]) -> None:
        self._rows = rows
        self._gathered = gathered
        self._scratch: List[Dict[bytes, Optional[bytes]]] = [{} for _ in rows]
        self.told: Optional[List[Any]] = None

    def get(self, batch: Batch, store: int, keys: List[bytes]) -> List[Any]:
        return [self._rows[store].get(key) for key in keys]

    async def get_async(self, batch: Batch, store: int, keys: List[bytes]) -> List[Any]:
        await asyncio.sleep(0)
        return self.get(batch, store, keys)

    def scan(
        self, batch: Batch, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes], new_ops: NewOps,
    ) -> ScanPage:
        for id, ops in (new_ops or {}).items():
            for key, value, _ in ops:
                self._scratch[id][key] = value
        merged: Dict[bytes, Optional[bytes]] = {**self._rows[store], **self._scratch[store]}
        found = sorted(
            (
                (key, value) for key, value in merged.items()
                if value is not None and (first is None or key >= first) and (last is None or key < last)
                and (cursor is None or (key < cursor if reverse else key > cursor))
            ),
            reverse=reverse,
        )
        page = found[: min(limit, _PAGE) if limit else _PAGE]
        return [list(row) for row in page], page[-1][0] if len(found) > len(page) else None

    async def scan_async(
        self, batch: Batch, store: int, first: Optional[bytes], last: Optional[bytes], limit: int, reverse: bool,
        cursor: Optional[bytes], new_ops: NewOps,
    ) -> ScanPage:
        await asyncio.sleep(0)
        return self.scan(batch, store, first, last, limit, reverse, cursor, new_ops)

    def gathered(self, task: int) -> Dict[Any, Any]:
        return self._gathered

    def extend(self, batch: Batch, done: int) -> None:
        """Nobody waits in a kit."""

    def result(self, batch: Batch, message: List[Any]) -> None:
        self.told = message


def _welcome(names: Names, prefetch: bool, rules: Mapping[str, StoreRules]) -> Dict[str, Any]:
    return {
        "protocol": messages.MAX_VERSION, "session": 1, "processor": names.processor,
        "inputs": [{"name": name, "topic": topic} for name, topic in names.inputs.items()],
        "outputs": [{"name": name, "topic": topic, "max_bytes": _MAX_VALUE} for name, topic in names.outputs.items()],
        "stores": [
            {"name": name, "type": rules[name].type, "prefetched": prefetch, "max_value_bytes": _MAX_VALUE,
             **rules[name].welcome()}
            for name in names.stores
        ],
        "timers": names.timers,
        "visits": [{"name": name, "store": names.stores.index(store)} for name, store in names.visits.items()],
        "joins": [{"name": name, "topic": topic} for name, topic in names.joins.items()],
        "lookups": [{"name": name, "topic": topic} for name, topic in names.lookups.items()],
        "capabilities": [EXTERNAL_STORE] if names.external_store else [],
        "limits": {
            "frame": messages.DEFAULT_FRAME_CAP, "deadline_ms": 60_000, "min_timestamp": 0,
            "max_timestamp": 253_402_300_799_999,
        },
    }


def _found(manifest: ManifestLike, test_file: Optional[str]) -> ManifestLike:
    """A relative path also means one beside the test's file, wherever pytest was started."""
    if isinstance(manifest, Mapping):
        return manifest
    beside = os.path.join(os.path.dirname(os.path.abspath(test_file or "")), manifest)
    for path in (manifest, beside):
        if os.path.exists(path):
            return path
    raise ConfigError(f"no manifest {os.fspath(manifest)!r} in {os.getcwd()} or beside the test ({beside})")


def _encoded(codec: Codec, value: Any) -> Optional[bytes]:
    if value is None or isinstance(value, bytes):
        return value
    return codec.encode(value)


def _milliseconds(timestamp: Timestamp) -> int:
    return timestamp if isinstance(timestamp, int) else round(timestamp.timestamp() * 1000)
