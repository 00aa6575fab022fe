"""Arguments and options that several commands share, and how their text becomes values."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from service.logs import LOG_FORMAT_VARIABLE, LogFormat
from service.schemas import params
from tuner.errors import UserError
from tuner.records.candidate import CacheState
from tuner.records.request import DEFAULT_CONTRACT as DEFAULT_CONTRACT
from tuner.records.request import JobOptions, Option, by_name

if TYPE_CHECKING:
    from tuner.records.candidate import Problem

KernelName = Annotated[
    str, typer.Argument(metavar="KERNEL", help="A kernel's name; `hvxtune kernel list` lists them.")
]
OptionalKernelName = Annotated[
    str | None,
    typer.Argument(metavar="KERNEL", help="A kernel's name; `hvxtune kernel list` lists them."),
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

_OPTIONS = by_name(JobOptions)


def _of_job(name: str) -> Any:
    """An option of the command line as the definition of a job's options has it."""
    option = _OPTIONS[name]
    metavar = option.metavar or (name.upper() if isinstance(option.choices, str) else None)
    return typer.Option(
        *option.flags,
        metavar=metavar,
        help=option.help,
        show_default=False,
        rich_help_panel=None if option.first else option.group,
    )


def _help_text(option: Option) -> str:
    """The help of ``option``, with its choices and its default."""
    from tuner.jobs.choices import help_of

    default = option.unset or option.default
    if option.kind == "names":
        default = ",".join(option.default)
    elif option.kind == "bool":
        default = option.flags[0].split("/")[0 if option.default else 1]
    return help_of(option) + (f" [default: {default}]" if default not in (None, "") else "")


