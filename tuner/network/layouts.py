"""The layers of a network as they are tuned, planned, run and shipped: which have their images in
channel blocks (:mod:`tuner.kernels.blocked`), and which two are one call.

In blocks convolutions of 1x1 pixels and depthwise ones need no instruction to bring bytes to
their places: one layer writes what the next one reads, what lies around an image included. Such
layers are taken together as far as they reach; what other layers make of the same tensors, or want
of them, is converted (``repack``), by bytes, so a region must be worth its conversions.

The results are the same, bit for bit, in either layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tuner.kernels import find_kernel
from tuner.kernels.blocked import BlockedConv, BlockedDepthwiseConv, BlockedExpandedConv, Blocks
from tuner.kernels.conv2d_u8 import QUAD
from tuner.network.graph import Graph, Node, Tensor
from tuner.network.layers import Fit, Layer, layers
from tuner.network.operators import channels, pixels
from tuner.problem.workload import Workload

_FEWEST_PIXELS = 32
"""Of an image: a vector of words. Fewer leave lanes empty."""
_MACS_OF_REPACKED_BYTE = 1024
"""Multiply-accumulates that make up for a byte converted. A conversion takes three to eight cycles
for each byte; a cycle is saved by 85 of them in MobileNetV2, where vectors of channels are hard to
fill, and by 1,200 in the 1x1 layers of ResNet-50 with 14x14 pixels."""
_WINDOWS = 3


def laid_out(graph: Graph, *, channels_last: bool = False) -> list[Layer]:
    """All nodes of ``graph`` as layers, in its order, by the kernels that are called for them.
    With ``channels_last`` no image is in blocks, and no layers are fused."""
    found = layers(graph)
    return found if channels_last else _fused(graph, _in_blocks(graph, found))


def _in_blocks(graph: Graph, found: Sequence[Layer]) -> list[Layer]:
    """``found``, those with images in blocks by kernels that have them."""
    links = _Links.of(found)
    fits = {place: fit for place, layer in enumerate(found) if (fit := _fit(graph, layer))}
    # Operands are made by layers before, and no region reads what another made in blocks: once
    # through in order decides each of the two.
    for place in sorted(fits):
        if not _has_operands(graph, found, links, fits, place):
            del fits[place]
    for place in _not_worth_it(graph, found, links, fits):
        del fits[place]
    return [
        replace(layer, fit=fits[place]) if place in fits else layer
        for place, layer in enumerate(found)
    ]


def _fused(graph: Graph, found: Sequence[Layer]) -> list[Layer]:
    """``found``, convolutions of 1x1 pixels whose result one depthwise layer alone reads in one
    call with it: what lies between them, the largest images of a network, stays in L2."""
    made = list(found)
    readers = _Links.of(found).readers
    for place, layer in enumerate(found):
        (name, *_) = layer.node.outputs or ("",)
        read = readers.get(name, [])
        if not _is(layer, BlockedConv.name) or len(read) != 1 or name in graph.outputs:
            continue
        after = found[read[0]]
        if not _is(after, BlockedDepthwiseConv.name) or _has_windows(layer.node):
            continue
        assert layer.fit.workload is not None  # noqa: S101 - both are of kernels
        assert after.fit.workload is not None  # noqa: S101
        kernel = find_kernel(BlockedExpandedConv.name)
        params = {**layer.fit.workload.params, "stride": after.fit.workload.params["stride"]}
        kept = {param.name: params[param.name] for param in kernel.params}
        both = replace(after.fit, workload=kernel.workload(kept), first=layer.node)
        made[read[0]] = replace(after, fit=both)
        made[place] = replace(layer, fit=Fit(steps=layer.fit.steps, within=after.node.name))
    return made


def _is(layer: Layer, kernel: str) -> bool:
    return layer.fit.workload is not None and layer.fit.workload.kernel == kernel


def _fit(graph: Graph, layer: Layer) -> Fit | None:
    """The kernel in blocks that does what ``layer``'s kernel does."""
    node, plain = layer.node, layer.fit
    if plain.workload is None or plain.steps is None:
        return None
    if node.operator == "add":
        return replace(plain, blocks="nchw") if len(layer.shape) == 4 else None
    if node.operator != "conv":
        return None
    layout = node.attributes["layout"]
    source, made = (graph.tensors[name] for name in (node.inputs[0], node.outputs[0]))
    params = plain.workload.params
    outer = channels(made.shape, layout)
    workload = _workload(plain.workload)
    if (
        workload is None
        or any(graph.constant(name) is None for name in node.inputs[1:] if name)
        or prod(pixels(made.shape, layout)) < _FEWEST_PIXELS
        or outer % QUAD
        or outer != params.get("channels_out", outer)
        or (channels(source.shape, layout) % QUAD and params.get("size") != _WINDOWS)
    ):
        return None
    return replace(plain, workload=workload, blocks=layout)


