"""The conformance suites of kernels: of what a kernel says, and of the code made from it.

A test module inherits both and names the kernel as registered, by an entry point or in
``HVXTUNE_KERNELS``: compilers run in processes of their own, and look it up there::

    class TestBrighten(KernelConformance):
        name = "brighten_u8"


    class TestBrightenCode(KernelCodeConformance):
        name = "brighten_u8"

The first takes seconds. The second takes a minute or two, and the simulator: ``hvxtune doctor``
says whether it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

from tuner.codegen import CodeGenerator
from tuner.codegen.halide.generator import HalideGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, UserError
from tuner.identity import canonical_json
from tuner.kernels import Kernel, attached_kernel, find_kernel
from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Array
from tuner.kernels.shapes import LARGER, SMALLER
from tuner.measure.measurer import Measurer
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
from tuner.measure.roofline import roofline_of_work
from tuner.paths import STATE_DIR_VARIABLE
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.problem.workload import Param, Problem
from tuner.records.candidate import Candidate
from tuner.space import Config, Space

TARGET = find_target("hexagon-v66")
NARROW = replace(TARGET, name="narrow", vector_bytes=64, vector_alignment_bytes=64)
"""A target that does not exist: half as wide as any."""
MOST_GROWN = 4
"""The most that other shapes may add to any extent: a word of bytes."""
MOST_SAMPLES_RIGHT = 0.8
SAMPLES_RUN = 5
TRIALS = 4
DRAWN, FEW = 20, 12
"""Shapes, and the most elements along their axes."""
FEWEST_CONFIGS = 10
MOST_MACS = 30_000_000
"""In a shape that is run: what the slowest schedules do in seconds on the simulator."""


@dataclass(frozen=True)
class Workshop:
    """A code generator and a measurer, to run candidates."""

    generator: CodeGenerator
    measurer: Measurer

    def run(self, problem: Problem, config: Config) -> str:
        """``ok``, or the outcome and why."""
        try:
            artifact = self.generator.compile(Candidate(problem, config))
            self.measurer.measure(problem, artifact)
        except CandidateError as error:
            return f"{error.outcome}: {error.message} {config}"
        return "ok"


def shapes(kernel: Kernel) -> dict[str, dict[str, int]]:
    """The smallest shape, odd ones below and just above a vector, and the default."""

    def all_extents(value: int) -> dict[str, int]:
        extents = [p for p in kernel.params if p.is_extent]
        found = {p.name: -(-max(value, p.minimum) // p.multiple) * p.multiple for p in extents}
        for p in extents:  # the outermost first: vectors lie along the last ones
            if kernel.work(kernel.workload(found).params).macs > MOST_MACS:
                found[p.name] = -(-max(3, p.minimum) // p.multiple) * p.multiple
        return found

    return {
        "smallest": all_extents(1),
        "odd": all_extents(7),
        "beyond a vector": all_extents(TARGET.vector_bytes + 3),
        "default": {},
    }


SHAPES = ("smallest", "odd", "beyond a vector", "default")


def run_on_host(kernel: Kernel, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
    """The output of ``kernel``'s pipeline, compiled for this machine: a second opinion on the
    algorithm. Every stage is computed on its own."""
    import halide as hl

    pipeline = kernel.pipeline(params)
    for parameter, array in zip(pipeline.inputs, inputs, strict=True):
        parameter.set(hl.Buffer(np.ascontiguousarray(array)))
    for stage in pipeline.stages.values():
        stage.compute_root()
    outputs = [
        np.zeros(spec.shape, spec.dtype) for spec in kernel.buffers(params) if spec.role == "output"
    ]
    pipeline.output.realize([hl.Buffer(array) for array in outputs])
    return outputs


class _OfOneKernel:
    """The kernel and its problems, as fixtures."""

    name: ClassVar[str]

    @pytest.fixture
    def kernel(self) -> Kernel:
        return find_kernel(self.name)

    @pytest.fixture(params=list(Contract))
    def contract(self, request: pytest.FixtureRequest) -> Contract:
        found: Contract = request.param
        return found

    @pytest.fixture(params=SHAPES)
    def params(self, kernel: Kernel, request: pytest.FixtureRequest) -> dict[str, int]:
        return dict(kernel.workload(shapes(kernel)[request.param]).params)

    @pytest.fixture
    def problem(self, kernel: Kernel, contract: Contract) -> Problem:
        return kernel.problem({}, contract, TARGET)


class KernelConformance(_OfOneKernel):
    """A kernel's buffers, reference, parameters, work, spaces and directives.

    Name the kernel as registered: ``name = "brighten_u8"``.
    """

    # Buffers and reference

    def test_buffers_are_inputs_then_outputs_with_names_of_their_own(
        self, kernel: Kernel, params: dict[str, int]
    ) -> None:
        specs = kernel.buffers(params)
        roles = [spec.role for spec in specs]
        assert roles == sorted(roles)
        assert set(roles) == {"input", "output"}
        assert len({spec.name for spec in specs}) == len(specs)

    def test_the_reference_repeats_leaves_its_inputs_alone_and_fits_the_buffers(
        self, kernel: Kernel, params: dict[str, int]
    ) -> None:
        inputs = kernel.inputs(params, np.random.default_rng(1))
        before = [array.copy() for array in inputs]
        first, second = (kernel.reference(params, inputs) for _ in range(2))
        declared = [(spec.shape, spec.dtype) for spec in kernel.buffers(params)]
        assert [(array.shape, array.dtype.name) for array in (*inputs, *first)] == declared
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(inputs, before, strict=True))

    def test_the_program_computes_the_reference(self, kernel: Kernel) -> None:
        """Where both are stated, in shapes of a few elements."""
        random, rng = Random(6), np.random.default_rng(6)
        is_stated = bool(kernel.text) and type(kernel).reference is not Kernel.reference
        for _ in range(DRAWN if is_stated else 0):
            drawn = {p.name: _drawn(p, random) for p in kernel.params}
            try:
                params = dict(kernel.workload(drawn).params)
            except UserError:  # too large
                continue
            inputs = kernel.inputs(params, rng)
            made = Kernel.reference(kernel, params, inputs)
            for array, wanted in zip(made, kernel.reference(params, inputs), strict=True):
                np.testing.assert_array_equal(array, wanted)

    # Parameters

    def test_what_is_no_workload_is_refused_by_name_and_value(self, kernel: Kernel) -> None:
        for param in kernel.params:
            wrong: list[Any] = [param.minimum - 1, param.maximum + 1, True, "8", 2.5]
            for value in wrong:
                with pytest.raises(UserError, match=param.name) as caught:
                    kernel.workload({param.name: value})
                assert str(value) in str(caught.value)
        with pytest.raises(UserError, match=kernel.params[0].name):
            kernel.workload({"no_such_parameter": 1})

    def test_what_is_documented_is_not_empty(self, kernel: Kernel) -> None:
        assert kernel.summary
        assert all(param.doc for param in kernel.params)
        assert type(kernel).__doc__

    # Work

    def test_work_counts_every_byte_once_and_some_arithmetic(
        self, kernel: Kernel, params: dict[str, int]
    ) -> None:
        work = kernel.work(params)
        payload = {"input": 0, "output": 0}
        for spec in kernel.buffers(params):
            payload[spec.role] += spec.payload_bytes
        assert (work.read_bytes, work.written_bytes) == (payload["input"], payload["output"])
        assert work.macs >= 0
        assert work.lane_ops >= 0
        assert work.macs + work.lane_ops > 0
        assert roofline_of_work(work, TARGET).cycles > 0

    # Space

    def spaces(self, kernel: Kernel) -> Iterator[tuple[Problem, Space]]:
        """Of the default shape under each contract, of others under the weakest and strictest."""
        for shape in shapes(kernel).values():
            for contract in (Contract.NONE, Contract.STATIC) if shape else Contract:
                try:
                    problem = kernel.problem(shape, contract, TARGET)
                except UserError:
                    assert contract is Contract.EXTENT, "only this contract excludes shapes"
                    continue
                yield problem, kernel.space(problem)

    def test_default_textbook_and_samples_are_configs_of_their_spaces(self, kernel: Kernel) -> None:
        random = Random(3)
        for problem, space in self.spaces(kernel):
            sampled = [space.sample(random) for _ in range(20)]
            for config in (
                kernel.default_config(problem),
                kernel.textbook_config(problem),
                *sampled,
            ):
                assert space.config(config.as_dict()) == config

    def test_no_choice_is_dead(self, kernel: Kernel, problem: Problem) -> None:
        if isinstance(kernel, DerivedKernel):
            pytest.skip("derived spaces have the same knobs for all pipelines, dead choices too")
        space = kernel.space(problem)
        random = Random(4)
        seen = {choice for _ in range(3000) for choice in space.sample(random).items()}
        ever_active = {name for name, _ in seen}
        every = {
            (knob.name, value)
            for knob in space.knobs
            if knob.name in ever_active
            for value in knob.choices
        }
        dead = sorted(every - seen, key=str)
        assert not dead, (
            f"no config of the default shape has these: choose a larger one, or leave out {dead}"
        )

    def test_the_space_is_worth_searching_and_explained(
        self, kernel: Kernel, problem: Problem
    ) -> None:
        space = kernel.space(problem)
        found = space.count(limit=FEWEST_CONFIGS)
        assert found >= FEWEST_CONFIGS, f"{found} configs: add knobs or choices"
        assert all(knob.doc for knob in space.knobs)
        assert all(constraint.reason for constraint in space.constraints)

    def test_vector_lanes_come_from_the_target(self, kernel: Kernel, contract: Contract) -> None:
        wide = kernel.space(kernel.problem({}, contract, TARGET))
        narrow = kernel.space(kernel.problem({}, contract, NARROW))
        assert wide.digest != narrow.digest

    def test_other_shapes_are_larger_by_little_and_keep_the_contract(
        self, kernel: Kernel, problem: Problem
    ) -> None:
        params = problem.workload.params
        lanes = problem.target.vector_alignment_bytes
        others = kernel.other_shapes(problem)
        assert bool(others) == (problem.contract is not Contract.STATIC)
        for other in others:
            kernel.problem(other, problem.contract, TARGET)
            whole_vectors = [p.name for p in kernel.params if other[p.name] - params[p.name] > 4]
            assert not whole_vectors or problem.contract is Contract.EXTENT
            for param in kernel.params:
                grown = other[param.name] - params[param.name]
                if not param.is_extent:
                    assert grown == 0
                elif param.name in whole_vectors:
                    assert grown == lanes
                    with pytest.raises(UserError, match="extent"):
                        kernel.problem(
                            {**other, param.name: params[param.name] + param.multiple},
                            problem.contract,
                            TARGET,
                        )
                else:
                    assert 0 < grown <= max(param.multiple + 1, MOST_GROWN)

    def test_verified_shapes_are_narrow_and_wide_and_keep_the_contract(
        self, kernel: Kernel, problem: Problem
    ) -> None:
        found = kernel.verified_shapes(problem)
        assert set(found) == (set() if problem.contract is Contract.STATIC else {SMALLER, LARGER})
        for kind, params in found.items():
            kernel.problem(params, problem.contract, TARGET)
            outputs = [spec for spec in kernel.buffers(params) if spec.role == "output"]
            widths = [spec.shape[-1] for spec in outputs]
            lanes = problem.target.vector_alignment_bytes
            most = lanes if problem.contract is Contract.EXTENT else lanes - 1
            assert max(widths) <= most if kind == SMALLER else max(widths) > 1024
            assert kernel.work(params).macs <= kernel.work(problem.workload.params).macs / 2

    # Schedules

    def test_halide_accepts_the_directives_of_any_config(
        self, kernel: Kernel, problem: Problem
    ) -> None:
        from tuner.codegen.halide import schedule

        attachment = kernel.attachment(problem)
        compiled = kernel if attachment is None else attached_kernel(kernel.name, attachment)
        space, random = kernel.space(problem), Random(5)
        configs = [space.sample(random) for _ in range(10)]
        for config in (kernel.default_config(problem), kernel.textbook_config(problem), *configs):
            directives = kernel.schedule(problem, config)
            assert directives == kernel.schedule(problem, config)
            assert canonical_json([directive.args for directive in directives])
            schedule.apply(directives, compiled.pipeline(problem.workload.params))


class KernelCodeConformance(_OfOneKernel):
    """The code of a kernel: on this machine, on the simulator, and as a search finds it.

    Name the kernel as registered: ``name = "brighten_u8"``.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def workshop(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
        simulator = find_simulator().command[-1]  # the user's, in a state directory of our own
        with (
            pytest.MonkeyPatch.context() as patch,
            HalideGenerator(1) as generator,
            QemuMeasurer(timeout_s=PATIENCE_S) as measurer,
        ):
            patch.setenv(STATE_DIR_VARIABLE, str(tmp_path_factory.mktemp("state")))
            patch.setenv(QEMU_VARIABLE, simulator)
            yield Workshop(generator, measurer)

    def test_the_pipeline_equals_the_reference_on_this_machine(
        self, kernel: Kernel, params: dict[str, int]
    ) -> None:
        rng = np.random.default_rng(6)
        random = kernel.inputs(params, rng)
        lowest, highest = ([extreme(a) for a in random] for extreme in (_lowest, _highest))
        for inputs in (random, lowest, highest, [*highest[:1], *lowest[1:]]):
            made = run_on_host(kernel, params, inputs)
            for array, wanted in zip(made, kernel.reference(params, inputs), strict=True):
                np.testing.assert_array_equal(array, wanted)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_default_and_textbook_code_is_right(
        self, kernel: Kernel, workshop: Workshop, shape: str
    ) -> None:
        for contract in (Contract.STATIC, Contract.NONE):
            problem = kernel.problem(shapes(kernel)[shape], contract, TARGET)
            for config in (kernel.default_config(problem), kernel.textbook_config(problem)):
                assert workshop.run(problem, config) == "ok"

    def test_most_samples_are_right(
        self, kernel: Kernel, problem: Problem, workshop: Workshop
    ) -> None:
        space, random = kernel.space(problem), Random(7)
        outcomes = [workshop.run(problem, space.sample(random)) for _ in range(SAMPLES_RUN)]
        wrong = [outcome for outcome in outcomes if outcome != "ok"]
        assert len(wrong) <= (1 - MOST_SAMPLES_RIGHT) * SAMPLES_RUN, "\n".join(wrong)

    def test_a_search_ends_with_a_verified_schedule(
        self, kernel: Kernel, workshop: Workshop
    ) -> None:
        from tuner.jobs.tuning import tune

        result = tune(kernel.name, trials=TRIALS)
        found = result.best.measurement if result.best is not None else None
        assert found is not None
        assert found.verified


def _drawn(param: Param, random: Random) -> int:
    """A value of ``param``; of an extent a small one."""
    most = min(param.maximum, FEW * param.multiple) if param.is_extent else param.maximum
    least = -(-param.minimum // param.multiple)
    return param.multiple * random.randint(least, max(least, most // param.multiple))


def _lowest(array: Array) -> Array:
    return np.full_like(array, np.iinfo(array.dtype).min)


def _highest(array: Array) -> Array:
    return np.full_like(array, np.iinfo(array.dtype).max)
