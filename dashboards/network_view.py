"""A network or set as pages show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.charts.gantt import Gantt, gantt
from dashboards.charts.network_graph import NetworkGraph, network_graph
from dashboards.charts.vtcm_steps import VtcmChart, vtcm_charts
from tuner.jobs.batch_progress import BatchProgress, MemberProgress, Totals
from tuner.records.batch import Batch, NetworkLayer
from tuner.records.network_plan import NetworkPlan
from tuner.records.trial import UNREACHED, JobState


@dataclass(frozen=True)
class NetworkView:
    """The state of a network or set, and what can be asked of it."""

    progress: BatchProgress

    @property
    def batch(self) -> Batch:
        """Its record."""
        return self.progress.batch

    @property
    def id(self) -> str:
        """Its id."""
        return self.batch.id

    @property
    def state(self) -> str:
        """The state in a word."""
        return self.progress.state

    @property
    def open(self) -> bool:
        """Whether a job of it can still make progress."""
        return self.progress.open

    @property
    def totals(self) -> Totals:
        """Its cycles against textbook."""
        return self.progress.totals

    @property
    def ended(self) -> int:
        """Jobs that have ended."""
        return sum(one.state.ended for one in self.progress.members)

    def word(self, one: MemberProgress) -> str:
        """The state of one of its jobs. Where all share a budget, those it was too small for are
        closed like cancelled ones."""
        stopped = one.state is JobState.CANCELLED and not one.finished
        if stopped and self.batch.shares_budget and self.state != JobState.CANCELLED:
            return UNREACHED
        return one.word

    @property
    def share_of_budget(self) -> float | None:
        """Share of the trials of the whole that are used; ``None`` without such a budget."""
        trials = self.batch.trials
        return min(1.0, self.progress.finished / trials) if trials else None

    @property
    def actions(self) -> list[str]:
        """The actions that make sense in its state. The command that runs a set with one budget
        alone can pause it."""
        if not self.open:
            return []
        if self.batch.shares_budget:
            return ["cancel"]
        return ["resume", "cancel"] if self.state == "paused" else ["pause", "cancel"]


@dataclass(frozen=True)
class Drawings:
    """The graph of a network, and what is drawn of its plan if it has one."""

    layers: Sequence[NetworkLayer]
    plan: NetworkPlan | None

    @property
    def has_edges(self) -> bool:
        """Whether the record says which layers a layer reads."""
        return any(layer.reads for layer in self.layers)

    @property
    def graph(self) -> NetworkGraph | None:
        """The graph; ``None`` if it cannot be drawn."""
        return network_graph(self.layers, self.plan)

    @property
    def gantt(self) -> Gantt | None:
        """The plan over time; ``None`` without one."""
        return None if self.plan is None else gantt(self.plan, self.layers)

    @property
    def vtcm(self) -> list[VtcmChart]:
        """VTCM of each unit."""
        return [] if self.plan is None else vtcm_charts(self.plan, self.layers)

    @property
    def copied(self) -> list[NetworkLayer]:
        """The layers whose outputs are copied to another unit for one input."""
        if self.plan is None:
            return []
        found = [bar for bar in self.plan.bars if bar.kind == "copy" and bar.layer is not None]
        # The bars of a stream are those of several inputs.
        once = {(bar.runs_on, bar.layer): bar for bar in found}.values()
        bars = once if self.plan.objective == "throughput" else found
        return [self.layers[bar.layer] for bar in bars if bar.layer is not None]

    @property
    def sources(self) -> str:
        """Where the times of layers are from, and of how many."""
        found = Counter(one.source for one in self.plan.layers) if self.plan else Counter[str]()
        return ", ".join(f"{count} {source}" for source, count in found.most_common())
