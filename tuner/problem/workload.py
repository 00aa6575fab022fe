"""Workloads, a kernel with its parameters fixed, and problems: workloads under a contract."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from tuner.errors import UserError
from tuner.identity import digest_of
from tuner.problem.contract import Contract
from tuner.problem.target import Target


@dataclass(frozen=True)
class Param:
    """An integer parameter of a kernel, with its default and accepted range (inclusive).

    ``multiple`` is what it must be divisible by. ``is_extent`` tells shape parameters from
    settings such as a requantization shift. One that ``is_optional`` is left out of workloads at
    its default, so that a kernel that gains a parameter keeps its old keys.
    """

    name: str
    default: int
    doc: str
    minimum: int = 1
    maximum: int = 65536
    multiple: int = 1
    is_extent: bool = True
    is_optional: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is an integer in the range."""
        return (
            isinstance(value, int)
            and self.minimum <= value <= self.maximum
            and value % self.multiple == 0
            and not isinstance(value, bool)
        )


def checked_params(
    kernel: str, params: Sequence[Param], given: Mapping[str, Any]
) -> dict[str, int]:
    """``given`` over the defaults of the ``params`` of ``kernel``, in their order, without optional
    ones at their defaults.

    Raises ``UserError`` naming the parameter, the value and what is accepted.
    """
    values: dict[str, int] = {}
    known = 0
    for param in params:
        name = param.name
        known += name in given
        value = given.get(name, param.default)
        if not param.accepts(value):
            raise _refused(kernel, params, given)
        if value != param.default or not param.is_optional:
            values[name] = value
    if known != len(given):
        raise _refused(kernel, params, given)
    return values


def _refused(kernel: str, params: Sequence[Param], given: Mapping[str, Any]) -> UserError:
    names = [param.name for param in params]
    for unknown in given:
        if unknown not in names:
            near = difflib.get_close_matches(unknown, names, n=1)
            return UserError(
                f"unknown parameter '{unknown}' of {kernel}",
                accepted=", ".join(names),
                next_step=f"did you mean {near[0]}?" if near else "",
            )
    param = next(p for p in params if not p.accepts(given.get(p.name, p.default)))
    value = given[param.name]
    if isinstance(value, bool) or not isinstance(value, int):
        return UserError(f"{param.name}={value!r} of {kernel}", accepted="an integer")
    multiple = f", multiples of {param.multiple}" if param.multiple > 1 else ""
    return UserError(
        f"{param.name}={value} of {kernel}",
        accepted=f"{param.minimum} to {param.maximum}{multiple}",
        next_step=f"try -p {param.name}={param.default}",
    )


@dataclass(frozen=True)
class Workload:
    """A kernel (name, version and source) with all its parameters fixed.

    Make one with :meth:`tuner.kernels.Kernel.workload`, which checks the parameters. ``params``
    maps every parameter of the kernel to an integer, in the kernel's order. ``source`` is the
    digest of the kernel's code: a file that changed without a new version is another workload. It
    is empty for one whose name says it (an upload), and then left out of the JSON form.
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


@dataclass(frozen=True)
class Problem:
    """A workload under a contract on a target: the thing that is tuned, and the key of
    schedules."""

    workload: Workload
    contract: Contract
    target: Target

    def as_dict(self) -> dict[str, Any]:
        """JSON form; also what the digest is made of."""
        return {
            "workload": self.workload.as_dict(),
            "contract": self.contract.value,
            "target": self.target.as_dict(),
        }

    @cached_property
    def digest(self) -> str:
        """Names the problem in keys and in the database."""
        return digest_of(self.as_dict())

    @property
    def symbol(self) -> str:
        """The C name of the compiled function, legible and the same for every schedule:
        ``gemm_u8_m256_n256_k256_static``."""
        params = "".join(f"_{k}{v}" for k, v in self.workload.params.items())
        name = f"{self.workload.kernel}{params}_{self.contract}"
        return name.replace("-", "neg").replace(":", "_")  # as in pipeline:DIGEST

    def called(self, symbol: str) -> Problem:
        """The same with a function of another name."""
        return _Called(self.workload, self.contract, self.target, symbol)


@dataclass(frozen=True)
class _Called(Problem):
    own_symbol: str

    @property
    def symbol(self) -> str:
        return self.own_symbol
