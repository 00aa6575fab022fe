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
from collections.abc import Mapping
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
        self._identities: dict[Config, str | None] = {}
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
            self._known[trial.number].alike = artifact.alike

    def twin(self, config: Config) -> int | None:
        """The number of a trial whose object ``config`` would make, too; ``None`` if none is known
        to. It may still be under way."""
        code, compiled = self._parts(config)
        fitting = [one for one in self._known.values() if one.is_made_by(compiled)]
        same = next((one for one in fitting if one.code == code), None)
        if same is None and fitting:
            changed, nearest = min(
                ((_changed(one.code, code), one) for one in fitting), key=lambda one: len(one[0])
            )
            if self._is_worth_asking(changed) and self._is_same(code, nearest.code, changed):
                same = nearest
            elif code in self._identities:
                same = next((one for one in fitting if self._have_same(one.code, code)), None)
        return None if same is None else same.number

    def _parts(self, config: Config) -> tuple[Config, dict[str, KnobValue]]:
        own = self._generator.compiler_knobs
        compiled = {name: value for name, value in config.items() if name in own}
        return Config({n: v for n, v in config.items() if n not in own}), compiled

    def _is_worth_asking(self, changed: frozenset[str]) -> bool:
        chances = ((self._same[name] + 1) / (self._asked[name] + 2) for name in changed)
        return min(chances, default=1.0) >= _LEAST_CHANCE

    def _is_same(self, code: Config, other: Config, changed: frozenset[str]) -> bool:
        for one in (code, other):
            if one not in self._identities:
                self._identities[one] = self._identity(one)
        same = self._have_same(code, other)
        self._asked.update(changed)
        if same:
            self._same.update(changed)
        return same

    def _have_same(self, code: Config, other: Config) -> bool:
        identity = self._identities.get(code)
        return identity is not None and identity == self._identities.get(other)

    def _identity(self, code: Config) -> str | None:
        try:
            return self._generator.identity(replace(self._example, config=code))
        except OutOfTimeError:
            return None  # the job is about to end


def _changed(one: Config, other: Config) -> frozenset[str]:
    return frozenset(n for n in one.keys() | other.keys() if one.get(n) != other.get(n))
