"""Drives one device for one measurer, in a thread of its own: checks, leases, bundles."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tuner.errors import DeviceError, HvxtuneError, InternalError, StoreError, ToolchainError
from tuner.log_ids import bind
from tuner.measure.device import Bundle, Device, Limits, RunResult, Sampled
from tuner.measure.farm import health
from tuner.measure.farm.health import MakeGold
from tuner.measure.farm.roster import (
    LEASE_S,
    DeviceRecord,
    DeviceState,
    Lease,
    LeaseLostError,
    Purpose,
    Roster,
    Tally,
)
from tuner.measure.farm.work import Availability, Blame, ResultReview, WorkItem, WorkQueue

TICK_S = 0.25
"""How often a device that has nothing to do is looked at."""
_LINGER_S = 0.05
"""How long an empty queue is waited at before the lease is given back."""
_GRACE_S = 60.0
"""Beyond what the tasks of a bundle may take together: then the call is broken off."""
_EXCUSES_A_FAULT = 3
"""Phones get warm, noise looks like that at times, and adb's server may end; this number of
bundles without a result in a row is a fault of the device all the same."""
_log = logging.getLogger("hvxtune.farm")


@dataclass
class Holding:
    """The lease a driver works under now, for the thread that keeps it alive."""

    lease: Lease
    renew_at: float
    overdue_at: float | None = None
    """When the call under way has taken too long, by the monotonic clock."""
    broken: str = ""
    """Why the call under way was broken off."""


class Driver:
    """One device of one measurer. ``start`` begins, ``stop`` ends; both return at once.

    ``fingerprint`` is what the device must have for its numbers to be compared with the others'.
    """

    def __init__(
        self,
        name: str,
        open_device: Callable[[], Device],
        *,
        roster: Roster,
        queue: WorkQueue,
        review: ResultReview,
        gold: MakeGold,
        limits: Limits,
        fingerprint: Mapping[str, str],
        holder: str,
        blame: Callable[[Blame], None],
    ) -> None:
        self.name = name
        self._open_device = open_device
        self._roster = roster
        self._queue = queue
        self._review = review
        self._gold = gold
        self._limits = limits
        self._fingerprint = dict(fingerprint)
        self._holder = holder
        self._blame = blame
        self._device: Device | None = None
        self._same: bool | None = None
        self._holding: Holding | None = None
        self._lock = threading.Lock()
        self._blamed: list[str] = []
        self._rest_until = 0.0
        self._excuses = 0
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._drive, name=f"farm-{name}", daemon=True)

    def start(self) -> None:
        """Begins to work."""
        self.thread.start()

    def stop(self) -> None:
        """Ends soon, and breaks off a call under way."""
        self._stopping.set()
        self._close_device()

    def accuse(self, reason: str) -> None:
        """Notes a fault that was found out elsewhere; the driver acts on it."""
        with self._lock:
            self._blamed.append(reason)

    def keep(self) -> None:
        """Renews the lease if it is time, and breaks off a call that takes too long or whose
        lease is lost. From another thread, about every second."""
        with self._lock:
            holding = self._holding
        if holding is None or holding.broken:
            return
        now = time.monotonic()
        if holding.overdue_at is not None and now > holding.overdue_at:
            holding.broken = "the device did not end its call"
            self._close_device()
        elif now >= holding.renew_at:
            try:
                self._roster.renew(holding.lease)
                holding.renew_at = now + LEASE_S / 3
            except LeaseLostError as error:
                holding.broken = error.message
                self._close_device()

    # The driver's own thread

    def _drive(self) -> None:
        bind(device=self.name)
        while not self._stopping.is_set():
            try:
                wait_s = self._step()
            except (StoreError, LeaseLostError) as error:
                _log.warning("device %s: %s", self.name, error)
                wait_s = TICK_S
            except ToolchainError as error:
                self._queue.end(error)
                wait_s = TICK_S
            except Exception as error:  # noqa: BLE001 - a device's code may be of others
                if self._stopping.is_set():
                    break
                _log.exception("device %s", self.name)
                self._queue.end(
                    error
                    if isinstance(error, HvxtuneError)
                    else InternalError(f"device {self.name}: {type(error).__name__}: {error}")
                )
                wait_s = 1.0
            if wait_s:
                self._stopping.wait(wait_s)
        self._close_device()

    def _step(self) -> float:
        """Takes the next step; returns how long to wait before looking again."""
        devices = self._roster.devices()
        record = next(one for one in devices if one.name == self.name)
        self._queue.set_availability(self.name, self._availability(record))
        if record.state is DeviceState.LEASED or record.lease is not None:
            return TICK_S
        if record.state in (DeviceState.QUARANTINED, DeviceState.DRAINED):
            self._close_device()
            return TICK_S
        if self._apply_blame(record):
            return 0.0
        if time.monotonic() < self._rest_until:
            return TICK_S
        if health.is_due(record, self._limits, self._roster.clock(), devices):
            self._same = None
            self._queue.set_availability(self.name, Availability.CHECKED)
            health.attend(
                self._roster,
                record,
                self._opened,
                self._gold,
                self._limits,
                self._holder,
                self._stopping.is_set,
            )
            return 0.0
        if record.state is not DeviceState.READY or self._same is False:
            return TICK_S
        items = self._queue.take(self.name, self._most(), TICK_S)
        if items:
            self._turn(items)
        return 0.0

    def _availability(self, record: DeviceRecord) -> Availability:
        if self._same is False or record.state is DeviceState.QUARANTINED:
            return Availability.OUT
        if record.state is DeviceState.READY:
            return Availability.SERVING
        if record.lease is not None:
            checked = record.lease.purpose is Purpose.CHECK
            return Availability.CHECKED if checked else Availability.ELSEWHERE
        return Availability.AWAITED

    def _apply_blame(self, record: DeviceRecord) -> bool:
        with self._lock:
            reasons, self._blamed = self._blamed, []
        if not reasons:
            return False
        lease = self._roster.lease(self.name, self._holder, Purpose.CHECK)
        if lease is None:
            with self._lock:
                self._blamed = [*reasons, *self._blamed]
            return False
        found = health.after_fault(record, len(reasons), reasons[-1], self._limits)
        self._roster.give_back(lease, found.state, found.reason, tally=Tally(faults=len(reasons)))
        return True

    def _most(self) -> int:
        return max(1, min(self._opened().max_entries, self._limits.bundle))

    def _turn(self, items: list[WorkItem]) -> None:
        """Leases the device and runs bundles until the turn, or the work, is over."""
        lease = self._roster.lease(self.name, self._holder)
        if lease is None:
            self._queue.again(items)
            return
        holding = Holding(lease, time.monotonic() + LEASE_S / 3)
        with self._lock:
            self._holding = holding
        try:
            record = self._roster.device(self.name)
            if not self._may_serve(items, lease, record):
                return
            ends = time.monotonic() + self._limits.turn_s
            while items:
                record = self._bundle(items, holding, record)
                if record.lease is None:
                    return
                over = self._stopping.is_set() or time.monotonic() > ends or bool(self._blamed)
                if over or record.state is not DeviceState.LEASED:
                    break
                items = self._queue.take(self.name, self._most(), _LINGER_S)
            self._roster.give_back(lease, DeviceState.READY, "worked without fault")
        except LeaseLostError:
            raise
        except HvxtuneError as error:
            self._roster.give_back(lease, DeviceState.SUSPECT, error.message)
            raise
        finally:
            with self._lock:
                self._holding = None

    def _may_serve(self, items: list[WorkItem], lease: Lease, record: DeviceRecord) -> bool:
        """Whether the device's numbers may be compared with the others'. If not, the items are
        put back and the device is given back."""
        try:
            if self._same is None:
                self._same = dict(self._opened().fingerprint()) == self._fingerprint
            if self._same:
                return True
            state, reason, faults = DeviceState.READY, "worked without fault", 0
        except DeviceError as error:
            faults = int(error.attempts > 0)
            found = health.after_fault(record, faults, error.message, self._limits)
            state, reason = found.state, found.reason
        self._queue.again(items)
        self._roster.give_back(lease, state, reason, tally=Tally(faults=faults))
        return False

    def _bundle(
        self, items: list[WorkItem], holding: Holding, record: DeviceRecord
    ) -> DeviceRecord:
        """Runs one bundle, then ends its items or puts them back. The lease is proven again
        before a result counts.

        The record returned has no lease if the device was given back.
        """
        try:
            results, error, busy_s = self._run(items, holding)
            if error is None:
                error = self._throttled(results, record)
            failed = [one for one in results if isinstance(one, DeviceError)]
            faults = self._faults(failed, error)
            tally = Tally(0 if error else len(items) - len(failed), faults, busy_s)
            if error is not None and self._stopping.is_set():  # broken off by us
                record = self._roster.give_back(
                    holding.lease, DeviceState.SUSPECT, "left in the middle of its work"
                )
            elif error is not None or failed:
                reason = error or failed[0]
                found = health.after_fault(record, faults, reason.message, self._limits)
                record = self._roster.give_back(
                    holding.lease, found.state, found.reason, tally=tally
                )
            else:
                record = self._roster.renew(holding.lease, tally)
                holding.renew_at = time.monotonic() + LEASE_S / 3
        except BaseException:
            self._queue.again(items)
            raise
        self._queue.set_availability(self.name, self._availability_after(record))
        if error is None:
            for blame in self._review.apply(items, results, record):
                self._blame(blame)
        elif error.attempts == 0:
            self._queue.again(items)
        else:
            for item in items:
                self._queue.failed(item, self.name, error)
        return record

    def _faults(self, failed: list[DeviceError], error: DeviceError | None) -> int:
        """How many runs of a bundle count against the device, in which some ``failed`` or all of it
        did with ``error``."""
        if error is None:
            self._excuses = 0
            return sum(one.attempts > 0 for one in failed)
        self._excuses += error.attempts == 0
        return 1 if error.attempts or self._excuses >= _EXCUSES_A_FAULT else 0

    def _throttled(self, results: list[RunResult], record: DeviceRecord) -> DeviceError | None:
        """Why a bundle is thrown away though it ran; the device rests then."""
        slow = self._review.throttled(results, record)
        if not slow:
            return None
        self._rest_until = time.monotonic() + self._limits.cool_down_s
        return DeviceError(slow, attempts=0)

    def _availability_after(self, record: DeviceRecord) -> Availability:
        return (
            Availability.SERVING
            if record.state is DeviceState.LEASED
            else self._availability(record)
        )

    def _run(
        self, items: list[WorkItem], holding: Holding
    ) -> tuple[list[RunResult], DeviceError | None, float]:
        """The device's results for the items, or its failure as a whole; and the seconds."""
        device = self._opened()
        reference = self._gold() if device.fidelity == "hardware" else None
        allowed_s = self._limits.task_s * (2 * len(items) + 1) + _GRACE_S
        began = time.monotonic()
        holding.overdue_at = began + allowed_s
        results: list[RunResult] = []
        error: DeviceError | None = None
        try:
            results = list(device.run(Bundle([item.entry() for item in items], reference)))
            if len(results) != len(items):
                error = DeviceError(f"{len(results)} results for {len(items)} candidates")
        except DeviceError as raised:
            error = DeviceError(holding.broken) if holding.broken else raised
        finally:
            holding.overdue_at = None
        for one in results:
            if isinstance(one, Sampled) and not one.measurement.verified:
                error = DeviceError("a result whose outputs were not verified")
        return results, error, time.monotonic() - began

    def _opened(self) -> Device:
        with self._lock:
            if self._device is None:
                if self._stopping.is_set():
                    raise DeviceError(f"{self.name}: the measurer was closed")
                self._device = self._open_device()
            return self._device

    def _close_device(self) -> None:
        with self._lock:
            device, self._device = self._device, None
        if device is not None:
            device.close()
