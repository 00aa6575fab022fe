"""The options of a job, each defined once.

A field of :class:`SearchOptions` or :class:`JobOptions` is the only place where an option's name,
type, default, bounds, unit and wording are written. The REST body, the options of ``hvxtune tune``,
the form of the pages, the keywords of :func:`tuner.jobs.tuning.plan`, what a stored job keeps, its
JSON and the table in docs/cli.md follow from it.

A new option is a field here, and whatever is to read it: ``job.spec.NAME``.
"""

# ruff: noqa: RUF009 - option() makes fields
from __future__ import annotations

import difflib
import math
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from tuner.errors import UserError
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.objectives import DEFAULT_OBJECTIVES, OBJECTIVES
from tuner.records.candidate import CacheState, Preference

DEFAULT_TRIALS = 100
"""Of a job without any limit."""
DEFAULT_TRIALS_OF_A_WORKLOAD = 10
"""The same of a network or set, for each different workload."""
DEFAULT_CONTRACT = "static"
DEFAULT_SAMPLER = "surrogate"
"""The sampler of a job with one objective, unless told otherwise."""
DEFAULT_FOR_SEVERAL = "tpe"
"""The sampler of a job with several objectives, unless told otherwise."""
DEFAULT_GENERATOR = "portfolio"
"""The code generator of a job, unless told otherwise or the kernel brings its own."""
DEFAULT_PROMOTIONS = 10
"""How many trials a job promotes, unless told otherwise."""
MOST_PROMOTIONS = 1000
"""How many it may; each takes a device of higher fidelity for seconds to minutes."""
LARGEST_SEED = 2**32 - 1
"""NumPy's generators, and so Optuna's samplers, take 32 bits."""
MOST_TRIALS = 10_000_000
MOST_WORKERS = 256
MOST_PRIORITY = 100
Visibility = Literal["shared", "private"]
"""Everybody who may read sees a job, an upload or a schedule, or its owner alone."""

WORKLOAD, BUDGET, SEARCH, DEVICES, JOB = "Workload", "Budget", "Search", "Devices", "Job"
GROUPS = (WORKLOAD, BUDGET, DEVICES, SEARCH, JOB)
"""In the order in which a form shows them."""

