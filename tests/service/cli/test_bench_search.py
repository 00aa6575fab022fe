"""``hvxtune search bench``: figures as text and JSON, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

TABLES = sorted((Path(__file__).parents[3] / "benchmarks" / "tables").glob("*.jsonl.gz"))


def bench(hvxtune, *arguments):
    return hvxtune(
        "search", "bench", "--samplers", "random,tpe", "--seeds", "2", "--workers", "1", *arguments
    )


@pytest.mark.slow
def test_prints_figures_for_each_table_and_for_all(hvxtune):
    shown = bench(hvxtune, "--tables", str(TABLES[0]))
    assert shown.status == 0
    assert "at 100 trials" in shown.out
    told = bench(hvxtune, "--json", "--starts", "--tables", str(TABLES[0])).json
    [table] = told["tables"]
    assert table["configs"] >= 500
    assert {r["sampler"] for r in told["samplers"]} == {"random", "tpe"}
    assert told["left_out"] == {}
    assert {p["trials"] for p in told["pairs"]} == {20, 50, 100, 200}
    assert all(p["interval"][0] <= p["ratio"] <= p["interval"][1] for p in told["pairs"])
    for result in told["samplers"]:
        assert [f["trials"] for f in result["figures"]] == [20, 50, 100, 200]
        assert all(1 <= f["interval"][0] <= f["geometric_mean"] for f in result["figures"])
        assert all(f["geometric_mean"] <= f["worst"] for f in result["figures"])


def test_every_stored_table_says_what_it_holds():
    from benchmarks.search.tables import read_table

    assert TABLES
    for path in TABLES:
        table = read_table(path)
        assert path.name == f"{table.name}.jsonl.gz"
        assert table.notes["fidelity"] == "model"
        assert table.notes["toolchain"]
        assert len(table.rows) == table.notes.get("sampled", {}).get("rows", len(table.rows))
        assert len(table.rows) >= 500
