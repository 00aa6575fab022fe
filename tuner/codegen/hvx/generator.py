"""The code generator ``hvx``: programs of several kinds in HVX intrinsics, each by its plan."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tuner import program
from tuner.codegen import wrapping
from tuner.codegen.hvx.kinds import KINDS, plan_for
from tuner.codegen.hvx.plan import VECTORS, NoPlanError, Plan, scalars_of
from tuner.codegen.wrapping import PRELUDE, declaration, wrapped
from tuner.codegen.written import SWITCHES, WrittenGenerator
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel
from tuner.problem.buffers import BufferSpec
from tuner.program import ProgramError
from tuner.records.candidate import Problem
from tuner.space import Config, Space

_NO_RENAMING = ("-mllvm", "-break-anti-dependencies=none", "-mllvm", "-disable-copyprop")
"""Behind the allocation of registers none is renamed. Freeing itself of anti-dependences, the last
scheduler renames one half of a pair of vectors that is still needed (box_blur_u8, 384x11, contract
none); LLVM's common propagation of copies drops a copy of one (gaussian5x5_u8, 500x11, contract
host). 24 candidates take 1.002 of the packets without."""


class HvxGenerator(WrittenGenerator):
    """Code for kernels whose programs one of the plans reads."""

    name = "hvx"
    switches = (*SWITCHES, *_NO_RENAMING)

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        try:
            return Space(kernel.name, plan_of(kernel, problem).knobs)
        except NoPlanError as error:
            kinds = ", ".join(kind.accepted for kind in KINDS)
            raise UserError(
                f"the generator '{cls.name}' makes no code of {kernel.name}: {error}",
                accepted=f"{kinds}; see docs/generators.md",
                next_step="choose another generator, such as halide",
            ) from None

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        space, textbook = cls.space(kernel, problem), plan_of(kernel, problem).textbook
        return {
            "default": space.nearest_config({}),
            "textbook": space.nearest_config(textbook),
        }

    def source(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        loops, functions = plan_of(kernel, problem).written(config)
        scalars = scalars_of(kernel.program(problem.workload.params))
        return wrapped(problem, _buffers(kernel, problem), {}, loops, VECTORS + functions, scalars)

    def header(self, kernel: Kernel, problem: Problem) -> str:
        scalars = scalars_of(kernel.program(problem.workload.params))
        return declaration(problem, _buffers(kernel, problem), scalars)

    def digest_of_code(self) -> str:
        return _own_code()

    def switches_for(self, kernel: Kernel, problem: Problem, config: Config) -> list[str]:
        return plan_of(kernel, problem).switches(config)


def plan_of(kernel: Kernel, problem: Problem) -> Plan:
    """The plan for ``problem``. ``NoPlanError`` says why there is none."""
    params = problem.workload.params
    try:
        loops = kernel.program(params)
    except ProgramError as error:
        raise NoPlanError(error.message) from None
    specs = kernel.buffers(params)
    names = [*(one.name for one in loops.inputs), *loops.outputs]
    named = tuple(one._replace(name=own) for one, own in zip(specs, names, strict=True))
    found = plan_for(loops, named, problem)
    if isinstance(found, NoPlanError):
        raise found.with_traceback(None)
    return found


def _buffers(kernel: Kernel, problem: Problem) -> tuple[BufferSpec, ...]:
    """Those of the kernel by names that are C's, whatever a pipeline calls them."""
    found: list[BufferSpec] = []
    for role in ("input", "output"):
        own = [one for one in kernel.buffers(problem.workload.params) if one.role == role]
        is_one = role == "output" and len(own) == 1
        names = [role] if is_one else [f"{role}{number}" for number in range(len(own))]
        found += [one._replace(name=name) for one, name in zip(own, names, strict=True)]
    return tuple(found)


@lru_cache(maxsize=1)
def _own_code() -> str:
    """Names the code that decides what C is written of a program, and how that is read."""
    own = sorted(p for p in Path(__file__).parent.iterdir() if p.suffix in (".py", ".h"))
    readers = sorted(Path(str(program.__file__)).parent.glob("*.py"))
    paths = [*own, *readers, Path(str(wrapping.__file__)), PRELUDE]
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))
