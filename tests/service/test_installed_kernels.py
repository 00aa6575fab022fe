"""A kernel that an installed package adds: found, listed and shown wherever built-in ones are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.cli.app import app as command_line
from service.json_forms import kernel_json
from tuner import kernels
from tuner.kernels import find_kernel, kernel_names

KERNEL = """
from tests.rig.scale_u8 import ScaleU8


class PackedU8(ScaleU8):
    name = "packed_u8"
    summary = "of a package"
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with the kernel, where installed ones are found."""
    (tmp_path / "packed_kernels.py").write_text(KERNEL)
    info = tmp_path / "packed_kernels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: packed-kernels\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hvxtune.kernels]\npacked_u8 = packed_kernels:PackedU8\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield
    forget()


def forget() -> None:
    """What this process knows of installed packages."""
    vars(kernels._REGISTRY).pop("_installed", None)
    kernels._loaded.pop("packed_u8", None)


def test_it_is_one_of_the_kernels_and_has_a_source() -> None:
    assert "packed_u8" in kernel_names()
    workload = find_kernel("packed_u8").workload()
    assert workload.kernel == "packed_u8"
    assert len(workload.source) == 16


def test_the_command_lists_it() -> None:
    listed = CliRunner().invoke(command_line, ["kernel", "list"])
    assert listed.exit_code == 0
    assert "packed_u8" in listed.output
    shown = CliRunner().invoke(command_line, ["kernel", "space", "packed_u8"])
    assert shown.exit_code == 0, shown.output


def test_the_service_lists_it(client: TestClient) -> None:
    items = client.get("/v1/kernels").json()["items"]
    assert kernel_json(find_kernel("packed_u8")) in items
    assert client.get("/v1/kernels/packed_u8/space").status_code == 200
