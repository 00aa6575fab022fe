"""What rules schedules of a pipeline out: what Halide does not accept, code known to be wrong, and
bodies of loops that take the compiler longer than a candidate may."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.space import Constraint
from tuner.space.derivation.roles import Role, Roles
from tuner.space.derivation.strips import strip_constraints
from tuner.space.derivation.tails import guard_constraints

_LEVELS = ("root", "rows", "tile")
"""Where a stage can be computed that is not inline, outermost first."""
_MOST_REGISTERS = 16
_MOST_OPERATIONS = 6000
_MOST_INLINED = 400
_BEYOND = "vectors wholly beyond the end compute nothing, and Halide 21 makes wrong code of them"


def constraints(roles: Roles, knobs: set[str]) -> Iterator[Constraint]:
    """Those of a space with these ``knobs``, each with its reason."""
    yield from _output_constraints(roles)
    yield from guard_constraints(roles, knobs)
    yield from strip_constraints(roles, knobs)
    for role in roles.all[:-1]:
        yield from _place_constraints(roles, role)
        if "vtcm" in knobs and roles.fits_vtcm(role):
            yield Constraint(
                f"vtcm != '{role.key}' or place_{role.key} == 'root'",
                "VTCM is for stages that are computed once: to take and give it back costs a call",
            )
    for role in roles.all:
        yield from _shift_constraints(roles, role, knobs)
        yield from _stage_constraints(roles, role, knobs)


def _output_constraints(roles: Roles) -> Iterator[Constraint]:
    if not roles.has_tiles:
        return
    output, lanes = roles.output, roles.lanes
    bodies = f"lanes // {lanes} * unroll * tile_rows"
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
        f"{bodies} * {operations} <= {_MOST_OPERATIONS} or ({smallest})",
        "longer loop bodies take longer to compile than a candidate may",
    )
    width, height = output.extent(output.vector), output.extent(output.row)
    step, least = roles.output_step, lanes // roles.pixel_share
    yield Constraint(f"{width} >= {step} or {step} == {least}", _BEYOND)
    yield Constraint(
        "tail_x != 'predicate_stores' or unroll == 1",
        "Halide splits no loop again whose stores are predicated",
    )
    for tail, whole, extent in (
        ("tail_x", step, width),
        ("tail_y", "tile_rows", height),
    ):
        yield Constraint(
            f"{tail} != 'shift_inwards' or {extent} >= {whole}",
            "a tile can only be moved inwards if the extent holds at least one",
        )


def _place_constraints(roles: Roles, role: Role) -> Iterator[Constraint]:
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
        both = reader.may_inline and role.may_inline
        reads = dict(reader.facts.reads).get(role.facts.name, 0)
        if both and reads * role.facts.operations * _reads_of(roles, reader) > _MOST_INLINED:
            yield Constraint(
                f"place_{role.key} != 'inline' or place_{reader.key} != 'inline'",
                "stages inline in one another multiply the work and the code",
            )


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


def _reads_of(roles: Roles, role: Role) -> int:
    return sum(dict(other.facts.reads).get(role.facts.name, 0) for other in roles.all)


def _shift_constraints(roles: Roles, role: Role, knobs: set[str]) -> Iterator[Constraint]:
    """Halide keeps widened values deinterleaved in memory, and takes that back too late where it
    meets vectors that begin anywhere (EliminateInterleaves in HexagonOptimize.cpp)."""
    if not roles.widens(role):
        return
    for name in role.readers:
        reader = roles.by_name[name]
        tail = "tail_x" if reader is roles.output and roles.has_tiles else f"tail_{reader.key}"
        if tail in knobs:
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
        whole = roles.output.extent(roles.output.vector)
        if not role.is_output and roles.has_tiles:
            yield Constraint(
                f"place_{role.key} != 'tile' or {tail} == 'guard_with_if' "
                f"or unroll_{role.key} * {whole} <= unroll * {width}",
                "a tile needs less of it than its vectors hold: they would begin before an input",
            )
    for number, update in enumerate(role.facts.updates):
        form = f"form_{role.key}_{number}"
        if form not in knobs:
            continue
        if role.can_rfactor(update, roles.lanes):
            yield Constraint(
                f"{form} != 'rfactor' or {update.rvars[0][1]} % lanes == 0",
                "partial reductions of unequal length need a guard in the innermost loop",
            )
            if not role.is_output:
                yield Constraint(
                    f"{form} != 'rfactor' or place_{role.key} == 'root'",
                    "partial reductions are computed before all",
                )
