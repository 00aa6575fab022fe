"""Files that commands and answers suggest: names made from those of people and kernels, and where
else to find what a schedule lacks.

Names in one place, because a colon (``pipeline:0123456789ab``), a slash (``ann/blur``) or a quote
ends up in shells, in makefiles, on file systems and in headers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.records.candidate import Problem

_MOST_CHARACTERS = 120


def suggested(name: str) -> str:
    """``name`` as a file name: letters, digits and ``. _ -`` only, and not hidden."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip("._-")
    return plain[:_MOST_CHARACTERS] or "file"


def identifier(problem: Problem, label: str) -> str:
    """The C name of the function compiled for ``problem``, with its kernel's label:
    ``blur_x256_y48_static`` rather than the digits of an upload."""
    kernel = problem.workload.kernel
    if not label or label == kernel:
        return problem.symbol
    plain = re.sub(r"\W", "_", label, flags=re.ASCII).lstrip("0123456789") or "kernel"
    return problem.symbol.replace(kernel.replace(":", "_"), plain, 1)


def attachment(name: str) -> dict[str, str]:
    """The header that has a browser save an answer as a file called ``name``."""
    return {"Content-Disposition": f'attachment; filename="{suggested(name)}"'}


def way_to(kind: str) -> str:
    """The next step where a schedule lacks the file ``kind``, or nothing."""
    if kind != "schedule":
        return ""
    return "tune with the generator halide: code in C or intrinsics comes without Halide's schedule"
