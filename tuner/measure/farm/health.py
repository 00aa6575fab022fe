"""The health of devices: when one is checked, how, by whom, and the state that follows.

A check asks for a nonce, cleans up, looks for room on the disk, and runs the gold candidate: a
small kernel whose result is known, and so is its time on this device and on those like it. A list
of devices is never asked: it shows those that were connected once.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median_high

from tuner.codegen import CodeGenerator, find_generator
from tuner.errors import CandidateError, DeviceError, HvxtuneError, ToolchainError
from tuner.identity import digest_of, digest_of_bytes
from tuner.kernels import find_kernel
from tuner.measure import statistics
from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Device,
    DeviceReport,
    Limits,
    Member,
    Sampled,
)
from tuner.measure.farm.farm_file import Farm
from tuner.measure.farm.roster import (
    FAULT,
    RECENT_RUNS,
    Checked,
    DeviceRecord,
    DeviceState,
    Enrolment,
    Purpose,
    Roster,
)
from tuner.paths import cached
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Candidate, Problem

CHECK_LEASE_S = 180.0
"""The longest time of a check: a phone that does not answer is waited for several times."""
_LONGEST_WAIT_S = 60.0
_NEWS = 0.05
"""The gold candidate being faster by this share replaces what was known of it."""

MakeGold = Callable[[], BundleEntry]


@dataclass(frozen=True)
class CheckOutcome:
    """The findings of a check, and the state that follows."""

    state: DeviceState
    reason: str
    checked: Checked


def is_due(
    record: DeviceRecord, limits: Limits, now: float, devices: Sequence[DeviceRecord] = ()
) -> bool:
    """Whether the device should be checked at ``now``. One that failed is checked with growing
    delays, one that is slow compared with others of ``devices`` at once."""
    if record.state in (DeviceState.QUARANTINED, DeviceState.DRAINED, DeviceState.LEASED):
        return False
    if record.lease is not None:
        return False
    if record.last_check_at is None:
        return True
    since = now - record.last_check_at
    if record.state is DeviceState.READY:
        return since >= limits.gold_interval_s or _is_slow_beside(record, devices)
    if record.last_check == "passed":
        return True
    wait_s = limits.recheck_s * 2.0 ** min(max(record.failed_checks - 1, 0), 20)
    return since >= min(wait_s, max(_LONGEST_WAIT_S, limits.recheck_s))


def gold_of_others(
    record: DeviceRecord, fingerprint: Mapping[str, str] | None, devices: Iterable[DeviceRecord]
) -> int | None:
    """The gold candidate's cycles on others of ``devices`` with this fingerprint, whose numbers are
    compared with those of ``record``; ``None`` without any that is trusted.

    Of an even number the upper of both in the middle: one that is too fast puts nobody out.
    """
    found = [
        other.gold_cycles
        for other in devices
        if other.name != record.name
        and other.state in (DeviceState.READY, DeviceState.LEASED)
        and other.fidelity == "hardware" == record.fidelity
        and other.gold_cycles is not None
        and other.fingerprint == fingerprint
    ]
    return median_high(found) if found else None


def _is_slow_beside(record: DeviceRecord, devices: Iterable[DeviceRecord]) -> bool:
    """Compares with other devices: one that was slow from its first check on has no better past."""
    usual = gold_of_others(record, record.fingerprint, devices)
    own = record.gold_cycles
    return usual is not None and own is not None and _slowdown(own, usual) is not None


def _slowdown(cycles: int, usual: int) -> float | None:
    """How many times ``usual`` the gold candidate takes; ``None`` if that is as it should be."""
    found = statistics.throttled([cycles], usual)
    return None if found is None else found.slowdown


def after_fault(record: DeviceRecord, faults: int, reason: str, limits: Limits) -> CheckOutcome:
    """The consequence of ``faults`` more faults of a device, ``record`` not yet counting them."""
    recent = (record.recent + FAULT * faults)[-RECENT_RUNS:]
    count = recent.count(FAULT)
    if count < limits.faults_to_quarantine:
        return CheckOutcome(DeviceState.SUSPECT, reason, Checked())
    why = f"{count} faults in its latest {len(recent)} runs, the last: {reason}"
    return CheckOutcome(DeviceState.QUARANTINED, why, Checked())


def attend(
    roster: Roster,
    record: DeviceRecord,
    open_device: Callable[[], Device],
    gold: MakeGold,
    limits: Limits,
    holder: str,
    broken_off: Callable[[], bool] = lambda: False,
) -> DeviceRecord | None:
    """Checks a device under a lease; ``None`` if it is not free now.

    ``broken_off`` tells whether the device was closed meanwhile: then a failure says nothing.
    Raises what ``open_device`` raises, ``ToolchainError`` without a gold candidate.
    """
    task = gold()
    lease = roster.lease(record.name, holder, Purpose.CHECK, CHECK_LEASE_S)
    if lease is None:
        return None
    try:
        found = examine(open_device(), record, task, limits, roster.devices())
    except BaseException as error:
        failed = Checked(f"the check broke off: {type(error).__name__}", counts=False)
        roster.give_back(lease, DeviceState.SUSPECT, failed.failure, checked=failed)
        raise
    if found.checked.failure and broken_off():
        failed = Checked("its check was broken off", counts=False)
        found = CheckOutcome(DeviceState.SUSPECT, failed.failure, failed)
    return roster.give_back(lease, found.state, found.reason, checked=found.checked)


def examine(
    device: Device,
    record: DeviceRecord,
    gold: BundleEntry,
    limits: Limits,
    devices: Sequence[DeviceRecord] = (),
) -> CheckOutcome:
    """Probes, cleans, and runs the gold candidate. Never raises for what a device does.

    ``devices`` are all of the farm: the gold candidate must not take longer than on those like it.
    """
    report = DeviceReport()
    try:
        report = device.probe(secrets.token_hex(8))
        report = device.clean()
        fingerprint = dict(device.fingerprint())
    except DeviceError as error:
        blamed = error.attempts > 0
        return _failed(record, DeviceState.OFFLINE, error.message, report, limits, counts=blamed)
    except ToolchainError as error:
        return _failed(record, DeviceState.SUSPECT, str(error), report, limits)
    heat = report.temperature_c
    if heat is not None and heat > limits.max_temperature_c:
        failure = f"too hot: {heat:g} degrees, accepted are {limits.max_temperature_c:g}"
        return _failed(record, DeviceState.SUSPECT, failure, report, limits, counts=False)
    if report.room is not None and report.room.shortage:
        # Asked now that leftovers are gone: the gold candidate alone would find room in what a
        # bundle leaves none of.
        return _failed(record, DeviceState.SUSPECT, report.room.shortage, report, limits)
    usual = gold_of_others(record, fingerprint, devices)
    known = record.gold_cycles if fingerprint == record.fingerprint else None
    if known is not None and usual is not None and _slowdown(known, usual) is not None:
        known = None  # its time at its slowest is not a measure
    try:
        cycles = _gold_cycles(device, gold)
        wrong = _against(known, usual, cycles, device)
        if wrong and device.fidelity == "hardware":  # or was that noise?
            cycles = _gold_cycles(device, replace(gold, repeats=4 * gold.repeats))
            wrong = _against(known, usual, cycles, device)
    except DeviceError as error:
        blamed = error.attempts > 0
        return _failed(record, DeviceState.SUSPECT, error.message, report, limits, counts=blamed)
    if wrong:
        return _failed(record, DeviceState.SUSPECT, wrong, report, limits)
    if known is not None and cycles > known * (1 - _NEWS):
        cycles = known
    checked = Checked(
        temperature_c=heat,
        gold_cycles=cycles,
        fingerprint=fingerprint,
        details={**report.details, **device.noticed()},
    )
    return CheckOutcome(DeviceState.READY, "passed its check", checked)


def _gold_cycles(device: Device, gold: BundleEntry) -> int:
    """The cycles of the gold candidate there; ``DeviceError`` if its result is wrong."""
    results = device.run(Bundle([gold]))
    if len(results) != 1:
        raise DeviceError(f"{len(results)} results for one gold candidate")
    result = results[0]
    if isinstance(result, CandidateError):
        raise DeviceError(f"the gold candidate ended with {result.outcome}: {result.message}")
    if isinstance(result, DeviceError):
        raise result
    if not isinstance(result, Sampled) or not result.measurement.verified:
        raise DeviceError("the gold candidate's output was not verified")
    return result.measurement.cycles


def _against(known: int | None, usual: int | None, cycles: int, device: Device) -> str:
    """The complaint about the gold candidate's time, ``known`` of this device and ``usual`` on
    others like it; empty without one."""
    if device.fidelity == "model":
        if known in (None, cycles):
            return ""
        return f"the gold candidate takes {cycles:,} cycles, and took {known:,} before"
    for expected, where in ((known, ""), (usual, " as on others like it")):
        slowdown = None if expected is None else _slowdown(cycles, expected)
        if slowdown is not None:
            return f"slow: the gold candidate takes {slowdown:.2f} times as long{where}"
    return ""


def _failed(
    record: DeviceRecord,
    state: DeviceState,
    failure: str,
    report: DeviceReport,
    limits: Limits,
    *,
    counts: bool = True,
) -> CheckOutcome:
    checked = Checked(failure, counts, report.temperature_c, details=dict(report.details))
    failures = record.failed_checks + counts
    if counts and state is DeviceState.SUSPECT and failures >= limits.checks_to_quarantine:
        why = f"{failures} checks failed in a row, the last: {failure}"
        return CheckOutcome(DeviceState.QUARANTINED, why, checked)
    return CheckOutcome(state, failure, checked)


_KERNEL, _PARAMS = "add_u8", {"width": 256, "height": 32}
_lock = threading.Lock()


def gold_task(arch: str, repeats: int = 1) -> BundleEntry:
    """The gold candidate for an arch such as ``v66``; compiled once and kept in the cache. It is
    also the reference that a device with a clock runs between others.

    Raises ``UserError`` for an unknown arch and ``ToolchainError`` without a compiler.
    """
    problem = gold_problem(arch)
    with _lock:
        artifact = _compiled(problem)
    return BundleEntry(problem, artifact, warm_ups=1, repeats=repeats)


def gold_problem(arch: str) -> Problem:
    """The gold candidate's problem: of no SoC, and small enough for every one."""
    kernel = find_kernel(_KERNEL)
    return kernel.problem(_PARAMS, Contract.STATIC, find_target(f"hexagon-{arch}"))


