"""A config of a derived space as directives, as a hand-written kernel would give them."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.problem.target import Target
from tuner.space import Config, Directive, Stage, Steps, TailStrategy, tail
from tuner.space.derivation.facts import PipelineFacts, UpdateFacts
from tuner.space.derivation.prefetches import prefetch
from tuner.space.derivation.roles import Role, Roles, is_whole
from tuner.space.derivation.strips import output_strip, stage_strip

_ROUND_UP = TailStrategy.ROUND_UP
_QUAD = 4
"""Bytes that one vrmpy lane reduces."""
_MOST_CARRIED = 16
"""Vectors that Halide 21 carries from one iteration to the next (CodeGen_Hexagon.cpp)."""
_MOST_UNROLLED = 4
"""Vectors of a row whose reduction is written out."""


def derived_schedule(
    facts: PipelineFacts, target: Target, config: Config, whole_bytes: int | None = None
) -> list[Directive]:
    """The directives of ``config``, a point of the derived space with ``whole_bytes``, for the
    pipeline's stages."""
    steps = Steps()
    if config.integer("lanes") > 1:
        roles = Roles(facts, target, whole_bytes)
        _schedule_output(steps, roles, config)
        for role in reversed(roles.all[:-1]):
            _schedule_stage(steps, roles, role, config)
    return steps.directives


def _schedule_output(steps: Steps, roles: Roles, config: Config) -> None:
    role = roles.output
    stage = steps.stage(role.facts.name).compute_root()
    if role.vector is None:
        _schedule_updates(steps, roles, role, config)
        return
    if not roles.has_tiles:
        _vectors(stage, roles, role, config)
        _schedule_updates(steps, roles, role, config)
        return
    x, y = role.vector, role.row
    lanes, rows = config.integer("lanes") // roles.pixel_share, config.integer("tile_rows")
    if y is not None:
        stage.split(y, f"{y}_o", f"{y}_i", rows, tail(config, "tail_y"))
    unroll = config.integer("unroll")
    stage.split(x, f"{x}_o", f"{x}_i", lanes * unroll, tail(config, "tail_x"))
    inner, outer, plane = [f"{x}_i"], list(role.outer), roles.plane
    if plane is not None:
        planes = config.integer("tile_planes")
        stage.split(plane, f"{plane}_o", f"{plane}_i", planes, tail(config, "tail_planes"))
        outer[outer.index(plane)] = f"{plane}_o"
        inner.append(f"{plane}_i")
    strip = output_strip(roles, config)
    if strip is not None:
        strip.cut(stage)
        outer.append(strip.around)
    if unroll > 1:
        stage.split(f"{x}_i", f"{x}_u", f"{x}_i", lanes, _ROUND_UP).unroll(f"{x}_u")
        inner.append(f"{x}_u")
    channels = config.get("channels", "apart")
    if role.channel is not None and channels != "apart":
        inner.insert(0, role.channel)
        outer.remove(role.channel)
    goes_down = config.get("order") == "rows_inner"
    if y is None:
        stage.reorder(*inner, f"{x}_o", *outer)
    elif goes_down:
        inside = [f"{plane}_o"] if plane is not None else []
        around = [one for one in outer if one not in inside]
        stage.reorder(*inner, f"{y}_i", f"{y}_o", *inside, f"{x}_o", *around)
        if config.get("walk") != "across":
            stage.unroll(f"{y}_i")
    elif "walk" in config and config.text("walk") == "down":
        stage.reorder(*inner, f"{y}_i", f"{x}_o", f"{y}_o", *outer).unroll(f"{y}_i")
    else:
        stage.reorder(*inner, f"{x}_o", f"{y}_i", f"{y}_o", *outer)
    if plane is not None:
        stage.unroll(f"{plane}_i")
    if role.channel is not None and channels == "unrolled":
        stage.unroll(role.channel)
    elif role.channel is not None and channels == "vectors":
        stage.vectorize(role.channel)
    stage.vectorize(f"{x}_i")
    rows_around = [] if y is None else [f"{y}_o", f"{y}_i"]
    _write_out_once(stage, role, [*outer, *rows_around])
    if strip is not None:
        stage.parallel(strip.around)
    prefetch(stage, roles, role, config, f"{y or x}_o", long=y is not None and not goes_down)


