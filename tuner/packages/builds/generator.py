"""C++ Generators: GeneratorParams as knobs, alone or beside all that makes code of an upload."""

from __future__ import annotations

import ast
from dataclasses import replace

from tuner.codegen.generator import GENERATOR
from tuner.codegen.halide.compilation import halide_target
from tuner.codegen.halide.servers import LLVM_ARGUMENTS
from tuner.codegen.packaged import HAND, SCHEDULE
from tuner.codegen.portfolio import Portfolio
from tuner.packages.builds.build import Build, Making, misfit, reordered, symbol_within
from tuner.packages.expressions import condition
from tuner.packages.files import Package
from tuner.packages.generator_program import chosen, fixed_params, options_of, program_of
from tuner.packages.generators import Argument, Emission, GeneratorParam, emitted
from tuner.packages.generators.compiler import halide_version
from tuner.packages.manifest import Manifest, buffer_of, is_input
from tuner.packages.unscheduled import Algorithm, algorithm_of
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.records.candidate import Candidate, Problem
from tuner.space import Config, Constraint, Knob, Space
from tuner.space.syntax import parse_expression

_PREFIX = "derived."
"""Of the knobs that its algorithm would have as an upload."""
_KINDS = ("object", "header", "schedule", "loopnest")


class GeneratorBuild(Build):
    """The build ``generator``."""

    kind = "generator"

    def check(self, package: Package) -> None:
        options = options_of(package)
        if bool(options.sources) == (options.program is not None):
            raise misfit(package, "sources", "sources and program", "one of the two")
        _check_arguments(package)
        _check_params(package)

    def identity(self, package: Package) -> str:
        return f"halide {halide_version()} {LLVM_ARGUMENTS}"

    def defaults(self, package: Package) -> dict[str, int | str]:
        found: dict[str, int | str] = {SCHEDULE: HAND}
        for param in _searched(package):
            knob = _knob(package, param)
            is_number = isinstance(knob.choices[0], int)
            found[param.name] = int(param.default) if is_number else param.default
        return found

    def space(self, package: Package, problem: Problem) -> Space:
        return _space(package, problem)

    def algorithm(self, package: Package, config: Config) -> Algorithm | None:
        return algorithm_of(package) if config.get(SCHEDULE, HAND) == HAND else None

    def other_starts(self, package: Package, problem: Problem) -> dict[str, Config]:
        if options_of(package).space != "both":
            return {}
        algorithm = algorithm_of(package)
        inner = algorithm.problem(problem, _specs(package, problem))
        _, *others = Portfolio.starts(algorithm.kernel, inner).items()
        return {
            f"derived {origin}": Config({_outer(name): value for name, value in config.items()})
            for origin, config in others
        }

    def files(self, making: Making) -> dict[str, bytes]:
        config = dict(making.config)
        if config.pop(SCHEDULE, HAND) != HAND:
            return _derived(making)
        is_static = making.problem.contract is Contract.STATIC
        params = making.problem.workload.params
        fixed = fixed_params(making.package, params if is_static else {})
        generator = chosen(making.package)
        order = [one.name for one in generator.arguments]
        emission = Emission(
            program_of(making.package),
            generator.name,
            halide_target(making.problem.target),
            symbol_within(making, order),
        )
        kinds = [*_KINDS, *(["assembly"] if making.with_assembly else [])]
        made = emitted(making.servers, making.server, emission, {**fixed, **config}, kinds)
        return reordered(making, made, order)


def _derived(making: Making) -> dict[str, bytes]:
    """The files of what makes code of the algorithm alone, as of an upload."""
    algorithm = algorithm_of(making.package)
    inner = algorithm.problem(making.problem, making.buffers)
    order = algorithm.order(inner)
    values = {
        name.removeprefix(_PREFIX): value
        for name, value in making.config.items()
        if name.startswith(_PREFIX)
    }
    config = Config({GENERATOR: making.config[SCHEDULE], **values})
    candidate = Candidate(inner.called(symbol_within(making, order)), config, Portfolio.name)
    generator = Portfolio(servers=making.servers.held(making.server))
    made = generator.compile(candidate, with_assembly=making.with_assembly)
    return reordered(making, dict(made.files), order)


def _searched(package: Package) -> list[GeneratorParam]:
    """The GeneratorParams that are knobs: those that ``kernel.toml`` fixes are none."""
    options = options_of(package)
    fixed = {*options.params, *options.static, *options.unscheduled}
    named = package.manifest.knobs
    return [
        param
        for param in chosen(package).params
        if param.name not in fixed and (param.name in named or len(param.choices) > 1)
    ]


def _knob(package: Package, param: GeneratorParam) -> Knob:
    table = package.manifest.knobs.get(param.name)
    if table is None:
        return Knob(param.name, param.choices, "a GeneratorParam")
    when = None if table.when is None else condition(table.when).plain
    return Knob(param.name, tuple(table.choices), table.doc, when)


