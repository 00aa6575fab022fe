"""Everything that a program links and includes to run a network on a DSP, as files.

A network's functions are the objects of the best stored schedules, or else of the textbook ones,
compiled and verified now. Its tensors' constants are one object, its steps a source in C. Nothing
in it depends on the time or the place it is made: the same network and schedules give the same
bytes.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError

from tuner.codegen.halide.standalone_runtime import write_runtime
from tuner.codegen.toolchain import NativePart, find_toolchain, fingerprint
from tuner.errors import CandidateError, StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.best import lookup_of
from tuner.keeping.store import TrialStore
from tuner.measure.harness import HALIDE_BUFFER
from tuner.measure.measurer import Measurer
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.network.graph import Graph, Node, Tensor
from tuner.network.layouts import laid_out
from tuner.network.operators import HOST
from tuner.network.planning.costs import moved_during_call, moved_in
from tuner.network.running.execution import STORED, TEXTBOOK, TextbookObjects
from tuner.network.running.image.linking import COPY
from tuner.network.shipping import c_source, pages
from tuner.network.shipping.c_source import Contents
from tuner.network.shipping.edges import within_edges
from tuner.network.shipping.program import Call, Copy, Fill, Operation, Outside, program_of
from tuner.packages.symbols import NotAnObjectError, defined_in, undefined_in, with_own_names
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Problem, Workload
from tuner.records.candidate import Artifact, CacheState
from tuner.space.config import Config

MANIFEST = "manifest.json"
FORMAT = 1
"""Of the manifest."""
_LAYERS = Path(__file__).with_name("layers.h")


@dataclass(frozen=True)
class Function:
    """The object of a workload and where it comes from: ``origin`` is ``stored`` (the schedule
    ``schedule``) or ``textbook``; ``contract`` is what it needs, ``toolchain`` what it was made and
    measured with. Its outputs were verified, and it took ``cycles`` of ``fidelity``."""

    problem: Problem
    artifact: Artifact
    config: Config
    generator: str
    cycles: int
    fidelity: str
    cache: CacheState
    origin: str
    schedule: str
    contract: str
    toolchain: Mapping[str, str] = field(repr=False, hash=False)


@dataclass(frozen=True)
class Bundle:
    """``files`` by their paths, the manifest among them. ``functions`` are in the order of the
    manifest's, ``outside`` names those that the program brings."""

    name: str
    files: Mapping[str, bytes] = field(repr=False)
    contents: Contents = field(repr=False)
    functions: tuple[Function, ...] = field(repr=False)

    @property
    def outside(self) -> tuple[str, ...]:
        """The functions that the program brings."""
        return tuple(self.contents.outside().values())

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as JSON."""
        document: dict[str, Any] = json.loads(self.files[MANIFEST])
        return document


def made_with() -> dict[str, str]:
    """The versions of all that decides the bytes of a bundle, beside the network and its
    functions."""
    return {"hvxtune": version("hvxtune"), "halide": version("halide"), **fingerprint()}


def require_name(name: str) -> None:
    """``UserError`` unless ``name`` can begin the names of a bundle in C."""
    if not (name.isidentifier() and name.isascii()):
        raise UserError(
            f"the name '{name}' of the bundle", accepted="a C identifier", next_step="give --name"
        )


def bundle_of(
    graph: Graph,
    name: str,
    *,
    target: Target,
    store: TrialStore | None = None,
    on_function: Callable[[Function, int], None] | None = None,
    channels_last: bool = False,
) -> Bundle:
    """The bundle ``name`` of ``graph`` for ``target``, by the best schedules of ``store`` for warm
    caches and static shapes.

    ``on_function`` is told of each function as its object is there, and how many there are;
    ``channels_last`` as of :func:`tuner.network.layouts.laid_out`. Raises ``UserError`` for a name
    that is not a C identifier, and for a network with no layer for the DSP;
    ``CandidateError`` if a textbook schedule is wrong.
    """
    require_name(name)
    moved = partial(moved_during_call, target=target, store=store)
    contents = _contents(graph, name, target, moved, channels_last=channels_last)
    functions = []
    with TextbookObjects() as textbooks, QemuMeasurer() as measurer:
        for problem in _problems(contents):
            made = _stored(problem, store) or _textbook(problem, textbooks, measurer)
            functions.append(made)
            if on_function is not None:
                on_function(made, len(contents.program.functions))
    return _bundle(contents, functions)


def problems_of(graph: Graph, target: Target) -> list[Problem]:
    """The problems whose functions a bundle of ``graph`` for ``target`` needs, in their order.
    ``UserError`` for a network with no layer for the DSP."""
    return _problems(_contents(graph, "network", target, lambda _: 0.0))


def bundle_with(
    graph: Graph, name: str, functions: Sequence[Function], *, target: Target
) -> Bundle:
    """The bundle ``name`` of ``graph`` with these functions, one for each of :func:`problems_of`.
    ``StoreError`` for an object that is not one, or lacks its function."""
    require_name(name)
    cycles = {one.problem.workload.digest: one.cycles for one in functions}
    contents = _contents(graph, name, target, lambda one: moved_in(cycles[one.digest], target))
    return _bundle(contents, functions)


def _contents(
    graph: Graph,
    name: str,
    target: Target,
    moved: Callable[[Workload], float],
    *,
    channels_last: bool = False,
) -> Contents:
    """``moved`` says how many bytes come from DDR while a call runs."""
    inner, edges = within_edges(graph)
    found = laid_out(inner, channels_last=channels_last)
    return Contents(name, inner, edges, found, program_of(inner, found, target, moved), target)


def _problems(contents: Contents) -> list[Problem]:
    return [
        Problem(workload, Contract.STATIC, contents.target)
        for workload in contents.program.functions
    ]


def _bundle(contents: Contents, functions: Sequence[Function]) -> Bundle:
    files = _files(contents, functions)
    calls = {name for data in _objects(files) for name in undefined_in(data)}
    manifest = {
        **_manifest(contents, functions),
        "calls": sorted(calls - {*_own_names(contents)}),
        "files": {path: digest_of_bytes(content) for path, content in sorted(files.items())},
    }
    files[MANIFEST] = (json.dumps(manifest, indent=2) + "\n").encode()
    return Bundle(contents.name, dict(sorted(files.items())), contents, tuple(functions))


def _stored(problem: Problem, store: TrialStore | None) -> Function | None:
    best = None if store is None else store.best(lookup_of(problem))
    if best is None or store is None:
        return None
    return Function(
        problem,
        store.artifact(best.artifact_digest),
        best.config,
        best.generator,
        best.measurement.cycles,
        best.measurement.fidelity,
        best.measurement.cache,
        STORED,
        best.public_id,
        best.problem.contract.value,
        dict(best.provenance["toolchain"]),
    )


def _textbook(problem: Problem, textbooks: TextbookObjects, measurer: Measurer) -> Function:
    candidate, generator = textbooks.candidate(problem)
    try:
        artifact = generator.compile(candidate)
        measurement = measurer.measure(problem, artifact).measurement
    except CandidateError as error:
        error.message = f"{problem.workload.label}, textbook schedule: {error.message}"
        raise
    return Function(
        problem,
        artifact,
        candidate.config,
        candidate.generator,
        measurement.cycles,
        measurement.fidelity,
        measurement.cache,
        TEXTBOOK,
        "",
        problem.contract.value,
        {**generator.fingerprint(), **measurer.fingerprint()},
    )


def _files(contents: Contents, functions: Sequence[Function]) -> dict[str, bytes]:
    """All files but the manifest."""
    name = contents.name
    objects = {
        f"objects/{symbol}.o": _renamed(function, symbol)
        for symbol, function in zip(_own_functions(contents), functions, strict=True)
    }
    if contents.program.constants.size:
        objects[f"objects/{contents.constants_symbol}.o"] = _constants(contents)
    with tempfile.TemporaryDirectory(prefix="hvxtune-bundle-") as folder:
        runtime = Path(folder) / "halide_runtime.o"
        write_runtime(runtime, contents.target, qurt=False)
        return {
            **objects,
            **_node_models(contents),
            "runtime/halide_runtime.o": runtime.read_bytes(),
            "licenses/Halide.txt": _license("halide", "licenses/LICENSE.txt"),
            "licenses/hvxtune.txt": _license("hvxtune", "licenses/LICENSE"),
            f"include/{name}.h": c_source.header(contents).encode(),
            f"source/{name}.c": c_source.source(contents).encode(),
            f"source/{HALIDE_BUFFER.name}": HALIDE_BUFFER.read_bytes(),
            **{f"source/{header.name}": header.read_bytes() for header in (COPY, _LAYERS)},
            "CMakeLists.txt": pages.cmake_lists(contents, sorted(objects)).encode(),
            "README.md": pages.readme(contents).encode(),
        }


def _renamed(function: Function, symbol: str) -> bytes:
    """The object, whose function is ``symbol``. Where it comes from somewhere else, it may be
    anything."""
    what = f"the object of {function.schedule or function.problem.workload.label}"
    try:
        made = with_own_names(
            function.artifact.object_bytes, function.artifact.symbol, renamed=symbol
        )
        if symbol in defined_in(made):
            return made
        why = f"does not define {function.artifact.symbol}"
    except (NotAnObjectError, ELFError, ValueError, IndexError, struct.error) as error:
        why = f"cannot be linked: {error}"
    raise StoreError(f"{what} {why}", next_step="tune it again, and fetch with --update")


def _node_models(contents: Contents) -> dict[str, bytes]:
    """The nodes of the model that the program computes, which a graph has as constants."""
    nodes = {symbol: contents.layers[place].node for place, symbol in contents.outside().items()}
    models = {
        symbol: contents.graph.constant(node.inputs[-1])
        for symbol, node in nodes.items()
        if node.operator == HOST
    }
    return {
        c_source.node_model(symbol, model): model.tobytes()
        for symbol, model in models.items()
        if model is not None
    }


def _license(package: str, file: str) -> bytes:
    text = distribution(package).read_text(file)
    if text is None:
        raise UserError(
            f"the licence of the package {package} is not installed with it ({file})",
            next_step=f"install {package} again",
        )
    return text.encode()


def _own_functions(contents: Contents) -> list[str]:
    return [contents.function_symbol(n) for n in range(len(contents.program.functions))]


def _own_names(contents: Contents) -> Iterable[str]:
    return (*_own_functions(contents), contents.constants_symbol)


def _objects(files: Mapping[str, bytes]) -> list[bytes]:
    return [content for path, content in files.items() if path.startswith("objects/")]


def _constants(contents: Contents) -> bytes:
    """All constants as an object: aligned as the target's vectors, read-only."""
    symbol = contents.constants_symbol
    flags = NativePart("constants", "hexagon", (), arch=contents.target.arch).compiler_flags()
    with tempfile.TemporaryDirectory(prefix="hvxtune-bundle-") as name:
        folder = Path(name)
        (folder / "constants.bin").write_bytes(contents.program.constants.tobytes())
        (folder / "constants.S").write_text(
            f'.section .rodata.{symbol},"a",@progbits\n'
            f".balign {contents.target.vector_alignment_bytes}\n"
            f".globl {symbol}\n.hidden {symbol}\n.type {symbol},@object\n"
            f'{symbol}:\n.incbin "constants.bin"\n.size {symbol}, .-{symbol}\n'
        )
        made = folder / "constants.o"
        source = folder / "constants.S"
        find_toolchain().cc([*flags, "-g0", f"-I{folder}", "-c", source, "-o", made], folder)
        return made.read_bytes()


