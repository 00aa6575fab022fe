"""The command that a message tells to run is one that pip can follow."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import version

from tuner.codegen.requirements import reinstall


def test_a_package_is_installed_again_as_hvxtune_requires_it() -> None:
    command = shlex.split(reinstall("halide").removeprefix("run `").removesuffix("`"))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert command[-1] == f"halide=={version('halide')}"


def test_a_package_of_an_extra_is_named_without_its_condition() -> None:
    assert reinstall("scipy").endswith(" 'scipy>=1.15'`")
