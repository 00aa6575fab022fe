"""The code of two trials side by side, or of one: schedule, loop nest, packets and stalls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from dashboards.charts.loop_flames import icicles, timelines
from dashboards.code_view import Code, CodeSide, code_of
from dashboards.explaining import Explanations
from dashboards.job_view import JobView
from dashboards.pages.trial import explanation_maker, find_measured
from dashboards.session import viewing
from dashboards.templating import render
from db.jobs.trials import key_trials
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Scope
from service.http_errors import HttpError
from tuner.errors import HvxtuneError, NotStoredError
from tuner.jobs.one_config import compiled
from tuner.keeping.artifact_storage import LostFileError
from tuner.measure.explanation import GROUP_TITLES, GROUPS
from tuner.records.candidate import Artifact
from tuner.records.trial import Trial

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])


class CodeQuery(BaseModel):
    """Two trials as ``JOB-NUMBER``, the second if any, and the row whose timeline is drawn: the
    first loop without one."""

    own: str = ""
    other: str = ""
    loop: int | None = Field(None, ge=0, le=100)

    @property
    def trials(self) -> list[str]:
        """Those that are named."""
        return [name for name in (self.own.strip(), self.other.strip()) if name]


@router.get("/code")
def code(
    request: Request,
    asked: Annotated[CodeQuery, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The choice, and below it the code once it is explained."""
    found = _found(store, asked)
    return render(
        request,
        "code.html",
        asked=asked,
        found=found,
        marked=_marked(store, found),
        **_drawn(request, asked, found),
    )


@router.get("/code/sides")
def sides(
    request: Request,
    asked: Annotated[CodeQuery, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """The part below the choice; it asks again until both trials are explained."""
    found = _found(store, asked)
    return render(
        request, "code_sides.html", asked=asked, found=found, **_drawn(request, asked, found)
    )


Found = tuple[JobView, Trial, Artifact]


def _found(store: SqlStore, asked: CodeQuery) -> list[Found]:
    found = [_find(store, name) for name in asked.trials]
    kernels = list(dict.fromkeys(view.kernel for view, _, _ in found))
    if len(kernels) > 1:
        raise HttpError(
            422,
            f"{asked.own} is code of {kernels[0]}, {asked.other} of {kernels[1]}",
            accepted="two trials of one kernel",
            next_step="choose another trial, or open each alone",
        )
    return found


def _find(store: SqlStore, name: str) -> Found:
    job, _, number = name.removesuffix("p").rpartition("-")
    if not job or not number.isdecimal() or len(number) > 9:
        raise HttpError(
            422,
            f"trial '{name[:40]}'",
            accepted="JOB-NUMBER, such as 1s4r46ebv0-12",
            next_step="follow the link 'Code' on a trial's page",
        )
    view, trial = find_measured(store, job, int(number))
    try:
        return view, trial, store.artifact(trial.artifact_digest or "")
    except (NotStoredError, LostFileError):
        raise HttpError(
            410,
            f"the object of trial {number} of job {view.id} is not stored any more",
            next_step="measure its config again: the command is on the trial's page",
        ) from None


def _marked(store: SqlStore, found: list[Found]) -> list[tuple[str, str]]:
    """Names and ids of the key trials of the first trial's job: candidates to put beside it."""
    if not found:
        return []
    view, trial, _ = found[0]
    marked = key_trials(store, view.id).by_name
    return [
        (name, f"{view.id}-{each.number}")
        for name, each in marked.items()
        if each.number != trial.number and each.measurement is not None
    ]


def _drawn(request: Request, asked: CodeQuery, found: list[Found]) -> dict[str, Any]:
    """Values of the part: an error, or ``drawn`` once all is explained."""
    kept: Explanations = request.app.state.explanations
    drawn: Code | None = None
    error: HvxtuneError | None = None
    try:
        ready = [_side(kept, *each) for each in found]
        explained = [side for side in ready if side is not None]
        if explained and len(explained) == len(found):
            drawn = code_of(explained)
    except HvxtuneError as raised:
        error = raised
    if drawn is None:
        return {"drawn": None, "error": error}
    loops = [row for row in drawn.rows if row.is_loop]
    chosen = next((row for row in loops if row.number == asked.loop), loops[0] if loops else None)
    return {
        "drawn": drawn,
        "error": None,
        "flames": icicles(drawn),
        "chosen": chosen,
        "lines": timelines(drawn, chosen) if chosen else [],
        "groups": GROUPS,
        "titles": GROUP_TITLES,
    }


def _side(kept: Explanations, view: JobView, trial: Trial, artifact: Artifact) -> CodeSide | None:
    key, make = explanation_maker(view, trial, lambda: artifact)
    explained = kept.ask(key, make)
    assembly = kept.ask(f"assembly {key}", _assembly_maker(view, trial, artifact))
    if explained is None or assembly is None:
        return None
    return CodeSide(view, trial, explained, assembly, dict(artifact.files))


def _assembly_maker(view: JobView, trial: Trial, artifact: Artifact) -> Callable[[], str]:
    """Asks the compiler for the assembly of ``artifact`` if it is not stored: empty if it gives
    none of the same object, as after another version of it."""

    def make() -> str:
        stored = artifact.files.get("assembly")
        spec = view.job.spec
        if stored is None:
            with suppress(HvxtuneError):  # the page shows the packets without names, then
                again = compiled(
                    spec.problem, trial.config, generator=spec.generator, with_assembly=True
                )
                if again.digest == artifact.digest:
                    stored = again.files.get("assembly")
        return (stored or b"").decode(errors="replace")

    return make
