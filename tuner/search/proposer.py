"""Proposals: valid, new configs from an Optuna sampler, and results fed back to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import TYPE_CHECKING

import optuna
from optuna.trial import TrialState, create_trial

from tuner.problem.objectives import DEFAULT_OBJECTIVES, figures_of
from tuner.records.outcome import Outcome
from tuner.records.trial import FiguresOf, Trial
from tuner.search import encoding
from tuner.search.samplers import Source, SpaceExhaustedError, find_sampler
from tuner.space import Config, Knob, KnobValue, Space

if TYPE_CHECKING:
    from tuner.codegen.generator import Alternatives

_SAMPLER_ATTEMPTS = 4
"""TPE that has narrowed down repeats itself: of 20 attempts at 5 ms each most were wasted, a sixth
of the time of a quick kernel's trial, and a neighbour of what it repeats is as good a guess."""
_RANDOM_ATTEMPTS = 200
_MOST_SHARE = 0.25
"""The share of the trials that an alternative only just behind may take."""
_FALL = 4
"""How fast that share falls with distance: at 1.3 times the best it is a tenth."""
_NEWS = 0.97
"""A best result by an alternative is tried by the main choice too, each time that the cycles have
fallen to this: clang took 8 % less than Halide's LLVM on the first schedule of an argmax, got all
trials for it, and took 7 % more on the schedule that was best."""


class Shares:
    """Counts the trials of each choice of a knob of alternatives, and says which may have more.

    The choice that holds the best result may have any number, and so may the main one. One that is
    behind gets at most ``_MOST_SHARE * (best / its own best) ** _FALL`` of all trials; one without
    a result counts as just behind. Without ``alternatives`` everything is allowed.
    """

    def __init__(self, alternatives: Alternatives | None) -> None:
        self._limited = alternatives
        self._proposed: Counter[KnobValue] = Counter()
        self._best: dict[KnobValue, float] = {}
        self.leader: Config | None = None
        """The config of the best result."""

    @property
    def best(self) -> float:
        """The best result; infinite before the first."""
        return min(self._best.values(), default=math.inf)

    def proposed(self, config: Mapping[str, KnobValue]) -> None:
        """Counts ``config``, which is, or was, a trial."""
        if self._limited is not None:
            self._proposed[config[self._limited.knob]] += 1

    def learned(self, config: Config, figure: float) -> None:
        """Notes the ``figure`` of ``config``, of which less is better."""
        if self._limited is not None:
            if figure < self.best:
                self.leader = config
            choice = config[self._limited.knob]
            self._best[choice] = min(figure, self._best.get(choice, math.inf))

    def allows(self, config: Mapping[str, KnobValue]) -> bool:
        """Whether one more trial with the choice of ``config`` is within its share."""
        if self._limited is None or config[self._limited.knob] == self._limited.main:
            return True
        choice = config[self._limited.knob]
        best = self.best
        own = self._best.get(choice, best)
        if own == best and choice in self._best:
            return True
        behind = best / own if math.isfinite(own) else 1.0
        trials = self._proposed.total() + 1
        return self._proposed[choice] + 1 <= max(1.0, _MOST_SHARE * behind**_FALL * trials)


@dataclass(frozen=True)
class Proposal:
    """A config to try and the Optuna trial that waits for its result."""

    config: Config
    trial: optuna.Trial


