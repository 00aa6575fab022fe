"""How each stage of a pipeline may be scheduled: decided from its facts and the target, once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tuner.problem.target import Target
from tuner.space import Config
from tuner.space.derivation.facts import (
    EVERY_DIMENSION,
    PipelineFacts,
    StageFacts,
    UpdateFacts,
)

_MOST_INLINE_OPERATIONS = 240
"""The most operations a stage may add to its readers by being computed again in each of them."""
_RECOMPUTED = 16
"""A stage with this many times fewer values than the output serves many tiles with each of them:
it is computed before all, not in each tile again."""
_MOST_UNROLLED_INNER, _MOST_UNROLLED = 16, 32
MOST_OPERATIONS = 6000
"""Of vectors, in the body of a loop: more take longer to compile than a candidate may."""
_MOST_CHANNELS = 4
_STRIDED_OPERATIONS = 1400
"""HVX has no strided loads and stores: LLVM writes scalar ones, one for each lane."""


@dataclass(frozen=True)
class Role:
    """A stage, with the decisions that its knobs follow from.

    ``key`` is its name as knobs have it. ``vector`` is the dimension that becomes vectors
    (``None``: the stage has no vectors), ``row`` the next one out. ``channel`` is a short dimension
    beside the vectors, such as the colours of pixels: the innermost one, or one of planes, each of
    which has a definition of its own. ``readers`` are all stages that
    need the stage, directly or not. ``is_output`` is true for every stage whose values are the
    caller's.
    """

    facts: StageFacts
    key: str
    vector: str | None
    row: str | None
    channel: str | None
    readers: tuple[str, ...]
    may_inline: bool
    may_tile: bool
    is_output: bool

    def extent(self, dimension: str | None) -> int:
        """The extent of a dimension; 1 for none."""
        if dimension is None:
            return 1
        return self.facts.extents[self.facts.dimensions.index(dimension)]

    @property
    def outer(self) -> tuple[str, ...]:
        """All dimensions but ``vector`` and ``row``, innermost first."""
        return tuple(d for d in self.facts.dimensions if d not in (self.vector, self.row))

    @property
    def operations(self) -> int:
        """The cost of a vector, by its operators and the loads that gather it."""
        return self.facts.operations + _STRIDED_OPERATIONS * self.strided

    @property
    def strided(self) -> int:
        """Reads and writes of vectors that do not lie together in memory."""
        reads = dict(self.facts.strided).get(self.vector or "", 0)
        return reads + (self.is_output and self.moves_rows)

    @property
    def moves_rows(self) -> bool:
        """Whether vectors go along a dimension that is not the innermost in memory."""
        return self.vector is not None and self.vector != self.facts.dimensions[0]

    def vectorized(self, update: UpdateFacts) -> bool:
        """Whether the stage's vectors can be those of an update too."""
        return self.vector is not None and self.vector in update.pure

    def can_rfactor(self, update: UpdateFacts, lanes: int) -> bool:
        """Whether an update can be made of partial reductions, one for each lane."""
        return self.vector is None and _is_across(self.facts, update, lanes)

    def can_quads(self, update: UpdateFacts, lanes: int) -> bool:
        """Whether each of those lanes can sum four bytes at once."""
        sums = update.quads and update.combines == "sum" and self.facts.bits == 32
        return sums and update.in_whole_vectors(lanes) and self.can_rfactor(update, lanes)

    def can_vrmpy(self, update: UpdateFacts) -> bool:
        """Whether four steps of an update are one ``vrmpy`` of a 32-bit lane."""
        return bool(
            update.dot
            and update.combines == "sum"
            and not update.scans
            and self.facts.bits == 32
            and self.vectorized(update)
            and update.rvars[0][1] > 0
            and update.rvars[0][1] % 4 == 0
        )

    def unrolls(self, update: UpdateFacts) -> tuple[str, ...]:
        """How far the reduction loops of an update may be written out."""
        found = ["off"]
        most = MOST_OPERATIONS // max(1, self.operations)
        if update.rvars and 1 < update.rvars[0][1] <= min(_MOST_UNROLLED_INNER, most):
            found.append("inner")
        if len(update.rvars) > 1 and 1 < update.steps <= min(_MOST_UNROLLED, most):
            found.append("all")
        return tuple(found)


