"""``setup``, ``doctor`` and ``where``: the parts this machine gets, has and lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_sentence, print_table
from service.cli.progress import StepLines
from service.cli.statuses import Exit
from tuner.errors import ToolchainError, UserError
from tuner.shipped import FOLDERS, shipped, with_places

if TYPE_CHECKING:
    from tuner.problem.target import Target


def setup(
    qemu: Annotated[
        Path | None,
        typer.Option(
            "--qemu",
            metavar="FILE",
            help="Build the simulator from this release tarball of QEMU, 8.1 or newer.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="TARGET",
            help="See that the simulator runs this target or arch (v73), and build a newer one "
            "if need be; several times, or with commas. The newest becomes the default target.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the simulator unless this machine has one; no root needed.

    Ctrl-C stops it; what was downloaded or built by then is kept for the next time.
    """
    from tuner.machine.chosen_target import choose_default_target
    from tuner.machine.doctor import compilers
    from tuner.machine.provision import build, provision
    from tuner.problem.default_target import default_target

    targets = _targets(target or ())
    archs = list(dict.fromkeys(one.arch for one in targets))
    for part in compilers():
        if not part.present:
            raise ToolchainError(
                f"{part.name} ({part.purpose}): {part.found}", next_step=part.remedy
            )
    steps = StepLines()
    try:
        if qemu is None:
            simulator = provision(steps, archs)
        else:
            simulator = build(qemu.expanduser(), steps, archs)
    finally:
        steps.end()
    if targets:
        choose_default_target(targets[-1])
    program, version = simulator.command[-1], simulator.version
    if as_json:
        used = {"program": program, "version": version}
        print_json({"simulator": used, "default_target": default_target()})
    else:
        print_line(
            f"using {program} ({version}); without --target, commands mean {default_target()}; "
            "`hvxtune doctor` shows all targets"
        )


def _targets(named: Sequence[str]) -> list[Target]:
    """The targets called so, by arch or in full, several with commas between them; the newest arch
    last."""
    from tuner.problem.target import find_target

    names = [name.strip() for text in named for name in text.split(",") if name.strip()]
    return sorted(map(find_target, names), key=lambda target: target.arch)


def doctor(as_json: AsJson = False) -> None:
    """Check this machine; say what to install."""
    from tuner.machine.doctor import examine

    findings = examine()
    broken = [f for f in findings if f.required and not f.present]
    if as_json:
        print_json({"ok": not broken, "findings": [f.as_dict() for f in findings]})
    else:
        print_table(
            ["", "part", "found", "needed for"],
            [
                [
                    "ok" if f.present else "MISSING" if f.required else "no",
                    f.name,
                    f.found,
                    f.purpose,
                ]
                for f in findings
            ],
        )
        for finding in findings:
            if not finding.present:
                print_sentence(with_places(f"{finding.name}: {finding.remedy}"))
    if broken:
        raise typer.Exit(Exit.MISSING)


def where(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="Print this one alone; all by default."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print where the files that come with hvxtune are, and those it keeps."""
    from tuner.paths import cache_dir, state_dir

    places = {name: str(shipped(name)) for name in FOLDERS}
    places |= {"state": str(state_dir()), "cache": str(cache_dir())}
    if folder is not None and folder not in places:
        raise UserError(f"folder '{folder}'", accepted=", ".join(places))
    chosen = places if folder is None else {folder: places[folder]}
    if as_json:
        print_json(chosen)
    elif folder is None:
        print_table(["folder", "path"], list(places.items()))
    else:
        print_line(chosen[folder])
