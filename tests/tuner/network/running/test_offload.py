"""Networks in one image on the simulator: outputs by the kernels' references, and the counts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.tuner.network.reading.small_graphs import GRAPHS, inputs_of
from tuner.codegen.toolchain import NativePart, built
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.memory_store import MemoryStore
from tuner.network.planning.topology import Link, Topology, Unit
from tuner.network.running.image import (
    Argument,
    Function,
    HostError,
    SimulatedDsp,
    linked_image,
)
from tuner.network.running.offload import OffloadedRun, run
from tuner.network.running.predicted import compared
from tuner.network.running.steps import DSP
from tuner.problem.buffers import BufferSpec
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome

pytestmark = pytest.mark.slow
TARGET = find_target("hexagon-v66")
CALL_US = 35.0
TOPOLOGY = Topology(
    (
        Unit("arm", host=True, macs_per_us=20000.0, moved_bytes_per_us=8000.0),
        Unit("cdsp", call_us=CALL_US, target=TARGET.name, cycles_per_us=500.0),
    ),
    {frozenset(("arm", "cdsp")): Link(4000.0)},
)


@cache
def ran(name: str) -> OffloadedRun:
    """The small graph ``name``, with calls queued."""
    graph = GRAPHS[name]()
    return run(graph, inputs_of(graph), target=TARGET)


@pytest.mark.parametrize("name", ["residual block", "pools and tables", "moves", "heads"])
def test_a_network_in_one_image_makes_what_its_kernels_do(name: str) -> None:
    """``run`` compares every byte of the outputs."""
    graph, done = GRAPHS[name](), ran(name)
    assert set(done.outputs) == set(graph.outputs)
    assert all(layer.cycles for layer in done.layers if layer.calls)
    assert done.counts.calls >= sum(layer.calls for layer in done.layers) > 0
    assert done.counts.batches == sum(group.unit == DSP for group in done.groups), (
        "each group on the DSP is one batch"
    )
    assert all(apart.steps <= 4 for apart in done.apart.values())


def test_calls_that_are_queued_cross_less_often() -> None:
    graph = GRAPHS["residual block"]()
    queued = ran("residual block")
    alone = run(graph, inputs_of(graph), target=TARGET, one_call_a_layer=True)
    assert (queued.counts.crossings, queued.counts.batches) == (2, 1)
    assert (alone.counts.crossings, alone.counts.batches) == (2 + 4, 4)
    assert queued.counts.bytes_in == alone.counts.bytes_in
    assert queued.cycles == alone.cycles
    for output in graph.outputs:
        np.testing.assert_array_equal(queued.outputs[output], alone.outputs[output])


def test_a_run_lies_beside_its_plan() -> None:
    graph, done = GRAPHS["heads"](), ran("heads")
    plan = compared(graph, done, TOPOLOGY, TARGET, MemoryStore())
    assert plan.planned_calls == plan.ran_calls == done.counts.batches
    assert plan.ran_cycles == done.cycles
    assert plan.planned_cycles > 0
    assert plan.planned_us > CALL_US * plan.planned_calls
    assert plan.ran_us > CALL_US * done.counts.crossings
    other = find_target("hexagon-v68")
    with pytest.raises(UserError, match="no unit of the topology has the target hexagon-v68"):
        compared(graph, done, TOPOLOGY, other, MemoryStore())


def program(source: str, tmp_path: Path) -> Function:
    """A function of one buffer of eight bytes."""
    path = tmp_path / "own.c"
    path.write_text(source)
    data = built(NativePart("own", "hexagon", (path,), arch="v66")).read_bytes()
    spec = BufferSpec("x", "uint8", (8,), "output")
    return Function(Artifact(digest_of_bytes(data), "own", {"object": data}), (spec,))


OWN = 1


def call(source: str, tmp_path: Path, timeout_s: float = PATIENCE_S) -> list[int]:
    """What ``own`` makes of a buffer of eights."""
    function = program(source, tmp_path)
    with (
        linked_image([function], TARGET) as image,
        SimulatedDsp(image, TARGET, timeout_s) as dsp,
    ):
        try:
            buffer = dsp.host.alloc(8)
            dsp.host.copy_in(buffer, np.full(8, 8, np.uint8))
            dsp.host.call(OWN, [Argument.of(buffer, function.buffers[0])])
            made: list[int] = dsp.host.copy_out(buffer, 8).tolist()
        except HostError as error:
            raise dsp.failure(error) from None
        assert len(dsp.cycles()) == 1
        return made


BUFFER = "struct buffer { long long device; void *interface; unsigned char *host; };\n"


def test_a_function_that_is_wrong_is_an_answer_or_ends_the_image(tmp_path: Path) -> None:
    def body(text: str) -> str:
        return f"{BUFFER}int own(struct buffer *x) {{ {text} }}\n"

    assert call(body("x->host[0] = 5; return 0;"), tmp_path) == [5] + [8] * 7
    with pytest.raises(CandidateError, match=r"CALL_FAILED after 0 entries.* returned 3") as failed:
        call(body("return 3 + 0 * x->host[0];"), tmp_path)
    assert failed.value.outcome is Outcome.RUN_ERROR
    with pytest.raises(CandidateError, match="in own") as failed:
        call(body("*(volatile int *)16 = 1; return x != 0;"), tmp_path)
    assert failed.value.outcome is Outcome.RUN_ERROR
    open_file = 'register int n __asm__("r6") = 56; __asm__ volatile("trap0(#1)" : : "r"(n));'
    with pytest.raises(CandidateError, match="SYSTEM_CALL") as failed:
        call(body(f"{open_file} return x == 0;"), tmp_path)
    assert failed.value.outcome is Outcome.RUN_ERROR
    with pytest.raises(CandidateError, match="still ran after 1 s") as failed:
        call(body("for (;;) x->host[0]++;"), tmp_path, timeout_s=1.0)
    assert failed.value.outcome is Outcome.TIMEOUT
