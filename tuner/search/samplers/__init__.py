"""Samplers, by name. Each is an Optuna sampler; one file and one line in ``_REGISTRY`` add one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
not fit every space has ``require_fits(space)``, which raises what ``make`` would. One that can
search for several goals at once says so: ``SEVERAL_GOALS = True``; and one that proposes every
config there is, whatever becomes of them: ``WALKS_ALL = True``."""


DEFAULT_SAMPLER = "surrogate"
"""What a job searches with unless told otherwise."""
DEFAULT_FOR_SEVERAL = "tpe"
"""What one with several goals does."""


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


def sampler_for(name: str | None, goals: Sequence[str]) -> str:
    """The sampler called ``name``, or the usual one for these goals if none is named.

    ``UserError`` if there is none of that name, or it cannot search for several goals at once.
    """
    if name is None:
        return DEFAULT_SAMPLER if len(goals) == 1 else DEFAULT_FOR_SEVERAL
    require_sampler(name)
    if len(goals) > 1 and not _several_goals(name):
        raise UserError(
            f"sampler={name} searches for one goal, not for {', '.join(goals)}",
            accepted=", ".join(filter(_several_goals, _REGISTRY)),
            next_step="choose one of these, or none, with --sampler",
        )
    return name


def walks_all(name: str) -> bool:
    """Whether the sampler proposes every config of a space, and has no choice to make."""
    require_sampler(name)
    return bool(getattr(import_module(_REGISTRY[name]), "WALKS_ALL", False))


def _several_goals(name: str) -> bool:
    return bool(getattr(import_module(_REGISTRY[name]), "SEVERAL_GOALS", False))


def notes_of_replayed(sampler: BaseSampler) -> dict[str, Any]:
    """What ``sampler`` would have noted with trials that it did not propose itself, if it keeps
    notes with trials (``replayed_notes``)."""
    notes: dict[str, Any] = getattr(sampler, "replayed_notes", {})
    return dict(notes)


def make_sampler(name: str, space: Space, seed: int) -> BaseSampler:
    """A fresh sampler for ``space``; the same seed makes the same proposals."""
    require_sampler(name)
    sampler: BaseSampler = import_module(_REGISTRY[name]).make(space, seed)
    return sampler
