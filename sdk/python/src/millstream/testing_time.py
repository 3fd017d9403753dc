"""The test kit's event time: what the sidecar does for windows, sessions, timers and `ttl`, on a virtual clock."""

from __future__ import annotations

import re
from typing import Any, Dict, Final, List, Mapping, Optional, Tuple

from . import messages
from .errors import ConfigError
from .schema import StorePort
from .timing import EVENT_TIME, row_of

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h)")

Bounds = Tuple[int, int]


def milliseconds(duration: Any, otherwise: int = 0) -> int:
    """A duration of a manifest, such as ``1m30s``."""
    if duration is None:
        return otherwise
    parts = _DURATION.findall(str(duration))
    if not parts or "".join(number + unit for number, unit in parts) != str(duration):
        raise ConfigError(f"{duration!r} is no duration; write 500ms, 30s, 5m or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


class StoreRules:
    """A store of the manifest, as far as time is concerned."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.name = str(spec["name"])
        self.type = str(spec.get("type") or "KeyValue")
        self.ttl = milliseconds(spec["ttl"]) if spec.get("ttl") else None
        window = spec.get("window") or {}
        self.size = milliseconds(window.get("size"))
        self.advance = milliseconds(window.get("advance"), self.size)
        session = spec.get("session") or {}
        self.final = "Final" in (window.get("emit"), session.get("emit"))
        self.gap = milliseconds(session.get("gap"))
        length, block = (self.gap, session) if self.type == "Session" else (self.size, window)
        self.grace = milliseconds(block.get("grace"))
        self.retention = milliseconds(block.get("retention"), length + self.grace)
        if self.type == "Window" and not 0 < self.advance <= self.size:
            raise ConfigError(f"store {self.name!r}: a window needs a size above 0 and an advance of at most that")
        if self.type == "Session" and self.gap <= 0:
            raise ConfigError(f"store {self.name!r}: a session needs a gap above 0")

    def welcome(self) -> Dict[str, Any]:
        if self.type == "Window":
            return {"window": {"size": self.size, "advance": self.advance, "grace": self.grace,
                               "retention": self.retention, "final": self.final}}
        if self.type == "Session":
            return {"session": {"gap": self.gap, "grace": self.grace, "retention": self.retention,
                                **({"final": True} if self.final else {})}}
        return {}

    def closes(self, bounds: Bounds) -> int:
        """The stream time from which on it takes no record."""
        return bounds[1] + self.grace + (self.gap + 1 if self.type == "Session" else 0)

    def expires(self, bounds: Bounds) -> int:
        return bounds[1] + self.retention + 1 if self.type == "Session" else bounds[0] + self.retention

    def windows(self, time: int) -> List[Bounds]:
        first = (time - self.size) // self.advance * self.advance + self.advance
        return [(start, start + self.size) for start in range(first, time + 1, self.advance)]


class KitTime:
    """Stream time of a kit's one task, and what depends on it."""

    def __init__(self, rules: Mapping[str, StoreRules], stores: List[StorePort], lateness: List[int], policy: str) -> None:
        self.now: Optional[int] = None  # stream time
        self.timers: Dict[Tuple[bytes, int, str], int] = {}
        self.late = 0  # records behind the grace of all their windows
        self._rules = [rules[port.name] for port in stores]
        self._stores = stores
        self._highest: List[Optional[int]] = [None] * len(lateness)
        self._lateness = lateness
        self._policy = policy
        self._bounds: List[Dict[bytes, Tuple[bytes, Bounds]]] = [{} for _ in stores]  # per row: key, bounds
        self._closed: List[Dict[bytes, bool]] = [{} for _ in stores]
        self._written: List[Dict[bytes, int]] = [{} for _ in stores]  # record time of the last write

    @property
    def windowed(self) -> bool:
        return any(rule.type != "KeyValue" for rule in self._rules)

    def advance(self, input: int, timestamp: int) -> None:
        highest = self._highest[input]
        self._highest[input] = timestamp if highest is None else max(highest, timestamp)
        known = [high - late for high, late in zip(self._highest, self._lateness) if high is not None]
        # An input that was never fed is taken as idle.
        self.now = min(known) if self.now is None else max(self.now, min(known))

    def open_windows(self, sessions: List[Dict[bytes, List[Bounds]]], key: Optional[bytes], timestamp: int) -> Optional[List[Any]]:
        """The `windows` of an item, after advance(); None if the record is late for every windowed store and dropped."""
        if key is None or not self.windowed:
            return []
        found: List[Any] = []
        assert self.now is not None
        for id, rule in enumerate(self._rules):
            if rule.type == "Window":
                found += [[id, *bounds] for bounds in rule.windows(timestamp) if rule.closes(bounds) > self.now]
            elif rule.type == "Session":
                known = sessions[id].setdefault(key, sorted(
                    bounds for of, bounds in self._bounds[id].values() if of == key))
                known[:] = [bounds for bounds in known if rule.expires(bounds) > self.now]
                merged = [b for b in known if b[0] <= timestamp + rule.gap and b[1] >= timestamp - rule.gap]
                bounds = (min([timestamp, *(b[0] for b in merged)]), max([timestamp, *(b[1] for b in merged)]))
                # One that was given stays as it is.
                over = rule.final and any(rule.closes(b) <= self.now for b in merged)
                if over or rule.closes(bounds) <= self.now:
                    continue
                known[:] = sorted([b for b in known if b not in merged] + [bounds])
                found.append([id, *bounds, [list(b) for b in merged]])
        if found:
            return found
        self.late += 1
        return [] if self._policy == "Process" else None

    def state(self, id: int, keys: List[bytes], rows: Dict[bytes, bytes]) -> Optional[List[Any]]:
        """The rows of a windowed store per key of a batch; None for a store of other type."""
        if id >= len(self._rules) or self._rules[id].type == "KeyValue":  # a join or lookup has no rules
            return None
        return [
            [[*bounds, rows[row]] for row, (of, bounds) in self._bounds[id].items() if of == key and row in rows]
            for key in keys
        ]

    @property
    def forgets(self) -> bool:
        return any(rule.ttl is not None for rule in self._rules)

    def expired(self, id: int, key: bytes, at: Optional[int]) -> bool:
        """Whether a key of a store with `ttl` is hidden at that stream time."""
        if id >= len(self._rules):
            return False
        ttl = self._rules[id].ttl
        written = self._written[id].get(key)
        return ttl is not None and written is not None and at is not None and written + ttl <= at

    def wrote(self, id: int, row: bytes, timestamp: int) -> None:
        rule = self._rules[id]
        self._written[id][row] = timestamp
        if rule.type == "Window":
            start = int.from_bytes(row[-8:], "big", signed=True)
            self._bounds[id][row] = (row[:-8], (start, start + rule.size))
        elif rule.type == "Session":
            start, end = (int.from_bytes(row[at:at + 8], "big") - (1 << 63) for at in (len(row) - 16, len(row) - 8))
            self._bounds[id][row] = (row[:-16], (start, end))

    def merge(self, windows: List[Any], key: bytes, rows: List[Dict[bytes, bytes]]) -> None:
        """An item with sessions is done: what was merged goes, what is left has at least an empty value."""
        for id, start, end, *more in windows:
            if not more:
                continue
            port = self._stores[id]
            row = row_of(port, key, start, end)
            for part in more[0]:
                gone = row_of(port, key, *part)
                if gone != row:
                    rows[id].pop(gone, None)
                    self._bounds[id].pop(gone, None)
            if row not in rows[id]:
                rows[id][row] = b""
            self._bounds[id][row] = (key, (start, end))

    def due(self, wall: int, rows: List[Dict[bytes, bytes]]) -> List[Tuple[bytes, List[Any]]]:
        """(key, item without its key index) of all that is due, the earliest first."""
        found: List[Tuple[int, bytes, List[Any]]] = []
        for (key, clock, name), time in self.timers.items():
            now = self.now if clock == EVENT_TIME else wall
            if now is not None and time <= now:
                found.append((time, key, [messages.ITEM_TIMER, clock, name, time]))
        for id, rule in enumerate(self._rules):
            for row, (key, bounds) in self._bounds[id].items():
                if rule.final and self.now is not None and rule.closes(bounds) <= self.now and row not in self._closed[id]:
                    if row in rows[id]:
                        found.append((rule.closes(bounds), key, [messages.ITEM_CLOSING, id, *bounds, rows[id][row]]))
        return [(key, item) for _, key, item in sorted(found, key=lambda entry: entry[0])]

    def done(self, key: bytes, item: List[Any]) -> None:
        """Something that was due was handled."""
        if item[0] == messages.ITEM_TIMER:
            self.timers.pop((key, item[1], item[2]), None)
        else:
            self._closed[item[1]][row_of(self._stores[item[1]], key, item[2], item[3])] = True

    def sweep(self, rows: List[Dict[bytes, bytes]]) -> None:
        """Deletes what has outlived its retention or `ttl`."""
        if self.now is None:
            return
        for id, rule in enumerate(self._rules):
            for row, (_, bounds) in list(self._bounds[id].items()):
                if rule.expires(bounds) <= self.now and (not rule.final or row in self._closed[id] or row not in rows[id]):
                    rows[id].pop(row, None)
                    del self._bounds[id][row]
                    self._closed[id].pop(row, None)
            for key in [key for key in rows[id] if self.expired(id, key, self.now)]:
                del rows[id][key]
