"""Whether a stored config is a point of its space now, and marks that say it was found to be one.

A mark names all that the verdict depends on: problem, generator, config, and the code that judged,
which is all Python of :mod:`tuner`. One made by other code, or for another config or problem, does
not match: the config is judged again.
"""

from __future__ import annotations

import time
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tuner.codegen import find_generator, space_of
from tuner.errors import UserError
from tuner.kernels import PIPELINE_PREFIX, Kernel, find_kernel
from tuner.records.candidate import Problem
from tuner.space import Config, Space

_ROOT = Path(__file__).parents[1]
_OURS = f"{__name__.partition('.')[0]}."
_STARTED_AT = time.time()


def mark_of(problem: Problem, generator: str, config_digest: str) -> str:
    """The mark that a config of ``problem`` has if this code found it in the generator's space;
    empty where the code of this process cannot be told."""
    code = _code()
    if not code:
        return ""
    workload, target = problem.workload.digest, problem.target.digest
    parts = (code, workload, target, problem.contract, generator, config_digest)
    return sha256("\0".join(parts).encode()).hexdigest()


def judge(problem: Problem, generator: str, config: Config) -> str:
    """The mark of ``config`` if it is a point of its space now, else nothing. Nothing also where
    code of others has a say: that of another package, or an uploaded pipeline."""
    if problem.workload.kernel.startswith(PIPELINE_PREFIX):
        return ""
    try:
        kernel, made_by = find_kernel(problem.workload.kernel), find_generator(generator)
        is_ours = all(one.__module__.startswith(_OURS) for one in (type(kernel), made_by))
        if not is_ours or not made_by.space(kernel, problem).admits(config.as_dict()):
            return ""
    except UserError:
        return ""
    return mark_of(problem, generator, config.digest)


def outside_space(
    problem: Problem, config: Any, generator: str, kernel: Kernel | None = None
) -> str:
    """Why ``config`` is not in the generator's space for the problem now; empty if it is."""
    try:
        space = space_of(generator, kernel or find_kernel(problem.workload.kernel), problem)
    except UserError as error:
        return f"its kernel gives no space: {error.message}"
    return outside(space, config)


def outside(space: Space, config: Any) -> str:
    """Why ``config`` is not a point of ``space``; empty if it is one."""
    if space.admits(config):
        return ""
    try:
        space.config(config)
    except UserError as error:
        return f"its config is outside the space: {error.message}"
    except TypeError as error:
        return f"its config cannot be read: {error}"
    return ""


@cache
def _code() -> str:
    """A digest of all modules of ``tuner``; empty if one was changed since this process loaded it:
    then the code that judges is not the code in the file."""
    digest = sha256()
    for file in sorted(_ROOT.rglob("*.py")):
        if file.stat().st_ctime > _STARTED_AT:
            return ""
        content = file.read_bytes()
        digest.update(f"{file.relative_to(_ROOT)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
