"""A batch on its way through calls of the phone's tool: who is in which call, who came to what.

A candidate that dies ends its call; those after it are run by the next. What a bad candidate may
have done to memory is not blamed on another: one that dies after it in the same call runs again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

from tuner.errors import CandidateError, DeviceError
from tuner.measure.dsp.problem_image import IMAGES
from tuner.measure.dsp.results import DspState, Record
from tuner.measure.dsp.shared_object import shared_object
from tuner.measure.dsp.turn import Called, Turn
from tuner.measure.dsp.verdict import judge, stopped
from tuner.measure.farm.device import Sampled, Task
from tuner.records.candidate import Fidelity, Measurement
from tuner.records.outcome import Outcome


@dataclass(eq=False)
class Passenger:
    """A task on its way. ``turn`` is ``None`` if it cannot be run at all, ``error`` why not."""

    task: Task
    turn: Turn | None = None
    error: CandidateError | DeviceError | None = None
    code_bytes: int = 0
    link_s: float = 0.0
    run_s: float = 0.0
    temperature_c: float | None = None
    samples: tuple[int, ...] = ()
    overhead_cycles: int = 0
    reference_cycles: list[int] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """It has samples, or an error."""
        return self.error is not None or bool(self.samples)

    @property
    def kept_bytes(self) -> int:
        """What it leaves on the phone's disk until its call ends."""
        return self.turn.image.kept_bytes if self.turn else 0

    def result(self, device: str, fidelity: Fidelity) -> Sampled | CandidateError | DeviceError:
        """What the farm gets of a ``device`` of this fidelity."""
        if self.error is not None:
            return self.error
        cycles = max(median_low(self.samples) - self.overhead_cycles, 1)
        measurement = Measurement(
            cycles=cycles,
            packets=None,
            stalls=None,
            verified=True,
            fidelity=fidelity,
            device=device,
            samples=self.samples,
            overhead_cycles=self.overhead_cycles,
            code_bytes=self.code_bytes,
            temperature_c=self.temperature_c,
        )
        return Sampled(measurement, tuple(self.reference_cycles), self.link_s, self.run_s)


def boarding(task: Task, arch: str, repeats: int) -> Passenger:
    """``task`` linked for a DSP of ``arch``, to be timed ``repeats`` times."""
    begin = time.perf_counter()
    try:
        linked = shared_object(task.artifact, arch)
    except CandidateError as error:
        return Passenger(task, error=error)
    turn = Turn(
        content=linked.content,
        image=IMAGES.of(task.problem),
        warm_ups=task.warm_ups,
        repeats=repeats,
        budget_cycles=task.budget_cycles or 0,
    )
    link_s = time.perf_counter() - begin
    return Passenger(task, turn, code_bytes=linked.code_bytes, link_s=link_s)


def carry(
    passengers: Sequence[Passenger],
    choose: Callable[[list[Passenger]], list[Seat]],
    call: Callable[[Sequence[Turn]], Called],
    task_s: float,
) -> None:
    """Calls until all of ``passengers`` are settled; ``choose`` seats those that may go together.

    ``DeviceError`` if the first call failed as a whole; of those after it, it is the result of
    whoever was not settled yet.
    """
    ran = False
    while pending := [one for one in passengers if not one.settled]:
        places = choose(pending)
        try:
            settle(places, call([seat.turn for seat in places]), task_s)
        except DeviceError as error:
            if not ran:
                raise
            for one in pending:
                one.error = one.error if one.settled else error
        ran = True


@dataclass(frozen=True)
class Seat:
    """A turn of a call, and whose it is: a passenger's, or the reference's (``None``)."""

    turn: Turn
    passenger: Passenger | None


def seats(passengers: Sequence[Passenger], reference: Turn | None) -> list[Seat]:
    """The turns of a call: the reference before, between and after the passengers.

    It is verified the first time; after that only its time counts.
    """
    taken = [Seat(one.turn, one) for one in passengers if one.turn is not None]
    if reference is None:
        return taken
    again = Seat(replace(reference, verified=False), None)
    found = [Seat(reference, None)]
    for seat in taken:
        found += [seat, again]
    return found


def settle(places: Sequence[Seat], called: Called, task_s: float) -> None:
    """Gives every passenger of a call what it came to; those without a fair run get nothing.

    Raises ``DeviceError`` if nobody got anything, or if the reference failed.
    """
    settled_before = sum(_settled(places))
    suspect = False
    last_reference: tuple[int, ...] = ()
    for record in called.results.ended:
        seat = places[record.entry]
        error = _failure(record, seat, called)
        if seat.passenger is None:
            if error is not None and not suspect:
                raise DeviceError(f"the reference candidate failed: {error.message}")
            if error is not None:
                return
            last_reference = record.net_samples
            _tell(places, record, last_reference)
            continue
        seat.passenger.reference_cycles += last_reference
        seat.passenger.run_s = called.run_s / len(places)
        seat.passenger.temperature_c = called.temperature_c
        if error is None:
            seat.passenger.samples = record.samples
            seat.passenger.overhead_cycles = record.overhead_cycles
        else:
            seat.passenger.error = error
            suspect |= _may_have_done_harm(error)
    _blame(places, called, suspect, task_s)
    if sum(_settled(places)) == settled_before:
        raise _why_nothing_ran(called)


def _settled(places: Sequence[Seat]) -> list[bool]:
    return [seat.passenger.settled for seat in places if seat.passenger is not None]


def _failure(record: Record, seat: Seat, called: Called) -> CandidateError | DeviceError | None:
    task = seat.passenger.task if seat.passenger else None
    try:
        judge(record, seat.turn, called, task.problem.target if task else None)
    except (CandidateError, DeviceError) as error:
        return error
    return None


def _tell(places: Sequence[Seat], record: Record, samples: tuple[int, ...]) -> None:
    """The passenger before the reference's turn hears of it; the one after does later."""
    before = places[record.entry - 1].passenger if record.entry else None
    if before is not None:
        before.reference_cycles += samples


def _may_have_done_harm(error: CandidateError | DeviceError) -> bool:
    return not (isinstance(error, CandidateError) and error.outcome is Outcome.CUTOFF)


def _blame(places: Sequence[Seat], called: Called, suspect: bool, task_s: float) -> None:
    """For a call that ended in the middle of a turn."""
    begun = called.results.begun
    if begun is None or suspect:
        return
    passenger = places[begun].passenger
    if passenger is None:
        raise DeviceError(
            f"the DSP's process ended in the reference candidate (status {called.status})"
        )
    passenger.run_s = called.run_s / len(places)
    passenger.error = stopped(called, task_s)


def _why_nothing_ran(called: Called) -> DeviceError:
    results = called.results
    if results.gave_up is DspState.NO_MEMORY:
        return DeviceError(
            "the DSP has no memory for what candidates may take",
            next_step="lower heap_bytes of the phone in the farm file",
        )
    if called.timed_out:
        return DeviceError("the driver did not begin in time")
    return DeviceError(
        f"the loading tool did not run the driver (status {called.status}): "
        f"{called.said or 'it says nothing'}",
        next_step="run `hvxtune farm check`",
    )
