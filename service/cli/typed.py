"""What a service says of fields and routes, in the words of the command line."""

from __future__ import annotations

import re

from tuner.errors import HvxtuneError
from tuner.records.request import JobOptions, by_name

_FIELD = re.compile(r"\bbudget\.(\w+)")
_PARAM = re.compile(r"^params\.(\w+)")
_VALUE = re.compile(r"^(\w+)=")
_INSTEAD = {
    "`GET /v1/jobs` lists them": "`hvxtune jobs` lists them",
    "`GET /v1/jobs?grouped=true` lists them": "`hvxtune jobs` lists them",
    "see /docs for what each field takes": "see --help",
    "POST /v1/jobs with the body in `submit`, or ask with on_miss=enqueue": "`hvxtune tune` finds "
    "one",
}


def as_typed(error: HvxtuneError) -> HvxtuneError:
    """``error`` with options as they are typed: ``--trials`` for the field ``budget.trials``."""
    message = _PARAM.sub(r"-p \1", _fields(error.message))
    error.message = _VALUE.sub(lambda found: _flag(found, " "), message)
    error.accepted = _fields(error.accepted)
    error.next_step = _fields(_INSTEAD.get(error.next_step.rstrip("."), error.next_step))
    return error


def _fields(text: str) -> str:
    return _FIELD.sub(lambda found: _flag(found, ""), text)


def _flag(found: re.Match[str], behind: str) -> str:
    """The option that a field is, or the text as it was."""
    option = by_name(JobOptions).get(found[1])
    return found[0] if option is None else option.flags[0].partition("/")[0] + behind
