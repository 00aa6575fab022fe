"""``hvxtune farm calibrate``: fits the timing model to cycles measured on a real machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_table
from service.cli.progress import counted
from tuner.errors import UserError

if TYPE_CHECKING:
    from tuner.measure.qemu.calibration import Calibration, SampleSet


def calibrate(
    samples: Annotated[
        Path,
        typer.Option("--samples", metavar="FILE", help="Measured schedules, a JSON line each."),
    ],
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="Refuse samples of any other target."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Where to write the parameters; by default into the state directory.",
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--fix", metavar="NAME", help="Leave a parameter as it is; repeatable."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Schedules compiled and run at a time."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the timing model to measured cycles."""
    from tuner.jobs.tuning import default_workers
    from tuner.measure.qemu import calibration as fitting
    from tuner.measure.qemu.model import find_model, model_path, read_model_file

    if workers is not None and not 1 <= workers <= 256:
        raise UserError(f"--workers {workers}", accepted="1 to 256")
    fitting.require_scipy()
    found = fitting.read_samples(samples, target)
    model_file = model_path(found.arch)
    specs = find_model(found.arch).specs
    place = output or fitting.default_place(found.target)
    fitting.require_writable(place, samples)
    fitting.parameters_to_fit(specs, fix or ())  # refused before minutes of work
    with counted("simulating samples") as show:
        observations = fitting.count_events(
            found, workers=workers or default_workers(), on_progress=show
        )
    result = fitting.calibrate(observations, specs, fix or ())
    text = fitting.calibrated_text(read_model_file(model_file), result, found.origin)
    fitting.write_parameters(place, text)
    if as_json:
        print_json(_as_json(result, found, place))
    else:
        _print(result, found, place)


def _as_json(result: Calibration, samples: SampleSet, place: Path) -> dict[str, Any]:
    return {
        "target": samples.target,
        "fidelity": samples.fidelity,
        "devices": list(samples.devices),
        **result.as_dict(),
        "file": str(place),
    }


def _print(result: Calibration, samples: SampleSet, place: Path) -> None:
    from tuner.measure.qemu.model import MODEL_VARIABLE

    print_line(f"{result.samples} samples: {samples.origin}")
    numeric = ["before", "fitted", "95 %"]
    print_table(
        ["parameter", *numeric, ""],
        [
            [p.name, f"{p.before:g}", f"{p.value:.4g}", f"+-{p.interval:g}", _note(p.at_bound)]
            for p in result.fitted
        ],
        numeric=numeric,
    )
    if result.kept:
        print_line(f"kept as they were: {', '.join(result.kept)}")
    print_line(f"error before:          {result.before}")
    print_line(f"error cross-validated: {result.after}")
    if result.outliers:
        lines = ", ".join(map(str, result.outliers))
        print_line(f"samples that fit least, which counted little: lines {lines}")
    print_line(f"wrote {place}")
    print_line(f"use it:  export {MODEL_VARIABLE}={place.absolute()}")


def _note(at_bound: bool) -> str:
    return "at its bound: the samples ask for more" if at_bound else ""
