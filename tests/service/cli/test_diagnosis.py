"""``doctor``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.cli.statuses import Exit
from tuner import measure
from tuner.codegen.confinement.confine import CHANGE_USER, LAYERS, has
from tuner.errors import UserError
from tuner.machine import doctor
from tuner.measure.finding import Finding


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


def test_doctor_fails_if_a_needed_part_is_missing_and_says_how_to_get_it(hvxtune, monkeypatch):
    lost = Finding("halide", False, "missing", "making code", "install it")
    monkeypatch.setattr(doctor, "examine", lambda: [lost])
    answer = hvxtune("doctor")
    assert answer.status == Exit.MISSING
    assert "MISSING" in answer.out
    assert "halide: install it" in answer.out
    assert hvxtune("doctor", "--json").json["ok"] is False
    monkeypatch.setattr(doctor, "examine", lambda: [replace(lost, required=False)])
    assert hvxtune("doctor").status == 0


def test_a_full_or_closed_state_directory_is_found(hvxtune, bare_state):
    bare_state.write_text("in the way")
    answer = hvxtune("doctor", "--json")
    assert answer.status == Exit.MISSING
    broken = [f["name"] for f in answer.json["findings"] if f["required"] and not f["present"]]
    assert "state directory" in broken


@pytest.mark.slow
def test_doctor_tells_what_each_target_can_do_and_what_brings_the_rest(hvxtune, monkeypatch):
    old = UserError("QEMU 7.2 cannot", next_step="build QEMU 8.1")

    def refusals(target):
        phone = None if target.soc == "sm8750" else UserError("no such phone")
        return {"qemu": None if target.arch in ("v65", "v66") else old, "farm": phone}

    monkeypatch.setattr(measure, "refusals", refusals)
    findings = {f["name"]: f for f in hvxtune("doctor", "--json").json["findings"]}
    told = findings["targets"]["found"]
    assert told.startswith("can be measured: v65 (qemu), v66 (qemu), v79 (farm); ")
    compiled, simulated, phone = findings["hexagon-v73"]["found"].split("; ")
    assert compiled == "compile: yes (Halide's is v68 code)"
    assert simulated == "simulate: no (run `hvxtune setup --target v73`)"
    assert phone == "phone: no (name one in the farm file, docs/devices.md)"
    assert "`hvxtune setup --target v73`" in findings["hexagon-v73"]["remedy"]
    assert not findings["hexagon-v73"]["present"]
    assert findings["hexagon-v66"]["present"]
    assert "simulate: qemu" in findings["hexagon-v66"]["found"]
    newer = findings["hexagon-v79"]
    assert "no QEMU built here runs it" in newer["found"]
    assert "phone: yes" in newer["found"]
