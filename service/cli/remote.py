"""The commands against a service: submitted there, shown here in the same forms."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from service.cli.batches import found_there, is_batch, resume_all_there
from service.cli.connecting import connected
from service.cli.options import is_path
from service.cli.output import print_json, print_line
from service.cli.pipelines import read_file
from service.cli.progress import JobProgress, Show, shown
from service.cli.statuses import Exit
from service.cli.summary import print_result, reached_text
from tuner.errors import HvxtuneError, UserError
from tuner.problem.objectives import Front
from tuner.records.request import Visibility
from tuner.records.trial import JobState, RemainingGain

if TYPE_CHECKING:
    from service.client import Client, Event
    from service.client.operations import BestOptions, FileKind

WAITS_EVERY_S = 5.0


def tune_there(
    server: str,
    kernel: str | None,
    pipeline: Path | None,
    params: Mapping[str, int],
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Submits a job for a kernel, or for the pipeline in a file, and follows it to its end."""
    with connected(server) as client:
        if pipeline is not None:
            wanted: Visibility = options.get("visibility") or "shared"
            uploaded = client.upload_pipeline(*read_file(pipeline), visibility=wanted)
            kernel = str(uploaded["kernel"])
        elif kernel is not None and is_path(kernel):
            from tuner.packages.files import read_folder

            kernel = str(client.register_package(read_folder(Path(kernel)).data)["kernel"])
        (job,) = client.submit(kernel, params, **options)
        sys.stderr.write(f"job {job['job']} for {job['target']} submitted to {server}\n")
        _follow(client, str(job["job"]), as_json=as_json)


def tune_set_there(server: str, name: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Submits a job for every workload of the set called ``name``, and does not wait for them."""
    from tuner.workload_sets import find_set

    found = find_set(name)
    workloads = [
        {
            "kernel": member.workload.kernel,
            "params": dict(member.workload.params),
            "layers": list(member.layers),
        }
        for member in found.members
    ]
    with connected(server) as client:
        jobs = client.submit(workloads=workloads, name=found.name, **options)
    if as_json:
        print_json({"set": name, "batch": jobs[0]["batch"], "jobs": jobs})
        return
    for job in jobs:
        params = " ".join(f"{param}={value}" for param, value in job["params"].items())
        print_line(f"{job['job']}  {job['display_name']} {params}")
    batch = jobs[0]["batch"]
    print_line(f"{len(jobs)} jobs for {jobs[0]['target']} submitted to {server}, batch {batch}")
    print_line(f"look at them: hvxtune show {batch} --server {server}")


def watch_there(server: str, job: str, *, as_json: bool) -> None:
    """Follows a job, or all of a network or set, to its end."""
    with connected(server) as client:
        form = found_there(client, job)
        if is_batch(form):
            from service.cli.networks_there import watch_network

            watch_network(client, form["batch"], as_json=as_json)
        else:
            _follow(client, form["job"], as_json=as_json)


def resume_there(server: str, job: str, *, as_json: bool) -> None:
    """Lets a paused job go on, and follows it; or all of a batch, without waiting."""
    with connected(server) as client:
        form = found_there(client, job)
        if is_batch(form):
            resume_all_there(client, form, as_json=as_json)
            return
        client.resume(form["job"])
        _follow(client, form["job"], as_json=as_json)


def best_there(
    server: str,
    kernel: str,
    params: Mapping[str, int],
    options: BestOptions,
    kinds: Sequence[FileKind],
) -> tuple[dict[str, Any], Mapping[str, bytes]]:
    """The best schedule in the form that ``best --json`` prints, with files of ``kinds``."""
    from service.fetching.sources import age_text

    with connected(server) as client:
        best = client.best(kernel, params, **options)
        files: dict[str, bytes] = {kind: client.file(best, kind) for kind in kinds}
        doubt = None if best.from_cache else client.doubt(best)
    if best.from_cache:
        sys.stderr.write(
            f"warning: {best.reason}; this is its answer of {age_text(best.age_s)} ago\n"
        )
    document = dict(best.document)
    document["from_cache"] = best.from_cache
    document["doubt"] = doubt
    document["provenance"] = {
        **document.get("provenance", {}),
        "toolchain": document.get("toolchain", {}),
    }
    return document, files


def result_there(client: Client, job: str) -> dict[str, Any]:
    """The result of a job, in the form that ``tune --json`` prints."""
    return as_result(client, client.job(job))


def as_result(client: Client, form: dict[str, Any]) -> dict[str, Any]:
    """The form of a job there as that result."""
    # It can be resumed: at a service, jobs whose conductor died go on by themselves.
    form["interrupted"] = bool(form.get("interrupted")) or bool(form.get("paused"))
    form["stored_in"] = client.server
    return form


def _follow(client: Client, job: str, *, as_json: bool) -> None:
    where = f"--server {client.server}"
    try:
        form = client.job(job)
        job = str(form["job"])
        with (
            shown(str(form.get("display_name") or form["kernel"])) as show,
            _telling_waits(client, job, follower := _Follower(form, show)),
        ):
            follower.begin()
            for event in follower.events(client.events(job)):
                # Events tell of pauses that are over, too.
                if event.data.get("paused") and client.job(job)["paused"]:
                    break
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\njob {job} goes on at {client.server}; watch it with: "
            f"hvxtune job watch {job} {where}; end it with: hvxtune job cancel {job} {where}\n"
        )
        raise typer.Exit(Exit.INTERRUPTED) from None
    except UserError:
        raise
    except HvxtuneError as error:
        error.next_step = (
            f"the job may go on there; look again with: hvxtune job watch {job} {where}"
        )
        raise
    result = result_there(client, job)
    if as_json:
        print_json(result)
    else:
        print_result(result, client.server)
    if result["state"] != JobState.DONE:
        state = "paused" if result["paused"] else result["state"]
        note = " ".join(str(result["note"]).split())
        sys.stderr.write(f"error: job {job} {state}: {note}\n")
        raise typer.Exit(Exit.FAILED)


@contextmanager
def _telling_waits(client: Client, job: str, follower: _Follower) -> Iterator[None]:
    """While the block lasts, asks now and then why nobody works on the job: no event tells."""
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
