"""Plain C of random programs, compiled for this machine, gives what the reference gives."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.tuner.program.drawn import arguments_of, programs
from tests.tuner.program.native import called
from tuner.program.interpretation import interpreted
from tuner.program.loops import Program
from tuner.program.parsing import parsed
from tuner.program.plain_c import plain_c
from tuner.program.printing import printed


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(1, 9), st.integers(1, 17), st.integers(0, 99))
def test_c_agrees_with_the_reference(program: Program, height: int, width: int, seed: int) -> None:
    note(printed(program))
    sizes = {"height": height, "width": width}
    arguments = arguments_of(program, sizes, seed)
    wanted = interpreted(program, sizes, *arguments)
    with TemporaryDirectory() as folder:
        found = called(program, sizes, *arguments, Path(folder))
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_c_reads_like_the_loops() -> None:
    text = """
def blur(width: size, image: u8[width]):
    for x in ...:
        wide[x] = u16(image[max(min(x, width - 1), 0)])
    for x in range(width):
        out[x] = u8((wide[x - 1] + wide[x] * 2 + wide[x + 1] + 2) >> 2)
    return out
"""
    made = plain_c(parsed(text), {"width": 64})
    assert "enum { width = 64 };" in made
    assert "for (int32_t x = -1; x < 65; ++x) {" in made
    assert "wide[x + 1] = image[max_i32(min_i32(x, width - 1), 0)];" in made
