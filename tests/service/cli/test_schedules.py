"""``best`` and ``measure``, on stand-ins for compiler and simulator."""

from __future__ import annotations

import pytest

from tuner.identity import digest_of_bytes

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


def test_a_schedule_for_another_target_is_named(hvxtune, tuned):
    missed = hvxtune("best", "scale_u8", "--target", "v73")
    assert missed.status == 3
    assert "targets with one: hexagon-v66" in missed.error_line


def test_best_writes_the_files_a_build_needs(hvxtune, tuned, tmp_path):
    hvxtune("best", "scale_u8", "--object", "k.o", "--header", "k.h", "--schedule", "k.s.h")
    data = (tmp_path / "k.o").read_bytes()
    assert digest_of_bytes(data) == tuned["best"]["object_digest"]
    assert (tmp_path / "k.h").read_bytes() == b"header" + data
    assert (tmp_path / "k.s.h").read_bytes() == b"schedule" + data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.h", "k.o", "k.s.h", "state"]


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


def test_measure_reports_a_bad_candidate(hvxtune, bench):
    bench.broken_everywhere = True
    answer = hvxtune("kernel", "measure", "scale_u8", "--config", "default", "--json")
    assert answer.status == 1
    assert answer.json["outcome"] == "compiler_crash"
    assert answer.json["cycles"] is None
    assert "compiler_crash" in hvxtune("kernel", "measure", "scale_u8", "--config", "default").out


GEMM = ("gemm_u8", "-p", "m=8", "-p", "n=128", "-p", "k=8", "--target", "hexagon-v66")