def _schedule_stage(steps: Steps, roles: Roles, role: Role, config: Config) -> None:
    place = config.text(f"place_{role.key}")
    if place == "inline":
        return
    stage = steps.stage(role.facts.name)
    output = roles.output
    if place == "root":
        stage.compute_root()
    elif place == "rows":
        stage.compute_at(output.facts.name, f"{output.row}_o")
        strip = output_strip(roles, config)
        if config.is_on(f"slide_{role.key}") and strip is not None:
            stage.store_at(output.facts.name, strip.around)  # strips know nothing of one another
        elif config.is_on(f"slide_{role.key}"):
            stage.store_root()
    else:
        stage.compute_at(output.facts.name, f"{output.vector}_o")
    if "vtcm" in config and config.text("vtcm") == role.key:
        stage.store_in("VTCM")
    if role.vector is None:
        _keep_apart(stage, roles, role)
        _schedule_updates(steps, roles, role, config)
        return
    if roles.in_order(role):
        _keep_in_order(stage, roles.facts)
    if config.get(f"layout_{role.key}") == "transposed":
        others = [d for d in role.facts.dimensions if d != role.vector]
        stage.reorder_storage(role.vector, *others)
    if config.is_on(f"align_{role.key}"):
        innermost = role.facts.dimensions[0]
        if config.get(f"layout_{role.key}") == "transposed":
            innermost = role.vector
        stage.align_storage(innermost, roles.lanes)
    _vectors(stage, roles, role, config)
    _schedule_updates(steps, roles, role, config)


def _keep_apart(stage: Stage, roles: Roles, role: Role) -> None:
    """Gives scalars more of the stack than the vectors that Halide carries from one iteration to
    the next (``loop_carry``, 16 at most), so that they never lie where those were: LLVM puts the
    last store of such a vector and a scalar's in one packet, which does the vector's last."""
    carried = _MOST_CARRIED * roles.target.vector_bytes
    if role.facts.dimensions and not roles.is_open and role.facts.bytes <= carried:
        rows = 2 * carried * role.facts.extents[-1] // role.facts.bytes
        stage.align_storage(role.facts.dimensions[-1], rows)


def _keep_in_order(stage: Stage, facts: PipelineFacts) -> None:
    for image in facts.inputs[:1]:
        stage.keep_in_order(image.name, *image.mins)


def _vectors(stage: Stage, roles: Roles, role: Role, config: Config) -> None:
    """Splits the vector dimension of the stage's first definition and nests its loops."""
    x, unroll = role.vector, config.integer(f"unroll_{role.key}")
    lanes = config.integer("lanes")
    assert x is not None  # noqa: S101 - callers saw to it
    stage.split(x, f"{x}_o", f"{x}_i", lanes * unroll, tail(config, f"tail_{role.key}"))
    stage.split(f"{x}_i", f"{x}_u", f"{x}_i", lanes, _ROUND_UP)
    outer = [d for d in (role.row, *role.outer) if d is not None]
    strip = stage_strip(roles, role, config)
    if strip is not None:
        strip.cut(stage)
        outer.append(strip.around)
    stage.reorder(f"{x}_i", f"{x}_u", f"{x}_o", *outer)
    stage.vectorize(f"{x}_i").unroll(f"{x}_u")
    _write_out_once(stage, role, outer)
    if strip is not None:
        stage.parallel(strip.around)
    if is_whole(role, config):
        loop = role.row or f"{x}_o"
        prefetch(stage, roles, role, config, loop, long=role.row is not None)


def _write_out_once(stage: Stage, role: Role, loops: Iterable[str]) -> None:
    """Has loops around vectors take edges as they come. Halide writes them out again for where they
    meet one, and there leaves the loop over vectors whole: clamped loads become look-ups, which
    read beyond an input's end."""
    for loop in loops if role.facts.clamped or role.facts.ended else ():
        stage.never_partition(loop)


def _schedule_updates(steps: Steps, roles: Roles, role: Role, config: Config) -> None:
    for number, update in enumerate(role.facts.updates):
        stage = steps.stage(role.facts.name, number)
        form = config.get(f"form_{role.key}_{number}", "plain")
        unrolled = str(config.get(f"unroll_{role.key}_{number}", "off"))
        if form in ("rfactor", "quads", "atomic"):
            _rfactor(steps, stage, roles, role, number, config)
        elif role.vectorized(update):
            _vector_update(stage, roles, role, number, update, config)
        elif unrolled != "off":
            _unroll(stage, [name for name, _ in update.rvars], unrolled)