@lru_cache(maxsize=8)
def _compiled(problem: Problem) -> Artifact:
    config = find_kernel(_KERNEL).textbook_config(problem)
    candidate = Candidate(problem, config)
    with find_generator(candidate.generator)(1) as generator:
        return _kept(candidate, generator)


def _kept(candidate: Candidate, generator: CodeGenerator) -> Artifact:
    key = digest_of({"candidate": candidate.digest, "generator": dict(generator.fingerprint())})
    path = cached("gold") / f"{key[:32]}.o"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        artifact = generator.compile(candidate)
        made = path.with_suffix(f".{threading.get_native_id()}")
        made.write_bytes(artifact.object_bytes)
        made.replace(path)
        return artifact
    return Artifact(digest_of_bytes(data), candidate.problem.symbol, {"object": data})


OpenDevice = Callable[[Member, Limits], Device]
GoldFor = Callable[[Member, Limits], BundleEntry]


def gold_for(member: Member, limits: Limits) -> BundleEntry:
    """The gold candidate for a device, repeated where there is noise: more often than others, as
    it is what they are judged by."""
    repeats = 3 * limits.repeats if member.kind.fidelity == "hardware" else 1
    return gold_task(member.settings.arch, repeats)


def enrol(farm: Farm, roster: Roster) -> None:
    """Makes the devices of a farm file known to a roster."""
    for member in farm.members:
        kind = member.kind
        roster.enrol(Enrolment(member.name, kind.kind, kind.fidelity, member.tags))


