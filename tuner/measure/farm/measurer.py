"""The farm as a measurer: shares candidates out to its devices and brings results home."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from tuner.errors import DeviceError, HvxtuneError, ToolchainError, UserError
from tuner.measure.cases import far_shapes_of
from tuner.measure.device import Confirmed, Member
from tuner.measure.farm.driver import Driver
from tuner.measure.farm.farm_file import Farm, read_farm
from tuner.measure.farm.health import (
    Caretaker,
    GoldFor,
    MakeGold,
    OpenDevice,
    enrol,
    gold_for,
)
from tuner.measure.farm.roster import MemoryRoster
from tuner.measure.farm.work import Availability, Blame, ResultReview, WorkItem, WorkQueue
from tuner.measure.measurer import ALL_DEVICES, DeviceAccess, Measurer, Timed
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, CacheState, Fidelity, Problem

_KEEP_S = 1.0
_CHECKS_AT_ONCE = 8
MOST_USEFUL_WORKERS = 256
"""Threads of one job, at most."""


class FarmMeasurer(Measurer):
    """Measures on the devices of the farm file that ``access`` selects.

    They must be of one fidelity and one fingerprint, or their numbers could not be compared. A
    candidate that fails on one device is tried on another, ``DEVICE_ATTEMPTS`` times in all.
    Tests replace the other arguments.
    """

    name: ClassVar[str] = "farm"
    uses_devices: ClassVar[bool] = True

    def __init__(
        self,
        *,
        cache: CacheState = "warm",
        access: DeviceAccess = ALL_DEVICES,
        farm: Farm | None = None,
        open_device: OpenDevice = Member.open,
        make_gold: GoldFor = gold_for,
    ) -> None:
        if cache != "warm":
            raise UserError(
                f"cache '{cache}' on a farm", accepted="warm: devices keep their caches"
            )
        self._on = access.on
        self._farm = read_farm() if farm is None else farm
        self._members = self._farm.selected(access.on)
        self.fidelity = self._members[0].kind.fidelity
        self._roster = MemoryRoster() if access.roster is None else access.roster
        self._holder = access.holder or f"process {os.getpid()} on {socket.gethostname()}"
        self._open_device = open_device
        self._make_gold = make_gold
        self._caretaker = Caretaker(
            self._farm, self._roster, self._holder, open_device=open_device, make_gold=make_gold
        )
        self._queue = WorkQueue(patience_s=self._farm.limits.wait_s)
        self._review = ResultReview(self._queue, self._farm.limits)
        self._lock = threading.Lock()
        self._drivers: dict[str, Driver] = {}
        self._fingerprint: dict[str, str] | None = None
        self._enrolled = False
        self._closed = threading.Event()

    def _require_one_fidelity(self) -> None:
        found: dict[Fidelity, list[str]] = {}
        for member in self._members:
            found.setdefault(member.kind.fidelity, []).append(member.name)
        if len(found) == 1:
            return
        raise UserError(
            f"the devices on '{self._on}' are of several fidelities ("
            + "; ".join(f"{fidelity}: {', '.join(names)}" for fidelity, names in found.items())
            + "), whose numbers are never compared",
            accepted="a tag that devices of one fidelity have, such as their kind",
            next_step=f"choose on={next(iter(self._members)).kind.kind}",
        )

    def require(self, target: Target) -> None:
        """As the contract says. Devices that cannot run it are left out from here on."""
        able, refused = [], []
        for member in self._members:
            with self._open_device(member, self._farm.limits) as device:
                try:
                    device.require(target)
                    able.append(member)
                except UserError as error:
                    refused.append(error)
        if not able:
            raise refused[0]
        self._members = tuple(able)
        self.fidelity = able[0].kind.fidelity

    def fingerprint(self) -> Mapping[str, str]:
        """That of its devices. A phone whose fingerprint is not known yet is checked for it."""
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = self._find_fingerprint()
            return self._fingerprint

    def _find_fingerprint(self) -> dict[str, str]:
        self._require_one_fidelity()
        known = self._known_fingerprints()
        refused: list[str] = []
        if not known:
            # With one device known, the others need not be waited for: they may be away.
            known, refused = self._asked_fingerprints()
        found: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for name, fingerprint in known.items():
            found.setdefault(tuple(sorted(fingerprint.items())), []).append(name)
        if len(found) == 1:
            return dict(next(iter(found)))
        if not found:
            raise ToolchainError(
                f"no device on '{self._on}' can be used: {'; '.join(refused)}",
                next_step="`hvxtune farm check` checks them again, `hvxtune farm list` shows them",
            )
        groups = [", ".join(names) for names in found.values()]
        differing = sorted({k for k, _ in set.symmetric_difference(*map(set, list(found)[:2]))})
        raise UserError(
            f"the devices on '{self._on}' differ in {', '.join(differing)}, so that their numbers "
            f"cannot be compared: {' | '.join(groups)}",
            accepted="a tag whose devices are alike",
            next_step="give each group a tag of its own in the farm file, or name one device",
        )

    def _known_fingerprints(self) -> dict[str, Mapping[str, str]]:
        """By device, of those that need not be asked."""
        known: dict[str, Mapping[str, str]] = {}
        for member in self._members:
            if member.kind.is_local:
                with self._open_device(member, self._farm.limits) as device:
                    known[member.name] = device.fingerprint()
        if len(known) < len(self._members):
            self._enrol()
            records = {record.name: record for record in self._roster.devices()}
            for member in self._members:
                fingerprint = records[member.name].fingerprint
                if member.name not in known and fingerprint is not None:
                    known[member.name] = fingerprint
        return known

    def _asked_fingerprints(self) -> tuple[dict[str, Mapping[str, str]], list[str]]:
        """By device, from checking all of them at once; and why the others have none."""
        with ThreadPoolExecutor(min(len(self._members), _CHECKS_AT_ONCE), "farm-ask") as pool:
            list(pool.map(self._caretaker.check_one, self._members))
        known: dict[str, Mapping[str, str]] = {}
        refused = []
        for member in self._members:
            record = self._roster.device(member.name)
            if record.fingerprint is not None:
                known[member.name] = record.fingerprint
            else:
                refused.append(f"{record.name} is {record.state} ({record.reason})")
        return known, refused

    def _enrol(self) -> None:
        if not self._enrolled:
            enrol(self._farm, self._roster)
            self._enrolled = True

    def useful_workers(self) -> int:
        """Of each device a bundle that runs and one that waits."""
        bundle = self._farm.limits.bundle
        bundles = (bundle if m.kind.fidelity == "hardware" else 1 for m in self._members)
        return min(2 * sum(bundles), MOST_USEFUL_WORKERS)

    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        """As the contract says; ``ToolchainError`` too if no device is left that could."""
        repeats = self._farm.limits.repeats if self.fidelity == "hardware" else 1
        found = self._run(WorkItem(problem, artifact, budget_cycles, repeats))
        assert isinstance(found, Timed)  # noqa: S101
        return found

    def confirm(self, problem: Problem, artifact: Artifact) -> None:
        if far_shapes_of(problem):
            self._run(WorkItem(problem, artifact, None, 0, is_far=True))

    def _run(self, item: WorkItem) -> Timed | Confirmed:
        self._start()
        self._queue.put(item)
        return item.future.result()

    def _start(self) -> None:
        if self._drivers or self._closed.is_set():
            return
        wanted = self.fingerprint()
        with self._lock:
            if self._drivers:
                return
            self._enrol()
            for member in self._members:
                self._drivers[member.name] = self._driver(member, wanted)
                # Any of them may serve: one that is ready first must not be its own second opinion.
                self._queue.set_availability(member.name, Availability.CHECKED)
            for driver in self._drivers.values():
                driver.start()
            threading.Thread(target=self._keep, name="farm-keeper", daemon=True).start()

    def _driver(self, member: Member, fingerprint: Mapping[str, str]) -> Driver:
        limits = self._farm.limits
        gold: MakeGold = lambda: self._make_gold(member, limits)  # noqa: E731
        return Driver(
            member.name,
            lambda: self._open_device(member, limits),
            roster=self._roster,
            queue=self._queue,
            review=self._review,
            gold=gold,
            limits=limits,
            fingerprint=fingerprint,
            holder=self._holder,
            blame=self._accuse,
        )

    def _accuse(self, blame: Blame) -> None:
        self._drivers[blame.device].accuse(blame.reason)

    def _keep(self) -> None:
        """Keeps leases alive, and ends what waits for devices that do not come back."""
        while not self._closed.wait(_KEEP_S):
            for driver in self._drivers.values():
                try:
                    driver.keep()
                except HvxtuneError:
                    continue  # the store is away: the lease lapses, and the driver learns of it
            if self._queue.waits_in_vain_s() > self._farm.limits.wait_s:
                self._queue.end(self._nobody_left())

    def _nobody_left(self) -> HvxtuneError:
        names = {member.name for member in self._members}
        try:
            records = [r for r in self._roster.devices() if r.name in names]
        except HvxtuneError as error:
            return error
        states = "; ".join(f"{r.name} is {r.state} ({r.reason})" for r in records)
        return ToolchainError(
            f"no device on '{self._on}' measures any more: {states}",
            next_step="mend them, `hvxtune farm release DEVICE`, then resume the job",
        )

    def close(self) -> None:
        self._closed.set()
        self._queue.end(DeviceError("the measurer was closed"), for_good=True)
        with self._lock:
            drivers = list(self._drivers.values())
        for driver in drivers:
            driver.stop()
        for driver in drivers:
            driver.thread.join(timeout=10.0)
