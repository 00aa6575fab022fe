"""Objects by the clang of the ``ziglang`` wheel, whose LLVM is newer than Halide's.

Its switches of LLVM's Hexagon back end that are worth a choice are knobs.

Each choice gains on some kernel (packets of textbook schedules against Halide's own LLVM:
``llvm_combine`` off gains 6 % on sobel, a ``deep`` pipeliner gains 5 % on conv2d and loses 24 % on
depthwise). Left out are choices that gain on none, and cost trials that make the same object: in
2,400 trials of thirty jobs no pair of configs that differ in nothing else was more than 0.3 %
faster without the unrolling of loops (of schedules and of ``hvx``), with O2 in place of O3 (of
``hvx``), or, but for one of 99, without the pipeliner. Left out on purpose, too: packing without a
look at bank conflicts, which only seems to gain on a simulator without banks.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tuner.codegen.halide import LOWERED
from tuner.codegen.halide.generator import HalideGenerator
from tuner.codegen.halide.servers import LLVM_SWITCHES, CompileServer, CompileServers
from tuner.codegen.toolchain import find_toolchain
from tuner.errors import CandidateError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Knob, KnobValue, Space

DEEPER = Knob("llvm_pipeliner", ("default", "deep"), "software pipelining, deep: more stages")
KNOBS = (
    Knob("llvm_optimize", ("O2", "O3"), "clang's level of optimization"),
    Knob("llvm_unroll", ("on", "off"), "LLVM unrolls loops as it sees fit"),
    DEEPER,
    Knob("llvm_combine", ("on", "off"), "LLVM aligns and merges vector loads"),
)
"""Knobs of code from clang. The first choice of each is clang's own default."""

PIPELINER = Knob("llvm_pipeliner", ("default", "off"), "software pipelining", usual="default")
"""The choice that all C has. The pinned clang's pipeliner makes wrong code of some loops, such as
that of SHA-512's message schedule, unrolled four times (LLVM issues 209946 and 208943)."""
MISCOMPILED = (
    f"the compiler is wrong, not the code: without its software pipeliner ({PIPELINER.name}=off) "
    "the outputs are right"
)
"""Begins the error of a candidate that is such a loop."""

DEFAULTS: dict[str, KnobValue] = {knob.name: knob.choices[0] for knob in KNOBS}

NO_MERGED_LOADS = ("-mllvm", "-hexagon-vector-combine=0")
"""LLVM leaves vector loads as they are written. Where it aligns and merges them, it moves some past
what they depend on (products of 256x256x256 bytes), leaves out the second aligned vector of others
(``around`` of the tests, 128x11, contract host), or turns them by the wrong number of bytes (seed
24 of tests/rig/random_stencils.py)."""
_USUAL_INTERVAL, _USUAL_STAGES = 27, 3
_DEEP_INTERVAL, _DEEP_STAGES = 100, 6
"""Limits of the pipeliner: LLVM's own (``SwpMaxMii``, ``SwpMaxStages`` in MachinePipeliner.cpp),
and those of the choice ``deep``."""
_SWITCHES: dict[tuple[str, str], tuple[str, ...]] = {
    ("llvm_unroll", "off"): ("-fno-unroll-loops",),
    ("llvm_pipeliner", "off"): ("-mllvm", "-enable-pipeliner=0"),
    ("llvm_pipeliner", "deep"): (
        *("-mllvm", f"-pipeliner-max-mii={_DEEP_INTERVAL}"),
        *("-mllvm", f"-pipeliner-max-stages={_DEEP_STAGES}"),
    ),
    ("llvm_combine", "off"): NO_MERGED_LOADS,
}
BASE_SWITCHES = (
    *("-fomit-frame-pointer", "-fno-crash-diagnostics", "-w"),
    *(part for argument in LLVM_SWITCHES for part in ("-mllvm", argument)),
)
OBJECT, ASSEMBLY, REMARKS = "object", "assembly", "remarks"
_RECORD = tuple(
    part
    for argument in (
        *("-opt-record-file", REMARKS, "-opt-record-format", "yaml", "-opt-record-passes"),
        "pipeliner|loop-unroll|loop-unroll-full|loop-vectorize",
    )
    for part in ("-Xclang", argument)
)
"""Has clang write what these passes did."""
_PIPELINER = "pipeliner"
_REMARK = re.compile(r"^--- !(\w+)\nPass: +([\w-]+)\n(.*?)^\.\.\.$", re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r"^  - \w+: +(.*)$", re.MULTILINE)
_TOO_LARGE = re.compile(r"Minimal Initiation Interval too large: (\d+) ")
_TOO_MANY = "Too many stages in schedule"
_TAKEN_UP = (
    *("Invalid Minimal", "Minimal Initiation", "Unable to find schedule", "Schedule found"),
    *("No need to pipeline", _TOO_MANY),
)
_FOUND = re.compile(r"Schedule found with Initiation Interval: (\d+), MaxStageCount: (\d+)")
"""What the pipeliner says of a loop that it has taken up (MachinePipeliner.cpp)."""


