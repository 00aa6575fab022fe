"""The contract of a sampler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from tuner.space import Config, Space


class SpaceExhaustedError(Exception):
    """Every valid config has been proposed."""


@dataclass(frozen=True)
class Source:
    """What an earlier job on a similar problem measured, as configs of this space.

    ``results`` has the cycles of each config there over those of that job's textbook config;
    ``textbook`` is that of the job that learns from them.
    """

    textbook: Config
    results: Sequence[tuple[Config, float]]


class Sampler(ABC):
    """Makes Optuna samplers that search a space; made without arguments, and keeps no state.

    The search asks and tells in memory, several candidates in flight, and rebuilds the study of
    a resumed job from its trials: a sampler must take trials that it did not propose, and trials
    whose parameters were fixed (``fixed_params`` in their system attributes). Its distributions are
    those of :mod:`tuner.search.encoding`. A proposal that breaks a constraint is told as
    ``PRUNED``, and a valid config drawn in its place: a sampler need not know constraints, but
    searches better if it does. One that has proposed every valid config raises
    :class:`SpaceExhaustedError` from ``sample_relative``. The same seed and the same results give
    the same proposals. :class:`tuner.search.samplers.points.ConfigSampler` is a base for Optuna
    samplers that propose whole configs.

    The conformance suite is :class:`tuner.conformance.samplers.SamplerConformance`.
    """

    several_objectives: ClassVar[bool] = False
    """Whether it can minimize several objectives at once."""
    walks_all: ClassVar[bool] = False
    """Whether it proposes every config of a space, whatever the results."""

    @abstractmethod
    def make(self, space: Space, seed: int) -> BaseSampler:
        """A fresh Optuna sampler for ``space``. Raises what :meth:`require_fits` raises."""

    def make_after(self, source: Source, space: Space, seed: int) -> BaseSampler:
        """A fresh one that may learn from ``source`` as well; by default it does not."""
        return self.make(space, seed)

    def require_fits(self, space: Space) -> None:
        """Checks quickly that it can search ``space``; by default it can search any.

        Raises ``UserError`` if it cannot, ``ToolchainError`` naming a missing package.
        """
        return