LOOK_S = 2.0
_MOST_AT_ONCE = 8
_log = logging.getLogger("hvxtune.farm")


@dataclass(frozen=True)
class CheckResult:
    """The answer to a request for a check: ``checked`` is false for a device that was not free,
    and ``failure`` says what is wrong, if anything."""

    record: DeviceRecord
    checked: bool
    failure: str = ""


class Caretaker:
    """Keeps the farm of this machine in order. ``holder`` tells others who checks.

    Several caretakers may look after one roster: leases keep them apart.
    """

    def __init__(
        self,
        farm: Farm,
        roster: Roster,
        holder: str,
        *,
        open_device: OpenDevice = Member.open,
        make_gold: GoldFor = gold_for,
    ) -> None:
        self._farm = farm
        self._roster = roster
        self._holder = holder
        self._open_device = open_device
        self._make_gold = make_gold

    def run(self, leave: threading.Event) -> None:
        """Checks whatever is due until ``leave`` is set. Errors are logged and waited out."""
        enrolled = False
        while not leave.is_set():
            try:
                if not enrolled:
                    enrol(self._farm, self._roster)
                    enrolled = True
                for result in self.check_due():
                    if result.failure:
                        _log.warning("device %s: %s", result.record.name, result.failure)
            except HvxtuneError as error:
                _log.error("%s", error)
            leave.wait(LOOK_S)

    def _due(self) -> list[Member]:
        records = {record.name: record for record in self._roster.devices()}
        now = self._roster.clock()
        return [
            member
            for member in self._farm.members
            if is_due(records[member.name], self._farm.limits, now, tuple(records.values()))
        ]

    def check_due(self) -> Iterator[CheckResult]:
        """:meth:`check` for those that are due; all are enrolled."""
        return self.check(self._due())

    def check(self, members: Iterable[Member]) -> Iterator[CheckResult]:
        """Checks devices of the farm now, several at once; each as it is done."""
        wanted = list(members)
        if not wanted:
            return
        with ThreadPoolExecutor(min(len(wanted), _MOST_AT_ONCE), "farm-check") as pool:
            for done in as_completed([pool.submit(self._check, member) for member in wanted]):
                yield done.result()

    def _check(self, member: Member) -> CheckResult:
        try:
            record = self.check_one(member)
        except HvxtuneError as error:
            return CheckResult(self._roster.device(member.name), True, str(error))
        if record is None:
            return CheckResult(self._roster.device(member.name), False)
        failure = "" if record.state is DeviceState.READY else record.reason
        return CheckResult(record, True, failure)

    def check_one(self, member: Member) -> DeviceRecord | None:
        """Checks an enrolled device now; ``None`` if it is quarantined, drained or in use."""
        limits = self._farm.limits
        opened: list[Device] = []

        def open_it() -> Device:
            opened.append(self._open_device(member, limits))
            return opened[-1]

        try:
            return attend(
                self._roster,
                self._roster.device(member.name),
                open_it,
                lambda: self._make_gold(member, limits),
                limits,
                self._holder,
            )
        finally:
            for device in opened:
                device.close()