def switches(config: Config) -> list[str]:
    """The switches for the knobs in ``config``; knobs that it lacks are at their defaults."""
    chosen = {name: str(config.get(name, default)) for name, default in DEFAULTS.items()}
    return [
        f"-{chosen['llvm_optimize']}",
        *(switch for choice in chosen.items() for switch in _SWITCHES.get(choice, ())),
    ]


def pipeliner_switches(config: Config) -> tuple[str, ...]:
    """The switches for :data:`PIPELINER` in ``config``."""
    name = PIPELINER.name
    return _SWITCHES.get((name, str(config.get(name))), ())


def without_pipeliner(config: Config) -> Config | None:
    """``config`` without the software pipeliner; ``None`` where it runs without, or must run."""
    off = PIPELINER.choices[-1]
    pipelined = config.get(PIPELINER.name, off) != off
    return Config({**config, PIPELINER.name: off}) if pipelined else None


def is_miscompiled(
    candidate: Candidate,
    artifact: Artifact,
    compiled: Callable[[Candidate], Artifact],
    run: Callable[[Candidate, Artifact], object],
) -> bool:
    """Whether the outputs of ``candidate``, which are wrong in its ``artifact``, are right without
    the software pipeliner: ``run`` raises ``CandidateError`` if not."""
    config = without_pipeliner(candidate.config)
    if config is None:
        return False
    other = replace(candidate, config=config)
    try:
        made = compiled(other)
        if made.digest == artifact.digest:
            return False
        run(other, made)
    except CandidateError:
        return False
    return True


def with_llvm_arguments(options: Sequence[str], needed: Sequence[str]) -> list[str]:
    """``options``, with the arguments to LLVM that right code needs in place of others to the same
    switches: LLVM takes none twice."""
    names = {argument.partition("=")[0] for argument in needed}
    kept: list[str] = []
    for option in options:
        if option.partition("=")[0] in names:
            kept.pop()  # the -mllvm before it
        else:
            kept.append(option)
    return kept + [part for argument in needed for part in ("-mllvm", argument)]


@cache
def headers() -> Path:
    """The folder of clang's own headers, those of HVX's intrinsics among them."""
    return find_toolchain().zig.parent / "lib" / "include"


def compiled(
    servers: CompileServers,
    server: CompileServer,
    target: Target,
    source: tuple[str, bytes],
    options: Sequence[str],
    *,
    with_assembly: bool,
    with_remarks: bool = False,
    beside: Mapping[str, bytes] | None = None,
    reads: Sequence[Path] = (),
) -> dict[str, bytes]:
    """Object (and assembly, and :data:`REMARKS`) of ``source``, a file's name and content, by clang
    in ``server``, which finds the files ``beside`` it, and those in the folders ``reads``.

    Raises as :meth:`CompileServers.made`.
    """
    name, content = source
    command = [
        str(find_toolchain().zig),
        "clang",
        *("-target", "hexagon-unknown-none-elf", f"-mcpu=hexagon{target.arch}", "-mhvx"),
        f"-mhvx-length={target.vector_bytes}b",
        *BASE_SWITCHES,
        *options,
        name,
    ]
    files: dict[str, bytes] = {}
    for kind, mode in ((OBJECT, "-c"), (ASSEMBLY, "-S")):
        if kind == OBJECT or with_assembly:
            told = with_remarks and kind == OBJECT
            program = [*command, *(_RECORD if told else ()), mode, "-o", kind]
            request = {"program": program, "reads": [*map(str, reads)]}
            kinds = [kind, *([REMARKS] if told else [])]
            files |= servers.made(server, request, kinds, {**(beside or {}), name: content})
    return files


def alike(remarks: bytes, config: Config) -> dict[str, frozenset[KnobValue]]:
    """By what the compiler says of its passes, knobs with all choices that make the same object as
    those of ``config``, each by itself or together.

    Where LLVM may unroll loops and unrolled none, ``llvm_unroll`` decides nothing, and where the
    pipeliner took up none, nor does that. ``deep`` finds a schedule where the pipeliner's own
    limits forbid one, and nowhere else.
    """
    told = [
        (kind, name, "".join(part.strip("'") for part in _TEXT.findall(rest)))
        for kind, name, rest in _REMARK.findall(remarks.decode(errors="replace"))
    ]
    found: dict[str, frozenset[KnobValue]] = {}
    unrolled = any(kind == "Passed" and name != _PIPELINER for kind, name, _ in told)
    if config.get("llvm_unroll") == "on" and not unrolled:
        found["llvm_unroll"] = frozenset(("on", "off"))
    texts = [text for _, name, text in told if name == _PIPELINER]
    chosen = config.get(PIPELINER.name)
    if chosen in ("default", "deep") and not any(text.startswith(_TAKEN_UP) for text in texts):
        found[PIPELINER.name] = frozenset(("default", "deep", "off"))
    elif (chosen == "default" and not any(map(_is_for_deep, texts))) or (
        chosen == "deep" and not any(map(_is_by_deep, texts))
    ):
        found[PIPELINER.name] = frozenset(("default", "deep"))
    return found


