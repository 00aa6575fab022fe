"""Plain C with HVX vectors by clang's loop vectorizer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tuner.codegen.c.forms import c_forms
from tuner.codegen.c.source import PRELUDE, header, translation_unit
from tuner.codegen.clang import command
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.toolchain import find_toolchain
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel, kernel_names
from tuner.kernels.sources import content_of
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Knob, Space

_INPUT = "input.c"
_INTERLEAVE = Knob("c_interleave", (1, 2), "vectors of one loop side by side")
_CLANG_KNOBS = tuple(k for k in command.KNOBS if k.name in ("llvm_unroll", "llvm_combine"))
"""The others hardly change such code: eight points a form, for searches that try C by the way."""
_SWITCHES = ("-std=gnu17", "-ffreestanding", "-nostdinc", "-fno-stack-protector", "-fvectorize")
_VECTORIZE = ("-mllvm", "-hexagon-autohvx")


class CGenerator(ServerGenerator):
    """Code for kernels that have a C form (:func:`c_forms`); the space is a handful of points."""

    name = "c-autovec"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        forms = c_forms(kernel)
        if not forms:
            raise UserError(
                f"{kernel.name} has no C form, which the generator '{cls.name}' needs",
                accepted=", ".join(n for n in kernel_names() if c_forms(find_kernel(n))),
                next_step="choose another one with --generator, such as halide",
            )
        return Space(kernel.name, _knobs(tuple(forms)))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        """Default: the plain form with clang's defaults. Textbook: the last form."""
        space = cls.space(kernel, problem)
        plain = {knob.name: knob.choices[0] for knob in space.knobs}
        last = list(c_forms(kernel))[-1]
        return {"default": Config(plain), "textbook": Config({**plain, "c_form": last})}

    def fingerprint(self) -> Mapping[str, str]:
        return {
            "generator": self.name,
            "clang": find_toolchain().version,
            "clang switches": " ".join((*command.BASE_SWITCHES, *_SWITCHES)),
            "c forms": digest_of_forms()[:16],
        }

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem, config = candidate.problem, candidate.config
        kernel = find_kernel(problem.workload.kernel)
        loops = content_of(c_forms(kernel)[config.text("c_form")]).decode()
        source = translation_unit(kernel, problem, loops).encode()
        interleave = f"-force-vector-interleave={config.integer('c_interleave')}"
        options = [*_SWITCHES, *_VECTORIZE, "-mllvm", interleave, *command.switches(config)]
        with self.servers.one() as server:
            files = command.compiled(
                self.servers,
                server,
                problem.target,
                (_INPUT, source),
                options,
                with_assembly=with_assembly,
            )
        # The loops as they are: what the loop nest is of a schedule.
        files |= {"header": header(kernel, problem).encode(), "loopnest": source}
        return Artifact(digest_of_bytes(files[command.OBJECT]), problem.symbol, files)


@cache
def _knobs(forms: tuple[str, ...]) -> tuple[Knob, ...]:
    return (Knob("c_form", forms, "which of the kernel's forms"), _INTERLEAVE, *_CLANG_KNOBS)


def digest_of_forms() -> str:
    """Names the loops of all kernels and what is put around them."""
    paths = [PRELUDE, PRELUDE.with_name("source.py")]
    for name in sorted(kernel_names()):
        paths += c_forms(find_kernel(name)).values()
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))
