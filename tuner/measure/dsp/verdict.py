"""What a turn on a phone came to: good samples, or the outcome the candidate has earned."""

from __future__ import annotations

from tuner.errors import CandidateError, DeviceError
from tuner.measure.dsp.results import DspState, Record
from tuner.measure.dsp.turn import Called, Turn
from tuner.measure.failed_call import failed_call
from tuner.problem.target import Target
from tuner.records.outcome import Outcome


def judge(record: Record, turn: Turn, called: Called, target: Target | None) -> None:
    """Returns if the turn of ``record`` ended well and every byte it left is right.

    Raises ``CandidateError`` with the outcome if the candidate is at fault, ``DeviceError`` if the
    phone is. ``target`` is ``None`` for the reference, of which nothing but goodness is expected.
    """
    state = DspState(record.state)
    if state is DspState.FINISHED:
        _check_samples(record, turn)
        if turn.verified:
            _check_memory(record, turn, called)
    elif state is DspState.CALL_FAILED:
        if target is None:
            raise DeviceError(f"a call returned {record.report.result}")
        if record.vtcm_bytes < target.vtcm_bytes and record.report.vtcm_refused_bytes:
            raise DeviceError(
                f"the phone gave {record.vtcm_bytes} of {target.vtcm_bytes} bytes of VTCM",
                next_step="end other users of the DSP",
            )
        raise failed_call(record.report, turn.image.image.cases, target)
    elif state is DspState.UNSTEADY:
        # All of this case's memory came back, before the calls that went another way.
        _refuse_wrong(turn.image.difference(called.wrong.get(record.entry, b"")))
        raise CandidateError(
            Outcome.RUN_ERROR,
            "left other bytes in a later call on the same inputs: it keeps results between calls",
        )
    elif state is DspState.DAMAGED:
        raise CandidateError(Outcome.RUN_ERROR, "wrote into memory that is not its own")
    elif state is DspState.CUT_OFF:
        _check_cut_off(record, turn)
        raise CandidateError(
            Outcome.CUTOFF,
            f"stopped after {len(record.samples)} calls of {min(record.samples)} cycles or more",
        )
    else:
        raise DeviceError(_FAILURES[state])


_FAILURES = {
    DspState.NOT_LOADED: "the DSP did not load a candidate",
    DspState.NO_MEMORY: "the DSP has no memory for the problem",
    DspState.NO_PROBLEM: "the DSP could not read the problem",
    DspState.NOT_KEPT: "the phone could not write what a candidate left: is its disk full?",
}


def _check_samples(record: Record, turn: Turn) -> None:
    if len(record.samples) != turn.repeats:
        raise DeviceError(f"{len(record.samples)} of {turn.repeats} samples came back")
    if turn.repeats and min(record.samples) == 0:
        raise DeviceError("the DSP's clock stands still")


def _check_cut_off(record: Record, turn: Turn) -> None:
    least = turn.budget_cycles + record.overhead_cycles
    if not record.samples or min(record.samples) <= least or not turn.budget_cycles:
        raise DeviceError("a candidate was cut off that was within its budget")


def _check_memory(record: Record, turn: Turn, called: Called) -> None:
    got = called.sums.get(record.entry)
    if got is None:
        raise DeviceError("what a candidate left did not come back")
    if got == turn.image.expected:
        return
    kept = called.wrong.get(record.entry, b"")
    if len(kept) != turn.image.kept_bytes:
        raise DeviceError(f"{len(kept)} of {turn.image.kept_bytes} bytes of memory came back")
    refused = record.report.refused_cases
    _refuse_wrong(turn.image.difference(kept, refused))
    if not refused & turn.image.refusable:
        raise DeviceError("the phone's sum of a file is not that of its bytes")


def _refuse_wrong(difference: str | None) -> None:
    if difference is not None:
        raise CandidateError(Outcome.WRONG_OUTPUT, difference)


def stopped(called: Called, task_s: float) -> CandidateError:
    """For the candidate that was under way when the run ended."""
    if called.timed_out:
        return CandidateError(Outcome.TIMEOUT, f"still ran after {task_s:g} s")
    said = f": {called.said}" if called.said else ""
    return CandidateError(
        Outcome.RUN_ERROR, f"the DSP's process died in it (status {called.status}){said}"
    )