_ANY_NAME = r"^[ -~]+$"
_TAGS = r"^[A-Za-z0-9._, -]*$"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Option:
    """An option of a job, for whatever shows, reads or checks it.

    ``name`` is that of the field, of the keyword, and of the REST field. ``kind`` says what a value
    is; a ``share`` is shown to people as a percentage. Bounds are inclusive, those of a share are
    not. ``choices`` are the values that would do, or the name of what knows them
    (:func:`tuner.jobs.choices.choices_of`). ``unset`` says what leaving it out means, where the
    default does not. ``switch`` is the value that a mere flag, or a ticked box, stands for.
    ``see`` is where docs/ says more.
    ``listed`` ones are shown in lists of jobs, too; ``first`` ones are what most jobs are told, and
    are shown before the others.
    """

    name: str
    kind: Literal["int", "float", "share", "bool", "text", "names"]
    optional: bool
    default: Any
    help: str
    label: str
    group: str
    least: float | None = None
    most: float | None = None
    pattern: str = _ANY_NAME
    longest: int = 100
    unit: str = ""
    choices: str | Sequence[str] = ""
    unset: str = ""
    switch: str = ""
    flag: str = ""
    metavar: str = ""
    example: Any = None
    see: str = ""
    listed: bool = False
    first: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """Its spellings on the command line."""
        dashed = self.name.replace("_", "-")
        if self.kind == "bool":
            return (f"--{dashed}/--no-{dashed}",)
        return (f"--{self.flag or dashed}",)

    @property
    def accepted(self) -> str:
        """The values it accepts, in words."""
        if self.choices and not isinstance(self.choices, str):
            return ", ".join(self.choices)
        what = {
            "int": "a whole number",
            "float": "a number",
            "share": "a share above 0 and below 1, such as 0.01 (1 %)",
            "bool": "true or false",
            "text": "text",
            "names": "names with commas between",
        }[self.kind]
        if self.kind in ("int", "float") and self.most is not None:
            return (
                f"{self.least:.0f} to {self.most:.0f}"
                if self.kind == "int"
                else (f"a number above 0, at most {self.most:.0f}")
            )
        return f"{what} of at most {self.longest} characters" if self.kind == "text" else what

    def checked(self, value: Any) -> Any:
        """``value`` as a job keeps it; ``UserError`` names the option and what would do."""
        if value is None and self.optional:
            return None
        if self.kind == "names" and isinstance(value, Iterable) and not isinstance(value, str):
            return tuple(value)
        if not self._fits(value):
            raise self.refusal(value)
        return float(value) if self.kind in ("float", "share") else value

    def refusal(self, value: Any) -> UserError:
        """That ``value`` will not do."""
        shown = f"'{value[:40]}'" if isinstance(value, str) else value
        return UserError(f"{self.name}={shown}", accepted=self.accepted)

    def _fits(self, value: Any) -> bool:
        if self.kind == "bool":
            return isinstance(value, bool)
        if self.kind == "text":
            fixed = () if isinstance(self.choices, str) else self.choices
            return (
                isinstance(value, str)
                and len(value) <= self.longest
                and re.fullmatch(self.pattern, value) is not None
                and (not fixed or value in fixed)
            )
        number = int if self.kind == "int" else (int, float)
        if not isinstance(value, number) or isinstance(value, bool) or not math.isfinite(value):
            return False
        if self.kind == "share":
            return 0 < value < 1
        above = self.least is None or (value >= self.least and (self.kind == "int" or value > 0))
        return above and (self.most is None or value <= self.most)

    def read(self, text: str) -> Any:
        """The value that ``text`` (of a form or a command line) means; not checked for bounds."""
        text = text.strip()
        try:
            if self.kind == "int":
                return int(text) if re.fullmatch(r"-?\d{1,18}", text) else _fail()
            if self.kind == "float":
                return float(text)
            if self.kind == "share":
                return float(text.removesuffix("%")) / 100
        except ValueError:
            what = {"int": "a whole number", "share": "a percentage, such as 1%"}
            raise UserError(
                f"{self.name}='{text[:40]}'", accepted=what.get(self.kind, "a number")
            ) from None
        if self.kind == "names":
            return tuple(name for part in text.split(",") if (name := part.strip()))
        return text

    def shown(self, value: Any) -> str:
        """``value`` for people; empty if it says no more than the default."""
        if self.kind == "bool":
            return "" if value == self.default else ("yes" if value else "no")
        if not value or value == self.default:
            return ""
        if self.kind == "names":
            return "" if tuple(value) == self.default else ", ".join(value)
        return f"{100 * value:g} %" if self.kind == "share" else str(value)


def _fail() -> int:
    raise ValueError


