"""Plans of products of matrices: sums in words along rows of one input and columns of the other.

``multiplying.h`` computes them in tiles of registers. Sums over signed elements are those over
unsigned ones, for which there are instructions, less what follows from sums of rows and columns.

Source: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, ``vrmpy`` and ``vmpye``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tuner.codegen import clang, wrapping
from tuner.codegen.hvx.matching import steps_of, term_of, without_casts
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.requantizing import Ending, Reading, Step
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.program.bounds import Bounds
from tuner.program.expressions import Binary, Constant, Expr, Load, Variable
from tuner.program.inlining import inlined, is_copy
from tuner.program.intervals import Scope
from tuner.program.loops import Stage
from tuner.program.types import I8, I16, I32, INDEX, U8, U16, U32, Type
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_FUNCTIONS = Path(__file__).with_name("multiplying.h")
_ENDED = "/* What becomes of sums comes here. */"
_TILE, _GROUP, _WALK = "hvx_tile", "hvx_steps", "hvx_walk"
_FETCH, _AHEAD, _LAST, _ORDER = "hvx_fetch", "hvx_ahead", "hvx_last", "hvx_order"
_ROWS, _VECTORS, _GROUPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16), (1, 2, 3, 4), (2, 4, 8)
_MOST_SUMS, _USUAL_SUMS, _USUAL_ROWS = 24, 16, 12
"""Vectors of sums: the others of 32 registers hold what they are made of."""
_AHEADS = (0, 32, 64)
_ELEMENTS = (U8, I8, U16, I16)
_MOST_SCRATCH = 12 << 20
"""Bytes of copies: a simulator's memory for them has 16 MiB."""
_QUAD = 4
"""Bytes that are added up in a word."""
_MOST_FEW, _TREE, _MISSED = 8, 4, 8
"""Columns that may be summed up one by one; packets that adding up the words of one takes; and what
it takes to read them in a row of B."""
_PRODUCTS = {
    (U8, U8): "vrmpyub",
    (U8, I8): "vrmpyub",
    (I8, U8): "vrmpybus",
    (I8, I8): "vrmpybus",
    (U16, U16): "vmpyuhe",
    (I16, I16): "vmpyuhe",
}
"""By the types of elements of A and B: B is unsigned when it is multiplied, and so are halfwords
of A."""
_ALONG = {
    (U8, U8): "HVX(vrmpyubv_acc)(sum, row, column)",
    (U8, I8): "HVX(vrmpybusv_acc)(sum, row, column)",
    (I8, U8): "HVX(vrmpybusv_acc)(sum, column, row)",
    (I8, I8): "HVX(vrmpybv_acc)(sum, row, column)",
    (U16, U16): "HVX(vmpyuhv_acc)(sum, row, column)",
    (I16, I16): "HVX(vmpyhv_acc)(sum, row, column)",
}
"""The same of two vectors."""


