"""Who is blamed for what in a call that carries many candidates."""

from __future__ import annotations

import pytest

from tuner.conformance.candidates import scale_artifact, scale_problem
from tuner.errors import CandidateError, DeviceError
from tuner.measure.cases import cases_of
from tuner.measure.device import BundleEntry, Sampled
from tuner.measure.dsp.bundle import PackedEntry, assign_results, slots_of
from tuner.measure.dsp.queue import CallResult, DspState, Kind, Power, QueuedRun, Record, Results
from tuner.measure.image import Report, image_of
from tuner.records.candidate import Measurement
from tuner.records.outcome import Outcome


@pytest.fixture(scope="module")
def run(private_state: None) -> QueuedRun:
    problem = scale_problem()
    image = image_of(cases_of(problem), problem.target)
    return QueuedRun(b"object", image, warm_ups=1, repeats=2)


@pytest.fixture(scope="module")
def entry(private_state: None) -> BundleEntry:
    problem = scale_problem()
    return BundleEntry(problem, scale_artifact(problem), repeats=2)


def ended(
    entry: int, state: DspState = DspState.FINISHED, samples: tuple[int, ...] = (10, 12)
) -> Record:
    samples = samples if state is DspState.FINISHED else ()
    return Record(Kind.ENTRY_ENDS, entry, state, 0, Report(0, -1, 0, 0, ""), samples)


def called(
    run: QueuedRun,
    *records: Record,
    begun: int | None = None,
    complete: bool = True,
    gave_up: DspState | None = None,
    timed_out: bool = False,
) -> CallResult:
    return CallResult(
        results=Results(records, begun, complete and begun is None, gave_up, power=Power(0)),
        sums={record.entry: run.image.expected_digest for record in records},
        wrong={},
        status=0 if complete else 13,
        said="",
        timed_out=timed_out,
        temperature_c=40.0,
        run_s=0.5,
    )


def packed(entry: BundleEntry, run: QueuedRun, count: int) -> list[PackedEntry]:
    return [PackedEntry(entry, run) for _ in range(count)]


def outcome(packed: PackedEntry) -> Outcome | str | None:
    error = packed.error
    if isinstance(error, CandidateError):
        return error.outcome
    return "device" if error else ("ok" if packed.samples else None)


def test_good_candidates_get_their_samples_and_the_median(
    entry: BundleEntry, run: QueuedRun
) -> None:
    both = packed(entry, run, 2)
    assign_results(slots_of(both, None), called(run, ended(0), ended(1, samples=(9, 7))), 60)
    result = both[1].result("phone", "hardware")
    assert isinstance(result, Sampled)
    measurement = result.measurement
    assert isinstance(measurement, Measurement)
    assert (measurement.cycles, measurement.samples, measurement.device) == (7, (9, 7), "phone")
    assert (measurement.verified, measurement.packets) == (True, None)
    assert measurement.temperature_c == 40.0


def test_the_reference_runs_before_between_and_after(entry: BundleEntry, run: QueuedRun) -> None:
    both = packed(entry, run, 2)
    places = slots_of(both, run)
    assert [place.packed for place in places] == [None, both[0], None, both[1], None]
    assert [place.run.verified for place in places] == [True, True, False, True, False]
    times = [(1, 2), (10, 11), (3, 4), (10, 11), (5, 6)]
    assign_results(places, called(run, *(ended(n, samples=t) for n, t in enumerate(times))), 60)
    assert both[0].reference_cycles == [1, 2, 3, 4]
    assert both[1].reference_cycles == [3, 4, 5, 6]


def test_a_candidate_that_dies_loses_itself_and_those_behind_it_wait(
    entry: BundleEntry, run: QueuedRun
) -> None:
    three = packed(entry, run, 3)
    assign_results(slots_of(three, None), called(run, ended(0), begun=1, complete=False), 60)
    assert [outcome(one) for one in three] == ["ok", Outcome.RUN_ERROR, None]


@pytest.mark.parametrize(
    "failed",
    [{"begun": 0}, {"records": [(0, DspState.FINISHED), (1, DspState.FINISHED)], "begun": 2}],
)
def test_a_reference_that_fails_is_the_phones_fault(
    entry: BundleEntry, run: QueuedRun, failed: dict[str, object]
) -> None:
    one = packed(entry, run, 1)
    records = [ended(*record) for record in failed.get("records", [])]  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="reference"):
        assign_results(
            slots_of(one, run),
            called(run, *records, begun=failed.get("begun"), complete=False),  # type: ignore[arg-type]
            60,
        )


@pytest.mark.parametrize(
    ("gave_up", "timed_out", "says"),
    [(None, True, "in time")],
)
def test_a_driver_that_does_not_run_is_the_phones_fault(
    entry: BundleEntry, run: QueuedRun, gave_up: DspState | None, timed_out: bool, says: str
) -> None:
    nothing = called(run, complete=False, gave_up=gave_up, timed_out=timed_out)
    with pytest.raises(DeviceError, match=says):
        assign_results(slots_of(packed(entry, run, 1), None), nothing, 60)


def test_a_stopped_clock_and_missing_samples_are_the_phones_fault(
    entry: BundleEntry, run: QueuedRun
) -> None:
    two = packed(entry, run, 2)
    assign_results(
        slots_of(two, None), called(run, ended(0, samples=(0, 5)), ended(1, samples=(5,))), 60
    )
    assert [outcome(one) for one in two] == ["device", "device"]


def test_wrong_memory_is_a_wrong_output_with_its_place(entry: BundleEntry, run: QueuedRun) -> None:
    kept = bytearray(run.image.after[run.image.parts_offset :].tobytes())
    kept[run.image.outputs[0][0] + 7] ^= 1
    one = packed(entry, run, 1)
    found = called(run, ended(0))
    assign_results(
        slots_of(one, None),
        CallResult(**{**vars(found), "sums": {0: "f" * 64}, "wrong": {0: bytes(kept)}}),
        60,
    )
    assert outcome(one[0]) == Outcome.WRONG_OUTPUT
    assert "output[0, 7]" in str(one[0].error)
