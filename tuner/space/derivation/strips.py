"""Strips: the parts of a stage's outermost loop that run on several HVX contexts at once.

Tasks write different values, or the same ones where the last tile is moved inwards. The loops of
reductions and scans are never shared: only dimensions that a definition leaves as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tuner.space import Config, Constraint, Knob, TailStrategy
from tuner.space.derivation.roles import Role, Roles, is_whole
from tuner.space.directives import Stage

KNOB = "strips"
_ROUNDS = (1, 2, 4)
"""Strips for each context: with more of them contexts end at the same time, fewer begin sooner."""
_LEAST_OPERATIONS = 1 << 18
"""Operations of a stage, value by value, from which on a parallel loop is worth its start: about
2000 packets of whole vectors; the start alone costs 1000 (``v66.toml``)."""


@dataclass(frozen=True)
class Strip:
    """``loop`` as a parallel loop ``around`` it, each of whose tasks does ``size`` iterations."""

    loop: str
    around: str
    size: int

    def cut(self, stage: Stage) -> None:
        """Splits the loop. What is guarded is only how many iterations the last strip has."""
        stage.split(self.loop, self.around, self.loop, self.size, TailStrategy.GUARD_WITH_IF)


def strip_knob(roles: Roles) -> Iterator[Knob]:
    """How many strips there may be: one, or some for each context."""
    contexts = roles.target.hvx_contexts
    shared = [role for role in roles.all if _is_shared(roles, role)]
    most = max((role.extent(_longest(role, role.facts.dimensions)) for role in shared), default=0)
    counts = tuple(rounds * contexts for rounds in _ROUNDS if rounds * contexts <= most)
    if roles.parallel and contexts > 1 and counts:
        doc = "parallel strips of what is computed in whole; 1: no loop is parallel"
        yield Knob(KNOB, (1, *counts), doc, when="lanes > 1")


def strip_constraints(roles: Roles, knobs: set[str]) -> Iterator[Constraint]:
    """Constraints on the output's strips, and on what is kept in memory around them."""
    if KNOB not in knobs:
        return
    output = roles.output
    dimension = _longest(output, output.facts.dimensions)
    if roles.has_tiles and dimension is not None:
        tiles = {output.row: "tile_rows", output.vector: roles.output_step}
        if roles.plane is not None:
            tiles[roles.plane] = "tile_planes"
        whole = tiles.get(dimension, "1")
        yield Constraint(
            f"{KNOB} == 1 or {KNOB} * ({whole}) <= {output.extent(dimension)}",
            "a strip holds at least one tile",
        )
    for role in roles.all[:-1]:
        if "tail_x" in knobs and f"tail_{role.key}" in knobs:
            yield Constraint(
                f"{KNOB} == 1 or tail_x != 'predicate_stores' or "
                f"tail_{role.key} != 'shift_inwards'",
                f"strips whose vectors of {role.facts.name} are moved inwards, with the output's "
                "under a predicate: wrong code (`middle` of the tests)",
            )
        if roles.widens(role) and role.vector is not None and not role.is_output:
            yield from _kept_constraints(roles, role, knobs)


def _kept_constraints(roles: Roles, kept: Role, knobs: set[str]) -> Iterator[Constraint]:
    """Halide keeps widened values deinterleaved in memory (EliminateInterleaves), by what it sees
    of their loads and stores: not those of parallel loops, which are functions of their own."""
    for role in (kept, *(roles.by_name[name] for name in kept.readers)):
        if role is roles.output and roles.has_tiles:
            continue
        condition = _all_shared(roles, role, knobs)
        if condition == "":
            continue
        inside = [f"({condition})"] if condition else []
        places = {f"place_{one.key} != 'root'": None for one in (kept, role) if not one.is_output}
        yield Constraint(
            " or ".join([f"{KNOB} == 1", *places, *inside]),
            f"{kept.facts.name} has widened values: what is written in a parallel loop and read "
            "in one that is not, or the other way round, is wrong code",
        )


def _all_shared(roles: Roles, role: Role, knobs: set[str]) -> str | None:
    """The condition under which all definitions of a stage computed in whole are in parallel loops;
    ``None`` if they never are."""
    if not _is_shared(roles, role):
        return None
    conditions = []
    for pure in (role.facts.dimensions, *(update.pure for update in role.facts.updates)):
        dimension = _longest(role, pure)
        if dimension is None or role.vector not in pure:
            return None
        if dimension == role.vector:
            conditions.append(f"{role.extent(dimension)} > lanes * unroll_{role.key}")
    forms = [f"form_{role.key}_{number}" for number in range(len(role.facts.updates))]
    conditions += [f"{form} == 'plain'" for form in forms if form in knobs]
    return " and ".join(dict.fromkeys(conditions))


def output_strip(roles: Roles, config: Config) -> Strip | None:
    """That of an output with tiles, whose loops are ``_o`` for rows and vectors."""
    role = roles.output
    dimension = _longest(role, role.facts.dimensions)
    if dimension == role.row:
        return _strip(role, config, dimension, f"{dimension}_o", config.integer("tile_rows"))
    if dimension is not None and dimension == roles.plane:
        return _strip(role, config, dimension, f"{dimension}_o", config.integer("tile_planes"))
    return _in_whole(roles, role, config, dimension, "unroll", roles.pixel_share)


def stage_strip(
    roles: Roles, role: Role, config: Config, pure: Collection[str] | None = None
) -> Strip | None:
    """That of a definition of any other stage, which leaves the dimensions ``pure`` as they are;
    ``None`` if none of its loops is shared."""
    if not is_whole(role, config) or not _is_shared(roles, role):
        return None
    dimension = _longest(role, role.facts.dimensions if pure is None else pure)
    return _in_whole(roles, role, config, dimension, f"unroll_{role.key}")


def _in_whole(
    roles: Roles,
    role: Role,
    config: Config,
    dimension: str | None,
    unroll: str,
    share: int = 1,
) -> Strip | None:
    if dimension is not None and dimension == role.vector:
        step = config.integer("lanes") * config.integer(unroll) // share
        return _strip(role, config, dimension, f"{dimension}_o", step)
    return _strip(role, config, dimension, dimension, 1)


def _strip(
    role: Role, config: Config, dimension: str | None, loop: str | None, step: int
) -> Strip | None:
    count = config.get(KNOB, 1)
    if dimension is None or loop is None or not isinstance(count, int) or count == 1:
        return None
    iterations = -(-role.extent(dimension) // step)
    size = -(-iterations // count)
    return None if size == iterations else Strip(loop, f"{dimension}_s", size)


def _longest(role: Role, pure: Collection[str]) -> str | None:
    """The dimension that is cut into strips: the longest, the outermost of as long ones; that of
    vectors if it has no other."""
    others = [d for d in (role.row, *role.outer) if d is not None and d != role.channel]
    found = [d for d in others if d in pure and role.extent(d) > 1]
    if found:
        return max(reversed(found), key=role.extent)
    return role.vector if role.vector in pure else None


def _is_shared(roles: Roles, role: Role) -> bool:
    """Whether it is for several contexts, if it is computed in whole: if it is worth it, or has
    values that may not be read there otherwise (:func:`_kept_constraints`)."""
    if role.vector is None:
        return False
    facts = role.facts
    steps = 1 + sum(update.steps for update in facts.updates)
    large = facts.elements * steps * facts.operations >= _LEAST_OPERATIONS
    return large or roles.widens(role) or (role is roles.output and roles.has_tiles)
