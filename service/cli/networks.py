"""Whole networks: ``network import``, ``run``, ``plan``, ``tune`` and ``bundle``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.batches import apart_text
from service.cli.connecting import connected
from service.cli.following import finish_batch
from service.cli.options import (
    AsJson,
    ServerAddress,
    TargetName,
    takes_job_options,
)
from service.cli.output import print_json, print_line, print_table
from service.cli.tuning import refuse_options, tell_submitted
from tuner.errors import NotStoredError, UserError
from tuner.problem.default_target import DEFAULT_TARGET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from service.client.blocking import BlockingClient
    from tuner.network import Graph
    from tuner.network.layers import Layer
    from tuner.network.planning.costs import BestCycles
    from tuner.network.planning.topology import Topology
    from tuner.network.planning.whole import SequencePlanned, StreamPlanned
    from tuner.network.running.execution import Apart, LayerRun, NetworkRun
    from tuner.network.running.offload import LayerRun as OffloadedLayer
    from tuner.network.running.offload import OffloadedRun
    from tuner.network.running.predicted import Compared
    from tuner.network.shipping import Bundle, Function
    from tuner.records.candidate import Problem
    from tuner.records.network_plan import NetworkPlan

ModelFile = Annotated[Path, typer.Argument(metavar="FILE", help="An int8 ONNX or TFLite model.")]
AxisTexts = Annotated[
    list[str] | None,
    typer.Option("--axis", metavar="NAME=VALUE", help="The extent of a dynamic axis."),
]


ChannelsLast = Annotated[
    bool,
    typer.Option("--channels-last", help="No images in channel blocks, no fused layers."),
]


def import_network(
    model: ModelFile,
    axis: AxisTexts = None,
    write_set: Annotated[
        Path | None,
        typer.Option(
            "--write-set", metavar="FILE", help="Write the workloads as a set for `tune --set`."
        ),
    ] = None,
    channels_last: ChannelsLast = False,
    as_json: AsJson = False,
) -> None:
    """Read the network in FILE: its layers, their shares of the work, and the kernels that fit."""
    from tuner.network.layers import workload_set
    from tuner.network.layouts import laid_out

    graph = read_network(model, axis)
    found = laid_out(graph, channels_last=channels_last)
    if write_set is not None:
        _write(write_set, workload_set(graph, found))
    if as_json:
        print_json(_network_json(graph, found))
        return
    print_table(
        ["layer", "operator", "shape", "kernel", "MACs", "share", "apart", "note"],
        [_row(layer) for layer in found],
        numeric=["MACs", "share"],
    )
    print_line()
    for line in _totals(graph, found):
        print_line(line)


def read_network(model: Path, axis: list[str] | None) -> Graph:
    """The network in ``model`` with the extents of ``--axis``."""
    from tuner.network.reading import model_file

    return model_file.read(model, dict(_axis(text) for text in axis or []))


def _write(path: Path, text: str) -> None:
    if path.suffix != ".toml":
        raise UserError(f"--write-set '{path}'", accepted="a file NAME.toml")
    path.write_text(text)


def _axis(text: str) -> tuple[str, int]:
    name, _, value = text.rpartition("=")
    if not name or not value.isdecimal():
        raise UserError(f"--axis '{text}'", accepted="NAME=VALUE, such as batch=1")
    return name, int(value)


def _row(layer: Layer) -> list[object]:
    operator = layer.node.operator
    kernel = layer.fit.workload.kernel if layer.fit.workload else "none yet"
    if operator == "host":
        operator, kernel = layer.node.source, "host"
    elif operator in ("reshape", "reinterpret", "quantize", "dequantize"):
        kernel = "-"
    elif layer.fit.within:
        kernel = f"in {layer.fit.within}"
    return [
        layer.node.name,
        operator,
        "x".join(map(str, layer.shape)),
        kernel,
        f"{layer.work.macs:,}",
        f"{layer.share_of_macs:.1%}",
        apart_text(_has_kernel(layer), layer.fit.steps),
        "; ".join(
            filter(None, [layer.fit.note, f"{layer.fit.calls} calls" * (layer.fit.calls > 1)])
        ),
    ]


def _has_kernel(layer: Layer) -> bool:
    return layer.fit.workload is not None or bool(layer.fit.within)


def _totals(graph: Graph, found: list[Layer]) -> list[str]:
    host = [layer for layer in found if layer.node.operator == "host"]
    macs = sum(layer.work.macs for layer in found)
    kinds = len({layer.signature for layer in found})
    fits = [layer for layer in found if _has_kernel(layer)]
    exact = [layer for layer in fits if layer.fit.steps is not None]
    named = f"{graph.name} ({graph.digest[:12]})"
    return [
        f"{named}: {len(found)} layers, {kinds} of them distinct; {macs:,} MACs",
        f"a kernel has their shape: {len(fits)} layers, {_share(fits)}",
        f"and takes their numbers: {len(exact)} layers, {_share(exact)}",
        f"on the host: {len(host)} layers, {_share(host)}",
    ]


def _share(part: list[Layer]) -> str:
    macs = sum(layer.share_of_macs for layer in part)
    return f"{macs:.1%} of MACs and {sum(layer.share_of_bytes for layer in part):.1%} of bytes"


def _network_json(graph: Graph, found: list[Layer]) -> dict[str, Any]:
    return {
        "name": graph.name,
        "digest": graph.digest,
        "inputs": {name: list(graph.tensors[name].shape) for name in graph.inputs},
        "outputs": {name: list(graph.tensors[name].shape) for name in graph.outputs},
        "layers": [
            {
                "name": layer.node.name,
                "operator": layer.node.operator,
                "source": layer.node.source,
                "on_host": layer.node.operator == "host",
                "shape": list(layer.shape),
                "signature": layer.signature,
                "alike": layer.alike,
                "macs": layer.work.macs,
                "moved_bytes": layer.work.moved_bytes,
                "share_of_macs": layer.share_of_macs,
                "share_of_bytes": layer.share_of_bytes,
                "kernel": layer.fit.workload.kernel if layer.fit.workload else None,
                "params": dict(layer.fit.workload.params) if layer.fit.workload else None,
                "steps_apart": layer.fit.steps,
                "calls": layer.fit.calls,
                "within": layer.fit.within,
                "note": layer.fit.note,
            }
            for layer in found
        ],
    }


def run_network(
    model: ModelFile,
    given: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="[NAME=]FILE",
            help="An input as a .npy file; once per input, by name if there are several.",
        ),
    ],
    axis: AxisTexts = None,
    target: TargetName = DEFAULT_TARGET,
    image: Annotated[
        bool,
        typer.Option("--image", help="As one program for the DSP, whose calls the host queues."),
    ] = False,
    one_call_a_layer: Annotated[
        bool,
        typer.Option("--one-call-a-layer", help="With --image: send each call on its own."),
    ] = False,
    channels_last: ChannelsLast = False,
    topology: Annotated[
        Path | None,
        typer.Option("--topology", metavar="FILE", help="With --image: compare with a plan."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the network in FILE on the simulator and compare it with its definition.

    Layers run by the best stored schedules, or else by the textbook ones: one by one, or with
    --image all in one program, as on a DSP.
    """
    from db import open_store
    from tuner.network.reading.model_file import run_host_node
    from tuner.network.running import execution
    from tuner.problem.target import find_target

    if image:
        _run_image(
            *(model, axis, given, target, one_call_a_layer, channels_last, topology),
            as_json=as_json,
        )
        return
    of_image = {
        "--one-call-a-layer": one_call_a_layer,
        "--topology": topology is not None,
    }
    for option, is_given in of_image.items():
        if is_given:
            raise UserError(f"{option} without --image", next_step="add --image")
    graph = read_network(model, axis)
    inputs = _inputs(graph, given)
    with open_store() as store:
        done = execution.run(
            graph,
            inputs,
            target=find_target(target),
            store=store,
            host=run_host_node,
            on_layer=_tell_layer,
            channels_last=channels_last,
        )
    if as_json:
        print_json(_run_json(graph, done))
        return
    print_table(
        ["layer", "operator", "kernel", "schedule", "cycles", "share", "apart"],
        [_run_row(run, done.cycles) for run in done.layers],
        numeric=["cycles", "share"],
    )
    print_line()
    ran = [run for run in done.layers if run.cycles is not None or run.layer.fit.within]
    calls = sum(run.layer.fit.calls for run in ran if run.cycles is not None)
    macs = sum(run.layer.share_of_macs for run in ran)
    print_line(
        f"{graph.name}: {done.cycles:,} model cycles in {calls} calls; "
        f"{len(ran)} of {len(done.layers)} layers on the DSP, {macs:.1%} of MACs"
    )
    for name, apart in done.apart.items():
        print_line(f"output {name}, against the network as defined: {_apart_text(apart)}")


