"""The names that an object takes of a program: its own function's, and no others.

A package's objects define functions by names of their author, the same ones for each workload; two
of them would not link into one program. So all that an object defines, but its entry, is renamed
after the entry, and hidden.
"""

from __future__ import annotations

import io
import struct

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_SYMBOL = struct.Struct("<IIIBBH")
_SECTION_OFFSET, _SECTION_SIZE = 16, 20
"""Of ``sh_offset`` and ``sh_size`` in an ``Elf32_Shdr``."""
_HIDDEN = 2


class NotAnObjectError(Exception):
    """Bytes that are not a relocatable object for Hexagon; the text says what they are."""


def defined_in(data: bytes) -> list[str]:
    """The global names that the object ``data`` defines. Raises ``NotAnObjectError``."""
    table = _symbols(data)
    return [symbol.name for symbol in table.iter_symbols() if _is_own(symbol)]


def undefined_in(data: bytes) -> list[str]:
    """The names that the object ``data`` leaves to the program. Raises ``NotAnObjectError``."""
    table = _symbols(data)
    return [
        symbol.name
        for symbol in table.iter_symbols()
        if symbol.name and symbol.entry["st_shndx"] == "SHN_UNDEF"
    ]


def with_own_names(data: bytes, entry: str, *, renamed: str = "") -> bytes:
    """``data`` with every global name it defines, but ``entry``, as ``ENTRY__NAME``.

    With ``renamed``, ``entry`` itself gets that name, hidden as the others are: for programs that
    have several objects of one schedule.
    """
    table = _symbols(data)
    strings = table.stringtable
    names = bytearray(strings.data())
    made = bytearray(data)
    for number, symbol in enumerate(table.iter_symbols()):
        if not _is_own(symbol) or (symbol.name == entry and not renamed):
            continue
        place = table["sh_offset"] + number * table["sh_entsize"]
        _, value, size, info, other, section = _SYMBOL.unpack_from(made, place)
        hidden = other & ~3 | _HIDDEN
        _SYMBOL.pack_into(made, place, len(names), value, size, info, hidden, section)
        own = renamed if symbol.name == entry else f"{renamed or entry}__{symbol.name}"
        names += own.encode() + b"\0"
    elf = table.elffile
    header = elf["e_shoff"] + table["sh_link"] * elf["e_shentsize"]
    struct.pack_into("<I", made, header + _SECTION_OFFSET, len(made))
    struct.pack_into("<I", made, header + _SECTION_SIZE, len(names))
    return bytes(made + names)


def _symbols(data: bytes) -> SymbolTableSection:
    try:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] != "EM_QDSP6" or elf["e_type"] != "ET_REL":
            raise NotAnObjectError(
                f"{elf['e_type']} for {elf['e_machine']}, not a relocatable object for Hexagon"
            )
        table = elf.get_section_by_name(".symtab")
    except (ELFError, ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        raise NotAnObjectError(f"not ELF: {error}") from None
    if not isinstance(table, SymbolTableSection):
        raise NotAnObjectError("an object without symbols")
    return table


def _is_own(symbol: object) -> bool:
    entry = symbol.entry  # type: ignore[attr-defined]
    is_global = entry["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK")
    return is_global and entry["st_shndx"] != "SHN_UNDEF"