@dataclass(frozen=True)
class Product(Plan):
    """The inputs of these numbers are ``a`` and ``b``, each row by row; sums are over ``depth``, a
    number or an extent: that of the input, and its dimension. If ``b`` ``is_packed``, four rows are
    interleaved in one."""

    accepted = "products of matrices of 8 or 16 bits"

    a: int
    b: int
    is_packed: bool
    depth: int | tuple[int, int]
    kinds: tuple[Type, Type]
    offsets: tuple[str, str]
    """C of what is taken away from elements of ``a`` and ``b``; empty for nothing."""
    bias: str
    """The input with which the sums of columns begin; empty for none."""
    ending: Ending
    specs: tuple[BufferSpec, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        program = inlined(program, is_copy)
        out = program.stage_of(program.outputs[0])
        reading = Reading(program, out.places[-1])
        stage, axes, steps = _behind(program, reading)
        term = term_of(stage)
        parts = [reading.offset(without_casts(part)) for part in term.parts]
        loads = [without_casts(part) for part, _ in parts]
        scope, (update,) = Bounds(program, {}).scope(), stage.updates
        over = [loop for loop in update.loops if loop.bounds]
        if term.operator != "*" or len(over) != 1 or len(axes) not in (1, 2):
            raise NoPlanError("it is no product of two matrices")
        turned = sorted(zip(axes, stage.places, strict=True))
        places: list[set[Expr | None]] = [{place} for _, place in turned]
        along: set[Expr | None] = {over[0].index}
        wanted = [[*places[:-1], along], [along, places[-1]]]
        packed = [_is_packed(scope, one, over[0].index, turned[-1][1]) for one in loads]
        sides = [
            wanted[1] if is_packed else steps_of(scope, one) if isinstance(one, Load) else []
            for one, is_packed in zip(loads, packed, strict=True)
        ]
        order = [sides.index(side) for side in wanted if side in sides]
        names = [one.name for one in program.inputs]
        sources = [one.source for n in order for one in [loads[n]] if isinstance(one, Load)]
        if len({*sources} & {*names}) != 2:
            raise NoPlanError("it is no product of two matrices, each row by row")
        a, b = (names.index(one) for one in sources)
        start = Reading(program, turned[-1][1]).number(stage.values[0])
        if start is None or not (start.is_each or start.ends == (0, 0)):
            raise NoPlanError("its sums begin otherwise than at 0 or a number of a column")
        ending = Ending.of(steps, out.types[0])
        kinds = program.inputs[a].type, program.inputs[b].type
        if kinds not in _PRODUCTS:
            raise RefusedError(f"it multiplies {kinds[0]} by {kinds[1]}")
        if any(packed) and kinds[1].bits != U8.bits:
            raise RefusedError("it takes halfwords by fours")
        if program.scalars:
            raise RefusedError("products of matrices have code without scalars")
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        begin, end = over[0].bounds
        depth = _extent(program, end)
        if not isinstance(begin, Constant) or begin.value or depth is None:
            raise RefusedError("it sums up no whole rows and columns")
        offsets = [by.text if by else "" for by in (parts[n][1] for n in order)]
        bias = start.text if start.is_each else ""
        taken = offsets[0], offsets[1]
        made = cls(a, b, any(packed), depth, kinds, taken, bias, ending, tuple(specs), problem)
        made.require()
        return made

    def require(self) -> None:
        """Raises ``RefusedError`` where there is no code for it."""
        m, n, k = self.sizes
        quads = -(-k // _QUAD), _QUAD * n
        least = {self.a: (m, k), self.b: quads if self.is_packed else (k, n)}
        if self.is_packed and self._taken(0) and not (self.is_static and k % _QUAD == 0):
            raise RefusedError("sums of its packed columns are not known")
        for number, extents in least.items():
            shape = self.specs[number].shape
            if any(one < other for one, other in zip(shape, extents[-len(shape) :], strict=True)):
                raise RefusedError("its inputs are smaller than its output")
        if self._scratch_of(self.vectors[0]) > _MOST_SCRATCH:
            raise RefusedError(f"copies of its inputs take more than {_MOST_SCRATCH} bytes")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows of the output, its columns, and elements along a sum, of the workload."""
        *row, n = self.specs[-1].shape
        depth = self.depth
        k = depth if isinstance(depth, int) else self.specs[depth[0]].shape[-1 - depth[1]]
        return (row or [1])[0], n, k

    @property
    def is_static(self) -> bool:
        """Whether the sizes are known."""
        return self.problem.contract is Contract.STATIC

    @property
    def element_bytes(self) -> int:
        """Of the inputs."""
        return self.specs[self.b].element_bytes

    @property
    def step(self) -> int:
        """Elements along a sum that one instruction adds up in a word."""
        return _QUAD if self.element_bytes == 1 else 1

    @property
    def words(self) -> int:
        """Of a vector."""
        return self.problem.target.lanes(4)

    @property
    def vectors(self) -> tuple[int, ...]:
        """Vectors of a row of a tile: no more than a row of the output fills."""
        most = max(1, self.sizes[1] // self.words)
        return tuple(n for n in _VECTORS if n <= most)

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of a tile."""
        return tuple(n for n in _ROWS if n <= self.sizes[0] or not self.is_static)

    @property
    def _is_read_in_place(self) -> bool:
        """Whether A surely is."""
        is_unsigned = not any(one.is_signed for one in self.kinds)
        is_whole = self.sizes[2] % (self.step * _GROUPS[0 if self.step == 1 else -1]) == 0
        return self.is_static and is_whole and is_unsigned

    @property
    def few(self) -> int:
        """Columns behind those that fill vectors of sums."""
        return self.sizes[1] % self.words

    @property
    def _lasts(self) -> tuple[str, ...]:
        is_plain = not (
            self.is_packed
            or self.bias
            or any(self.offsets)
            or self.ending.steps
            or self.ending.ends
        )
        fits = self.is_static and 0 < self.few <= _MOST_FEW and is_plain
        return ("lanes", "along") if fits else ("lanes",)

    @property
    def _is_worth_it(self) -> bool:
        """Whether it takes fewer packets to sum up the last columns one by one."""
        m, _, k = self.sizes
        vectors = -(-k * self.element_bytes // self.problem.target.vector_bytes)
        along = m * self.few * (vectors + _TREE) + _MISSED * k
        return along < m * k / (2 * self.step)

    @property
    def _fetches(self) -> tuple[str, ...]:
        m, _, k = self.sizes
        is_small = m * k * self.element_bytes <= self.problem.target.l1d_bytes * 3 // 4
        return ("no", "ahead", "all") if is_small else ("no", "ahead")

    def _scratch_of(self, vectors: int, *, walks_rows: bool = False) -> int:
        """Bytes of copies, at most."""
        m, n, k = self.sizes
        lanes = self.problem.target.vector_bytes
        copied = 0 if self._is_read_in_place else m * -(-k * self.element_bytes // lanes) * lanes
        steps = -(-k // self.step // _GROUPS[-1]) * _GROUPS[-1]
        panels = -(-n // (vectors * self.words)) if walks_rows else 1
        return copied + panels * steps * vectors * lanes

    def _is_in_place(self, config: Config) -> bool:
        """Whether all tiles read B, which is packed, where it lies."""
        m, n, k = self.sizes
        rows = int(config.text(_TILE).split("x")[0])
        is_whole = n % self.words == 0 and k % (self.step * config.integer(_GROUP)) == 0
        is_summed = self._taken(0) or self.bias or config.integer(_AHEAD)
        is_plain = self.is_packed and self.is_static and not is_summed
        return is_plain and is_whole and m > rows and self._is_aligned(self.b)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        tiles = [
            f"{rows}x{vectors}"
            for rows in self.rows
            for vectors in self.vectors
            if rows * vectors <= _MOST_SUMS
        ]
        walks = ["panels"]
        if self.sizes[0] > 1 and self._scratch_of(1, walks_rows=True) <= _MOST_SCRATCH:
            walks.append("rows")
        return (
            Knob(_TILE, tuple(tiles), "rows of sums in registers, and vectors of a row"),
            Knob(_GROUP, _GROUPS, "steps along sums in one iteration"),
            Knob(_ORDER, ("rows", "columns"), "order of a tile's products"),
            Knob(_WALK, tuple(walks), "outer loop over tiles: a panel of columns, or rows"),
            Knob(_FETCH, self._fetches, "rows of A fetched into L1: of a tile ahead, or all first"),
            Knob(_LAST, self._lasts, "the last columns: in lanes, or one by one along sums"),
            Knob(_AHEAD, _AHEADS, "rows of the second input fetched into L2 at once; 0: none"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        m, n, k = self.sizes
        wide = self.vectors[-1]
        most = max(1, _USUAL_SUMS // wide)
        most = m if m <= most else min(most, _USUAL_ROWS)
        fitting = [one for one in self.rows if one <= most]
        # Two products are made at once.
        tall = max(fitting, key=lambda rows: (rows * wide % 2 == 0, rows))
        is_small = k * n * self.element_bytes <= self.problem.target.l2_bytes // 2
        is_known = self.is_static and self.step > 1
        fetch = "no" if self._is_read_in_place and "all" in self._fetches else self._fetches[-1]
        walk = "rows" if is_small and m > tall else "panels"
        panels = n // (wide * self.words) if walk == "rows" and is_known else 1
        # As many steps as lines of A are fetched in them: of rows that panels share.
        fetched = -(-tall // max(1, panels)) if fetch == "ahead" else 0
        least = fetched if is_known else _GROUPS[-1]
        whole = [one for one in _GROUPS if k % (one * self.step) == 0] or [_GROUPS[0]]
        return {
            _TILE: f"{tall}x{wide}",
            _GROUP: next((one for one in whole if one >= least), whole[-1]),
            _ORDER: "rows" if is_known and not self.is_packed else "columns",
            _WALK: walk,
            _LAST: self._lasts[-1] if self._is_worth_it else self._lasts[0],
            _FETCH: fetch if m > tall else "no",
            _AHEAD: 0 if is_small else _AHEADS[-1],
        }

    def switches(self, config: Config) -> list[str]:
        return [
            *clang.NO_MERGED_LOADS,
            *super().switches(Config({"llvm_optimize": "O3", **config})),
        ]

    def written(self, config: Config) -> tuple[str, str]:
        rows, vectors = map(int, config.text(_TILE).split("x"))
        a, b = self.kinds
        half = 1 << (8 * self.element_bytes - 1)
        is_wide = self.element_bytes > 1
        few = self.few if config.text(_LAST) == "along" else 0
        more = -(-((self.sizes[1] - few) % (vectors * self.words)) // self.words)
        product = _PRODUCTS[self.kinds]
        macros = {
            "ROWS": rows,
            "COLUMNS": vectors,
            # Where the shape is open, the columns behind whole panels have panels of one vector.
            "LAST_COLUMNS": (more or vectors) if self.is_static else 1,
            "STEP": self.step,
            "GROUP": config.integer(_GROUP),
            "BY_COLUMNS": int(config.text(_ORDER) == "columns"),
            "ELEMENT_BYTES": self.element_bytes,
            "WALKS_ROWS": int(config.text(_WALK) == "rows"),
            "FETCHES": int(config.text(_FETCH) == "ahead"),
            "FETCHES_ALL": int(config.text(_FETCH) == "all"),
            "AHEAD": config.integer(_AHEAD),
            "PACKED": int(self.is_packed),
            "IN_PLACE": int(self._is_in_place(config)),
            "B_ALIGNED": int(self._is_aligned(self.b)),
            "C_ALIGNED": int(self._is_aligned(-1)),
            "FLIP_A": hex(half * 0x10001) if is_wide and a.is_signed else "0",
            "FLIP_B": hex(half * (0x10001 if is_wide else 0x1010101)) if b.is_signed else "0",
            "SIGNED_A": int(a.is_signed),
            "ROW_TERMS": int(bool(self._taken(1))),
            "COLUMN_SUMS": int(bool(self._taken(0))),
            "COLUMN_TERMS": int(bool(self._taken(0) or self.bias)),
            "OUT_BYTES": self.specs[-1].element_bytes,
            "NUMBERS": max(1, len(self.ending.numbers)),
            "PRODUCT": f"HVX({product})",
            "ADDED_PRODUCT": f"HVX({product}_acc)",
            "FEW": few,
            "ELEMENT": f"uint{8 * self.element_bytes}_t",
            "ALONG": "W" if is_wide else "V",
            "ADDED_ALONG(sum, row, column)": _ALONG[self.kinds],
        }
        functions = [f"#define {name} {value}" for name, value in macros.items()]
        before, after = _FUNCTIONS.read_text().split(_ENDED)
        functions += [wrapping.STORING.read_text(), before, *self.ending.functions(), after]
        return "\n".join(self._loops(half, few)), "\n".join(functions)

    def _is_aligned(self, number: int) -> bool:
        """Whether rows of a buffer begin at vectors."""
        spec, contract = self.specs[number], self.problem.contract
        lanes = self.problem.target.lanes(spec.element_bytes)
        if self.is_static:
            strides = layout_of(spec, contract, self.problem.target).strides
            return all(stride % lanes == 0 for stride in strides[:-1])
        return contract.level >= Contract.STRIDE.level and spec.promised

    def _taken(self, side: int) -> str:
        """C of what is taken away from elements of A or B as they are multiplied; empty for
        nothing."""
        half = 1 << (8 * self.element_bytes - 1)
        is_flipped = self.kinds[side].is_signed and (side == 1 or self.element_bytes > 1)
        terms = [str(half)] * is_flipped + [self.offsets[side]] * bool(self.offsets[side])
        return " + ".join(terms)

    def _loops(self, half: int, few: int) -> Iterator[str]:
        a, b, depth = f"input{self.a}", f"input{self.b}", self.depth
        k = str(depth) if isinstance(depth, int) else f"input{depth[0]}_extent_{depth[1]}"
        is_flat = len(self.specs[-1].shape) == 1
        m = "1" if is_flat else "output_extent_1"
        size = self.element_bytes
        yield "struct product p = {"
        yield f".a = (const uint8_t *){a}, .b = (const uint8_t *){b}, .c = (uint8_t *)output,"
        yield f".a_stride = {'0' if is_flat else f'{size} * {a}_stride_1'},"
        yield f".b_stride = {size} * {b}_stride_1,"
        yield f".c_stride = {'0' if is_flat else 'OUT_BYTES * output_stride_1'},"
        yield f".m = {m}, .n = output_extent_0, .k = {k},"
        of_a, of_b = (f"({self._taken(side) or 0})" for side in (0, 1))
        yield f".row_by = -{of_b}, .column_by = -{of_a},"
        yield f".column_more = (int)((unsigned){of_a} * (unsigned){of_b} * (unsigned)({k})),"
        yield "};"
        down, across = f"(p.k + {_QUAD - 1}) / {_QUAD}", f"{_QUAD} * p.n"
        if not self.is_packed:
            down, across = "p.k", "p.n"
        wrong = [f"{a}_extent_0 < p.k", f"{b}_extent_0 < {across}", f"{b}_extent_1 < {down}"]
        wrong += [] if is_flat else [f"{a}_extent_1 < p.m"]
        each = {"bias": self.bias, "scales": self.ending.scale.text if self.ending.scale else ""}
        wrong += [f"{name}_extent_0 < p.n" for name in each.values() if name]
        yield f"if ({' || '.join(wrong)}) return CONSTRAINT_VIOLATED;"
        yield "CHECKED"
        # Knowing it, LLVM adds up the address of each vector of a tile, which takes more packets
        # than to multiply.
        yield '__asm__("" : "+r"(p.c_stride));'
        yield f"p.b_end = p.b + ({down} - 1) * p.b_stride + {size} * {across};"
        yield "uint8_t room[VECTOR_BYTES];"
        yield "p.b = of_a_vector(p.b, &p.b_end, room);"
        yield from self._few_columns(few) if few else ()
        for name, given in each.items():
            if given:
                yield f"int32_t *const {name} = scratch(4 * (p.n + 4 * WORDS));"
                yield f"copy_words({name}, (const uint8_t *){given}, p.n);"
                yield f"p.{name} = {name};"
        for text, place in self.ending.numbers.items():
            yield f"p.numbers[{place}] = {text};"
        yield "const int rows = p.m < ROWS ? 1 : ROWS, is_kept = p.m > rows;"
        yield "p.steps = rounded_up((p.k + STEP - 1) / STEP, GROUP);"
        word = "2 * STEP_BYTES" if self.step > 1 else "STEP_BYTES"
        yield f"const int multiple = is_kept ? {word} : STEP_BYTES;"
        yield f"const int bytes = {size} * p.k, whole = whole_rows(p.m, p.a_stride, bytes);"
        yield "const int is_direct = (whole || !ROW_TERMS) && !FLIP_A &&"
        yield "    p.a_stride % multiple == 0 && (uintptr_t)p.a % multiple == 0 &&"
        yield "    p.k % (is_kept ? STEP * GROUP : STEP) == 0;"
        yield "if (!is_direct) {"
        yield "const int across = rounded_up(bytes, VECTOR_BYTES);"
        yield "V *copied = scratch(p.m * across);"
        yield "copy_a(copied, p.a, p.a_stride, 0, p.m, bytes, FLIP_A);"
        yield "p.a = (const uint8_t *)copied, p.a_stride = across;"
        yield "}"
        yield "if (FETCHES_ALL) fetch_all(&p);"
        yield "#if ROW_TERMS"
        yield "V *terms = scratch(rounded_up(p.m, WORDS) * 4);"
        yield "V *parts = scratch(WORDS * VECTOR_BYTES);"
        yield "sum_rows(&p, is_direct ? whole : p.m, parts, terms);"
        yield "p.row_terms = (const int32_t *)terms;"
        yield "#endif"
        yield "if (COLUMN_TERMS) p.column_terms = scratch(4 * (p.n + 4 * WORDS));"
        yield "const int across = COLUMNS * WORDS;"
        yield "const int panels = WALKS_ROWS ? (p.n + across - 1) / across : 1;"
        yield "V *packed = is_kept ? scratch(panels * p.steps * COLUMNS * VECTOR_BYTES) : (V *)0;"
        if self.is_static:
            yield "all_panels(&p, ROWS, packed);"
            return
        yield "if (rows == ROWS) all_panels(&p, ROWS, packed);"
        yield "else all_panels(&p, 1, packed);"

    def _few_columns(self, few: int) -> Iterator[str]:
        """Before the others, of which the product is then."""
        size = self.element_bytes
        yield "{"
        yield f"p.n -= {few};"
        yield f"const int bytes = {size} * p.k, across = rounded_up(bytes, VECTOR_BYTES);"
        yield "const int vectors = across / VECTOR_BYTES;"
        yield "const int inside = whole_rows(p.m, p.a_stride, bytes);"
        yield "V *const columns = scratch(FEW * across);"
        yield "V *const tail = scratch((p.m - inside + 1) * across);"
        yield "const int made = rounded_up(p.m, ROWS_OF_TREE) * SHARE / WORDS;"
        yield "V *const sums = scratch((made + WORDS) * VECTOR_BYTES), *const parts = sums + made;"
        yield f"copy_columns((ELEMENT *)columns, p.b + {size} * p.n, p.b_stride, p.k, vectors);"
        yield "copy_a(tail, p.a, p.a_stride, inside, p.m, bytes, 0);"
        yield "sums_along(p.a, p.a_stride, p.m, inside, tail, columns, vectors, parts, sums);"
        yield "for (int y = 0; y < p.m; ++y) {"
        yield "uint32_t *to = (uint32_t *)(p.c + y * p.c_stride) + p.n;"
        yield "__builtin_prefetch((const uint32_t *)sums + (y + FETCHED_ROWS) * SHARE);"
        yield "UNROLLED for (int c = 0; c < FEW; ++c)"
        yield "to[c] = ((const uint32_t *)sums)[y * SHARE + c];"
        yield "}"
        yield "}"


def _behind(program: Program, reading: Reading) -> tuple[Stage, list[int], list[Step]]:
    """The stage that sums up, which axis of the output each of its is, and what becomes of sums."""
    stage, names = program.stage_of(program.outputs[0]), {one.name for one in program.stages}
    axes, steps = [*range(len(stage.axes))], list[Step]()
    while not stage.updates:
        load, more = reading.steps(stage.values[0])
        places = [*stage.places]
        if load.source not in names or sorted(map(id, load.indices)) != sorted(map(id, places)):
            raise NoPlanError("it is no product of two matrices")
        axes = [axes[places.index(one)] for one in load.indices if isinstance(one, Variable)]
        steps = [*more, *steps]
        stage = program.stage_of(load.source)
    (update, *others), is_plain = stage.updates, stage.types in ((I32,), (U32,))
    if others or not is_plain or update.places != stage.places or update.condition is not None:
        raise NoPlanError("it is no product of two matrices")
    return stage, axes, steps


def _is_packed(scope: Scope, value: Expr, along: Expr, column: Expr) -> bool:
    """Whether it is the element at ``along`` and ``column`` of rows interleaved by fours."""
    if not isinstance(value, Load) or len(value.indices) != 2:
        return False
    (row, place), quad = value.indices, Constant(_QUAD, INDEX)
    scope.exact(place)
    lane: Expr = Binary("%", along, quad)
    wanted: list[dict[Expr | None, int]] = [{lane: 1, column: _QUAD}]
    wanted += [{lane: 1, Binary("*", *pair): 1} for pair in ((quad, column), (column, quad))]
    return row is Binary("//", along, quad) and scope.terms(place) in wanted


def _extent(program: Program, end: Expr) -> int | tuple[int, int] | None:
    """The number that ``end`` is, or the input and its dimension whose extent it is."""
    if isinstance(end, Constant):
        return end.value
    for number, one in enumerate(program.inputs):
        for dimension, axis in enumerate(one.axes[::-1]):
            is_whole = len(axis) == 2 and isinstance(axis[0], Constant) and axis[0].value == 0
            if is_whole and axis[1] is end and isinstance(end, Variable):
                return number, dimension
    return None