def _manifest(contents: Contents, functions: Sequence[Function]) -> dict[str, Any]:
    program, graph = contents.program, contents.graph
    return {
        "format": FORMAT,
        "name": contents.name,
        "network": {"name": graph.name, "digest": graph.digest},
        "target": contents.target.name,
        "contract": Contract.STATIC.value,
        "hvxtune": version("hvxtune"),
        "entry": contents.entry,
        "arena": {
            "bytes": program.arena.size_bytes,
            "alive_bytes": program.arena.bound_bytes,
            "alignment_bytes": contents.target.vector_alignment_bytes,
        },
        "constant_bytes": int(program.constants.size),
        "inputs": [_end(called, tensor) for called, tensor in contents.ends()[: len(graph.inputs)]],
        "outputs": [
            _end(called, tensor) for called, tensor in contents.ends()[len(graph.inputs) :]
        ],
        "left_to_the_caller": {
            "before": [_edge(graph, node) for node in contents.edges.quantize],
            "after": [_edge(graph, node) for node in contents.edges.dequantize],
        },
        "brought_by_the_program": [
            {"layer": contents.layers[place].node.name, "function": symbol}
            for place, symbol in contents.outside().items()
        ],
        "functions": [
            _function(symbol, function)
            for symbol, function in zip(_own_functions(contents), functions, strict=True)
        ],
        "steps": [_step(contents, operation) for operation in program.operations],
    }


