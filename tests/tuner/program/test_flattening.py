"""Axes that become one: the elements stay, and axes that are not side by side stay apart."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import pytest

from tuner.program.bounds import shapes_of
from tuner.program.flattening import flattened
from tuner.program.interpretation import interpreted
from tuner.program.parsing import parsed

SIZES = "c: size, y: size, x: size"
HEAD = f"def made({SIZES}, image: u8[c, y, x], row: u8[x], bias: u8[c], lut: u8[256]):"
CASES = {
    "image[k, j, i] + 1": 1,
    "image[k, j, i] + bias[k]": 2,
    "image[k, j, i] + row[i]": 2,
    "image[0, j, i] ^ image[k, j, i]": 2,
    "lut[i32(image[k, j, i])]": 1,
    "image[k, j, i] + u8(j)": 3,
    "image[k, y - 1 - j, i]": 3,
    "image[k, j, i] + lut[i]": 2,
}


@pytest.mark.parametrize(("value", "rank"), CASES.items())
def test_elements_stay_where_they_are(value, rank):
    dice = Random(value)
    sizes = {name: dice.randint(1, 9) for name in "cyx"}
    loops = (
        "        for j in range(y):\n            for i in range(x):\n"
        f"                out[k, j, i] = {value}\n    return out\n"
    )
    program = parsed(f"{HEAD}\n    for k in range(c):\n{loops}")
    shapes = {name: (*sizes.values(),) for name in ("image", "out")}
    shapes |= {"row": (sizes["x"],), "bias": (sizes["c"],), "lut": (256,)}
    inputs = {
        one.name: np.array(
            [dice.randint(0, 255) for _ in range(prod(shapes[one.name]))], np.uint8
        ).reshape(shapes[one.name])
        for one in program.inputs
    }
    wanted = interpreted(program, sizes, inputs, {})["out"]
    flat = flattened(program, shapes)
    assert len(flat.stages[0].axes) == rank
    own = shapes_of(flat, sizes if flat is program else {})
    given = {name: array.reshape(own[name]) for name, array in inputs.items()}
    made = interpreted(flat, sizes if flat is program else {}, given, {})["out"]
    assert (made.reshape(wanted.shape) == wanted).all()
