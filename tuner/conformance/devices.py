"""The conformance suite of devices."""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median_low

import pytest

from tuner.conformance.candidates import KERNEL, scale_artifact, scale_problem
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, DeviceError, UserError
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Confirmed,
    Device,
    RunResult,
    Sampled,
    find_kind,
)
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Problem
from tuner.records.outcome import Outcome

BAD = {
    "WRONG_BYTE": Outcome.WRONG_OUTPUT,
    "PAST_THE_END": Outcome.WRONG_OUTPUT,
    "NOTHING_AT_ALL": Outcome.WRONG_OUTPUT,
    "RETURNS_AN_ERROR": Outcome.RUN_ERROR,
    "NULL_STORE": Outcome.RUN_ERROR,
    "RECURSES": Outcome.RUN_ERROR,
    "EXITS": None,
    "TAKES_TOO_MUCH_VTCM": Outcome.INFEASIBLE,
    "HANGS": Outcome.TIMEOUT,
}
"""Behaviours of ``scale_u8.c`` and their outcomes; a system call may be refused before or after it
is made."""


HASTY_S = 4.0
"""The time of each candidate of a bundle, where one of them never ends."""


class DeviceConformance:
    """Inherit it and override :meth:`make`. Candidates are v66 code."""

    deterministic = True
    """Whether the same object gives the same cycles in every run."""
    has_clock = True
    """Whether repeats and references are run, as where no two runs are alike."""

    def make(self, task_s: float) -> Device:
        """A new device for which a candidate may take ``task_s``. The test closes it."""
        raise NotImplementedError

    def leftovers(self) -> Sequence[str]:
        """Processes and files on the device that were not there at first."""
        return ()

    @pytest.fixture(autouse=True)
    def kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNEL)

    @pytest.fixture
    def device(self) -> Iterator[Device]:
        with self.make(task_s=PATIENCE_S) as device:
            yield device

    @pytest.fixture
    def problem(self) -> Problem:
        return scale_problem()

    def entry(self, problem: Problem, behaviour: str = "WELL", *, repeats: int = 1) -> BundleEntry:
        return BundleEntry(problem, scale_artifact(problem, behaviour, ("-fPIC",)), repeats=repeats)

    def results(
        self, device: Device, entries: Sequence[BundleEntry], reference: BundleEntry | None = None
    ) -> list[RunResult]:
        """One result an entry, in as few bundles as the device takes."""
        found: list[RunResult] = []
        for first in range(0, len(entries), device.max_entries):
            bundle = Bundle(entries[first : first + device.max_entries], reference)
            came = device.run(bundle)
            assert len(came) == len(bundle.entries)
            found += came
        return found

    def result(self, device: Device, entry: BundleEntry) -> RunResult:
        return self.results(device, [entry])[0]

    def sampled(self, result: RunResult) -> Sampled:
        assert isinstance(result, Sampled), result
        return result

    def failed(self, result: RunResult) -> CandidateError:
        assert isinstance(result, CandidateError), result
        assert result.message
        return result

    # Who it is, and whether it answers

    def test_it_says_what_it_is(self, device: Device) -> None:
        assert device.name
        assert device.max_entries >= 1
        assert find_kind(device.kind) is type(device)
        for finding in device.doctor():
            assert all((finding.name, finding.found, finding.purpose, finding.remedy))
        assert device.run(Bundle([])) == []

    def test_a_probe_is_answered_with_how_the_device_is(self, device: Device) -> None:
        report = device.probe(secrets.token_hex(8))
        assert report.temperature_c is None or 0 < report.temperature_c < 120
        assert all(isinstance(text, str) and text for text in report.details.values())

    def test_the_fingerprint_is_of_what_decides_the_numbers(self, device: Device) -> None:
        fingerprint = device.fingerprint()
        assert fingerprint
        assert all(isinstance(value, str) and value for value in fingerprint.values())
        assert device.name not in fingerprint.values()
        assert device.fingerprint() == fingerprint

    def test_a_target_it_cannot_run_is_refused_with_those_it_can(self, device: Device) -> None:
        unknown = replace(find_target("hexagon-v66"), name="hexagon-v999", arch="v999")
        with pytest.raises(UserError) as caught:
            device.require(unknown)
        assert "v999" in caught.value.message
        assert "hexagon-v66" in caught.value.accepted
        device.require(find_target("hexagon-v66"))

    def test_every_key_of_its_table_is_explained_and_has_a_sound_default(
        self, device: Device
    ) -> None:
        for key in dataclasses.fields(device.Settings):
            assert key.metadata["help"], key.name
            if "least" in key.metadata and key.default is not dataclasses.MISSING:
                assert key.metadata["least"] <= key.default <= key.metadata["most"], key.name

    # Good candidates

    def test_a_good_candidate_is_verified_and_timed(self, device: Device, problem: Problem) -> None:
        found = self.sampled(self.result(device, self.entry(problem, repeats=3)))
        measurement = found.measurement
        assert measurement.verified
        assert measurement.fidelity == device.fidelity
        assert measurement.device == device.name
        # Byte by byte, 2000 elements.
        assert 2_000 < measurement.cycles < 200_000
        assert len(measurement.samples) == (3 if self.has_clock else 1)
        assert measurement.cycles == median_low(measurement.net_samples)
        assert 50 < measurement.code_bytes < 5_000
        assert found.link_s > 0
        assert found.run_s > 0

    def test_results_come_in_the_order_of_their_entries(
        self, device: Device, problem: Problem
    ) -> None:
        other = scale_problem(h=8)
        entries = [
            self.entry(problem),
            self.entry(problem, "WRONG_BYTE"),
            self.entry(other),
            self.entry(problem, "SLOW"),
            self.entry(problem),
        ]
        good, wrong, twice, slow, again = self.results(device, entries)
        assert self.failed(wrong).outcome is Outcome.WRONG_OUTPUT
        cycles = [self.sampled(one).measurement.cycles for one in (good, twice, slow, again)]
        assert cycles[0] < cycles[1] < cycles[2]
        assert cycles[3] == cycles[0] or not self.deterministic

    def test_the_reference_is_run_next_to_every_entry_where_there_is_a_clock(
        self, device: Device, problem: Problem
    ) -> None:
        entries = [
            self.entry(problem, "SLOW"),
            self.entry(problem, "WRONG_BYTE"),
            self.entry(problem),
        ]
        found = self.results(device, entries, reference=self.entry(problem, repeats=2))
        reference = [list(self.sampled(one).reference_cycles) for one in (found[0], found[2])]
        if not self.has_clock:
            assert reference == [[], []]
            return
        assert all(len(one) >= 2 for one in reference)
        if self.deterministic:
            own = self.sampled(found[2]).measurement.cycles
            assert {cycles for one in reference for cycles in one} == {own}

    # Bad candidates

    @pytest.mark.parametrize("behaviour", BAD)
    def test_a_bad_candidate_loses_only_itself(self, problem: Problem, behaviour: str) -> None:
        entries = [self.entry(problem), self.entry(problem, behaviour), self.entry(problem)]
        expected = BAD[behaviour]
        with self.make(HASTY_S if expected is Outcome.TIMEOUT else PATIENCE_S) as device:
            before, bad, after = self.results(device, entries)
        known = (Outcome.INFEASIBLE, Outcome.RUN_ERROR) if expected is None else (expected,)
        assert self.failed(bad).outcome in known
        cycles = [self.sampled(one).measurement.cycles for one in (before, after)]
        assert cycles[0] == cycles[1] or not self.deterministic

    def test_bad_ones_in_a_row_lose_only_themselves(self, device: Device, problem: Problem) -> None:
        row = ["NULL_STORE", "WELL", "NULL_STORE", "NULL_STORE", "WELL"]
        found = self.results(device, [self.entry(problem, behaviour) for behaviour in row])
        assert [isinstance(one, Sampled) for one in found] == [one == "WELL" for one in row]

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda good: replace(good, symbol="another_name"),
            lambda good: replace(good, files={"object": b""}),
            lambda good: replace(good, files={"object": good.object_bytes[:200]}),
        ],
        ids=["no entry", "empty", "cut short"],
    )
    def test_an_object_that_is_none_is_infeasible(
        self, device: Device, problem: Problem, spoil: Callable[[Artifact], Artifact]
    ) -> None:
        good = self.entry(problem)
        bad = replace(good, artifact=spoil(good.artifact))
        found = self.results(device, [bad, good])
        assert self.failed(found[0]).outcome is Outcome.INFEASIBLE
        assert self.sampled(found[1]).measurement.verified

    def test_a_candidate_beyond_its_budget_is_cut_off(
        self, device: Device, problem: Problem
    ) -> None:
        good = self.sampled(self.result(device, self.entry(problem))).measurement.cycles
        over = replace(self.entry(problem, "SLOW"), budget_cycles=2 * good)
        within = replace(self.entry(problem), budget_cycles=2 * good)
        found = self.results(device, [over, within])
        assert self.failed(found[0]).outcome is Outcome.CUTOFF
        assert self.sampled(found[1]).measurement.cycles <= 2 * good

    def test_what_counts_in_16_bits_is_wrong_on_far_cases_alone(self, device: Device) -> None:
        problem = scale_problem(Contract.NONE)
        narrow = self.entry(problem, "COUNTS_IN_16_BITS")
        assert self.sampled(self.result(device, narrow))
        entries = [self.entry(problem), narrow, self.entry(problem)]
        far = [replace(entry, is_far=True) for entry in entries]
        before, wrong, after = self.results(device, far, reference=self.entry(problem))
        assert self.failed(wrong).outcome is Outcome.WRONG_OUTPUT
        for one in (before, after):
            assert isinstance(one, Confirmed), one
            assert bool(one.reference_cycles) == self.has_clock
        nowhere = replace(self.entry(scale_problem(Contract.STATIC), "WRONG_BYTE"), is_far=True)
        assert self.result(device, nowhere) == Confirmed()

    # What is left, and the end

    def test_nothing_is_left_when_it_was_cleaned(self, problem: Problem) -> None:
        row = ["WELL", "HANGS", "NULL_STORE", "WRONG_BYTE"]
        with self.make(HASTY_S) as device:
            self.results(device, [self.entry(problem, behaviour) for behaviour in row])
            device.clean()
            assert list(self.leftovers()) == []
            device.clean()
            assert self.sampled(self.result(device, self.entry(problem)))

    def test_closing_from_another_thread_ends_a_call_under_way(self, problem: Problem) -> None:
        device = self.make(task_s=2 * PATIENCE_S)
        outcome: list[object] = []

        def hang() -> None:
            try:
                outcome.append(device.run(Bundle([self.entry(problem, "HANGS")])))
            except DeviceError as error:
                outcome.append(error)

        thread = threading.Thread(target=hang)
        thread.start()
        time.sleep(1)  # it has most likely begun; if not, the end is the same
        device.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert isinstance(outcome[0], DeviceError)
        with self.make(PATIENCE_S) as other:  # what the call left behind is for the next to remove
            other.clean()
        assert list(self.leftovers()) == []

    def test_a_closed_device_runs_nothing(self, problem: Problem) -> None:
        device = self.make(PATIENCE_S)
        device.close()
        device.close()
        with pytest.raises(DeviceError):
            device.run(Bundle([self.entry(problem)]))
