"""Spaces: knobs plus constraints for one workload, contract and target."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import lt
from random import Random
from typing import Any

from tuner.errors import UserError
from tuner.identity import digest_of
from tuner.space.config import Config, KnobValue
from tuner.space.expression import Check, Expression, compile_check, expression

_SAMPLE_ATTEMPTS = 2000
_KINDS = ({int}, {str})


@dataclass(frozen=True)
class Knob:
    """One choice of a schedule.

    ``choices`` are all integers in rising order (an ordered knob: samplers may use the order) or
    all strings (a categorical one). ``when`` is a condition over earlier knobs and the space's
    constants; where it is false the knob is inactive and absent from configs. ``usual`` is the
    choice that a person means who does not name the knob; without it, all must name it.
    """

    name: str
    choices: tuple[KnobValue, ...]
    doc: str
    when: str | None = None
    usual: KnobValue | None = None

    def __post_init__(self) -> None:
        if not all(part.isidentifier() for part in self.name.split(".")):
            raise UserError(
                f"knob name '{self.name}'", accepted="letters, digits, underscore; dots in between"
            )
        # Cheap checks: a service makes thousands of spaces a second, one for each problem.
        kinds = set(map(type, self.choices))
        if kinds not in _KINDS:
            raise UserError(
                f"knob {self.name} has choices {list(self.choices)!r}",
                accepted="a list of integers or a list of strings, not empty",
            )
        if len(set(self.choices)) != len(self.choices):
            raise UserError(f"knob {self.name} lists a choice twice: {list(self.choices)!r}")
        if int in kinds and not all(map(lt, self.choices, self.choices[1:])):
            raise UserError(f"knob {self.name}: integer choices must rise: {list(self.choices)!r}")

    @property
    def ordered(self) -> bool:
        """Whether the choices are integers."""
        return isinstance(self.choices[0], int)

    @property
    def condition(self) -> Expression | None:
        """``when``, read; ``None`` for a knob that is always active."""
        return None if self.when is None else expression(self.when)

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        choices = list(self.choices)
        usual = {} if self.usual is None else {"usual": self.usual}
        return {"name": self.name, "choices": choices, "doc": self.doc, "when": self.when, **usual}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Knob:
        """The inverse of :meth:`as_dict`."""
        return cls(
            data["name"], tuple(data["choices"]), data["doc"], data["when"], data.get("usual")
        )


@dataclass(frozen=True, eq=False)
class _Structure:
    """The names of a space: the knobs in order with their conditions, the names of all, and for
    each knob the constraints (number, condition, knobs it names) that are decided once it
    has a value, and the earlier knobs on which it and those after it depend.
    """

    knobs: tuple[tuple[str, Expression | None], ...]
    names: frozenset[str]
    checks: tuple[tuple[tuple[int, Expression, frozenset[str]], ...], ...]
    decisive: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Constraint:
    """A condition that every config must meet, and why.

    It applies only where all knobs it names are active.
    """

    text: str
    reason: str

    @property
    def expression(self) -> Expression:
        """``text``, read."""
        return expression(self.text)


@dataclass(frozen=True)
class Space:
    """All schedules considered for one workload under one contract on one target.

    ``constants`` are names that conditions may use besides knobs (shapes, vector lanes). Equal
    spaces have equal digests.
    """

    kernel: str
    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...] = ()
    constants: Mapping[str, KnobValue] = field(default_factory=dict, hash=False)
    _structure: _Structure = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Refuses names that are not known, or known twice.
        object.__setattr__(self, "_structure", self._find_structure())

    def _find_structure(self) -> _Structure:
        """The structure of this space, looked up by the identity of its tuples: a kernel makes all
        its spaces of the same ones, and comparing their contents takes longer."""
        key = (self.kernel, id(self.knobs), id(self.constraints), *self.constants)
        known = _OF_SAME_TUPLES.get(key)
        if known is None:
            if len(_OF_SAME_TUPLES) >= _KEPT_TUPLES:
                _OF_SAME_TUPLES.clear()
            structure = _structure_of(  # constants' values and knobs' choices do not matter
                self.kernel,
                tuple([(knob.name, knob.when) for knob in self.knobs]),
                tuple([constraint.text for constraint in self.constraints]),
                frozenset(self.constants),
            )
            # With the tuples themselves: while they live, no others have their identity.
            known = (structure, self.knobs, self.constraints)
            _OF_SAME_TUPLES[key] = known
        return known[0]

    def _is_active(self, position: int, values: Mapping[str, KnobValue]) -> bool:
        condition = self._structure.knobs[position][1]
        if condition is None:
            return True
        if not condition.names <= values.keys():
            return False  # it depends on a knob that is itself inactive
        return condition.holds(values)

    def _broken(self, position: int, values: Mapping[str, KnobValue]) -> Constraint | None:
        """The first constraint, of those decided at ``position``, that ``values`` break."""
        for number, condition, named in self._structure.checks[position]:
            if named <= values.keys() and not condition.holds(values):
                return self.constraints[number]
        return None

    def walk(self, values: Mapping[str, KnobValue]) -> Iterator[Knob]:
        """The active knobs, in order. The caller sets each in ``values`` before the next."""
        for position, knob in enumerate(self.knobs):
            if self._is_active(position, {**self.constants, **values}):
                yield knob

    def knob(self, name: str) -> Knob:
        """The knob called ``name``; ``UserError`` names the accepted ones otherwise."""
        for knob in self.knobs:
            if knob.name == name:
                return knob
        near = difflib.get_close_matches(name, [k.name for k in self.knobs], n=1)
        raise UserError(
            f"unknown knob '{name}' of {self.kernel}",
            accepted=", ".join(k.name for k in self.knobs),
            next_step=f"did you mean {near[0]}?" if near else "",
        )

    def violation(self, values: Mapping[str, KnobValue]) -> Constraint | None:
        """The first constraint that ``values`` (all active knobs set) break, or ``None``."""
        scope = {**self.constants, **values}
        for position, checks in enumerate(self._structure.checks):
            broken = self._broken(position, scope) if checks else None
            if broken is not None:
                return broken
        return None

    def config(self, values: Mapping[str, Any]) -> Config:
        """``values`` as a config of this space.

        Raises ``UserError`` naming the knob, the value and what is accepted if a knob is unknown,
        missing, inactive or set to something else, or if a constraint is broken.
        """
        if not values.keys() <= self._structure.names:
            for name in values:
                self.knob(name)
        found: dict[str, KnobValue] = {}
        scope: dict[str, KnobValue] = dict(self.constants)
        for position, knob in enumerate(self.knobs):
            if not self._is_active(position, scope):
                if knob.name in values:
                    raise UserError(
                        f"knob {knob.name}={values[knob.name]} is not active here",
                        accepted=f"only where {knob.when}",
                        next_step=f"leave {knob.name} out",
                    )
                continue
            value = values.get(knob.name, knob.usual)
            if value is None:
                raise UserError(f"knob {knob.name} is missing", accepted=_listed(knob.choices))
            if isinstance(value, bool) or value not in knob.choices:
                raise UserError(f"knob {knob.name}={value!r}", accepted=_listed(knob.choices))
            found[knob.name] = scope[knob.name] = value
        broken = self.violation(found)
        if broken is not None:
            named = ", ".join(f"{n}={scope[n]}" for n in sorted(broken.expression.names))
            raise UserError(
                f"config breaks the constraint '{broken.text}' ({named})",
                accepted=f"configs that keep it, because {broken.reason}",
            )
        return Config(found)

    def admits(self, values: Any) -> bool:
        """Whether :meth:`config` accepts ``values``. Takes a tenth of its time where it does."""
        if self.surely_admits(values):
            return True
        try:
            self.config(values)
        except (UserError, TypeError, AttributeError):
            return False
        return True

    def surely_admits(self, values: Any) -> bool:
        """Like :meth:`admits`, but fast even for values that are not a config, and false where a
        condition divides by zero. For picking from many, where one may be passed over."""
        check = _check_of(self._structure)
        return check(values, self.constants, [knob.choices for knob in self.knobs])

    def sample(self, random: Random) -> Config:
        """A random valid config: knob by knob, among the choices no constraint forbids so far.

        Not exactly uniform (dead ends start again), but every valid config can come up. Raises
        ``UserError`` if the space is empty.
        """
        for _ in range(_SAMPLE_ATTEMPTS):
            config = self._attempt(random)
            if config is not None:
                return config
        for config in self:  # nearly empty: look for any point before giving up
            return config
        raise UserError(
            f"the space of {self.kernel} has no valid config for this shape and contract",
            next_step="change the shape or use a weaker contract",
        )

    def _attempt(self, random: Random) -> Config | None:
        values: dict[str, KnobValue] = {}
        scope: dict[str, KnobValue] = dict(self.constants)
        for position, knob in enumerate(self.knobs):
            if not self._is_active(position, scope):
                if self._broken(position, scope) is not None:
                    return None
                continue
            for choice in random.sample(knob.choices, len(knob.choices)):
                scope[knob.name] = choice
                if self._broken(position, scope) is None:
                    values[knob.name] = choice
                    break
            else:
                return None
        return Config(values)

    def __iter__(self) -> Iterator[Config]:
        """Every valid config, in the order of knobs and choices."""
        return self._extend(0, {}, dict(self.constants), lambda knob: knob.choices)

    def nearest_config(
        self, wanted: Mapping[str, KnobValue], *, numbers_by_ratio: bool = False
    ) -> Config:
        """The config nearest to ``wanted``, knob by knob in order.

        A knob takes its wanted value if some config has it. Otherwise (a tile larger than the
        image, say), and if ``wanted`` does not name it, it takes its first choice that some config
        has; with ``numbers_by_ratio`` a wanted number gives way to the choice that is the fewest
        times larger or smaller. Raises ``UserError`` if the space is empty.
        """

        def preferred(knob: Knob) -> Sequence[KnobValue]:
            value = wanted.get(knob.name)
            if numbers_by_ratio and isinstance(value, int):
                return sorted(knob.choices, key=lambda choice: _ratio(choice, value))
            return sorted(knob.choices, key=lambda choice: choice != value)

        found = next(self._extend(0, {}, dict(self.constants), preferred), None)
        return self.config({}) if found is None else found

    def _extend(
        self,
        position: int,
        values: dict[str, KnobValue],
        scope: dict[str, KnobValue],
        ordered: Callable[[Knob], Sequence[KnobValue]],
    ) -> Iterator[Config]:
        """Every valid config with ``values`` up to ``position``; ``ordered`` gives the choices of a
        knob in the order in which they are tried."""
        # Portfolios have dozens of knobs that are not active at a time: a generator for each would
        # hand on every config.
        while position < len(self.knobs) and not self._is_active(position, scope):
            if self._broken(position, scope) is not None:
                return
            position += 1
        if position == len(self.knobs):
            yield Config(values)
            return
        knob = self.knobs[position]
        for choice in ordered(knob):
            scope[knob.name] = values[knob.name] = choice
            if self._broken(position, scope) is None:
                yield from self._extend(position + 1, values, scope, ordered)
            del scope[knob.name], values[knob.name]

    def count(self, limit: int) -> int:
        """The number of valid configs, but ``limit`` if there are more."""
        found: dict[tuple[KnobValue | None, ...], int] = {}
        scope: dict[str, KnobValue] = dict(self.constants)

        def below(position: int) -> int:
            if position == len(self.knobs):
                return 1
            # Nothing else that was chosen so far decides what may follow.
            known = position, *map(scope.get, self._structure.decisive[position])
            if known not in found:
                total = 0
                for more in rest(position):
                    total += more
                    if total >= limit:
                        break
                found[known] = total
            return found[known]

        def rest(position: int) -> Iterator[int]:
            if not self._is_active(position, scope):
                if self._broken(position, scope) is None:
                    yield below(position + 1)
                return
            knob = self.knobs[position]
            try:
                for choice in knob.choices:
                    scope[knob.name] = choice
                    if self._broken(position, scope) is None:
                        yield below(position + 1)
            finally:
                scope.pop(knob.name, None)

        return min(below(0), limit)

    def as_dict(self) -> dict[str, Any]:
        """JSON form; also what the digest is made of."""
        return {
            "kernel": self.kernel,
            "constants": dict(self.constants),
            "knobs": [k.as_dict() for k in self.knobs],
            "constraints": [{"text": c.text, "reason": c.reason} for c in self.constraints],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """The inverse of :meth:`as_dict`; ``UserError`` if ``data`` is not a space."""
        try:
            return cls(
                kernel=data["kernel"],
                knobs=tuple(Knob.from_dict(k) for k in data["knobs"]),
                constraints=tuple(Constraint(c["text"], c["reason"]) for c in data["constraints"]),
                constants=dict(data["constants"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"not a space: {type(error).__name__} {error}",
                accepted="the JSON that `hvxtune kernel space KERNEL --json` prints",
            ) from None

    @cached_property
    def digest(self) -> str:
        """Names the space; changes with any knob, choice, condition or constant."""
        return digest_of(self.as_dict())


_KEPT_STRUCTURES = 4096
_KEPT_TUPLES = 256
_OF_SAME_TUPLES: dict[tuple[Any, ...], tuple[_Structure, Any, Any]] = {}


@lru_cache(maxsize=_KEPT_STRUCTURES)
def _check_of(structure: _Structure) -> Check:
    conditions = {n: condition for checks in structure.checks for n, condition, _ in checks}
    return compile_check(structure.knobs, conditions.values())


@lru_cache(maxsize=_KEPT_STRUCTURES)
def _structure_of(
    kernel: str,
    knobs: tuple[tuple[str, str | None], ...],
    constraints: tuple[str, ...],
    constants: frozenset[str],
) -> _Structure:
    """The structure; ``UserError`` for a name defined twice, or used before it is defined.

    Cached, because the many spaces of a kernel differ only in the values of their constants.
    """
    known = set(constants)
    for name, when in knobs:
        if name in known:
            raise UserError(f"space of {kernel}: '{name}' is defined twice")
        if when is not None:
            _require_known(kernel, expression(when), known, f"the condition of knob {name}")
        known.add(name)
    position = {name: i for i, (name, _) in enumerate(knobs)}
    checks: list[list[tuple[int, Expression, frozenset[str]]]] = [[] for _ in knobs]
    for number, text in enumerate(constraints):
        condition = expression(text)
        _require_known(kernel, condition, known, "a constraint")
        named = frozenset(condition.names & set(position))
        last = max((position[name] for name in named), default=0)
        if checks:
            checks[last].append((number, condition, named))
    decisive: list[tuple[str, ...]] = []
    needed: set[str] = set()
    for place, (_, when) in reversed(list(enumerate(knobs))):
        needed |= set().union(*(named for _, _, named in checks[place]))
        needed |= set() if when is None else expression(when).names
        decisive.append(tuple(name for name, _ in knobs[:place] if name in needed))
    return _Structure(
        tuple([(name, None if when is None else expression(when)) for name, when in knobs]),
        frozenset(position),
        tuple(tuple(c) for c in checks),
        tuple(reversed(decisive)),
    )


def _require_known(kernel: str, condition: Expression, known: set[str], where: str) -> None:
    unknown = sorted(condition.names - known)
    if unknown:
        raise UserError(
            f"space of {kernel}: {where} ('{condition.text}') names {unknown[0]}",
            accepted="knobs defined before it and constants: " + ", ".join(sorted(known)),
        )


def _listed(choices: tuple[KnobValue, ...]) -> str:
    return ", ".join(str(c) for c in choices)


def _ratio(choice: KnobValue, value: int) -> float:
    if not isinstance(choice, int):
        return math.inf
    return abs(math.log((1 + abs(choice)) / (1 + abs(value))))
