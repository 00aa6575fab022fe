"""How a tensor of bytes lies in memory of the DSP: where each element is, and what only pads.

Kernels have channels last and some pad them, or in blocks with padded rows; a network's tensors
have them where its model has. Two layers need no conversion between them if one stores a tensor as
the other reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tuner.errors import InternalError
from tuner.kernels.blocked import Blocks
from tuner.kernels.conv2d_u8 import QUAD
from tuner.network.graph import Array, Shape


@dataclass(frozen=True)
class Block:
    """``extent`` elements of the dimension ``axis`` lie at its stride, further ones ``stride``
    bytes behind each other block."""

    axis: int
    extent: int
    stride: int


@dataclass(frozen=True)
class Storage:
    """``strides`` (bytes) of each dimension of ``shape``, 0 where it has one index, in
    ``size_bytes``, from ``offset_bytes`` on; one dimension may be in blocks. All other places have
    ``fill``. Storages that put all elements in the same places are equal."""

    shape: Shape
    strides: tuple[int, ...]
    size_bytes: int
    block: Block | None = None
    offset_bytes: int = 0
    fill: int = 0

    @classmethod
    def of(cls, shape: Shape, order: Sequence[int] | None = None, *, innermost: int = 0) -> Storage:
        """Dimensions in ``order``, outermost first, as they are by default; the last one of them
        takes as much room as ``innermost`` elements, if that is more."""
        order = range(len(shape)) if order is None else order
        strides, step = [0] * len(shape), 1
        for place, axis in enumerate(reversed(order)):
            strides[axis] = step if shape[axis] != 1 else 0
            step *= shape[axis] if place else max(shape[axis], innermost)
        return cls(shape, tuple(strides), max(step, innermost) if not shape else step)

    @classmethod
    def of_matrices(cls, shape: Shape, alignment_bytes: int) -> Storage:
        """Dense matrices, the two last dimensions, each at a multiple of ``alignment_bytes``."""
        step = -(-prod(shape[-2:]) // alignment_bytes) * alignment_bytes
        outer = cls.of(shape[:-2])
        strides = (*(stride * step for stride in outer.strides), *cls.of(shape[-2:]).strides)
        return cls(shape, strides, outer.size_bytes * step)

    @classmethod
    def in_blocks(cls, shape: Shape, order: Sequence[int], fill: int) -> Storage:
        """One image as :mod:`tuner.kernels.blocked` has it, ``fill`` around it. ``order`` names its
        dimensions: image, row, column, channel."""
        _, rows, columns, channels = order
        image = Blocks(shape[rows], shape[columns])
        strides = [0] * len(shape)
        strides[rows], strides[columns], strides[channels] = QUAD * image.pitch, QUAD, 1
        block = Block(channels, QUAD, QUAD * image.pixels)
        size_bytes = -(-shape[channels] // QUAD) * block.stride
        return cls(shape, tuple(strides), size_bytes, block, QUAD * image.first, fill)

    @property
    def is_dense(self) -> bool:
        """Whether nothing pads."""
        return self.size_bytes == prod(self.shape)

    def placed(self, elements: Array) -> Array:
        """``elements`` (bytes, of ``shape``) as they lie in memory, ``fill`` between them:
        (``size_bytes``,)."""
        memory = np.full(self.size_bytes, self.fill, np.uint8)
        if self.block is not None:
            last = -self.shape[self.block.axis] % self.block.extent
            around = [(0, last if axis == self.block.axis else 0) for axis in range(elements.ndim)]
            elements = np.pad(elements, around, constant_values=self.fill)
        view = self._view(memory)
        view[...] = elements.reshape(view.shape)
        return memory

    def taken(self, memory: Array) -> Array:
        """The inverse of :meth:`placed`: (``shape``)."""
        if memory.size != self.size_bytes:
            raise ValueError(f"{memory.size} bytes of {self.size_bytes}")
        view = self._view(memory)
        if self.block is None:
            return view.copy()
        axis = self.block.axis
        whole = view.reshape(*self.shape[:axis], -1, *self.shape[axis + 1 :])
        return np.ascontiguousarray(whole.take(range(self.shape[axis]), axis))

    def _view(self, memory: Array) -> Array:
        """The elements in ``memory``; the dimension in blocks, the last one whole, is two."""
        dimensions = self.dimensions(self.block)
        extents, strides = zip(*dimensions, strict=True) if dimensions else ((), ())
        return as_strided(memory[self.offset_bytes :], extents, strides)

    def dimensions(self, block: Block | None) -> list[tuple[int, int]]:
        """Extent and stride of each dimension, outermost first, of which that of ``block`` is two:
        blocks, and the elements of each."""
        found = list(zip(self.shape, self.strides, strict=True))
        if block is not None:
            extent, stride = found[block.axis]
            outer = self.block.stride if self.block else stride * block.extent
            blocks = (-(-extent // block.extent), outer)
            found[block.axis : block.axis + 1] = [blocks, (block.extent, stride)]
        return found


def loops(source: Storage, target: Storage) -> list[tuple[int, int, int]]:
    """Extent and both strides of each loop that copies between storages of one shape, one at least,
    the innermost last: in the order of the target's strides, neighbours that are one loop in both
    joined. Of the two in which source and target are dense the shorter one is inside, so that the
    lines that it touches stay in the cache until the other one has done with them."""
    block = source.block or target.block
    if block and source.shape[block.axis] <= block.extent:
        block = None
    if source.block and target.block and source.block.axis != target.block.axis:
        raise InternalError(f"blocks of dimensions {source.block.axis} and {target.block.axis}")
    if block and source.shape[block.axis] % block.extent:
        raise InternalError(f"a copy of {source.shape[block.axis]} elements in blocks")
    pairs = zip(source.dimensions(block), target.dimensions(block), strict=True)
    single = [(extent, from_, to) for (extent, from_), (_, to) in pairs if extent != 1]
    single.sort(key=lambda loop: -abs(loop[2]))
    joined = single[:1] or [(1, 1, 1)]
    for extent, from_, to in single[1:]:
        whole, outer_from, outer_to = joined[-1]
        if (outer_from, outer_to) == (extent * from_, extent * to):
            joined[-1] = (whole * extent, from_, to)
        else:
            joined.append((extent, from_, to))
    words = joined[-1:] if joined[-1][1:] == (1, 1) else []
    rest = joined[: len(joined) - len(words)]
    if len(rest) > 1:
        dense = min(rest, key=lambda loop: abs(loop[1]))
        rest.remove(dense)
        longer = bool(rest) and dense[0] > rest[-1][0]
        rest.insert(len(rest) - longer, dense)
    return rest + words
