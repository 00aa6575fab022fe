"""Samplers, by name. Each is an Optuna sampler; one file and one line in ``_REGISTRY`` add one."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING

from tuner.errors import UserError
from tuner.space import Space

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

_REGISTRY = {
    "tpe": "tuner.search.samplers.tpe",
    "random": "tuner.search.samplers.random",
    "surrogate": "tuner.search.samplers.surrogate",
    "hill": "tuner.search.samplers.hill_climbing",
    "nsga2": "tuner.search.samplers.nsga2",
    "cmaes": "tuner.search.samplers.cma_es",
    "brute": "tuner.search.samplers.brute_force",
}
"""Sampler name to the module whose ``make(space, seed)`` returns the Optuna sampler. One that does
not fit every space has ``require_fits(space)``, which raises what ``make`` would."""


DEFAULT_SAMPLER = "surrogate"
"""What a job searches with unless told otherwise."""


def sampler_names() -> list[str]:
    """The names of all samplers."""
    return list(_REGISTRY)


def require_sampler(name: str) -> None:
    """``UserError`` naming the accepted ones if there is no sampler called ``name``."""
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=1)
        raise UserError(
            f"unknown sampler '{name}'",
            accepted=", ".join(_REGISTRY),
            next_step=f"did you mean --sampler {near[0]}?" if near else "choose with --sampler",
        )


def require_fits(name: str, space: Space) -> None:
    """Raises what :func:`make_sampler` would for ``space``, without the time it takes.

    ``UserError`` if the sampler cannot search it, ``ToolchainError`` if its package is missing.
    """
    require_sampler(name)
    check = getattr(import_module(_REGISTRY[name]), "require_fits", None)
    if check is not None:
        check(space)


def make_sampler(name: str, space: Space, seed: int) -> BaseSampler:
    """A fresh sampler for ``space``; the same seed makes the same proposals."""
    require_sampler(name)
    sampler: BaseSampler = import_module(_REGISTRY[name]).make(space, seed)
    return sampler
