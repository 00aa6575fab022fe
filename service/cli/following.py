"""Jobs and batches to their ends: run in the foreground where this process is the service, followed
where another one is; and the result, printed alike."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from service.cli.batches import print_batch
from service.cli.connecting import place_option
from service.cli.output import print_json
from service.cli.progress import JobProgress, Show, job_progress, shown
from service.cli.signals import stop_on_signal
from service.cli.statuses import Exit
from service.cli.summary import display_name, print_result, reached_text, worded
from service.here import Here
from tuner.errors import HvxtuneError, UserError
from tuner.problem.objectives import Front
from tuner.records.trial import JobState, RemainingGain

if TYPE_CHECKING:
    from service.client import Event
    from service.client.blocking import BlockingClient
    from tuner.jobs.set_tuning import SetProgress

WAITS_EVERY_S = 5.0
LINE_INTERVAL_S = 5.0
_POLL_S = 2.0
_OPEN = {"running", "interrupted", "queued"}


def result_of(client: BlockingClient, job: str) -> dict[str, Any]:
    """The result of a job, as ``tune --json`` prints it."""
    form = worded(client.job(job))
    form["interrupted"] = form["state"] in ("interrupted", "paused", "stopped")
    form["stored_in"] = client.server
    return form


def finish_job(client: BlockingClient, job: str, *, as_json: bool, watch: bool = False) -> None:
    """Runs or follows a job to its end, and prints the result. With ``watch`` another process runs
    it, also here."""
    form = client.job(job)
    job = str(form["job"])
    here = isinstance(client, Here) and not watch
    with _told_how_to_go_on(client, "job", job, here=here):
        if isinstance(client, Here) and here:
            _run(client, form)
        else:
            _follow(client, form)
    result = result_of(client, job)
    if as_json:
        print_json(result)
    else:
        print_result(result, client)
    note = " ".join(str(result["note"]).split())
    _end(f"job {job}", result["state"], note, here=here)


def finish_batch(client: BlockingClient, batch: str, *, as_json: bool, watch: bool = False) -> None:
    """The same for all jobs of a network or set."""
    here = isinstance(client, Here) and not watch
    with _told_how_to_go_on(client, "batch", batch, here=here):
        if isinstance(client, Here) and here:
            lines = _Lines(client.network(batch)["name"])
            with stop_on_signal() as stop:
                client.run_batch(batch, lines.set_progress, stop)
        else:
            _poll(client, batch)
    form = client.network(batch)
    if as_json:
        print_json(form)
    else:
        print_batch(form, place_option(client))
    note = "" if form["total"]["layers"] else "no layer has a valid schedule"
    state = JobState.FAILED if form["state"] == JobState.DONE and note else form["state"]
    _end(f"batch {batch}", state, note if state == JobState.FAILED else "", here=here)


def _end(what: str, state: str, note: str, *, here: bool) -> None:
    """Leaves with the status of a job or batch that was left in ``state``."""
    if state == JobState.DONE:
        return
    if here and state in ("stopped", "paused", "interrupted", "queued"):
        sys.stderr.write(f"{state}; continue with: hvxtune job resume {what.split()[1]}\n")
        raise typer.Exit(Exit.INTERRUPTED)
    sys.stderr.write(f"error: {what} {state}{note and ': '}{note}\n")
    raise typer.Exit(Exit.FAILED)


@contextmanager
def _told_how_to_go_on(
    client: BlockingClient, kind: str, name: str, *, here: bool
) -> Iterator[None]:
    """Says after Ctrl-C, and after a fault that is not the request's, what becomes of it."""
    where = place_option(client)
    resume = f"hvxtune job resume {name}"
    watch = f"hvxtune job watch {name}{where}"
    try:
        yield
    except KeyboardInterrupt:
        if here:
            sys.stderr.write(f"stopped; continue with: {resume}\n")
            raise
        sys.stderr.write(
            f"\n{kind} {name} goes on at {client.server}; watch it with: {watch}; "
            f"end it with: hvxtune job cancel {name}{where}\n"
        )
        raise typer.Exit(Exit.INTERRUPTED) from None
    except UserError:
        raise
    except HvxtuneError as error:
        again = f"the {kind} may go on there; look again with: {watch}"
        then = f"{error.next_step}; then: {resume}".removeprefix("; ")
        error.next_step = then if here else again
        raise


def _run(client: Here, form: Mapping[str, Any]) -> None:
    with stop_on_signal() as stop, shown(display_name(form)) as show:
        client.run(form["job"], lambda progress: show(job_progress(progress)), stop)


def _follow(client: BlockingClient, form: Mapping[str, Any]) -> None:
    job = str(form["job"])
    with (
        shown(display_name(form)) as show,
        _telling_waits(client, job, follower := _Follower(form, show)),
    ):
        follower.begin()
        for event in follower.events(client.events(job)):
            # Events tell of pauses that are over, too.
            if event.data.get("paused") and client.job(job)["paused"]:
                break


