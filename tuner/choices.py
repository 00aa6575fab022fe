"""What the options of a job have to choose from here, installed packages included.

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
    """What ``option`` is for, with what there is to choose from here."""
    return option.help.replace("{choices}", ", ".join(choices_of(option)))
