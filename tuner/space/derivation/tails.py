"""Which tail strategies a loop may have whose step does not divide its extent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tuner.space import Constraint
from tuner.space.derivation.roles import Role, Roles

_TAILS = ("shift_inwards", "guard_with_if")
_CLAMPED_TAILS = ("shift_inwards", "predicate_stores")
"""Where nothing is read beyond an input's end. Guards keep loads apart lane by lane: twenty times
slower, and with boundary conditions Halide 21 often fails on them."""
_MOVED = ("shift_inwards",)
"""Where nothing speaks against it. Halide 21 fails on some guards (``Shufle with zero indices``,
``argument 0 undefined``) and makes wrong code of others, mostly in the last rows; and where callers
choose extents LLVM takes longer than a candidate may."""


def vector_tails(roles: Roles) -> tuple[str, ...]:
    """Those of the vectors of an output whose loops hold other stages."""
    if roles.pixel_share > 1:
        return _MOVED  # guards take such vectors apart, and Halide 21 makes wrong code of some
    if not roles.is_open and roles.output.facts.clamped:
        return _CLAMPED_TAILS
    return _moved(roles, roles.output, _stored(roles))


def row_tails(roles: Roles) -> tuple[str, ...]:
    """Those of its rows."""
    return _MOVED if roles.is_open else _TAILS


def stage_tails(roles: Roles, role: Role) -> tuple[str, ...]:
    """Those of the vectors of any other stage."""
    inside = role.facts.clamped and not role.is_output
    if role.facts.updates or roles.widens(role):
        # Halide 21 makes wrong code of definitions that begin off vector boundaries and others
        # that do not, and of widened values that begin anywhere.
        return ("round_up",) if inside else ("guard_with_if",)
    if inside:
        return ("round_up", "shift_inwards")
    return _moved(roles, role, [roles.by_name[name] for name, _ in role.facts.reads])


def _moved(roles: Roles, role: Role, producers: Iterable[Role]) -> tuple[str, ...]:
    """Guards only for what fills no vector, or may read widened values: those not off vector
    boundaries (see ``_shift_constraints``)."""
    short = not roles.is_open and role.extent(role.vector) < roles.lanes
    return _TAILS if short or any(map(roles.widens, producers)) else _MOVED


def guard_constraints(roles: Roles, knobs: set[str]) -> Iterator[Constraint]:
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
    """What is guarded in earnest: where a guard only closes what unrolling began, all is right."""
    tiled = role is roles.output and roles.has_tiles
    tail = "tail_x" if tiled else f"tail_{role.key}"
    choices = vector_tails(roles) if tiled else stage_tails(roles, role)
    if tail not in knobs or "guard_with_if" not in choices:
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


def _stored(roles: Roles) -> tuple[Role, ...]:
    return roles.all[:-1]
