"""Rows that are copied tile by tile are copied in vectors, whichever LLVM makes the code."""

from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile

from tuner.codegen import find_generator, starts_of
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.space import Config


@pytest.mark.slow
@pytest.mark.parametrize("name", ["halide", "halide-clang"])
def test_no_copy_is_a_call(name):
    kernel = find_kernel("sobel_u8")
    problem = kernel.problem({}, Contract.STATIC, find_target("hexagon-v66"))
    textbook = starts_of(name, kernel, problem)["textbook"]
    config = Config({**textbook.as_dict(), "pad_at": "tile", "slide_pad": "on"})
    with find_generator(name)(1) as generator:
        artifact = generator.compile(Candidate(problem, config, name))
    symbols = ELFFile(io.BytesIO(artifact.object_bytes)).get_section_by_name(".symtab")
    called = {symbol.name for symbol in symbols.iter_symbols()}
    assert "qurt_hvx_lock" in called
    assert not [symbol for symbol in called if "memcpy" in symbol]
