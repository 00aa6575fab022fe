"""Samplers by name: each makes an Optuna sampler for a space.

One file and one line in ``_REGISTRY`` add one here; a package adds one by an entry point of the
group ``hvxtune.samplers``. ``sampler`` holds the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.errors import UserError
from tuner.records.request import DEFAULT_FOR_SEVERAL, DEFAULT_SAMPLER
from tuner.registry import Registry
from tuner.search.samplers.sampler import Sampler, Source, SpaceExhaustedError

if TYPE_CHECKING:
    from tuner.space import Space

_REGISTRY: Registry[Sampler] = Registry(
    "sampler",
    "hvxtune.samplers",
    {
        "tpe": "tuner.search.samplers.optuna_samplers:Tpe",
        "random": "tuner.search.samplers.optuna_samplers:Random",
        "surrogate": "tuner.search.samplers.surrogate:Surrogate",
        "cmaes": "tuner.search.samplers.optuna_samplers:CmaEs",
        "brute": "tuner.search.samplers.brute_force:BruteForce",
    },
    Sampler,
    choose_with="choose one of these, or leave the sampler out",
)


def sampler_names() -> list[str]:
    """The names of all samplers."""
    return _REGISTRY.names()


def require_sampler(name: str) -> None:
    """Raises ``UserError`` with the accepted names if no sampler is called ``name``."""
    _REGISTRY.require(name)


def find_sampler(name: str) -> Sampler:
    """The sampler called ``name``; ``UserError`` names the accepted ones otherwise."""
    return _REGISTRY.find(name)()


def require_fits(name: str, space: Space) -> None:
    """Raises what making the sampler for ``space`` would, without the time it takes.

    ``UserError`` if the sampler cannot search it, ``ToolchainError`` if its package is missing.
    """
    find_sampler(name).require_fits(space)


def sampler_for(name: str | None, objectives: Sequence[str]) -> str:
    """The sampler called ``name``, or the usual one for these objectives if it is ``None``.

    ``UserError`` if no sampler has that name, or it cannot search for several objectives at once.
    """
    if name is None:
        return DEFAULT_SAMPLER if len(objectives) == 1 else DEFAULT_FOR_SEVERAL
    if len(objectives) > 1 and not find_sampler(name).several_objectives:
        able = [n for n in sampler_names() if find_sampler(n).several_objectives]
        raise UserError(
            f"sampler={name} searches for one objective, not for {', '.join(objectives)}",
            accepted=", ".join(able),
            next_step="choose one of these, or leave the sampler out",
        )
    require_sampler(name)
    return name


__all__ = [
    "DEFAULT_FOR_SEVERAL",
    "DEFAULT_SAMPLER",
    "Sampler",
    "Source",
    "SpaceExhaustedError",
    "find_sampler",
    "require_fits",
    "require_sampler",
    "sampler_for",
    "sampler_names",
]
