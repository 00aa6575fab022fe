"""What processes with untrusted work can still do: each role, as root and as an ordinary user."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuner.codegen.confinement import intruder
from tuner.codegen.confinement import COMPILER, PROGRAM, PROGRAMS, READER, ROLES, Role
from tuner.codegen.confinement.confine import (
    CHANGE_USER,
    COUNTED,
    DAC_READ_SEARCH,
    LAYERS,
    LAYERS_OF_ROOT,
    OWN_USER,
    has,
)
from tuner.codegen.confinement.landlock import version as landlock_version
from tuner.codegen.confinement.roles import NUMBERS
from tuner.conformance.patience import PATIENCE_S

ROOT = has(*CHANGE_USER)
USERS = ("root", "ordinary") if ROOT else ("ordinary",)
REFUSALS = {errno.EPERM, errno.ENOSYS}
BY_PATH = REFUSALS | {errno.EACCES, errno.ENOENT, errno.EXDEV}
"""Of what a role may do with files of its own: not theirs, or not even seen in its root."""
HIGHEST_CALL = 470
"""Linux 6.18 has none behind it."""
PROBES = (335, 336)
"""uretprobe and uprobe pass any filter: not made by a probe they are illegal instructions."""
TELLING = 777
"""An error number that no system call has."""

pytestmark = [
    pytest.mark.skipif(
        platform.machine() not in NUMBERS, reason="the table of system calls lacks this machine"
    ),
    pytest.mark.skipif(not landlock_version(), reason="this kernel has no landlock"),
]
OVERFLOW_GROUP = int(Path("/proc/sys/kernel/overflowgid").read_text())
ORDINARY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if ROOT else {}


@pytest.fixture
def victim(user: str) -> Iterator[psutil.Process]:
    """Another process, of the user that the confined one was."""
    whose = ORDINARY if user == "ordinary" else {}
    with subprocess.Popen(["sleep", "600"], **whose) as process:
        yield psutil.Process(process.pid)
        process.kill()


def outside_of(folder: Path) -> dict[str, Any]:
    """All that an intruder might change in the folder beside its own."""
    old = folder / "outside/old"
    seen = os.stat(old)
    return {
        "files": sorted(os.listdir(folder / "outside")),
        "content": old.read_text(),
        "attributes": {name: os.getxattr(old, name) for name in os.listxattr(old)},
        "what it is": (seen.st_mode, seen.st_size, seen.st_nlink, seen.st_mtime_ns),
    }


def standing_of(victim: psutil.Process) -> dict[str, Any]:
    """All that an intruder might change of another process."""
    return {
        "limits": Path(f"/proc/{victim.pid}/limits").read_text(),
        "nice": victim.nice(),
        "processors": victim.cpu_affinity(),
        "input and output": victim.ionice(),
        "policy": os.sched_getscheduler(victim.pid),
        "status": victim.status() == psutil.STATUS_ZOMBIE,
    }


def places(tmp_path: Path) -> Path:
    """A folder to work in, and one beside it."""
    for name in ("work", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "work/given").write_text("given")
    old = tmp_path / "outside/old"
    old.write_text("as it was")
    old.chmod(0o666)
    return tmp_path / "work"


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_confined_process_reaches_nothing_but_its_own(
    role: Role, user: str, tmp_path: Path, victim: psutil.Process
) -> None:
    work = places(tmp_path)
    before = outside_of(tmp_path), standing_of(victim), platform.node()
    command = [sys.executable, "-m", intruder.__name__, role.name, user, str(victim.pid)]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, cwd=work, env=environment, capture_output=True, timeout=PATIENCE_S
    )
    assert done.stdout, done.stderr.decode()
    found = json.loads(done.stdout)
    require_layers(found, role, user)
    require_limits(found["limits"], role, user)
    require_refusals(found, role)
    assert (outside_of(tmp_path), standing_of(victim), platform.node()) == before
    assert done.returncode == -signal.SIGABRT, "what fails badly must be able to abort"


@cache
def namespaces_of_users() -> bool:
    """Whether an ordinary user may make one here."""
    return subprocess.run(["unshare", "--user", "true"], check=False, **ORDINARY).returncode == 0


def require_layers(found: Mapping[str, Any], role: Role, user: str) -> None:
    expected = set(LAYERS) - set(LAYERS_OF_ROOT)
    if user == "root":
        expected |= {OWN_USER} if role.becomes_program else set(LAYERS_OF_ROOT)
    if role.starts_programs and (user == "root" or namespaces_of_users()):
        expected.add(COUNTED)
    assert set(found["layers"]) == expected
    assert len(set(found["user"])) == 1
    assert (found["user"][0] > 0x70000000) == (user == "root")
    # Processes of other containers have the same ids, and are counted by user with these.
    assert found["user"][0] != 0x70000000 + found["process"]
    # Only root can shed groups; in a namespace an ordinary user's own reads as the overflow group.
    assert set(found["groups"]) <= (set() if ROOT else {*os.getgroups(), OVERFLOW_GROUP})
    # Only root enters the folder of pytest's that all this is in; landlock says what is read.
    reads_all = 1 << DAC_READ_SEARCH if user == "root" and role.becomes_program else 0
    assert found["capabilities"] == [reads_all, reads_all], "effective and permitted"
    assert found["dumpable"] == 0
    works = {"read here", "write here"} if role.makes_files else set()
    assert {name for name, done in found["files"].items() if done} == works


def require_limits(limits: Mapping[str, int], role: Role, user: str) -> None:
    assert 0 < limits["AS"] < 1 << 40
    assert limits["CPU"] == intruder.LIMITS.cpu_s
    assert limits["FSIZE"] == intruder.LIMITS.file_bytes
    assert limits["CORE"] == 0
    assert limits["NOFILE"] == role.descriptors
    if user == "root" or (role.starts_programs and namespaces_of_users()):
        assert limits["NPROC"] == role.processes


def require_refusals(found: Mapping[str, Any], role: Role) -> None:
    only_for_code = set(intruder.on_memory())
    allowed = only_for_code if role in (PROGRAM, PROGRAMS) else set()
    if role == PROGRAMS:
        allowed |= {"fork", "clone of a process"}
    reached = {
        name: os.strerror(number)
        for name, number in found["attempts"].items()
        if name not in allowed
        and number not in (BY_PATH if name.split()[0] in role.calls else REFUSALS)
    }
    assert reached == {}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_no_system_call_passes_that_a_role_does_not_list(role: Role) -> None:
    """Every number there is, made with arguments that no call takes; the filter's answer is one
    that only it gives."""
    program = f"""
