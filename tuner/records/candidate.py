"""Candidates and what they yield: artifacts and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from tuner.identity import digest_of
from tuner.problem.workload import Problem as Problem
from tuner.space.config import Config, KnobValue

CacheState = Literal["warm", "cold"]
"""State of the caches when the timed call begins: ``warm``, as the same call before left them (the
steady state of a kernel called again and again), or ``cold``, empty."""
CACHE_STATES: tuple[CacheState, ...] = get_args(CacheState)

Fidelity = Literal["model", "cycle_accurate", "hardware"]
"""``model``: QEMU with the timing model; ``cycle_accurate``: Qualcomm's simulator; ``hardware``:
a phone. Never compared with each other silently."""

FIDELITIES: tuple[Fidelity, ...] = get_args(Fidelity)
"""All fidelities, lowest first."""


Preference = Literal["fastest", "robust"]
"""Which of two schedules is better: the one of fewer cycles, or of fewer expected cycles."""
PREFERENCES: tuple[Preference, ...] = get_args(Preference)


def cycles_unit(fidelity: Fidelity) -> str:
    """The name of cycles of this fidelity."""
    return "model cycles" if fidelity == "model" else "cycles"


TOLD_FROM = 0.02
"""From which share of the cycles on their range is told."""


def cycles_text(cycles: int, lowest: int | None = None, highest: int | None = None) -> str:
    """``68,998 (to 71,000)``: cycles, and how far plausible costs take them where that matters."""
    told = f"{cycles:,}"
    low, high = (cycles if one is None else one for one in (lowest, highest))
    down, up = low < (1 - TOLD_FROM) * cycles, high > (1 + TOLD_FROM) * cycles
    if down and up:
        return f"{told} ({_rounded(low, high)} to {_rounded(high, high)})"
    if down or up:
        return f"{told} ({f'to {_rounded(high, high)}' if up else f'from {_rounded(low, low)}'})"
    return told


class Cycles(NamedTuple):
    """Cycles, and the least and most over the plausible costs where anything is assumed."""

    cycles: int
    lowest_cycles: int | None = None
    highest_cycles: int | None = None


def _rounded(cycles: int, largest: int) -> str:
    """To three digits, as what is assumed has no more; in thousands (k) or millions (M) where the
    ``largest`` beside it is long, so that rows of tables fit."""
    for unit, size, begins in (("M", 1_000_000, 1_000_000), ("k", 1000, 100_000)):
        if largest >= begins:
            return f"{float(f'{cycles / size:.3g}'):g}{unit}"
    return f"{int(float(f'{cycles:.3g}')):,}"


OF_SCHEDULES = "halide"
"""The code generator of configs for which none is named: they are schedules of a kernel."""


@dataclass(frozen=True)
class Candidate:
    """One way to make the code for a problem."""

    problem: Problem
    config: Config
    generator: str = OF_SCHEDULES

    @cached_property
    def digest(self) -> str:
        """Names the candidate (not its toolchain)."""
        return digest_of(
            {
                "problem": self.problem.as_dict(),
                "config": self.config.as_dict(),
                "generator": self.generator,
            }
        )


@dataclass(frozen=True)
class Artifact:
    """A compiled candidate.

    ``files`` maps a kind (``object``, ``header``, ``loopnest``, ``schedule``, ``assembly``) to
    the file's bytes. ``digest`` is the SHA-256 of the object's bytes: two configs that give the
    same object have the same digest. ``symbol`` is the C function with the Halide calling
    convention: one ``halide_buffer_t *`` per buffer in the kernel's order, returning 0 or an
    error code. ``alike`` has knobs of the compiler with all choices by which it makes the same
    object, each by itself or together. ``identity`` is the generator's
    (``CodeGenerator.identity``) where compiling has told it.
    """

    digest: str
    symbol: str
    files: Mapping[str, bytes] = field(repr=False, hash=False)
    alike: Mapping[str, frozenset[KnobValue]] = field(
        default_factory=dict, repr=False, hash=False, compare=False
    )
    identity: str | None = field(default=None, repr=False, hash=False, compare=False)

    @property
    def object_bytes(self) -> bytes:
        """The relocatable ELF object."""
        return self.files["object"]


@dataclass(frozen=True)
class Measurement:
    """The figures a measurer found for one artifact whose outputs it checked.

    ``cycles`` is the figure to compare: model cycles for fidelity ``model``, the median of
    ``samples`` where there is noise. ``packets`` are the packets executed in the region of
    interest, by all threads; ``stalls`` the cycles beyond one for each of them; both ``None``
    where nobody counts them, as on a phone. ``core_cycles`` are the cycles without what DDR adds
    (0: not known). ``samples`` holds every repeat (one for a deterministic simulator), in cycles.
    ``breakdown`` names parts of ``cycles`` by cause, ``cache`` the condition it was measured under.
    ``verified`` is true only if every output byte of every case matched the reference.
    ``vtcm_bytes`` reach to the last byte of VTCM that was touched, ``ddr_bytes`` are those that the
    timed call moved between DDR and L2, both ways; ``None`` where nobody watched.
    ``overhead_cycles`` are those of the harness around each call, which ``samples`` contain and
    ``cycles`` do not; ``None`` where nobody timed them, and ``cycles`` contain them as well.
    ``expected_cycles`` is the mean over the plausible costs of a timing model, ``lowest_cycles``
    and ``highest_cycles`` are the extremes over them (:mod:`tuner.measure.qemu.uncertain`); all
    ``None`` where nothing is assumed. ``temperature_c`` is the hottest sensor after the last
    repeat, in degrees Celsius; ``None`` where there is no sensor. ``event_counts`` are the events
    that a timing model makes cycles of (:meth:`tuner.measure.qemu.events.Events.as_dict`), for
    :mod:`tuner.search.doubt`. Stores keep them beside the measurement: one that is read back lacks
    them.
    """

    cycles: int
    packets: int | None
    stalls: int | None
    verified: bool
    fidelity: Fidelity
    device: str
    samples: tuple[int, ...] = ()
    breakdown: Mapping[str, int] = field(default_factory=dict, hash=False)
    code_bytes: int = 0
    core_cycles: int = 0
    cache: CacheState = "warm"
    temperature_c: float | None = None
    vtcm_bytes: int | None = None
    ddr_bytes: int | None = None
    overhead_cycles: int | None = None
    expected_cycles: int | None = None
    lowest_cycles: int | None = None
    highest_cycles: int | None = None
    event_counts: Mapping[str, Any] | None = field(
        default=None, compare=False, repr=False, hash=False
    )

    @property
    def net_samples(self) -> tuple[int, ...]:
        """``samples`` without the harness's share: what ``cycles`` is the median of."""
        return tuple(max(sample - (self.overhead_cycles or 0), 1) for sample in self.samples)

    @property
    def cycles_text(self) -> str:
        """``cycles`` with their range, for people."""
        return cycles_text(self.cycles, self.lowest_cycles, self.highest_cycles)

    def ranked_cycles(self, prefer: Preference) -> int:
        """What is least for the best: ``cycles``, or where a robust schedule is preferred and
        anything is assumed, ``expected_cycles``."""
        if prefer == "fastest" or self.expected_cycles is None:
            return self.cycles
        return self.expected_cycles

    def as_dict(self) -> dict[str, Any]:
        """JSON form, without ``event_counts``."""
        figures = {name: getattr(self, name) for name in FIGURES}
        return {**figures, "samples": list(self.samples), "breakdown": dict(self.breakdown)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measurement:
        """The inverse of :meth:`as_dict`."""
        return cls(**{**data, "samples": tuple(data["samples"])})


FIGURES = tuple(one.name for one in fields(Measurement) if one.compare)
"""The fields of a :class:`Measurement` that are its figures: all but ``event_counts``."""