def _workload(plain: Workload) -> Workload | None:
    """That of the same windows between images in blocks, if there is one."""
    params = plain.params
    size = params.get("size", _WINDOWS)
    stride, before = params.get("stride", 1), params.get("before", 0)
    if plain.kernel == "qconv2d_u8":
        name = BlockedConv.name
        fits = (size, stride) == (1, 1) or (size == _WINDOWS and params["channels_in"] == QUAD)
    elif plain.kernel == "qdepthwise_conv2d_u8":
        name, fits = BlockedDepthwiseConv.name, True
    else:
        return None
    if not fits or stride > 2 or before != size // 2 or (size == 1 and params["after"]):
        return None
    kernel = find_kernel(name)
    kept = {param.name: params[param.name] for param in kernel.params}
    made = kernel.workload(kept)
    image = kernel.buffers(made.params)[-1].shape
    wanted = find_kernel(plain.kernel).buffers(params)[-1].shape
    return made if image[1] == Blocks(*wanted[:2]).pixels else None


@dataclass(frozen=True)
class _Links:
    """The layers by the tensors that they make and read."""

    makers: Mapping[str, int]
    readers: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, found: Sequence[Layer]) -> _Links:
        makers = {name: place for place, layer in enumerate(found) for name in layer.node.outputs}
        readers: dict[str, list[int]] = {}
        for place, layer in enumerate(found):
            for name in layer.node.inputs:
                readers.setdefault(name, []).append(place)
        return cls(makers, readers)


def _has_operands(
    graph: Graph, found: Sequence[Layer], links: _Links, fits: dict[int, Fit], place: int
) -> bool:
    """Whether what the layer at ``place`` reads is there as its kernel wants it. A sum takes the
    layout of its operands, made in one; what it has around the image is not the zero point, and a
    conversion leaves out what is around it, so windows read neither."""
    node, fit = found[place].node, fits[place]
    makers = links.makers
    if node.operator == "add":
        made_by = [makers.get(name) for name in node.inputs]
        layouts = {fits[maker].blocks if maker in fits else "" for maker in made_by}
        if len(layouts) > 1 or "" in layouts:
            return False
        (layout,) = layouts
        shape = graph.tensors[node.outputs[0]].shape
        image = Blocks(*pixels(shape, layout))
        size = {"height": channels(shape, layout) // QUAD, "width": QUAD * image.pixels}
        fits[place] = replace(fit, blocks=layout, workload=find_kernel("qadd_u8").workload(size))
        return channels(shape, layout) % QUAD == 0
    maker = makers.get(node.inputs[0])
    if not _has_windows(node) or maker is None or found[maker].node.operator == "quantize":
        return True
    return maker in fits and found[maker].node.operator == "conv"


def _has_windows(node: Node) -> bool:
    return any(extent > 1 for extent in node.attributes["kernel"])


def _not_worth_it(
    graph: Graph, found: Sequence[Layer], links: _Links, fits: Mapping[int, Fit]
) -> list[int]:
    """The layers of regions whose conversions take longer than they save."""
    regions: list[list[int]] = []
    seen: set[int] = set()
    for first in sorted(fits):
        region = [] if first in seen else [first]
        seen.add(first)
        for place in region:  # grows as it is walked
            node = found[place].node
            beside = [links.makers[name] for name in node.inputs if name in links.makers]
            beside += [reader for name in node.outputs for reader in links.readers.get(name, ())]
            for other in beside:
                if other in fits and other not in seen:
                    seen.add(other)
                    region.append(other)
        regions.append(region)
    losing: list[int] = []
    for own in regions:
        macs = sum(found[place].work.macs for place in own)
        converted = sum(_converted_bytes(graph, found, links, fits, place) for place in own)
        if macs < _MACS_OF_REPACKED_BYTE * converted:
            losing += own
    return losing


def _converted_bytes(
    graph: Graph, found: Sequence[Layer], links: _Links, fits: Mapping[int, Fit], place: int
) -> int:
    """Bytes that the DSP converts for the layer at ``place``, and for others of what it makes."""
    makers, node = links.makers, found[place].node
    given = [name for name in node.inputs[:1] if makers.get(name, place) not in fits]
    made = [
        name
        for name in node.outputs
        for reader in links.readers.get(name, ())
        if reader not in fits and found[reader].fit.workload is not None
    ]
    tensors: list[Tensor] = [graph.tensors[name] for name in (*given, *dict.fromkeys(made))]
    return sum(tensor.payload_bytes for tensor in tensors if _on_dsp(found, makers, tensor.name))


def _on_dsp(found: Sequence[Layer], makers: Mapping[str, int], name: str) -> bool:
    """Whether a kernel makes the tensor, as far as shapes tell."""
    return name in makers and found[makers[name]].fit.workload is not None
