"""Candidates that rely on what no contract guarantees: each was accepted once, as right on dense
buffers, all aligned alike, in memory full of zeros."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.conformance.candidates import artifact_of, scale_problem
from tuner.errors import CandidateError
from tuner.measure.cases import poison
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.records.candidate import Artifact, Problem
from tuner.records.outcome import Outcome

SOURCE = Path(__file__).parent / "sources/beyond_contract.c"
WRONG, FAULTS = Outcome.WRONG_OUTPUT, Outcome.RUN_ERROR

BEYOND = [
    ("ignores_strides", Contract.NONE, WRONG, "row padding of output"),
    ("ignores_strides", Contract.HOST, WRONG, "row padding of output"),
    ("ignores_the_stride_of_its_output", Contract.STRIDE, WRONG, "output"),
    ("takes_all_to_lie_alike", Contract.NONE, WRONG, "output"),
    ("is_wrong_beyond_1024_columns", Contract.EXTENT, WRONG, "larger shape"),
    ("is_wrong_beyond_1024_columns", Contract.NONE, WRONG, "larger shape"),
    ("is_wrong_below_128_columns", Contract.NONE, WRONG, "smaller shape"),
    ("takes_the_stack_for_zero", Contract.STATIC, WRONG, "output[0, 0]"),
    ("takes_the_heap_for_zero", Contract.STATIC, WRONG, "output[0, 0]"),
    ("takes_a_bit_of_the_heap_for_zero", Contract.STATIC, WRONG, "output[0, 0]"),
    ("takes_vtcm_for_zero", Contract.STATIC, WRONG, "output[0, 0]"),
    ("takes_a_scalar_register_for_zero", Contract.STATIC, WRONG, "output[0, 0]"),
    ("takes_a_predicate_for_false", Contract.STATIC, WRONG, "output[0, 0]"),
    ("takes_a_vector_for_zero", Contract.STATIC, WRONG, "output[0, 0]"),
    ("takes_a_vector_predicate_for_false", Contract.STATIC, WRONG, "output[0, 0]"),
    ("uses_what_lies_before_its_input", Contract.NONE, WRONG, "output[0, 0]"),
    ("uses_what_its_output_held", Contract.STATIC, WRONG, "output[0, 0]"),
    ("reads_far_behind_its_input", Contract.STATIC, FAULTS, "past the end of input"),
    ("reads_far_before_its_input", Contract.STATIC, FAULTS, "reads 300 bytes before input"),
    ("loads_a_vector_far_before_its_input", Contract.STATIC, FAULTS, "768 bytes before input"),
    ("reads_its_output_by_way_of_its_input", Contract.STATIC, FAULTS, "past the end of input"),
    ("reads_its_output_by_way_of_its_input", Contract.NONE, FAULTS, "past the end of input"),
    ("loads_a_vector_of_its_output_by_way_of_its_input", Contract.HOST, FAULTS, "end of input"),
    ("loads_a_vector_of_its_input_by_way_of_its_output", Contract.STATIC, FAULTS, "before output"),
    ("writes_behind_its_output_for_a_moment", Contract.STATIC, WRONG, "past the end of output"),
    ("writes_before_its_output_for_a_moment", Contract.NONE, WRONG, "1 bytes before output"),
    ("writes_the_padding_of_rows_for_a_moment", Contract.STRIDE, WRONG, "row padding of output"),
    ("writes_its_input_for_a_moment", Contract.STATIC, WRONG, "wrote input[0, 3]"),
    ("loads_a_misaligned_word", Contract.STATIC, FAULTS, "misaligned, at input[0, 5]"),
    ("stores_a_misaligned_halfword", Contract.STATIC, FAULTS, "misaligned, at output[0, 1]"),
]
WIDTHS = {Contract.EXTENT: 512}
"""Of the other contracts' problems 500: no whole vectors."""


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_KERNELS", "scale_u8=tests.rig.scale_u8:ScaleU8")


@pytest.fixture(scope="module")
def measurer() -> Iterator[QemuMeasurer]:
    with QemuMeasurer() as measurer:
        yield measurer


def beyond_contract(function: str) -> Artifact:
    """The candidate ``function`` of ``sources/beyond_contract.c``."""
    first_block = 128  # the heap's first block comes after a header of a vector
    bit = next(bit for bit in range(8) if not poison(0)[first_block] >> bit & 1)
    flags = ("-mcpu=hexagonv66+hvxv66+hvx_length128b", f"-DBIT={bit}")
    return artifact_of(SOURCE, function, flags)


def problem_of(contract: Contract) -> Problem:
    return scale_problem(contract, n=WIDTHS.get(contract, 500))


@pytest.mark.parametrize(
    ("function", "contract", "expected", "says"),
    BEYOND,
    ids=[f"{function}-{contract}" for function, contract, *_ in BEYOND],
)
def test_what_no_contract_guarantees_is_not_relied_on(
    measurer: QemuMeasurer, function: str, contract: Contract, expected: Outcome, says: str
) -> None:
    with pytest.raises(CandidateError) as caught:
        measurer.measure(problem_of(contract), beyond_contract(function))
    assert caught.value.outcome is expected, caught.value.message
    assert says in caught.value.message
    assert "\n" not in caught.value.message


OPEN = [contract for contract in Contract if contract is not Contract.STATIC]
NARROW = ["elements_in_u16", "elements_in_i16", "rows_in_i16", "columns_in_i16"]


@pytest.mark.parametrize("contract", OPEN)
def test_what_may_become_the_best_counts_beyond_16_bits(
    measurer: QemuMeasurer, contract: Contract
) -> None:
    problem = problem_of(contract)
    measurer.confirm(problem, beyond_contract("counts_in_words"))
    for narrow in NARROW:
        artifact = beyond_contract(f"counts_{narrow}")
        with pytest.raises(CandidateError) as caught:
            measurer.confirm(problem, artifact)
        assert caught.value.outcome in (WRONG, FAULTS), (narrow, caught.value.message)
