"""What WELCOME declares, joined with what the program declares: the ports that handlers read from and write to.

Built once per session, read-only afterwards, shared by all batches of the session.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Callable, Dict, Final, Iterable, List, Mapping, Optional, Sequence

from .codecs import Codec
from .errors import ConfigError, ProtocolError, UndeclaredError
from .messages import DEFAULT_FRAME_CAP, HELLO_FRAME_CAP, MAX_FRAME_CAP, MAX_VERSION, MIN_VERSION, as_bytes

# The reserved name of the input and the output of a processor's own loop.
LOOP: Final = "loop"
# The capability of HELLO by which a worker says that it takes rows of visits.
VISITS: Final = "visits"
# The capability of HELLO and WELCOME by which the state is in a database of the program's.
EXTERNAL_STORE: Final = "externalStore"
# The capability of HELLO by which a program takes sessions that close.
SESSION_CLOSINGS: Final = "sessionClosings"
# Where WELCOME tells no bound.
_NO_BOUND = (1 << 63) - 1


@dataclass(frozen=True)
class Handler:
    """One registered function and the codecs of its input."""

    input: str
    function: Callable[..., Any]
    is_async: bool
    key: Codec
    value: Codec


@dataclass(frozen=True)
class PortCodecs:
    """The codecs of a store or an output, as the program declares them."""

    key: Codec
    value: Codec
    merge: Optional[Callable[[Any, Any], Any]] = None  # of sessions


@dataclass(frozen=True)
class DueHandler:
    """A registered function for timers of one name, for the closing windows of one store, or for one visit."""

    function: Callable[..., Any]
    is_async: bool
    key: Codec


class InputPort:
    __slots__ = ("id", "name", "topic", "handler", "function", "is_async", "decode_key", "decode_value", "value_codec")

    def __init__(self, id: int, name: str, topic: str, handler: Handler) -> None:
        self.id = id
        self.name = name
        self.topic = topic
        self.handler = handler
        self.function = handler.function
        self.is_async = handler.is_async
        self.decode_key = handler.key.decode
        self.decode_value = handler.value.decode
        self.value_codec = handler.value.name


class StorePort:
    """Something to read from: a store, or a join or lookup, which are read-only. One id space for all."""

    __slots__ = (
        "kind", "id", "name", "key", "value", "max_value_bytes", "prefetched", "type", "size", "final", "merge",
    )

    def __init__(
        self, kind: str, id: int, name: str, codecs: PortCodecs, max_value_bytes: int, prefetched: bool,
        type: str = "KeyValue", window: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.kind = kind
        self.type = type
        self.size = int(window["size"]) if window else 0
        self.final = bool(window and window.get("final"))
        self.merge = codecs.merge
        self.id = id
        self.name = name
        self.key = codecs.key
        self.value = codecs.value
        self.max_value_bytes = max_value_bytes
        self.prefetched = prefetched


class DuePort:
    """Where timers of one name, or closing windows of one store, go. In one list with the inputs, behind them."""

    __slots__ = ("id", "name", "function", "is_async", "key", "store")

    def __init__(self, id: int, name: str, handler: DueHandler, store: Optional[StorePort]) -> None:
        self.id = id
        self.name = name
        self.function = handler.function
        self.is_async = handler.is_async
        self.key = handler.key
        self.store = store


class VisitPort:
    """A visit of the manifest: the store it walks, and where its rows and its end go."""

    __slots__ = ("id", "name", "store", "rows", "end", "_data")

    def __init__(self, id: int, name: str, store: StorePort, rows: DuePort, end: DuePort, data: Codec) -> None:
        self.id = id
        self.name = name
        self.store = store
        self.rows = rows
        self.end = end
        self._data = data

    def decode_data(self, raw: Any) -> Any:
        return None if raw is None else self._data.decode(as_bytes(raw))


class OutputPort:
    __slots__ = ("id", "name", "topic", "key", "value", "encode_key", "encode_value", "max_bytes", "loop")

    def __init__(self, id: int, name: str, topic: str, codecs: PortCodecs, max_bytes: int) -> None:
        self.id = id
        self.name = name
        self.topic = topic
        self.key = codecs.key
        self.value = codecs.value
        self.encode_key = codecs.key.encode
        self.encode_value = codecs.value.encode
        self.max_bytes = max_bytes
        self.loop = name == LOOP


@dataclass(frozen=True)
class Limits:
    frame: int = DEFAULT_FRAME_CAP
    deadline_ms: int = 60_000
    min_timestamp: int = 0
    max_timestamp: int = _NO_BOUND


class Declarations:
    """What the program declares: handlers per input, codecs per store and output, defaults."""

    def __init__(self, key: Codec, value: Codec) -> None:
        self.defaults = PortCodecs(key, value)
        self.handlers: Dict[str, Handler] = {}
        self.stores: Dict[str, PortCodecs] = {}
        self.joins: Dict[str, PortCodecs] = {}
        self.lookups: Dict[str, PortCodecs] = {}
        self.outputs: Dict[str, PortCodecs] = {}
        self.timers: Dict[str, DueHandler] = {}
        self.closings: Dict[str, DueHandler] = {}
        self.visits: Dict[str, DueHandler] = {}
        self.visit_ends: Dict[str, DueHandler] = {}
        self.hooks: Any = None  # hooks.Hooks; None: the program has none
        self.external: Any = None  # external.SqlStore; None: the state is the sidecar's

    @property
    def any_async(self) -> bool:
        hooks = [] if self.hooks is None else [self.hooks.begin, self.hooks.finalize]
        handlers: List[Any] = [
            *self.handlers.values(), *self.timers.values(), *self.closings.values(), *self.visits.values(),
            *self.visit_ends.values(),
        ]
        return any(handler.is_async for handler in handlers) or any(inspect.iscoroutinefunction(hook) for hook in hooks)

    @property
    def capabilities(self) -> List[str]:
        named = [] if self.hooks is None else list(self.hooks.capabilities())
        if self.external is not None:
            named.append(EXTERNAL_STORE)
        if self.closings:
            named.append(SESSION_CLOSINGS)
        if self.visits:
            named.append(VISITS)
        return named


def check_program(declared: Declarations) -> None:
    """Raises ConfigError for what does not go together, whatever the manifest is."""
    if declared.external is None:
        return
    if declared.any_async:
        raise ConfigError("app.external_store: a connection serves one statement at a time; use plain handlers, not async ones")
    if declared.hooks is not None and (declared.hooks.begin is not None or declared.hooks.finalize is not None):
        raise ConfigError(
            "app.external_store: @app.begin and @app.finalize do not go with it, the database is what closes a transaction; "
            "keep in the database what they would gather"
        )


def check_external(declared: Declarations, capabilities: Sequence[str]) -> None:
    """Raises ConfigError if program and manifest do not agree on where the state is."""
    if declared.external is not None and EXTERNAL_STORE not in capabilities:
        raise ConfigError(
            "the program keeps its state in a database (app.external_store), and the manifest does not say so; add "
            "externalStore: {} under spec"
        )
    if declared.external is None and EXTERNAL_STORE in capabilities:
        raise ConfigError(
            "the manifest says that the program keeps its state in a database (externalStore), and it has none; add "
            "app.external_store(SqlStore(...))"
        )


class Schema:
    """Ids are indexes into `inputs`, `outputs` and `readable`, as in WELCOME. `readable` is `stores`, then joins, then lookups."""

    def __init__(
        self,
        processor: str,
        session: int,
        inputs: List[InputPort],
        outputs: List[OutputPort],
        stores: List[StorePort],
        tables: List[StorePort],
        limits: Limits,
        declared: Declarations,
        timers: bool = False,
        visits: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.processor = processor
        self.session = session
        self.inputs = inputs
        self.outputs = outputs
        self.stores = stores
        self.readable = stores + tables
        self.limits = limits
        self.outputs_by_name = {port.name: port for port in outputs}
        self.stores_by_name = {port.name: port for port in stores}
        self.joins_by_name = {port.name: port for port in tables if port.kind == "join"}
        self.lookups_by_name = {port.name: port for port in tables if port.kind == "lookup"}
        self.timers = timers
        self.default_key = declared.defaults.key
        self.default_value = declared.defaults.value
        self.windowed = [port for port in stores if port.type != "KeyValue"]
        self.has_sessions = any(port.type == "Session" for port in stores)
        # What items go to: inputs by their id, then what becomes due.
        self.ports: List[Any] = list(inputs)
        self.timer_ports: Dict[str, DuePort] = {}
        for name, handler in declared.timers.items():
            self._add_due(self.timer_ports, name, handler, None)
        self.closing_ports: Dict[str, DuePort] = {}
        for name, handler in declared.closings.items():
            self._add_due(self.closing_ports, name, handler, self.stores_by_name[name])
        self.visits: List[VisitPort] = []
        for entry in visits:
            self._add_visit(str(entry["name"]), stores[int(entry["store"])], declared)
        self.visits_by_name = {port.name: port for port in self.visits}

    def _add_visit(self, name: str, store: StorePort, declared: Declarations) -> None:
        ends = declared.visit_ends.get(name) or DueHandler(_no_visit_end, False, store.key)
        rows = DuePort(len(self.ports), name, declared.visits[name], store)
        end = DuePort(len(self.ports) + 1, name, ends, store)
        self.ports += [rows, end]
        self.visits.append(VisitPort(len(self.visits), name, store, rows, end, self.default_value))

    def timer_port(self, name: str) -> DuePort:
        """Where a timer goes: one that nobody handles fails."""
        port = self.timer_ports.get(name)
        return port or self._add_due(self.timer_ports, name, DueHandler(_no_timer(name), False, self.default_key), None)

    def closing_port(self, store: StorePort) -> DuePort:
        """The same for a window that closes."""
        port = self.closing_ports.get(store.name)
        handler = DueHandler(_no_closing(store.name), False, store.key)
        return port or self._add_due(self.closing_ports, store.name, handler, store)

    def _add_due(self, ports: Dict[str, DuePort], name: str, handler: DueHandler, store: Optional[StorePort]) -> DuePort:
        port = ports[name] = DuePort(len(self.ports), name, handler, store)
        self.ports.append(port)
        return port

    @classmethod
    def from_welcome(cls, welcome: Any, declared: Declarations) -> "Schema":
        """Raises ProtocolError for a WELCOME that is none, ConfigError where program and manifest do not fit."""
        if not isinstance(welcome, dict):
            raise ProtocolError("WELCOME is not a map")
        version = welcome.get("protocol")
        if not isinstance(version, int) or not MIN_VERSION <= version <= MAX_VERSION:
            raise ConfigError(
                f"the sidecar chose worker protocol {version!r}, this SDK speaks {MIN_VERSION} to {MAX_VERSION}; "
                "install a matching version of the millstream package"
            )
        try:
            return cls._from_map(welcome, declared)
        except (KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(f"WELCOME lacks a field: {type(error).__name__}: {error}") from error

    @classmethod
    def _from_map(cls, welcome: Mapping[str, Any], declared: Declarations) -> "Schema":
        refuse_unbuilt(welcome)
        given = welcome.get("limits") or {}
        # A cap below the first frames' own would make even HELLO illegal; the upper end bounds what is ever allocated.
        frame = min(max(int(given.get("frame", DEFAULT_FRAME_CAP)), HELLO_FRAME_CAP), MAX_FRAME_CAP)
        limits = Limits(
            frame=frame,
            deadline_ms=int(given.get("deadline_ms") or 60_000),
            min_timestamp=int(given.get("min_timestamp", 0)),
            max_timestamp=int(given.get("max_timestamp", _NO_BOUND)),
        )
        joins, lookups = welcome.get("joins") or [], welcome.get("lookups") or []
        check_names(declared, *([entry["name"] for entry in entries] for entries in (
            welcome["inputs"], welcome["stores"], joins, lookups, welcome["outputs"])))
        check_due(declared, welcome)
        check_visits(declared, [entry["name"] for entry in welcome.get("visits") or ()])
        check_external(declared, welcome.get("capabilities") or [])
        inputs = [
            InputPort(id, entry["name"], entry.get("topic", entry["name"]), declared.handlers[entry["name"]])
            for id, entry in enumerate(welcome["inputs"])
        ]
        outputs = [
            OutputPort(id, entry["name"], entry.get("topic", entry["name"]),
                       declared.outputs.get(entry["name"], declared.defaults), int(entry.get("max_bytes") or frame))
            for id, entry in enumerate(welcome["outputs"])
        ]
        stores = [
            StorePort("store", id, entry["name"], declared.stores.get(entry["name"], declared.defaults),
                      int(entry.get("max_value_bytes") or frame), bool(entry.get("prefetched", True)),
                      entry.get("type", "KeyValue"), entry.get("window"))
            for id, entry in enumerate(welcome["stores"])
        ]
        tables = [
            StorePort("join", len(stores) + at, entry["name"], declared.joins.get(entry["name"], declared.defaults), frame, True)
            for at, entry in enumerate(joins)
        ]
        tables += [
            StorePort("lookup", len(stores) + len(joins) + at, entry["name"],
                      declared.lookups.get(entry["name"], declared.defaults), frame, False)
            for at, entry in enumerate(lookups)
        ]
        return cls(str(welcome.get("processor", "")), int(welcome["session"]), inputs, outputs, stores, tables, limits,
                   declared, bool(welcome.get("timers")), welcome.get("visits") or ())


def refuse_unbuilt(welcome: Mapping[str, Any]) -> None:
    """Names what this version cannot do yet, instead of ignoring it."""
    for store in welcome.get("stores", ()):
        kind = store.get("type", "KeyValue")
        if kind not in ("KeyValue", "Window", "Session"):
            raise ConfigError(f"store {store.get('name')!r} has type {kind}: not supported yet by the Python SDK")


def check_names(
    declared: Declarations, inputs: Sequence[str], stores: Sequence[str], joins: Sequence[str], lookups: Sequence[str],
    outputs: Sequence[str],
) -> None:
    """Raises ConfigError if handlers and codecs of the program do not fit the names of the manifest."""
    for name in declared.handlers:
        if name not in inputs:
            raise ConfigError(
                f"the program handles input {name!r}, which the manifest does not declare; inputs: {listed(inputs)}"
            )
    missing = [name for name in inputs if name not in declared.handlers]
    if missing:
        raise ConfigError(
            f"the manifest declares input {listed(missing)}, for which the program has no handler; add\n"
            f'  @app.on("{missing[0]}")\n  def handle(ctx, record): ...\n'
            f"handlers exist for: {listed(declared.handlers)}"
        )
    for what, of_program, of_manifest in (
        ("store", declared.stores, stores), ("join", declared.joins, joins), ("lookup", declared.lookups, lookups),
        ("output", declared.outputs, outputs),
    ):
        for name in of_program:
            if name not in of_manifest:
                raise ConfigError(
                    f"app.{what}({name!r}): no such {what} in the manifest; {what}s: {listed(of_manifest)}"
                )


def check_due(declared: Declarations, welcome: Mapping[str, Any]) -> None:
    """Raises ConfigError if handlers of timers and closing windows do not fit the manifest."""
    if declared.timers and not welcome.get("timers"):
        raise ConfigError(
            f"the program handles timers ({listed(declared.timers)}), and the manifest has none; add timers: {{}} under spec"
        )
    final = [s["name"] for s in welcome["stores"] if (s.get("window") or s.get("session") or {}).get("final")]
    for name in declared.closings:
        if name not in final:
            raise ConfigError(
                f'@app.on_close("{name}"): no store of that name gives its windows or sessions when they close; set emit: Final '
                f"in its window or session. Stores that do: {listed(final)}"
            )
    for name in final:
        if name not in declared.closings:
            raise ConfigError(
                f"store {name!r} gives its windows or sessions when they close (emit: Final), and the program does not take them; add\n"
                f'  @app.on_close("{name}")\n  def closed(ctx, window): ...'
            )


def check_visits(declared: Declarations, visits: Sequence[str]) -> None:
    """Raises ConfigError if handlers of visits do not fit the manifest."""
    for what, handlers in (("on_visit", declared.visits), ("on_visit_end", declared.visit_ends)):
        for name in handlers:
            if name not in visits:
                raise ConfigError(
                    f'@app.{what}("{name}"): no such visit in the manifest; add {{name: {name}, store: ...}} to spec.visits. '
                    f"Visits: {listed(visits)}"
                )
    for name in visits:
        if name not in declared.visits:
            raise ConfigError(
                f"the manifest declares visit {name!r}, for which the program has no handler; add\n"
                f'  @app.on_visit("{name}")\n  def visit(ctx, row): ...'
            )


def _no_visit_end(ctx: Any, end: Any) -> None:
    """The program does not want to know."""


def _no_timer(name: str) -> Callable[..., Any]:
    def fail(ctx: Any, timer: Any) -> None:
        raise UndeclaredError(f'timer {name!r} is due and nobody handles it; add @app.on_timer("{name}")')

    return fail


def _no_closing(store: str) -> Callable[..., Any]:
    def fail(ctx: Any, window: Any) -> None:
        raise UndeclaredError(f'a window of store {store!r} closes and nobody handles it; add @app.on_close("{store}")')

    return fail


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def did_you_mean(name: object, names: Iterable[str]) -> Optional[str]:
    import difflib

    close = difflib.get_close_matches(str(name), list(names), n=1)
    return close[0] if close else None
