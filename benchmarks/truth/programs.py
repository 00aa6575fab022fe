"""The loops of ``loops.c``: compiled by the chain's clang, run, checked and timed by its simulator.

Unrolling is left off: the sources write one operation an iteration and say nothing about it.
Caches are warm, as in the sources, which repeat each call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from tuner.codegen import clang
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.wrapping import wrapped
from tuner.codegen.written import SWITCHES
from tuner.identity import digest_of_bytes
from tuner.jobs.tuning import find_problem
from tuner.kernels.kernel import Array
from tuner.measure.cases import CaseSet, case_of
from tuner.measure.image import image_of
from tuner.measure.qemu.measurer import TIMEOUT_S, QemuMeasurer
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Orders
from tuner.measure.qemu.simulation import Timing, simulate
from tuner.problem.buffers import BufferSpec
from tuner.records.candidate import Artifact

_SOURCE = Path(__file__).with_name("loops.c")
_OPTIONS = (*SWITCHES, "-O2", "-fno-unroll-loops")
_SEED = 18


@dataclass(frozen=True)
class Program:
    """A loop of ``loops.c`` (a name of its ``enum loop``) with its sizes."""

    loop: str
    count: int
    tasks: int = 1
    weights: int = 1


def _dot(a: Array, b: Array) -> Array:
    """Sums of four products of neighbours: (..., 128) to (..., 32), exact."""
    four = (*a.shape[:-1], a.shape[-1] // 4, 4)
    return np.einsum("...f,...f->...", a.astype(np.int64).reshape(four), b.reshape(four))


def _even_odd(wide: Array) -> Array:
    """The order of a pair of vectors: results of even elements, then of odd ones."""
    return np.concatenate([wide[..., 0::2], wide[..., 1::2]], axis=-1)


def _issued(program: Program, a: Array, b: Array) -> Array:
    return (_dot(a, b.view(np.int8).astype(np.int64)) * program.count).astype(np.int32)


def _convolved(program: Program, a: Array, b: Array) -> Array:
    sums = sum(_dot(a, np.broadcast_to(one, a.shape).astype(np.int64)) for one in b)
    return np.asarray(sums).astype(np.int32)


def _added_up(program: Program, a: Array, b: Array) -> Array:
    words = a.view(np.int32).reshape(program.tasks, -1, a.shape[-1] // 4)
    sums: Array = words.sum(axis=1, dtype=np.int32)
    return sums


_REFERENCES: dict[str, Callable[[Program, Array, Array], Array]] = {
    "VRMPYACC": _issued,
    "VRMPY_VADD": _issued,
    "VRMPY": lambda _, a, b: _dot(a, b.astype(np.int64)).astype(np.int32),
    "VMPY": lambda _, a, b: _even_odd(a.astype(np.int16) * b.view(np.int8)),
    "VADD": lambda _, a, b: _even_odd(a.astype(np.int16) + b),
    "ADD": lambda _, a, b: a + b,
    "READ": _added_up,
    "WRITE": lambda program, _, b: np.repeat(b, program.count, axis=0),
    "COPY": lambda _, a, b: a.copy(),
    "CONVOLVE": _convolved,
    "STAGED": _convolved,
}
"""What each loop must give, from the vectors ``a`` and ``b``."""
_VECTORS: dict[str, Callable[[Program], tuple[int, int]]] = {
    "VRMPYACC": lambda _: (8, 8),
    "VRMPY_VADD": lambda _: (8, 8),
    "READ": lambda program: (program.count, 1),
    "WRITE": lambda _: (1, 1),
    "COPY": lambda program: (program.count, 1),
    "CONVOLVE": lambda program: (program.count, program.weights),
    "STAGED": lambda program: (program.count, program.weights),
}
"""How many vectors ``a`` and ``b`` have, where it is not ``count`` each."""


class Chain(AbstractContextManager["Chain"]):
    """Compiles and runs programs for ``target``, each once."""

    def __init__(self, target: str) -> None:
        self._problem = find_problem("add_u8", None, target, "static")  # for its target
        QemuMeasurer().require(self._problem.target)
        self._generator = HvxGenerator(1)
        self._timings: dict[Program, Timing] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._generator.close()

    @property
    def l2_bytes(self) -> int:
        """Of the target."""
        return self._problem.target.l2_bytes

    def timing(self, program: Program) -> Timing:
        """The timed call of ``program``; raises as :func:`simulate`, for wrong results as well."""
        if program not in self._timings:
            self._timings[program] = self._run(program)
        return self._timings[program]

    def _run(self, program: Program) -> Timing:
        problem, vector = self._problem, self._problem.target.vector_bytes
        rng = np.random.default_rng(_SEED)
        counts = _VECTORS.get(program.loop, lambda one: (one.count, one.count))(program)
        a, b = (rng.integers(0, 256, (count, vector), np.uint8) for count in counts)
        c = _REFERENCES[program.loop](program, a, b)
        specs = (
            BufferSpec("a", "uint8", a.shape, "input"),
            BufferSpec("b", "uint8", b.shape, "input"),
            BufferSpec("c", c.dtype.name, c.shape, "output"),
        )
        case = case_of("random values", specs, [a, b, c], problem.contract, problem.target)
        orders = Orders(find_model(problem.target.arch), problem.target)
        image = image_of(CaseSet((case,)), problem.target, orders.timed_call - 1)
        return simulate(self._compiled(program, specs), image, orders, TIMEOUT_S).timing

    def _compiled(self, program: Program, specs: tuple[BufferSpec, ...]) -> Artifact:
        problem, servers = self._problem, self._generator.servers
        sizes = {"COUNT": program.count, "TASKS": program.tasks, "WEIGHTS": program.weights}
        functions = f"#define LOOP {program.loop}\n{_SOURCE.read_text()}"
        source = wrapped(problem, specs, sizes, "return run(a, b, c);", functions)
        with servers.one() as server:
            files = clang.compiled(
                servers,
                server,
                problem.target,
                ("input.c", source.encode()),
                _OPTIONS,
                with_assembly=False,
            )
        return Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files)