import ctypes, json, os
from tuner.conformance.patience import PATIENCE_S
from tuner.codegen.confinement.roles import ROLES
from tuner.conformance.patience import PATIENCE_S
from tuner.codegen.confinement.roles import NUMBERS, Filter
role = next(role for role in ROLES if role.name == {role.name!r})
listed = {{NUMBERS[os.uname().machine][name] for name in role.calls}}
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
assert Filter.made(role.calls, {TELLING}).install()
answers = {{}}
for number in range({HIGHEST_CALL} + 1):
    if number not in listed and number not in {PROBES}:
        ctypes.set_errno(0)
        libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
        answers[number] = ctypes.get_errno()
os.write(1, json.dumps(answers).encode())
libc.syscall(ctypes.c_long(0x40000000 + 39))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE_S)
    answers = {int(number): error for number, error in json.loads(done.stdout).items()}
    assert len(answers) > HIGHEST_CALL - len(role.calls) - len(PROBES)
    clone3 = answers.pop(435)
    assert clone3 == errno.ENOSYS
    assert set(answers.values()) == {TELLING}
    assert done.returncode == -signal.SIGSYS, "the x32 interface has the same calls once more"


def test_roles_that_read_uploads_open_no_file_start_nothing_and_run_no_code_of_theirs() -> None:
    never = {"execve", "execveat", "fork", "vfork", "clone", "socket", "ptrace", "memfd_create"}
    for role in (READER, COMPILER):
        assert not never & set(role.calls)
    opens = {"open", "openat", "openat2", "creat", "open_by_handle_at"}
    assert not opens & set(READER.calls)
    for role in (READER, COMPILER):
        assert role.calls["mmap"]
        assert role.calls["mprotect"]


FORKS = """
import os, sys, time
from pathlib import Path
from tuner.conformance.patience import PATIENCE_S
from tuner.codegen.confinement import PROGRAMS, Limits, Program, confine
if sys.argv[1] == "ordinary" and os.geteuid() == 0:
    from tests.tuner.codegen.confinement.intruder import be_ordinary
    be_ordinary()
program = Program(Path("/bin/sh").resolve())
layers = confine(PROGRAMS, Path("."), Limits(1 << 28, 20, 1 << 16), program).seal()
started = 0
try:
    while "a limit of processes" in layers and started < 1000:
        if os.fork() == 0:
            time.sleep(600)
        started += 1
except BlockingIOError:
    pass
os.write(1, str(started).encode())
time.sleep(600)
"""


@pytest.mark.parametrize("user", USERS)
def test_programs_that_start_others_start_no_more_than_their_role_has(
    user: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", FORKS, user]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    forker = subprocess.Popen(
        command,
        cwd=places(tmp_path),
        env=environment,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert forker.stdout is not None
        started = int(os.read(forker.stdout.fileno(), 10))
    finally:
        os.killpg(forker.pid, signal.SIGKILL)
        forker.communicate()
    if user == "root" or namespaces_of_users():
        assert started == PROGRAMS.processes - 1


@pytest.mark.skipif(not ROOT, reason="for root only is there another user to become")
def test_a_program_in_a_folder_closed_to_others_runs_and_reads_no_more_than_it_was_given(
    tmp_path: Path,
) -> None:
    """As a virtual environment in /root is."""
    work = places(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o700)
    cat = shutil.copy("/bin/cat", tmp_path / "closed")
    program = f"""
import os
from pathlib import Path
from tuner.conformance.patience import PATIENCE_S
from tuner.codegen.confinement import PROGRAMS, Limits, Program, confine
system = tuple(map(Path, ("/usr", "/lib", "/lib64")))
program = Program(Path({cat!r}), system)
confine(PROGRAMS, Path("."), Limits(1 << 28, 20, 1 << 16), program).seal()
os.execv({cat!r}, ["cat", "given", "{tmp_path}/outside/old", "/etc/shadow", "/etc/passwd"])
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=work, capture_output=True, text=True)
    assert done.stdout == "given"
    assert done.stderr.count("Permission denied") == 3, done.stderr
