"""Whole networks end to end: one call a layer, each layer tuned, and the plan.

Makes each network as the tests do (published layers, seeded weights, quantized by onnxruntime),
tunes its layers for ``--seconds`` with channels last and again as it is run, if that is not the
same, and runs it in one image on the simulator, whose outputs must be those of the kernels'
references. Prints, for each way to run it, crossings, model cycles (of kernels and conversions),
and the milliseconds that the topology makes of them; then the time that each part took. Models and
schedules stay in the folder, and a later run goes on with them. It fails if the plan of a network
in :data:`GAINS` takes more cycles than it may beside layers tuned one by one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from benchmarks.harness import Report, add_names, tell
from db import open_store
from tests.rig.models import published
from tests.rig.models.quantized import Quantizing, inputs_of, quantized
from tuner.jobs import set_tuning
from tuner.jobs.tuning import default_workers
from tuner.keeping.memory_store import MemoryStore
from tuner.keeping.store import TrialStore
from tuner.network import Graph
from tuner.network.layers import Layer, calls_of, recorded
from tuner.network.layouts import laid_out
from tuner.network.planning.costs import stored_cycles
from tuner.network.planning.topology import Topology, read_topology
from tuner.network.planning.whole import SequencePlanned, planned
from tuner.network.reading import model_file
from tuner.network.running import offload
from tuner.network.running.predicted import compared
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cache_dir
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target
from tuner.workload_sets import set_of

NETWORKS: dict[str, Callable[[int, int], onnx.ModelProto]] = {
    "mobilenet_v2": published.mobilenet_v2,
    "resnet50": published.resnet50,
}
GAINS = {"mobilenet_v2": 1.25}
"""Cycles of layers tuned one by one over those of the plan, at least."""
TARGET = find_target(DEFAULT_TARGET)


@dataclass(frozen=True)
class Row:
    """A way to run a network. ``cycles`` are the model's, ``waiting`` those of them that wait for
    DDR, ``repack`` those of conversions besides; ``apart`` counts the outputs that are not those of
    the network's definition."""

    way: str
    calls: int
    crossings: int
    cycles: int
    waiting: int
    repack: int
    time_ms: float
    apart: str

    @property
    def all_cycles(self) -> int:
        """Of kernels and conversions."""
        return self.cycles + self.repack

    @property
    def cells(self) -> tuple[Any, ...]:
        """Those of :data:`COLUMNS`."""
        figures = (self.calls, self.crossings, self.cycles, self.waiting, self.repack)
        return (self.way, *figures, self.time_ms, self.apart)


COLUMNS = {
    "way": "",
    "calls": ",",
    "crossings": ",",
    "cycles": ",",
    "of them for DDR": ",",
    "repacking": ",",
    "ms": ",.2f",
    "outputs apart": "",
}


@dataclass
class Clock:
    """The wall time of each part (seconds)."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Times what runs within, and says so on standard error."""
        begun = time.monotonic()
        tell(f"{name} ...")
        yield
        self.parts[name] = time.monotonic() - begun


