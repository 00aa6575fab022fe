"""Layers that were read from a model as ``POST /v1/networks`` takes them: shapes, never weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tuner.network.layers import recorded

if TYPE_CHECKING:
    from tuner.network.layers import Layer


def layers_sent(found: Sequence[Layer]) -> list[dict[str, Any]]:
    """The layers as ``POST /v1/networks`` takes them."""
    return [
        {
            "name": one.name,
            "operator": one.operator,
            "kernel": one.kernel,
            "params": dict(layer.fit.workload.params) if layer.fit.workload else {},
            "calls": one.calls,
            "macs": one.macs,
            "steps_apart": one.steps,
            "on_host": one.on_host,
            "note": one.note,
            "reads": list(one.reads),
            "output_bytes": one.output_bytes,
            "within": one.within or None,
        }
        for layer, one in zip(found, recorded(found), strict=True)
    ]
