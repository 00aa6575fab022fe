"""Bundles linked into programs by CMake on a machine without a network, and the ways not to."""

from __future__ import annotations

import hashlib
import tarfile
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

from tests.tuner.network.reading.small_graphs import inputs_of
from tests.tuner.network.running.test_steps import expected
from tests.tuner.network.shipping.building import TOP, Project, check, right
from tests.tuner.network.shipping.graphs import GRAPHS
from tuner.errors import UserError
from tuner.jobs.tuning import tune
from tuner.keeping.best import lookup_of
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.network.shipping import Bundle, bundle_of, packed, write
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
HOST = Contract.HOST
COMPLETE = ("residual block", "means", "moves")
"""Graphs that need no function of the program's own."""


@cache
def bundled(name: str) -> Bundle:
    return bundle_of(GRAPHS[name](), name.replace(" ", "_"), target=TARGET)


def checked(name: str) -> str:
    graph = GRAPHS[name]()
    inputs = inputs_of(graph)
    return check(bundled(name), inputs, expected(graph, inputs))


MULTIPLY = """\
int two_branches_layer_mul_1(const uint8_t *operand_0, const uint8_t *operand_1, uint8_t *result) {
    for (int i = 0; i < 1 * 16 * 8 * 8; i++) {
        float sum = (float)((operand_0[i] - 120) * (operand_1[i] - 120));
        float steps = sum * (0.410699993f * 0.410699993f / 6.74697924f);
        steps = steps < -120.0f ? -120.0f : steps > 135.0f ? 135.0f : steps;
        result[i] = (uint8_t)((int)(steps + 12582912.0f - 12582912.0f) + 120);
    }
    return 0;
}
"""
"""As the header says what it computes; the sum of 1.5 * 2**23 rounds halves to even."""


@pytest.mark.slow
def test_bundles_link_into_one_program_and_make_what_the_kernels_do(tmp_path: Path) -> None:
    """Two of them have functions for the same workload, one brings a layer of its own."""
    names = (*COMPLETE, "two branches")
    bundles = [bundled(name) for name in names]
    assert [bundle.outside for bundle in bundles] == [()] * len(COMPLETE) + [
        ("two_branches_layer_mul_1",)
    ]
    calls = "".join(f"    check_{bundle.name}();\n" for bundle in bundles)
    program = TOP + "".join(map(checked, names)) + MULTIPLY
    project = Project(tmp_path)
    project.write(bundles, f"{program}int main(void) {{\n{calls}    return 0;\n}}\n")
    lines = project.output().splitlines()
    assert lines == [line for bundle in bundles for line in right(bundle)]


@pytest.mark.slow
def test_wrong_arguments_are_answers(tmp_path: Path) -> None:
    bundle = bundled("two branches")
    program = (
        TOP
        + checked("two branches")
        + "int two_branches_layer_mul_1(const uint8_t *a, const uint8_t *b, uint8_t *c) {\n"
        "    return a == NULL || b == NULL || c == NULL ? 0 : 7;\n}\n"
        "int main(void) {\n"
        "    const uint8_t *in = two_branches_input;\n"
        "    uint8_t *out = two_branches_output, *arena = two_branches_arena;\n"
        '    told("arena", "at 64", two_branches_run(in, out, arena + 64));\n'
        '    told("arena", "NULL", two_branches_run(in, out, NULL));\n'
        '    told("input", "NULL", two_branches_run(NULL, out, arena));\n'
        '    told("output", "NULL", two_branches_run(in, NULL, arena));\n'
        '    told("layer", "fails", two_branches_run(in, out, arena) - '
        "TWO_BRANCHES_STEP_FAILED);\n"
        "    return 0;\n}\n"
    )
    project = Project(tmp_path)
    project.write([bundle], program)
    steps = bundle.manifest["steps"]
    (failed,) = [n for n, step in enumerate(steps) if step.get("layer") == "mul_1"]
    assert project.output().splitlines() == [
        "arena at 64 1",
        "arena NULL 1",
        "input NULL 2",
        "output NULL 2",
        f"layer fails {failed}",
    ]


@pytest.mark.slow
def test_the_manifest_has_the_digest_and_the_origin_of_everything() -> None:
    bundle = bundled("residual block")
    manifest = bundle.manifest
    files = {path: data for path, data in bundle.files.items() if path != "manifest.json"}
    assert manifest["files"] == {p: hashlib.sha256(d).hexdigest() for p, d in files.items()}
    assert manifest["inputs"][0]["shape"] == [1, 3, 8, 8]
    assert manifest["inputs"][0]["dtype"] == "int8"
    assert manifest["arena"]["bytes"] >= manifest["arena"]["alive_bytes"] > 0
    assert [function["schedule"] for function in manifest["functions"]] == ["textbook"] * 4
    assert all(f["verified"] and f["cycles"] > 0 for f in manifest["functions"])
    assert {f"objects/{f['symbol']}.o" for f in manifest["functions"]} < files.keys()
    assert "halide_error" in manifest["calls"]
    assert not [name for name in manifest["calls"] if name.startswith("residual_block")]
    with tarfile.open(fileobj=BytesIO(packed(bundle))) as archive:
        entries = archive.getmembers()
    assert [entry.name for entry in entries] == [f"residual_block/{p}" for p in bundle.files]
    assert {(entry.mtime, entry.uid, entry.uname) for entry in entries} == {(0, 0, "")}


@pytest.mark.slow
def test_stored_schedules_come_first() -> None:
    store = MemoryStore()
    textbook = bundled("two branches").manifest["functions"]
    workload = next(f for f in textbook if f["kernel"] == "qadd_u8")
    how = {"contract": "host", "generator": "halide", "trials": 2}
    tune("qadd_u8", workload["params"], store=store, **how)
    bundle = bundle_of(GRAPHS["two branches"](), "two_branches", target=TARGET, store=store)
    (stored,) = [f for f in bundle.manifest["functions"] if f["schedule"] == "stored"]
    assert stored["kernel"] == "qadd_u8"
    assert stored["contract"] == "host"
    best = store.best(lookup_of(find_kernel("qadd_u8").problem(workload["params"], HOST, TARGET)))
    assert best is not None
    assert (stored["id"], stored["cycles"]) == (best.public_id, best.measurement.cycles)
    assert stored["artifact"] == best.artifact_digest


@pytest.mark.slow
def test_a_folder_is_replaced_if_it_has_nothing_but_a_bundle(tmp_path: Path) -> None:
    place = tmp_path / "network"
    write(bundled("residual block"), place)
    write(bundled("two branches"), place)
    found = {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}
    assert found == set(bundled("two branches").files)
    (place / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"has other files: notes\.txt"):
        write(bundled("residual block"), place)
    assert (place / "include" / "two_branches.h").exists()
