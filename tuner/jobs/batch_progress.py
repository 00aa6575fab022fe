"""The progress of a batch: its state and totals, what each layer gained, and what to do next.

Whole networks are compared by the cycles of their layers: each job's, times the layers that it is
for. What is left to gain is estimated as :mod:`tuner.search.allocation` does, which shares out the
budget of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuner.errors import UserError
from tuner.measure.roofline import roofline_of
from tuner.records.batch import Batch, BatchMember, NetworkLayer
from tuner.records.candidate import Cycles, Problem
from tuner.records.trial import NOT_REACHED, UNREACHED, JobState
from tuner.search.allocation import SearchState, best_shares, cycles_left, next_search


@dataclass(frozen=True)
class MemberProgress:
    """The progress of one job of a batch.

    ``finished`` counts trials of every outcome, ``ok`` those with a measurement, ``pending`` those
    under way. ``interrupted`` means that it says running, but its process is gone. ``note`` is why
    it ended, failed or waits.
    """

    member: BatchMember
    state: JobState
    paused: bool = False
    interrupted: bool = False
    finished: int = 0
    ok: int = 0
    pending: int = 0
    textbook_cycles: int | None = None
    best: Cycles | None = None
    spent_s: float = 0.0
    note: str = ""

    @property
    def best_cycles(self) -> int | None:
        """Those of its best."""
        return None if self.best is None else self.best.cycles

    @property
    def word(self) -> str:
        """The state in a word."""
        if self.interrupted:
            return "interrupted"
        if self.note == NOT_REACHED:
            return UNREACHED
        return "paused" if self.paused and self.state is JobState.QUEUED else self.state.value


@dataclass(frozen=True)
class Totals:
    """Cycles of all layers whose textbook schedule and best are both known: ``layers`` of
    ``of_layers``."""

    textbook_cycles: int
    best_cycles: int
    layers: int
    of_layers: int
    best: Cycles | None = None
    """``best_cycles`` with their range; ``None`` where no layer has both."""

    @property
    def speedup(self) -> float | None:
        """Textbook over best; ``None`` where no layer has both."""
        return self.textbook_cycles / self.best_cycles if self.layers else None


def totals_of(members: Sequence[MemberProgress]) -> Totals:
    """The totals of all layers of these jobs."""
    compared = [
        (one.member.occurrences, one.textbook_cycles, one.best)
        for one in members
        if one.textbook_cycles and one.best
    ]

    def total(of: Callable[[Cycles], int | None]) -> int | None:
        figures = [(times, of(best)) for times, _, best in compared]
        known = [times * figure for times, figure in figures if figure is not None]
        return sum(known) if len(known) == len(figures) else None

    cycles = sum(times * best.cycles for times, _, best in compared)
    spread = total(lambda best: best.lowest_cycles), total(lambda best: best.highest_cycles)
    return Totals(
        sum(times * book for times, book, _ in compared),
        cycles,
        sum(times for times, _, _ in compared),
        sum(one.member.occurrences for one in members),
        Cycles(cycles, *spread) if compared else None,
    )


@dataclass(frozen=True)
class BatchProgress:
    """The progress of a batch; ``members`` are in the batch's order."""

    batch: Batch
    members: tuple[MemberProgress, ...]

    @property
    def open(self) -> bool:
        """Whether a job of it can still make progress."""
        return any(not one.state.ended for one in self.members)

    @property
    def state(self) -> str:
        """In a word: while jobs are open, the liveliest state of any. Then ``done`` if one is,
        unless a search that had begun was cancelled."""
        words = {str(one.state) if one.state.ended else one.word for one in self.members}
        for word in ("running", "interrupted", "queued", "paused"):
            if word in words:
                return word
        begun = any(one.state is JobState.CANCELLED and one.finished for one in self.members)
        order = ("cancelled", "done", "failed") if begun else ("done", "cancelled", "failed")
        return next(word for word in order if word in words)

    @property
    def finished(self) -> int:
        """Trials of every outcome."""
        return sum(one.finished for one in self.members)

    @property
    def ok(self) -> int:
        """Trials with a measurement."""
        return sum(one.ok for one in self.members)

    @property
    def pending(self) -> int:
        """Trials under way."""
        return sum(one.pending for one in self.members)

    @property
    def totals(self) -> Totals:
        """Its cycles so far."""
        return totals_of(self.members)

    @property
    def version(self) -> str:
        """Changes whenever something about it does."""
        ended = sum(one.state.ended for one in self.members)
        cycles = sum(one.best_cycles or 0 for one in self.members)
        return f"{self.state}-{ended}-{self.finished}-{self.pending}-{cycles}"


