"""C and C++ with HVX intrinsics: each source compiled by the pinned clang, knobs as macros."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from tuner.codegen import clang
from tuner.errors import CandidateError
from tuner.packages.builds.build import FunctionBuild, Making, misfit
from tuner.packages.files import Package
from tuner.packages.intrinsics import hint_about
from tuner.packages.manifest import Manifest
from tuner.packages.options import COptions
from tuner.problem.target import Target
from tuner.space import Knob

SUFFIXES = {".c": "-std=gnu17", ".cpp": "-std=gnu++17", ".cc": "-std=gnu++17"}
_SWITCHES = ("-ffreestanding", "-nostdinc", "-fno-stack-protector", "-fvisibility=hidden", "-O2")
C_SWITCHES = (SUFFIXES[".c"], *_SWITCHES, "-isystem", str(clang.headers()))
"""For one C file that is made when code is."""
_OF_CPP = ("-nostdinc++", "-fno-exceptions", "-fno-rtti")
_FLAGS = re.compile(
    r"-(O[0-3s]|f[\w=.,+-]+|m[\w=.,+-]+|std=[\w+]+|D[A-Za-z_]\w*(=[\w.+-]*)?|W[\w=-]+)"
)
_LLVM = "-mllvm"
_LLVM_FLAG = re.compile(r"-[\w=.,+-]+")
_FLAGS_IN_WORDS = "-O, -f, -m, -std=, -D, -W, and -mllvm with an argument"
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"\n]*)"|<([^>\n]*)>)', re.MULTILINE)


class CBuild(FunctionBuild):
    """The build ``c``."""

    kind = "c"

    def check(self, package: Package) -> None:
        options = _options(package)
        for name in options.sources:
            if PurePosixPath(name).suffix not in SUFFIXES:
                raise misfit(package, "sources", f"'{name}'", f"files *{', *'.join(SUFFIXES)}")
        _check_flags(package, options)
        _check_includes(package, options)
        _check_knobs(package, options)

    def own_knobs(self, package: Package) -> tuple[Knob, ...]:
        decided = any(flag.startswith("-enable-pipeliner") for flag in _options(package).flags)
        return () if decided else (clang.PIPELINER,)

    def parts(self, making: Making) -> dict[str, bytes]:
        options = _options(making.package)
        macros = [f"-D{name}={value}" for name, value in making.knobs.items()]
        settings = [
            f"-D{name}={making.problem.workload.params[name]}"
            for name, param in making.package.manifest.params.items()
            if not param.is_extent
        ]
        beside = {name: making.package.files[name] for name in options.headers}
        parts: dict[str, bytes] = {}
        for number, name in enumerate(options.sources):
            suffix = PurePosixPath(name).suffix
            switches = [
                *(SUFFIXES[suffix], *_SWITCHES, *(_OF_CPP if suffix != ".c" else ())),
                *("-I.", "-isystem", str(clang.headers())),
                *(*settings, *macros, *options.flags),
            ]
            made = compiled_source(making, name, making.package.files[name], switches, beside)
            parts[f"{number}.o"] = made[clang.OBJECT]
            if clang.ASSEMBLY in made:
                parts[clang.ASSEMBLY] = parts.get(clang.ASSEMBLY, b"") + made[clang.ASSEMBLY]
        sources = [making.package.files[name] for name in options.sources]
        defined = "".join(f"#define {macro[2:].replace('=', ' ')}\n" for macro in macros)
        return {**parts, "loopnest": defined.encode() + b"\n".join(sources)}


def compiled_source(
    making: Making,
    name: str,
    content: bytes,
    switches: Sequence[str],
    beside: Mapping[str, bytes] | None = None,
) -> dict[str, bytes]:
    """Object (and assembly) of one source, with ``switches``. A refusal names what the source may
    have meant."""
    try:
        return clang.compiled(
            making.servers,
            making.server,
            making.problem.target,
            (name, content),
            [*switches, *clang.pipeliner_switches(making.config)],
            with_assembly=making.with_assembly,
            beside=beside,
            reads=[clang.headers()],
        )
    except CandidateError as error:
        hints = hints_about(error.message, making.package.manifest, making.problem.target)
        raise CandidateError(
            error.outcome, "; ".join([error.message.rstrip("."), *hints])
        ) from None


def hints_about(said: str, manifest: Manifest, target: Target) -> list[str]:
    """For what clang does not know: intrinsics that are called nearly so, and knobs."""
    unknown = dict.fromkeys(re.findall(r"undeclared (?:function|identifier) '(\w+)'", said))
    hints = [hint_about(name, target.arch) for name in unknown if name.startswith("Q6_")]
    macros = [name for name in unknown if re.fullmatch(r"[A-Z][A-Z0-9_]*", name)]
    return hints + [
        f"the macro {name} is not a knob; knobs of kernel.toml: {', '.join(manifest.knobs)}"
        for name in macros
    ]


def _options(package: Package) -> COptions:
    options = package.manifest.build
    assert isinstance(options, COptions)  # noqa: S101 - its table is of this kind
    return options


def _check_flags(package: Package, options: COptions) -> None:
    flags = iter(options.flags)
    for flag in flags:
        if flag == _LLVM:
            if not _LLVM_FLAG.fullmatch(next(flags, "")):
                raise misfit(package, "flags", f"{_LLVM} without its argument", _FLAGS_IN_WORDS)
        elif not _FLAGS.fullmatch(flag) or flag.startswith("-fplugin"):
            raise misfit(package, "flags", f"'{flag}'", _FLAGS_IN_WORDS)
        macro = re.match(r"-D(\w+)", flag)
        if macro is not None and macro[1] in package.manifest.knobs:
            raise misfit(
                package, "flags", f"'{flag}' sets the knob {macro[1]}", "macros of other names"
            )


def _check_includes(package: Package, options: COptions) -> None:
    """Headers are files of the package, or clang's own."""
    own = {*options.headers, *options.sources}
    for name in (*options.sources, *options.headers):
        text = package.files[name].decode(errors="replace")
        for found in _INCLUDE.finditer(text):
            wanted, line = found[1] or found[2], text.count("\n", 0, found.end()) + 1
            beside = str(PurePosixPath(name).parent / wanted)
            in_folder = ".." not in PurePosixPath(wanted).parts and not wanted.startswith("/")
            if in_folder and ({wanted, beside} & own or (clang.headers() / wanted).is_file()):
                continue
            raise package.fault_in(
                name,
                line,
                f"#include of '{wanted}', which is not in the package",
                "files in build.headers, and clang's own such as <hexagon_types.h>, "
                "<hexagon_protos.h>, <hvx_hexagon_protos.h>, <stdint.h>",
                "copy it into the folder and name it in build.headers",
            )


def _check_knobs(package: Package, options: COptions) -> None:
    """A knob that no code names would be searched for nothing."""
    texts = [package.files[name] for name in (*options.sources, *options.headers)]
    texts += [text.encode() for text in options.call]
    words = set(re.findall(r"\w+", b" ".join(texts).decode(errors="replace")))
    for name in package.manifest.knobs:
        if name not in words:
            raise package.fault(
                ("knobs", name),
                f"no source names the macro {name}: it would change nothing",
                "knobs that sources, headers or build.call use",
            )
