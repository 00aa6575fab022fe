"""Baselines: what jobs must beat, as their option ``baseline`` says it.

A name of a start (``default``, ``textbook``; ``baseline`` of a package) or a config in JSON is a
point of the space. A schedule in JSON, a list of directives, and an object are not: they are
compiled and verified as trials are, and compared with, but never stored as the best.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.codegen import CodeGenerator, find_generator, starts_of
from tuner.errors import StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel
from tuner.paths import STATE_DIR_VARIABLE, for_this_user, state_dir, writable
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Directive, Space
from tuner.space.directives import read_directives

ORIGIN = "baseline"
"""Of the baseline's trial; outside of the space ``:`` and its kind follow."""
_OBJECT = "object:"
_FOLDER = "baselines"
_BESIDE = ("_argv", "_metadata")
"""Halide adds functions of these names to each."""
_OF_RUNTIME = ("halide_", "_Z")
"""Those of Halide's runtime, of which every object has some."""
_MOST_OBJECT_BYTES = 16 << 20
ACCEPTED = (
    "default, textbook, a config as a JSON object of knobs, a schedule as a JSON list of "
    "directives, or object:DIGEST"
)


@dataclass(frozen=True)
class Baseline:
    """A job's baseline. ``config`` is that of its trial; outside of the space it says no more than
    what is compared with, and ``directives`` are set, or ``object_digest`` with the ``symbol`` of
    its function."""

    config: Config
    directives: tuple[Directive, ...] = ()
    object_digest: str = ""
    symbol: str = ""

    @property
    def in_space(self) -> bool:
        """Whether it is a config like others."""
        return not self.directives and not self.object_digest

    @property
    def origin(self) -> str:
        """The origin of its trial."""
        if self.in_space:
            return ORIGIN
        return f"{ORIGIN}:{'object' if self.object_digest else 'schedule'}"

    def artifact(self, candidate: Candidate, generator: CodeGenerator) -> Artifact:
        """Its code. Raises as :meth:`CodeGenerator.compile`."""
        if self.object_digest:
            content = _kept(self.object_digest)
            return Artifact(self.object_digest, self.symbol, {"object": content})
        if self.directives:
            return generator.compile_directives(candidate.problem, self.directives)
        return generator.compile(candidate)


def is_foreign(origin: str) -> bool:
    """Whether ``origin`` is that of a baseline outside of the space."""
    return origin.startswith(f"{ORIGIN}:")


def baseline_of(
    text: str, generator: str, kernel: Kernel, problem: Problem, space: Space
) -> Baseline | None:
    """The baseline that ``text`` means; without one that of the kernel's author, or ``None``.

    ``UserError`` for what is none.
    """
    starts = starts_of(generator, kernel, problem)
    if not text:
        return Baseline(starts[ORIGIN]) if ORIGIN in starts else None
    made_by = find_generator(generator)
    if text in starts:
        return _scheduled(Baseline(starts[text]), starts, made_by, kernel)
    if text.startswith(_OBJECT):
        digest, _, symbol = text.removeprefix(_OBJECT).partition(":")
        symbol = symbol or _entry_of(_kept(digest))
        return Baseline(Config({ORIGIN: text}), object_digest=digest, symbol=symbol)
    given = _json(text)
    if isinstance(given, Mapping):
        return _scheduled(Baseline(_config(space, given, made_by)), starts, made_by, kernel)
    if not made_by.takes_directives:
        raise UserError(
            f"a schedule as the baseline of a job with the generator '{generator}'",
            accepted="halide, halide-clang, portfolio",
            next_step="choose one of these, or give a config or an object",
        )
    directives = read_directives(given)
    return Baseline(Config({ORIGIN: f"schedule:{digest_of_bytes(text.encode())}"}), directives)


def _config(space: Space, given: Mapping[str, Any], made_by: type[CodeGenerator]) -> Config:
    """``given`` as a config; one that chooses no alternative is of the main way to make code."""
    for knob, value in given.items():
        if type(value) not in (int, str):
            raise UserError(
                f"baseline: {knob[:40]} = {str(value)[:40]}", accepted="whole numbers and text"
            )
    ways = made_by.alternatives and made_by.alternatives.within(space)
    return space.config(given if ways is None else {ways.knob: ways.main, **given})


def _scheduled(
    baseline: Baseline, starts: Mapping[str, Config], made_by: type[CodeGenerator], kernel: Kernel
) -> Baseline:
    """``baseline``, unless it is code without any schedule: anything is many times faster."""
    is_naive = kernel.default_is_naive or made_by.default_is_naive
    if is_naive and baseline.config == starts["default"]:
        raise UserError(
            f"the default config of {kernel.name} as a baseline: it has no schedule",
            accepted=ACCEPTED,
            next_step="leave the baseline out: textbook is the usual one",
        )
    return baseline


def _json(text: str) -> Mapping[str, Any] | Sequence[Any]:
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict | list):
        raise UserError(
            f"baseline '{shown}'",
            accepted=ACCEPTED,
            next_step="on the command line, a file of one of these: .json, .py or .o",
        )
    return given


def keep_object(content: bytes, symbol: str = "") -> str:
    """Keeps an object in the state directory; returns the text of the option that means it.

    ``symbol`` is its function, which is called like Halide's; by default the only one that it has.
    ``UserError`` for other bytes.
    """
    from tuner.machine.whole_files import written_whole

    entry = _entry_of(content, symbol)
    digest = digest_of_bytes(content)
    place = _place(digest)
    writable(_FOLDER)
    try:
        with written_whole(place, opener=for_this_user) as file:
            file.write(content)
    except OSError as error:
        raise StoreError(
            f"cannot write {place}: {error.strerror}",
            next_step=f"free space or permissions there, or set {STATE_DIR_VARIABLE}",
        ) from None
    return f"{_OBJECT}{digest}:{entry}"


def _entry_of(content: bytes, symbol: str = "") -> str:
    from tuner.packages.symbols import NotAnObjectError, defined_in

    try:
        defined = defined_in(content[:_MOST_OBJECT_BYTES])
    except NotAnObjectError as error:
        raise UserError(
            f"the baseline is not an object: {error}",
            accepted=f"a relocatable ELF file for Hexagon of at most {_MOST_OBJECT_BYTES} bytes",
        ) from None
    others = [n for n in defined if not n.endswith(_BESIDE) and not n.startswith(_OF_RUNTIME)]
    wanted = [symbol] if symbol else others
    if len(wanted) != 1 or wanted[0] not in defined:
        raise UserError(
            f"the baseline's object has {'no ' + symbol if symbol else f'{len(others)} functions'}",
            accepted=", ".join(others) or "an object with a function",
            next_step="name one behind the file, as in blur.o:blur",
        )
    return wanted[0]


def _place(digest: str) -> Path:
    return state_dir() / _FOLDER / f"{digest}.o"


def _kept(digest: str) -> bytes:
    is_digest = len(digest) == 64 and all(c in "0123456789abcdef" for c in digest)
    try:
        content = _place(digest).read_bytes() if is_digest else b""
    except OSError:
        content = b""
    if not content or digest_of_bytes(content) != digest:
        raise UserError(
            f"the baseline's object {digest[:12]} is not kept on this machine",
            accepted="object: and the SHA-256 of one that is",
            next_step="name its file, as in blur.o, on the machine that runs the job",
        )
    return content
