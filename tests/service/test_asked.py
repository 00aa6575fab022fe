"""What is asked for: contracts that promises imply, and two readers of one query string."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Query
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from db.pipelines import KernelName
from service.routers.best import question_of, workload_of
from service.schedules.asked import Asked, read_plain
from service.schemas.schedules import BestQuery
from tuner.errors import UserError
from tuner.kernels import Kernel, find_kernel, kernel_names
from tuner.problem.buffers import layout_of
from tuner.problem.contract import Contract
from tuner.problem.target import TARGETS, find_target


@st.composite
def problems(draw: st.DrawFn) -> tuple[Kernel, dict[str, int], Contract, str]:
    kernel = find_kernel(draw(st.sampled_from(kernel_names())))
    params = {}
    for param in kernel.params:
        if param.is_extent:
            steps = st.integers(1, 9).map(lambda n, p=param: p.multiple * n)
            wide = st.sampled_from((64, 100, 128, 256, 512))
            value = draw(steps | wide)
            if param.minimum <= value <= param.maximum and value % param.multiple == 0:
                params[param.name] = value
    return kernel, params, draw(st.sampled_from(Contract)), draw(st.sampled_from(sorted(TARGETS)))


@given(problems())
def test_a_caller_keeps_a_contract_exactly_if_its_buffers_do(
    drawn: tuple[Kernel, dict[str, int], Contract, str],
) -> None:
    """Held against the layout: what such a caller's buffers look like in memory."""
    kernel, params, contract, target_name = drawn
    target = find_target(target_name)
    try:
        problem = kernel.problem(params, contract, target)
    except UserError:
        return  # the shape does not keep its own contract
    kept = kernel.kept_contracts(problem)
    assert contract in kept
    assert Contract.NONE in kept
    assert all(contract.implies(weaker) for weaker in kept)
    assert (Contract.HOST in kept) == (contract is not Contract.NONE)
    aligned = all(
        stride % (target.vector_alignment_bytes // spec.element_bytes) == 0
        for spec in kernel.buffers(problem.workload.params)
        if spec.promised
        for stride in layout_of(spec, contract, target).strides[:-1]
    )
    if contract.level >= Contract.STRIDE.level:
        assert (Contract.STRIDE in kept) == aligned
    if Contract.EXTENT in kept:
        kernel.problem(params, Contract.EXTENT, target)  # the shape keeps it


FIELDS = ["kernel", "param", "target", "contract", "min_fidelity", "allow_nearest", "on_miss", "x"]
VALUES = [
    *("gemm_u8", "sobel_u8", "warm", "model", "hardware", "true", "1", "on", "static", "stride"),
    *("hexagon-v68", "m=8,n=128", "k=4", "enqueue", "m=8,m=8", "%", "é", "m=٣"),
]
names = st.sampled_from(FIELDS)
values = st.sampled_from(["", "m= 8", *VALUES]) | st.text(max_size=6)
good = st.fixed_dictionaries(
    {"kernel": st.sampled_from(["gemm_u8", "sobel_u8"])},
    optional={
        "param": st.sampled_from(["", "m=8", "n=128,m=8", "width=64"]),
        "target": st.sampled_from(["hexagon-v66", "hexagon-v68"]),
        "contract": st.sampled_from(list(Contract)).map(str),
        "cache": st.sampled_from(["warm", "cold"]),
        "min_fidelity": st.sampled_from(["model", "hardware"]),
        "allow_nearest": st.sampled_from(["true", "false", "1", "yes"]),
    },
).map(lambda query: list(query.items()))


app = FastAPI()
found: list[Asked | None] = []


@app.get("/")
def read(given: Annotated[BestQuery, Query()]) -> None:
    try:
        kernel = KernelName(given.kernel)
        found.append(question_of(given, workload_of(given), kernel, "ann").asked())
    except UserError:
        found.append(None)


client = TestClient(app)


def read_by_schema(query: str) -> Asked | None:
    """As the route does it."""
    found.clear()
    client.get("/?" + query)
    return found[0] if found else None


@given(good | st.lists(st.tuples(names, values), max_size=5), st.sampled_from(["", ",=", ":/"]))
def test_whatever_the_quick_reader_takes_the_schema_reads_alike(
    pairs: list[tuple[str, str]], safe: str
) -> None:
    query = urlencode(pairs, safe=safe, quote_via=quote)
    quick = read_plain(query.encode(), "ann")
    if quick is not None:
        assert quick == read_by_schema(query)


@given(good)
def test_the_quick_reader_takes_plain_queries(pairs: list[tuple[str, str]]) -> None:
    query = urlencode(pairs)
    slow = read_by_schema(query)
    usual = all(value not in ("1", "yes") for _, value in pairs)
    if slow is not None and usual:
        assert read_plain(query.encode(), "ann") == slow


@given(st.binary(max_size=40))
def test_no_bytes_make_the_quick_reader_fail(query: bytes) -> None:
    read_plain(b"kernel=gemm_u8&param=" + query, "ann")
    read_plain(query, "ann")