def option(default: _T, help: str, group: str, **facts: Any) -> _T:  # noqa: A002
    """A field of a class of options; ``facts`` are those of :class:`Option`."""
    made: Any = field(default=default, metadata={"help": help, "group": group, **facts})
    return made  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How a job searches: what is stored with it (:class:`tuner.records.trial.JobSpec`)."""

    cache: CacheState = option(
        "warm",
        "Caches when the timed call begins: warm (a kernel called again) or cold (empty).",
        WORKLOAD,
        label="Caches when a call begins",
    )
    trials: int | None = option(
        None,
        f"Stop after this many trials of any outcome ({DEFAULT_TRIALS} if no limit is given).",
        BUDGET,
        least=1,
        most=MOST_TRIALS,
        unset="no limit",
        example=DEFAULT_TRIALS,
        first=True,
    )
    seconds: float | None = option(
        None,
        "Stop after this much time, over all sessions of the job.",
        BUDGET,
        least=0,
        most=MOST_TRIALS,
        unit="s",
        unset="no limit",
        first=True,
    )
    patience: int | None = option(
        None,
        "Stop after this many trials without a better one.",
        BUDGET,
        least=1,
        most=MOST_TRIALS,
        unset="no limit",
    )
    until_gain: float | None = option(
        None,
        "Stop once further search is unlikely to save this share of the cycles.",
        BUDGET,
        kind="share",
        unit="%",
        unset="no limit",
        see="search.md#when-to-stop",
        metavar="PERCENT",
    )
    objectives: tuple[str, ...] = option(
        DEFAULT_OBJECTIVES,
        f"Objectives to minimize, of {', '.join(OBJECTIVES)}; always with cycles. Several "
        "objectives give a Pareto front.",
        SEARCH,
        choices=tuple(OBJECTIVES),
        see="search.md#several-objectives",
        metavar="NAME[,NAME]",
        example=["cycles", "code_bytes"],
    )
    prefer: Preference | None = option(
        None,
        "Which schedule is the job's best: fastest (fewest cycles) or robust (fewest expected "
        "cycles, if costs that the timing model assumes are anywhere within their bounds).",
        SEARCH,
        see="simulator.md#a-robust-choice",
        unset="robust where cycles are the only objective and rest on assumed costs, else fastest",
        example="fastest",
    )
    sampler: str | None = option(
        None,
        "How to search: {choices}.",
        SEARCH,
        choices="sampler",
        see="search.md",
        unset=f"{DEFAULT_SAMPLER}, or {DEFAULT_FOR_SEVERAL} for several objectives",
    )
    transfer: bool = option(
        True,
        "Learn from a job on a similar problem.",
        SEARCH,
        see="search.md#warm-start",
    )
    seed: int = option(0, "Repeats a search, given one worker.", SEARCH, least=0, most=LARGEST_SEED)
    workers: int | None = option(
        None,
        "Candidates in flight.",
        SEARCH,
        least=1,
        most=MOST_WORKERS,
        unset="one per processor, or the service's setting",
    )
    generator: str | None = option(
        None,
        "Code generator: {choices}.",
        SEARCH,
        choices="generator",
        see="generators.md",
        unset=f"the package's own, else {DEFAULT_GENERATOR}",
    )
    baseline: str = option(
        "",
        "The schedule that results are compared with, measured first: default, textbook, or a file "
        "with a config or schedule (.json, .py) or an object (.o).",
        SEARCH,
        see="search.md#what-a-job-must-beat",
        pattern=r"^[^\x00]*$",
        longest=200_000,
        unset="the package's own, else textbook",
        metavar="NAME|FILE",
        example="textbook",
        first=True,
    )
    measurer: str = option(
        "qemu",
        "Measurer: {choices}. qemu is the simulator inside every worker, farm the devices.",
        DEVICES,
        label="Measured by",
        choices="measurer",
        see="devices.md",
    )
    on: str = option(
        "",
        "Which devices of the farm: those with every one of these tags.",
        DEVICES,
        choices="tags",
        pattern=_TAGS,
        longest=200,
        unset="all devices",
        metavar="TAG[,TAG]",
        example="phone",
    )
    promote_to: str = option(
        "",
        "Measure the most promising trials again there, while the search goes on: devices of a "
        "higher fidelity, or a measurer.",
        DEVICES,
        choices="higher tags",
        see="fidelity.md",
        pattern=_TAGS,
        longest=200,
        unset="nowhere",
        metavar="TAG[,TAG]",
        example="phone",
    )
    promote: int = option(
        DEFAULT_PROMOTIONS,
        "How many trials to promote, at most.",
        DEVICES,
        label="Promotions",
        least=1,
        most=MOST_PROMOTIONS,
    )
    label: str = option(
        "",
        "A note of your own, shown wherever the job is: its purpose, or what was changed.",
        JOB,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        longest=100,
        unset="none",
        metavar="TEXT",
        listed=True,
        example="before the new tiling",
    )


@dataclass(frozen=True, kw_only=True)
class JobOptions(SearchOptions):
    """All options of a job besides its workload."""

    target: str = option(
        DEFAULT_TARGET,
        "Hardware to generate code for, such as hexagon-v73 or v73; `hvxtune targets` lists them.",
        WORKLOAD,
        choices="target",
        first=True,
    )
    contract: str = option(
        DEFAULT_CONTRACT,
        "Guarantees callers give about their buffers: {choices}. The stronger, the faster.",
        WORKLOAD,
        choices="contract",
        first=True,
    )
    priority: int = option(
        0,
        "Jobs of higher priority go first.",
        JOB,
        least=-MOST_PRIORITY,
        most=MOST_PRIORITY,
    )
    visibility: Visibility | None = option(
        None,
        "Only the owner of the token sees the job and its schedules.",
        JOB,
        label="Private",
        flag="private",
        see="service.md#owners",
        switch="private",
        unset="as the upload that is tuned; shared for kernels",
    )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The options with these values, all of them checked; the others by default.

        ``UserError`` for an unknown name or a value of the wrong type or out of bounds. Names of
        registries are checked by those who look them up.
        """
        known = by_name(cls)
        require_known(given)
        return cls(**{name: known[name].checked(v) for name, v in given.items()})

    def with_default_limit(self) -> Self:
        """The same, with :data:`DEFAULT_TRIALS` if nothing limits it."""
        if any(getattr(self, one.name) is not None for one in of_group(type(self), BUDGET)):
            return self
        return replace(self, trials=DEFAULT_TRIALS)


