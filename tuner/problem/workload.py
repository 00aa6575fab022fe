"""Workloads: a kernel with its parameters fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from tuner.identity import digest_of


@dataclass(frozen=True)
class Workload:
    """A kernel (name, version and source) with all its parameters fixed.

    Make one with :meth:`tuner.kernels.Kernel.workload`, which checks the parameters. ``params``
    maps every parameter of the kernel to an integer, in the kernel's order. ``source`` is the
    digest of the kernel's code: a file that changed without a new version is another workload. It
    is empty for one whose name says it (an upload), and no part of the JSON form then.
    """

    kernel: str
    version: int
    params: Mapping[str, int] = field(hash=False)
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))

    def as_dict(self) -> dict[str, Any]:
        """JSON form; also what the digest is made of."""
        form = {"kernel": self.kernel, "version": self.version, "params": dict(self.params)}
        return {**form, "source": self.source} if self.source else form

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Workload:
        """The inverse of :meth:`as_dict` (parameters are not checked again)."""
        return cls(data["kernel"], data["version"], dict(data["params"]), data.get("source", ""))

    @cached_property
    def digest(self) -> str:
        """Names the workload in keys and in the database."""
        return digest_of(self.as_dict())

    @property
    def label(self) -> str:
        """For people: ``gemm_u8 m=256 n=256 k=256``."""
        return " ".join([self.kernel, *(f"{k}={v}" for k, v in self.params.items())])

    def __reduce__(self) -> tuple[Any, ...]:
        return (Workload, (self.kernel, self.version, dict(self.params), self.source))
