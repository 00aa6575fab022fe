"""Packages: the commands of ``hvxtune package``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connecting import connected
from service.cli.options import AsJson, ServerAddress, TargetName
from service.cli.output import print_json, print_line, print_sentence, print_table
from service.cli.statuses import Exit
from service.json_forms import package_json
from tuner.errors import UserError
from tuner.problem.default_target import DEFAULT_TARGET

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation, Region
    from tuner.packages.check import Checked, Saved
    from tuner.packages.kernel import PackageKernel

PackageFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder with kernel.toml.")]


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    kind: Annotated[
        str, typer.Option("--from", metavar="BUILD", help="How the code is made, such as c.")
    ] = "c",
    source: Annotated[
        Path | None,
        typer.Option(
            "--from-generator", metavar="FILE.cpp", help="Write one for this Halide Generator."
        ),
    ] = None,
    generator: Annotated[
        str, typer.Option("--generator", metavar="NAME", help="Which one, if FILE.cpp has several.")
    ] = "",
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=VALUE",
            help="A GeneratorParam that is fixed, such as output.type=uint8; once for each.",
        ),
    ] = None,
) -> None:
    """Write a package to DIR that works as it is, to begin from."""
    from tuner.packages.from_generator import write_package
    from tuner.packages.skeletons import write_skeleton

    fixed = dict(map(_assignment, params or ()))
    if source is not None:
        made = write_package(source, folder, generator, fixed)
    else:
        made = write_skeleton(kind, folder)
    for path in made:
        print_line(f"wrote {path}")
    named = folder if folder.is_absolute() or str(folder).startswith(".") else f"./{folder}"
    print_line(f"next: hvxtune package check {folder}, then hvxtune tune {named}")


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UserError(f"--param '{text[:64]}'", accepted="NAME=VALUE")
    return name, value


def check(
    folder: PackageFolder, target: TargetName = DEFAULT_TARGET, as_json: AsJson = False
) -> None:
    """Build and verify the default and the baseline of the package in DIR, under each contract.

    Prints where the cycles go, and what differs where for a config that fails.
    """
    from tuner.packages.check import checked
    from tuner.packages.files import read_folder
    from tuner.packages.kernel import kept_here
    from tuner.problem.target import find_target

    kernel = kept_here(read_folder(folder))
    found = []
    for one in checked(kernel, find_target(target)):
        found.append(one)
        if not as_json:
            _print_one(one)
    passed = all(one.explanation is not None for one in found)
    if as_json:
        form = {**package_json(kernel.package), "target": target, "passed": passed}
        print_json({**form, "checked": [one.as_dict() for one in found]})
    else:
        _print_sum(kernel, found)
    if not passed:
        raise typer.Exit(Exit.FAILED)


def _print_one(one: Checked) -> None:
    from service.cli.explanation import print_regions

    config = " ".join(f"{name}={value}" for name, value in one.candidate.config.items())
    print_line(f"{one.name}, contract {one.problem.contract}: {config}")
    if one.explanation is None:
        print_line(f"  {one.outcome}: {one.error}")
        return
    totals = one.explanation.totals
    print_line(
        f"  verified; {one.explanation.cycles:,} model cycles, "
        f"{one.explanation.roofline.cycles / one.explanation.cycles:.1%} of the roofline; "
        f"{totals.packets:,} packets, {totals.vector_packets:,} of them with vector instructions"
    )
    if not totals.vector_packets:
        print_line("  no packet uses HVX: this is scalar code")
    print_regions(one.explanation, one.problem.symbol)
    print_line()


def _print_sum(kernel: PackageKernel, found: list[Checked]) -> None:
    failed = [one for one in found if one.explanation is None]
    name = kernel.package.manifest.name
    if failed:
        which = ", ".join(f"{one.name} under {one.problem.contract}" for one in failed)
        print_line(f"{name} fails: {which}")
    else:
        print_line(f"{name} is right in {len(found)} configs and contracts; it is {kernel.name}")


def watch(
    folder: PackageFolder,
    config: Annotated[
        str, typer.Option("--config", metavar="default|baseline", help="The config to measure.")
    ] = "default",
    target: TargetName = DEFAULT_TARGET,
) -> None:
    """Build, verify and measure the package in DIR when one of its files is saved, until Ctrl-C.

    Prints the change in cycles and in the hottest code against the last time.
    """
    import threading

    from tuner.packages.check import watched
    from tuner.packages.files import read_folder
    from tuner.problem.target import find_target

    read_folder(folder)  # a folder without a package has nothing to wait for
    for saved in watched(folder, find_target(target), name=config, stop=threading.Event()):
        _print_saved(saved)


def _print_saved(saved: Saved) -> None:
    took = f"{saved.seconds:.1f} s:"
    if saved.checked is None:
        print_line(f"{took} {saved.fault}")
    elif saved.checked.explanation is None:
        print_line(f"{took} {saved.checked.outcome}: {saved.checked.error}")
    else:
        before = None if saved.before is None else saved.before.explanation
        _print_figures(took, saved.checked.explanation, before)
    sys.stdout.flush()


_HOTTEST = 2


def _print_figures(took: str, now: Explanation, before: Explanation | None) -> None:
    last = now if before is None else before
    totals, others = now.totals, last.totals
    figures = [
        _changed("model cycles", now.cycles, last.cycles),
        _changed("packets", totals.packets, others.packets),
        _changed("vector packets", totals.vector_packets, others.vector_packets),
    ]
    print_line(f"{took} verified; {', '.join(figures)}")
    for region, other in zip(now.regions[:_HOTTEST], last.regions[:_HOTTEST], strict=False):
        cycles = _changed("cycles", region.totals.cycles, other.totals.cycles)
        packets = _changed("packets", _each(region), _each(other))
        print_line(
            f"  {region.kind} {region.begin:#x}, {region.times:,} times: {packets}, {cycles}"
        )


def _each(region: Region) -> float:
    return round(region.totals.packets / region.times, 1)


def _changed(what: str, now: float, before: float) -> str:
    """``1,908 packets (-96, -4.8 %)``, or without a change the figure alone."""
    if now == before:
        return f"{now:,} {what}"
    share = f", {now / before - 1:+.1%}" if before else ""
    return f"{now:,} {what} ({now - before:+,.4g}{share})"


def register(folder: PackageFolder, server: ServerAddress = None, as_json: AsJson = False) -> None:
    """Keep the package in DIR, on a service for all its users; that takes a token with `admin`."""
    from tuner.packages.files import read_folder

    with connected(server) as client:
        form = client.register_package(read_folder(folder).data)
    if as_json:
        print_json(form)
    else:
        print_line(f"{form['package']} version {form['version']} is {form['kernel']}")


def list_packages(server: ServerAddress = None, as_json: AsJson = False) -> None:
    """List the packages that are kept, the latest first."""
    with connected(server) as client:
        found = list(client.packages())
    if as_json:
        print_json({"packages": found})
    elif not found:
        print_sentence("no package yet; make one with `hvxtune package new --from c DIR`")
    else:
        columns = ["package", "version", "kernel", "build", "summary"]
        print_table(columns, [[one[name] for name in columns] for one in found])


def remove(
    package: Annotated[
        str, typer.Argument(metavar="PACKAGE", help="Its name, or its digest or digits of it.")
    ],
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Keep PACKAGE no longer; on a service that takes a token with `admin`.

    A name means the one that was kept last under it. Refused while jobs wait or run on it.
    """
    from tuner.kernels import PACKAGE_PREFIX

    wanted = package.removeprefix(PACKAGE_PREFIX)
    with connected(server) as client:
        named = (one["digest"] for one in client.packages() if one["package"] == wanted)
        form = client.remove_package(next(named, wanted))
    if as_json:
        print_json(form)
    else:
        print_line(f"removed {form['kernel']}, {form['package']} version {form['version']}")


def schema() -> None:
    """Print the JSON Schema of kernel.toml, by which editors complete it."""
    from tuner.packages.manifest import schema as schema_of

    print_json(schema_of())
