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
from tuner.search.samplers.sampler import Sampler, SpaceExhaustedError

if TYPE_CHECKING:
    from tuner.space import Space

_REGISTRY: Registry[Sampler] = Registry(
    "sampler",
    "hvxtune.samplers",
    {
        "tpe": "tuner.search.samplers.tpe:Tpe",
        "random": "tuner.search.samplers.random:Random",
        "surrogate": "tuner.search.samplers.surrogate:Surrogate",
        "hill": "tuner.search.samplers.hill_climbing:HillClimbing",
        "nsga2": "tuner.search.samplers.nsga2:Nsga2",
        "cmaes": "tuner.search.samplers.cma_es:CmaEs",
        "brute": "tuner.search.samplers.brute_force:BruteForce",
    },
    Sampler,
    option="--sampler",
)


def sampler_names() -> list[str]:
    """The names of all samplers."""
    return _REGISTRY.names()


def require_sampler(name: str) -> None:
    """``UserError`` naming the accepted ones if there is no sampler called ``name``."""
    _REGISTRY.require(name)


def find_sampler(name: str) -> Sampler:
    """The sampler called ``name``; ``UserError`` names the accepted ones otherwise."""
    return _REGISTRY.find(name)()


def require_fits(name: str, space: Space) -> None:
    """Raises what making the sampler for ``space`` would, without the time it takes.

    ``UserError`` if the sampler cannot search it, ``ToolchainError`` if its package is missing.
    """
    find_sampler(name).require_fits(space)


def sampler_for(name: str | None, goals: Sequence[str]) -> str:
    """The sampler called ``name``, or the usual one for these goals if none is named.

    ``UserError`` if there is none of that name, or it cannot search for several goals at once.
    """
    if name is None:
        return DEFAULT_SAMPLER if len(goals) == 1 else DEFAULT_FOR_SEVERAL
    if len(goals) > 1 and not find_sampler(name).several_objectives:
        able = [n for n in sampler_names() if find_sampler(n).several_objectives]
        raise UserError(
            f"sampler={name} searches for one goal, not for {', '.join(goals)}",
            accepted=", ".join(able),
            next_step="choose one of these, or none, with --sampler",
        )
    require_sampler(name)
    return name


__all__ = [
    "DEFAULT_FOR_SEVERAL",
    "DEFAULT_SAMPLER",
    "Sampler",
    "SpaceExhaustedError",
    "find_sampler",
    "require_fits",
    "require_sampler",
    "sampler_for",
    "sampler_names",
]
