"""The file of timing parameters: hierarchy and costs, and what a broken file says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tuner.errors import ToolchainError
from tuner.measure.qemu import model
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.model import (
    MODEL_VARIABLE,
    PARAMETER_NAMES,
    Parameters,
    find_model,
    load_model,
)

V66 = Path(model.__file__).with_name("v66.toml")


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = V66.read_text()
    assert old in text
    path = tmp_path / "v66.toml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_every_parameter_has_bounds_and_a_source() -> None:
    specs = find_model("v66").specs
    assert tuple(specs) == PARAMETER_NAMES == tuple(f.name for f in fields(Parameters))
    for spec in specs.values():
        assert spec.low <= spec.value <= spec.high
        assert spec.source
    assert any(spec.assumed for spec in specs.values())
    assert any(not spec.assumed for spec in specs.values())
    on_a_bound = {n for n, spec in specs.items() if spec.value in (spec.low, spec.high)}
    assumed = {name for name in on_a_bound if specs[name].assumed}
    assert assumed == {"l2_access"}, "its source says why"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("value = 125", "value = 1250", "parameters.ddr_latency.value = 1250"),
        (
            "[parameters.ddr_latency]",
            "[parameters.dram_latency]",
            "parameters.dram_latency is unknown",
        ),
        ("value = 125", "value = = 125", "Invalid value"),
        ('forms = ["widens"]', 'forms = ["widen"]', "unknown form 'widen'"),
        ("reads = 5", "raeds = 5", "unknown key vector[0].raeds"),
        ("value = 15\n", "value = 1.5\n", "hierarchy.store_to_load.value = 1.5"),
    ],
)
def test_a_broken_entry_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = changed(tmp_path, old, new)
    with pytest.raises(ToolchainError) as caught:
        load_model(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert re.search(r"line \d+|v66\.toml:\d+:", str(caught.value))


def test_another_file_can_be_named_and_is_part_of_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = QemuMeasurer().fingerprint()["timing model"]
    path = changed(tmp_path, "value = 125", "value = 150")
    monkeypatch.setenv(MODEL_VARIABLE, str(path))
    assert find_model("v66").parameters.ddr_latency == 150
    assert QemuMeasurer().fingerprint()["timing model"] != usual
