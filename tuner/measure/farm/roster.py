"""The roster: the devices of a farm, their states, and the holder of each.

First records and the pure steps between them, then the contract that ``db`` implements over SQL
and :class:`MemoryRoster` in memory. States follow each other so:

ready -> leased -> ready          work, a lease at a time
any but quarantined, drained -> suspect | offline | quarantined     faults and failed checks
suspect | offline -> ready        a passed check
any -> quarantined                an operator, or too many faults
any but quarantined -> drained    an operator
quarantined | drained -> suspect  released by an operator: a check comes first
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from tuner.errors import DeviceError, InternalError, NotStoredError, UserError
from tuner.records.candidate import Fidelity

RECENT_RUNS = 20
"""How many of a device's latest runs are remembered one by one."""
MINUTES_KEPT = 15
"""Minutes of work that are remembered one by one, for rates."""
FAIR, FAULT = ".", "x"


class DeviceState(StrEnum):
    """The state of a device. Only a ``ready`` one is given work."""

    READY = "ready"
    LEASED = "leased"
    """Somebody works with it now."""
    SUSPECT = "suspect"
    """New, released, or something went wrong: it must pass a check before it is trusted again."""
    QUARANTINED = "quarantined"
    """Not to be trusted until a person releases it."""
    OFFLINE = "offline"
    """Does not answer; it is asked again with growing delays."""
    DRAINED = "drained"
    """Taken out by a person; what it works on is finished first."""


_S = DeviceState
LEGAL: Mapping[DeviceState, frozenset[DeviceState]] = {
    _S.READY: frozenset({_S.LEASED, _S.SUSPECT, _S.OFFLINE, _S.QUARANTINED, _S.DRAINED}),
    _S.LEASED: frozenset({_S.READY, _S.SUSPECT, _S.OFFLINE, _S.QUARANTINED, _S.DRAINED}),
    _S.SUSPECT: frozenset({_S.READY, _S.OFFLINE, _S.QUARANTINED, _S.DRAINED}),
    _S.OFFLINE: frozenset({_S.READY, _S.SUSPECT, _S.QUARANTINED, _S.DRAINED}),
    _S.QUARANTINED: frozenset({_S.SUSPECT}),
    _S.DRAINED: frozenset({_S.SUSPECT, _S.QUARANTINED}),
}
"""Which state may follow which."""


class Purpose(StrEnum):
    """The purpose of a lease."""

    WORK = "work"
    CHECK = "check"


class LeaseLostError(DeviceError):
    """The lease ran out, or was taken away: what was measured under it does not count."""


@dataclass(frozen=True)
class Lease:
    """The right to drive a device until ``expires_at`` (Unix seconds), if not renewed.

    ``token`` rises with every lease of the device, so that a holder who lost it is recognized.
    """

    device: str
    token: int
    holder: str
    purpose: Purpose
    expires_at: float


@dataclass(frozen=True)
class Enrolment:
    """A device as a farm file describes it."""

    name: str
    kind: str
    fidelity: Fidelity
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tally:
    """Counts of the work under a lease since the last report. ``busy_s`` are wall seconds."""

    trials: int = 0
    faults: int = 0
    busy_s: float = 0.0
    temperature_c: float | None = None

    def __add__(self, other: Tally) -> Tally:
        hottest = other.temperature_c if other.temperature_c is not None else self.temperature_c
        return Tally(
            self.trials + other.trials,
            self.faults + other.faults,
            self.busy_s + other.busy_s,
            hottest,
        )


