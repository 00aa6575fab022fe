"""Targets: the machines code is made for. Alignment and vector width come from here, never from a
literal."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from tuner.errors import UserError
from tuner.identity import digest_of

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Target:
    """One Hexagon configuration.

    ``vector_bytes`` is the HVX register width and, on every arch so far, also the alignment that
    aligned vector loads and stores need (``vector_alignment_bytes``); they are separate fields
    because they answer separate questions. ``vtcm_bytes`` differs between SoCs of one arch, so
    the SoC is part of the name and of every key.
    """

    name: str
    arch: str
    soc: str | None
    vector_bytes: int
    vector_alignment_bytes: int
    hvx_contexts: int
    l1d_bytes: int
    l2_bytes: int
    vtcm_bytes: int
    u8_macs_per_cycle: int
    """Peak u8 multiply-accumulates per cycle of one HVX context: two vrmpy-capable multiply
    pipes, each vector_bytes lanes wide (facts of the arch; V66 HVX manual, multiply resources)."""

    def lanes(self, element_bytes: int) -> int:
        """How many elements of ``element_bytes`` one native vector holds."""
        return self.vector_bytes // element_bytes

    def as_dict(self) -> dict[str, Any]:
        """All fields, as stored and as part of cache keys."""
        return asdict(self)

    @cached_property
    def digest(self) -> str:
        """Names the target, figures and all, in the database."""
        return digest_of(self.as_dict())


def _target(
    arch: str, *, vtcm_bytes: int, soc: str | None = None, l1d_bytes: int = 32 * KIB
) -> Target:
    return Target(
        name=f"hexagon-{arch}" + (f"-{soc}" if soc else ""),
        arch=arch,
        soc=soc,
        vector_bytes=128,
        vector_alignment_bytes=128,
        hvx_contexts=4,
        l1d_bytes=l1d_bytes,
        l2_bytes=MIB,
        vtcm_bytes=vtcm_bytes,
        u8_macs_per_cycle=256,
    )


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        _target("v65", vtcm_bytes=256 * KIB),
        _target("v66", vtcm_bytes=256 * KIB),
        _target("v66", vtcm_bytes=256 * KIB, soc="sm8150"),
        _target("v68", vtcm_bytes=4 * MIB),
        _target("v68", vtcm_bytes=4 * MIB, soc="sm8350"),
        _target("v69", vtcm_bytes=8 * MIB),
        _target("v69", vtcm_bytes=8 * MIB, soc="sm8450"),
        _target("v73", vtcm_bytes=4 * MIB, l1d_bytes=16 * KIB),
        _target("v73", vtcm_bytes=8 * MIB, l1d_bytes=16 * KIB, soc="sm8550"),
    )
}
"""Known targets by name. One line here adds one.

Sources of contexts, VTCM and L2: the machines that QEMU's system emulation describes in
``hw/hexagon/machine_cfg_*.h.inc`` after Qualcomm's simulator (``ext_contexts``, ``vtcm_size_kb``,
``l2tag_size``): v66g_1024, v68n_1024, v69na_1024, v73na_1024. VTCM of the SoCs: ExecuTorch's
``backends/qualcomm/serialization/qc_schema.py``. L1D of v73: ``l1d_size_kb`` of v73na_1024.
Assumed: L1D of the older archs, all of v65, and that an SM8150 has the VTCM of v66g_1024.
docs/simulator.md shows the same as a table.
"""

DEFAULT_TARGET = "hexagon-v66"


def find_target(name: str) -> Target:
    """The target called ``name``; ``UserError`` names the accepted ones otherwise."""
    try:
        return TARGETS[name]
    except KeyError:
        near = difflib.get_close_matches(name, TARGETS, n=1)
        raise UserError(
            f"unknown target '{name}'",
            accepted=", ".join(TARGETS),
            next_step=f"did you mean --target {near[0]}?" if near else "choose one with --target",
        ) from None
