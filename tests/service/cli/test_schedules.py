"""``best`` and ``measure``, on stand-ins for compiler and simulator."""

from __future__ import annotations

import json

import pytest

from db import open_store
from service.cli.schedules import write_file
from service.cli.statuses import Exit
from tests.service.stored import store_doubted
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.search.doubt import NO_COUNTS, Unknown

TUNE = ["tune", "scale_u8", "--trials", "8", "--workers", "1", "--json"]


@pytest.fixture
def tuned(hvxtune, bench):
    return hvxtune(*TUNE).json


def test_best_gives_what_tune_found(hvxtune, tuned):
    best = hvxtune("best", "scale_u8", "--json").json
    for field in ("config", "cycles", "packets", "verified", "object_digest"):
        assert best[field] == tuned["best"][field]
    assert best["kernel"] == "scale_u8"
    assert best["params"] == {"h": 4, "n": 512}
    assert best["contract"] == "static"
    assert best["target"] == "hexagon-v66"
    assert best["fidelity"] == "model"
    assert best["provenance"]["job"] == tuned["job"]
    assert best["provenance"]["toolchain"]["generator"] == "stand-in"


def test_best_writes_the_files_a_build_needs(hvxtune, tuned, tmp_path):
    hvxtune("best", "scale_u8", "--object", "k.o", "--header", "k.h", "--schedule", "k.s.h")
    data = (tmp_path / "k.o").read_bytes()
    assert digest_of_bytes(data) == tuned["best"]["object_digest"]
    assert (tmp_path / "k.h").read_bytes() == b"header" + data
    assert (tmp_path / "k.s.h").read_bytes() == b"schedule" + data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.h", "k.o", "k.s.h", "state"]


def test_a_file_that_cannot_be_written_is_named(hvxtune, tuned):
    answer = hvxtune("best", "scale_u8", "--object", "nowhere/k.o")
    assert answer.status == 2
    assert "nowhere/k.o" in answer.error_line


def test_best_knows_only_what_was_tuned(hvxtune, tuned):
    other = hvxtune("best", "scale_u8", "-p", "n=256", "--contract", "host")
    assert other.status == Exit.NOT_STORED
    assert "scale_u8 -p h=4 -p n=256 --target hexagon-v66 --contract host" in other.error_line


@pytest.mark.parametrize("name", ["default", "textbook"])
def test_measure_agrees_with_tune(hvxtune, bench, name):
    tuned = hvxtune(*TUNE, "--generator", "halide").json
    measured = hvxtune("kernel", "measure", "scale_u8", "--config", name, "--json").json
    for field in ("config", "cycles", "packets", "verified"):
        assert measured[field] == tuned[name][field]


def test_measure_takes_what_best_prints(hvxtune, tuned, tmp_path):
    (tmp_path / "best.json").write_text(hvxtune("best", "scale_u8", "--json").out)
    measured = hvxtune("kernel", "measure", "scale_u8", "--config", "best.json", "--json").json
    assert measured["config"] == tuned["best"]["config"]
    assert measured["cycles"] == tuned["best"]["cycles"]


def test_measure_takes_plain_knobs(hvxtune, bench, tmp_path):
    config = {"vectors": 3, "unroll_rows": 6, "behave": "well"}
    (tmp_path / "knobs.json").write_text(json.dumps(config))
    assert (
        hvxtune("kernel", "measure", "scale_u8", "--config", "knobs.json", "--json").json["config"]
        == config
    )


def test_measure_reports_a_bad_candidate(hvxtune, bench):
    bench.broken_everywhere = True
    answer = hvxtune("kernel", "measure", "scale_u8", "--config", "default", "--json")
    assert answer.status == 1
    assert answer.json["outcome"] == "compiler_crash"
    assert answer.json["cycles"] is None
    assert "compiler_crash" in hvxtune("kernel", "measure", "scale_u8", "--config", "default").out


def test_measure_stores_nothing(hvxtune, bench):
    hvxtune("kernel", "measure", "scale_u8", "--config", "default")
    assert hvxtune("jobs", "--json").json == {"jobs": [], "batches": []}


def test_a_schedule_file_that_is_not_there_is_found_with_halide(tmp_path):
    with pytest.raises(UserError, match=r"no schedule.*accepted: object.*generator halide"):
        write_file(tmp_path / "x.h", {"object": b""}, "schedule")
    assert not list(tmp_path.iterdir())


GEMM = ("gemm_u8", "-p", "m=8", "-p", "n=128", "-p", "k=8", "--target", "hexagon-v66")


def test_best_says_which_assumed_cost_it_hangs_on(hvxtune):
    with open_store() as store:
        job = store_doubted(store)
    text = " ".join(hvxtune("best", *GEMM).out.split())  # however wide the terminal is
    told = hvxtune("best", *GEMM, "--json").json["doubt"]
    assert f" {told['sentence']} config " in text
    assert "trial 1 is up to 36 % faster if l2_access is above 0.2 model cycles" in text
    assert told["sentence"] in " ".join(hvxtune("show", job).out.split())
    assert hvxtune("show", job, "--json").json["doubt"] == told


def test_show_tells_the_robust_choice_of_a_job_and_what_best_answers(hvxtune):
    with open_store() as store:
        job = store_doubted(store, prefer="robust")
    text = " ".join(hvxtune("show", job).out.split())
    assert "best found 1,000" in text
    assert "`best` answers it unless another job stored a schedule of fewer model cycles" in text
    assert hvxtune("show", job, "--json").json["best"]["trial"] == 1


def test_best_of_trials_without_counted_events_says_nothing_of_doubt(hvxtune):
    with open_store() as store:
        store_doubted(store, counts=(None, None))
    assert "plausible" not in hvxtune("best", *GEMM).out
    assert hvxtune("best", *GEMM, "--json").json["doubt"] == Unknown(NO_COUNTS).as_dict()