@contextmanager
def _telling_waits(client: BlockingClient, job: str, follower: _Follower) -> Iterator[None]:
    """While the block lasts, asks now and then why nobody works on the job: no event tells."""
    if isinstance(client, Here):  # its store answers one thread at a time
        yield
        return
    done = threading.Event()

    def ask() -> None:
        while not done.wait(WAITS_EVERY_S):
            try:
                waits = str(client.job(job).get("waits") or "")
            except HvxtuneError:
                return  # the reader of the events learns why
            if not done.is_set():
                follower.tell_waits(waits)

    asking = threading.Thread(target=ask, name="waits", daemon=True)
    asking.start()
    try:
        yield
    finally:
        done.set()


class _Follower:
    """Counts the events of a job and shows its progress after each."""

    def __init__(self, form: Mapping[str, Any], show: Show) -> None:
        total = form["budget"]["trials"]
        self._total = None if total is None else int(total)
        self._show = show
        self._form = form
        self._promoted = 0
        self._remaining: RemainingGain | None = None
        self._objectives: list[str] = form["objectives"]
        self._front = Front()
        self._outcomes: Counter[str] = Counter()
        self._best: int | None = None
        self._spent_s = float(form["spent_s"])
        self._since = time.monotonic()
        self._waits = ""

    def begin(self) -> None:
        """Shows the job before anything has happened: a job that waits has no events."""
        self._waits = str(self._form.get("waits") or "")
        self._show(self._progress())

    def tell_waits(self, waits: str) -> None:
        """Shows why nobody works on the job, or that somebody does again."""
        if waits != self._waits:
            self._waits = waits
            self._show(self._progress())

    def events(self, events: Any) -> Any:
        """The same events, each shown."""
        for event in events:
            self._count(event)
            yield event

    def _count(self, event: Event) -> None:
        if event.kind == "promotion":
            self._promoted += 1
        elif event.kind == "estimate":
            self._remaining = RemainingGain(event.data["expected"], event.data["bound"])
        elif event.kind == "trial":
            self._add_trial(event)
        else:
            return
        if self._outcomes:
            self._show(self._progress())

    def _add_trial(self, event: Event) -> None:
        self._waits = ""  # it did when it was asked; now somebody is at work
        self._outcomes[str(event.data["outcome"])] += 1
        self._best = event.data.get("best_cycles")
        figures = [event.data.get(name) for name in self._objectives]
        counted = tuple(int(figure) for figure in figures if figure is not None)
        if len(counted) == len(figures):
            self._front.offer(counted)

    def _progress(self) -> JobProgress:
        finished = self._outcomes.total()
        elapsed_s = self._spent_s + time.monotonic() - self._since
        left = None if self._total is None else max(0, self._total - finished)
        return JobProgress(
            finished=finished,
            total=self._total,
            outcomes=self._outcomes,
            best_cycles=self._best,
            elapsed_s=elapsed_s,
            eta_s=left * elapsed_s / finished if finished and left is not None else None,
            waits=self._waits,
            reached=reached_text(self._remaining),
            on_front=len(self._front) if len(self._objectives) > 1 else None,
            promoted=self._promoted,
            promotions=int(self._form["promote"]),
        )


def _poll(client: BlockingClient, batch: str) -> None:
    """Until none of its jobs runs or waits for a conductor. Ctrl-C leaves it to the service."""
    lines = None
    while True:
        form = client.network(batch)
        if not _OPEN & form["jobs_by_state"].keys():
            return
        lines = lines or _Lines(form["name"])
        lines.batch(form, _waits(client, form))
        time.sleep(_POLL_S)


def _waits(client: BlockingClient, form: Mapping[str, Any]) -> str:
    """Why nobody works on any of its jobs, if that is so."""
    if "running" in form["jobs_by_state"]:
        return ""
    waiting = (one["job"] for one in form["jobs"] if one["state"] in _OPEN)
    first = next(waiting, None)
    return "" if first is None else str(client.job(first).get("waits") or "")


class _Lines:
    """The progress of a batch as lines on standard error, at most one every few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun = self._next = time.monotonic()
        self._waits = ""

    def batch(self, form: Mapping[str, Any], waits: str) -> None:
        """Of one at a service."""
        states = ", ".join(f"{count} {state}" for state, count in form["jobs_by_state"].items())
        text = (
            f"{form['finished']} trials, jobs: {states}; {form['total']['best_cycles']:,} cycles"
            + (f"; waits: {waits}" if waits else "")
        )
        self._write(text, news=waits != self._waits)
        self._waits = waits

    def set_progress(self, progress: SetProgress) -> None:
        """Of one that runs here."""
        text = (
            f"{progress.trials} trials, {progress.started} of {progress.workloads} workloads have "
            f"a schedule; {progress.best_cycles:,} cycles; {progress.latest}"
        )
        self._write(text, news=False)

    def _write(self, text: str, *, news: bool) -> None:
        now = time.monotonic()
        if now < self._next and not news:
            return
        self._next = now + LINE_INTERVAL_S
        sys.stderr.write(f"{self._name}: {now - self._begun:.0f} s, {text}\n")
        sys.stderr.flush()