def _unroll(stage: Stage, rvars: list[str], how: str) -> None:
    for rvar in rvars if how == "all" else rvars[:1] if how == "inner" else []:
        stage.unroll(rvar)


def _vector_update(
    stage: Stage, roles: Roles, role: Role, number: int, update: UpdateFacts, config: Config
) -> None:
    x, lanes = role.vector, config.integer("lanes")
    assert x is not None  # noqa: S101 - it is vectorized
    last = tail(config, f"tail_{role.key}")
    if last is TailStrategy.SHIFT_INWARDS:
        last = TailStrategy.GUARD_WITH_IF  # an update must not happen twice
    step = lanes * config.integer(f"unroll_{role.key}")
    stage.split(x, f"{x}_o", f"{x}_i", step, last).split(f"{x}_i", f"{x}_u", f"{x}_i", lanes)
    rvars = [name for name, _ in update.rvars]
    first = [f"{x}_i", f"{x}_u"]
    if config.get(f"form_{role.key}_{number}") == "vrmpy":
        four, rest = f"{rvars[0]}_four", f"{rvars[0]}_rest"
        stage.split(rvars[0], rest, four, _QUAD)
        rvars[0] = rest
        first.insert(0, four)
    others = [d for d in (role.row, *role.outer) if d is not None and d in update.pure]
    # Halide updates atomically what is atomic and parallel: LLVM crashes on such vectors.
    strip = None if len(first) > 2 else stage_strip(roles, role, config, update.pure)
    around = [] if strip is None else [strip.around]
    if strip is not None:
        strip.cut(stage)
    if config.get(f"order_{role.key}_{number}") == "outside":
        stage.reorder(*first, f"{x}_o", *others, *rvars, *around)
    else:
        stage.reorder(*first, *rvars, f"{x}_o", *others, *around)
    stage.vectorize(f"{x}_i").unroll(f"{x}_u")
    _write_out_once(stage, role, others)
    for loop in around:
        stage.parallel(loop)
    unrolled = str(config.get(f"unroll_{role.key}_{number}", "off"))
    if is_whole(role, config):
        outside = config.get(f"order_{role.key}_{number}") == "outside" and unrolled == "off"
        loops = [*others[:1], *(rvars[-1:] if outside else ())]
        long = bool(loops or rvars)
        prefetch(stage, roles, role, config, [f"{x}_o", *loops][-1], long=long)
    if len(first) > 2:
        stage.atomic().vectorize(first[0])
    else:
        _unroll(stage, rvars, unrolled)


def _rfactor(
    steps: Steps, stage: Stage, roles: Roles, role: Role, number: int, config: Config
) -> None:
    """One partial reduction for each lane, in vectors; the update then reduces the lanes, which
    LLVM makes a tree of. ``atomic`` reduces each vector by itself."""
    update, lanes = role.facts.updates[number], config.integer("lanes")
    form = config.text(f"form_{role.key}_{number}")
    rvar, quads = update.across, form == "quads"
    lane, rest, four = f"{rvar}_lane", f"{rvar}_rest", f"{rvar}_four"
    partial, var = f"partial_{role.key}_{number}", f"lane_{role.key}_{number}"
    guard = None if update.in_whole_vectors(lanes) else TailStrategy.PREDICATE
    stage.split(rvar, rest, lane, lanes, guard)
    if form == "atomic":
        stage.atomic().vectorize(lane)
        return
    if quads:
        stage.split(lane, lane, four, _QUAD)
        lanes //= _QUAD
    stage.rfactor(lane, var, partial)
    stage.atomic().vectorize(lane)
    whole = steps.stage(partial)
    _keep_in_order(whole, roles.facts)
    if role.facts.dimensions:
        whole.compute_at(role.facts.name, role.facts.dimensions[0])
    else:
        whole.compute_root()
    whole.vectorize(var, lanes)
    sums = steps.stage(partial, 0).reorder(*([four] if quads else []), var, rest)
    if quads:
        sums.atomic().vectorize(four)
    sums.vectorize(var, lanes)
    if update.row and guard is None and update.row <= _MOST_UNROLLED * config.integer("lanes"):
        sums.unroll(rest)
