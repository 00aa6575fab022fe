"""The roster that keeps everything in this process."""

from __future__ import annotations

import threading
import time

from tuner.measure.farm import states
from tuner.measure.farm.roster import Clock, Roster, Step, is_told, unknown_device
from tuner.measure.farm.states import DeviceEvent, DeviceRecord


class MemoryRoster(Roster):
    """For scripts, tests, and commands without a database. Obeys the whole contract."""

    def __init__(self, clock: Clock = time.time) -> None:
        super().__init__(clock)
        self._lock = threading.Lock()
        self._records: dict[str, DeviceRecord] = {}
        self._events: list[DeviceEvent] = []

    def devices(self) -> list[DeviceRecord]:
        now = self.clock()
        with self._lock:
            return [states.lapsed(self._records[name], now) for name in sorted(self._records)]

    def events(self, name: str, limit: int = 50, before: int | None = None) -> list[DeviceEvent]:
        with self._lock:
            if name not in self._records:
                raise unknown_device(name, sorted(self._records))
            found = [
                event
                for event in reversed(self._events)
                if event.device == name and (before is None or event.number < before)
            ]
        return found[:limit]

    def _add(self, record: DeviceRecord) -> bool:
        with self._lock:
            if record.name in self._records:
                return False
            self._keep(None, record)
            return True

    def _change(self, name: str, step: Step) -> DeviceRecord:
        with self._lock:
            if name not in self._records:
                raise unknown_device(name, sorted(self._records))
            before = self._records[name]
            after = step(before)
            self._keep(before, after)
            return after

    def _keep(self, before: DeviceRecord | None, record: DeviceRecord) -> None:
        self._records[record.name] = record
        if is_told(before, record):
            event = DeviceEvent(
                number=len(self._events) + 1,
                device=record.name,
                at=self.clock(),
                before=None if before is None else before.state,
                after=record.state,
                reason=record.reason,
            )
            self._events.append(event)
