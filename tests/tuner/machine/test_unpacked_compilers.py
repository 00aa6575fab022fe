"""Compilers from unpacked packages: what their programs and what they link need is found.

`.ci/bare_machine 'make setup TARGETS=v73'` builds QEMU with them on a machine without a compiler.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuner.machine.test_provision import put_program
from tuner.machine import build_tools

ELF = b"\x7fELF and so on"


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """The folder of libraries below an unpacked root."""
    folder = tmp_path / "root/usr/lib" / build_tools._triplet()
    folder.mkdir(parents=True)
    return folder


def test_libraries_without_a_number_are_collected_and_linker_scripts_are_not(
    tmp_path: Path, libraries: Path
) -> None:
    (libraries / "libhvxtune-2.40-system.so").write_bytes(ELF)
    (libraries / "libhvxtune.so.1").write_bytes(ELF)
    (libraries / "libhvxtune-script.so").write_text("GROUP ( libhvxtune.so.1 )")
    (libraries / "libhvxtune-lost.so").symlink_to("libhvxtune.so.9")
    build_tools._collect_libraries([libraries], tmp_path / "collected")
    found = {file.name for file in (tmp_path / "collected").iterdir()}
    assert found == {"libhvxtune-2.40-system.so", "libhvxtune.so.1"}


def test_the_linker_sees_the_machines_libraries_behind_those_that_came(
    tmp_path: Path, libraries: Path
) -> None:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir()
    put_program(root / "usr/bin/gcc", "#!/bin/sh\nexit 0\n")
    build_tools._write_wrappers(root)
    came, machines = str(libraries), f"/usr/lib/{build_tools._triplet()}"
    call = (root / ".bin/cc").read_text()
    assert f"-Wl,-rpath-link,{came}:" in call
    assert f":{machines}:" in call
    searched = build_tools._root_variables(root)["LIBRARY_PATH"].split(":")
    assert searched.index(came) < searched.index(machines)
