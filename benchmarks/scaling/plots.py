"""The plots of docs/scaling.md, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.scale import Scale
from benchmarks.scaling.model import KINDS, Result
from benchmarks.scaling.sweep import PHONE_RUN_S

# The same figures give the same file, and text stays text.
mpl.rcParams.update({"svg.hashsalt": "hvxtune", "svg.fonttype": "none", "font.size": 10})


def draw(sizes: Sequence[Result], checked: Sequence[tuple[Scale, float]], folder: Path) -> None:
    """Writes ``throughput.svg``, ``use.svg`` and ``check.svg`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    _save(_throughput(sizes), folder / "throughput.svg")
    _save(_use(sizes), folder / "use.svg")
    _save(_check(checked), folder / "check.svg")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")


def _throughput(sizes: Sequence[Result]) -> Figure:
    figure = Figure((7, 4))
    axes = figure.subplots()
    for number, run_s in enumerate(dict.fromkeys(one.lab.run_s for one in sizes)):
        found = [one for one in sizes if one.lab.run_s == run_s]
        devices = [one.lab.devices for one in found]
        label, color = f"{run_s:.2g} s a run", f"C{number}"
        axes.plot(devices, [one.throughput for one in found], "o-", color=color, label=label)
        axes.plot(devices, [one.ideal for one in found], ":", color=color)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="devices",
        ylabel="trials a second",
        title="Simulated throughput (dotted: devices that never wait)",
    )
    axes.legend()
    return figure


def _use(sizes: Sequence[Result]) -> Figure:
    figure = Figure((7, 4))
    axes = figure.subplots()
    found = [one for one in sizes if one.lab.run_s == PHONE_RUN_S]
    for kind in KINDS:
        axes.plot([one.lab.devices for one in found], [one.use(kind) for one in found], "o-")
    axes.set(
        xscale="log",
        ylim=(0, 1.05),
        xlabel="devices",
        ylabel="busy share",
        title=f"Simulated use of each resource, {PHONE_RUN_S:g} s a run",
    )
    axes.legend(KINDS)
    return figure


def _check(checked: Sequence[tuple[Scale, float]]) -> Figure:
    figure = Figure((7, 3))
    axes = figure.subplots()
    workers = [one.workers for one, _ in checked]
    axes.plot(workers, [one.efficiency for one, _ in checked], "o-", label="measured")
    axes.plot(workers, [efficiency for _, efficiency in checked], "x--", label="simulated")
    axes.set(
        ylim=(0.5, 1.02),
        xlabel="Dask workers, each with calls of 0.5 s",
        ylabel="efficiency",
        title="The model beside a real cluster",
    )
    axes.legend()
    return figure
