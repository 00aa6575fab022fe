"""The options of a job as keywords of Python functions: for type checkers, ``help()``, and names
that are misspelt.

:class:`JobKeywords` repeats the names and types of :class:`tuner.records.request.JobOptions`, as
type checkers read no other form; a test compares them. Defaults and meanings come from there.
"""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypedDict, TypeVar, get_type_hints

from tuner.errors import UserError
from tuner.jobs.choices import help_of
from tuner.records.candidate import CacheState, Preference
from tuner.records.request import JobOptions, Option, Visibility, options_of

P = ParamSpec("P")
T = TypeVar("T")

_DOC_COLUMNS = 92
"""A docstring's lines without the indentation that ``help()`` adds."""


class JobKeywords(TypedDict, total=False):
    """The options of a job besides its workload."""

    cache: CacheState
    target: str
    contract: str
    trials: int | None
    seconds: float | None
    patience: int | None
    until_gain: float | None
    measurer: str
    on: str
    promote_to: str
    promote: int
    objectives: Sequence[str]
    prefer: Preference | None
    sampler: str | None
    transfer: bool
    seed: int
    workers: int | None
    generator: str | None
    baseline: str
    label: str
    priority: int
    visibility: Visibility | None


def explained(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, whose ``**options`` are :class:`JobKeywords`, with a signature and a docstring
    that name each of them. A keyword that there is not is a ``UserError`` with the nearest one."""
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    hints = get_type_hints(JobKeywords)
    options = options_of(JobOptions)
    named = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=hints[one.name],
        )
        for one in options
    ]
    known = [one.name for one in (*own, *named)]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                raise _misspelt(function.__name__, name, known)
        return function(*args, **kwargs)

    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=sorted([*own, *named], key=lambda one: one.kind)
    )
    call.__doc__ = f"{inspect.getdoc(function)}\n\nOptions of the job:\n\n{_described(options)}\n"
    return call


def _misspelt(function: str, name: str, known: Sequence[str]) -> UserError:
    near = difflib.get_close_matches(name, known, n=1)
    return UserError(
        f"{function}() has no keyword '{name[:40]}'",
        accepted=", ".join(known),
        next_step=f"did you mean {near[0]}?" if near else "",
    )


def _described(options: Sequence[Option]) -> str:
    return "\n".join(
        textwrap.fill(
            f"{one.name}: {help_of(one)} [{one.unset or repr(one.default)}]",
            _DOC_COLUMNS,
            subsequent_indent="    ",
        )
        for one in options
    )