def _run_image(
    model: Path,
    axis: list[str] | None,
    given: list[str],
    target: str,
    one_call_a_layer: bool,
    channels_last: bool,
    topology: Path | None,
    *,
    as_json: bool,
) -> None:
    from db import open_store
    from tuner.network.planning.topology import read_topology
    from tuner.network.reading.model_file import run_host_node
    from tuner.network.running import offload
    from tuner.network.running.predicted import compared
    from tuner.problem.target import find_target

    units = None if topology is None else read_topology(topology)
    graph = read_network(model, axis)
    inputs = _inputs(graph, given)
    chosen = find_target(target)
    with open_store() as store:
        done = offload.run(
            graph,
            inputs,
            target=chosen,
            store=store,
            host=run_host_node,
            one_call_a_layer=one_call_a_layer,
            channels_last=channels_last,
        )
        plan = None if units is None else compared(graph, done, units, chosen, store)
    if as_json:
        print_json(_offloaded_json(graph, done, plan))
        return
    print_table(
        ["layer", "operator", "kernel", "schedule", "calls", "cycles", "repack"],
        [_offloaded_row(run) for run in done.layers],
        numeric=["calls", "cycles", "repack"],
    )
    print_line()
    for line in _offloaded_lines(graph, done, plan):
        print_line(line)
    for name, apart in done.apart.items():
        print_line(f"output {name}, against the network as defined: {_apart_text(apart)}")