def _end(called: str, tensor: Tensor) -> dict[str, Any]:
    found = tensor.quantization
    return {
        "parameter": called,
        "tensor": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "scale": None if found is None else list(found.scale),
        "zero_point": None if found is None else list(found.zero_point),
    }


def _edge(graph: Graph, node: Node) -> dict[str, str]:
    return {"layer": node.name, "from": node.inputs[0], "to": node.outputs[0]}


def _function(symbol: str, function: Function) -> dict[str, Any]:
    workload = function.problem.workload
    return {
        "symbol": symbol,
        "kernel": workload.kernel,
        "params": dict(workload.params),
        "schedule": function.origin,
        "id": function.schedule or None,
        "contract": function.contract,
        "generator": function.generator,
        "config": dict(sorted(function.config.items())),
        "cycles": function.cycles,
        "fidelity": function.fidelity,
        "cache": function.cache,
        "verified": True,  # else it would be neither stored nor measured
        "artifact": function.artifact.digest,
        "toolchain": dict(sorted(function.toolchain.items())),
    }


def _step(contents: Contents, operation: Operation) -> dict[str, Any]:
    match operation:
        case Call():
            layer = contents.layers[operation.layer].node.name
            return {"layer": layer, "function": contents.function_symbol(operation.function)}
        case Copy():
            return {"copies": operation.tensor}
        case Fill():
            return {"fills": operation.tensor}
        case Outside():
            layer = contents.layers[operation.layer].node.name
            own = contents.in_c(operation.layer) or contents.outside()[operation.layer]
            return {"layer": layer, "function": own}
