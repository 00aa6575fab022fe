"""Which loop of a Halide schedule each machine loop comes from.

Halide names the blocks of a loop ``3_for_sums.s1.r$y.ro``: its function, stage and dimension. LLVM
keeps the names in the comments of the assembly. Packets that ran are found in the assembly by the
registers they name, in order; both lie in the same order. Loops in the printed loop nest and
directives in the schedule are found by the same function, stage and dimension.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_NAME = re.compile(r'^(?:\.?\w+:|// %bb\.\d+:|)\s*// %"?([^"]+?)"?$')
_LOOP = re.compile(r"^\d+_for_(?P<func>.+?)\.s(?P<stage>\d+)\.(?P<var>[^.]+(?:\..+)?)$")
_REGISTER = re.compile(r"\b[rvpq]\d+(?::\d+)?")
_NEST_LOOP = re.compile(r"^(?:for|parallel|vectorized|unrolled|gpu\w*) ([^ :]+)")
_PRODUCE = re.compile(r"^produce (.+):$")
_CALL = re.compile(
    r"^(?P<func>\w+)(?P<update>\.update\((?P<n>\d+)\))?\.(?P<what>\w+)\((?P<args>.*)\);$"
)
_DECLARED = re.compile(r'^(?:R?Var) (\w+)\("([^"]+)"\);$')
_FUNC = re.compile(r"^Func (\w+) = ")


@dataclass(frozen=True)
class LoopOrigin:
    """A loop over dimension ``var`` (``y.yo``) of a stage of ``func``; stage 0 is the pure one."""

    func: str
    stage: int
    var: str

    @property
    def title(self) -> str:
        """``sums, update 0: r.ro``."""
        stage = f", update {self.stage - 1}" if self.stage else ""
        return f"{self.func}{stage}: {self.var}"


@dataclass(frozen=True)
class NestLine:
    """A line of a printed loop nest, ``depth`` levels in. ``loop`` is what it begins, if any."""

    text: str
    depth: int
    loop: LoopOrigin | None


@dataclass(frozen=True)
class Directive:
    """A line of a schedule, and the loops of the nest it names a dimension of."""

    text: str
    loops: tuple[LoopOrigin, ...]


def origin_of(block: str) -> LoopOrigin | None:
    """The loop that a block of LLVM is named after, ``None`` for other names."""
    # Unswitched by LLVM: the loop without a condition in it; rebased by Halide: it begins at 0.
    found = _LOOP.match(block.removesuffix(".us").removesuffix(".rebased"))
    if found is None:
        return None
    return LoopOrigin(_plain(found["func"]), int(found["stage"]), _plain(found["var"]))


def _plain(name: str) -> str:
    """``r$y.ro`` as loop nests print it: ``r.ro``."""
    return re.sub(r"\$\w+", "", name)


def origins(assembly: str, packets: Sequence[tuple[int, str]]) -> dict[int, LoopOrigin]:
    """The loop whose first block each of ``packets`` (address and text, by address) begins.

    Empty where the assembly names no loops of Halide, as code by other compilers.
    """
    theirs, names = _packets_of(assembly)
    if not any(map(origin_of, names)):
        return {}
    ours = [_registers(text) for _, text in packets]
    found: dict[int, LoopOrigin] = {}
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for mine, their, length in matcher.get_matching_blocks():
        for n in range(length):
            origin = origin_of(names[their + n])
            if origin is not None:
                found[packets[mine + n][0]] = origin
    return found


def _packets_of(assembly: str) -> tuple[list[tuple[str, ...]], list[str]]:
    """The registers of every packet of ``assembly``, and the name of its block."""
    packets, names = [], []
    name, inside, own = "", False, ""
    for line in map(str.strip, assembly.splitlines()):
        if not inside:
            if re.match(r"^(\.?\w+:|// %bb\.\d+:)", line):
                name = ""
            told = _NAME.match(line)
            if told:
                name = told[1]
        if line == "{":
            inside, own = True, ""
        elif inside and line.startswith("}"):
            inside = False
            packets.append(_registers(own))
            names.append(name)
        elif inside:
            own += f" {line.partition('//')[0]}"
    return packets, names


def _registers(text: str) -> tuple[str, ...]:
    """The registers of a packet, sorted: QEMU and LLVM write those alike."""
    return tuple(sorted(_REGISTER.findall(text)))


def read_nest(text: str) -> list[NestLine]:
    """The lines of a loop nest as Halide prints it (``Pipeline::print_loop_nest``)."""
    lines: list[NestLine] = []
    inside: list[tuple[int, str, int]] = []  # depth, function, stages so far
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        depth = (len(raw) - len(raw.lstrip())) // 2
        while inside and inside[-1][0] >= depth:
            inside.pop()
        produce, loop = _PRODUCE.match(line), _NEST_LOOP.match(line)
        if (
            inside
            and depth == inside[-1][0] + 1
            and not produce
            and not line.startswith("consume ")
        ):
            at, func, stage = inside.pop()
            inside.append((at, func, stage + 1))
        origin = None
        if loop and inside:
            origin = LoopOrigin(inside[-1][1], inside[-1][2], loop[1])
        lines.append(NestLine(line, depth, origin))
        if produce:
            inside.append((depth, produce[1], -1))
    return lines


def read_schedule(text: str, loops: Iterable[LoopOrigin]) -> list[Directive]:
    """The directives of a schedule (``.schedule.h``), each with those of ``loops`` it names."""
    known = list(dict.fromkeys(loops))
    variables: dict[str, str] = {}
    funcs: set[str] = set()
    directives = []
    for line in map(str.strip, text.splitlines()):
        declared, func, call = _DECLARED.match(line), _FUNC.match(line), _CALL.match(line)
        if declared:
            variables[declared[1]] = _plain(declared[2])
        elif func:
            funcs.add(func[1])
        elif call and call["func"] in funcs:
            directives.append(Directive(line, _named(call, known, variables)))
    return directives


def _named(
    call: re.Match[str], known: Sequence[LoopOrigin], variables: Mapping[str, str]
) -> tuple[LoopOrigin, ...]:
    words = re.findall(r"\w+", call["args"])
    if call["what"] in ("compute_at", "store_at") and len(words) >= 2:
        func, stage = words[0], None  # at a loop of another function, whichever its stage
        words = words[1:]
    else:
        func, stage = call["func"], int(call["n"]) + 1 if call["update"] else 0
    vars_ = [variables[word] for word in words if word in variables]
    return tuple(
        loop
        for loop in known
        if loop.func == func
        and stage in (None, loop.stage)
        and any(loop.var == var or loop.var.endswith(f".{var}") for var in vars_)
    )
