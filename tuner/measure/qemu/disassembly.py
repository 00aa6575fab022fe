"""Packets as QEMU disassembles them, read for people: clean text, kinds of instructions, flow.

QEMU prints a packet as one line a word, ``address:  word<tab>instruction``, with the braces of
the packet around all of them and ``:endloop0`` behind. What costs time is told by the plugin
(plugin/packet.c); this module tells what a packet does and where control goes from it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.measure.explanation import UNITS, Instruction
from tuner.measure.qemu.model import FORMS, Rules
from tuner.measure.qemu.slots import slots_of
from tuner.measure.qemu.units import GATHER, SCATTER, VECTOR_LOAD, VECTOR_STORE, units_of

SCALAR, SCALAR_LOAD, SCALAR_STORE, BRANCH, NOTHING = (
    "scalar",
    "scalar load",
    "scalar store",
    "branch",
    "nop",
)
"""Kinds of scalar instructions. Vector arithmetic has the name of its rule in the class table."""

WORD_BYTES = 4
_LARGEST_DECIMAL = 0xFFFF
"""Immediates beyond it are addresses and masks, which are read in hexadecimal."""

_JUMP = re.compile(r"\b(jump|call)(?::n?t)? PC\+#{0,2}(-?\d+)")
_LOOP = re.compile(r"\b(?:sp\dloop|loop)([01])\(PC\+#{0,2}(-?\d+)")
_LOOP_END = re.compile(r":endloop(0?1?)")
_LEAVES = re.compile(r"\b(jumpr|hintjr|dealloc_return|rte)\b")
_BRANCH = re.compile(r"jump|call|hintjr|dealloc_return|rte|(?:sp\d)?loop[01]")
_RELATIVE = re.compile(r"PC\+#{0,2}(-?\d+)")
_IMMEDIATE = re.compile(r"#0x([0-9a-f]+)")
_REGISTER = re.compile(r"\b([RPCVQMNO])(?=\d)")
_NEW_SCALAR = re.compile(r"\bn(\d+)\.new")
_NEW_VECTOR = re.compile(r"\bo(\d+)\.new")
_VECTOR = re.compile(r"\b[vq]\d|\bvtmp\b")
_CONDITION = re.compile(r"^if \((?:[^()]|\([^()]*\))*\) ")
_TARGET = re.compile(r"^(\S+) ([-+|&^]?)= ")
_PAIR = re.compile(r"\bv\d+:\d+")
_NAME = re.compile(r"([a-z]\w*(?:\.\w+)?)\(")
_ACCESS = re.compile(r"^v?mem\w*\(")
_CONTROL = re.compile(r"\b[cm]\d")


@dataclass(frozen=True)
class Flow:
    """Where control goes from a packet, beside what calls do before they return.

    ``targets`` are addresses jumped to, ``calls`` those called. ``loop_starts`` are hardware
    loops set up here (level and first address), ``loop_ends`` the levels that end here.
    """

    targets: tuple[int, ...] = ()
    falls_through: bool = True
    calls: tuple[int, ...] = ()
    loop_starts: tuple[tuple[int, int], ...] = ()
    loop_ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class Decoded:
    """A packet: ``instructions`` in Hexagon's assembly syntax, how many are of each kind, and the
    units of HVX that they take.

    ``slots`` is how much of the four slots is used; constant extenders take one like
    instructions. ``unaligned`` counts vector accesses that need no aligned address (vmemu).
    ``placed`` are the instructions in their slots.
    """

    instructions: tuple[str, ...]
    suffix: str
    size_bytes: int
    slots: int
    kinds: Mapping[str, int] = field(hash=False)
    units: Mapping[str, int] = field(hash=False)
    unaligned: int
    flow: Flow
    placed: tuple[Instruction, ...] = ()

    @property
    def text(self) -> str:
        """``{ r0 = add(r0,#1) ; v1 = vmem(r0+#0) }:endloop0``."""
        return f"{{ {' ; '.join(self.instructions)} }}{self.suffix}"


def decode(
    address: int, text: str, rules: Rules, functions: Mapping[int, str] | None = None
) -> Decoded:
    """Reads QEMU's disassembly ``text`` of the packet at ``address``.

    ``functions`` names what is called. An empty text, which a run leaves that had no room for
    more, gives a packet without instructions.
    """
    lines = [line.rpartition("\t")[2] for line in text.split("\n") if line]
    suffix = "".join(lines[-1].rpartition("}")[2].split()) if lines else ""
    words = [
        [part for half in line.partition("}")[0].strip(" {").split(";") if (part := half.strip())]
        for line in lines
    ]
    raw = [part for word in words for part in word if not part.startswith("immext(")]
    instructions = tuple(_readable(part, address, functions or {}) for part in raw)
    kinds = [_kind(instruction, rules) for instruction in instructions]
    units = Counter[str]()
    for instruction, kind in zip(instructions, kinds, strict=True):
        units.update(units_of(_CONDITION.sub("", instruction), kind))
    return Decoded(
        instructions=instructions,
        suffix=suffix,
        size_bytes=WORD_BYTES * len(words),
        slots=sum(_slots(word) for word in words),
        kinds=dict(Counter(kinds)),
        units={unit: min(taken, UNITS[unit]) for unit, taken in units.items()},
        unaligned=sum("vmemu(" in instruction for instruction in instructions),
        flow=_flow(raw, suffix, address),
        placed=_placed(words, instructions, rules),
    )


def _placed(
    words: list[list[str]], instructions: Sequence[str], rules: Rules
) -> tuple[Instruction, ...]:
    left = iter(instructions)
    own = [[next(left) for _ in word] for word in words if not word[0].startswith("immext(")]
    kinds = [[_kind(part, rules) for part in word] for word in own]
    return tuple(
        Instruction(part, slot, *_latency(part, kind, rules))
        for word, of_word, slots in zip(own, kinds, slots_of(own, kinds), strict=True)
        for part, kind, slot in zip(word, of_word, slots, strict=True)
    )


def _latency(instruction: str, kind: str, rules: Rules) -> tuple[str, int | None]:
    """The mnemonic and the class of ``instruction``, found as the plugin does (``packet.c``)."""
    body = _CONDITION.sub("", instruction)
    target = _TARGET.match(body)
    value = body[target.end() :] if target else body
    access = _ACCESS.match(value) or _ACCESS.match(body)
    if access or kind in (GATHER, SCATTER):
        unaligned = kind == VECTOR_STORE and "vmemu(" in body
        name = access[0][:-1] if access else "vgather" if kind == GATHER else "vscatter"
        return name, rules.access_class(f"unaligned {kind}" if unaligned else kind)
    if re.match(r"nop$|jump\b|call\b", value):
        return re.match(r"\w+", value)[0], None  # type: ignore[index]
    mnemonic = _mnemonic(value)
    unit = "vector" if _VECTOR.search(body) else "scalar"
    forms = _forms(target, value)
    if unit == "scalar":
        forms |= _scalar_forms(instruction, body, value)
        if target is None and mnemonic == "=":  # a bare word, which is its own name
            mnemonic = re.match(r"\w*", value)[0]  # type: ignore[index]
    return ("transfer" if mnemonic == "=" else mnemonic), rules.class_of(mnemonic, unit, forms)


def _slots(word: list[str]) -> int:
    """A word of two instructions takes two slots, unless it is a compare with its jump."""
    compound = len(word) == 2 and re.search(r"\bjump\b", word[1])
    return 1 if compound else len(word)


def _readable(part: str, address: int, functions: Mapping[int, str]) -> str:
    text = _REGISTER.sub(lambda found: found[1].lower(), part)
    text = _NEW_VECTOR.sub(r"v\1.new", _NEW_SCALAR.sub(r"r\1.new", text))
    text = _IMMEDIATE.sub(lambda found: "#" + _number(int(found[1], 16)), text)
    return _RELATIVE.sub(lambda found: _place(address + int(found[1]), functions), text)


def _number(value: int) -> str:
    signed = value - (1 << 32) if value >> 31 else value
    return str(signed) if abs(signed) <= _LARGEST_DECIMAL else f"{value:#x}"


def _place(address: int, functions: Mapping[int, str]) -> str:
    return functions.get(address, f"{address:#x}")


def _kind(instruction: str, rules: Rules) -> str:
    body = _CONDITION.sub("", instruction)
    target = _TARGET.match(body)
    value = body[target.end() :] if target else body
    is_vector = _VECTOR.search(body) is not None
    if "vgather(" in value or "vscatter(" in body:
        return GATHER if "vgather(" in value else SCATTER
    if _ACCESS.match(body):
        return VECTOR_STORE if is_vector else SCALAR_STORE
    if _ACCESS.match(value):
        return VECTOR_LOAD if is_vector else SCALAR_LOAD
    if is_vector:
        return rules.name_of(_mnemonic(value), "vector", _forms(target, value))
    if body == "nop":
        return NOTHING
    return BRANCH if _BRANCH.match(value) else SCALAR


def _mnemonic(value: str) -> str:
    """The innermost operation, like the plugin; ``=`` for a plain transfer."""
    names = _NAME.findall(value)
    return names[-1] if names else "="


def _forms(target: re.Match[str] | None, value: str) -> int:
    if target is None:
        return 0
    widens = _PAIR.match(target[1]) and not _PAIR.search(value)
    return (FORMS["widens"] if widens else 0) | (FORMS["accumulates"] if target[2] else 0)


def _scalar_forms(instruction: str, body: str, value: str) -> int:
    forms = {
        "saturates": re.search(r":(?:sat|c?rnd|<<|>>)", instruction),
        "halfwords": re.search(r"\.[HL]\b|:(?:hi|lo)", instruction),
        "new_predicate": ".new" in instruction[: len(instruction) - len(body)],
        "writes_control": _CONTROL.match(body),
        "reads_control": _CONTROL.search(value),
    }
    return sum(FORMS[form] for form, found in forms.items() if found)


def _flow(parts: list[str], suffix: str, address: int) -> Flow:
    targets: list[int] = []
    calls: list[int] = []
    loops: list[tuple[int, int]] = []
    falls_through = True
    for part in parts:
        conditional = part.startswith("if ")
        for kind, distance in _JUMP.findall(part):
            (calls if kind == "call" else targets).append(address + int(distance))
            falls_through &= conditional or kind == "call"
        if _LEAVES.search(part):
            falls_through &= conditional
        loops += [(int(level), address + int(start)) for level, start in _LOOP.findall(part)]
    ends = "".join(_LOOP_END.findall(suffix))
    return Flow(tuple(targets), falls_through, tuple(calls), tuple(loops), tuple(map(int, ends)))


_STACK, _FRAME = 29, 30
"""Stack and frame pointer of Hexagon's calling convention."""
_VECTOR_ACCESS = re.compile(r"\bvmemu?\(r(\d+)")
_WRITTEN = re.compile(r"^(if .*\) )?r(\d+)(?::(\d+))? [-+|&^]?= (.*)$")
_ADDRESS = re.compile(r"^(?:add\()?r(\d+)(?:,##?-?\w+\))?$")
_INCREMENT = re.compile(r"\(r(\d+)(?:\+\+|=)")


def stack_accesses(packets: Mapping[int, Decoded]) -> dict[int, int]:
    """How many vector accesses to the stack frame each packet has, by its address.

    Counted are those whose base is the stack or frame pointer, or a register that the same basic
    block sets to an address in the frame: vmem reaches no further than eight vectors by itself.
    """
    joins = _joins(packets)
    found = {}
    frame = {_STACK, _FRAME}
    end = None
    for address, packet in sorted(packets.items()):
        if address != end or address in joins:
            frame = {_STACK, _FRAME}
        end = address + packet.size_bytes
        found[address] = sum(
            int(base) in frame
            for instruction in packet.instructions
            for base in _VECTOR_ACCESS.findall(instruction)
        )
        frame = {_STACK, _FRAME} if packet.flow.calls else _after(packet, frame)
    return found


def _joins(packets: Mapping[int, Decoded]) -> set[int]:
    """Where control may come from elsewhere than the packet before."""
    joins: set[int] = set()
    for packet in packets.values():
        joins.update(packet.flow.targets, packet.flow.calls)
        joins.update(start for _, start in packet.flow.loop_starts)
    return joins


def _after(packet: Decoded, frame: set[int]) -> set[int]:
    """The registers that hold addresses in the frame after ``packet``."""
    lost: set[int] = set()
    won: set[int] = set()
    for instruction in packet.instructions:
        lost.update(int(register) for register in _INCREMENT.findall(instruction))
        target = _WRITTEN.match(instruction)
        if target is None:
            continue
        condition, high, low, value = target.groups()
        lost.update(range(int(low or high), int(high) + 1))
        source = _ADDRESS.match(value)
        if source and int(source[1]) in frame and low is None and condition is None:
            won.add(int(high))
    return (frame - lost) | won | {_STACK, _FRAME}
