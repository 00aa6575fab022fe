"""The layers around the simulator, should a candidate get the better of it: each is tried alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.codegen.toolchain import NativePart, built
from tuner.conformance.patience import PATIENCE_S
from tuner.measure.qemu.device import LAYERS, layers_of, sandbox_bits
from tuner.measure.qemu.simulator import PLUGIN

FOLDER = PLUGIN.sources[0].parent
INTRUDER = """
import ctypes, json, os, resource, socket, sys
sandbox = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
made, parent = sys.argv[2], os.getppid()
def trace():
    if libc.ptrace(16, parent, 0, 0) != 0:
        raise PermissionError
attempts = {
    "read a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "make a file": lambda: os.open(made, os.O_CREAT | os.O_WRONLY),
    "remove a file": lambda: os.unlink(sys.argv[1]),
    "list a folder": lambda: os.listdir("/"),
    "open a socket": lambda: socket.socket(),
    "fork": lambda: os.fork() or os._exit(0),
    "run a program": lambda: os.execv("/bin/true", ["true"]),
    "signal its parent": lambda: os.kill(parent, 0),
    "signal everyone": lambda: os.kill(-1, 0),
    "make a pipe": lambda: os.pipe(),
    "make memory to share": lambda: os.memfd_create("x"),
    "read standard input": lambda: os.read(0, 1),
    "write to standard output": lambda: os.write(1, b"x"),
    "duplicate a descriptor": lambda: os.dup(2),
    "be another user": lambda: os.setuid(1),
    "trace its parent": trace,
    "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)),
}
encode = json.JSONEncoder().encode
sandbox.sandbox_close(bool(int(sys.argv[3])))
done = []
for name, attempt in attempts.items():
    try:
        attempt()
        done.append(name)
    except (OSError, ValueError):
        pass
report = encode({"layers": sandbox.sandbox_layers(), "done": done})
os.write(2, report.encode())
"""


@pytest.fixture(scope="module")
def sandbox() -> Path:
    """The sandbox alone, as a library."""
    part = NativePart(
        "test-sandbox",
        "host",
        (FOLDER / "sandbox.c",),
        headers=(FOLDER / "sandbox.h",),
        flags=("-fvisibility=default",),
    )
    return built(part)


def break_out(
    sandbox: Path, made: Path, user: tuple[str, ...] = (), messages: bool = False
) -> dict[str, object]:
    arguments = [str(sandbox), str(made), str(int(messages))]
    command = [*user, sys.executable, "-I", "-S", "-c", INTRUDER, *arguments]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stderr)
    return found


def test_a_process_in_the_sandbox_can_do_nothing_but_compute(sandbox: Path, tmp_path: Path) -> None:
    found = break_out(sandbox, tmp_path / "made")
    active = layers_of(int(str(found["layers"])))[0]
    assert "seccomp" in active or "landlock" in active
    if "seccomp" in active:
        assert found["done"] == []
    assert not (tmp_path / "made").exists()
    assert sandbox.exists()


def test_one_that_takes_messages_has_standard_input_and_output_beside(
    sandbox: Path, tmp_path: Path
) -> None:
    found = break_out(sandbox, tmp_path / "made", messages=True)
    if "seccomp" in layers_of(int(str(found["layers"])))[0]:
        assert found["done"] == ["read standard input", "write to standard output"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_it_needs_no_privileges(sandbox: Path, tmp_path: Path) -> None:
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all")
    copy = Path("/tmp") / f"sandbox-{os.getpid()}.so"  # noqa: S108 - where anyone can read
    copy.write_bytes(sandbox.read_bytes())
    try:
        found = break_out(copy, tmp_path / "made", user)
    finally:
        copy.unlink()
    assert found["done"] == []


def test_each_layer_is_in_place_or_told_as_refused() -> None:
    active, refused = layers_of(sandbox_bits())
    assert {*active, *refused} == set(LAYERS.values())
    assert "resource limits" in active
    assert "no privileges" in active
