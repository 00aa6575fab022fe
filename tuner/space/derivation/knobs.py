"""The space of a pipeline: knobs for its output's loops and for each other stage."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.problem.target import Target
from tuner.space import Knob, KnobValue, Space
from tuner.space.derivation.constraints import constraints
from tuner.space.derivation.facts import PipelineFacts, UpdateFacts
from tuner.space.derivation.prefetches import prefetch_knob
from tuner.space.derivation.roles import Role, Roles
from tuner.space.derivation.strips import strip_knob
from tuner.space.derivation.tails import (
    row_tails,
    stage_tails,
    vector_tails,
)

SCHEDULED = "lanes > 1"
_NONE = "none"
_HEAVY = 40
"""Operations from which on a textbook keeps a stage's values instead of computing them again."""


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
    return Space(kernel, knobs, tuple(constraints(roles, {knob.name for knob in knobs})))


def textbook_values(
    facts: PipelineFacts, target: Target, whole_bytes: int | None = None
) -> dict[str, KnobValue]:
    """What an HVX guide would choose, by the knobs of the derived space: line buffers for stages
    that are read several times or reduce, everything else inline or in whole."""
    roles = Roles(facts, target, whole_bytes)
    wanted: dict[str, KnobValue] = {"lanes": roles.lanes, "tile_rows": 4, "walk": "down"}
    wanted["channels"] = channel_forms(roles)[-1]
    wanted["strips"] = target.hvx_contexts
    wanted["prefetch"] = 2
    for role in roles.all[:-1]:
        heavy = bool(role.facts.updates) or role.operations > _HEAVY
        place = "rows" if role.may_tile else "root"
        wanted[f"place_{role.key}"] = place if heavy or not role.may_inline else "inline"
        wanted[f"slide_{role.key}"] = "on"
        wanted[f"align_{role.key}"] = "on"
        wanted[f"tail_{role.key}"] = "round_up"
    for role in roles.all:
        for number, update in enumerate(role.facts.updates):
            wanted[f"form_{role.key}_{number}"] = _forms(roles, role, update)[-1]
            wanted[f"unroll_{role.key}_{number}"] = role.unrolls(update)[-1]
    return wanted


def _knobs(roles: Roles) -> Iterator[Knob]:
    output, lanes = roles.output, roles.lanes
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
        yield Knob("vtcm", names, "the stage whose values lie in VTCM", when=SCHEDULED)
    yield from strip_knob(roles)
    yield from prefetch_knob(roles)
    assert lanes  # noqa: S101 - a register holds at least one


def _lanes(roles: Roles) -> tuple[int, ...]:
    found = [1, roles.lanes]
    registers = roles.widest_bytes // roles.narrowest_bytes
    if any(role.strided for role in roles.all):
        return tuple(found)  # of more than a register LLVM makes seven times slower ones
    if 2 * registers <= 8 and roles.output.extent(roles.output.vector) >= 2 * roles.lanes:
        found.append(2 * roles.lanes)
    return tuple(found)


def _output_knobs(roles: Roles) -> Iterator[Knob]:
    output, step = roles.output, roles.output_step
    height = output.extent(output.row)
    yield Knob("unroll", (1, 2, 4), "output vectors in one iteration", when=SCHEDULED)
    rows = tuple(count for count in (1, 2, 4, 8) if count <= max(1, height // 2) or count == 1)
    yield Knob("tile_rows", rows, "output rows computed together", when=SCHEDULED)
    yield Knob(
        "walk",
        ("across", "down"),
        "order inside a tile: row by row, or column by column",
        when="lanes > 1 and tile_rows > 1",
    )
    if output.channel is not None:
        yield Knob(
            "channels",
            channel_forms(roles),
            f"{output.channel}: a loop around all, written out inside, or part of each vector",
            when=SCHEDULED,
        )
    yield Knob(
        "tail_x",
        vector_tails(roles),
        f"last vectors, where {step} does not divide the extent",
        when=f"lanes > 1 and {roles.ragged(output, output.vector, step)}",
    )
    yield Knob(
        "tail_y",
        row_tails(roles),
        "last rows, where tile_rows does not divide the extent",
        when=f"lanes > 1 and {roles.ragged(output, output.row, 'tile_rows')}",
    )


def channel_forms(roles: Roles) -> tuple[str, ...]:
    """What may be done with the output's short innermost dimension beside the vectors."""
    if roles.pixel_share > 1:
        return ("vectors",)
    if not roles.knows_pixels(roles.output.facts):
        return ("apart",)  # loops of unknown length are neither written out nor vectors
    return ("apart", "unrolled", "vectors") if roles.output.facts.picks else ("apart", "unrolled")


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
    yield Knob(name, places, doc, when=SCHEDULED)
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
    yield Knob(f"unroll_{role.key}", (1, 2, 4), f"{role.facts.name}: vectors at once", when=active)
    unroll = f"unroll_{role.key}"
    ragged = roles.ragged(role, role.vector, f"lanes * {unroll}")
    inner = "" if role.is_output else f"place_{role.key} != 'root' or "
    yield Knob(
        f"tail_{role.key}",
        stage_tails(roles, role),
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
    if len(forms) > 1:
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
    found = ["plain"]
    if role.can_rfactor(update, roles.lanes):
        found.append("rfactor")
    if role.can_vrmpy(update):
        found.append("vrmpy")
    return tuple(found)