@dataclass(frozen=True)
class LayerProgress:
    """A row of the table by layer: a layer of a network, or all layers of one job of a set.

    ``layer`` is what is known of the former. Cycles are those of all ``calls``; ``share`` is that
    of the best cycles of all layers. ``left_cycles`` is how many could be saved at most, by
    estimate. All are ``None`` where unknown, as is the job's ``progress`` where no job is for it.
    """

    name: str
    kernel: str | None
    calls: int
    layer: NetworkLayer | None = None
    progress: MemberProgress | None = None
    textbook_cycles: int | None = None
    best_cycles: int | None = None
    share: float | None = None
    left_cycles: int | None = None

    @property
    def speedup(self) -> float | None:
        """Textbook over best."""
        if not self.textbook_cycles or not self.best_cycles:
            return None
        return self.textbook_cycles / self.best_cycles


@dataclass(frozen=True)
class NextStep:
    """The job whose next trials are expected to save most, and how many cycles of the whole it
    could save at most; ``None`` if it has no valid schedule yet."""

    progress: MemberProgress
    problem: Problem
    left_cycles: int | None


@dataclass(frozen=True)
class BatchTable:
    """The progress of a batch, layer by layer. ``problems`` are those of its jobs."""

    progress: BatchProgress
    problems: Mapping[str, Problem]
    layers: tuple[LayerProgress, ...]
    next: NextStep | None


def table_of(progress: BatchProgress, problems: Mapping[str, Problem]) -> BatchTable:
    """The table of a batch whose jobs have these ``problems``, by their ids."""
    searches = {
        one.member.job: search
        for one in progress.members
        if (search := _search_of(one, problems[one.member.job])) is not None
    }
    shares = best_shares(list(searches.values()))
    left = {
        job: cycles_left(search, shares[search.family])
        for job, search in searches.items()
        if search.best_cycles is not None
    }
    rows = _rows(progress, problems)
    whole = sum(row[3].best_cycles * row[2] for row in rows if row[3] and row[3].best_cycles)
    layers = tuple(_layer(*row, whole=whole, left=left) for row in rows)
    return BatchTable(progress, problems, layers, _next_step(progress, problems, searches, left))


_Row = tuple[str, str | None, int, MemberProgress | None, NetworkLayer | None]


def _rows(progress: BatchProgress, problems: Mapping[str, Problem]) -> list[_Row]:
    if progress.batch.kind == "set":
        return [
            (
                one.member.layers[0],
                problems[one.member.job].workload.kernel,
                one.member.occurrences,
                one,
                None,
            )
            for one in progress.members
        ]
    by_workload = {problems[one.member.job].workload.digest: one for one in progress.members}
    return [
        (layer.name, layer.kernel, layer.calls, by_workload.get(layer.workload or ""), layer)
        for layer in progress.batch.layers
    ]


def _layer(
    name: str,
    kernel: str | None,
    calls: int,
    one: MemberProgress | None,
    layer: NetworkLayer | None,
    *,
    whole: int,
    left: Mapping[str, float | None],
) -> LayerProgress:
    if one is None:
        return LayerProgress(name, kernel, calls, layer)
    best, book, most = one.best_cycles, one.textbook_cycles, left.get(one.member.job)
    return LayerProgress(
        name,
        kernel,
        calls,
        layer,
        one,
        textbook_cycles=None if book is None else calls * book,
        best_cycles=None if best is None else calls * best,
        share=None if best is None else calls * best / whole,
        left_cycles=None if most is None else round(calls * most),
    )


def _search_of(one: MemberProgress, problem: Problem) -> SearchState | None:
    """The search as its results so far say; ``None`` if its kernel is not installed (any more)."""
    try:
        least = roofline_of(problem).cycles
    except UserError:
        return None
    search = SearchState(one.member.occurrences, least, problem.workload.kernel)
    search.resume(one.finished, one.textbook_cycles, one.best_cycles, one.spent_s)
    return search


def _next_step(
    progress: BatchProgress,
    problems: Mapping[str, Problem],
    searches: Mapping[str, SearchState],
    left: Mapping[str, float | None],
) -> NextStep | None:
    """``None`` if the estimate leaves nothing to gain."""
    jobs: Sequence[str] = list(searches)
    position = next_search([searches[job] for job in jobs])
    if position is None:
        return None
    job = jobs[position]
    most = left.get(job)
    if most is not None and most < 1:
        return None
    chosen = next(one for one in progress.members if one.member.job == job)
    whole = None if most is None else round(chosen.member.occurrences * most)
    return NextStep(chosen, problems[job], whole)
