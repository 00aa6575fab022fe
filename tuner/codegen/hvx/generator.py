"""The code generator ``hvx``: stencils in HVX intrinsics, with windows that slide in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from tuner.codegen import c_forms, clang
from tuner.codegen.c_forms import PRELUDE, SWITCHES, declaration, wrapped
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.halide.uploads import stencils
from tuner.codegen.hvx.lowering import lowered
from tuner.codegen.hvx.sliding import Window
from tuner.codegen.hvx.writing import Choices, Side, Strip, declarations
from tuner.codegen.toolchain import find_toolchain
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel, pixel
from tuner.kernels.pixel import NotAStencilError, Pixel
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Knob, KnobValue, Space

ROWS = "hvx_rows"
_COLUMNS = (1, 2, 3, 4)
_CLANG_KNOBS = ("llvm_optimize", "llvm_unroll", "llvm_pipeliner")
_TEXTBOOK: dict[str, KnobValue] = {ROWS: 4, "hvx_columns": 2, "hvx_adds": "halves"}
_MOST_REACH = 16
"""Rows or columns that a pixel depends on, to each side."""
_MOST_VALUES = 128
_INPUT = "input.c"
HVX_SWITCHES = (*SWITCHES, "-mllvm", "-rdf-opt=0")
"""Without LLVM's copy propagation on machine code (Hexagon's RDF): it drops a copy of a pair of
vectors on a loop's exit, of which wrong rows come (gaussian5x5_u8, 384x11, contract extent). The
code is as fast without."""


class HvxGenerator(ServerGenerator):
    """Code for kernels that state their pixels (:meth:`Kernel.pixel`), from images that are at
    least a vector wide."""

    name = "hvx"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        reason = why_not(kernel, problem)
        if reason:
            raise UserError(
                f"the generator '{cls.name}' makes no code of {kernel.name}: {reason}",
                accepted="filters of one u8 image to another whose edges are repeated",
                next_step="choose another one with --generator, such as halide",
            )
        width = kernel.buffers(problem.workload.params)[0].shape[-1]
        return Space(kernel.name, _knobs(width // problem.target.lanes(1)))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        space = cls.space(kernel, problem)
        return {
            "default": space.nearest_config({}),
            "textbook": space.nearest_config(_TEXTBOOK),
        }

    def fingerprint(self) -> Mapping[str, str]:
        return {
            "generator": self.name,
            "clang": find_toolchain().version,
            "hvx switches": " ".join((*clang.BASE_SWITCHES, *HVX_SWITCHES)),
            "hvx code": _own_code()[:16],
        }

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem, config = candidate.problem, candidate.config
        kernel = find_kernel(problem.workload.kernel)
        source = translation_unit(kernel, problem, config).encode()
        with self.servers.one() as server:
            files = clang.compiled(
                self.servers,
                server,
                problem.target,
                (_INPUT, source),
                [*HVX_SWITCHES, *clang.switches(config)],
                with_assembly=with_assembly,
            )
        head = declaration(problem, _buffers(kernel, problem)).encode()
        # The loops as they are stand for the loop nest of a schedule.
        files |= {"header": head, "loopnest": source}
        return Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files)


@lru_cache(maxsize=64)
def _knobs(vectors: int) -> tuple[Knob, ...]:
    """All knobs, for rows of that many whole vectors: no strip is wider."""
    columns = tuple(count for count in _COLUMNS if count <= vectors)
    return (
        Knob(ROWS, (1, 2, 4, 8), "output rows computed together"),
        Knob("hvx_columns", columns, "vectors side by side"),
        Knob(
            "hvx_taps",
            ("align", "load"),
            "neighbours in a row: from vectors already loaded, or loads",
        ),
        Knob("hvx_adds", ("mixed", "pairs", "halves"), "sums of 16 bits: of pairs, or one by one"),
        Knob("hvx_last", ("apart", "inside"), "the last rows: after the loop, or in it"),
        Knob("hvx_prefetch", (0, 8, 32), "rows from a prefetch to its use; 0: none"),
        *(knob for knob in clang.KNOBS if knob.name in _CLANG_KNOBS),
    )


def why_not(kernel: Kernel, problem: Problem) -> str:
    """Why there is no code for ``problem``; empty if there is."""
    params = problem.workload.params
    try:
        _require(kernel.pixel(params))
    except NotAStencilError as error:
        return str(error)
    specs = kernel.buffers(params)
    if any(spec.loose or any(spec.mins) for spec in specs):
        return "its buffers are loose, or do not begin at 0"
    if len(specs) != 2 or specs[0].shape != specs[1].shape:
        return "its image is not made of one of the same shape"
    lanes = problem.target.lanes(1)
    if specs[0].shape[-1] < lanes:
        return f"its rows have {specs[0].shape[-1]} pixels, fewer than {lanes}"
    return ""


@lru_cache(maxsize=256)
def _require(stated: Pixel) -> None:
    offsets = stated.offsets()
    if not offsets or any(max(abs(dx), abs(dy)) > _MOST_REACH for dx, dy in offsets):
        raise NotAStencilError(f"it reaches over more than {_MOST_REACH} pixels, or over none")
    values, _ = lowered(stated)
    if len(values.known) > _MOST_VALUES:
        raise NotAStencilError(f"it takes more than {_MOST_VALUES} vector operations")


def _buffers(kernel: Kernel, problem: Problem) -> tuple[BufferSpec, ...]:
    """Those of the kernel by names that are C's, whatever a pipeline calls them."""
    return tuple(b._replace(name=b.role) for b in kernel.buffers(problem.workload.params))


