"""Arguments and options that several commands share, and how their text becomes values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.errors import UserError
from tuner.records.candidate import CacheState

if TYPE_CHECKING:
    from tuner.records.candidate import Problem

KernelName = Annotated[
    str, typer.Argument(metavar="KERNEL", help="A kernel's name; `hvxtune kernels` lists them.")
]
OptionalKernelName = Annotated[
    str | None,
    typer.Argument(metavar="KERNEL", help="A kernel's name; `hvxtune kernels` lists them."),
]
ParamTexts = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        help="A parameter of the kernel, such as m=256; once per parameter, the rest by default.",
    ),
]
ObjectFile = Annotated[
    Path | None, typer.Option("--object", metavar="FILE", help="Write the object there.")
]
HeaderFile = Annotated[
    Path | None, typer.Option("--header", metavar="FILE", help="Write the C header there.")
]
ScheduleFile = Annotated[
    Path | None,
    typer.Option("--schedule", metavar="FILE", help="Write Halide's .schedule.h there."),
]
AssemblyFile = Annotated[
    Path | None, typer.Option("--assembly", metavar="FILE", help="Write the assembly there.")
]
TargetName = Annotated[
    str, typer.Option("--target", metavar="TARGET", help="What the code is made for.")
]
ContractName = Annotated[
    str,
    typer.Option(
        "--contract",
        metavar="CONTRACT",
        help="What callers promise about their buffers: none, host, stride, extent or static.",
    ),
]
CacheName = Annotated[
    CacheState,
    typer.Option(
        "--cache",
        help="Caches when the timed call begins: warm (a kernel called again) or cold (empty).",
    ),
]
MeasurerName = Annotated[
    str,
    typer.Option(
        "--measurer",
        metavar="MEASURER",
        help="What measures: qemu (the simulator inside every worker) or farm (the devices).",
    ),
]
GeneratorName = Annotated[
    str,
    typer.Option(
        "--generator",
        metavar="GENERATOR",
        help="What makes the code: portfolio (all of them, as one more choice), halide, "
        "halide-clang or c-autovec.",
    ),
]
DeviceTags = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="TAG[,TAG]",
        help="Which devices of the farm: those with every tag; all without it.",
        show_default=False,
    ),
]
JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="A job's id or how it begins; `hvxtune jobs` lists.")
]
ServerAddress = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A service to ask; HVXTUNE_SERVER by default. With neither, this machine does it.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

DEFAULT_CONTRACT = "static"


def read_params(texts: Sequence[str] | None) -> dict[str, int]:
    """The parameters in ``texts`` (each ``NAME=VALUE``).

    Raises ``UserError`` for a text of another form, a value that is no integer and a parameter
    given twice. Names and ranges are the kernel's to check.
    """
    params: dict[str, int] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UserError(f"-p '{text}'", accepted="NAME=INTEGER, such as -p m=256")
        if name in params:
            raise UserError(f"-p {name} is given twice", next_step="leave one out")
        try:
            params[name] = int(value)
        except ValueError:
            raise UserError(
                f"-p {name}='{value[:40]}'", accepted=f"an integer, such as -p {name}=256"
            ) from None
    return params


def read_percent(option: str, text: str | None) -> float | None:
    """The share that ``text`` (``1%``) means, between 0 and 1; ``UserError`` for anything else."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not (text.endswith("%") and 0 < share < 1):
        raise UserError(f"{option} '{text[:40]}'", accepted=f"a percentage, as {option} 1%")
    return share


def read_server(given: str | None) -> str | None:
    """The service to ask: the one given, or ``HVXTUNE_SERVER``; ``None`` for this machine, which
    an empty ``given`` asks for too."""
    from service.server.settings import default_server

    return (default_server() if given is None else given) or None


def read_problem(kernel: str, params: Sequence[str] | None, target: str, contract: str) -> Problem:
    """What is to be tuned, from the texts of the command line; ``UserError`` if any is wrong."""
    from tuner.kernels import PIPELINE_PREFIX
    from tuner.tuning import find_problem

    if kernel.startswith(PIPELINE_PREFIX):
        from db import open_store
        from db.pipelines import kernel_of
        from service.auth.tokens import local_user

        with open_store() as store:
            kernel = kernel_of(store, kernel, local_user())
    return find_problem(kernel, read_params(params), target, contract)