@dataclass(frozen=True)
class Bench:
    """What all networks share."""

    folder: Path
    topology: Topology
    seconds: float
    workers: int
    pixels: int
    classes: int

    def of(self, name: str, report: Report) -> list[Row]:
        """Runs the benchmark of a network, and tells it."""
        clock = Clock()
        with clock.part("make and quantize"):
            path = self._model(name)
        with clock.part("import"):
            graph = model_file.read(path, {})
        plain, chosen = laid_out(graph, channels_last=True), laid_out(graph)
        with closing(open_store()) as store:
            with clock.part("run one call a layer, textbook"):
                rows = [self._run(graph, path, "one call a layer, textbook", None, alone=True)]
            with clock.part("tune layers, channels last"):
                self._tune(graph, plain, store)
            with clock.part("run one call a layer, tuned"):
                rows.append(self._run(graph, path, "one call a layer, tuned", store, alone=True))
            if calls_of(chosen) != calls_of(plain):
                with clock.part("tune layers of the plan"):
                    self._tune(graph, chosen, store)
            with clock.part("plan"):
                made = planned(graph, chosen, self.topology, stored_cycles(store))
            with clock.part("run the plan"):
                rows.append(self._run(graph, path, "the plan", store, alone=False))
        assert isinstance(made, SequencePlanned)  # noqa: S101 - its objective is latency
        self._tell(name, rows, made, clock, report)
        return rows

    def _tell(
        self, name: str, rows: Sequence[Row], made: SequencePlanned, clock: Clock, report: Report
    ) -> None:
        report.table(COLUMNS, f"{name}, {self.pixels}x{self.pixels}, {TARGET.name}")
        for row in rows:
            report.row(*row.cells)
        _, tuned, plan = rows
        report.remark(
            f"the plan: {tuned.all_cycles / plan.all_cycles:.2f}x fewer cycles than layers tuned "
            f"one by one; planned were {made.made.latency_us / 1000:,.2f} ms in {made.made.calls} "
            f"calls, and a better plan saves {made.made.gap:.1%} at most"
        )
        report.remark("; ".join(f"{part}: {took_s:,.0f} s" for part, took_s in clock.parts.items()))

    def _model(self, name: str) -> Path:
        path = self.folder / f"{name}-{self.pixels}-{self.classes}.onnx"
        if not path.exists():
            made = NETWORKS[name](self.pixels, self.classes)
            onnx.save(quantized(made, Quantizing(per_channel=True)), path)
        return path

    def _tune(self, graph: Graph, found: Sequence[Layer], store: TrialStore) -> None:
        workloads = set_of(graph.name, "", calls_of(found))
        limits = {"seconds": self.seconds, "workers": self.workers}
        layers = recorded(found)
        batch = set_tuning.submit(
            workloads, store, layers=layers, target=TARGET.name, contract="static", **limits
        )
        result = set_tuning.run(batch, workloads, store, **limits)
        lacking = [m.layers[0] for m, one in result.members if one.best is None]
        if lacking:
            tell(f"no schedule within the time: {', '.join(lacking)}")

    def _run(
        self, graph: Graph, path: Path, way: str, store: TrialStore | None, *, alone: bool
    ) -> Row:
        """One image: layer by layer with channels last if they are called ``alone``."""
        done = offload.run(
            graph,
            inputs_of(onnx.load(path), 0),
            target=TARGET,
            store=store,
            host=model_file.run_host_node,
            one_call_a_layer=alone,
            channels_last=alone,
        )
        beside = compared(graph, done, self.topology, TARGET, store or MemoryStore())
        apart = [
            f"{one.elements:,} of {one.of:,} by {one.steps}" if one.elements else "none"
            for one in done.apart.values()
        ]
        return Row(
            way,
            done.counts.calls,
            done.counts.crossings,
            done.cycles,
            done.cycles - done.core_cycles,
            done.repack_cycles,
            beside.ran_us / 1000,
            ", ".join(apart),
        )


def options(parser: argparse.ArgumentParser) -> None:
    """Which networks, of which size, and how long their layers are tuned."""
    add_names(parser, "NAME", NETWORKS)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--folder", type=Path, default=Path("build/bench/networks"))
    parser.add_argument("--topology", type=Path, default=Path(__file__).with_name("phone.toml"))


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells a table for each network."""
    given.folder.mkdir(parents=True, exist_ok=True)
    os.environ[CACHE_DIR_VARIABLE] = str(cache_dir())
    os.environ[STATE_DIR_VARIABLE] = str(given.folder.resolve() / "state")
    bench = Bench(
        given.folder.resolve(),
        read_topology(given.topology),
        given.seconds,
        given.workers,
        given.pixels,
        given.classes,
    )
    for name in given.names:
        _, tuned, plan = bench.of(name, report)
        if name in GAINS:
            gain = tuned.all_cycles / plan.all_cycles
            report.bar(f"{name}: gain of the plan", gain, least=GAINS[name])
