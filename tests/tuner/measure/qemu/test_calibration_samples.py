"""Files of samples: read line by line, refused at the first bad one, simulated once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rig.scale_u8 import KERNELS
from tests.rig.stand_ins import StandInGenerator
from tuner.conformance.candidates import scale_artifact, scale_problem
from tuner.errors import CandidateError, UserError
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure.qemu import calibration
from tuner.measure.qemu.calibration import count_events, read_samples
from tuner.measure.qemu.calibration import samples as counting
from tuner.records.candidate import Artifact, Candidate
from tuner.records.outcome import Outcome

GOOD: dict[str, Any] = {
    "kernel": "scale_u8",
    "params": {"h": 4, "n": 500},
    "contract": "static",
    "target": "hexagon-v66",
    "config": {"vectors": 1, "unroll_rows": 1, "behave": "well"},
    "cache": "warm",
    "cycles": 1234,
    "device": "bench phone",
}
BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown kernel": ({"kernel": "scale_u9"}, ["'scale_u9'", "scale_u8"]),
    "cycles beyond any run": ({"cycles": 10**20}, ["cycles: ", "less than"]),
    "both kinds of cycles": ({"pcycles": 2468}, ["both cycles and pcycles", "one of"]),
}


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes samples or raw lines to a file."""

    def written(*lines: dict[str, Any] | str | bytes) -> Path:
        path = tmp_path / "samples.jsonl"
        texts = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
        path.write_bytes(b"\n".join(t.encode() if isinstance(t, str) else t for t in texts))
        return path

    return written


def test_a_sample_is_what_its_line_says(write: Callable[..., Path]) -> None:
    line = {**GOOD, "cache": "cold", "fidelity": "cycle_accurate", "object_digest": "ab12"}
    found = read_samples(write("", line))
    (sample,) = found.samples
    assert sample.line == 2
    assert sample.candidate.problem == scale_problem(h=4, n=500)
    assert sample.candidate.config.as_dict() == GOOD["config"]
    assert sample.candidate.generator == "halide"
    assert (sample.cache, sample.cycles, sample.object_digest) == ("cold", 1234, "ab12")
    assert found.origin == "hexagon-v66, cycle_accurate, measured on bench phone"


def test_the_sample_that_the_docs_show_is_one(write: Callable[..., Path]) -> None:
    page = Path(calibration.__file__).parents[4] / "docs" / "calibrating.md"
    (line,) = re.findall(r"^```json\n(.*?)\n```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (sample,) = read_samples(write(line)).samples
    assert sample.cycles == json.loads(line)["pcycles"] / 2


@pytest.mark.parametrize(("change", "named"), BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_with_what_would_do(
    change: dict[str, Any], named: list[str], write: Callable[..., Path]
) -> None:
    with pytest.raises(UserError) as caught:
        read_samples(write(GOOD, {**GOOD, **change}))
    assert caught.value.message.startswith("line 2 of ")
    assert [text for text in named if text not in str(caught.value)] == []


def test_targets_and_fidelities_are_not_mixed(write: Callable[..., Path]) -> None:
    other = {**GOOD, "target": "hexagon-v66-sm8150"}
    with pytest.raises(UserError, match=r"line 2 of .*target hexagon-v66-sm8150"):
        read_samples(write(GOOD, other))
    with pytest.raises(UserError, match=r"line 1 of .*accepted: hexagon-v66-sm8150"):
        read_samples(write(GOOD, other), target="hexagon-v66-sm8150")
    with pytest.raises(UserError, match=r"line 2 of .*hardware, as line 1 has"):
        read_samples(write(GOOD, {**GOOD, "fidelity": "cycle_accurate"}))


# Events


class Precompiled(StandInGenerator):
    """Compiles nothing: every config is the object of ``scale_u8.c``."""

    fault_outcome: Outcome | None = None

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        super().compile(candidate)
        if self.fault_outcome:
            raise CandidateError(self.fault_outcome, "it broke")
        return scale_artifact(candidate.problem)


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Precompiled:
    made = Precompiled()
    monkeypatch.setattr(counting, "find_generator", lambda name: lambda workers: made)
    return made


def test_a_sample_of_another_object_is_named(
    write: Callable[..., Path], generator: Precompiled
) -> None:
    digest = scale_artifact(scale_problem()).digest
    good = {**GOOD, "object_digest": digest[:16]}
    assert count_events(read_samples(write(good)))
    with pytest.raises(UserError, match=f"line 2 of .*object 00ff.*{digest[:16]}"):
        count_events(read_samples(write(good, {**GOOD, "object_digest": "00ff"})))
