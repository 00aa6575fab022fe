"""Names that objects of packages define."""

from __future__ import annotations

from pathlib import Path

from tuner.conformance.candidates import artifact_of
from tuner.packages.symbols import defined_in, with_own_names

SOURCE = "int helper(int x) { return x + 1; }\nint blur(int x) { return helper(x) * 2; }\n"


def test_all_that_an_object_defines_is_named_after_its_entry(tmp_path: Path) -> None:
    (tmp_path / "blur.c").write_text(SOURCE)
    data = artifact_of(tmp_path / "blur.c", "blur").object_bytes
    assert sorted(defined_in(data)) == ["blur", "helper"]
    assert sorted(defined_in(with_own_names(data, "blur"))) == ["blur", "blur__helper"]
    another = with_own_names(data, "blur", renamed="blur_2")
    assert sorted(defined_in(another)) == ["blur_2", "blur_2__helper"]
