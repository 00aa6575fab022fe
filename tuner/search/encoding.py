"""Configs as Optuna parameters and back, and configs with one knob changed.

An ordered knob becomes the index of its choice, as an integer, so that samplers see the order; a
categorical knob becomes a categorical parameter. A knob with one choice has no parameter.
"""

from __future__ import annotations

from random import Random
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import Trial

from tuner.space import Config, Knob, KnobValue, Space

FIXED = "fixed_params"
"""Optuna's system attribute of a trial that no sampler proposed."""


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The distribution of every knob that offers a choice, by name."""
    return {knob.name: _distribution(knob) for knob in space.knobs if len(knob.choices) > 1}


def _distribution(knob: Knob) -> BaseDistribution:
    if knob.ordered:
        return IntDistribution(0, len(knob.choices) - 1)
    return CategoricalDistribution(knob.choices)


def encode(space: Space, config: Config) -> dict[str, Any]:
    """``config`` as parameters of a trial."""
    return {
        knob.name: knob.choices.index(config[knob.name]) if knob.ordered else config[knob.name]
        for knob in space.knobs
        if knob.name in config and len(knob.choices) > 1
    }


def suggest(space: Space, trial: Trial) -> dict[str, KnobValue]:
    """Has the sampler of ``trial`` choose every active knob, in order."""
    values: dict[str, KnobValue] = {}
    for knob in space.walk(values):
        if len(knob.choices) == 1:
            values[knob.name] = knob.choices[0]
        elif knob.ordered:
            values[knob.name] = knob.choices[trial.suggest_int(knob.name, 0, len(knob.choices) - 1)]
        else:
            values[knob.name] = str(trial.suggest_categorical(knob.name, knob.choices))
    return values


def with_choice(
    space: Space, config: Config, changed: Knob, choice: KnobValue, random: Random
) -> Config | None:
    """``config`` with one knob at ``choice``; knobs that this activates are drawn at random.

    ``None`` if the result breaks a constraint.
    """
    values: dict[str, KnobValue] = {}
    for knob in space.walk(values):
        if knob == changed:
            values[knob.name] = choice
        elif knob.name in config:
            values[knob.name] = config[knob.name]
        else:
            values[knob.name] = random.choice(knob.choices)
    return Config(values) if space.violation(values) is None else None
