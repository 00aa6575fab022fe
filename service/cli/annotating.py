"""``job annotate``: a comment, tags and a pin, to find a job again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.options import AsJson, JobName, ServerAddress, read_server
from service.cli.output import print_json, print_line, print_sentence
from service.json_forms import summary_json

Tags = list[str] | None


def annotate(
    job: JobName,
    comment: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="In place of the comment before; '' for none."),
    ] = None,
    tag: Annotated[Tags, typer.Option(metavar="TAG", help="Add this tag; may be repeated.")] = None,
    untag: Annotated[
        Tags, typer.Option(metavar="TAG", help="Remove this tag; may be repeated.")
    ] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", help="Pin the job for yourself, or no longer.")
    ] = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Write a comment or tags to JOB, at any time, or pin it; print what it has then."""
    address = read_server(server)
    given = {"comment": comment, "add_tags": tag, "remove_tags": untag}
    change = {name: value for name, value in given.items() if value is not None and value != []}
    form = _here(job, change, pin) if address is None else _there(address, job, change, pin)
    if as_json:
        print_json(form)
        return
    print_line(f"job {form['job']}")
    print_annotation(form)


def print_annotation(form: Mapping[str, Any]) -> None:
    """Tags, pin and comment of a job, of its JSON form."""
    words = [*form["tags"], *(["(pinned)"] if form["pinned"] else [])]
    if words:
        print_sentence(f"tags: {' '.join(words)}")
    for line in form["comment"].splitlines():
        print_sentence(line, "  ")


def _here(job: str, change: Mapping[str, Any], pinned: bool | None) -> dict[str, Any]:
    from db import open_store
    from db.jobs.annotations import annotate, pin
    from service.auth.tokens import local_user

    with open_store() as store:
        own = store.seen_by(None, local_user())
        found = own.job(job).id
        with own.transaction():
            if change:
                annotate(own, found, **change)
            if pinned is not None:
                pin(own, found, pinned=pinned)
        return summary_json(own.summary(found))


def _there(
    address: str, job: str, change: Mapping[str, Any], pinned: bool | None
) -> dict[str, Any]:
    from service.cli.connecting import connected

    with connected(address) as client:
        form = client.job(job)
        if change:
            form = client.annotate(form["job"], **change)
        if pinned is not None:
            form = client.pin(form["job"], pinned=pinned)
    return form
