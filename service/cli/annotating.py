"""``job annotate``: a comment and tags, to find a job again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.connecting import connected
from service.cli.options import AsJson, JobName, ServerAddress
from service.cli.output import print_json, print_line, print_sentence
from service.cli.summary import worded
from tuner.records.annotation import checked_tag

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
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Write a comment or tags to JOB, at any time; print what it has then."""
    for one in (*(tag or ()), *(untag or ())):
        checked_tag(one)
    given = {"comment": comment, "add_tags": tag, "remove_tags": untag}
    change: dict[str, Any] = {
        name: value for name, value in given.items() if value is not None and value != []
    }
    with connected(server) as client:
        form = client.job(job)
        if change:
            form = client.annotate(form["job"], **change)
    if as_json:
        print_json(worded(form))
        return
    print_line(f"job {form['job']}")
    print_annotation(form)


def print_annotation(form: Mapping[str, Any]) -> None:
    """Tags and comment of a job, of its JSON form."""
    if form["tags"]:
        print_sentence(f"tags: {' '.join(form['tags'])}")
    for line in form["comment"].splitlines():
        print_sentence(line, "  ")
