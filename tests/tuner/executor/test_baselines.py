"""Baselines of jobs: what their option accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.executor.baselines import Baseline, baseline_of, keep_object
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.space.directives import Directive, TailStrategy

KERNEL = find_kernel("gemm_u8")
PROBLEM = KERNEL.problem({}, Contract.STATIC, find_target("hexagon-v66"))
SPACE = KERNEL.space(PROBLEM)


def _read(text: str, generator: str = "halide") -> Baseline | None:
    return baseline_of(text, generator, KERNEL, PROBLEM, SPACE)


def test_a_name_or_a_config_is_a_point_of_the_space() -> None:
    assert _read("") is None
    assert _read("default") == Baseline(KERNEL.default_config(PROBLEM))
    config = KERNEL.textbook_config(PROBLEM)
    assert _read(config.json) == Baseline(config)
    assert _read(config.json).in_space


def test_directives_are_a_schedule_outside_of_the_space() -> None:
    told = [{"func": "out", "op": "vectorize", "args": ["x", 128, {"tail": "RoundUp"}]}]
    found = _read(json.dumps(told))
    assert found.directives == (Directive("out", "vectorize", ("x", 128, TailStrategy.ROUND_UP)),)
    assert (found.origin, found.in_space) == ("baseline:schedule", False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fastest", "baseline 'fastest'.*default, textbook"),
        ('{"lanes": "many"}', "lanes"),
        ('[{"func": "out", "op": "debug_to_file", "args": ["x"]}]', "debug_to_file.*vectorize"),
        ("object:../../etc/passwd", "not kept on this machine"),
    ],
)
def test_anything_else_is_refused_with_what_would_do(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        _read(text)


def test_what_is_not_an_object_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path))
    with pytest.raises(UserError, match="not an object"):
        keep_object(b"#!/bin/sh")