def require_known(names: Iterable[str]) -> None:
    """``UserError`` for the name of an option that does not exist."""
    options = by_name(JobOptions)
    for name in names:
        if name not in options:
            near = difflib.get_close_matches(name, options, n=1)
            raise UserError(
                f"unknown job option '{name[:40]}'",
                accepted=", ".join(options),
                next_step=f"did you mean {near[0]}?" if near else "",
            )


_OPTIONS: dict[type, tuple[Option, ...]] = {}
"""Those of classes that were asked for: every row of a job is read by them."""


def options_of(kind: type[SearchOptions]) -> tuple[Option, ...]:
    """The options that are fields of ``kind``, by group."""
    if kind not in _OPTIONS:
        hints = get_type_hints(kind)
        found = [_option(f.name, hints[f.name], f.default, f.metadata) for f in fields(kind)]
        _OPTIONS[kind] = tuple(sorted(found, key=lambda one: GROUPS.index(one.group)))
    return _OPTIONS[kind]


def by_name(kind: type[SearchOptions]) -> dict[str, Option]:
    """The same by name."""
    return {one.name: one for one in options_of(kind)}


def of_group(kind: type[SearchOptions], group: str) -> list[Option]:
    """Those of one group."""
    return [one for one in options_of(kind) if one.group == group]


def _option(name: str, hint: Any, default: Any, facts: Mapping[str, Any]) -> Option:
    if default is MISSING:
        raise TypeError(f"the job option {name} has no default")
    accepted = [t for t in get_args(hint) if t is not type(None)]
    union = get_origin(hint) in (Union, types.UnionType)
    inner = accepted[0] if union else hint
    facts = {"label": name.replace("_", " ").capitalize(), **facts}
    if get_origin(inner) is Literal:
        facts["choices"], inner = get_args(inner), str
    kind: Any = {int: "int", float: "float", bool: "bool", str: "text"}.get(inner, "names")
    return Option(**{"name": name, "kind": kind, "optional": union, "default": default, **facts})


def search_options(options: SearchOptions) -> dict[str, Any]:
    """The search options among ``options`` by name."""
    return {one.name: getattr(options, one.name) for one in options_of(SearchOptions)}


def told(values: Mapping[str, Any], *, listed: bool = False) -> list[tuple[str, str]]:
    """Labels and texts of the search options in ``values`` that are not the defaults: of all of
    them, or of those that lists show."""
    options = [one for one in options_of(SearchOptions) if one.listed or not listed]
    texts = [(one.label, one.shown(values.get(one.name, one.default))) for one in options]
    return [(label, text) for label, text in texts if text]


def as_json(options: SearchOptions) -> dict[str, Any]:
    """The same, as JSON has them."""
    values = search_options(options).items()
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values}


def from_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that :func:`as_json` was made of; names that are not known (any more) are left
    out."""
    known = by_name(SearchOptions)
    return {
        name: tuple(value) if known[name].kind == "names" else value
        for name, value in values.items()
        if name in known
    }
