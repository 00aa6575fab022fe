"""Bodies that make a network, and that give it a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from service.schemas.common import Strict
from service.schemas.jobs import (
    MOST_LAYERS,
    MOST_WORKLOADS,
    Name,
    OptionsBody,
    Params,
    WorkloadBody,
)
from tuner.identity import canonical_json
from tuner.records.batch import BatchPlan, NetworkLayer
from tuner.records.documents import read_record
from tuner.records.network_plan import NetworkPlan

_MOST_MACS = 2**53


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name has printable characters only")
    return text


def _plan(document: dict[str, Any]) -> dict[str, Any]:
    read_record(NetworkPlan, document, "plan")
    return document


LayerName = Annotated[
    str, StringConstraints(min_length=1, max_length=500), AfterValidator(_printable)
]
Note = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_printable)]


class NewLayerBody(Strict):
    """A layer as `hvxtune network import --json` shows it: never its weights."""

    model_config = ConfigDict(strict=True)

    name: LayerName = Field(examples=["Conv_0"])
    operator: Name = Field(examples=["conv"])
    kernel: Name | None = Field(
        None, examples=["qconv2d_u8"], description="null: no kernel has its shape."
    )
    params: Params = Field(default={}, description="Of the kernel; the others have its defaults.")
    calls: int = Field(1, ge=1, le=MOST_LAYERS, description="Calls of the kernel that it takes.")
    macs: int = Field(0, ge=0, le=_MOST_MACS, description="Multiply-accumulates.")
    steps_apart: int | None = Field(
        None,
        ge=0,
        le=1 << 32,
        description="How far the kernel is from the layer at most; null: it does not take its "
        "numbers.",
    )
    on_host: bool = False
    note: Note = ""
    reads: list[Annotated[int, Field(ge=0, lt=MOST_LAYERS)]] = Field(
        [],
        max_length=MOST_LAYERS,
        description="Positions in `layers` of those whose outputs it reads; all before its own.",
    )
    output_bytes: int = Field(0, ge=0, le=_MOST_MACS)
    within: LayerName | None = Field(
        None, description="The layer in whose call it is done; such a layer has no `kernel`."
    )


class NewNetworkBody(OptionsBody):
    """A network to tune: its layers in an order in which each follows those it reads. Layers of
    equal `kernel` and `params` are one job."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "two_layers",
                    "layers": [
                        {"name": "a", "operator": "conv", "kernel": "add_u8", "output_bytes": 64},
                        {"name": "b", "operator": "conv", "kernel": "add_u8", "reads": [0]},
                        {"name": "c", "operator": "Erf", "on_host": True, "reads": [1]},
                    ],
                    "budget": {"trials": 20},
                }
            ]
        },
    )

    name: Name = Field(examples=["mobilenet_v2"])
    layers: list[NewLayerBody] = Field(min_length=1, max_length=MOST_LAYERS)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        called = {layer.name for layer in self.layers if layer.kernel is not None}
        for position, layer in enumerate(self.layers):
            if any(read >= position for read in layer.reads):
                raise ValueError(
                    f"layers.{position}.reads has {max(layer.reads)}, which is not before it"
                )
            if layer.kernel is None and layer.params:
                raise ValueError(f"layers.{position}.params without a kernel")
            if layer.within is not None and layer.kernel is not None:
                raise ValueError(f"layers.{position} is within another, and has a kernel")
            if layer.within is not None and layer.within not in called:
                raise ValueError(f"layers.{position}.within names none with a kernel")
        count = sum(layer.calls for layer in self.layers if layer.kernel is not None)
        if not 1 <= count <= MOST_LAYERS:
            raise ValueError(f"layers make {count} calls of kernels, not 1 to {MOST_LAYERS}")
        if len(self._positions) > MOST_WORKLOADS:
            raise ValueError(
                f"layers have {len(self._positions)} different workloads, "
                f"more than {MOST_WORKLOADS}"
            )
        return self

    @cached_property
    def _positions(self) -> Mapping[str, Sequence[int]]:
        """The positions of the layers of each workload, in the order of the first."""
        found: dict[str, list[int]] = {}
        for position, layer in enumerate(self.layers):
            if layer.kernel is not None:
                found.setdefault(canonical_json([layer.kernel, layer.params]), []).append(position)
        return found

    @cached_property
    def workloads(self) -> list[WorkloadBody]:
        """The job of each different workload, with the names of its layers, once for each call."""
        return [
            WorkloadBody.model_construct(
                kernel=self.layers[own[0]].kernel,
                params=self.layers[own[0]].params,
                layers=[name for position in own for name in _calls_of(self.layers[position])],
            )
            for own in self._positions.values()
        ]

    def place(self, workload: int) -> str:
        """The field that a workload is from."""
        return f"layers.{list(self._positions.values())[workload][0]}"

    def plan(self, digests: Sequence[tuple[str, str]]) -> BatchPlan:
        """The record, given the kernel and the digest of each of :attr:`workloads`."""
        positions = self._positions.values()
        of_layer = {
            position: found
            for own, found in zip(positions, digests, strict=True)
            for position in own
        }
        macs = sum(layer.macs for layer in self.layers) or 1
        layers = []
        for position, one in enumerate(self.layers):
            kernel, digest = of_layer.get(position, (None, None))
            layers.append(
                NetworkLayer(
                    name=one.name,
                    operator=one.operator,
                    workload=digest,
                    kernel=kernel,
                    calls=one.calls,
                    macs=one.macs,
                    share_of_macs=one.macs / macs,
                    steps=one.steps_apart,
                    on_host=one.on_host,
                    note=one.note,
                    reads=tuple(sorted(set(one.reads))),
                    output_bytes=one.output_bytes,
                    within=one.within or "",
                )
            )
        return BatchPlan(name=self.name, kind="network", layers=tuple(layers))

    def options(self) -> dict[str, Any]:
        """The job options, by name."""
        given = self.model_dump(exclude={"name", "layers", "budget"})
        return {**given, **self.budget.model_dump()}


def _calls_of(layer: NewLayerBody) -> list[str]:
    return [layer.name + (f", call {n + 1}" if n else "") for n in range(layer.calls)]


class PlanForm(Strict):
    """A plan as `hvxtune network plan` keeps it: units, times and VTCM. Times are modelled, in
    microseconds; layers go by their positions."""

    version: Literal[1]
    plan: Annotated[dict[str, Any], AfterValidator(_plan)] = Field(
        description="`objective`, `units`, of each layer its `unit`, `time_us` and `source`, "
        "`bars` of the Gantt chart, `vtcm` of each call, `calls`, `time_us`, `bound_us`, "
        "`latency_us`, `made_at`."
    )
