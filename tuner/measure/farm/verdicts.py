"""What a device's answer to an order is worth: a result, a doubt, or reason for more samples."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from tuner.errors import CandidateError, DeviceError
from tuner.measure import statistics
from tuner.measure.farm.device import Sampled
from tuner.measure.farm.orders import Order, OrderQueue
from tuner.measure.farm.settings import Limits
from tuner.measure.farm.states import DeviceRecord
from tuner.measure.measurer import Timed
from tuner.records.candidate import Measurement
from tuner.records.outcome import Outcome

_DOUBTED = frozenset({Outcome.WRONG_OUTPUT, Outcome.RUN_ERROR, Outcome.TIMEOUT})
"""Outcomes that a bad device can make of a good candidate."""

STEADY = 0.10
"""An interval of the median that is wider than this share of it is not believed yet."""
Result = Sampled | CandidateError | DeviceError


@dataclass(frozen=True)
class Blame:
    """A device that gave a good candidate a bad name."""

    device: str
    reason: str


class Judge:
    """Settles orders of one measurer. Safe from several threads.

    Outputs are verified wherever they were made, so a good result counts at once. A bad one from
    a device with noise, or one with a fault behind it, counts when a second device agrees: a bad
    device must not condemn good candidates. Where a second one says that the candidate is good,
    the first is to blame.
    """

    def __init__(self, queue: OrderQueue, limits: Limits) -> None:
        self._queue = queue
        self._limits = limits
        self._lock = threading.Lock()
        self._best: dict[str, float] = {}

    def throttled(self, results: list[Result], record: DeviceRecord) -> str:
        """Why the times of a batch must not be used; empty if they may."""
        if record.fidelity != "hardware" or record.gold_cycles is None:
            return ""
        reference = [c for one in results if isinstance(one, Sampled) for c in one.reference_cycles]
        # Few samples of a noisy phone drift by chance: as far as they may be off, and no less.
        found = statistics.throttled(
            reference, record.gold_cycles, drift_limit=statistics.THROTTLED_AT
        )
        return "" if found is None else f"throttled: {found.reason}"

    def settle(
        self, orders: list[Order], results: list[Result], record: DeviceRecord
    ) -> list[Blame]:
        """Ends orders or puts them back, by what the device of ``record`` made of them."""
        timed_next_to = any(isinstance(one, Sampled) for one in results)
        blames: list[Blame] = []
        again: list[Order] = []
        for order, result in zip(orders, results, strict=True):
            if isinstance(result, DeviceError):
                self._queue.failed(order, record.name, result)
            elif isinstance(result, CandidateError):
                if order.condemned is None and self._doubtful(result, record, timed_next_to):
                    order.condemned = (record.name, result)
                    order.avoid.add(record.name)
                    again.append(order)
                else:
                    order.future.set_exception(result)
            else:
                if order.condemned is not None:
                    blames.append(_blame(order.condemned, record.name))
                if self._take(order, result, record):
                    again.append(order)
        self._queue.again(again)
        return blames

    def _doubtful(self, error: CandidateError, record: DeviceRecord, timed_next_to: bool) -> bool:
        noisy = record.fidelity == "hardware"
        if error.outcome is Outcome.CUTOFF:
            # Too slow for its budget: or is the device? With others in the batch the reference
            # has told.
            return noisy and not timed_next_to
        return error.outcome in _DOUBTED and (noisy or record.recent_faults > 0)

    def _take(self, order: Order, sampled: Sampled, record: DeviceRecord) -> bool:
        """Adds samples to an order; whether it needs more of them. Else it ends."""
        measured = sampled.measurement
        if order.sampled_on != record.name:  # samples of two devices are not one distribution
            order.samples, order.sampled_on = [], record.name
        order.condemned = None
        order.samples += measured.samples or (measured.cycles,)
        order.link_s += sampled.link_s
        order.run_s += sampled.run_s
        if record.fidelity == "hardware":
            more = self._more_repeats(order)
            if more:
                order.repeats = more
                return True
            measured = self._of_all(order, measured)
        order.future.set_result(Timed(measured, order.link_s, order.run_s))
        return False

    def _more_repeats(self, order: Order) -> int:
        """How many more samples to take: until it can be told from the best, and is steady."""
        most = self._limits.most_repeats
        best = self._best.get(order.problem.digest)
        more = statistics.more_repeats(order.samples, best, most=most)
        if more:
            return more
        found = statistics.summarize(order.samples)
        steady = found.interval.high - found.interval.low <= STEADY * found.median
        return 0 if steady else min(found.count, max(0, most - found.count))

    def _of_all(self, order: Order, last: Measurement) -> Measurement:
        middle = round(statistics.median(order.samples))
        with self._lock:
            best = self._best.get(order.problem.digest)
            if best is None or middle < best:
                self._best[order.problem.digest] = middle
        cycles = max(middle - (last.overhead_cycles or 0), 1)
        if cycles == last.cycles:
            return replace(last, samples=tuple(order.samples))
        # Parts of another run's cycles would not add up to these.
        return replace(
            last,
            cycles=cycles,
            samples=tuple(order.samples),
            stalls=None if last.packets is None else max(cycles - last.packets, 0),
            breakdown={},
        )


def _blame(condemned: tuple[str, CandidateError], by: str) -> Blame:
    device, error = condemned
    return Blame(device, f"{error.outcome} for a candidate that {by} verified: {error.message}")
