"""A bundle of candidates on its way through calls of the driver, and the outcome of each run.

A candidate that dies ends its call; those after it are run by the next. What a bad candidate may
have done to memory is not blamed on another: one that dies after it in the same call runs again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

from tuner.errors import CandidateError, DeviceError
from tuner.measure.cases import cases_of, far_cases_of
from tuner.measure.device import BundleEntry, Confirmed, RunResult, Sampled
from tuner.measure.dsp.queue import CallResult, DspState, QueuedRun, Record
from tuner.measure.dsp.shared_object import shared_object
from tuner.measure.image import Image, ImageCache, failed_call
from tuner.problem.target import Target
from tuner.records.candidate import Fidelity, Measurement
from tuner.records.outcome import Outcome

IMAGES = ImageCache()
"""Shared by all DSPs of a process."""


@dataclass(eq=False)
class PackedEntry:
    """An entry ready to run. ``run`` is ``None`` if it cannot be run at all, ``error`` why not."""

    entry: BundleEntry
    run: QueuedRun | None = None
    error: CandidateError | DeviceError | None = None
    code_bytes: int = 0
    link_s: float = 0.0
    run_s: float = 0.0
    temperature_c: float | None = None
    samples: tuple[int, ...] | None = None
    """None yet while it has not run; of a far run there are none."""
    overhead_cycles: int = 0
    reference_cycles: list[int] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether it has run, or has an error."""
        return self.error is not None or self.samples is not None

    @property
    def image_key(self) -> tuple[str, bool]:
        """Alike for entries that run on the same cases."""
        return self.entry.problem.digest, self.entry.is_far

    @property
    def kept_bytes(self) -> int:
        """Size of the memory it leaves on the device's disk until its call ends."""
        return self.run.image.case_bytes if self.run else 0

    def result(self, device: str, fidelity: Fidelity) -> RunResult:
        """Its result on a ``device`` of this fidelity."""
        if self.error is not None:
            return self.error
        if not self.samples:
            return Confirmed(tuple(self.reference_cycles))
        measurement = Measurement(
            cycles=max(median_low(self.samples) - self.overhead_cycles, 1),
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


def pack(entry: BundleEntry, arch: str, repeats: int) -> PackedEntry:
    """``entry`` linked for a DSP of ``arch``, to be timed ``repeats`` times."""
    begin = time.perf_counter()
    try:
        linked = shared_object(entry.artifact, arch)
    except CandidateError as error:
        return PackedEntry(entry, error=error)
    image = IMAGES.of(entry.problem, cases=far_cases_of if entry.is_far else cases_of)
    if not image.calls:
        return PackedEntry(entry, samples=())
    run = QueuedRun(
        content=linked.content,
        image=image,
        warm_ups=0 if entry.is_far else entry.warm_ups,
        repeats=0 if entry.is_far else repeats,
        budget_cycles=0 if entry.is_far else entry.budget_cycles or 0,
    )
    link_s = time.perf_counter() - begin
    return PackedEntry(entry, run, code_bytes=linked.code_bytes, link_s=link_s)


@dataclass(frozen=True)
class Slot:
    """A run of a call, and the entry it is for: ``None`` for the reference."""

    run: QueuedRun
    packed: PackedEntry | None


def run_packed(
    entries: Sequence[PackedEntry],
    choose: Callable[[list[PackedEntry]], list[Slot]],
    call: Callable[[Sequence[QueuedRun]], CallResult],
    task_s: float,
) -> None:
    """Calls until all of ``entries`` are done; ``choose`` picks those that may share a call.

    ``DeviceError`` if the first call failed as a whole; of a later one, that is the result of
    every entry that was not done.
    """
    has_run = False
    while pending := [one for one in entries if not one.is_done]:
        slots = choose(pending)
        try:
            assign_results(slots, call([slot.run for slot in slots]), task_s)
        except DeviceError as error:
            if not has_run:
                raise
            for one in pending:
                one.error = one.error if one.is_done else error
        has_run = True


def slots_of(entries: Sequence[PackedEntry], reference: QueuedRun | None) -> list[Slot]:
    """The runs of a call: the reference before, between and after the entries.

    It is verified the first time; after that only its time counts.
    """
    own = [Slot(one.run, one) for one in entries if one.run is not None]
    if reference is None:
        return own
    again = Slot(replace(reference, verified=False), None)
    found = [Slot(reference, None)]
    for slot in own:
        found += [slot, again]
    return found


def assign_results(slots: Sequence[Slot], called: CallResult, task_s: float) -> None:
    """Gives every entry of a call its result; those without a fair run get none.

    Raises ``DeviceError`` if no entry got one, or if the reference failed.
    """
    done_before = _done(slots)
    suspect = False
    last_reference: tuple[int, ...] = ()
    for record in called.results.ended:
        slot = slots[record.entry]
        packed = slot.packed
        error = _failure(record, slot, called)
        if packed is None:
            if error is not None and not suspect:
                raise DeviceError(f"the reference candidate failed: {error.message}")
            if error is not None:
                return
            last_reference = record.net_samples
            before = slots[record.entry - 1].packed if record.entry else None
            if before is not None:
                before.reference_cycles += last_reference
            continue
        packed.reference_cycles += last_reference
        packed.run_s = called.run_s / len(slots)
        packed.temperature_c = called.temperature_c
        if error is None:
            packed.samples = record.samples
            packed.overhead_cycles = record.overhead_cycles
        else:
            packed.error = error
            # It may have done harm to what those after it use, unless it was only slow.
            cut_off = isinstance(error, CandidateError) and error.outcome is Outcome.CUTOFF
            suspect |= not cut_off
    if not suspect:
        _assign_interruption(slots, called, task_s)
    if _done(slots) == done_before:
        raise _why_nothing_ran(called)


def _done(slots: Sequence[Slot]) -> int:
    return sum(slot.packed.is_done for slot in slots if slot.packed is not None)


def _failure(record: Record, slot: Slot, called: CallResult) -> CandidateError | DeviceError | None:
    target = slot.packed.entry.problem.target if slot.packed else None
    try:
        check_run(record, slot.run, called, target)
    except (CandidateError, DeviceError) as error:
        return error
    return None


def _assign_interruption(slots: Sequence[Slot], called: CallResult, task_s: float) -> None:
    """For a call that ended in the middle of a run."""
    begun = called.results.begun
    if begun is None:
        return
    packed = slots[begun].packed
    if packed is None:
        raise DeviceError(
            f"the DSP's process ended in the reference candidate (status {called.status})"
        )
    packed.run_s = called.run_s / len(slots)
    if called.timed_out:
        packed.error = CandidateError(Outcome.TIMEOUT, f"still ran after {task_s:g} s")
        return
    said = f": {called.said}" if called.said else ""
    packed.error = CandidateError(
        Outcome.RUN_ERROR, f"the DSP's process died in it (status {called.status}){said}"
    )


def _why_nothing_ran(called: CallResult) -> DeviceError:
    if called.results.gave_up is DspState.NO_MEMORY:
        return DeviceError(
            "the DSP has no memory for what candidates may take",
            next_step="lower heap_bytes of the device in the farm file",
        )
    if called.timed_out:
        return DeviceError("the driver did not begin in time")
    return DeviceError(
        f"the loading tool did not run the driver (status {called.status}): "
        f"{called.said or 'it says nothing'}",
        next_step="run `hvxtune farm check`",
    )


def check_run(record: Record, run: QueuedRun, called: CallResult, target: Target | None) -> None:
    """Returns if the run of ``record`` ended well and every byte it left is right.

    Raises ``CandidateError`` with the outcome if the candidate is at fault, ``DeviceError`` if the
    device is. ``target`` is ``None`` for the reference, which must be good.
    """
    state = DspState(record.state)
    if state is DspState.FINISHED:
        _check_samples(record, run)
        if run.verified:
            _check_memory(record, run.image, called)
    elif state is DspState.CALL_FAILED:
        if target is None:
            raise DeviceError(f"a call returned {record.report.result}")
        if record.vtcm_bytes < target.vtcm_bytes and record.report.vtcm_refused_bytes:
            raise DeviceError(
                f"the device gave {record.vtcm_bytes} of {target.vtcm_bytes} bytes of VTCM",
                next_step="end other users of the DSP",
            )
        raise failed_call(record.report, run.image.cases, target)
    elif state is DspState.UNSTEADY:
        # All of this case's memory came back, before the calls that went another way.
        _refuse_wrong(run.image.difference_in_cases(called.wrong.get(record.entry, b"")))
        raise CandidateError(
            Outcome.RUN_ERROR,
            "left other bytes in a later call on the same inputs: it keeps results between calls",
        )
    elif state is DspState.DAMAGED:
        raise CandidateError(Outcome.RUN_ERROR, "wrote into memory that is not its own")
    elif state is DspState.CUT_OFF:
        least = run.budget_cycles + record.overhead_cycles
        if not record.samples or min(record.samples) <= least or not run.budget_cycles:
            raise DeviceError("a candidate was cut off that was within its budget")
        raise CandidateError(
            Outcome.CUTOFF,
            f"stopped after {len(record.samples)} calls of {min(record.samples):,} cycles or more",
        )
    else:
        raise DeviceError(_FAILURES[state])


_FAILURES = {
    DspState.NOT_LOADED: "the DSP did not load a candidate",
    DspState.NO_MEMORY: "the DSP has no memory for the problem",
    DspState.NO_PROBLEM: "the DSP could not read the problem",
    DspState.NOT_KEPT: "the device could not write a candidate's memory: is its disk full?",
}


def _check_samples(record: Record, run: QueuedRun) -> None:
    if len(record.samples) != run.repeats:
        raise DeviceError(f"{len(record.samples)} of {run.repeats} samples came back")
    if run.repeats and min(record.samples) == 0:
        raise DeviceError("the DSP's clock stands still")


def _check_memory(record: Record, image: Image, called: CallResult) -> None:
    got = called.sums.get(record.entry)
    if got is None:
        raise DeviceError("a candidate's memory did not come back")
    if got == image.expected_digest:
        return
    kept = called.wrong.get(record.entry, b"")
    if len(kept) != image.case_bytes:
        raise DeviceError(f"{len(kept)} of {image.case_bytes} bytes of memory came back")
    refused = record.report.refused_cases
    _refuse_wrong(image.difference_in_cases(kept, refused))
    if not (refused & image.refusable or image.is_tolerant):
        raise DeviceError("the device's sum of a file is not that of its bytes")


def _refuse_wrong(difference: str | None) -> None:
    if difference is not None:
        raise CandidateError(Outcome.WRONG_OUTPUT, difference)