@dataclass(frozen=True)
class Roles:
    """All stages' roles, and what holds for the pipeline as a whole.

    ``whole_bytes`` is what the innermost extents of outputs are multiples of where callers choose
    extents, 1 if of nothing; ``None`` means that all extents are those of the facts. ``parallel``
    is true if loops may run on all HVX contexts.
    """

    facts: PipelineFacts
    target: Target
    whole_bytes: int | None = None
    parallel: bool = False

    @property
    def is_open(self) -> bool:
        """Whether callers choose extents."""
        return self.whole_bytes is not None

    def widens(self, role: Role) -> bool:
        """Whether a stage's values are wider than what they are made of."""
        return role.facts.bits > 8 * self.narrowest_bytes

    def in_order(self, role: Role) -> bool:
        """Whether a stage's values must lie in memory as they are indexed: widened ones that are
        not read as the vectors that they were written as. Those of stages that may stay inline
        are read where their readers are. Readers that read something twice have no guards at
        extents that callers choose: they are moved inwards."""
        if not self.widens(role) or role.is_output:
            return False
        if not self.is_open and role.vector and role.extent(role.vector) % self.lanes:
            return True
        readers = [self.by_name[name] for name in role.readers]
        moved = self.is_open and role.facts.updates and any(one.facts.repeats for one in readers)
        inlined = any(one.facts.apart for one in readers if one.may_inline)
        return bool(role.moves_rows or role.facts.apart or inlined or moved)

    def may_deinterleave(self, role: Role) -> bool:
        """Whether Halide may keep a stage's values deinterleaved in memory."""
        return self.widens(role) and role.vector is not None and not self.in_order(role)

    def knows_pixels(self, stage: StageFacts) -> bool:
        """Whether it is known how far apart pixels lie whose channels are the innermost dimension
        of ``stage``: not where callers choose extents, nor of a buffer that is loose from there."""
        buffers = (*self.facts.inputs, *self.facts.outputs)
        return not self.is_open and not any(
            buffer.loose == 1 < len(buffer.extents) and buffer.extents[0] <= stage.extents[0]
            for buffer in buffers
        )

    def ragged(self, role: Role, dimension: str | None, step: str) -> str:
        """Whether ``step`` may not divide the extent of a dimension, as an expression on knobs."""
        if self.whole_bytes is None:
            return f"{role.extent(dimension)} % ({step}) != 0"
        multiple = 1
        if role.is_output and dimension == role.facts.dimensions[0]:
            multiple = max(1, 8 * self.whole_bytes // role.facts.bits)
        return f"{multiple} % ({step}) != 0"

    @cached_property
    def narrowest_bytes(self) -> int:
        """Of any integer that the pipeline computes with."""
        return min(stage.narrowest_bits for stage in self.facts.stages) // 8

    @cached_property
    def widest_bytes(self) -> int:
        """Of any integer that the pipeline computes with."""
        return max(stage.widest_bits for stage in self.facts.stages) // 8

    @cached_property
    def lanes(self) -> int:
        """The least lanes of a vector: as many as fill a register with the narrowest values.

        One width for all stages. With fewer lanes a vector of narrow values is less than a
        register, and Halide 21 makes wrong code of those (u8 at 32 and 64 lanes, and u8 widened
        to 16 bits at 64); it does too where stages that widen disagree on the width, because
        it keeps widened values deinterleaved in memory.
        """
        return self.target.lanes(self.narrowest_bytes)

    @cached_property
    def output(self) -> Role:
        """The role of the last stage: the output whose loops may hold others."""
        return self.by_name[self.facts.last.name]

    def fits_vtcm(self, role: Role) -> bool:
        """Whether the values of ``role`` may lie in VTCM: what fits at one size may not at
        another."""
        known = not self.is_open and not role.is_output
        return known and 0 < role.facts.bytes <= self.free_vtcm_bytes

    @property
    def free_vtcm_bytes(self) -> int:
        """Of the target, for one allocation: beside it lies what says how large it is."""
        return self.target.vtcm_bytes - self.target.vector_alignment_bytes

    @property
    def output_step(self) -> str:
        """Elements of the output along its vector dimension in one iteration."""
        share = self.pixel_share
        return "lanes * unroll" if share == 1 else f"lanes * unroll // {share}"

    @property
    def has_tiles(self) -> bool:
        """Whether the output's loops can hold other stages: Halide cannot tell the loops of
        several definitions apart."""
        return not self.facts.last.updates and self.output.vector is not None

    @property
    def is_alone(self) -> bool:
        """Whether its output's tiles hold no other stage: they may follow one another down columns,
        and vectors fill as many registers as there are."""
        return len(self.facts.stages) == 1 and self.output.row is not None

    @property
    def plane(self) -> str | None:
        """The output's dimension beyond its rows, if tiles may reach along it too, as those of
        pixels do whose channels are vectors: windows overlap both ways."""
        others = [one for one in self.output.outer if one != self.output.channel]
        is_long = self.is_alone and others and self.output.extent(others[0]) > 1
        return others[0] if is_long else None

    @cached_property
    def all(self) -> tuple[Role, ...]:
        """In the order of computation."""
        return tuple(self.by_name.values())

    @cached_property
    def by_name(self) -> Mapping[str, Role]:
        """By the names of stages."""
        keys = _keys([stage.name for stage in self.facts.stages])
        readers = _readers(self.facts)
        return {
            stage.name: self._role(stage, keys[stage.name], readers[stage.name])
            for stage in self.facts.stages
        }

    def _role(self, stage: StageFacts, key: str, readers: tuple[str, ...]) -> Role:
        vector = self._pixels_of(stage) or self._vector_of(stage)
        channel = self._channel_of(stage, vector)
        row = self._row_of(stage, vector, channel)
        last = self.facts.last
        read = sum(
            count for other in self.facts.stages for n, count in other.reads if n == stage.name
        )
        scans = any(update.scans for update in stage.updates)
        is_output = stage.is_output or stage is last
        return Role(
            facts=stage,
            key=key,
            vector=vector,
            row=row,
            channel=channel,
            readers=readers,
            # Halide 21 makes wrong code of what is doubled along rows and columns at once.
            may_inline=not (stage.updates or stage.divides or stage.gathers)
            and not (is_output or stage.is_edge)
            and not (stage.bits == 32 and stage.narrowest_bits == 8)  # readers may shift it right
            # LLVM takes away loops that halve what it reads; and clamped multiples are permuted
            # wrongly (``_HELPERS`` of the stages of uploads).
            and not (stage.skipped and (stage.reads or stage.clamped))
            and read * stage.operations <= _MOST_INLINE_OPERATIONS,
            may_tile=not scans and not is_output and stage.elements * _RECOMPUTED >= last.elements,
            is_output=is_output,
        )

    def _vector_of(self, stage: StageFacts) -> str | None:
        """The first dimension long enough for a quarter of a vector that all definitions leave
        alone; otherwise one that the first definition has, or its rows if an eighth, stored in
        part. None that goes from row to row where reductions along the rows have vectors, nor for a
        scan along them: to gather elements takes longer than to add them one by one."""
        if EVERY_DIMENSION in stage.divides:
            return None
        whole = [d for d in stage.dimensions if d not in stage.divides]
        if stage.updates and all(_is_across(stage, one, self.lanes) for one in stage.updates):
            whole = [d for d in whole if d not in dict(stage.strided)]
        long = [d for d in whole if 4 * _extent(stage, d) >= self.lanes]
        if self._is_stored_in_part(stage) and not long:
            long = [d for d in whole[:1] if 8 * _extent(stage, d) >= self.lanes]
        free = [d for d in long if all(d in update.pure for update in stage.updates)]
        found = next(iter(free or long), None)
        if found is not None and self._fails_guarded(stage, found):
            found = found if _extent(stage, found) >= self.lanes else None
        is_widened = stage.clamped or self._is_stored_in_part(stage)
        if found is not None and is_widened and self._reads_words(stage):
            # In a row of less than a vector Halide 21 looks clamped words up in a kilobyte, which
            # reaches beyond the input.
            found = found if self.is_open or _extent(stage, found) >= self.lanes else None
        if found in dict(stage.strided) and stage.clamped and self._has_few_in_a_row(stage):
            found = None
        if found is not None and not self._takes_long(stage, found):
            return None
        scans = any(update.scans for update in stage.updates)
        return None if scans and found in dict(stage.strided) else found

    def _takes_long(self, stage: StageFacts, dimension: str) -> bool:
        """Whether a stage fills a vector, or is not done in no time without one: what has a value
        for each row needs a guard, which Halide often fails on, or at extents that callers choose
        none has."""
        is_kept = stage.is_output or stage is self.facts.last or stage.clamped or stage.updates
        few = stage.elements * _RECOMPUTED < self.facts.last.elements
        return bool(is_kept) or not few or _extent(stage, dimension) >= self.lanes

    def _is_stored_in_part(self, stage: StageFacts) -> bool:
        """Whether rows that fill no vector may be computed beyond their ends."""
        return stage is self.facts.last and stage.ended and not stage.updates

    def _fails_guarded(self, stage: StageFacts, dimension: str) -> bool:
        """Whether Halide 21 fails on the guard that a row of less than a vector needs: where
        something is read twice, or looked up (``Shufle with zero indices``)."""
        is_ended = self._is_stored_in_part(stage) and dimension == stage.dimensions[0]
        fails = stage.looks_up or (stage.repeats and not stage.updates)
        return fails and not (stage.clamped or is_ended)

    def _has_few_in_a_row(self, stage: StageFacts) -> bool:
        """Whether it reads an input of so short rows that vectors across them fail in Halide 21:
        it shuffles what it has loaded of strides up to 4."""
        inputs = (one for one in self.facts.inputs if one.name in stage.inputs)
        return not self.is_open and any(one.extents[0] <= _MOST_CHANNELS for one in inputs)

    def _reads_words(self, stage: StageFacts) -> bool:
        """Whether a stage reads an input of 32 bits."""
        return any(
            buffer.dtype.endswith("32")
            for buffer in self.facts.inputs
            if buffer.name in stage.inputs
        )

    def _pixels_of(self, stage: StageFacts) -> str | None:
        """The dimension of the output's pixels, if a vector holds several with all channels.

        Only numbers of channels that divide a vector: of others Halide 21 makes wrong code (24 and
        40, with a value for each channel added to all pixels).
        """
        if stage is not self.facts.last or stage.updates or not stage.picks:
            return None
        if len(stage.dimensions) < 2 or not self.knows_pixels(stage):
            return None
        if {*stage.dimensions[:2], EVERY_DIMENSION} & {*stage.divides}:
            return None
        channels, pixels = stage.extents[:2]
        several = _MOST_CHANNELS < channels < self.lanes // 2 and self.lanes % channels == 0
        filled = pixels * channels >= self.lanes
        return stage.dimensions[1] if several and filled and self._is_inlined() else None

    def _is_inlined(self) -> bool:
        """Whether the output may have all other stages inline: what is kept in memory between has
        vectors of its own along pixels, which would be taken apart again."""
        whole: dict[str, int] = {}
        for stage in self.facts.stages:
            read = sum(count * whole[name] for name, count in stage.reads)
            whole[stage.name] = stage.operations + read
        others = self.facts.stages[:-1]
        plain = not any(one.updates or one.divides or one.is_output for one in others)
        return plain and whole[self.facts.last.name] <= _MOST_INLINE_OPERATIONS

    @cached_property
    def pixel_share(self) -> int:
        """How many times fewer elements than lanes a vector of the output has along its vector
        dimension, because it has channels too; 1 where each of a few has a vector of its own."""
        output = self.output
        several = output.vector is not None and output.vector == self._pixels_of(output.facts)
        return output.extent(output.channel) if several else 1

    def _channel_of(self, stage: StageFacts, vector: str | None) -> str | None:
        first = stage.dimensions[0] if stage.dimensions else None
        if first is None or vector is None or stage.updates:
            return None
        if vector == first:
            planes = (d for d in stage.dimensions[1:] if d in stage.chooses)
            short = (d for d in planes if 1 < _extent(stage, d) <= _MOST_CHANNELS)
            return next(short, None) if stage is self.facts.last else None
        few = 1 < _extent(stage, first) <= _MOST_CHANNELS
        return first if few or vector == self._pixels_of(stage) else None

    @staticmethod
    def _row_of(stage: StageFacts, vector: str | None, channel: str | None) -> str | None:
        """The next dimension out from the vectors that has a loop; otherwise any other."""
        if vector is None:
            return None
        at = stage.dimensions.index(vector)
        around = [*stage.dimensions[at + 1 :], *stage.dimensions[:at]]
        others = [d for d in around if d != channel]
        return next((d for d in others if _extent(stage, d) > 1), next(iter(others), None))


def is_whole(role: Role, config: Config) -> bool:
    """Whether ``config`` has the stage computed in whole, before all that read it; true of an
    output whatever it has."""
    return role.is_output or config.text(f"place_{role.key}") == "root"


def _is_across(stage: StageFacts, update: UpdateFacts, lanes: int) -> bool:
    """Whether an update reduces rows that hold at least a vector, or as much as a caller wants, in
    any order."""
    return bool(
        update.combines
        and not update.scans
        and update.pure == stage.dimensions  # Halide 21 makes wrong code of scattered sums
        and update.row is not None
        and not 0 < update.row < lanes
    )


def _extent(stage: StageFacts, dimension: str) -> int:
    return stage.extents[stage.dimensions.index(dimension)]


def _readers(facts: PipelineFacts) -> dict[str, tuple[str, ...]]:
    """For each stage all that need it, directly or not, in the order of computation."""
    found: dict[str, set[str]] = {stage.name: set() for stage in facts.stages}
    for stage in reversed(facts.stages):
        for read, _ in stage.reads:
            found[read] |= {stage.name, *found[stage.name]}
    return {name: tuple(s.name for s in facts.stages if s.name in found[name]) for name in found}


def _keys(names: list[str]) -> dict[str, str]:
    """Names fit for knobs, all different."""
    keys: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name).strip("_") or "stage"
        key, number = plain, 2
        while key in keys.values():
            key, number = f"{plain}_{number}", number + 1
        keys[name] = key
    return keys
