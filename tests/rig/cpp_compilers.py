"""Whether this machine has a C++ compiler: setting up hvxtune takes none, C++ Generators do."""

from __future__ import annotations

import shutil

import pytest

NEEDS_CPP = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))),
    reason="C++ Generators need a C++ compiler: run `apt-get install g++`",
)
