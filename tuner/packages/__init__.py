"""Packages: folders with a ``kernel.toml`` that bring a kernel of their author's.

``manifest`` reads that file, ``files`` keeps packages by their digest, ``kernel`` makes kernels of
them: ``package:DIGEST``. ``builds`` holds the ways to an object, ``references`` what decides which
outputs are right. All that is in a package is untrusted: compilers run in compile servers, Python
in ``python_process``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.errors import InternalError
from tuner.kernels import Kernel, KernelFamily


class Packages(KernelFamily):
    """The family of kernels called ``package:DIGEST``. Loads what it takes when one is asked for:
    compile servers need none of it."""

    def find(self, name: str) -> Kernel:
        from tuner.packages.kernel import find_package

        return find_package(name)

    def attached(self, name: str, attachment: Mapping[str, Any]) -> Kernel:
        raise InternalError(f"{name} is compiled without attachments")

    def content(self, name: str) -> bytes:
        from tuner.packages.kernel import find_package

        return find_package(name).package.data

    def keep(self, content: bytes) -> None:
        from tuner.packages import files

        package = files.unpacked(content)
        if files.find(package.digest) is None:  # kept again, it would be what its name means
            files.keep(package)


__all__ = ["Packages"]