def _offloaded_row(run: OffloadedLayer) -> list[object]:
    workload, node = run.layer.fit.workload, run.layer.node
    return [
        node.name,
        node.source if node.operator == "host" else node.operator,
        workload.kernel if workload is not None and run.calls else "-",
        run.origin,
        run.calls or "",
        "" if run.cycles is None else f"{run.cycles:,}",
        f"{run.repack_cycles:,}" if run.repack_cycles else "",
    ]


def _offloaded_lines(graph: Graph, done: OffloadedRun, plan: Compared | None) -> Iterator[str]:
    ran = [run for run in done.layers if run.on_dsp]
    macs = sum(run.layer.share_of_macs for run in ran)
    counts = done.counts
    yield (
        f"{graph.name}: {done.cycles:,} model cycles in {sum(run.calls for run in ran)} calls of "
        f"kernels ({done.core_cycles:,} without waiting for DDR), {done.repack_cycles:,} in "
        f"repacking; {len(ran)} of {len(done.layers)} layers on the DSP, {macs:.1%} of MACs"
    )
    yield (
        f"{counts.crossings} crossings, {counts.batches} of them with calls; "
        f"{counts.bytes_in:,} bytes in by {counts.copies_in} copies, "
        f"{counts.bytes_out:,} out by {counts.copies_out}"
    )
    yield (
        f"before the run {done.constant_bytes:,} bytes of constants; "
        f"at most {done.peak_bytes:,} bytes in buffers"
    )
    if plan is None:
        return
    yield (
        f"planned for these units: {plan.planned_calls} calls, {plan.planned_cycles:,.0f} cycles, "
        f"{plan.planned_us:,.1f} us"
    )
    yield (
        f"as it ran, by the same costs: {plan.ran_calls} calls, {plan.ran_cycles:,} cycles, "
        f"{plan.ran_us:,.1f} us"
    )


