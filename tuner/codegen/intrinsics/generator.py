"""The code generator ``intrinsics``: kernels in HVX intrinsics with knobs."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from tuner.codegen import clang, wrapping
from tuner.codegen.intrinsics.blocked import (
    BlockedConv2d,
    BlockedDepthwiseConv2d,
    BlockedExpandedConv2d,
)
from tuner.codegen.intrinsics.conv2d import Conv2d
from tuner.codegen.intrinsics.depthwise import DepthwiseConv2d
from tuner.codegen.intrinsics.form import Form
from tuner.codegen.wrapping import PRELUDE, STORING, wrapped
from tuner.codegen.written import SWITCHES, WrittenGenerator
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, Space

_HERE = Path(__file__).parent
_ALL = (
    *(Conv2d(), DepthwiseConv2d()),
    *(BlockedConv2d(), BlockedDepthwiseConv2d(), BlockedExpandedConv2d()),
)
_FORMS = {kernel: form for form in _ALL for kernel in form.kernels}


class IntrinsicsGenerator(WrittenGenerator):
    """Code for kernels that have a form in intrinsics."""

    name = "intrinsics"
    switches = (*SWITCHES, *clang.NO_MERGED_LOADS)

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        form = _FORMS.get(kernel.name)
        reason = "it has no such form" if form is None else form.why_not(kernel, problem)
        if form is None or reason:
            raise UserError(
                f"the generator '{cls.name}' makes no code of {kernel.name}: {reason}",
                accepted=", ".join(sorted(_FORMS)),
                next_step="choose another generator, such as halide",
            )
        return Space(kernel.name, _knobs(form), form.constraints, form.constants(problem))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        space = cls.space(kernel, problem)
        textbook = space.nearest_config(_FORMS[kernel.name].textbook(problem))
        return {"default": space.nearest_config({}), "textbook": textbook}

    def source(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        return translation_unit(_FORMS[kernel.name], kernel, problem, config)

    def digest_of_code(self) -> str:
        return _own_code()

    def switches_for(self, kernel: Kernel, problem: Problem, config: Config) -> list[str]:
        return super().switches_for(kernel, problem, Config({"llvm_optimize": "O3", **config}))


@cache
def _knobs(form: Form) -> tuple[Knob, ...]:
    return (*form.knobs, *(knob for knob in clang.KNOBS if knob.name in form.clang_knobs))


def translation_unit(form: Form, kernel: Kernel, problem: Problem, config: Config) -> str:
    """The C of a config."""
    params = problem.workload.params
    constants = {p.name: params[p.name] for p in kernel.params if not p.is_extent}
    macros = form.macros(kernel, problem, config)
    functions = [f"#define {macro} {value}" for macro, value in macros.items()]
    name = form.files(config)
    headers = ("vectors.h", *form.headers, f"{name}.h")
    functions += [_text("vectors.h"), STORING.read_text(), *map(_text, headers[1:])]
    functions.append(form.functions(kernel, problem, config))
    loops = _text(f"{name}.c")
    return wrapped(problem, kernel.buffers(params), constants, loops, "\n".join(functions))


@lru_cache(maxsize=16)
def _text(name: str) -> str:
    return (_HERE / name).read_text()


@lru_cache(maxsize=1)
def _own_code() -> str:
    """Names all that decides what C is written."""
    own = sorted(path for path in _HERE.iterdir() if path.suffix in (".py", ".h", ".c"))
    paths = [*own, Path(wrapping.__file__), PRELUDE, STORING]
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))
