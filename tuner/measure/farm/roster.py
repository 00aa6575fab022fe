"""The roster: which devices there are, how they stand, and who holds them.

The contract that ``db`` implements over SQL and :mod:`tuner.measure.farm.memory_roster` in memory.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tuner.errors import UserError
from tuner.measure.farm import states
from tuner.measure.farm.states import (
    Checked,
    DeviceEvent,
    DeviceRecord,
    DeviceState,
    Enrolment,
    Lease,
    Purpose,
    Tally,
)

LEASE_S = 30.0
"""A lease that is not renewed for so long has ended: its holder is gone."""

Clock = Callable[[], float]
Step = Callable[[DeviceRecord], DeviceRecord]

_WORK = frozenset(
    {(DeviceState.READY, DeviceState.LEASED), (DeviceState.LEASED, DeviceState.READY)}
)


class Roster(ABC):
    """Devices and their leases, shared by every process on the same store.

    Methods may be called from several threads; each is one transaction. At most one lease on a
    device is valid at any time. All raise ``StoreError`` if the store cannot be used, and
    ``UserError`` for a device that is not known. Implementations keep records and events; what
    may become of a record is in :mod:`tuner.measure.farm.states`.
    """

    def __init__(self, clock: Clock = time.time) -> None:
        self.clock = clock

    @abstractmethod
    def devices(self) -> list[DeviceRecord]:
        """All devices, by name. A lease that ran out is not shown."""

    @abstractmethod
    def events(self, name: str, limit: int = 50, before: int | None = None) -> list[DeviceEvent]:
        """The newest changes of state of a device, newest first; with ``before``, those with
        smaller numbers."""

    @abstractmethod
    def _add(self, record: DeviceRecord) -> bool:
        """Keeps a record with the event that it came; false if there is one of that name."""

    @abstractmethod
    def _change(self, name: str, step: Step) -> DeviceRecord:
        """Replaces a record by what ``step`` makes of it, with its event, in one transaction that
        no other change comes between. What ``step`` raises changes nothing."""

    def device(self, name: str) -> DeviceRecord:
        """The device called ``name``."""
        for record in self.devices():
            if record.name == name:
                return record
        raise unknown_device(name, [record.name for record in self.devices()])

    def enrol(self, enrolment: Enrolment) -> DeviceRecord:
        """Makes a device known, or its description what the farm file says now."""
        fresh = states.enrolled(enrolment, self.clock())
        if self._add(fresh):
            return fresh
        return self._change(enrolment.name, lambda record: states.described(record, enrolment))

    def lease(
        self,
        name: str,
        holder: str,
        purpose: Purpose = Purpose.WORK,
        duration_s: float = LEASE_S,
    ) -> Lease | None:
        """Takes the device for ``holder``; ``None`` if it is not to be had now.

        For work it must be ready; for a check it may also be suspect or offline.
        """
        got: list[Lease | None] = []

        def step(record: DeviceRecord) -> DeviceRecord:
            now = self.clock()
            leased = states.taken(record, purpose, holder, duration_s, now)
            got.append(None if leased is None else leased.lease)
            return states.lapsed(record, now) if leased is None else leased

        self._change(name, step)
        return got[-1]

    def renew(
        self, lease: Lease, tally: Tally | None = None, duration_s: float = LEASE_S
    ) -> DeviceRecord:
        """Extends a lease and counts what happened under it.

        ``LeaseLostError`` if it ran out or was taken away. One that is drained meanwhile may be
        renewed, to finish what runs; the record tells.
        """
        return self._change(
            lease.device,
            lambda record: states.renewed(
                record, lease, tally or Tally(), duration_s, self.clock()
            ),
        )

    def settle(
        self,
        lease: Lease,
        state: DeviceState,
        reason: str = "",
        *,
        tally: Tally | None = None,
        checked: Checked | None = None,
    ) -> DeviceRecord:
        """Gives a device back in ``state``: ready, suspect, offline or quarantined.

        ``LeaseLostError`` if the lease is no longer the holder's: then nothing changes.
        """
        return self._change(
            lease.device,
            lambda record: states.settled(
                record, lease, state, reason, self.clock(), tally, checked
            ),
        )

    def free_left_behind(self, holder: str) -> None:
        """Ends the leases of ``holder``, whose caller knows that it holds none: what worked under
        its name before was killed. Their devices need not be waited for, only checked."""
        for record in self.devices():
            if record.lease is not None and record.lease.holder == holder:
                self._change(
                    record.name, lambda found: states.left_behind(found, holder, self.clock())
                )

    def drain(self, name: str, reason: str) -> DeviceRecord:
        """Takes a device out once its work is done. ``UserError`` if it is quarantined."""
        return self._change(name, lambda record: states.drained(record, reason, self.clock()))

    def quarantine(self, name: str, reason: str) -> DeviceRecord:
        """Takes a device out at once; a lease on it ends, and its results will not count."""
        return self._change(name, lambda record: states.quarantined(record, reason, self.clock()))

    def release(self, name: str, reason: str) -> DeviceRecord:
        """Lets a drained or quarantined device come back, after a check. ``UserError`` else."""
        return self._change(name, lambda record: states.released(record, reason, self.clock()))


def is_told(before: DeviceRecord | None, after: DeviceRecord) -> bool:
    """Whether this is an event: another state, or another reason to be out of work. Leases of
    healthy devices are only counted."""
    if before is None:
        return True
    if before.state is not after.state:
        return (before.state, after.state) not in _WORK
    working = after.state in (DeviceState.READY, DeviceState.LEASED)
    return not working and before.reason != after.reason


def unknown_device(name: str, known: Sequence[str]) -> UserError:
    """What a wrong name of a device gives."""
    return UserError(
        f"no device '{name[:100]}'",
        accepted=", ".join(known[:20]),
        next_step="`hvxtune farm list` shows them"
        if known
        else "name devices in a farm file; docs/devices.md shows how",
    )