def _offloaded_json(graph: Graph, done: OffloadedRun, plan: Compared | None) -> dict[str, Any]:
    return {
        "name": graph.name,
        "digest": graph.digest,
        "cycles": done.cycles,
        "core_cycles": done.core_cycles,
        "repack_cycles": done.repack_cycles,
        "outputs": {name: _apart_json(apart) for name, apart in done.apart.items()},
        "crossed": asdict(done.counts),
        "crossed_before": asdict(done.set_up),
        "constant_bytes": done.constant_bytes,
        "peak_bytes": done.peak_bytes,
        "plan": None if plan is None else asdict(plan),
        "layers": [
            {
                "name": run.layer.node.name,
                "operator": run.layer.node.operator,
                "kernel": run.layer.fit.workload.kernel
                if run.layer.fit.workload and run.calls
                else None,
                "schedule": run.origin,
                "calls": run.calls,
                "cycles": run.cycles,
                "core_cycles": run.core_cycles,
                "repack_cycles": run.repack_cycles,
            }
            for run in done.layers
        ],
    }


def _inputs(graph: Graph, given: list[str]) -> dict[str, NDArray[Any]]:
    """The arrays of the files that ``--input`` names."""
    found = {}
    for text in given:
        name, equals, file = text.rpartition("=")
        if not equals:
            if len(graph.inputs) != 1:
                raise UserError(
                    f"--input '{text}' for a network of {len(graph.inputs)} inputs",
                    accepted="NAME=FILE with NAME one of " + ", ".join(graph.inputs),
                )
            name = graph.inputs[0]
        if name not in graph.inputs:
            raise UserError(f"--input '{text}'", accepted=", ".join(graph.inputs))
        found[name] = _array(Path(file))
    return found


def _array(path: Path) -> NDArray[Any]:
    import numpy as np

    try:
        made: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise UserError(f"{path} is not an array: {error}", accepted="a .npy file") from None
    return made


def _tell_layer(run: LayerRun) -> None:
    within = f"in {run.origin}" if run.layer.fit.within else run.origin
    cycles = within if run.cycles is None else f"{run.cycles:,} cycles, {run.origin}"
    sys.stderr.write(f"{run.layer.node.name}: {cycles}\n")
    sys.stderr.flush()


def _run_row(run: LayerRun, total: int) -> list[object]:
    workload = run.layer.fit.workload
    return [
        run.layer.node.name,
        run.layer.node.source if run.layer.node.operator == "host" else run.layer.node.operator,
        workload.kernel if workload is not None and run.cycles is not None else "-",
        run.origin,
        "" if run.cycles is None else f"{run.cycles:,}",
        "" if run.cycles is None else f"{run.cycles / total:.1%}",
        _apart_text(run.apart),
    ]


def _apart_text(apart: Apart) -> str:
    if not apart.elements:
        return "same"
    return f"{apart.elements:,} of {apart.of:,} by {apart.steps} step{'s' * (apart.steps > 1)}"


def _run_json(graph: Graph, done: NetworkRun) -> dict[str, Any]:
    return {
        "name": graph.name,
        "digest": graph.digest,
        "cycles": done.cycles,
        "outputs": {name: _apart_json(apart) for name, apart in done.apart.items()},
        "layers": [
            {
                "name": run.layer.node.name,
                "operator": run.layer.node.operator,
                "kernel": run.layer.fit.workload.kernel if run.layer.fit.workload else None,
                "schedule": run.origin,
                "calls": run.layer.fit.calls if run.cycles is not None else 0,
                "cycles": run.cycles,
                **_apart_json(run.apart),
            }
            for run in done.layers
        ],
    }


def _apart_json(apart: Apart) -> Mapping[str, int]:
    return {"steps_apart": apart.steps, "elements_apart": apart.elements, "elements": apart.of}


