"""Candidates that wait to be measured: which device may take which, and the review of results."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from tuner.errors import CandidateError, DeviceError, HvxtuneError
from tuner.measure import statistics
from tuner.measure.device import BundleEntry, Confirmed, Limits, RunResult, Sampled
from tuner.measure.farm.roster import DeviceRecord
from tuner.measure.measurer import DEVICE_ATTEMPTS, Timed
from tuner.records.candidate import Artifact, Measurement, Problem
from tuner.records.outcome import Outcome


class Availability(Enum):
    """The use that a device has for the items of this process."""

    SERVING = auto()
    ELSEWHERE = auto()
    """Somebody else holds it; its turn will come."""
    CHECKED = auto()
    """A check is under way; the first takes long where parts have to be built."""
    AWAITED = auto()
    """Suspect, offline or drained: it may come back."""
    OUT = auto()


@dataclass(eq=False)
class WorkItem:
    """One candidate on its way to a measurement.

    ``avoid`` names devices that failed or condemned it, ``condemned`` who did so first, and
    ``samples`` what ``sampled_on`` gave so far.
    """

    problem: Problem
    artifact: Artifact
    budget_cycles: int | None
    repeats: int
    is_far: bool = False
    future: Future[Timed | Confirmed] = field(default_factory=Future)
    attempts: int = 0
    avoid: set[str] = field(default_factory=set)
    condemned: tuple[str, CandidateError] | None = None
    samples: list[int] = field(default_factory=list)
    sampled_on: str | None = None
    link_s: float = 0.0
    run_s: float = 0.0
    since: float = 0.0
    """When it began to wait, by the monotonic clock."""

    def entry(self) -> BundleEntry:
        """The request to a device."""
        return BundleEntry(
            self.problem,
            self.artifact,
            warm_ups=1,
            repeats=self.repeats,
            budget_cycles=self.budget_cycles,
            is_far=self.is_far,
        )


class WorkQueue:
    """Orders and the availability of every device, for all threads of one measurer.

    After ``patience_s`` an item stops waiting for a device that is better suited.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._waiting: deque[WorkItem] = deque()
        self._availabilities: dict[str, Availability] = {}
        self._changed = threading.Condition()
        self._end: HvxtuneError | None = None
        self._served_at = time.monotonic()

    def put(self, item: WorkItem) -> None:
        """Lets an item wait. If all is over it ends at once."""
        with self._changed:
            item.since = time.monotonic()
            if self._end is None:
                self._waiting.append(item)
                self._changed.notify_all()
                return
        item.future.set_exception(self._end)

    def again(self, items: list[WorkItem]) -> None:
        """Puts items back, before all others."""
        for item in reversed(items):
            with self._changed:
                item.since = time.monotonic()
                if self._end is None:
                    self._waiting.appendleft(item)
                    self._changed.notify_all()
                    continue
            item.future.set_exception(self._end)

    def failed(self, item: WorkItem, device: str, error: DeviceError) -> None:
        """Notes that ``device`` did not give an item a fair run. It is tried elsewhere, then
        ends with the error; if the fault is not the device's, it is tried anywhere again."""
        if error.attempts:
            item.attempts += 1
            item.avoid.add(device)
        if item.attempts < DEVICE_ATTEMPTS:
            self.again([item])
        else:
            item.future.set_exception(DeviceError(error.message, attempts=DEVICE_ATTEMPTS))

    def take(self, device: str, most: int, wait_s: float) -> list[WorkItem]:
        """At most ``most`` items for ``device``, after at most ``wait_s`` seconds.

        A device leaves as much to others that serve. What failed before goes alone: it may be
        what made the others of its bundle fail.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            while not (mine := [o for o in self._waiting if self._may_take(o, device)]):
                left = deadline - time.monotonic()
                if self._end is not None or left <= 0:
                    return []
                self._changed.wait(left)
            if mine[0].attempts:
                taken = mine[:1]
            else:
                serving = sum(s is Availability.SERVING for s in self._availabilities.values())
                share = math.ceil(len(self._waiting) / max(1, serving))
                taken = [o for o in mine if not o.attempts][: min(most, share)]
            for item in taken:
                self._waiting.remove(item)
            return taken

    def _may_take(self, item: WorkItem, device: str) -> bool:
        if time.monotonic() - item.since > self._patience_s:
            return True
        others = {
            name
            for name, availability in self._availabilities.items()
            if name != device and availability is not Availability.OUT
        }
        if device in item.avoid:
            return not (others - item.avoid)
        return item.sampled_on in (None, device) or item.sampled_on not in others

    def set_availability(self, device: str, availability: Availability) -> None:
        """Notes the availability of a device."""
        with self._changed:
            if self._availabilities.get(device) is not availability:
                self._availabilities[device] = availability
                self._changed.notify_all()

    def waits_in_vain_s(self) -> float:
        """For how long items have waited without any device to serve them; infinite if none will.

        0 while there is nothing to do.
        """
        with self._changed:
            now = time.monotonic()
            availabilities = set(self._availabilities.values())
            if not self._waiting or availabilities & {Availability.SERVING, Availability.ELSEWHERE}:
                self._served_at = now
                return 0.0
            if Availability.CHECKED in availabilities:
                return 0.0
            return now - self._served_at if Availability.AWAITED in availabilities else math.inf

    def end(self, error: HvxtuneError, *, for_good: bool = False) -> None:
        """Ends every item that waits with ``error``, and with ``for_good`` those to come."""
        with self._changed:
            waiting, self._waiting = list(self._waiting), deque()
            if for_good:
                self._end = error
            self._changed.notify_all()
        for item in waiting:
            item.future.set_exception(error)


_DOUBTED = frozenset({Outcome.WRONG_OUTPUT, Outcome.RUN_ERROR, Outcome.TIMEOUT})
"""Outcomes that a bad device can make of a good candidate."""

STEADY = 0.10
"""An interval of the median that is wider than this share of it is not believed yet."""


@dataclass(frozen=True)
class Blame:
    """A device that gave a good candidate a bad name."""

    device: str
    reason: str


class ResultReview:
    """Reviews the results of one measurer's items. Safe from several threads.

    Outputs are verified wherever they were made, so a good result counts at once. A bad one from
    a device with noise, or one with a fault behind it, counts when a second device agrees: a bad
    device must not condemn good candidates. Where a second one says that the candidate is good,
    the first is to blame.
    """

    def __init__(self, queue: WorkQueue, limits: Limits) -> None:
        self._queue = queue
        self._limits = limits
        self._lock = threading.Lock()
        self._best: dict[str, float] = {}

    def throttled(self, results: list[RunResult], record: DeviceRecord) -> str:
        """Why the times of a bundle must not be used; empty if they may."""
        if record.fidelity != "hardware" or record.gold_cycles is None:
            return ""
        good = [one for one in results if isinstance(one, Sampled | Confirmed)]
        reference = [cycles for one in good for cycles in one.reference_cycles]
        # Few samples of a noisy phone drift by chance: as far as they may be off, and no less.
        found = statistics.throttled(
            reference, record.gold_cycles, drift_limit=statistics.THROTTLED_AT
        )
        return "" if found is None else f"throttled: {found.reason}"

    def apply(
        self, items: list[WorkItem], results: list[RunResult], record: DeviceRecord
    ) -> list[Blame]:
        """Ends items or puts them back, by what the device of ``record`` made of them."""
        timed_next_to = any(isinstance(one, Sampled | Confirmed) for one in results)
        blames: list[Blame] = []
        again: list[WorkItem] = []
        for item, result in zip(items, results, strict=True):
            if isinstance(result, DeviceError):
                self._queue.failed(item, record.name, result)
            elif isinstance(result, CandidateError):
                if item.condemned is None and self._doubtful(result, record, timed_next_to):
                    item.condemned = (record.name, result)
                    item.avoid.add(record.name)
                    again.append(item)
                else:
                    item.future.set_exception(result)
            else:
                if item.condemned is not None:
                    blames.append(_blame(item.condemned, record.name))
                if isinstance(result, Confirmed):
                    item.future.set_result(result)
                elif self._take(item, result, record):
                    again.append(item)
        self._queue.again(again)
        return blames

    def _doubtful(self, error: CandidateError, record: DeviceRecord, timed_next_to: bool) -> bool:
        noisy = record.fidelity == "hardware"
        if error.outcome is Outcome.CUTOFF:
            # Too slow for its budget: or is the device? With others in the bundle the reference
            # has told.
            return noisy and not timed_next_to
        return error.outcome in _DOUBTED and (noisy or record.recent_faults > 0)

    def _take(self, item: WorkItem, sampled: Sampled, record: DeviceRecord) -> bool:
        """Adds samples to an item; whether it needs more of them. Else it ends."""
        measured = sampled.measurement
        if item.sampled_on != record.name:  # samples of two devices are not one distribution
            item.samples, item.sampled_on = [], record.name
        item.condemned = None
        item.samples += measured.samples or (measured.cycles,)
        item.link_s += sampled.link_s
        item.run_s += sampled.run_s
        if record.fidelity == "hardware":
            more = self._more_repeats(item)
            if more:
                item.repeats = more
                return True
            measured = self._of_all(item, measured)
        item.future.set_result(Timed(measured, item.link_s, item.run_s))
        return False

    def _more_repeats(self, item: WorkItem) -> int:
        """How many more samples to take: until it can be told from the best, and is steady."""
        most = self._limits.most_repeats
        best = self._best.get(item.problem.digest)
        more = statistics.more_repeats(item.samples, best, most=most)
        if more:
            return more
        found = statistics.summarize(item.samples)
        steady = found.interval.high - found.interval.low <= STEADY * found.median
        return 0 if steady else min(found.count, max(0, most - found.count))

    def _of_all(self, item: WorkItem, last: Measurement) -> Measurement:
        middle = round(statistics.median(item.samples))
        with self._lock:
            best = self._best.get(item.problem.digest)
            if best is None or middle < best:
                self._best[item.problem.digest] = middle
        cycles = max(middle - (last.overhead_cycles or 0), 1)
        if cycles == last.cycles:
            return replace(last, samples=tuple(item.samples))
        # Parts of another run's cycles would not add up to these.
        return replace(
            last,
            cycles=cycles,
            samples=tuple(item.samples),
            stalls=None if last.packets is None else max(cycles - last.packets, 0),
            breakdown={},
        )


def _blame(condemned: tuple[str, CandidateError], by: str) -> Blame:
    device, error = condemned
    return Blame(device, f"{error.outcome} for a candidate that {by} verified: {error.message}")
