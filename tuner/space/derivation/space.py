"""The space of a pipeline: knobs for its output's loops and for each other stage, the tails that
each loop may have, and constraints.

Constraints rule out schedules that Halide does not accept, code known to be wrong, and bodies of
loops that take the compiler longer than a candidate may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod

from tuner.problem.target import Target
from tuner.space import Constraint, Knob, KnobValue, Space
from tuner.space.derivation.facts import PipelineFacts, UpdateFacts
from tuner.space.derivation.prefetches import prefetch_knob
from tuner.space.derivation.roles import MOST_OPERATIONS, Role, Roles
from tuner.space.derivation.strips import strip_constraints, strip_knob

_SCHEDULED = "lanes > 1"
_NONE = "none"
_UNROLLS = (1, 2, 4)
"""Vectors of a stage at once."""
_HEAVY = 40
"""Operations from which on a textbook keeps a stage's values instead of computing them again."""
_LEVELS = ("root", "rows", "tile")
"""Where a stage can be computed that is not inline, outermost first."""
_MOST_REGISTERS = 16
_MOST_INLINED = 400
_BEYOND = "vectors wholly beyond the end compute nothing, and Halide 21 makes wrong code of them"
_TAILS = ("shift_inwards", "guard_with_if")
_CLAMPED_TAILS = ("shift_inwards", "predicate_stores")
"""Where nothing is read beyond an input's end. Guards keep loads apart lane by lane: twenty times
slower, and with boundary conditions Halide 21 often fails on them."""
_MOVED = ("shift_inwards",)
"""The default. Halide 21 fails on some guards (``Shufle with zero indices``,
``argument 0 undefined``) and makes wrong code of others, mostly in the last rows; and where callers
choose extents LLVM takes longer than a candidate may."""


def derived_space(
    kernel: str,
    facts: PipelineFacts,
    target: Target,
    whole_bytes: int | None = None,
    *,
    parallel: bool = False,
) -> Space:
    """All schedules considered for the pipeline with these facts on ``target``. With
    ``whole_bytes`` (:class:`Roles`) callers choose the extents, and the facts are an example;
    with ``parallel`` loops may run on all of its HVX contexts."""
    roles = Roles(facts, target, whole_bytes, parallel)
    knobs = tuple(_knobs(roles))
    if len(knobs) == 1:  # nothing has vectors
        knobs = (replace(knobs[0], choices=knobs[0].choices[:1]),)
    return Space(kernel, knobs, tuple(_constraints(roles, {knob.name for knob in knobs})))


def textbook_values(
    facts: PipelineFacts, target: Target, whole_bytes: int | None = None
) -> dict[str, KnobValue]:
    """The choices of an HVX guide, by the knobs of the derived space: line buffers for stages that
    are read several times or reduce, everything else inline or in whole."""
    roles = Roles(facts, target, whole_bytes)
    wanted: dict[str, KnobValue] = {"lanes": roles.lanes, "tile_rows": 4, "walk": "down"}
    if roles.is_open and roles.is_alone:
        # Of rows that begin anywhere, registers side by side are shifted out of as many and one.
        wanted |= {"lanes": _lanes(roles)[-1], "tile_rows": 2}
    wanted |= {"order": "rows_inner", "tile_planes": 2}
    wanted["channels"] = _channel_forms(roles)[-1]
    wanted["strips"] = target.hvx_contexts
    wanted["prefetch"] = 2
    inlined: dict[str, int] = {}
    """Operations that each inline stage stands for, with those inline in it."""
    for role in roles.all[:-1]:
        place = "rows" if role.may_tile else "root"
        inside = sum(times * inlined.get(name, 0) for name, times in role.facts.reads)
        computed = sum(_reads(reader, role) for reader in roles.all)
        heavy = bool(role.facts.updates) or role.operations > _HEAVY
        heavy |= role.facts.looks_up and computed > 1
        deep = inside and computed * (role.operations + inside) > _MOST_INLINED
        # Of rows whose length is not known, clamped loads cost more than a copy with its edges.
        if roles.is_open and role.facts.clamped and role.facts.inputs:
            place = "root"
        elif role.may_inline and not (heavy or deep):
            place = "inline"
            inlined[role.facts.name] = role.operations + inside
        wanted[f"place_{role.key}"] = place
        wanted[f"slide_{role.key}"] = "on"
        wanted[f"align_{role.key}"] = "on"
        wanted[f"tail_{role.key}"] = "round_up"
    for role in roles.all:
        for number, update in enumerate(role.facts.updates):
            wanted[f"form_{role.key}_{number}"] = _forms(roles, role, update)[-1]
            wanted[f"unroll_{role.key}_{number}"] = role.unrolls(update)[-1]
            held = _vectors_held(roles, role, update)
            if held:
                wanted[f"unroll_{role.key}"] = held
            if held > 1:
                wanted[f"place_{role.key}"] = "root"  # elsewhere one vector at a time
            if held or _ends_within_vector(roles, role):
                wanted[f"order_{role.key}_{number}"] = "outside"
    return wanted