_PLAN_SECONDS = 30.0
_PLAN_SLACK = 0.05
PlanObjectiveName = Annotated[
    Literal["latency", "calls", "throughput"],
    typer.Option(
        "--objective",
        help="Minimize the latency, calls first, or the time between inputs of a stream.",
    ),
]


def plan_network(
    model: ModelFile,
    topology: Annotated[
        Path, typer.Option("--topology", metavar="FILE", help="The units and links, as TOML.")
    ],
    axis: AxisTexts = None,
    objective: PlanObjectiveName = "latency",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Time for the solver.")
    ] = _PLAN_SECONDS,
    slack: Annotated[
        float,
        typer.Option(
            "--slack",
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="How much longer the time between inputs may be for a shorter latency.",
        ),
    ] = _PLAN_SLACK,
    channels_last: ChannelsLast = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Decide which unit runs which layer of the network in FILE, in which order and calls.

    Layers take the cycles of the best stored schedule, or else an estimate. The newest tuning of
    the network keeps the plan for its page.
    """
    from service.cli import plans
    from tuner.network.layouts import laid_out
    from tuner.network.planning.solver import require_ortools
    from tuner.network.planning.topology import read_topology
    from tuner.network.planning.whole import planned

    units = read_topology(topology)
    require_ortools()
    graph = read_network(model, axis)
    found = laid_out(graph, channels_last=channels_last)
    limits: dict[str, Any] = {"objective": objective, "seconds": seconds, "slack": slack}
    with connected(server) as client:
        done = planned(graph, found, units, _cycles_of(client), **limits)
        kept = _keep_plan(client, graph.name, found, done.record)
    if as_json:
        names = [layer.node.name for layer in found]
        about = {"name": graph.name, "digest": graph.digest, "layers": names}
        print_json({**about, "meshes": plans.shares_of(done), **done.record.document()})
    else:
        plans.show_plan(graph, done)
    if kept is not None:
        sys.stderr.write(f"kept with network {kept}, whose page shows it\n")


def _cycles_of(client: BlockingClient) -> BestCycles:
    """The cycles of the best schedules that are stored."""
    from service.fetching.sources import ServerSource
    from tuner.keeping.best import lookup_of

    source = ServerSource(client)

    def cycles_of(problem: Problem) -> float | None:
        try:
            return source.best(lookup_of(problem)).cycles
        except NotStoredError:
            return None

    return cycles_of


def _keep_plan(
    client: BlockingClient, name: str, found: Sequence[Layer], plan: NetworkPlan
) -> str | None:
    """Keeps ``plan`` with the newest network of that name if it has the layers ``found``; its id,
    or ``None`` if there is no such network, or it is another's."""
    from service.client import RefusedError

    kernels = [layer.fit.workload.kernel if layer.fit.workload else None for layer in found]
    try:
        form = client.network(name)
        if form["kind"] != "network" or [one["kernel"] for one in form["layers"]] != kernels:
            return None
        client.give_network_plan(form["batch"], plan.document())
    except RefusedError as error:
        if error.status not in (403, 404):
            raise
        return None
    return str(form["batch"])


