"""``doctor``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.cli.statuses import Exit
from tuner import measure
from tuner.codegen.confinement.confine import CHANGE_USER, LAYERS, has
from tuner.errors import UserError
from tuner.machine import doctor


@pytest.mark.slow
def test_doctor_looks_at_every_part(hvxtune, tmp_path):
    findings = {f["name"]: f for f in hvxtune("doctor", "--json").json["findings"]}
    for name in ("python", "halide", "ziglang", "state directory"):
        assert findings[name]["present"], findings[name]
        assert findings[name]["required"]
    assert str(tmp_path / "state") in findings["state directory"]["found"]
    assert all(finding["purpose"] and finding["remedy"] for finding in findings.values())
    # Also what is around processes that read uploads.
    told = findings["confinement"]["found"].split("; ")[0].split(", ")
    assert {"no privileges", "resource limits"} <= set(told) <= set(LAYERS)
    assert ("a user of its own" in told) == has(*CHANGE_USER)


@pytest.mark.slow
def test_doctor_fails_if_a_needed_part_is_missing_and_says_how_to_get_it(hvxtune, monkeypatch):
    python = doctor.examine()[0]
    lost = replace(python, name="halide", present=False, found="missing", remedy="install it")
    monkeypatch.setattr(doctor, "examine", lambda: [python, lost])
    answer = hvxtune("doctor")
    assert answer.status == Exit.MISSING
    assert "MISSING" in answer.out
    assert "halide: install it" in answer.out
    assert hvxtune("doctor", "--json").json["ok"] is False


@pytest.mark.slow
def test_doctor_only_mentions_an_optional_part(hvxtune, monkeypatch):
    python = doctor.examine()[0]
    lost = replace(python, name="psycopg", present=False, required=False)
    monkeypatch.setattr(doctor, "examine", lambda: [python, lost])
    assert hvxtune("doctor").status == 0


def test_a_full_or_closed_state_directory_is_found(hvxtune, bare_state):
    bare_state.write_text("in the way")
    answer = hvxtune("doctor", "--json")
    assert answer.status == Exit.MISSING
    broken = [f["name"] for f in answer.json["findings"] if f["required"] and not f["present"]]
    assert "state directory" in broken


@pytest.mark.slow
def test_doctor_tells_what_runs_each_target_and_what_the_others_would_take(hvxtune, monkeypatch):
    old = UserError("QEMU 7.2 cannot", next_step="build QEMU 8.1")

    def refusals(target):
        return {"qemu": None if target.arch in ("v65", "v66") else old}

    monkeypatch.setattr(measure, "refusals", refusals)
    findings = {f["name"]: f for f in hvxtune("doctor", "--json").json["findings"]}
    runs, compiled = findings["targets"]["found"].split("; ")
    assert runs == "qemu runs hexagon-v65, hexagon-v66, hexagon-v66-sm8150"
    assert compiled.startswith("only compiled: hexagon-v68")
    assert "hexagon-v73" in compiled
    assert compiled.endswith("(for qemu, build QEMU 8.1)")
