"""One config, one object: its bytes do not depend on what the compile server did before, nor on
where its memory lies."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen.halide import servers
from tuner.codegen.halide.generator import HalideGenerator
from tuner.codegen.toolchain import built
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate

ROOT = Path(__file__).parents[3]
KERNELS = (
    "gemm_u8",
    "sobel_u8",
    "gaussian5x5_u8",
    "softmax_u8",
    "resize_bilinear_u8",
    "depthwise_conv2d_u8",
    "middle",
    "sharpen",
    "contrast",
    "strongest",
)
"""Built-in kernels, and uploads of the rig."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path))


def candidates(name: str, count: int) -> Iterator[Candidate]:
    """The textbook config of a problem, and ``count`` others."""
    if name in SIZES:
        kernel = find_kernel(keep_pipeline(unseen_pipeline(name)))
    else:
        kernel = find_kernel(name)
    problem = kernel.problem(SIZES.get(name, {}), Contract.STATIC, find_target("hexagon-v66"))
    space = HalideGenerator.space(kernel, problem)
    yield Candidate(problem, HalideGenerator.starts(kernel, problem)["textbook"], "halide")
    for number in range(count):
        yield Candidate(problem, space.sample(random.Random(number)), "halide")


def objects(made: list[Candidate]) -> dict[str, str]:
    """The digests of the objects that one new server makes, or outcomes, by config."""
    found = {}
    with HalideGenerator(1, time_limit_s=PATIENCE_S) as generator:
        for one in made:
            try:
                found[f"{one.problem.symbol} {one.config.json}"] = generator.compile(one).digest
            except CandidateError as error:
                found[f"{one.problem.symbol} {one.config.json}"] = error.outcome.value
    return found


@pytest.mark.parametrize(
    ("names", "count"),
    [
        pytest.param(("middle", "gemm_u8"), 2, marks=pytest.mark.slow),
        pytest.param(KERNELS, 19, marks=pytest.mark.nightly),
    ],
    ids=["6", "200"],
)
def test_an_object_depends_on_its_config_alone(
    names: tuple[str, ...], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [one for name in names for one in candidates(name, count)]
    first = objects(made)
    assert len({*first.values()}) > len(names)  # or there is nothing to tell apart
    assert objects(made[::-1]) == first
    monkeypatch.setattr(servers, "MODULE", "tests.rig.other_layout")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    random.Random(1).shuffle(made)
    assert objects(made) == first


BLOCKS = """
import ctypes, random, sys, threading

libc = ctypes.CDLL(None)
sizes = {"malloc": 1, "calloc": 2, "realloc": 2, "memalign": 2, "malloc_usable_size": 1, "free": 1}
for name, count in sizes.items():
    getattr(libc, name).restype = ctypes.c_size_t
    getattr(libc, name).argtypes = [ctypes.c_size_t] * count
draw = random.Random(int(sys.argv[1]))
foreign = [libc.malloc(size) for size in (1, 100, 5000, 3 << 20)]
for block in foreign:
    ctypes.memset(block, 7, 1)

def work():
    libc.hvxtune_fix_memory()
    held, places = [], []
    def take(block, size, align=16):
        assert block and block % align == 0, (hex(block), align)
        assert block >= 0x200000000000
        assert libc.malloc_usable_size(block) >= size
        mark = draw.randrange(256)
        ctypes.memset(block, mark, size)
        held.append((block, size, mark))
        places.append(block)
    def check(block, size, mark):
        for at in {0, size // 2, size - 1} if size else ():
            assert ctypes.c_ubyte.from_address(block + at).value == mark, "overwritten"
    for _ in range(6000):
        size = draw.choice([draw.randrange(64), draw.randrange(3000), draw.randrange(1, 1 << 20)])
        how = draw.randrange(6)
        if how == 0:
            take(libc.malloc(size), size)
        elif how == 1:
            block = libc.calloc(size, 3)
            assert not any(ctypes.string_at(block, min(3 * size, 4096)))
            take(block, 3 * size)
        elif how == 2:
            align = 1 << draw.randrange(4, 13)
            take(libc.memalign(align, size), size, align)
        elif held:
            block, old, mark = held.pop(draw.randrange(len(held)))
            check(block, old, mark)
            if how == 3 and size:
                grown = libc.realloc(block, size)
                check(grown, min(old, size), mark)
                take(grown, size)
            else:
                libc.free(block)
    spans = sorted((block, block + size) for block, size, _ in held if size)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:]))
    for one in held:
        check(*one)
    for block in foreign[1:]:
        libc.free(block)
    moved = libc.realloc(foreign[0], 10_000)
    assert moved >= 0x200000000000 and ctypes.c_ubyte.from_address(moved).value == 7
    assert libc.malloc(1 << 60) == 0 and libc.calloc(1 << 40, 1 << 40) == 0
    print(hash(tuple(places)))

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_blocks_are_apart_aligned_and_where_they_were() -> None:
    """Random calls, in processes with randomized addresses."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", BLOCKS, "1"],
            env={**os.environ, "LD_PRELOAD": str(built(servers.COMPILE_MEMORY)), "OTHER": "x" * n},
            capture_output=True,
            text=True,
            check=False,
        )
        for n in (1, 5000)
    ]
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout != ""
