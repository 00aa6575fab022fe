"""Tables: what is read and refused, the spaces they stand for, and searches replayed on them."""

from __future__ import annotations

import gzip
import json

import pytest

from benchmarks.search.comparison import BUDGETS, Comparison, compare
from benchmarks.search.replay import replay
from benchmarks.search.tables import Row, Table, read_table, write_table
from tests.tuner.space.test_space import TILING
from tuner.errors import UserError
from tuner.records.outcome import Outcome
from tuner.search.samplers import sampler_names

HEADER = {"table": "small", "knobs": {"tile": [1, 2, 4], "form": ["a", "b"]}, "objective": "cycles"}


def written(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def row(cycles, **config):
    return {"config": config, "outcome": "ok", "cycles": cycles}


def cycles_of(config):
    return 100 * config["tile"] + 7 * len(config) + (config["form"] == "plain")


def tiling_table(fails=lambda config: False):
    """The space ``TILING`` as a table: conditional knobs, constraints, some configs that fail."""
    rows = tuple(
        Row(c, Outcome.WRONG_OUTPUT, None) if fails(c) else Row(c, Outcome.OK, cycles_of(c))
        for c in TILING
    )
    knobs = {knob.name: knob.choices for knob in TILING.knobs}
    return Table("tiling", knobs, rows, (rows[3].config,), {"toolchain": {"llvm": "21"}})


@pytest.mark.parametrize("name", ["table.jsonl.gz"])
def test_what_is_written_is_read_again(tmp_path, name):
    table = tiling_table()
    write_table(tmp_path / name, table)
    found = read_table(tmp_path / name)
    assert found == table
    assert (tmp_path / name).read_bytes()[:2] == (b"\x1f\x8b" if name.endswith("gz") else b'{"')
    once = (tmp_path / name).read_bytes()
    write_table(tmp_path / name, table)
    assert (tmp_path / name).read_bytes() == once


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "is empty"),
        ([{**HEADER, "knobs": {"tile": [2, 1]}}], "line 1: knob tile: integer choices must rise"),
        ([{**HEADER, "starts": [{"tile": 2}]}, row(3, tile=1)], "starts has no row"),
        ([HEADER, row(3, tile=3)], "line 2: tile=3 is none of the header's values"),
        ([HEADER, row(3, tile=1), row(4, tile=1)], "line 3: the config has a row already"),
        ([HEADER, row(3, tile=1), row(3, tile=1, form="a")], "before form, some have it"),
    ],
)
def test_bad_tables_are_refused_by_line(tmp_path, lines, complaint):
    with pytest.raises(UserError, match=complaint) as refusal:
        read_table(written(tmp_path / "t", *lines))
    assert refusal.value.accepted


def test_damaged_and_missing_files_are_refused(tmp_path):
    whole = gzip.compress(json.dumps(HEADER).encode())
    (tmp_path / "cut.gz").write_bytes(whole[:-12])
    (tmp_path / "noise").write_bytes(b"\xff\xfe\x00")
    for name in ("cut.gz", "noise", "none"):
        with pytest.raises(UserError, match=name):
            read_table(tmp_path / name)


@pytest.mark.parametrize("sampler", [name for name in sampler_names() if name != "cmaes"])
@pytest.mark.parametrize("in_flight", [3])
def test_a_replay_ends_at_the_optimum_when_the_space_is_through(sampler, in_flight):
    table = tiling_table(fails=lambda c: c["tile"] == 4)
    run = replay(table, sampler, 1, trials=200, in_flight=in_flight)
    assert len(run.best) == len(table.rows)
    assert run.at(200) == 1.0
    assert list(run.best) == sorted(run.best, reverse=True)


@pytest.mark.slow
def test_all_samplers_have_the_same_tables_and_seeds(tmp_path):
    write_table(tmp_path / "t.jsonl", tiling_table())
    *runs, found = compare([tmp_path / "t.jsonl"], ["random", "brute"], seeds=2, workers=2)
    assert isinstance(found, Comparison)
    assert [(r.sampler, r.seed) for r in runs] == [
        ("random", 0), ("random", 1), ("brute", 0), ("brute", 1),
    ]  # fmt: skip
    assert [f.trials for f in found.overall()[0].figures] == list(BUDGETS)
    with pytest.raises(UserError, match="two tables are called 'tiling'"):
        next(compare([tmp_path / "t.jsonl"] * 2, ["random"], seeds=1, workers=1))
