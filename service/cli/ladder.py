"""A job's promotions: shown by ``show``, and written for ``hvxtune calibrate`` by ``pairs``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.options import AsJson, JobName
from service.cli.output import print_json, print_line, print_table
from tuner.errors import UserError


def print_ladder(ladder: Mapping[str, Any]) -> None:
    """The promotions of a job, in the form of :func:`service.ladder_forms.ladder_json`."""
    promotions = ladder["promotions"]
    ended = [one for one in promotions if one["outcome"] is not None]
    print_line(f"promoted to {ladder['promote_to']}: {len(ended)} of {ladder['promote']}")
    if not promotions:
        return
    print_line(_agreement_text(ladder["agreement"]))
    print_table(
        ["trial", "outcome", "cycles", "searched with", "device", "what"],
        [
            [
                one["trial"],
                one["outcome"] or "under way",
                "" if one["cycles"] is None else f"{one['cycles']:,}",
                f"{one['trial_cycles']:,}",
                one["device"] or "",
                one["error"] or "",
            ]
            for one in sorted(promotions, key=_by_cycles)
        ],
        numeric=["trial", "cycles", "searched with"],
    )


def _by_cycles(one: Mapping[str, Any]) -> tuple[bool, int, int]:
    return one["cycles"] is None, one["cycles"] or 0, one["trial"]


def _agreement_text(found: Mapping[str, Any]) -> str:
    if found["factor"] is None:
        return "no pair of cycles yet"
    parts = [f"{found['factor']:.3g} times the cycles (median of {found['pairs']})"]
    if found["tau"] is not None:
        parts.append(f"Kendall's tau of both orders {found['tau']:.2f}")
    if found["fitted_tau"] is not None:
        parts.append(
            f"of the refit ranking {found['fitted_tau']:.2f}, off by {found['error']:.1%} "
            "(each pair foretold by the others)"
        )
    return ", ".join(parts)


def pairs(
    job: JobName,
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="Where the samples go.")],
    as_json: AsJson = False,
) -> None:
    """Write the promoted trials of JOB as samples for `hvxtune calibrate`."""
    from db import open_store
    from service.calibration_samples import samples_of

    with open_store() as store:
        found = store.job(job)
        samples = samples_of(found, store.trials(found.id), store.promotions(found.id))
    if not samples:
        raise UserError(
            f"job {found.id} has no trial that was measured at two fidelities",
            next_step="`hvxtune tune KERNEL --promote-to TAG` makes some",
        )
    text = "".join(json.dumps(sample) + "\n" for sample in samples)
    try:
        output.write_text(text)
    except OSError as error:
        raise UserError(
            f"--output {output}: {error.strerror}", accepted="a file to write"
        ) from None
    if as_json:
        print_json({"job": found.id, "samples": len(samples), "output": str(output)})
        return
    print_line(f"{len(samples)} samples in {output}")
    print_line(f"fit the timing model to them:  hvxtune calibrate --samples {output}")
