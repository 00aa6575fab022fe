"""The choices of job options on this machine, installed packages included.

Costs no heavy import: the help of the command line asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tuner.codegen import generator_names
from tuner.measure import measurer_names
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS
from tuner.records.request import Option
from tuner.search.samplers import sampler_names


def choices_of(option: Option) -> list[str]:
    """The values that ``option`` has to choose from here; none if it takes any of its kind."""
    if not isinstance(option.choices, str):
        return list(option.choices)
    known: Mapping[str, Callable[[], Iterable[str]]] = {
        "contract": lambda: [contract.value for contract in Contract],
        "generator": generator_names,
        "measurer": measurer_names,
        "sampler": sampler_names,
        "target": lambda: TARGETS,
    }
    return list(known[option.choices]()) if option.choices in known else []


def help_of(option: Option) -> str:
    """The help text of ``option``, with its choices filled in."""
    return option.help.replace("{choices}", ", ".join(choices_of(option)))