TargetName = Annotated[str, _of_job("target")]
OptionalTargetName = Annotated[str | None, _of_job("target")]
ContractName = Annotated[str, _of_job("contract")]
CacheName = Annotated[CacheState, _of_job("cache")]
MeasurerName = Annotated[str, _of_job("measurer")]
GeneratorName = Annotated[str | None, _of_job("generator")]
DeviceTags = Annotated[str, _of_job("on")]
JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="A job's id or how it begins; `hvxtune jobs` lists.")
]
JobOrBatchName = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="The id of a job, network or set (`hvxtune jobs` lists them), how it begins, or the "
        "name or model's file of a network.",
    ),
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
ExecutorAddress = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="EXECUTOR",
        help="The place of compiling and measuring: threads of this machine, or the workers of a "
        "cluster, dask://HOST:PORT (threads).",
        envvar="HVXTUNE_EXECUTOR",
        show_envvar=False,
        show_default=False,
    ),
]
WithoutTls = Annotated[
    bool,
    typer.Option(
        "--without-tls",
        help="Let the cluster reach over the network without certificates: whoever can connect can "
        "run code on its workers.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


class Command(TyperCommand):
    """A command whose choices are looked up when somebody asks: for its help, or a shell that
    completes a word. Typer's ``autocompletion`` would inspect a function for each at every start.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fills in the choices first."""
        for parameter in self.params:
            option = _OPTIONS.get(parameter.name or "")
            if option is not None and getattr(parameter, "help", None) == option.help:
                parameter.help = _help_text(option)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes them by panel."""
        format_options(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Where a shell asks, each parameter is told what completes it first."""
        if ctx.resilient_parsing:
            for parameter in self.params:
                if parameter.name == "kernel" or _has_names(_OPTIONS.get(parameter.name or "")):
                    parameter._custom_shell_complete = _complete
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def format_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Writes the arguments and options of ``command``, those without a panel first. Typer's own
    panels import Rich."""
    panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        written = parameter.get_help_record(ctx)
        if written is not None:
            own = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or own
            panels.setdefault(panel, []).append(written)
    for panel, rows in panels.items():
        if rows:
            with formatter.section(panel):
                formatter.write_dl(rows)


def _has_names(option: Option | None) -> bool:
    return option is not None and isinstance(option.choices, str) and bool(option.choices)


def _complete(_ctx: Any, parameter: Any, incomplete: str) -> list[str]:
    """The kernels, or the choices of an option, that begin so."""
    from tuner.jobs.choices import choices_of
    from tuner.kernels import kernel_names

    kernel = parameter.name == "kernel"
    names = kernel_names() if kernel else choices_of(_OPTIONS[parameter.name])
    return [name for name in names if name.startswith(incomplete)]


def takes_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with a parameter for every option of a job in place of ``options``, which gets
    the values of those that are given, by name."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(option)
        )
        for name, option in _OPTIONS.items()
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        texts = {name: values.pop(name) for name in _OPTIONS}
        given = {
            name: _value(_OPTIONS[name], value)
            for name, value in texts.items()
            if value is not None
        }
        command(**values, options=given)

    parameters = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in own
        for one in (added if parameter.name == "options" else [parameter])
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _annotation(option: Option) -> Any:
    given: Any = {"bool": bool, "float": float, "int": int}.get(option.kind, str)
    if option.switch:
        given = bool
    elif option.kind == "text" and not isinstance(option.choices, str):
        given = Literal[tuple(option.choices)]
    return Annotated[given | None, _of_job(option.name)]


def _value(option: Option, given: Any) -> Any:
    if option.switch:
        return option.switch if given else None
    if option.kind == "share":
        return read_percent(option.flags[0], given)
    return option.checked(option.read(given) if option.kind == "names" else given)


def read_params(texts: Sequence[str] | None) -> dict[str, int]:
    """The parameters in ``texts``, as ``-p`` gives them."""
    return params.read_params(texts or (), "-p")


def read_percent(option: str, text: str) -> float:
    """The share that ``text`` (``1%`` or ``1``) means, between 0 and 1; ``UserError`` for anything
    else."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UserError(f"{option} '{text[:40]}'", accepted=f"a percentage, as {option} 1%")
    return share


def read_server(given: str | None) -> str | None:
    """The service to ask: the one given, or ``HVXTUNE_SERVER``; ``None`` for this machine, which
    an empty ``given`` asks for too."""
    from service.settings import default_server

    return (default_server() if given is None else given) or None


def is_path(kernel: str) -> bool:
    """Whether the KERNEL of a command line is the path of a package."""
    return ":" not in kernel and (kernel.startswith(".") or "/" in kernel)


def kernel_in(given: str) -> str:
    """The kernel that a command's KERNEL names: if that is the path of a package, as ``./blur``, it
    is kept on this machine and found by its digest from then on."""
    if not is_path(given):
        return given
    from tuner.packages.files import read_folder
    from tuner.packages.kernel import kept_here

    return kept_here(read_folder(Path(given))).name


def use_executor(given: str | None) -> None:
    """Makes ``given`` the executor of this process and of those that it starts. ``UserError`` if
    there is no such one."""
    from tuner.executor import EXECUTOR_VARIABLE, find_executor

    if given is not None:
        find_executor(given).check(given)
        os.environ[EXECUTOR_VARIABLE] = given


def use_tls(folder: str | None = None, *, without: bool = False) -> None:
    """Makes ``folder`` the certificates of this process and of those that it starts, or has them go
    without. ``UserError`` for both at once."""
    from tuner.executor.cluster.encryption import TLS_VARIABLE, WITHOUT_TLS

    if without and folder is not None:
        raise UserError("--tls and --without-tls", accepted="one of them")
    if without or folder is not None:
        os.environ[TLS_VARIABLE] = WITHOUT_TLS if folder is None else folder


def read_problem(kernel: str, params: Sequence[str] | None, target: str, contract: str) -> Problem:
    """The problem that the texts of the command line name; ``UserError`` if any is wrong."""
    from tuner.jobs.tuning import find_problem
    from tuner.kernels import PIPELINE_PREFIX

    kernel = kernel_in(kernel)
    if kernel.startswith(PIPELINE_PREFIX):
        from db import open_store
        from db.pipelines import named
        from service.auth.tokens import local_viewer

        with open_store() as store:
            kernel = named(store, kernel, local_viewer()).kernel
    return find_problem(kernel, read_params(params), target, contract)


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        help="The log on standard error: lines for people, or JSON with the ids of request, job, "
        "trial and device.",
        envvar=LOG_FORMAT_VARIABLE,
        show_envvar=False,
    ),
]
