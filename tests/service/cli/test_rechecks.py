"""``recheck`` and ``ci``: stored bests measured again, and what a project pins beside them."""

from __future__ import annotations

import pytest

from service.cli import rechecking
from service.cli.statuses import Exit
from tuner.jobs import tuning

TUNE = ["tune", "scale_u8", "--trials", "4", "--workers", "1", "--generator", "halide", "--json"]


@pytest.fixture
def tuned(hvxtune, bench, monkeypatch):
    """The bests of two shapes. The tools are those of the stand-ins."""
    monkeypatch.setattr(tuning, "installed_toolchains", lambda: [{"simulator": "1"}])
    return [hvxtune(*TUNE, "-p", f"n={n}").json for n in (512, 1024)]


def recheck(hvxtune, *options):
    answer = hvxtune("schedule", "recheck", *options, "--json")
    return answer, {row["params"]["n"]: row for row in answer.json["schedules"]}


def test_gains_and_losses_are_told(hvxtune, bench, tuned, monkeypatch):
    cycles = {n: one["best"]["cycles"] for n, one in zip((512, 1024), tuned, strict=True)}
    by_default = bench.cycles
    measured = iter([0.9, 1.1])
    bench.cycles = lambda text: int(by_default(text) * next(measured))
    answer, rows = recheck(hvxtune)
    assert answer.status == 0
    assert answer.json["counts"] == {"gain": 1, "loss": 1, "same": 0, "failed": 0, "not here": 0}
    for row in rows.values():
        assert row["cycles_before"] == cycles[row["params"]["n"]]
        assert row["change"] == round(row["cycles"] / row["cycles_before"] - 1, 4)
    again = hvxtune("schedule", "recheck")
    assert again.status == 0, again.err
    shown = again.out
    assert "gain" in shown
    assert "loss" in shown
    assert "2 schedules: 1 gain, 1 loss (model cycles)" in shown
    stored = hvxtune("best", "scale_u8", "-p", "n=512", "--json").json
    assert stored["cycles"] == cycles[512], "the database does not change"


def test_a_recheck_goes_on_where_it_was_stopped(hvxtune, bench, tuned, monkeypatch):
    measured = []
    row = rechecking._row

    def counted(schedule, lookup):
        if len(measured) == 1 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        measured.append(schedule.public_id)
        return row(schedule, lookup)

    stopped: list[bool] = []
    monkeypatch.setattr(rechecking, "_row", counted)
    assert hvxtune("schedule", "recheck", "--json").status == Exit.INTERRUPTED
    answer, _rows = recheck(hvxtune)
    assert answer.json["counts"]["same"] == 2
    assert len(set(measured)) == len(measured) == 2, "none is measured twice"
    assert hvxtune("schedule", "recheck", "--json").json == answer.json
    assert len(measured) == 2
    recheck(hvxtune, "--again")
    assert len(measured) == 4
    monkeypatch.setattr(tuning, "installed_toolchains", lambda: [{"simulator": "2"}])
    recheck(hvxtune, "--kernel", "scale_u8")
    assert len(measured) == 6, "other tools"
    assert recheck(hvxtune, "--kernel", "add_u8")[1] == {}


@pytest.fixture
def pinned(hvxtune, tuned):
    for n in (512, 1024):
        assert hvxtune("fetch", "scale_u8", "-p", f"n={n}", "--name", f"s{n}").status == 0


def test_a_pin_slower_than_what_is_stored_fails(hvxtune, pinned, tmp_path):
    lock = tmp_path / "hvxtune.lock"
    (row,) = (
        row for row in hvxtune("schedule", "ci", "--json").json["pins"] if row["name"] == "s512"
    )
    best = row["best_cycles"]
    slower = best + best // 20
    lock.write_text(lock.read_text().replace(f"cycles = {best}\n", f"cycles = {slower}\n", 1))
    answer = hvxtune("schedule", "ci", "--json")
    assert answer.status == Exit.FAILED
    (worse,) = (row for row in answer.json["pins"] if row["verdict"] == "slower")
    assert (worse["pinned_cycles"], worse["change"]) == (slower, round(slower / best - 1, 4))
    shown = hvxtune("schedule", "ci")
    assert "1 of 2 pins are slower" in shown.out
    assert f"{slower:,}" in shown.out
    for tolerance in ("6%", "6"):
        assert hvxtune("schedule", "ci", "--tolerance", tolerance).status == 0
    updated = hvxtune("fetch", "--update", "--json").json["pins"]
    assert [one["name"] for one in updated] == ["s1024", "s512"]
    assert sorted(one["cycles"] == one["cycles_before"] for one in updated) == [False, True]
    assert hvxtune("schedule", "ci").status == 0


def test_a_pin_without_anything_to_compare_is_not_passed(hvxtune, pinned, tmp_path, monkeypatch):
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "another"))
    monkeypatch.setenv("HVXTUNE_DATABASE_URL", f"sqlite:///{tmp_path}/another.sqlite")
    answer = hvxtune("schedule", "ci", "--json")
    assert answer.status == Exit.NOT_STORED
    assert {row["verdict"] for row in answer.json["pins"]} == {"not stored"}


def test_a_lock_file_that_is_empty_or_missing_is_said(hvxtune, bench, tmp_path):
    answer = hvxtune("schedule", "ci")
    assert answer.status == Exit.USAGE
    assert "hvxtune.lock: no such file" in answer.error_line
    (tmp_path / "hvxtune.lock").write_text("version = 1\n")
    for command in (["schedule", "ci"], ["fetch", "--update"]):
        answer = hvxtune(*command)
        assert answer.status == Exit.NOT_STORED
        assert "hvxtune.lock pins nothing" in answer.error_line
