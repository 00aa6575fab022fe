"""Pipelines that read beyond the edges of their input, in each way that Halide has of that.

``python -m tests.rig.edged_pipelines`` writes them all to standard output, serialized.
"""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from functools import cache
from itertools import product
from typing import Any

EDGES = ("repeat_edge", "mirror_image", "mirror_interior", "constant_exterior")
DTYPES = ("uint8", "int16", "int32")
FORMS = ("row", "two outputs", "plane")
"""A blur along a row, the same as an output that another output reads, and a blur of a plane."""


@cache
def edged_pipelines() -> dict[tuple[str, str, str], bytes]:
    """Each by its edge, its type and its form; all from one process of their own."""
    command = [sys.executable, "-m", "tests.rig.edged_pipelines"]
    made = subprocess.run(command, capture_output=True, check=True).stdout
    return {(edge, dtype, form): b64decode(data) for edge, dtype, form, data in json.loads(made)}


def _pipeline(hl: Any, edge: str, dtype: str, form: str) -> Any:
    kind = {"uint8": hl.UInt(8), "int16": hl.Int(16), "int32": hl.Int(32)}[dtype]
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(kind, 2 if form == "plane" else 1, "image")
    value = (hl.cast(kind, 7),) if edge == "constant_exterior" else ()
    padded = getattr(hl.BoundaryConditions, edge)(image, *value)

    def near(*place: Any) -> Any:
        return hl.i32(padded[place]) >> 2  # of 32 bits, too, four may be added

    blurred = hl.Func("blurred")
    if form == "plane":
        around = near(x - 1, y) + near(x + 1, y) + near(x, y - 1) + near(x, y + 1)
        blurred[x, y] = hl.cast(kind, around)
        return hl.Pipeline([blurred])
    blurred[x] = hl.cast(kind, near(x - 1) + 2 * near(x) + near(x + 1))
    if form == "row":
        return hl.Pipeline([blurred])
    detail = hl.Func("detail")
    detail[x] = padded[x] ^ blurred[x]
    return hl.Pipeline([blurred, detail])


if __name__ == "__main__":
    import halide

    rows = [
        [*key, b64encode(bytes(halide.serialize_pipeline(_pipeline(halide, *key)))).decode()]
        for key in product(EDGES, DTYPES, FORMS)
    ]
    sys.stdout.write(json.dumps(rows))
