"""Proposals: valid, new configs from an Optuna sampler, and results fed back to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

import optuna
from optuna.trial import TrialState, create_trial

from tuner.codegen.portfolio import MAIN
from tuner.objectives import DEFAULT_OBJECTIVES, figures_of
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.search import encoding
from tuner.search.samplers import SpaceExhaustedError, find_sampler
from tuner.search.shares import Shares
from tuner.space import Config, Knob, KnobValue, Space

_SAMPLER_ATTEMPTS = 4
"""TPE that has narrowed down repeats itself: of 20 attempts at 5 ms each most were wasted, a sixth
of the time of a quick kernel's trial, and a neighbour of what it repeats is as good a guess."""
_RANDOM_ATTEMPTS = 200


@dataclass(frozen=True)
class Proposal:
    """A config to try and the Optuna trial that waits for its result."""

    config: Config
    trial: optuna.Trial


class Proposer:
    """Asks a sampler for configs of a space and tells it what became of them.

    The study lives in memory; the trial table is the truth, and :meth:`replay` rebuilds from it.
    Not for several threads at once.

    What the sampler proposes can break a constraint or repeat a config. It is told so (as a
    pruned trial, which the samplers rank below every measured one) and asked again, a limited
    number of times; then a random valid neighbour of its last proposal, or a random valid config,
    takes its place. So does, for a generator that had its share (:class:`Shares`), the same
    schedule by the main one.
    """

    def __init__(
        self, space: Space, sampler: str, seed: int, goals: Sequence[str] = DEFAULT_OBJECTIVES
    ) -> None:
        """What is told of a result are the figures of ``goals``, in their order."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._distributions = encoding.distributions(space)
        self._goals = goals
        self._sampler = find_sampler(sampler)
        self._study = optuna.create_study(
            sampler=self._sampler.make(space, seed), directions=["minimize"] * len(goals)
        )
        self._random = Random(seed)  # noqa: S311 - a search, not a secret
        self._seen: set[str] = set()
        self._shares = Shares(space, limited=not self._sampler.walks_all)

    @property
    def study(self) -> optuna.Study:
        """The study, for reading."""
        return self._study

    def replay(self, trials: Iterable[Trial]) -> None:
        """Tells the study about trials finished in an earlier session."""
        for trial in trials:
            self._note(trial.config)
            params = encoding.encode(self._space, trial.config)
            figures = figures_of(trial.measurement, self._goals)
            if figures:
                self._shares.learned(trial.config, figures[0])
            self._study.add_trial(
                create_trial(
                    state=TrialState.COMPLETE if figures else _state_of(trial.outcome),
                    values=[float(figure) for figure in figures] if figures else None,
                    params=params,
                    distributions={name: self._distributions[name] for name in params},
                    system_attrs=self._sampler.notes_of_replayed(self._study.sampler),
                )
            )

    def propose(self, config: Config) -> Proposal:
        """A proposal for a given config (a seed, or one interrupted before)."""
        self._note(config)
        self._study.enqueue_trial(encoding.encode(self._space, config))
        trial = self._study.ask()
        encoding.suggest(self._space, trial)
        return Proposal(config, trial)

    def has_seen(self, config: Config) -> bool:
        """Whether ``config`` was proposed, told or replayed already."""
        return config.digest in self._seen

    def ask(self) -> Proposal | None:
        """The next config to try, valid and never proposed before; ``None`` if none is left."""
        last: Config | None = None
        for _ in range(_SAMPLER_ATTEMPTS):
            trial = self._study.ask()
            try:
                values = encoding.suggest(self._space, trial)
            except SpaceExhaustedError:
                self._study.tell(trial, state=TrialState.FAIL)
                return None
            valid = self._space.violation(values) is None
            within = valid and self._shares.allows(values)
            if valid:
                last = Config(values)
                if within and not self.has_seen(last):
                    self._note(last)
                    return Proposal(last, trial)
            # A repeat teaches nothing new, nor does a share; a broken constraint does.
            self._study.tell(trial, state=TrialState.FAIL if valid else TrialState.PRUNED)
            if valid and not within:
                break  # asked again, it would want the same
        config = self._unseen(last)
        return None if config is None else self.propose(config)

    def _unseen(self, near: Config | None) -> Config | None:
        """A valid config that was not proposed: near ``near`` if possible, else anywhere."""
        for config in chain(self._near(near), self._anywhere()):
            if config is not None and not self.has_seen(config) and self._shares.allows(config):
                return config
        return next((c for c in self._space if not self.has_seen(c)), None)

    def _near(self, config: Config | None) -> Iterator[Config | None]:
        """What is nearest to ``config``; ``None`` where that would not be valid."""
        if config is None:
            return
        if self._shares.knob is not None and not self._shares.allows(config):
            config = self._changed(config, self._shares.knob, MAIN) or config
            yield config
        for _ in range(_RANDOM_ATTEMPTS):
            knob = self._random.choice([k for k in self._space.knobs if k.name in config])
            yield self._changed(config, knob)

    def _anywhere(self) -> Iterator[Config]:
        for _ in range(_RANDOM_ATTEMPTS):
            yield self._space.sample(self._random)

    def _changed(
        self, config: Config, changed: Knob, choice: KnobValue | None = None
    ) -> Config | None:
        """``config`` with one knob at ``choice``, or at random; knobs that thereby wake are drawn,
        too. ``None`` if that is not valid."""
        values: dict[str, KnobValue] = {}
        for knob in self._space.walk(values):
            if knob == changed and choice is not None:
                values[knob.name] = choice
            elif knob == changed or knob.name not in config:
                values[knob.name] = self._random.choice(knob.choices)
            else:
                values[knob.name] = config[knob.name]
        return Config(values) if self._space.violation(values) is None else None

    def _note(self, config: Config) -> None:
        """That ``config`` is, or was, a trial."""
        self._seen.add(config.digest)
        self._shares.proposed(config)

    def tell(self, proposal: Proposal, outcome: Outcome, *figures: int | None) -> None:
        """The result of ``proposal``: a figure for each goal if the outcome is ``ok``, else a
        failure. Without one of its figures it is a failure, too. What a machine failed at says
        nothing of the config: no sampler learns of it."""
        told = [float(figure) for figure in figures if figure is not None]
        if outcome is Outcome.OK and len(told) == len(self._goals):
            self._shares.learned(proposal.config, told[0])
            self._study.tell(proposal.trial, told)
        else:
            self._study.tell(proposal.trial, state=_state_of(outcome))


def _state_of(outcome: Outcome) -> TrialState:
    """Of a trial without figures. Samplers learn from what was pruned, not from what failed."""
    return TrialState.FAIL if outcome is Outcome.DEVICE_ERROR else TrialState.PRUNED
