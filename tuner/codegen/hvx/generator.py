"""The code generator ``hvx``: stencils in HVX intrinsics, with windows that slide in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from tuner.codegen import clang
from tuner.codegen.c_forms import PRELUDE, SWITCHES, declaration, wrapped
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.hvx.lowering import lowered
from tuner.codegen.hvx.sliding import Window
from tuner.codegen.hvx.writing import Choices, Strip, declarations
from tuner.codegen.toolchain import find_toolchain
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel
from tuner.kernels.pixel import NotAStencilError, Pixel
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Knob, KnobValue, Space

ROWS = "hvx_rows"
_COLUMNS = (1, 2, 3, 4)
_CLANG_KNOBS = ("llvm_optimize", "llvm_unroll", "llvm_pipeliner")
_TEXTBOOK: dict[str, KnobValue] = {ROWS: 4, "hvx_columns": 2}
_MOST_REACH = 64
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
    """All knobs, for rows of so many whole vectors: no strip is wider."""
    columns = tuple(count for count in _COLUMNS if count <= vectors)
    return (
        Knob(ROWS, (1, 2, 4, 8), "output rows computed together"),
        Knob("hvx_columns", columns, "vectors side by side"),
        Knob("hvx_taps", ("align", "load"), "neighbours from vectors that are there, or loaded"),
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
    except UserError as error:
        return error.message
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
def _require(pixel: Pixel) -> None:
    offsets = pixel.offsets()
    if not offsets or any(max(abs(dx), abs(dy)) > _MOST_REACH for dx, dy in offsets):
        raise NotAStencilError(f"it reaches over more than {_MOST_REACH} pixels, or over none")
    values, _ = lowered(pixel)
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
        buffers[0].shape[0] if problem.contract is Contract.STATIC else None,
    )
    strips: dict[str, Strip] = {}
    loops = "\n".join(_walk(problem, buffers, choices, strips, lanes))
    functions = declarations(window, list(strips.values()), choices, lanes)
    return wrapped(problem, buffers, {}, loops, functions)


def _walk(
    problem: Problem,
    buffers: tuple[BufferSpec, ...],
    choices: Choices,
    strips: dict[str, Strip],
    lanes: int,
) -> Iterator[str]:
    """The strips of an image from left to right; each that is called is put among ``strips``."""
    contract, width = problem.contract, buffers[0].shape[-1]
    is_static = contract is Contract.STATIC
    whole = contract is Contract.EXTENT or (is_static and width % lanes == 0)
    aligned = whole or contract is Contract.STRIDE

    def call(columns: int, sides: str, x: str) -> str:
        in_place = whole or (aligned and "r" not in sides)
        strip = Strip(columns, "l" in sides, "r" in sides, in_place)
        strips[strip.name] = strip
        return (
            f"{strip.name}(input + {x}, input_stride_1, output + {x}, output_stride_1, "
            "output_extent_1);"
        )

    if not is_static:
        yield "if (input_extent_0 != output_extent_0 || input_extent_1 != output_extent_1 ||"
        yield f"    output_extent_0 < {lanes}) return CONSTRAINT_VIOLATED;"
    widths = [choices.columns] if is_static or choices.columns == 1 else [choices.columns, 1]
    for columns in widths:
        step = columns * lanes
        yield f"if (output_extent_0 >= {step}) {{"
        if not is_static or width == step:
            yield f"if (output_extent_0 == {step}) {{ {call(columns, 'lr', '0')} return 0; }}"
        if not is_static or width > step:
            yield call(columns, "l", "0")
            if not is_static or width > 2 * step:
                yield f"for (int x = {step}; x + {step} < output_extent_0; x += {step})"
                yield f"    {call(columns, '', 'x')}"
            yield call(columns, "r", f"output_extent_0 - {step}")
        yield "return 0;"
        yield "}"


@lru_cache(maxsize=1)
def _own_code() -> str:
    """Names the code that decides what C is written."""
    folder = Path(__file__).parent
    clang_form = folder.parent / "c_forms.py"
    paths = [*sorted(folder.glob("*.py")), clang_form, PRELUDE]
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))
