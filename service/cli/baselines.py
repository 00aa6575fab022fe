"""``--baseline``: what is told by a file becomes the text that a job keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UserError

_SUFFIXES = (".json", ".o", ".py")
_FUNCTION = "schedule"


def read_baseline(given: str, params: Mapping[str, int], *, at_service: bool) -> str:
    """The option's value for what the command line gives: a name as it is, or what the file says.

    An object is kept in the state directory, where a service does not look. A Python function makes
    its schedule here, in a contained process, for these ``params``. ``UserError`` for a file that
    cannot be read, or has something else in it.
    """
    name, _, symbol = given.partition(":")
    path = Path(name)
    if given.lstrip().startswith(("{", "[")) or path.suffix not in _SUFFIXES:
        return given
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"--baseline {name}: {error.strerror}",
            accepted="default, textbook, or a file: .json, .py or .o",
        ) from None
    if path.suffix == ".o":
        if at_service:
            raise UserError(
                f"--baseline {name} with a service",
                next_step="leave --server out: objects are measured where they are",
            )
        from tuner.executor.baselines import keep_object

        return keep_object(content, symbol)
    if path.suffix == ".py":
        return _made(path.name, symbol or _FUNCTION, content, params)
    return content.decode(errors="replace")


def _made(file: str, function: str, source: bytes, params: Mapping[str, int]) -> str:
    from tuner.packages.python_code import PythonFailedError, scheduled

    try:
        return scheduled(file, function, source, params)
    except PythonFailedError as error:
        raise UserError(
            f"--baseline {file}:{function} fails: {error}",
            accepted=f"def {function}({', '.join(['steps', *params])}), which calls "
            "steps.stage(NAME) and its methods, such as vectorize",
            next_step=f"change {file}; docs/search.md shows one",
        ) from None
