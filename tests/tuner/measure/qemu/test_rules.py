"""The file of timing parameters: what a broken one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import ToolchainError
from tuner.measure.qemu import model as rules
from tuner.measure.qemu.model import find_rules, load_rules

V66 = Path(rules.__file__).with_name("v66.toml")


def test_the_parameters_of_v66_load() -> None:
    found = load_rules(V66)
    assert found.count > 50
    assert {"address", "store data", "vector multiply"} <= set(found.causes)


@pytest.mark.parametrize("arch", ["v62", "v65", "v66", "v68", "v73"])
def test_every_arch_has_parameters(arch: str) -> None:
    assert find_rules(arch).count > 0


def test_a_changed_number_changes_the_digest(tmp_path: Path) -> None:
    changed = tmp_path / "v66.toml"
    changed.write_text(V66.read_text().replace("vector_load = 9", "vector_load = 8"))
    assert load_rules(changed).digest != load_rules(V66).digest


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("vector_load = 9", "vector_load = 99", "vector_load = 99"),
        ("vector_load = 9", 'vector_load = "late"', "vector_load = 'late'"),
        ("vector_load = 9", "vector_load = = 9", "line"),
        ('forms = ["widens"]', 'forms = ["widen"]', "unknown form 'widen'"),
        ("reads = 5", "raeds = 5", "unknown key 'raeds'"),
        ('"vextract"', '"vextract_with_a_very_long_name"', "vextract_with_a_very_long_name"),
    ],
)
def test_a_broken_file_names_the_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = V66.read_text()
    line = text[: text.index(old)].count("\n") + 1
    broken = tmp_path / "v66.toml"
    broken.write_text(text.replace(old, new, 1))
    with pytest.raises(ToolchainError) as caught:
        load_rules(broken)
    assert says in str(caught.value)
    assert f"line {line}" in str(caught.value)
    assert str(broken) in str(caught.value)


def test_a_missing_file_or_section_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"v67\.toml"):
        load_rules(tmp_path / "v67.toml")
    partial = tmp_path / "v66.toml"
    partial.write_text(V66.read_text().replace("[memory]", "[memories]"))
    with pytest.raises(ToolchainError, match="'memory' is missing"):
        load_rules(partial)
