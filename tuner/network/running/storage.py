"""How a tensor of bytes lies in memory of the DSP: where each element is, and what only pads.

Kernels have channels last and some pad them; a network's tensors have them where its model has.
Two layers need no conversion between them if one stores a tensor as the other reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tuner.network.graph import Array, Shape


@dataclass(frozen=True)
class Storage:
    """``strides`` (bytes) of each dimension of ``shape``, 0 where it has one index, in
    ``size_bytes``. Storages that put all elements in the same places are equal."""

    shape: Shape
    strides: tuple[int, ...]
    size_bytes: int

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

    @property
    def is_dense(self) -> bool:
        """Whether nothing pads."""
        return self.size_bytes == prod(self.shape)

    def reshaped(self, shape: Shape) -> Storage | None:
        """The storage of the same bytes in ``shape``; ``None`` where an element would have to
        move."""
        return Storage.of(shape) if self == Storage.of(self.shape) else None

    def placed(self, elements: Array) -> Array:
        """``elements`` (bytes, of ``shape``) as they lie in memory, zeros between them:
        (``size_bytes``,)."""
        memory = np.zeros(self.size_bytes, np.uint8)
        as_strided(memory, self.shape, self.strides)[...] = elements
        return memory

    def taken(self, memory: Array) -> Array:
        """The inverse of :meth:`placed`: (``shape``)."""
        if memory.size != self.size_bytes:
            raise ValueError(f"{memory.size} bytes of {self.size_bytes}")
        return as_strided(memory, self.shape, self.strides).copy()