def _vectors_held(roles: Roles, role: Role, update: UpdateFacts) -> int:
    """The vectors of a row whose products of bytes are summed in registers, where those hold it: a
    step of the reduction then reads its other factor once. 0 where they do not."""
    vectors, rest = divmod(role.extent(role.vector), roles.lanes)
    is_whole = not roles.is_open and not rest and vectors in (1, 2, 4)
    return vectors if is_whole and role.can_vrmpy(update) else 0


def _ends_within_vector(roles: Roles, role: Role) -> bool:
    """Whether the last vector of each row needs a guard: what is stored under one is kept in no
    register from one step of a reduction to the next."""
    ragged = not roles.is_open and role.extent(role.vector) % roles.lanes != 0
    return ragged and "guard_with_if" in _tails(roles, role)


def _knobs(roles: Roles) -> Iterator[Knob]:
    output = roles.output
    yield Knob("lanes", _lanes(roles), "elements of a vector; 1: the pipeline without a schedule")
    if roles.has_tiles:
        yield from _output_knobs(roles)
    else:
        yield from _stage_knobs(roles, output)
    for role in reversed(roles.all[:-1]):
        yield from _place_knobs(roles, role)
        yield from _stage_knobs(roles, role)
    for role in roles.all:
        for number, update in enumerate(role.facts.updates):
            yield from _update_knobs(roles, role, number, update)
    kept = [role for role in roles.all if roles.fits_vtcm(role)]
    if kept and roles.target.vtcm_bytes:
        names = (_NONE, *(role.key for role in kept))
        yield Knob("vtcm", names, "the stage whose values lie in VTCM", when=_SCHEDULED)
    yield from strip_knob(roles)
    yield from prefetch_knob(roles)


def _lanes(roles: Roles) -> tuple[int, ...]:
    found = [1, roles.lanes]
    registers = roles.widest_bytes // roles.narrowest_bytes
    if any(role.strided for role in roles.all):
        return tuple(found)  # of more than a register LLVM makes seven times slower ones
    if 2 * registers <= 8 and roles.output.extent(roles.output.vector) >= 2 * roles.lanes:
        found.append(2 * roles.lanes)
        if roles.is_alone and roles.output.extent(roles.output.vector) >= 4 * roles.lanes:
            found.append(4 * roles.lanes)
    return tuple(found)


