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
    """A kernel (name and version) with all its parameters fixed.

    Make one with :meth:`tuner.kernels.Kernel.workload`, which checks the parameters. ``params``
    maps every parameter of the kernel to an integer, in the kernel's order.
    """

    kernel: str
    version: int
    params: Mapping[str, int] = field(hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))

    def as_dict(self) -> dict[str, Any]:
        """JSON form; also what the digest is made of."""
        return {"kernel": self.kernel, "version": self.version, "params": dict(self.params)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Workload:
        """The inverse of :meth:`as_dict` (parameters are not checked again)."""
        return cls(data["kernel"], data["version"], dict(data["params"]))

    @cached_property
    def digest(self) -> str:
        """Names the workload in keys and in the database."""
        return digest_of(self.as_dict())

    @property
    def label(self) -> str:
        """For people: ``gemm_u8 m=256 n=256 k=256``."""
        return " ".join([self.kernel, *(f"{k}={v}" for k, v in self.params.items())])

    def __reduce__(self) -> tuple[Any, ...]:
        return (Workload, (self.kernel, self.version, dict(self.params)))