class Proposer:
    """Asks a sampler for configs of a space and tells it their results.

    The study lives in memory; the trial table is the truth, and :meth:`replay` rebuilds from it.
    Not for several threads at once.

    A sampler's proposal can break a constraint or repeat a config. It is told so (as a pruned
    trial, which the samplers rank below every measured one) and asked again, a limited number of
    times; then a random valid neighbour of its last proposal, or a random valid config, takes its
    place. A proposal with an alternative that has had its share (:class:`Shares`) is replaced by
    the same schedule with the main choice. A schedule that is best by an alternative is proposed
    with the main choice, too.
    """

    def __init__(
        self,
        space: Space,
        sampler: str,
        seed: int,
        objectives: Sequence[str] = DEFAULT_OBJECTIVES,
        alternatives: Alternatives | None = None,
        figures: FiguresOf | None = None,
        source: Source | None = None,
    ) -> None:
        """A result is told as its figures of ``objectives``, in their order; ``figures`` gives
        those of a trial that is replayed, if they are not its measurement's. ``alternatives`` are
        those of the code generator that ``space`` is of. The sampler may learn from ``source``."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._distributions = encoding.distributions(space)
        self._objectives = objectives
        self._figures = figures or (lambda trial: figures_of(trial.measurement, objectives))
        self._name, self._sampler = sampler, find_sampler(sampler)
        made = (
            self._sampler.make(space, seed)
            if source is None
            else self._sampler.make_after(source, space, seed)
        )
        self._study = optuna.create_study(sampler=made, directions=["minimize"] * len(objectives))
        self._random = Random(seed)  # noqa: S311 - a search, not a secret
        self._seen: set[str] = set()
        self._alternatives = None if self._sampler.walks_all else alternatives
        self._shares = Shares(self._alternatives)
        self._compared = math.inf
        """The best result when an alternative's schedule was last proposed with the main choice."""
        self._settled: dict[str, KnobValue] = {}

    @property
    def study(self) -> optuna.Study:
        """The study; read only."""
        return self._study

    @property
    def walks_all(self) -> bool:
        """Whether the sampler proposes every config."""
        return self._sampler.walks_all

    def replay(self, trials: Iterable[Trial]) -> None:
        """Tells the study about trials finished in an earlier session."""
        for trial in trials:
            self._note(trial.config)
            params = encoding.encode(self._space, trial.config)
            given = trial.origin != self._name
            figures = self._figures(trial)
            if figures:
                self._shares.learned(trial.config, figures[0])
            self._study.add_trial(
                create_trial(
                    state=TrialState.COMPLETE if figures else _state_of(trial.outcome),
                    values=[float(figure) for figure in figures] if figures else None,
                    params=params,
                    distributions={name: self._distributions[name] for name in params},
                    system_attrs={encoding.FIXED: params} if given else {},
                )
            )

    def propose(self, config: Config) -> Proposal:
        """A proposal for a given config (a seed, or one interrupted before)."""
        self._note(config)
        self._study.enqueue_trial(encoding.encode(self._space, config))
        trial = self._study.ask()
        encoding.suggest(self._space, trial)
        return Proposal(config, trial)

    def settle(self, knob: str, choice: KnobValue) -> None:
        """Proposes ``knob`` with no other ``choice`` from now on, wherever it is active."""
        self._settled[knob] = choice

    def _as_settled(self, config: Config) -> Config:
        chosen = {name: choice for name, choice in self._settled.items() if name in config}
        return Config({**config, **chosen}) if chosen else config

    def has_seen(self, config: Config) -> bool:
        """Whether ``config`` was proposed, told or replayed already."""
        return config.digest in self._seen

    def ask(self) -> Proposal | None:
        """The next config to try, valid and never proposed before; ``None`` if none is left."""
        same = self._with_main()
        if same is not None:
            return self.propose(same)
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
                asked = Config(values)
                last = self._as_settled(asked)
                if last != asked and self._space.admits(last) and not self.has_seen(last):
                    self._study.tell(trial, state=TrialState.PRUNED)
                    return self.propose(last)
                within = within and last == asked
                if within and not self.has_seen(last):
                    self._note(last)
                    return Proposal(last, trial)
            # A repeat or a used-up share teaches nothing new; a broken constraint does.
            self._study.tell(trial, state=TrialState.FAIL if valid else TrialState.PRUNED)
            if valid and not within:
                break  # asked again, it would propose the same choice
        config = self._unseen(last)
        return None if config is None else self.propose(config)

    def _with_main(self) -> Config | None:
        """The best schedule with the main choice, if it is news by an alternative; ``None`` for one
        that was proposed, and for code that has no schedule."""
        ways, leader = self._alternatives, self._shares.leader
        if ways is None or leader is None or self._shares.best > _NEWS * self._compared:
            return None
        self._compared = self._shares.best
        same = self._changed(leader, self._space.knob(ways.knob), ways.main)
        is_same = same is not None and set(same) <= set(leader)
        return same if same is not None and is_same and not self.has_seen(same) else None

    def _unseen(self, near: Config | None) -> Config | None:
        """A valid config that was not proposed: near ``near`` if possible, else anywhere."""
        for config in chain(self._near(near), self._anywhere()):
            if config is not None and self._shares.allows(config) and self._is_new(config):
                return config
        return next(filter(self._is_new, self._space), None)

    def _is_new(self, config: Config) -> bool:
        return not self.has_seen(config) and self._as_settled(config) == config

    def _near(self, config: Config | None) -> Iterator[Config | None]:
        """Neighbours of ``config``; ``None`` where one is not valid."""
        if config is None:
            return
        if self._alternatives is not None and not self._shares.allows(config):
            knob = self._space.knob(self._alternatives.knob)
            config = self._changed(config, knob, self._alternatives.main) or config
            yield config
        for _ in range(_RANDOM_ATTEMPTS):
            knob = self._random.choice([k for k in self._space.knobs if k.name in config])
            yield self._changed(config, knob, self._random.choice(knob.choices))

    def _anywhere(self) -> Iterator[Config]:
        for _ in range(_RANDOM_ATTEMPTS):
            yield self._space.sample(self._random)

    def _changed(self, config: Config, knob: Knob, choice: KnobValue) -> Config | None:
        return encoding.with_choice(self._space, config, knob, choice, self._random)

    def _note(self, config: Config) -> None:
        """Records that ``config`` is, or was, a trial."""
        self._seen.add(config.digest)
        self._shares.proposed(config)

    def tell(self, proposal: Proposal, outcome: Outcome, *figures: float | None) -> None:
        """The result of ``proposal``: a figure for each objective if the outcome is ``ok``, else a
        failure. Lacking one of its figures it is a failure, too. A device's failure says nothing
        of the config: no sampler learns of it."""
        told = [float(figure) for figure in figures if figure is not None]
        if outcome is Outcome.OK and len(told) == len(self._objectives):
            self._shares.learned(proposal.config, told[0])
            self._study.tell(proposal.trial, told)
        else:
            self._study.tell(proposal.trial, state=_state_of(outcome))


def _state_of(outcome: Outcome) -> TrialState:
    """The state of a trial without figures. Samplers learn from pruned trials, not failed ones."""
    return TrialState.FAIL if outcome is Outcome.DEVICE_ERROR else TrialState.PRUNED