def translation_unit(kernel: Kernel, problem: Problem, config: Config) -> str:
    """The C of a config."""
    lanes = problem.target.lanes(1)
    buffers = _buffers(kernel, problem)
    values, root = lowered(kernel.pixel(problem.workload.params))
    window = Window(values, root, config.integer(ROWS))
    choices = Choices(
        config.integer("hvx_columns"),
        config.text("hvx_taps") == "load",
        config.integer("hvx_prefetch"),
        config.text("hvx_adds"),
        config.text("hvx_last"),
        buffers[0].shape[0] if problem.contract is Contract.STATIC else None,
    )
    walk = _Walk(problem, buffers, choices.columns, lanes)
    loops = walk.loops()
    functions = declarations(window, list(walk.strips.values()), choices, lanes)
    return wrapped(problem, buffers, {}, loops, functions)


class _Walk:
    """The strips of an image from left to right. Where its width is not known, its comparisons with
    the width are made when the code is called."""

    def __init__(
        self, problem: Problem, buffers: tuple[BufferSpec, ...], columns: int, lanes: int
    ) -> None:
        contract, width = problem.contract, buffers[0].shape[-1]
        self._width = width if contract is Contract.STATIC else None
        self._columns, self._lanes = columns, lanes
        self._is_whole = contract is Contract.EXTENT or self._width == width // lanes * lanes
        self._is_aligned = self._is_whole or contract is Contract.STRIDE
        self.strips: dict[str, Strip] = {}
        """Those that are called."""

    def loops(self) -> str:
        """The C that calls them."""
        lines = []
        columns = [self._columns]
        if self._width is None:
            differ = (f"input_extent_{at} != output_extent_{at}" for at in range(2))
            least = f"output_extent_0 < {self._lanes}"
            lines.append(f"if ({' || '.join([*differ, least])}) return CONSTRAINT_VIOLATED;")
            columns += [1] if self._columns > 1 else []  # narrow images
        for count in columns:
            lines.append(f"if (output_extent_0 >= {count * self._lanes}) {{")
            lines += [*self._with(count), "return 0;", "}"]
        return "\n".join(lines)

    def _with(self, columns: int) -> Iterator[str]:
        """Strips of ``columns`` vectors; the last one begins where it ends with the row."""
        lanes, step, width = self._lanes, columns * self._lanes, self._width
        aligned = self._is_aligned
        if width is None or width == step:
            one = self._call(Strip(columns, "edge", "edge", aligned), "0")
            yield f"if (output_extent_0 == {step}) {{ {one} return 0; }}"
        if width == step:
            return
        # A vector beside a strip is whole, and so it may be read, if rows are.
        near: Side = "inside" if self._is_aligned else "near"
        last_near: Side = "inside" if self._is_whole else "near"
        yield self._call(Strip(columns, "edge", near, aligned), "0")
        room = 0 if aligned else lanes
        if width is None or width > 2 * step:
            yield f"int x = {step};"
            if width is None or 2 * step + room <= width:
                stop = f"x + {step + room} {'<' if aligned else '<='} output_extent_0"
                inner = self._call(Strip(columns, "inside", "inside", aligned), "x")
                yield f"for (; {stop}; x += {step}) {inner}"
            if not aligned:
                beside = self._call(Strip(columns, "inside", near, aligned), "x")
                yield f"if (x + {step} < output_extent_0) {beside}"
        last = Strip(columns, last_near, "edge", self._is_whole)
        yield self._call(last, f"output_extent_0 - {step}")

    def _call(self, strip: Strip, x: str) -> str:
        """Calls a strip that begins at ``x``, and puts it among those that are called."""
        self.strips[strip.name] = strip
        end = f"output_extent_0 - ({x}) - {strip.columns * self._lanes}"
        return (
            f"{strip.name}(input + {x}, input_stride_1, output + {x}, output_stride_1, "
            f"output_extent_1, at_most({x}, {self._lanes}), at_most({end}, {self._lanes}));"
        )


@lru_cache(maxsize=1)
def _own_code() -> str:
    """Names the code that decides what C is written of a pixel, and what pixel is read."""
    modules = (c_forms, pixel, stencils)
    readers = [Path(str(module.__file__)) for module in modules]
    paths = [*sorted(Path(__file__).parent.glob("*.py")), *readers, PRELUDE]
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))
