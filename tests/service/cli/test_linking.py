"""``simulate`` and ``runtime``."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.linking import runtime, simulate
from tuner.errors import UserError
from tuner.packages.symbols import defined_in


def test_only_programs_for_hexagon_are_simulated(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        simulate(tmp_path / "nothing")
    with pytest.raises(UserError, match="not a program for Hexagon"):
        simulate(Path("/bin/true"))


@pytest.mark.slow
def test_the_runtime_defines_what_objects_call(tmp_path: Path) -> None:
    runtime(tmp_path / "runtime.o")
    defined = defined_in((tmp_path / "runtime.o").read_bytes())
    wanted = {"halide_malloc", "halide_free", "halide_string_to_string", "halide_do_par_for"}
    assert wanted | {"halide_error_constraint_violated"} <= {*defined}
    with pytest.raises(UserError, match="cannot be written"):
        runtime(tmp_path / "missing" / "runtime.o")
