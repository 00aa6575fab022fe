"""Sets of workloads: those that come along, and those in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.workload_sets import find_set, set_names

LAYER = '[[layers]]\nname = "a"\nkernel = "lut_u8"\n'


@pytest.mark.parametrize("name", set_names())
def test_every_layer_of_the_sets_that_come_along_can_be_tuned(name: str) -> None:
    for member in find_set(name).members:
        kernel = find_kernel(member.workload.kernel)
        problem = kernel.problem(
            member.workload.params, Contract.STATIC, find_target("hexagon-v66")
        )
        space = kernel.space(problem)
        for config in (kernel.default_config(problem), kernel.textbook_config(problem)):
            assert space.config(config.as_dict()) == config


def macs(name: str, *kernels: str) -> int:
    return sum(
        member.occurrences * find_kernel(member.workload.kernel).work(member.workload.params).macs
        for member in find_set(name).members
        if member.workload.kernel in kernels
    )


def test_the_networks_have_the_multiplications_that_their_papers_say() -> None:
    """300 million (MobileNetV2, table 4), 3.8e9 with the stride in the 1x1 convolutions and 4.1e9
    with it in the 3x3 ones (ResNet-50); the first layers have a fourth, empty, channel here."""
    weighted = ("conv2d_u8", "depthwise_conv2d_u8")
    stem = 112 * 112 * 9 * 32
    assert macs("mobilenet_v2_int8", *weighted) - stem == pytest.approx(300e6, rel=0.01)
    stem = 112 * 112 * 49 * 64
    assert macs("resnet50_int8", *weighted) - stem == pytest.approx(4.09e9, rel=0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a set of workloads"),
        (LAYER + "param = 3", "layer a has param"),
        (LAYER + "params = { width = 0 }", "layer a: width=0"),
    ],
)
def test_a_file_that_is_no_set_is_refused_with_what_is_wrong(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        find_set(str(path))
    assert message in str(caught.value)
