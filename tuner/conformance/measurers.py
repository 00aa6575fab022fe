"""The conformance suite of measurers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.conformance.candidates import KERNEL, scale_artifact, scale_problem
from tuner.errors import CandidateError, UserError
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure import Measurer
from tuner.problem.contract import Contract
from tuner.problem.objectives import figures_of
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Measurement, Problem
from tuner.records.outcome import Outcome


class MeasurerConformance:
    """Inherit it and override :meth:`measurer` and :meth:`hasty_measurer`.

    Override the flags below where the measurer differs. Candidates are v66 code.
    """

    deterministic = True
    """Whether the same object gives the same cycles in every run."""
    flags: tuple[str, ...] = ()
    """Compiler options that candidates need to run on it."""
    counts_packets = True
    """Whether it tells packets, stalls and where the cycles go."""
    refuses_system_calls = False
    """Whether code with system calls is refused before it runs."""
    knows_every_instruction = True
    """Whether it tells an instruction there is not from another crash."""

    @pytest.fixture(autouse=True)
    def kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNEL)

    @pytest.fixture
    def measurer(self) -> Iterator[Measurer]:
        """Its runs may take ``tuner.conformance.patience.PATIENCE_S``: the machine may be busy."""
        raise NotImplementedError

    @pytest.fixture
    def hasty_measurer(self, measurer: Measurer) -> Measurer:
        """One whose runs time out after a few seconds, for candidates that never end."""
        return measurer

    @pytest.fixture
    def problem(self) -> Problem:
        return scale_problem()

    def artifact(self, problem: Problem, behaviour: str = "WELL") -> Artifact:
        """A candidate for ``problem`` that does what ``behaviour`` says."""
        return scale_artifact(problem, behaviour, self.flags)

    def outcome(
        self,
        measurer: Measurer,
        problem: Problem,
        artifact: Artifact,
        budget_cycles: int | None = None,
    ) -> tuple[Outcome, str]:
        """The outcome and message of a candidate that must not be measured."""
        with pytest.raises(CandidateError) as caught:
            measurer.measure(problem, artifact, budget_cycles=budget_cycles)
        return caught.value.outcome, caught.value.message

    # Good candidates

    def test_a_good_candidate_is_verified_and_timed(
        self, measurer: Measurer, problem: Problem
    ) -> None:
        timed = measurer.measure(problem, self.artifact(problem))
        measurement = timed.measurement
        assert measurement.verified
        assert measurement.fidelity == measurer.fidelity
        assert measurement.device
        # Byte by byte, 2000 elements: at least a packet each, and not a hundred.
        assert 2_000 < measurement.cycles < 400_000
        if self.counts_packets:
            assert measurement.packets is not None
            assert measurement.stalls is not None
            assert 2_000 < measurement.packets < 200_000
            assert measurement.cycles == measurement.packets + measurement.stalls
            assert sum(measurement.breakdown.values()) == measurement.cycles
        else:
            assert (measurement.packets, measurement.stalls) == (None, None), "never 0"
            assert measurement.breakdown == {}
        assert measurement.samples
        assert figures_of(measurement, sorted(measurer.counted)) is not None
        assert 50 < measurement.code_bytes < 5_000
        assert timed.link_s > 0
        assert timed.run_s > 0

    @pytest.mark.parametrize("contract", list(Contract))
    def test_buffers_are_laid_out_as_the_contract_allows(
        self, measurer: Measurer, contract: Contract
    ) -> None:
        problem = scale_problem(contract, n=512)
        for behaviour in ("WELL", "USES_HEAP_AND_VTCM"):  # which gives back what it takes
            artifact = self.artifact(problem, behaviour)
            assert measurer.measure(problem, artifact).measurement.verified

    def test_threads_may_share_a_measurer(self, measurer: Measurer, problem: Problem) -> None:
        good, wrong = self.artifact(problem), self.artifact(problem, "WRONG_BYTE")

        def measure(number: int) -> Measurement | Outcome:
            if number % 2:
                return self.outcome(measurer, problem, wrong)[0]
            return measurer.measure(problem, good).measurement

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(measure, range(12)))
        assert found[1::2] == [Outcome.WRONG_OUTPUT] * 6
        assert len({m.cycles for m in found[::2] if isinstance(m, Measurement)}) == 1 or (
            not self.deterministic
        )

    # Wrong candidates

    @pytest.mark.parametrize(
        ("behaviour", "says"),
        [
            ("WRONG_BYTE", "output[1, 7]"),
            ("NOTHING_AT_ALL", "output[0, 0]"),
            ("PAST_THE_END", "past the end of output"),
            ("BEFORE_THE_START", "before output"),
            ("CHANGES_ITS_INPUT", "input[0, 3]"),
        ],
    )
    def test_every_wrong_byte_is_found(
        self, measurer: Measurer, problem: Problem, behaviour: str, says: str
    ) -> None:
        outcome, message = self.outcome(measurer, problem, self.artifact(problem, behaviour))
        assert outcome is Outcome.WRONG_OUTPUT
        assert says in message

    def test_writing_into_the_padding_of_rows_is_found(self, measurer: Measurer) -> None:
        problem = scale_problem(Contract.STRIDE)
        outcome, message = self.outcome(measurer, problem, self.artifact(problem, "IN_THE_PADDING"))
        assert outcome is Outcome.WRONG_OUTPUT
        assert "row padding of output" in message

    @pytest.mark.parametrize(
        "behaviour",
        [
            "RECURSES",
            "NULL_STORE",
            "WRITES_ITS_CODE",
            "EXITS",
            "OPENS_A_FILE",
            "PRINTS_FOR_EVER",
            "FORKS",
            "KILLS",
            "MAPS_MEMORY",
        ],
    )
    def test_anything_but_computing_ends_the_run(
        self, measurer: Measurer, problem: Problem, behaviour: str
    ) -> None:
        outcome, message = self.outcome(measurer, problem, self.artifact(problem, behaviour))
        refused = self.refuses_system_calls and "system calls" in message
        assert outcome is (Outcome.INFEASIBLE if refused else Outcome.RUN_ERROR)
        assert message
        assert not Path("/tmp/candidate-was-here").exists()  # noqa: S108 (the candidate's name)

    @pytest.mark.parametrize(
        ("behaviour", "says"),
        [
            ("RETURNS_AN_ERROR", "-42"),
            ("REPORTS_AN_ERROR", "the moon is in the wrong house"),
            ("TAKES_TOO_MUCH_MEMORY", "out of memory"),
        ],
    )
    def test_errors_the_candidate_reports_are_told(
        self, measurer: Measurer, problem: Problem, behaviour: str, says: str
    ) -> None:
        outcome, message = self.outcome(measurer, problem, self.artifact(problem, behaviour))
        assert outcome is Outcome.RUN_ERROR
        assert says in message

    @pytest.mark.parametrize("behaviour", ["HANGS", "HANGS_LATER"])
    def test_a_candidate_that_never_ends_is_stopped(
        self, hasty_measurer: Measurer, problem: Problem, behaviour: str
    ) -> None:
        outcome, _ = self.outcome(hasty_measurer, problem, self.artifact(problem, behaviour))
        assert outcome is Outcome.TIMEOUT

    def test_what_counts_in_16_bits_is_not_confirmed(self, measurer: Measurer) -> None:
        problem = scale_problem(Contract.NONE)
        measurer.confirm(problem, self.artifact(problem))
        narrow = self.artifact(problem, "COUNTS_IN_16_BITS")
        assert measurer.measure(problem, narrow).measurement.verified
        with pytest.raises(CandidateError) as caught:
            measurer.confirm(problem, narrow)
        assert caught.value.outcome is Outcome.WRONG_OUTPUT

    # What cannot run at all

    def test_more_vtcm_than_the_target_has_is_infeasible(
        self, measurer: Measurer, problem: Problem
    ) -> None:
        outcome, message = self.outcome(
            measurer, problem, self.artifact(problem, "TAKES_TOO_MUCH_VTCM")
        )
        assert outcome is Outcome.INFEASIBLE
        assert f"{1 << 30:,}" in message
        assert f"{problem.target.vtcm_bytes:,}" in message

    def test_an_unknown_instruction_is_infeasible(
        self, measurer: Measurer, problem: Problem
    ) -> None:
        outcome, _ = self.outcome(measurer, problem, self.artifact(problem, "TRAPS"))
        crashed = Outcome.INFEASIBLE if self.knows_every_instruction else Outcome.RUN_ERROR
        assert outcome is crashed

    def test_what_cannot_be_linked_is_infeasible(
        self, measurer: Measurer, problem: Problem
    ) -> None:
        whole = self.artifact(problem)
        foreign = Artifact(
            "0" * 64, problem.symbol, {"object": Path("/proc/self/exe").read_bytes()}
        )
        for artifact, says in [
            (replace(whole, symbol="another_name"), "another_name"),
            (foreign, "Hexagon"),
            *(
                (replace(whole, files={"object": whole.object_bytes[:keep]}), "")
                for keep in (0, 3, 40, 200, -100)
            ),
        ]:
            outcome, message = self.outcome(measurer, problem, artifact)
            assert outcome is Outcome.INFEASIBLE
            assert says in message

    def test_a_target_it_cannot_run_is_refused_with_those_it_can(self, measurer: Measurer) -> None:
        unknown = replace(find_target("hexagon-v66"), name="hexagon-v999", arch="v999")
        with pytest.raises(UserError) as caught:
            measurer.require(unknown)
        assert "v999" in caught.value.message
        assert caught.value.accepted

    # The early-termination budget

    def test_a_candidate_beyond_its_budget_is_cut_off(
        self, measurer: Measurer, problem: Problem
    ) -> None:
        good = self.artifact(problem)
        quick = measurer.measure(problem, good).measurement
        bounded = measurer.measure(problem, good, budget_cycles=2 * quick.cycles).measurement
        assert bounded.cycles == quick.cycles or not self.deterministic
        slow = self.artifact(problem, "SLOW")
        outcome, _ = self.outcome(measurer, problem, slow, budget_cycles=2 * quick.cycles)
        assert outcome is Outcome.CUTOFF
        assert measurer.measure(problem, slow).measurement.cycles > 2 * quick.cycles

    # Identity

    def test_the_fingerprint_names_what_decides_the_numbers_and_stays(
        self, measurer: Measurer
    ) -> None:
        fingerprint = measurer.fingerprint()
        assert fingerprint
        assert all(isinstance(v, str) and v for v in fingerprint.values())
        assert measurer.fingerprint() == fingerprint
        measurer.close()
        measurer.close()
