"""The table ``[build]`` of a package: for each way to an object, the settings that it takes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tuner.records.tables import Strict

IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
FileName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*$",
        max_length=200,
        description="A file of the package by its path from kernel.toml, parts joined by '/'.",
    ),
]


class FunctionOptions(Strict):
    """A C function of the package's own signature."""

    function: Identifier = Field(description="The C name of the function that is called.")
    call: list[str] = Field(
        min_length=1,
        max_length=32,
        description="Its arguments in order: an argument's or data's name (a pointer to its first "
        "element), NAME.stride (elements from one row to the next; NAME.stride_D for dimension D, "
        "0 innermost), a parameter, a scalar, a knob, or an expression of these.",
    )
    returns: Literal["void", "int"] = Field(
        "void", description="int: anything but 0 is an error, and what the caller gets."
    )


class COptions(FunctionOptions):
    """C or C++ with HVX intrinsics. Knobs are macros; each source is compiled on its own."""

    kind: Literal["c"]
    sources: list[FileName] = Field(min_length=1, max_length=32)
    headers: list[FileName] = Field(default=[], max_length=64)
    flags: list[str] = Field(default=[], max_length=64, description="For clang, after ours (-O2).")


class AsmOptions(FunctionOptions):
    """An assembly template for Jinja, with knobs and parameters as its variables."""

    kind: Literal["asm"]
    template: FileName


class ObjectOptions(FunctionOptions):
    """Ready objects to choose from by knobs."""

    kind: Literal["object"]
    file: str = Field(
        max_length=200, description="A file of the package, with {KNOB} where a knob's value goes."
    )


class CommandOptions(FunctionOptions):
    """Any compiler, as a command without a shell."""

    kind: Literal["command"]
    command: list[str] = Field(
        min_length=1,
        max_length=128,
        description="The program and its arguments. {KNOB} and {PARAMETER} stand for values, "
        "{arch} for the target's, such as v66, {headers} for the folder of the intrinsics' "
        "headers, {object} for the file to write.",
    )
    version: list[str] = Field(
        min_length=1, max_length=16, description="A command whose output names the compiler."
    )
    sources: list[FileName] = Field(min_length=1, max_length=64)
    reads: list[str] = Field(
        default=[], max_length=16, description="Folders that it reads besides the system's."
    )


class PythonOptions(FunctionOptions):
    """A Python function of knobs and parameters that returns C (str) or an object (bytes)."""

    kind: Literal["python"]
    file: FileName
    maker: Identifier = "make"


GeneratorParams = Annotated[
    dict[Annotated[str, Field(pattern=IDENTIFIER[:-1] + r"(\.(type|dim))?$")], int | str],
    Field(max_length=64, description="GeneratorParams by name; {PARAMETER} stands for its value."),
]


class GeneratorOptions(Strict):
    """A C++ Halide Generator, compiled against the pinned Halide. Its GeneratorParams are knobs."""

    kind: Literal["generator"]
    sources: list[FileName] = Field(default=[], max_length=32)
    headers: list[FileName] = Field(default=[], max_length=64)
    program: FileName | None = Field(
        None, description="A program of Generators that is built already, in place of sources."
    )
    generator: str = Field(
        "", max_length=64, description="The Generator's name, where there are several."
    )
    params: GeneratorParams = Field(default={}, description="GeneratorParams that are fixed.")
    static: GeneratorParams = Field(
        default={}, description="The same under the contract static alone, such as extents."
    )
    unscheduled: GeneratorParams = Field(
        default={},
        description="GeneratorParams for the algorithm alone; its schedule is left out by itself.",
    )
    space: Literal["params", "both"] = Field(
        "params", description="both: beside GeneratorParams the schedules that are derived."
    )


BuildOptions = Annotated[
    COptions | AsmOptions | ObjectOptions | CommandOptions | PythonOptions | GeneratorOptions,
    Field(discriminator="kind"),
]
