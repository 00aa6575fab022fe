"""When a device is checked, how, and what follows: the only place that judges devices.

A check asks for a nonce, cleans up, looks for room on the disk, and runs the gold candidate, whose
result is known, and whose time on this device and on those like it. A list of devices is never
asked: it shows those that were there once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_high

from tuner.errors import CandidateError, DeviceError, ToolchainError
from tuner.measure import statistics
from tuner.measure.farm.device import Batch, Device, DeviceReport, Task
from tuner.measure.farm.roster import Roster
from tuner.measure.farm.settings import Limits
from tuner.measure.farm.states import (
    FAULT,
    RECENT_RUNS,
    Checked,
    DeviceRecord,
    DeviceState,
    Purpose,
)

CHECK_LEASE_S = 180.0
"""A check may take so long: a phone that does not answer is waited for several times."""
_LONGEST_WAIT_S = 60.0
_NEWS = 0.05
"""The gold candidate being faster by this share replaces what was known of it."""

MakeGold = Callable[[], Task]


@dataclass(frozen=True)
class Finding:
    """What a check found, and the state that follows."""

    state: DeviceState
    reason: str
    checked: Checked


def is_due(
    record: DeviceRecord, limits: Limits, now: float, devices: Sequence[DeviceRecord] = ()
) -> bool:
    """Whether the device should be checked at ``now``. One that failed is checked ever later, one
    that is slow beside others of ``devices`` at once."""
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
    """What the gold candidate takes on others of ``devices`` with this fingerprint, whose numbers
    are compared with those of ``record``; ``None`` without any that is trusted.

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
    """A device that was slow from its first check on has nothing of its own to be held against."""
    usual = gold_of_others(record, record.fingerprint, devices)
    own = record.gold_cycles
    return usual is not None and own is not None and _slowdown(own, usual) is not None


def _slowdown(cycles: int, usual: int) -> float | None:
    """How many times ``usual`` the gold candidate takes; ``None`` if that is as it should be."""
    found = statistics.throttled([cycles], usual)
    return None if found is None else found.slowdown


def after_fault(record: DeviceRecord, faults: int, reason: str, limits: Limits) -> Finding:
    """What follows from ``faults`` more faults of a device, ``record`` not yet counting them."""
    recent = (record.recent + FAULT * faults)[-RECENT_RUNS:]
    count = recent.count(FAULT)
    if count < limits.faults_to_quarantine:
        return Finding(DeviceState.SUSPECT, reason, Checked())
    why = f"{count} faults in its latest {len(recent)} runs, the last: {reason}"
    return Finding(DeviceState.QUARANTINED, why, Checked())


def attend(
    roster: Roster,
    record: DeviceRecord,
    open_device: Callable[[], Device],
    gold: MakeGold,
    limits: Limits,
    holder: str,
    broken_off: Callable[[], bool] = lambda: False,
) -> DeviceRecord | None:
    """Checks a device under a lease; ``None`` if it is not to be had now.

    ``broken_off`` tells whether the device was closed meanwhile: then a failure says nothing.
    Raises what ``open_device`` raises, ``ToolchainError`` if there is no gold candidate.
    """
    task = gold()
    lease = roster.lease(record.name, holder, Purpose.CHECK, CHECK_LEASE_S)
    if lease is None:
        return None
    try:
        found = examine(open_device(), record, task, limits, roster.devices())
    except BaseException as error:
        failed = Checked(f"the check broke off: {type(error).__name__}", counts=False)
        roster.settle(lease, DeviceState.SUSPECT, failed.failure, checked=failed)
        raise
    if found.checked.failure and broken_off():
        failed = Checked("its check was broken off", counts=False)
        found = Finding(DeviceState.SUSPECT, failed.failure, failed)
    return roster.settle(lease, found.state, found.reason, checked=found.checked)


def examine(
    device: Device,
    record: DeviceRecord,
    gold: Task,
    limits: Limits,
    devices: Sequence[DeviceRecord] = (),
) -> Finding:
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
        # batch leaves none of.
        return _failed(record, DeviceState.SUSPECT, report.room.shortage, report, limits)
    usual = gold_of_others(record, fingerprint, devices)
    known = record.gold_cycles if fingerprint == record.fingerprint else None
    if known is not None and usual is not None and _slowdown(known, usual) is not None:
        known = None  # what it took at its slowest is no measure
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
    return Finding(DeviceState.READY, "passed its check", checked)


def _gold_cycles(device: Device, gold: Task) -> int:
    """What the gold candidate takes there; ``DeviceError`` if that is not right."""
    results = device.run(Batch([gold]))
    if len(results) != 1:
        raise DeviceError(f"{len(results)} results for one gold candidate")
    result = results[0]
    if isinstance(result, CandidateError):
        raise DeviceError(f"the gold candidate came to {result.outcome}: {result.message}")
    if isinstance(result, DeviceError):
        raise result
    if not result.measurement.verified:
        raise DeviceError("the gold candidate's output was not verified")
    return result.measurement.cycles


def _against(known: int | None, usual: int | None, cycles: int, device: Device) -> str:
    """What is wrong with the gold candidate's time, ``known`` of this device and ``usual`` on
    others like it; empty if nothing is."""
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
) -> Finding:
    checked = Checked(failure, counts, report.temperature_c, details=dict(report.details))
    failures = record.failed_checks + counts
    if counts and state is DeviceState.SUSPECT and failures >= limits.checks_to_quarantine:
        why = f"{failures} checks failed in a row, the last: {failure}"
        return Finding(DeviceState.QUARANTINED, why, checked)
    return Finding(state, failure, checked)
