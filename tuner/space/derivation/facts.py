"""The facts of a pipeline at one size that its space is derived from: plain data.

Found in a contained process (``tuner.codegen.halide.uploads``); all extents are in elements and
count what is needed of a stage if it is computed once, before everything that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from tuner.program.demands import Demands

EVERY_DIMENSION = "*"


@dataclass(frozen=True)
class UpdateFacts:
    """An update definition of a stage.

    ``pure`` are the stage's dimensions that it leaves as they are, ``rvars`` its reduction
    variables with their extents, innermost first; an extent is 0 if it is not the same for all
    calls. ``scans`` is true if it reads its own stage at
    other places than it writes. ``combines`` says how it joins a new term to the old value
    (``sum``, ``max``, ``min``), empty if in no way whose order is free; ``dot`` whether the term
    is a product of two 8-bit values widened to 32 bits, which ``vrmpy`` computes. ``backwards`` is
    true if it goes through the stage against the order in memory. ``across`` is the reduction
    variable that goes along the rows of all that is read along it, element by element; empty
    without one. ``quads`` is true if four of its terms beside each other are one ``vrmpy``.
    """

    pure: tuple[str, ...]
    rvars: tuple[tuple[str, int], ...]
    scans: bool
    combines: str
    dot: bool
    backwards: bool = False
    across: str = ""
    quads: bool = False

    @property
    def row(self) -> int | None:
        """The extent of ``across``, 0 if it is not the same for all calls; ``None`` without one."""
        return dict(self.rvars).get(self.across)

    def in_whole_vectors(self, lanes: int) -> bool:
        """Whether rows along ``across`` are known to be whole vectors."""
        return self.row is not None and self.row > 0 and self.row % lanes == 0

    @property
    def steps(self) -> int:
        """Iterations of all reduction variables."""
        return prod(extent for _, extent in self.rvars)


@dataclass(frozen=True)
class StageFacts:
    """A Func that directives may address.

    ``dimensions`` and ``extents`` are innermost first. ``bits`` is the size of a value; a
    place has ``values`` of them (several in a tuple); ``narrowest_bits`` and ``widest_bits`` are
    those of any integer of at most 32 bits met in its definitions, its operands included. ``reads``
    counts how often each other stage is read, seen through stages that always stay inline.
    ``clamped`` is true if widening what is computed of it reads no input, nor another output,
    beyond its ends, whatever its producers do; ``ended`` if widening it along its rows does not.
    ``operations`` measures its definitions. ``divides`` are the dimensions, ``*`` for all, along
    which it has no vectors, because it divides 32 bits by other than powers of two, or Halide makes
    wrong code or none of them (``_wrong_in_vectors`` of the analysis). ``strided``
    counts by dimensions the reads that go along them, but not along the rows in memory. ``picks``
    is true if the innermost dimension is in the definition only as the innermost index of what is
    read, as with the colours of pixels. ``skipped`` is true if others read it at multiples along
    its rows, as they do to halve it; ``gathers`` if it reads others at quotients or remainders
    along theirs, as they do to double them. ``is_output`` is true if its values go to the caller's
    buffers, ``is_edge`` if it is an input continued beyond its ends. ``apart`` is true if others
    read it along its rows elsewhere than where they are themselves, ``looks_up`` if it reads at
    places that it computes. ``inputs`` are those it reads. ``chooses`` are the dimensions whose
    number decides which of several values it has, as planes of colours do. ``repeats`` is true if
    one of its definitions reads something more than once at one place.
    """

    name: str
    dimensions: tuple[str, ...]
    extents: tuple[int, ...]
    bits: int
    narrowest_bits: int
    widest_bits: int
    reads: tuple[tuple[str, int], ...]
    clamped: bool
    operations: int
    updates: tuple[UpdateFacts, ...]
    values: int = 1
    divides: tuple[str, ...] = ()
    strided: tuple[tuple[str, int], ...] = ()
    picks: bool = False
    skipped: bool = False
    gathers: bool = False
    is_output: bool = False
    is_edge: bool = False
    apart: bool = False
    looks_up: bool = False
    inputs: tuple[str, ...] = ()
    chooses: tuple[str, ...] = ()
    repeats: bool = False
    ended: bool = False

    @property
    def elements(self) -> int:
        """How many values it has."""
        return prod(self.extents)

    @property
    def bytes(self) -> int:
        """The memory they occupy."""
        return self.elements * self.values * self.bits // 8


@dataclass(frozen=True)
class BufferFacts:
    """An input or output: its NumPy dtype, and the region of it that is used, innermost first.

    ``free`` are the dimensions whose extent no output decides (clamped or reduced over): the
    caller chooses them. ``loose`` is as in :class:`tuner.problem.buffers.BufferSpec`. ``ends`` are
    the least and greatest value that elements are declared to have; empty for those of the type.
    """

    name: str
    dtype: str
    mins: tuple[int, ...]
    extents: tuple[int, ...]
    free: tuple[int, ...] = ()
    loose: int = 0
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class ScalarFacts:
    """A value that the caller passes: its NumPy dtype, and what it is at these sizes. It
    ``decides`` if other elements would be read or stored, or others as often, at another value.
    ``ends`` are the least and greatest value that it is declared to have; empty for those of the
    type."""

    name: str
    dtype: str
    value: int
    decides: bool = False
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class PipelineFacts:
    """A pipeline. ``stages`` come in the order of computation, an output last. ``outputs`` are in
    the order of the call, one for each value of a tuple. ``folds`` is true if mirrored coordinates
    may be folded once instead of divided (``rewriting`` of the uploads)."""

    inputs: tuple[BufferFacts, ...]
    outputs: tuple[BufferFacts, ...]
    stages: tuple[StageFacts, ...]
    scalars: tuple[ScalarFacts, ...] = ()
    demands: Demands = field(default_factory=Demands)
    folds: bool = False

    @property
    def last(self) -> StageFacts:
        """The output that is computed last: its loops may hold other stages."""
        return self.stages[-1]

    def varying(self, other: PipelineFacts) -> PipelineFacts:
        """These facts without the extents of reductions that are others in ``other``, which is the
        same pipeline at another size."""
        stages = []
        for stage, twin in zip(self.stages, other.stages, strict=True):
            updates = tuple(
                replace(update, rvars=_common(update.rvars, again.rvars))
                for update, again in zip(stage.updates, twin.updates, strict=True)
            )
            stages.append(replace(stage, updates=updates))
        return replace(self, stages=tuple(stages))


def _common(
    rvars: tuple[tuple[str, int], ...], others: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    extents = dict(others)
    return tuple((name, extent if extents[name] == extent else 0) for name, extent in rvars)
