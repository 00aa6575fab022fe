"""Code of the generator ``hvx``: right in odd shapes, under every contract, at every knob."""

from __future__ import annotations

import random

import pytest

from tests.rig.stencils import stencil
from tests.rig.unseen_pipelines import unseen_pipeline
from tuner.codegen import space_of
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.portfolio import GENERATOR, Portfolio
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import Kernel, find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem
from tuner.space import Config

TARGET = find_target("hexagon-v66")
KERNELS = ("box_blur_u8", "gaussian5x5_u8", "sobel_u8", "add_u8", "lut_u8", "rgb_to_gray_u8")
UPLOADS = (
    *("dilation", "ninth", "edges", "sharper", "wrapped", "lost", "above", "sharpen", "middle"),
    *("blended", "brightest", "opaque", "toned", "tone_chain", "larger", "around", "smaller"),
)
LARGER = ("larger", "around", "smaller")
UNSEEN = ("sharpen", "middle", "tone_chain")
WIDTHS = (128, 129, 200, 256, 300, 384, 520)
"""One vector, a little more, and strips with and without a rest."""


def problem_of(name: str, width: int, height: int, contract: Contract) -> Problem:
    if name in KERNELS:
        kernel, params = find_kernel(name), {"width": width, "height": height}
    else:
        data = unseen_pipeline(name) if name in UNSEEN else stencil(name)
        kernel, params = find_kernel(keep_pipeline(data)), {"x": width, "y": height}
    return kernel.problem(params, contract, TARGET)


def contracts_of(name: str) -> list[Contract]:
    """Those that the buffers keep: of images larger than the output rows are no whole vectors."""
    return [one for one in Contract if one is not Contract.EXTENT or name not in LARGER]


def kernel_of(problem: Problem) -> Kernel:
    return find_kernel(problem.workload.kernel)


@pytest.fixture(scope="module")
def generator():
    with HvxGenerator(1, time_limit_s=PATIENCE_S) as made:
        yield made


@pytest.fixture(scope="module")
def measurer():
    with QemuMeasurer() as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sobel_u8", "lut_u8", "larger", "middle", "blended", "smaller"])
def test_code_is_right_in_odd_shapes_under_every_contract(name, generator, measurer):
    """At knobs that a seed draws: the shapes and the knobs meet in other ways for each filter."""
    dice = random.Random(name)
    for contract in dice.sample(contracts_of(name), 3):
        widths = [w for w in WIDTHS if w % 128 == 0 or contract is not Contract.EXTENT]
        problem = problem_of(name, dice.choice(widths), dice.choice((5, 11, 16)), contract)
        space = generator.space(kernel_of(problem), problem)
        config = space.config({knob.name: dice.choice(knob.choices) for knob in space.knobs})
        artifact = generator.compile(Candidate(problem, config, "hvx"))
        assert measurer.measure(problem, artifact).measurement.verified, config


@pytest.mark.parametrize("name", [*KERNELS, "ninth", "toned", "larger", "brightest"])
def test_of_two_choices_one_decides_something(name, generator):
    """Heights that the seed draws hold few rows or many, and whole iterations or not."""
    dice = random.Random(name)
    for height in (dice.randrange(1, 12), 8 * dice.randrange(2, 9)):
        contract = dice.choice((Contract.STATIC, Contract.NONE))
        problem = problem_of(name, dice.choice((256, 512)), height, contract)
        space = generator.space(kernel_of(problem), problem)
        for knob in space.knobs:
            if len(knob.choices) > 1 and knob.name not in generator.compiler_knobs:
                configs = [space.sample(dice) for _ in range(20)]
                assert any(
                    len({identity_of(problem, {**one, knob.name: n}) for n in knob.choices}) > 1
                    for one in configs
                ), (problem, knob)


@pytest.mark.parametrize("name", ["lut_u8", "rgb_to_gray_u8"])
def test_no_two_configs_of_single_pixels_are_written_alike(name, generator):
    problem = problem_of(name, 512, 64, Contract.STATIC)
    space = generator.space(kernel_of(problem), problem)
    found = [
        identity_of(problem, config) for config in space if config["llvm_pipeliner"] == "default"
    ]
    assert len({*found}) == len(found) > 20


def identity_of(problem, config):
    return HvxGenerator().identity(Candidate(problem, Config(config), "hvx"), at_once=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "knobs"),
    [
        ("gaussian5x5_u8", 500, {"hvx_rows": 2, "hvx_columns": 2, "hvx_taps": "load"}),
        ("around", 128, {"hvx_rows": 1}),
    ],
)
def test_what_llvm_makes_wrong_code_of_is_right(name, width, knobs, generator, measurer):
    problem = problem_of(name, width, 11, Contract.HOST)
    config = generator.space(kernel_of(problem), problem).nearest_config(knobs)
    artifact = generator.compile(Candidate(problem, config, "hvx"))
    assert measurer.measure(problem, artifact).measurement.verified


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("apart", {"plane": 3}),
        ("opponent", {"plane": 3}),
        ("together", {"channel": 3}),
        ("opaque_pairs", {"channel": 2}),
        ("swapped", {"channel": 4}),
    ],
)
def test_planes_and_channels_may_be_made_each_in_another_way(name, of, generator, measurer):
    dice, kernel = random.Random(name), find_kernel(keep_pipeline(stencil(name)))
    for width in dice.sample(WIDTHS, 2):
        height = dice.choice((5, 11, 16))
        sizes = {"x": width, "y": height, "image_0": width, "image_1": height, **of}
        given = {one.name: sizes[one.name] for one in kernel.params if one.name in sizes}
        problem = kernel.problem(given, Contract.STATIC, TARGET)
        space = generator.space(kernel, problem)
        config = space.config({knob.name: dice.choice(knob.choices) for knob in space.knobs})
        artifact = generator.compile(Candidate(problem, config, "hvx"))
        assert measurer.measure(problem, artifact).measurement.verified, config


