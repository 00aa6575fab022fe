"""What a compiling process can still do once it is confined."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

INTRUDER = """
import ctypes, json, os, pathlib, signal, socket, subprocess, sys, threading
from tuner.codegen.confinement import confine
work, outside, mode = sys.argv[1:]
os.chdir(work)
layers = confine(pathlib.Path("."))
def write(place):
    with open(place, "w") as file:
        file.write("x")
def connect():
    socket.create_connection(("127.0.0.1", 9), timeout=1)
def run_thread():
    ran = []
    thread = threading.Thread(target=lambda: ran.append(1))
    thread.start()
    thread.join()
    assert ran
attempts = {
    "write here": lambda: write("mine"),
    "make a folder here": lambda: os.mkdir("folder"),
    "read": lambda: open("/proc/self/status").read(),
    "run a thread": run_thread,
    "allocate": lambda: bytearray(1 << 26),
    "signal itself": lambda: os.kill(os.getpid(), 0),
    "make a folder outside": lambda: os.mkdir(outside + "/folder"),
    "write outside": lambda: write(outside + "/new"),
    "change outside": lambda: write(outside + "/old"),
    "remove outside": lambda: os.unlink(outside + "/old"),
    "rename outside": lambda: os.rename("mine", outside + "/mine"),
    "open a socket": lambda: socket.socket(),
    "connect": connect,
    "fork": lambda: os.fork() or os._exit(0),
    "run a program": lambda: subprocess.run(["/bin/true"]),
    "become a program": lambda: os.execv("/bin/true", ["true"]),
    "signal its parent": lambda: os.kill(os.getppid(), 0),
    "trace its parent": lambda: ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) and os.kill(1, 0),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
        done.append(name)
    except OSError:
        pass
print(json.dumps({"layers": layers, "done": done}), flush=True)
if mode == "abort":
    os.abort()
"""
NEEDED = [
    "write here",
    "make a folder here",
    "read",
    "run a thread",
    "allocate",
    "signal itself",
]


def confined(tmp_path: Path, mode: str = "") -> tuple[dict[str, list[str]], int]:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (outside / "old").write_text("as it was")
    command = [sys.executable, "-c", INTRUDER, str(work), str(outside), mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert (outside / "old").read_text() == "as it was"
    return found, done.returncode


def test_a_confined_process_can_compute_and_write_in_its_folder_only(tmp_path: Path) -> None:
    found, status = confined(tmp_path)
    assert status == 0
    if sorted(found["layers"]) != ["landlock", "seccomp"]:
        pytest.skip(f"this kernel has only {found['layers']}")
    assert found["done"] == NEEDED


def test_a_confined_process_can_still_abort(tmp_path: Path) -> None:
    _, status = confined(tmp_path, "abort")
    assert status == -6
