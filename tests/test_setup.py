"""Set-up: what is pinned is what `pyproject.toml` asks for, and old machines are told why not."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {name: (ROOT / ".ci" / "lock" / f"{name}.txt").read_text() for name in ("runtime", "dev")}


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", LOCKS[lock], re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_is_pinned_and_hashed(lock):
    entries = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", LOCKS[lock], flags=re.MULTILINE))
    assert len(entries) > 20
    assert [e for e in entries if not re.match(r"[\w.-]+==\S+ ;.*\\\n +--hash=sha256:", e)] == []


@pytest.mark.parametrize(
    ("locks", "wanted"),
    [
        (["runtime"], PROJECT["project"]["dependencies"]),
        (LOCKS, PROJECT["dependency-groups"]["dev"]),
    ],
)
def test_locks_have_what_the_project_asks_for(locks, wanted):
    pinned = {name: version for lock in locks for name, version in pins(lock).items()}
    for requirement in map(Requirement, wanted):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not locked: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement} is locked to {version}"


def test_no_package_is_in_both_locks():
    """Two pips install them at once."""
    assert not pins("runtime").keys() & pins("dev").keys()


@pytest.mark.parametrize(
    ("version", "machine", "said"),
    [
        ((3, 10), "x86_64", "Python 3.10 found. accepted: 3.11 or newer"),
        ((3, 12), "aarch64", "Linux aarch64 found. accepted: Linux x86_64"),
        ((3, 12), "x86_64", ""),
        ((3, 14), "x86_64", ""),
    ],
)
def test_a_machine_that_cannot_work_is_told_why(monkeypatch, version, machine, said):
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    monkeypatch.setattr("platform.machine", lambda: machine)
    complaint = runpy.run_path(str(ROOT / ".ci" / "check_machine.py"))["complaint"]()
    assert complaint.startswith(said)
    assert bool(complaint) == bool(said)


_NEW_PYTHON = """#!/bin/sh
exec {python} -I -S -c 'import runpy, sys
sys.version_info = (3, 14, 0, "final", 0)
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
"""
_APT = """#!/bin/sh
for word; do case $word in
indextargets) echo "https://mirror.invalid/ newer main $DISTRIBUTION";;
download) cp {offered}/* .; cat ../sources.list >>{log};;
esac; done
"""


class TooNew:
    """A machine whose Python is too new, with stand-ins for apt and for what apt offers."""

    def __init__(self, folder: Path) -> None:
        self.ci, self.cache, self.log = folder / ".ci", folder / "cache", folder / "log"
        shutil.copytree(ROOT / ".ci", self.ci)
        (folder / "tuner").symlink_to(ROOT / "tuner")
        (offered := folder / "offered").mkdir()
        (programs := folder / "bin").mkdir()
        contents = {
            "python9": {"usr/bin/python9": f'#!/bin/sh\nexec {sys.executable} "$@"\n'},
            "patchelf": {"usr/bin/patchelf": "#!/bin/sh\n"},
            "libpython9": {
                "usr/lib/python3.9/_sysconfigdata_x.py": "{'WHEEL_PKG_DIR': "
                "'/usr/share/python-wheels/'}"
            },
        }
        pins = {name: self._packed(offered, name, files) for name, files in contents.items()}
        self.pin(pins)
        for name, text in {
            "python3": _NEW_PYTHON.format(python=sys.executable),
            "apt-get": _APT.format(offered=offered, log=self.log),
            "dpkg-deb": '#!/bin/sh\ntar -x -f "$2" -C "$3"\n',
        }.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{os.defpath}",
            "HVXTUNE_CACHE_DIR": str(self.cache),
            "DISTRIBUTION": platform.freedesktop_os_release()["ID"],
        }

    @staticmethod
    def _packed(offered: Path, name: str, files: dict[str, str]) -> str:
        place = offered / f"{name}_1_amd64.deb"
        with tarfile.open(place, "w") as archive:
            for path, text in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(text), 0o755
                archive.addfile(entry, io.BytesIO(text.encode()))
        return hashlib.sha256(place.read_bytes()).hexdigest()

    def pin(self, digests: dict[str, str]) -> None:
        lines = "".join(f'{name} = "{digest}"\n' for name, digest in digests.items())
        system = platform.freedesktop_os_release()["ID"]
        (self.ci / "python.toml").write_text(
            f'[{system}]\nrelease = "older"\npython = "python9"\n[{system}.packages]\n{lines}'
        )

    def fitting_python(self) -> subprocess.CompletedProcess[str]:
        command = ["python3", self.ci / "fitting_python.py"]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True)


def test_where_python_is_too_new_set_up_gets_one_of_an_older_release(tmp_path):
    machine = TooNew(tmp_path)
    got = machine.fitting_python()
    assert got.returncode == 0, got.stderr
    python = Path(got.stdout.strip())
    assert machine.cache in python.parents
    version = [python, "-c", "import sys; print(sys.version_info >= (3, 11))"]
    assert subprocess.run(version, capture_output=True, text=True, check=True).stdout == "True\n"
    assert " https://mirror.invalid/ older main\n" in machine.log.read_text()
    (built,) = python.parents[1].glob("lib/*/_sysconfigdata_*")
    assert f"'{python.parents[1]}/share/python-wheels/'" in built.read_text()
    machine.log.unlink()
    assert machine.fitting_python().stdout == got.stdout
    assert not machine.log.exists()  # nothing is fetched again


def test_another_python_than_the_pinned_one_is_refused(tmp_path):
    machine = TooNew(tmp_path)
    machine.pin({"python9": "0" * 64, "patchelf": "", "libpython9": ""})
    got = machine.fitting_python()
    assert got.returncode == 1
    assert "python9_1_amd64.deb came with another SHA-256" in got.stderr.splitlines()[-1]
    assert list((machine.cache / "python").iterdir()) == []


def test_make_test_goes_a_path_through_every_room():
    texts = [file.read_text() for file in (ROOT / "tests").rglob("test_*.py")]
    marked = {room for text in texts for room in re.findall(r'mark\.path\("([\w ]+)"\)', text)}
    assert marked == {
        "a killed job",
        "a network",
        "a package",
        "a page",
        "an emulated phone",
        "an upload",
        "the service",
    }


def test_progress_tells_what_failed_and_how_far_the_run_is(tmp_path):
    (tmp_path / "test_three.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert False\n"
        "@pytest.mark.skip\ndef test_c(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.progress", "--rootdir", tmp_path]
    run = subprocess.run(
        [*command, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "FAILED test_three.py::test_b (call)\n" in run.stdout
    assert "\n3 of 3 tests, 1 failed, about 0:00 to go\n" in run.stdout
    assert "1 failed, 1 passed, 1 skipped in " in run.stdout