@pytest.mark.slow
@pytest.mark.parametrize("contract", [Contract.STATIC, Contract.NONE])
@pytest.mark.parametrize("name", ["larger_by_two", "mosaic", "coloured", "packed"])
def test_the_last_cells_may_lack_pixels(name, contract, generator, measurer):
    dice, kernel = random.Random(f"{name} {contract}"), find_kernel(keep_pipeline(stencil(name)))
    contract = Contract.STATIC if name == "coloured" else contract  # it has channels
    side = 4 if name == "packed" else 2
    for width in dice.sample(WIDTHS, 2):
        sizes = {"x": side * width - dice.choice((0, 1)), "y": dice.choice((5, 16)), "channel": 3}
        if name == "larger_by_two":
            sizes |= {"image_0": width + dice.choice((-1, 0, 40, 200)), "image_1": 3}
        given = {one.name: sizes[one.name] for one in kernel.params if one.name in sizes}
        problem = kernel.problem(given, contract, TARGET)
        space = generator.space(kernel, problem)
        config = space.config({knob.name: dice.choice(knob.choices) for knob in space.knobs})
        artifact = generator.compile(Candidate(problem, config, "hvx"))
        assert measurer.measure(problem, artifact).measurement.verified, (problem, config)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add_u8", "lut_u8", "rgb_to_gray_u8", "swapped"])
def test_rows_of_single_pixels_need_be_no_whole_vectors(name, generator, measurer):
    dice = random.Random(name)
    for width in dice.sample((3, 37, 127, 129, 200), 2):
        height = -(-128 // width) + dice.choice((0, 1, 20))
        if name == "swapped":
            kernel = find_kernel(keep_pipeline(stencil(name)))
            params = {"x": width, "y": height, "channel": 4}
            problem = kernel.problem(params, Contract.STATIC, TARGET)
        else:
            problem = problem_of(name, width, height, Contract.STATIC)
        space = generator.space(kernel_of(problem), problem)
        config = space.config({knob.name: dice.choice(knob.choices) for knob in space.knobs})
        artifact = generator.compile(Candidate(problem, config, "hvx"))
        assert measurer.measure(problem, artifact).measurement.verified, (problem, config)


@pytest.mark.slow
@pytest.mark.parametrize("width", [128, 1024])
def test_rows_are_added_up_however_many_are_computed_together(width, generator, measurer):
    for rows in (1, 8):
        problem = problem_of("uneven", width, 11, Contract.STATIC)
        config = generator.space(kernel_of(problem), problem).nearest_config({"hvx_rows": rows})
        artifact = generator.compile(Candidate(problem, config, "hvx"))
        assert measurer.measure(problem, artifact).measurement.verified, rows


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_configs_are_right(seed, generator, measurer):
    dice = random.Random(seed)
    for _ in range(100):
        name = dice.choice((*KERNELS, *UPLOADS))
        contract = dice.choice(contracts_of(name))
        widths = [w for w in WIDTHS if w % 128 == 0 or contract is not Contract.EXTENT]
        problem = problem_of(name, dice.choice(widths), dice.randrange(4, 40), contract)
        space = generator.space(kernel_of(problem), problem)
        config = space.config({knob.name: dice.choice(knob.choices) for knob in space.knobs})
        artifact = generator.compile(Candidate(problem, config, "hvx"))
        assert measurer.measure(problem, artifact).measurement.verified, (name, config)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "packets", "cycles"),
    # Verified code written by hand for the same jobs in the same simulator took these.
    [("sobel_u8", 2278, 2590), ("gaussian5x5_u8", 3910, 4104)],
)
def test_the_first_config_is_ahead_of_published_code_by_hand(
    name, packets, cycles, generator, measurer
):
    problem = problem_of(name, 512, 64, Contract.STATIC)
    config = generator.starts(kernel_of(problem), problem)["textbook"]
    artifact = generator.compile(Candidate(problem, config, "hvx"))
    found = measurer.measure(problem, artifact).measurement
    assert found.packets <= packets
    assert found.cycles <= cycles


@pytest.mark.parametrize(
    ("kernel", "params", "reason"),
    [
        ("softmax_u8", {}, "its inputs are not of u8, or its output not of 8 or 16 bits"),
        ("sobel_u8", {"width": 100}, "its rows have 100 pixels, fewer than 128"),
    ],
)
def test_what_it_makes_no_code_of_is_refused_with_a_reason(kernel, params, reason):
    found = find_kernel(kernel)
    problem = found.problem(params, Contract.HOST, TARGET)
    with pytest.raises(UserError, match=reason):
        space_of("hvx", found, problem)
    assert "hvx" not in Portfolio.space(found, problem).knob(GENERATOR).choices