def compiled_once(
    config: Config, made: Callable[[Config], dict[str, bytes]]
) -> tuple[dict[str, bytes], dict[str, frozenset[KnobValue]]]:
    """The files, without :data:`REMARKS`, that ``made`` makes of ``config``, and what is
    :func:`alike`.

    A ``deep`` pipeliner says whether its choice mattered, and the default one does not where it
    leaves a loop that is too long for it. So ``deep`` comes first, and the default is compiled too
    where ``deep`` has found what the usual limits forbid: in a sixth of the cases.
    """
    name = PIPELINER.name
    if config.get(name) == "default":
        deep = Config({**config, name: "deep"})
        with contextlib.suppress(CandidateError):  # of `config` that may not be true
            files = made(deep)
            same = alike(files.pop(REMARKS), deep)
            if "default" in same.get(name, ()):
                return files, same
    files = made(config)
    return files, alike(files.pop(REMARKS), config)


def _is_for_deep(text: str) -> bool:
    """Whether a loop was left as it is for a limit that ``deep`` moves."""
    interval = _TOO_LARGE.match(text)
    return text.startswith(_TOO_MANY) or (
        interval is not None and int(interval[1]) <= _DEEP_INTERVAL
    )


def _is_by_deep(text: str) -> bool:
    """Whether a loop may have a schedule that the usual limits forbid."""
    found = _FOUND.match(text)
    if found is None:
        return False
    interval, stages = map(int, found.groups())
    return stages > 0 and (interval > _USUAL_INTERVAL or stages > _USUAL_STAGES)


def _open_knobs(kernel: Kernel, problem: Problem) -> list[Knob]:
    """Knobs of schedules that are not decided by what the kernel's code needs to be right."""
    needed = {one.partition("=")[0] for one in kernel.llvm_arguments(problem.workload.params)}
    decided = {
        name
        for (name, _), options in _SWITCHES.items()
        if any(option.partition("=")[0] in needed for option in options)
    }
    return [knob for knob in KNOBS if knob.name not in decided | {"llvm_unroll"}]


_KINDS = ("header", "schedule", "bitcode", LOWERED)
_INPUT = "input.bc"


class HalideClangGenerator(HalideGenerator):
    """Schedules as for Halide; instructions chosen, unrolled and packed by a newer LLVM.

    Its space is the kernel's with those knobs of :data:`tuner.codegen.clang.KNOBS` behind that the
    kernel's own arguments to LLVM leave open.
    """

    name = "halide-clang"
    compiler_knobs = frozenset(DEFAULTS)

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        space = kernel.space(problem)
        return replace(space, knobs=(*space.knobs, *_open_knobs(kernel, problem)))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        starts = super().starts(kernel, problem)
        own = {knob.name: knob.choices[0] for knob in _open_knobs(kernel, problem)}
        return {name: Config({**config, **own}) for name, config in starts.items()}

    def fingerprint(self) -> Mapping[str, str]:
        return {
            **super().fingerprint(),
            "clang": find_toolchain().version,
            "clang switches": " ".join(BASE_SWITCHES),
        }

    def identity(self, candidate: Candidate, *, at_once: bool = False) -> str | None:
        own = replace(candidate, config=_schedule_of(candidate.config))
        return super().identity(own, at_once=at_once)

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem = candidate.problem
        kernel = find_kernel(problem.workload.kernel)
        needed = kernel.llvm_arguments(problem.workload.params)
        with self.servers.one() as server:
            emitted = self._emitted(server, problem, _schedule_of(candidate.config), _KINDS)
            bitcode = emitted.pop("bitcode")
            files, same = compiled_once(
                candidate.config,
                lambda config: compiled(
                    self.servers,
                    server,
                    problem.target,
                    (_INPUT, bitcode),
                    with_llvm_arguments(switches(config), needed),
                    with_assembly=with_assembly,
                    with_remarks=True,
                ),
            )
        identity = emitted.pop(LOWERED).decode()
        files |= emitted
        digest = digest_of_bytes(files[OBJECT])
        return Artifact(digest, problem.symbol, files, same, identity)


def _schedule_of(config: Config) -> Config:
    return Config({k: v for k, v in config.items() if k not in DEFAULTS})