def _space(package: Package, problem: Problem) -> Space:
    knobs = tuple(_knob(package, param) for param in _searched(package))
    constraints = tuple(
        Constraint(condition(one.require).plain, one.reason) for one in package.manifest.constraints
    )
    params = problem.workload.params
    name = package.manifest.name
    if options_of(package).space == "params":
        return Space(name, knobs, constraints, dict(params))
    algorithm = algorithm_of(package)
    inner = Portfolio.space(algorithm.kernel, algorithm.problem(problem, _specs(package, problem)))
    choice = Knob(
        SCHEDULE,
        (HAND, *inner.knob(GENERATOR).choices),
        "the Generator's own schedule, or what makes code of its algorithm",
    )
    return Space(
        name,
        (
            choice,
            *(replace(knob, when=_where("==", knob.when)) for knob in knobs),
            *(_renamed(knob) for knob in inner.knobs if knob.name != GENERATOR),
        ),
        (*constraints, *(Constraint(_renamed_in(c.text), c.reason) for c in inner.constraints)),
        {**params, **{_outer(key): value for key, value in inner.constants.items()}},
    )


def _outer(name: str) -> str:
    """What the space of a package calls what an upload's calls ``name``."""
    return SCHEDULE if name == GENERATOR else f"{_PREFIX}{name}"


def _renamed(knob: Knob) -> Knob:
    when = None if knob.when is None else _renamed_in(knob.when)
    return replace(knob, name=_outer(knob.name), when=_where("!=", when))


def _where(is_hand: str, when: str | None) -> str:
    one = f"{SCHEDULE} {is_hand} '{HAND}'"
    return one if when is None else f"{one} and ({when})"


class _Renamed(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(_outer(node.id), ast.Load())


def _renamed_in(text: str) -> str:
    """A condition of an upload's space over its names in this one."""
    return ast.unparse(_Renamed().visit(parse_expression(text)))


def _specs(package: Package, problem: Problem) -> tuple[BufferSpec, ...]:
    params = problem.workload.params
    return tuple(buffer_of(one, params) for one in package.manifest.buffers)


def _check_arguments(package: Package) -> None:
    generator, params = chosen(package), options_of(package).params
    ours = _forms(package.manifest)
    known = {form[0]: form for form in ours}
    theirs = [_form(one.settled(params), known.get(one.name)) for one in generator.arguments]
    if {*ours} != {*theirs}:
        raise package.fault(
            ["arguments"],
            f"the Generator takes {_told(theirs)}, here it is {_told(ours)}",
            "its arguments by their names",
        )


_Form = tuple[str, bool, int, str]
"""Name, whether it is an output, dimensions (0: a scalar), type."""


def _form(one: Argument, ours: _Form | None) -> _Form:
    """What the Generator leaves open is as in ``ours``."""
    dimensions = one.dimensions if one.buffer else 0
    if ours is not None and dimensions < 0:
        dimensions = ours[2]
    kind = ours[3] if ours is not None and not one.types else " ".join(one.types)
    return one.name, one.output, dimensions, kind


def _forms(manifest: Manifest) -> list[_Form]:
    scalars = [(one.name, False, 0, str(one.dtype)) for one in manifest.scalars]
    buffers = [
        (one.name, not is_input(one), len(one.shape), str(one.dtype)) for one in manifest.buffers
    ]
    return [*buffers, *scalars]


def _told(forms: list[_Form]) -> str:
    return ", ".join(f"{name}: {kind}{'' if not n else f' of {n}'}" for name, _, n, kind in forms)


def _check_params(package: Package) -> None:
    """Names and values of GeneratorParams, wherever ``kernel.toml`` has some."""
    generator = chosen(package)
    params = {param.name: param for param in generator.params}
    of_arguments = {name for one in generator.arguments for name in one.params}
    options, manifest = options_of(package), package.manifest
    given: list[tuple[tuple[str, ...], str, int | str | None]] = []
    for key in ("params", "static", "unscheduled"):
        given += [
            (("build", key), name, None if isinstance(value, str) and "{" in value else value)
            for name, value in getattr(options, key).items()
        ]
    for name, knob in manifest.knobs.items():
        given += [(("knobs", name), name, choice) for choice in knob.choices]
    for keys, name, value in given:
        if name in of_arguments and keys[0] == "build":
            continue
        if name not in params:
            raise package.fault(
                keys, f"the Generator has no GeneratorParam '{name}'", ", ".join(params)
            )
        if value is not None and not params[name].takes(value):
            raise package.fault(keys, f"{name} = {value!r}", _range(params[name]))
    if not _searched(package) and options.space == "params":
        raise package.fault(
            ["build", "params"],
            "no GeneratorParam is left as a knob",
            'fewer, or space = "both", which also searches derived schedules',
        )
    known = {one.name: _knob(package, one) for one in _searched(package)}
    for config, values in manifest.configs.items():
        for knob_name, chosen_value in values.items():
            if knob_name == SCHEDULE or knob_name.startswith(_PREFIX):
                continue  # checked when the space is known
            if knob_name not in known:
                raise package.fault(
                    ["configs", config], f"unknown knob {knob_name}", ", ".join(known)
                )
            if chosen_value not in known[knob_name].choices:
                accepted = ", ".join(map(str, known[knob_name].choices))
                raise package.fault(
                    ["configs", config], f"{knob_name} = {chosen_value!r}", accepted
                )


def _range(param: GeneratorParam) -> str:
    if param.least is not None:
        return f"{param.least} to {param.most}"
    return ", ".join(map(str, param.choices)) or param.type
