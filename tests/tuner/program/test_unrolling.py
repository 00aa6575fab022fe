"""Programs written otherwise for a compiler mean the same."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.tuner.program.drawn import arguments_of, programs
from tuner.program.interpretation import interpreted
from tuner.program.loops import Program
from tuner.program.parsing import parsed
from tuner.program.printing import printed
from tuner.program.rows import ended
from tuner.program.unrolling import unrolled

WINDOW = """
def sums(height: size, width: size, image: u8[height + {1}, width + {1}]):
    for y, x in range(height), range(width):
        out[y, x] = u16(3)
    for y, x, i, j in ..., ..., range({0}, {1}), range({1}):
        out[y, x] = out[y, x] * 2 {2} u16(image[y + i, x + j]) * u16(i - j)
    return out
"""


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(1, 9), st.integers(1, 17), st.integers(0, 99))
def test_a_program_without_its_windows_means_the_same(
    program: Program, height: int, width: int, seed: int
) -> None:
    sizes = {"height": height, "width": width}
    inputs, scalars = arguments_of(program, sizes, seed)
    wanted = interpreted(program, sizes, inputs, scalars)
    made = unrolled(program)
    for one in (made, ended(made)):
        note(printed(one))
        for name, values in interpreted(one, sizes, inputs, scalars).items():
            np.testing.assert_array_equal(values, wanted[name], err_msg=name, strict=True)


@given(st.integers(0, 2), st.integers(3, 8), st.sampled_from("+-"), st.integers(0, 99))
def test_a_small_window_is_written_out_step_by_step(
    first: int, end: int, by: str, seed: int
) -> None:
    program, sizes = parsed(WINDOW.format(first, end, by), {}), {"height": 3, "width": 5}
    made = unrolled(program)
    assert bool(made.stages[0].updates) == ((end - first) * end > 64)
    image = np.random.default_rng(seed).integers(0, 256, (3 + end, 5 + end), np.uint8)
    wanted, found = (interpreted(one, sizes, {"image": image}, {}) for one in (program, made))
    np.testing.assert_array_equal(found["out"], wanted["out"], strict=True)