def _output_knobs(roles: Roles) -> Iterator[Knob]:
    output, step = roles.output, roles.output_step
    height = output.extent(output.row)
    yield Knob("unroll", (1, 2, 4), "output vectors in one iteration", when=_SCHEDULED)
    rows = tuple(count for count in (1, 2, 4, 8) if count <= max(1, height // 2) or count == 1)
    yield Knob("tile_rows", rows, "output rows computed together", when=_SCHEDULED)
    yield Knob(
        "walk",
        ("across", "down"),
        "order inside a tile: row by row, or column by column",
        when="lanes > 1 and tile_rows > 1",
    )
    if roles.is_alone:
        yield Knob(
            "order",
            ("columns_inner", "rows_inner"),
            "inner loop over tiles",
            when=_SCHEDULED,
        )
    if output.channel is not None:
        yield Knob(
            "channels",
            _channel_forms(roles),
            f"{output.channel}: a loop around all, written out inside, or part of each vector",
            when=_SCHEDULED,
        )
    plane = roles.plane
    if plane is not None:
        depth = output.extent(plane)
        planes = tuple(count for count in (1, 2, 4) if count <= max(1, depth // 2) or count == 1)
        yield Knob("tile_planes", planes, f"{plane}: computed together", when=_SCHEDULED)
        yield Knob(
            "tail_planes",
            _row_tails(roles),
            f"last of {plane}, where tile_planes does not divide the extent",
            when=f"lanes > 1 and {roles.ragged(output, plane, 'tile_planes')}",
        )
    yield Knob(
        "tail_x",
        _vector_tails(roles),
        f"last vectors, where {step} does not divide the extent",
        when=f"lanes > 1 and {roles.ragged(output, output.vector, step)}",
    )
    yield Knob(
        "tail_y",
        _row_tails(roles),
        "last rows, where tile_rows does not divide the extent",
        when=f"lanes > 1 and {roles.ragged(output, output.row, 'tile_rows')}",
    )


def _channel_forms(roles: Roles) -> tuple[str, ...]:
    """The forms that the output's short dimension may take beside the vectors."""
    if roles.pixel_share > 1:
        return ("vectors",)
    if not roles.knows_pixels(roles.output.facts):
        return ("apart",)  # loops of unknown length are neither written out nor vectors
    output = roles.output
    is_innermost = output.channel == output.facts.dimensions[0]
    if is_innermost and output.facts.picks:
        return ("apart", "unrolled", "vectors")
    return ("apart", "unrolled")


def _places(roles: Roles, role: Role) -> tuple[str, ...]:
    if roles.pixel_share > 1:
        return ("inline",)
    near = roles.has_tiles and role.may_tile
    places = ["root"]  # all there is for another output
    if near and roles.output.row is not None:
        places.append("rows")
    if near:
        places.append("tile")
    if role.may_inline:
        places.append("inline")
    return tuple(places)


def _place_knobs(roles: Roles, role: Role) -> Iterator[Knob]:
    places = _places(roles, role)
    name = f"place_{role.key}"
    doc = f"{role.facts.name}: before all, per strip of rows, per tile, or where it is read"
    yield Knob(name, places, doc, when=_SCHEDULED)
    if "rows" in places:
        yield Knob(
            f"slide_{role.key}",
            ("off", "on"),
            f"{role.facts.name}: strips reuse the rows of the one before",
            when=f"{name} == 'rows'",
        )


def _stage_knobs(roles: Roles, role: Role) -> Iterator[Knob]:
    if role.vector is None:
        return
    active = "lanes > 1" if role.is_output else f"place_{role.key} != 'inline'"
    yield Knob(f"unroll_{role.key}", _UNROLLS, f"{role.facts.name}: vectors at once", when=active)
    unroll = f"unroll_{role.key}"
    ragged = roles.ragged(role, role.vector, f"lanes * {unroll}")
    inner = "" if role.is_output else f"place_{role.key} != 'root' or "
    yield Knob(
        f"tail_{role.key}",
        _stage_tails(roles, role),
        f"{role.facts.name}: last vectors, where lanes * {unroll} may not divide the extent",
        when=f"{active} and ({inner}{ragged})",
    )
    if role.is_output:
        return
    yield Knob(
        f"align_{role.key}", ("off", "on"), f"{role.facts.name}: rows begin aligned", when=active
    )
    if role.moves_rows:
        yield Knob(
            f"layout_{role.key}",
            # Halide 21 makes wrong code of widened vectors whose elements it stores apart.
            ("transposed",) if roles.widens(role) else ("transposed", "plain"),
            f"{role.facts.name}: vectors lie together in memory, or as the stage is indexed",
            when=active,
        )


def _update_knobs(roles: Roles, role: Role, number: int, update: UpdateFacts) -> Iterator[Knob]:
    if not update.rvars:
        return
    about = f"{role.facts.name}, update {number}"
    active = "lanes > 1"  # a stage with updates is never inline
    forms = _forms(roles, role, update)
    if forms != ("plain",):
        yield Knob(f"form_{role.key}_{number}", forms, f"{about}: how it reduces", when=active)
    if role.vectorized(update):
        yield Knob(
            f"order_{role.key}_{number}",
            ("inside", "outside"),
            f"{about}: reduction loops inside or outside of the others",
            when=active,
        )
    if len(role.unrolls(update)) > 1:
        yield Knob(
            f"unroll_{role.key}_{number}",
            role.unrolls(update),
            f"{about}: reduction loops written out",
            when=active,
        )


def _forms(roles: Roles, role: Role, update: UpdateFacts) -> tuple[str, ...]:
    # Element by element rows take five times as long, and LLVM makes wrong code of some.
    found = ["plain"]
    if role.can_rfactor(update, roles.lanes):
        found = ["rfactor"]
        if not update.in_whole_vectors(roles.lanes):
            found.append("atomic")  # Halide 21 fails on guarded partial sums of products
    if role.can_quads(update, roles.lanes):
        found.append("quads")
    if role.can_vrmpy(update):
        found.append("vrmpy")
    return tuple(found)


def _tails(roles: Roles, role: Role) -> tuple[str, ...]:
    """Those of a stage's vectors."""
    tiled = role is roles.output and roles.has_tiles
    return _vector_tails(roles) if tiled else _stage_tails(roles, role)


def _vector_tails(roles: Roles) -> tuple[str, ...]:
    """Those of the vectors of an output whose loops hold other stages."""
    if roles.pixel_share > 1:
        return _MOVED  # guards take such vectors apart, and Halide 21 makes wrong code of some
    output = roles.output
    is_short = output.extent(output.vector) < roles.lanes
    if output.facts.clamped and not roles.is_open:
        return _CLAMPED_TAILS
    if output.facts.ended and is_short and not output.moves_rows:
        return ("predicate_stores",)
    return _moved(roles, roles.output, _stored(roles))


def _row_tails(roles: Roles) -> tuple[str, ...]:
    """Those of its rows. A guard gives the last rows code of their own, in which LLVM sees vectors
    of every second element reach beyond the end of a stage, and takes the whole loop away."""
    skipped = any(role.facts.skipped for role in _stored(roles))
    return _MOVED if roles.is_open or skipped else _TAILS


def _stage_tails(roles: Roles, role: Role) -> tuple[str, ...]:
    """Those of the vectors of any other stage."""
    inside = role.facts.clamped and not role.is_output
    if role.facts.updates or (roles.widens(role) and not roles.in_order(role)):
        # Halide 21 makes wrong code of definitions that begin off vector boundaries and others
        # that do not, and of deinterleaved values that begin anywhere.
        return ("round_up",) if inside else ("guard_with_if",)
    if inside:
        return ("round_up", "shift_inwards")
    return _moved(roles, role, [roles.by_name[name] for name, _ in role.facts.reads])


def _moved(roles: Roles, role: Role, producers: Iterable[Role]) -> tuple[str, ...]:
    """Guards only for what fills no vector, or may read widened values: those not off vector
    boundaries (see ``_shift_constraints``)."""
    short = not roles.is_open and role.extent(role.vector) < roles.lanes
    return _TAILS if short or any(map(roles.may_deinterleave, producers)) else _MOVED


def _guard_constraints(roles: Roles, knobs: set[str]) -> Iterator[Constraint]:
    """Guards only where nothing else is right, and of what they are right for."""
    for role in () if roles.is_open else roles.all:
        yield from _guarded_constraints(roles, role, knobs)
    widened = [role for role in _stored(roles) if roles.widens(role)]
    if roles.is_open and roles.has_tiles and widened:
        stored = " or ".join(f"place_{role.key} != 'inline'" for role in widened)
        yield Constraint(
            f"tail_x != 'guard_with_if' or {stored}",
            "loads that are guarded lane by lane take longer to compile than a candidate may",
        )


def _guarded_constraints(roles: Roles, role: Role, knobs: set[str]) -> Iterator[Constraint]:
    """Of guards within a vector: one that only ends an unrolled loop early is always right."""
    tail = "tail_x" if role is roles.output and roles.has_tiles else f"tail_{role.key}"
    if tail not in knobs or "guard_with_if" not in _tails(roles, role):
        return
    whole = f"{tail} != 'guard_with_if' or {role.extent(role.vector)} % lanes == 0"
    if role.facts.values > 1 and role.facts.updates:
        yield Constraint(whole, "Halide 21 fails on guarded reductions of several values")
        return
    yield Constraint(
        f"{whole} or lanes == {roles.lanes}",
        "guards of vectors of two registers: Halide 21 fails on them or makes wrong code",
    )
    for number, update in enumerate(role.facts.updates):
        if role.can_vrmpy(update):
            yield Constraint(
                f"{whole} or form_{role.key}_{number} != 'vrmpy'",
                "Halide 21 fails on guarded vrmpy sums",
            )


def _vtcm_constraints(roles: Roles, role: Role, knobs: set[str]) -> Iterator[Constraint]:
    """Rows that are rounded up to whole vectors may no longer fit."""
    if f"tail_{role.key}" not in knobs or "round_up" not in _stage_tails(roles, role):
        return
    extent, step = role.extent(role.vector), f"(lanes * unroll_{role.key})"
    column_bytes = role.facts.bytes // extent
    longest = max(_lanes(roles)) * max(_UNROLLS)
    if -(-extent // longest) * longest * column_bytes > roles.free_vtcm_bytes:
        rounded = f"({extent} + {step} - 1) // {step} * {step} * {column_bytes}"
        yield Constraint(
            f"vtcm != '{role.key}' or tail_{role.key} != 'round_up' "
            f"or {rounded} <= {roles.free_vtcm_bytes}",
            "its rows in whole vectors take more VTCM than the target has",
        )


def _stored(roles: Roles) -> tuple[Role, ...]:
    return roles.all[:-1]


def _constraints(roles: Roles, knobs: set[str]) -> Iterator[Constraint]:
    """Those of a space with these ``knobs``, each with its reason."""
    yield from _output_constraints(roles)
    yield from _guard_constraints(roles, knobs)
    yield from strip_constraints(roles, knobs)
    for role in roles.all[:-1]:
        yield from _place_constraints(roles, role, knobs)
        if "vtcm" in knobs and roles.fits_vtcm(role):
            yield Constraint(
                f"vtcm != '{role.key}' or place_{role.key} == 'root'",
                "VTCM is for stages that are computed once: to take and give it back costs a call",
            )
            yield from _vtcm_constraints(roles, role, knobs)
    yield from _repeated_constraints(roles, knobs)
    for role in roles.all:
        yield from _kept_sum_constraints(roles, role, knobs)
        yield from _shift_constraints(roles, role, knobs)
        yield from _stage_constraints(roles, role, knobs)


def _output_constraints(roles: Roles) -> Iterator[Constraint]:
    if not roles.has_tiles:
        return
    output, lanes = roles.output, roles.lanes
    bodies = f"lanes // {lanes} * unroll * tile_rows"
    if roles.plane is not None:
        bodies += " * tile_planes"
    registers, operations = max(1, output.facts.widest_bits // 8), f"{output.operations}"
    if output.channel is not None:  # what is strided apart lies together with all channels
        vectors = output.extent(output.channel) // roles.pixel_share
        bodies += f" * (1 if channels == 'apart' else {vectors})"
        together = output.facts.operations
        operations = f"({operations} if channels == 'apart' else {together})"
    smallest = f"lanes == {lanes} and unroll == 1 and tile_rows == 1"
    yield Constraint(
        f"{bodies} * {registers} <= {2 * _MOST_REGISTERS} or ({smallest})",
        "longer loop bodies take seconds to compile and are never faster",
    )
    yield Constraint(
        f"{bodies} * {operations} <= {MOST_OPERATIONS} or ({smallest})",
        "longer loop bodies take longer to compile than a candidate may",
    )
    width, height = output.extent(output.vector), output.extent(output.row)
    step, least = roles.output_step, lanes // roles.pixel_share
    yield Constraint(f"{width} >= {step} or {step} == {least}", _BEYOND)
    yield Constraint(
        "tail_x != 'predicate_stores' or unroll == 1",
        "Halide splits no loop again whose stores are predicated",
    )
    tails = [("tail_x", step, width), ("tail_y", "tile_rows", height)]
    if roles.plane is not None:
        tails.append(("tail_planes", "tile_planes", output.extent(roles.plane)))
    for tail, whole, extent in tails:
        yield Constraint(
            f"{tail} != 'shift_inwards' or {extent} >= {whole}",
            "a tile can only be moved inwards if the extent holds at least one",
        )


def _place_constraints(roles: Roles, role: Role, knobs: set[str]) -> Iterator[Constraint]:
    for name in role.readers if role.facts.looks_up and role.may_inline else ():
        reader = roles.by_name[name]
        tail = "tail_x" if reader is roles.output and roles.has_tiles else f"tail_{reader.key}"
        if tail in knobs:
            yield Constraint(
                f"{tail} != 'guard_with_if' or place_{role.key} != 'inline'",
                f"look-ups of {role.facts.name} under a guard: Halide 21 fails (Shufle with zero "
                "indices)",
            )
    if role.vector is not None:
        yield Constraint(
            f"place_{role.key} in ('root', 'inline') or {role.extent(role.vector)} >= lanes",
            "what is narrower than a vector reads, inside a tile, what its producers never wrote: "
            "LLVM then takes the whole loop away",
        )
    if role.facts.skipped and roles.has_tiles and role.may_tile:
        yield from _skipped_constraints(roles, role)
    for name in role.readers:
        reader = roles.by_name[name]
        if reader is roles.output:
            continue
        for depth, level in enumerate(_LEVELS[:-1]):
            allowed = ", ".join(f"'{one}'" for one in (*_LEVELS[: depth + 1], "inline"))
            yield Constraint(
                f"place_{reader.key} != '{level}' or place_{role.key} in ({allowed})",
                f"{role.facts.name} must be computed before {name}, which reads it",
            )
    for chain in _long_chains(roles, [role]):
        kept = " or ".join(f"place_{one.key} != 'inline'" for one in chain)
        yield Constraint(kept, "stages inline in one another multiply the work and the code")


def _repeated_constraints(roles: Roles, knobs: set[str]) -> Iterator[Constraint]:
    """Values that guarded vectors read twice at one place have a name in Halide's code, and Halide
    21 fails to find bounds of them (``if_then_else`` in Bounds.cpp: lanes of a ``Select``)."""
    for reader in roles.all:
        unguarded = list(_unguarded(roles, reader, knobs))
        if reader.facts.repeats and len(_tails(roles, reader)) > 1 and unguarded:
            yield Constraint(unguarded[0], "guarded vectors read something twice: Halide 21 fails")
        for chain in _repeating_chains(roles, reader) if unguarded else ():
            kept = " or ".join(f"place_{role.key} != 'inline'" for role in chain[:-1])
            for condition in unguarded:
                yield Constraint(
                    f"{condition} or {kept}",
                    f"guarded vectors of {reader.facts.name} read something twice: Halide 21 fails",
                )


def _unguarded(roles: Roles, role: Role, knobs: set[str]) -> Iterator[str]:
    """The conditions under which each of its vectors is without a guard, where it may have one."""
    tail = "tail_x" if role is roles.output and roles.has_tiles else f"tail_{role.key}"
    if tail in knobs:
        whole = "" if roles.is_open else f" or {role.extent(role.vector)} % lanes == 0"
        if "guard_with_if" in _tails(roles, role):
            yield f"{tail} != 'guard_with_if'{whole}"
    for number, update in enumerate(role.facts.updates):
        form = f"form_{role.key}_{number}"
        if form in knobs and role.can_rfactor(update, roles.lanes):
            yield f"{form} == 'plain' or {dict(update.rvars)[update.across]} % lanes == 0"


def _repeating_chains(roles: Roles, *chain: Role) -> Iterator[tuple[Role, ...]]:
    """The shortest chains of stages, each read by the next, that end with ``chain`` and read
    something twice if all but the last are inline."""
    for name, _ in chain[0].facts.reads:
        role = roles.by_name[name]
        if not role.may_inline:
            continue
        if _reads_twice((role, *chain)):
            yield (role, *chain)
        else:
            yield from _repeating_chains(roles, role, *chain)


def _reads_twice(chain: tuple[Role, ...]) -> bool:
    """Whether the last of these stages reads something twice at one place because the first is
    inline, if all but the last are."""
    first, *rest = chain
    times = prod(_reads(reader, read) for read, reader in pairwise(chain))
    several = any(count > 1 for _, count in first.facts.reads) or first.facts.inputs
    read = {name for name, _ in first.facts.reads} | {*first.facts.inputs}
    others = {name for one in rest for name, _ in one.facts.reads}
    others |= {name for one in rest for name in one.facts.inputs}
    return bool(first.facts.repeats or (times > 1 and several) or read & others)


def _long_chains(roles: Roles, chain: list[Role], times: int = 1) -> Iterator[list[Role]]:
    """The shortest chains of stages, each read by the next, that take too many operations if all
    are inline. They begin with ``chain``, whose last stage reads its first ``times`` times."""
    first, last = chain[0], chain[-1]
    if not last.may_inline:
        return
    readers = [r for r in map(roles.by_name.__getitem__, last.readers) if _reads(r, last)]
    computed = times * sum(_reads(reader, last) for reader in readers)
    if len(chain) > 1 and computed * first.facts.operations > _MOST_INLINED:
        yield chain
        return
    for reader in readers:
        yield from _long_chains(roles, [*chain, reader], times * _reads(reader, last))


def _reads(reader: Role, role: Role) -> int:
    """How often ``reader`` reads ``role``."""
    return dict(reader.facts.reads).get(role.facts.name, 0)


def _skipped_constraints(roles: Roles, role: Role) -> Iterator[Constraint]:
    """Halide reads every second element from whole vectors one element on: beyond the last."""
    place = f"place_{role.key}"
    reason = (
        f"vectors of every second element of {role.facts.name} reach beyond its end: where it "
        "begins at a fixed place, LLVM takes the whole loop away"
    )
    yield Constraint(f"{place} != 'tile'", reason)
    if roles.output.row is not None:
        yield Constraint(f"{place} != 'rows' or tile_rows > 1", reason)
        yield Constraint(f"{place} != 'rows' or walk == 'across'", reason)
    rows = _rows_of_one(roles, role)
    if rows > 1:  # what is doubled again has one row in several tiles
        yield Constraint(f"{place} != 'rows' or tile_rows > {rows}", reason)


def _rows_of_one(roles: Roles, role: Role) -> int:
    """How many rows of the output need the same one row of what reads ``role``."""
    readers = [one for one in roles.all if role.facts.name in dict(one.facts.reads)]
    height = roles.output.extent(roles.output.row)
    return max((-(-height // one.extent(one.row)) for one in readers), default=1)


def _kept_sum_constraints(roles: Roles, role: Role, knobs: set[str]) -> Iterator[Constraint]:
    """Of updates in vectors, which read what they write, under a guard."""
    tail = f"tail_{role.key}"
    if tail not in knobs or role.vector is None or not role.facts.updates:
        return
    whole = f"{tail} != 'guard_with_if'"
    if not roles.is_open:
        whole += f" or {role.extent(role.vector)} % lanes == 0"
    yield Constraint(
        f"{whole} or unroll_{role.key} == 1",
        f"sums of {role.facts.name} in several vectors, the last of them guarded: wrong code",
    )
    for number in range(len(role.facts.updates)):
        place, unrolled = f"place_{role.key}", f"unroll_{role.key}_{number}"
        if {place, unrolled} <= knobs:
            yield Constraint(
                f"{whole} or {place} != 'rows' or {unrolled} == 'off'",
                f"sums of {role.facts.name} written out under a guard, row after row: Halide 21 "
                "fails (LoopCarry.cpp)",
            )
        for name, _ in role.facts.reads if unrolled in knobs else ():
            read = roles.by_name[name]
            if read.may_inline and len(read.facts.reads) + len(read.facts.inputs) > 1:
                yield Constraint(
                    f"{whole} or place_{read.key} != 'inline' or {unrolled} == 'off'",
                    f"sums of {role.facts.name} written out under a guard, of what {name} makes of "
                    "several values: Halide 21 fails (LoopCarry.cpp)",
                )
    if roles.widens(role) and f"align_{role.key}" in knobs:
        yield Constraint(
            f"{whole} or align_{role.key} == 'on'",
            f"rows of {role.facts.name} that begin off vector boundaries and are added to under a "
            "guard: wrong code",
        )


def _shift_constraints(roles: Roles, role: Role, knobs: set[str]) -> Iterator[Constraint]:
    """Halide keeps widened values deinterleaved in memory, and takes that back too late where it
    meets vectors that begin anywhere (EliminateInterleaves in HexagonOptimize.cpp)."""
    if not roles.widens(role):
        return
    for name in role.readers:
        reader = roles.by_name[name]
        tail = "tail_x" if reader is roles.output and roles.has_tiles else f"tail_{reader.key}"
        if tail in knobs and roles.may_deinterleave(role):
            yield Constraint(
                f"{tail} != 'shift_inwards' or place_{role.key} == 'inline'",
                f"vectors moved inwards read {role.facts.name} off vector boundaries: wrong code",
            )
        if tail in knobs and f"align_{role.key}" in knobs:
            yield Constraint(
                f"{tail} != 'guard_with_if' or place_{role.key} == 'inline' "
                f"or align_{role.key} == 'on'",
                f"rows of {role.facts.name} that begin off vector boundaries and are read under a "
                "guard: wrong code",
            )


def _stage_constraints(roles: Roles, role: Role, knobs: set[str]) -> Iterator[Constraint]:
    tail = f"tail_{role.key}"
    width = role.extent(role.vector)
    if f"unroll_{role.key}" in knobs:
        step = f"lanes * unroll_{role.key}"
        yield Constraint(f"{width} >= {step} or {step} == {roles.lanes}", _BEYOND)
        if roles.widens(role) and any(update.backwards for update in role.facts.updates):
            yield Constraint(
                f"{width} > {step}",
                "Halide 21 takes backward rows of one step for unaligned, and keeps widened values "
                "deinterleaved in the others: wrong code",
            )
    if tail in knobs and role.facts.updates and not role.is_output:
        yield Constraint(
            f"{tail} != 'guard_with_if' or place_{role.key} == 'root' "
            f"or lanes * unroll_{role.key} == {roles.lanes}",
            "Halide 21 fails on guarded sums of several registers inside a tile (widen_right_add)",
        )
    if tail in knobs and (role.is_output or not role.facts.clamped):
        step = f"lanes * unroll_{role.key}"
        yield Constraint(
            f"{tail} == 'guard_with_if' or {width} >= {step}",
            "a vector can only be moved inwards if the extent holds at least one",
        )
    if tail in knobs and roles.has_tiles and not role.is_output:
        whole = roles.output.extent(roles.output.vector)
        guarded = "" if role.facts.clamped else f"{tail} == 'guard_with_if' or "
        yield Constraint(
            f"place_{role.key} != 'tile' or {guarded}"
            f"unroll_{role.key} * {whole} <= unroll * {width}",
            "a tile needs less of it than its vectors hold: they would begin before an input, or "
            "be computed for nothing, which Halide 21 makes wrong code of (sums written out)",
        )
    for number, update in enumerate(role.facts.updates):
        form = f"form_{role.key}_{number}"
        if form not in knobs:
            continue
        for name, _ in role.facts.reads if role.can_vrmpy(update) else ():
            read = roles.by_name[name]
            if read.may_inline and read.facts.widest_bits > 8:
                yield Constraint(
                    f"{form} != 'vrmpy' or place_{read.key} != 'inline'",
                    f"bytes of {name} that are narrowed where a vrmpy reads them: wrong code",
                )
        if role.can_rfactor(update, roles.lanes):
            even = f"{update.row} % lanes == 0 or " if update.row else ""
            yield Constraint(
                f"{form} == 'plain' or {even}({form} != 'quads' and lanes == {roles.lanes})",
                "guards of vrmpy sums go lane by lane, those of vectors of two registers are wrong",
            )
