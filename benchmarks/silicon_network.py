"""The order of a network's layers by model cycles, compared with times published for a phone.

    hvxtune network run mobilenet_v2.onnx --input x.npy --image --json > run.json
    python -m benchmarks silicon run.json ...

Times are those of MobileNetV2 int8 at 224x224 by SNPE 1.61 on the DSP of an SDM845 (v65), of the
logs in extra/dsp/snpe_logs of the repository tinygrad/tinygrad, layer by layer, without calls.
Other code by another compiler for another version of the architecture: only the order is compared,
by Kendall's tau. Layers that one call does are compared together.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Report
from tuner.search.ranking import kendall_tau

PUBLISHED = Path(__file__).parent / "silicon" / "mobilenet_v2_sdm845.csv"


@dataclass(frozen=True)
class Compared:
    """One call of a run: model cycles, and the published times of the layers that it does, in
    microseconds. ``kind`` is that of the last of them."""

    layer: str
    kind: str
    cycles: int
    us: float


def published() -> dict[str, tuple[str, float]]:
    """Kind and microseconds of each layer that has the name of one of ours."""
    with PUBLISHED.open() as lines:
        rows = csv.DictReader(lines)
        return {row["layer"]: (row["kind"], float(row["us"])) for row in rows if row["layer"]}


def compared(run: Mapping[str, Any], times: Mapping[str, tuple[str, float]]) -> list[Compared]:
    """The calls of ``run``, the JSON of ``network run --image``, that have published times."""
    members = defaultdict(list)
    for layer in run["layers"]:
        if layer["name"] in times:
            call = layer["name"] if layer["calls"] else layer["schedule"]
            members[call].append(times[layer["name"]])
    return [
        Compared(
            layer["name"],
            members[layer["name"]][-1][0],
            layer["cycles"],
            sum(us for _, us in members[layer["name"]]),
        )
        for layer in run["layers"]
        if layer["calls"] and layer["name"] in members
    ]


def options(parser: argparse.ArgumentParser) -> None:
    """The runs to compare."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells tau of each run given, over all calls and within each kind of layer."""
    for path in given.runs:
        calls = compared(json.loads(path.read_text()), published())
        report.table(
            {"layers": "", "calls": ",", "model cycles": ",", "us": ",.0f", "tau": ".2f"}, path.name
        )
        for kind in (None, *dict.fromkeys(call.kind for call in calls)):
            own = [call for call in calls if kind in (None, call.kind)]
            cycles, us = [call.cycles for call in own], [call.us for call in own]
            tau = kendall_tau(cycles, us)
            report.row(kind or "all", len(own), sum(cycles), sum(us), tau)
