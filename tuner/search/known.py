"""Which configs make an object that a job has had already: they need no trial.

That is known for sure, not guessed. A generator names what its compiler is given in a small part of
the time of a compilation (:meth:`CodeGenerator.identity`): a tail where the tile divides the
extent, or a loop of one iteration written out, leave that as it is. And the compiler says of each
object which of its own knobs decided nothing (:attr:`Artifact.alike`).

What is learned is where to look: knobs whose change has never left the code as it was are soon not
asked about any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.codegen import CodeGenerator
from tuner.errors import OutOfTimeError
from tuner.records.candidate import Artifact, Candidate
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.space import Config, KnobValue

_LEAST_CHANCE = 1 / 15
"""Of the same code, below which it is not asked for: lowering takes about a fifteenth of what
compiling does."""
_SAYS_NOTHING = (Outcome.DEVICE_ERROR, Outcome.TIMEOUT)
"""Outcomes that another trial of the same object may not have."""


@dataclass
class _Known:
    """A trial, its config without the compiler's knobs, and those."""

    number: int
    code: Config
    compiled: Mapping[str, KnobValue]
    alike: Mapping[str, frozenset[KnobValue]] = field(default_factory=dict)

    def is_made_by(self, compiled: Mapping[str, KnobValue]) -> bool:
        """Whether the same code gives the same object by these knobs of the compiler."""
        return compiled.keys() == self.compiled.keys() and all(
            choice == self.compiled[name]
            or {choice, self.compiled[name]} <= self.alike.get(name, frozenset())
            for name, choice in compiled.items()
        )


class KnownObjects:
    """The objects of one job's trials. Not for several threads at once."""

    def __init__(self, generator: CodeGenerator, example: Candidate) -> None:
        """``example`` is any candidate of the job."""
        self._generator = generator
        self._example = example
        self._known: dict[int, _Known] = {}
        self._identities: dict[tuple[Config, bool], str | None] = {}
        """By code, and whether they were to be told at once."""
        self._asked: Counter[str] = Counter()
        self._same: Counter[str] = Counter()
        """How often a change of each knob, with or without others, was asked about, and how often
        the code was the same."""

    def begin(self, number: int, config: Config) -> None:
        """Notes the trial ``number``, which has begun, or ended in an earlier session."""
        self._known[number] = _Known(number, *self._parts(config))

    def learn(self, trial: Trial, artifact: Artifact | None) -> None:
        """Notes how a trial that was begun ended."""
        if trial.outcome in _SAYS_NOTHING:
            self._known.pop(trial.number, None)
        elif artifact is not None and trial.number in self._known:
            known = self._known[trial.number]
            known.alike = artifact.alike
            if artifact.identity is not None:
                self._identities[known.code, False] = artifact.identity

    def twin(self, config: Config) -> int | None:
        """The number of a trial whose object ``config`` would make, too; ``None`` if none is known
        to. It may still be under way."""
        code, compiled = self._parts(config)
        fitting = [one for one in self._known.values() if one.is_made_by(compiled)]
        same = next((one for one in fitting if one.code == code), None)
        if same is None and fitting:
            same = self._compared(code, fitting)
        return None if same is None else same.number

    def _parts(self, config: Config) -> tuple[Config, dict[str, KnobValue]]:
        own = self._generator.compiler_knobs
        compiled = {name: value for name, value in config.items() if name in own}
        return Config({n: v for n, v in config.items() if n not in own}), compiled

    def _is_worth_asking(self, changed: frozenset[str]) -> bool:
        chances = ((self._same[name] + 1) / (self._asked[name] + 2) for name in changed)
        return min(chances, default=1.0) >= _LEAST_CHANCE

    def _compared(self, code: Config, others: Sequence[_Known]) -> _Known | None:
        """The one of ``others`` with the identity of ``code``. If telling that takes a process, it
        is asked for where it is worth it, and that of the nearest of the others too."""
        changed, nearest = min(
            ((_changed(one.code, code), one.code) for one in others), key=lambda one: len(one[0])
        )
        own = self._told(code)
        asks = own is None and self._is_worth_asking(changed)
        if asks:
            own = self._identity(code)
            if self._told(nearest) is None:
                self._identity(nearest)
        same = None
        if own is not None:
            same = next((one for one in others if self._told(one.code) == own), None)
        if asks:
            self._asked.update(changed)
            self._same.update(changed if same else ())
        return same

    def _told(self, code: Config) -> str | None:
        """The identity of ``code``, if it was asked for, or is told at once."""
        asked = self._identities.get((code, False))
        return self._identity(code, at_once=True) if asked is None else asked

    def _identity(self, code: Config, *, at_once: bool = False) -> str | None:
        key = code, at_once
        if key not in self._identities:
            candidate = replace(self._example, config=code)
            try:
                self._identities[key] = self._generator.identity(candidate, at_once=at_once)
            except OutOfTimeError:
                self._identities[key] = None  # the job is about to end
        return self._identities[key]


def _changed(one: Config, other: Config) -> frozenset[str]:
    return frozenset(n for n in one.keys() | other.keys() if one.get(n) != other.get(n))