@takes_job_options
def tune_network(
    model: ModelFile,
    axis: AxisTexts = None,
    topology: Annotated[
        Path | None,
        typer.Option(
            "--topology",
            metavar="FILE",
            help="Plan the tuned network for these units and links, for its page.",
        ),
    ] = None,
    objective: PlanObjectiveName = "latency",
    channels_last: ChannelsLast = False,
    *,
    options: Mapping[str, Any],
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Tune the layers of the network in FILE, each distinct one once, in one budget.

    They are those that `network run --image` calls. The budget goes to the layers by what is left
    to gain, times their number. A service gets shapes, never weights.
    """
    from service.schemas.network_layers import layers_sent
    from tuner.network.layers import calls_of
    from tuner.network.layouts import laid_out

    refuse_options("network tune", options)
    graph = read_network(model, axis)
    found = laid_out(graph, channels_last=channels_last)
    if not calls_of(found):
        raise UserError(
            f"no layer of {model} has a kernel", next_step="see `hvxtune network import`"
        )
    units = None if topology is None else _plannable(graph, found, topology)
    with connected(server) as client:
        jobs = client.submit_network(graph.name, layers_sent(found), **options)
        tell_submitted(client, jobs)
        batch = str(jobs[0]["batch"])
        finish_batch(client, batch, as_json=as_json)
        if units is None:
            return
        from tuner.network.planning.whole import planned

        done = planned(graph, found, units, _cycles_of(client), objective=objective)
        client.give_network_plan(batch, done.record.document())
    _tell_plan(done)


def _plannable(graph: Graph, found: Sequence[Layer], topology: Path) -> Topology:
    """The units in a file, on which ``graph`` can be planned once it is tuned."""
    from tuner.network.planning.topology import read_topology
    from tuner.network.planning.whole import require_plannable

    units = read_topology(topology)
    require_plannable(graph, found, units)
    return units


def _tell_plan(done: SequencePlanned | StreamPlanned) -> None:
    kept = done.record
    what = "an input every" if kept.objective == "throughput" else "one input takes"
    sys.stderr.write(
        f"planned: {what} {kept.time_us:,.1f} us, {kept.calls} calls; "
        f"a better plan saves {kept.gap:.1%} at most; kept for the page of the network\n"
    )


def bundle_network(
    model: ModelFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="A folder for it, or an archive NAME.tar.gz."
        ),
    ],
    axis: AxisTexts = None,
    target: TargetName = DEFAULT_TARGET,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            help="The C identifier to call it by; otherwise the name of FILE.",
            show_default=False,
        ),
    ] = "",
    channels_last: ChannelsLast = False,
    as_json: AsJson = False,
) -> None:
    """Write all that a program needs to run the network in FILE on a DSP, with CMake or without.

    Layers run by the best stored schedules, or else by textbook ones, compiled and verified now.
    """
    from db import open_store
    from tuner.network.shipping import bundle_of, require_name, require_place, write
    from tuner.problem.target import find_target

    chosen, called = find_target(target), name or model.stem
    require_name(called)
    require_place(output)
    graph = read_network(model, axis)
    with open_store() as store:
        done = bundle_of(
            graph,
            called,
            target=chosen,
            store=store,
            on_function=_tell_function(),
            channels_last=channels_last,
        )
    write(done, output)
    if as_json:
        print_json({"output": str(output), **done.manifest})
        return
    for line in bundle_lines(done, output):
        print_line(line)


def _tell_function() -> Callable[[Function, int], None]:
    """Tells of each function on standard error, with how many are done."""
    numbers = itertools.count(1)

    def tell(function: Function, of: int) -> None:
        cycles = f"{function.cycles:,} cycles, {function.origin}"
        label = function.problem.workload.label
        sys.stderr.write(f"{next(numbers)} of {of}: {label}: {cycles}\n")
        sys.stderr.flush()

    return tell


def bundle_lines(done: Bundle, output: Path) -> Iterator[str]:
    """A bundle for people: its size, and what it leaves to the program."""
    program, contents = done.contents.program, done.contents
    stored = sum(function.origin == "stored" for function in done.functions)
    size = sum(len(content) for content in done.files.values())
    yield (
        f"wrote {output}: {len(done.files)} files, {size:,} bytes; {contents.entry}() makes "
        f"{len(program.operations)} steps with {len(done.functions)} functions, {stored} of them "
        "by stored schedules"
    )
    yield (
        f"an arena of {program.arena.size_bytes:,} bytes, "
        f"{program.constants.size:,} bytes of constants"
    )
    for node in contents.edges.quantize:
        yield f"you do before: {node.name}, quantizes an input"
    for node in contents.edges.dequantize:
        yield f"you do after: {node.name}, makes real numbers of an output"
    for place, symbol in contents.outside().items():
        layer = contents.layers[place]
        note = f" ({layer.fit.note})" if layer.fit.note else ""
        yield f"you define {symbol}(): {layer.node.name} has no kernel{note}"