@dataclass(frozen=True)
class Checked:
    """The result of a check. ``failure`` is empty if it passed; one that does not ``count`` (the
    device is hot) says nothing against the device."""

    failure: str = ""
    counts: bool = True
    temperature_c: float | None = None
    gold_cycles: int | None = None
    fingerprint: Mapping[str, str] | None = field(default=None, hash=False)
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class DeviceRecord:
    """A device as the roster knows it. Times are Unix seconds.

    ``recent`` tells of the latest runs, the newest last: ``.`` a fair run, ``x`` a fault of the
    device. ``minutes`` holds (minute, runs, faults) of the latest minutes with work.
    ``gold_cycles`` is what the gold candidate needs here, ``fingerprint`` what decides the
    device's numbers; both are of its latest passed check.
    """

    name: str
    kind: str
    fidelity: Fidelity
    tags: tuple[str, ...]
    state: DeviceState
    reason: str
    since: float
    token: int = 0
    lease: Lease | None = None
    recent: str = ""
    failed_checks: int = 0
    last_check_at: float | None = None
    last_check: str = ""
    temperature_c: float | None = None
    gold_cycles: int | None = None
    fingerprint: Mapping[str, str] | None = field(default=None, hash=False)
    details: Mapping[str, str] = field(default_factory=dict, hash=False)
    trials: int = 0
    faults: int = 0
    busy_s: float = 0.0
    minutes: tuple[tuple[int, int, int], ...] = ()

    @property
    def recent_faults(self) -> int:
        """How many of its latest runs were faults."""
        return self.recent.count(FAULT)

    @property
    def failure_share(self) -> float | None:
        """The share of faults among its latest runs; ``None`` before the first."""
        return self.recent_faults / len(self.recent) if self.recent else None

    def trials_per_minute(self, now: float, minutes: int = 10) -> float:
        """Runs a minute over the last ``minutes``, this one included."""
        first = int(now // 60) - minutes + 1
        return sum(runs for minute, runs, _ in self.minutes if minute >= first) / minutes

    def as_dict(self, now: float) -> dict[str, Any]:
        """JSON form at ``now`` (Unix seconds), as the service and the command line show it."""
        lease, share = self.lease, self.failure_share
        return {
            **{name: getattr(self, name) for name in _SHOWN},
            "tags": list(self.tags),
            "state": self.state.value,
            "lease": None
            if lease is None
            else {
                "holder": lease.holder,
                "purpose": lease.purpose.value,
                "expires_at": lease.expires_at,
            },
            "busy_s": round(self.busy_s, 3),
            "trials_per_minute": round(self.trials_per_minute(now), 2),
            "failure_share": None if share is None else round(share, 4),
            "details": dict(self.details),
        }


_SHOWN = (
    *("name", "kind", "fidelity", "tags", "state", "reason", "since", "lease", "temperature_c"),
    *("trials", "faults", "last_check_at", "last_check", "gold_cycles"),
)
"""Fields of a record that its JSON form has, some of them in a plainer type."""


@dataclass(frozen=True)
class DeviceEvent:
    """A change of state. Leases of a healthy device are counted, not told."""

    number: int
    device: str
    at: float
    before: DeviceState | None
    after: DeviceState
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """JSON form; the device's name is left out, as events are listed by device."""
        form = asdict(self)
        del form["device"]
        return form


def enrolled(enrolment: Enrolment, now: float) -> DeviceRecord:
    """A device nobody knew before."""
    return DeviceRecord(
        name=enrolment.name,
        kind=enrolment.kind,
        fidelity=enrolment.fidelity,
        tags=enrolment.tags,
        state=DeviceState.SUSPECT,
        reason="new: not checked yet",
        since=now,
    )


def described(record: DeviceRecord, enrolment: Enrolment) -> DeviceRecord:
    """As the farm file describes it now. Another kind of device under a name is another device."""
    if record.kind != enrolment.kind:
        raise UserError(
            f"device '{record.name}' is known as a {record.kind}, not a {enrolment.kind}",
            accepted="a name of its own for each device",
            next_step="give it another name in the farm file",
        )
    return replace(record, fidelity=enrolment.fidelity, tags=enrolment.tags)


def move(record: DeviceRecord, state: DeviceState, reason: str, now: float) -> DeviceRecord:
    """``record`` in another state. ``InternalError`` if that may not follow."""
    if state is record.state:
        return replace(record, reason=reason)
    if state not in LEGAL[record.state]:
        raise InternalError(f"device {record.name} cannot go from {record.state} to {state}")
    return replace(record, state=state, reason=reason, since=now)


def lapsed(record: DeviceRecord, now: float) -> DeviceRecord:
    """Without a lease that ran out. Nobody cleaned up then, so work that lapsed needs a check."""
    lease = record.lease
    if lease is None or now < lease.expires_at:
        return record
    return _freed(record, f"the lease of {lease.holder} ran out", now)


def left_behind(record: DeviceRecord, holder: str, now: float) -> DeviceRecord:
    """Without a lease that ``holder`` took before it was killed: it knows that it restarted."""
    if record.lease is None or record.lease.holder != holder:
        return record
    return _freed(record, f"{holder} was killed and restarted", now)


def _freed(record: DeviceRecord, reason: str, now: float) -> DeviceRecord:
    freed = replace(record, lease=None)
    if record.state is not DeviceState.LEASED:
        return freed
    return move(freed, DeviceState.SUSPECT, reason, now)


def taken(
    record: DeviceRecord, purpose: Purpose, holder: str, duration_s: float, now: float
) -> DeviceRecord | None:
    """Leased to ``holder``; ``None`` if it is not free for that now."""
    record = lapsed(record, now)
    free_for = {DeviceState.READY}
    if purpose is Purpose.CHECK:
        free_for |= {DeviceState.SUSPECT, DeviceState.OFFLINE}
    if record.lease is not None or record.state not in free_for:
        return None
    token = record.token + 1
    lease = Lease(record.name, token, holder, purpose, now + duration_s)
    leased = replace(record, token=token, lease=lease)
    if purpose is Purpose.CHECK:
        return leased
    return move(leased, DeviceState.LEASED, holder, now)


def renewed(
    record: DeviceRecord, lease: Lease, tally: Tally, duration_s: float, now: float
) -> DeviceRecord:
    """With the lease extended. ``LeaseLostError`` if it is no longer the holder's."""
    held = _require_held(record, lease, now)
    return replace(tallied(record, tally, now), lease=replace(held, expires_at=now + duration_s))


def given_back(
    record: DeviceRecord,
    lease: Lease,
    state: DeviceState,
    reason: str,
    now: float,
    tally: Tally | None = None,
    checked: Checked | None = None,
) -> DeviceRecord:
    """Given back in ``state``, whatever was found. One that was drained meanwhile stays so."""
    _require_held(record, lease, now)
    if state not in (_S.READY, _S.SUSPECT, _S.OFFLINE, _S.QUARANTINED):
        raise InternalError(f"device {record.name} cannot be given back {state}")
    record = replace(tallied(record, tally or Tally(), now), lease=None)
    if checked is not None:
        record = _noted(record, checked, now)
    if record.state is DeviceState.DRAINED:
        return record
    return move(record, state, reason, now)


def drained(record: DeviceRecord, reason: str, now: float) -> DeviceRecord:
    """Taken out once its work under way is done."""
    record = lapsed(record, now)
    if record.state is DeviceState.QUARANTINED:
        raise UserError(
            f"device '{record.name}' is quarantined: it has no work to be drained of",
            accepted="a device that is not quarantined",
            next_step=f"`hvxtune farm release {record.name}` lets it be checked and come back",
        )
    if record.state is DeviceState.DRAINED:
        return record
    return move(record, DeviceState.DRAINED, reason, now)


def quarantined(record: DeviceRecord, reason: str, now: float) -> DeviceRecord:
    """Taken out at once: its work under way will not count."""
    if record.state is DeviceState.QUARANTINED:
        return record
    return move(replace(record, lease=None), DeviceState.QUARANTINED, reason, now)


def released(record: DeviceRecord, reason: str, now: float) -> DeviceRecord:
    """On its way back to work: forgiven, and to be checked first."""
    record = lapsed(record, now)
    if record.state not in (DeviceState.QUARANTINED, DeviceState.DRAINED):
        raise UserError(
            f"device '{record.name}' is {record.state}: there is nothing to release it from",
            accepted="a device that is quarantined or drained",
            next_step="`hvxtune farm check` checks it now",
        )
    forgiven = replace(record, recent="", failed_checks=0, gold_cycles=None, last_check_at=None)
    return move(forgiven, DeviceState.SUSPECT, reason, now)


def tallied(record: DeviceRecord, tally: Tally, now: float) -> DeviceRecord:
    """With the work counted."""
    hottest = tally.temperature_c if tally.temperature_c is not None else record.temperature_c
    record = replace(record, temperature_c=hottest, busy_s=record.busy_s + tally.busy_s)
    if not (tally.trials or tally.faults):
        return record
    minute = int(now // 60)
    counts = {at: (runs, faults) for at, runs, faults in record.minutes}
    runs, faults = counts.get(minute, (0, 0))
    counts[minute] = (runs + tally.trials, faults + tally.faults)
    kept = sorted(counts)[-MINUTES_KEPT:]
    return replace(
        record,
        recent=(record.recent + FAIR * tally.trials + FAULT * tally.faults)[-RECENT_RUNS:],
        trials=record.trials + tally.trials,
        faults=record.faults + tally.faults,
        minutes=tuple((at, *counts[at]) for at in kept),
    )


def _noted(record: DeviceRecord, checked: Checked, now: float) -> DeviceRecord:
    record = replace(
        record,
        last_check_at=now,
        last_check=checked.failure or "passed",
        failed_checks=record.failed_checks + checked.counts if checked.failure else 0,
        details=checked.details or record.details,
    )
    if checked.temperature_c is not None:
        record = replace(record, temperature_c=checked.temperature_c)
    if checked.failure:
        return record
    return replace(record, gold_cycles=checked.gold_cycles, fingerprint=checked.fingerprint)


def _require_held(record: DeviceRecord, lease: Lease, now: float) -> Lease:
    held = record.lease
    if held is None or held.token != lease.token or now >= held.expires_at:
        raise LeaseLostError(
            f"the lease of {lease.holder} on device {record.name} has ended: it is {record.state}"
            f" ({record.reason})",
            next_step="what was measured under it is thrown away and measured again",
        )
    return held


LEASE_S = 30.0
"""A lease that is not renewed for this long has ended: its holder has died."""

Clock = Callable[[], float]
Step = Callable[[DeviceRecord], DeviceRecord]

_WORK = frozenset(
    {(DeviceState.READY, DeviceState.LEASED), (DeviceState.LEASED, DeviceState.READY)}
)


class Roster(ABC):
    """Devices and their leases, shared by every process on the same store.

    Methods may be called from several threads; each is one transaction. At most one lease on a
    device is valid at any time. All raise ``StoreError`` if the store cannot be used, and
    ``UserError`` for a device that is not known. Implementations keep records and events; the
    steps from record to record are the functions above.
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
        """Replaces a record by the result of ``step``, with its event, in one transaction that no
        other change comes between. If ``step`` raises, nothing changes."""

    def device(self, name: str) -> DeviceRecord:
        """The device called ``name``."""
        for record in self.devices():
            if record.name == name:
                return record
        raise unknown_device(name, [record.name for record in self.devices()])

    def enrol(self, enrolment: Enrolment) -> DeviceRecord:
        """Makes a device known, or brings its description up to date with the farm file."""
        fresh = enrolled(enrolment, self.clock())
        if self._add(fresh):
            return fresh
        return self._change(enrolment.name, lambda record: described(record, enrolment))

    def lease(
        self,
        name: str,
        holder: str,
        purpose: Purpose = Purpose.WORK,
        duration_s: float = LEASE_S,
    ) -> Lease | None:
        """Takes the device for ``holder``; ``None`` if it is not free now.

        For work it must be ready; for a check it may also be suspect or offline.
        """
        got: list[Lease | None] = []

        def step(record: DeviceRecord) -> DeviceRecord:
            now = self.clock()
            leased = taken(record, purpose, holder, duration_s, now)
            got.append(None if leased is None else leased.lease)
            return lapsed(record, now) if leased is None else leased

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
            lambda record: renewed(record, lease, tally or Tally(), duration_s, self.clock()),
        )

    def give_back(
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
            lambda record: given_back(record, lease, state, reason, self.clock(), tally, checked),
        )

    def free_left_behind(self, holder: str) -> None:
        """Ends the leases of ``holder``, whose caller knows that it holds none: what worked under
        its name before was killed. Their devices need not be waited for, only checked."""
        for record in self.devices():
            if record.lease is not None and record.lease.holder == holder:
                self._change(record.name, lambda found: left_behind(found, holder, self.clock()))

    def drain(self, name: str, reason: str) -> DeviceRecord:
        """Takes a device out once its work is done. ``UserError`` if it is quarantined."""
        return self._change(name, lambda record: drained(record, reason, self.clock()))

    def quarantine(self, name: str, reason: str) -> DeviceRecord:
        """Takes a device out at once; a lease on it ends, and its results will not count."""
        return self._change(name, lambda record: quarantined(record, reason, self.clock()))

    def release(self, name: str, reason: str) -> DeviceRecord:
        """Lets a drained or quarantined device come back, after a check. ``UserError`` else."""
        return self._change(name, lambda record: released(record, reason, self.clock()))


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
    """The error for a wrong name of a device."""
    return NotStoredError(
        f"no device '{name[:100]}'",
        accepted=", ".join(known[:20]),
        next_step="`hvxtune farm list` shows them"
        if known
        else "name devices in a farm file; docs/devices.md shows how",
    )


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
            return [lapsed(self._records[name], now) for name in sorted(self._records)]

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
