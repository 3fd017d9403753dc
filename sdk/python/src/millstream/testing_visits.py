"""The test kit's visits: what the sidecar keeps of them, and which rows come next."""

from __future__ import annotations

from typing import Any, Dict, Final, List, Optional, Sequence, Set, Tuple

from . import messages
from .visiting import PAUSE, START, STOP

# Rows per batch: fewer than a usual store has, so that tests meet several.
_PAGE: Final = 100


class _Run:
    """A visit that was started and has not ended."""

    def __init__(self, started: int, data: Optional[bytes]) -> None:
        self.started = started
        self.data = data
        self.after: Optional[bytes] = None


class KitVisits:
    """The visits of a kit's one task. `visits`: (name, store id) by visit id."""

    def __init__(self, visits: Sequence[Tuple[str, int]]) -> None:
        self._visits = visits
        self._runs: Dict[int, _Run] = {}
        self._paused: Set[int] = set()

    def apply(self, visit: int, what: int, data: Optional[bytes], time: int) -> None:
        """One op of a RESULT; `time` is that of the item that made it."""
        if what == START:
            self._runs[visit] = _Run(time, data)
        elif what == STOP:
            self._runs.pop(visit, None)
        if what == PAUSE:
            self._paused.add(visit)
        else:
            self._paused.discard(visit)

    def page(self, rows: List[Dict[bytes, bytes]]) -> List[Tuple[Optional[bytes], List[Any]]]:
        """(key, item without its key index) of the next rows of the first visit, by name, that is not paused; the key None
        is its end. Empty: there is no such visit."""
        running = sorted((self._visits[visit][0], visit) for visit in self._runs if visit not in self._paused)
        if not running:
            return []
        visit = running[0][1]
        run = self._runs[visit]
        item = [messages.ITEM_VISIT, visit, run.started, run.data]
        keys = sorted(key for key in rows[self._visits[visit][1]] if run.after is None or key > run.after)
        return [(key, item) for key in keys[:_PAGE]] or [(None, item)]

    def done(self, visit: int, key: Optional[bytes]) -> None:
        """A row was handled, or (None) the end."""
        if key is None:
            self._runs.pop(visit, None)
        else:
            self._runs[visit].after = key

    def under_way(self) -> List[str]:
        return sorted(self._visits[visit][0] for visit in self._runs)
