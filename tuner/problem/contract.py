"""The alignment contract: what a caller promises about its buffers.

The promises, more than anything else, decide how fast HVX code can be. Each level includes the
ones before it, so a schedule made under a weaker contract may be served to a caller that promises
more, never the other way round. A buffer that is loose
(:class:`tuner.problem.buffers.BufferSpec`) is left out of what is said about addresses and strides.
"""

from __future__ import annotations

from enum import StrEnum

from tuner.errors import UserError


class Contract(StrEnum):
    """Promise levels, weakest first. Multiples are of the target's vector alignment in bytes."""

    NONE = "none"
    """Nothing beyond dense innermost elements; any address, row stride and extent."""
    HOST = "host"
    """Every buffer starts at an aligned address."""
    STRIDE = "stride"
    """... and the stride of every outer dimension is a multiple of the alignment."""
    EXTENT = "extent"
    """... and the innermost extent is one as well."""
    STATIC = "static"
    """Shapes and (dense) strides are exactly the workload's; buffers start aligned."""

    @property
    def level(self) -> int:
        """Position in the order of strength, 0 for ``none``."""
        return _LEVELS[self]

    def implies(self, other: Contract) -> bool:
        """Whether a caller keeping ``self`` may call code made under ``other``, for one shape.

        ``static`` implies the weaker levels only where the shape itself keeps them:
        :func:`tuner.problem.buffers.kept_contracts` tells for a shape.
        """
        return self.level >= other.level


_LEVELS = {contract: level for level, contract in enumerate(Contract)}


def find_contract(name: str) -> Contract:
    """The contract called ``name``; ``UserError`` names the accepted ones otherwise."""
    try:
        return Contract(name)
    except ValueError:
        raise UserError(
            f"unknown contract '{name}'",
            accepted=", ".join(Contract),
            next_step="choose one of these",
        ) from None
