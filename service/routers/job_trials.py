"""The trials of a job: pages, and all of them as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from db.jobs import trials as trial_queries
from db.sql_store import SqlStore
from service import reads
from service.app_state import READS, Store
from service.json_forms import full_trial_json, job_roofline
from service.openapi import problems
from service.schemas.jobs import TrialPage, TrialsQuery
from service.suggested_files import attachment
from tuner.records.outcome import Outcome
from tuner.records.trial import Job

router = APIRouter(prefix="/v1", tags=["jobs"])

CSV = "text/csv"
_COLUMNS = (
    "trial",
    "origin",
    "outcome",
    "cycles",
    "packets",
    "stalls",
    "core_cycles",
    "share_of_roofline",
    "fidelity",
    "device",
    "cache",
    "temperature_c",
    "vtcm_bytes",
    "code_bytes",
    "ddr_bytes",
    "object_digest",
    "duplicate_of",
    "started_at",
    "finished_at",
)
_TIMINGS = ("compile_s", "link_s", "run_s", "overhead_s")


@router.get(
    "/jobs/{job}/trials",
    summary="The finished trials of a job",
    response_model=TrialPage,
    responses={
        200: {
            "content": {
                CSV: {"schema": {"type": "string"}},
            },
            "description": "A page of trials by number, or all of them as a file.",
        },
        **problems(404),
    },
    dependencies=READS,
)
def list_trials(
    job: str, request: Request, query: Annotated[TrialsQuery, Query()], store: Store
) -> Response:
    """A page of them, by number. With `format=csv`, or by `Accept`, all at once: a line each,
    streamed, so that a job of any length can be fetched."""
    found = reads.find_job(store, job)
    if (query.format or _accepted(request.headers.get("Accept", ""))) == "csv":
        return all_trials(store, found, query.outcome)
    asked = query.model_dump(exclude={"format"})
    return JSONResponse(reads.trials_page(store, found.id, **asked))


def all_trials(store: SqlStore, job: Job, outcome: Outcome | None) -> Response:
    """The trials as a CSV file to keep, streamed."""
    return StreamingResponse(
        map(_csv_line, _rows(store, job, outcome)),
        headers=attachment(f"{job.id}-trials.csv"),
        media_type=CSV,
    )


def _accepted(header: str) -> str:
    """The first form that an ``Accept`` header names; JSON if it names none."""
    for part in header.split(","):
        wanted = part.partition(";")[0].strip().lower()
        if wanted in (CSV, "application/json"):
            return wanted.rpartition("/")[2]
    return "json"


def _rows(store: SqlStore, job: Job, outcome: Outcome | None) -> Iterator[list[Any]]:
    """The names of the columns, then the values of each trial."""
    knobs = [knob.name for knob in store.space(job.id).knobs]
    yield [*_COLUMNS, *_TIMINGS, *(f"config.{knob}" for knob in knobs), "error"]
    roofline = job_roofline(job)
    for trial in trial_queries.each_trial(store, job.id, outcome):
        form = full_trial_json(trial, roofline)
        config = form["config"]
        yield [
            *(form[name] for name in _COLUMNS),
            *(form["timings"][name] for name in _TIMINGS),
            *(config.get(knob) for knob in knobs),
            form["error"],
        ]


def _csv_line(values: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(values)
    return text.getvalue()
