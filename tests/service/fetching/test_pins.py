"""The lock file: readable, stable, mergeable, and refused if it is not right."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from service.fetching.pins import FunctionPin, NetworkPin, Pin, read_pins, write_pins
from tuner.errors import UserError

PIN = Pin(
    kernel="gemm_u8",
    params={"m": 64, "n": 128, "k": 64},
    target="hexagon-v66",
    contract="static",
    schedule="1rt4jc669a-1",
    symbol="gemm_u8_m64_n128_k64_static",
    object="a" * 64,
    header="b" * 64,
    cycles=3210,
    fidelity="model",
    cache="warm",
)

FUNCTION = FunctionPin(
    kernel="qadd_u8",
    params={"height": 8, "width": 64},
    workload="c" * 64,
    contract="host",
    schedule="1rt4jc669a-2",
    symbol="qadd_u8_height8_width64_host",
    object="d" * 64,
    cycles=120,
    fidelity="model",
    generator="halide",
    config={"tile_x": 128, "stage.1": "on"},
    toolchain={"llvm": "21.1", "timing model": "7"},
)
NETWORK = NetworkPin(
    network="e" * 64,
    target="hexagon-v66",
    bundle="f" * 64,
    made_with={"hvxtune": "0.2.0", "linker": "zig 0.15"},
    functions=(FUNCTION, replace(FUNCTION, config={})),
)


def test_it_reads_what_it_wrote(tmp_path):
    lock = tmp_path / "hvxtune.lock"
    pins = {"gemm": PIN, "blur": replace(PIN, kernel='odd "name" \\ é'), "model": NETWORK}
    write_pins(lock, pins)
    assert read_pins(lock) == pins


def test_two_branches_that_pin_different_things_merge(tmp_path):
    base = {"b": PIN, "m": PIN, "t": PIN}
    ours = {**base, "b": replace(PIN, schedule="new-1", cycles=1), "c": PIN}
    theirs = {**base, "t": replace(PIN, schedule="new-2", cycles=2), "z": NETWORK}
    for name, pins in (("base", base), ("ours", ours), ("theirs", theirs)):
        write_pins(tmp_path / name, pins)
    merging = ["git", "merge-file", "-p", "ours", "base", "theirs"]
    merged = subprocess.run(merging, cwd=tmp_path, capture_output=True)
    assert merged.returncode == 0
    (tmp_path / "merged").write_bytes(merged.stdout)
    assert read_pins(tmp_path / "merged") == {**ours, "t": theirs["t"], "z": NETWORK}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version = 1", "version = 2"),
        ("[gemm]", "[gemm"),
        ("cycles = 3210\n", ""),
        ("cycles = 3210", "cycles = 3210\nmore = 1"),
        ("a" * 64, "../" + "a" * 61),
        ("m = 64", 'm = "64"'),
        ("gemm_u8_m64_n128_k64_static", "x(); evil"),
        ("\n[gemm]", "\n<<<<<<< HEAD\n[gemm]"),
    ],
)
def test_what_is_no_lock_file_is_refused_by_name(tmp_path, old, new):
    lock = tmp_path / "hvxtune.lock"
    write_pins(lock, {"gemm": PIN})
    text = lock.read_text()
    assert old in text
    lock.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=r"hvxtune\.lock is not a lock file"):
        read_pins(lock)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[[model.functions]]", "[[model.others]]"),
        ("sha256:f", "../f"),
        ("tile_x = 128", "tile_x = [128]"),
        ('llvm = "21.1"', 'llvm = "a\\nb"'),
        ("cycles = 120\n", ""),
        ("qadd_u8_height8_width64_host", "a b"),
    ],
)
def test_what_is_no_pin_of_a_network_is_refused_by_name(tmp_path, old, new):
    lock = tmp_path / "hvxtune.lock"
    write_pins(lock, {"model": NETWORK})
    text = lock.read_text()
    assert old in text
    lock.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=r"hvxtune\.lock is not a lock file: \[model\] "):
        read_pins(lock)
