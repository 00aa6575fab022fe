"""Networks by their published layer tables, with seeded weights."""

from __future__ import annotations

import onnx

from tests.rig.models.builder import Builder

_MOBILENET_V2 = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Expansion, channels, repetitions, first stride (Sandler et al., 2018, table 2)."""
_RESNET_50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Inner channels, blocks, first stride (He et al., 2015, table 1); four times as many go out."""


def mobilenet_v2(pixels: int = 224, classes: int = 1000, opset: int = 17) -> onnx.ModelProto:
    """MobileNetV2, width 1.0."""
    b = Builder(2, opset)
    x = b.input("image", (1, 3, pixels, pixels))
    x = b.relu6(b.conv(x, 3, 32, size=3, stride=2))
    depth = 32
    for expansion, channels, repetitions, first in _MOBILENET_V2:
        for n in range(repetitions):
            stride, inner, before = (first if n == 0 else 1), depth * expansion, x
            if expansion > 1:
                x = b.relu6(b.conv(x, depth, inner))
            x = b.relu6(b.conv(x, inner, inner, size=3, stride=stride, group=inner))
            x = b.conv(x, inner, channels)
            if stride == 1 and depth == channels:
                x = b.node("Add", before, x)
            depth = channels
    x = b.relu6(b.conv(x, depth, 1280))
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    return b.model(b.dense(x, 1280, classes))


def resnet50(pixels: int = 224, classes: int = 1000, opset: int = 17) -> onnx.ModelProto:
    """ResNet-50, with the stride in the 3x3 convolutions."""
    b = Builder(50, opset)
    x = b.input("image", (1, 3, pixels, pixels))
    x = b.max_pool(b.relu(b.conv(x, 3, 64, size=7, stride=2)), 3, 2, 1)
    depth = 64
    for inner, blocks, first in _RESNET_50:
        for n in range(blocks):
            stride, before = (first if n == 0 else 1), x
            x = b.relu(b.conv(x, depth, inner))
            x = b.relu(b.conv(x, inner, inner, size=3, stride=stride))
            x = b.conv(x, inner, 4 * inner)
            if n == 0:
                before = b.conv(before, depth, 4 * inner, stride=stride)
            x = b.relu(b.node("Add", x, before))
            depth = 4 * inner
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    return b.model(b.dense(x, depth, classes))


def u_net(pixels: int = 128, width: int = 16, opset: int = 17) -> onnx.ModelProto:
    """U-Net (Ronneberger et al., 2015): padded convolutions, three levels, upsampling by Resize."""
    b = Builder(3, opset)
    x = b.input("image", (1, 3, pixels, pixels))
    depth, skips = 3, []

    def twice(x: str, depth: int, channels: int) -> str:
        x = b.relu(b.conv(x, depth, channels, size=3))
        return b.relu(b.conv(x, channels, channels, size=3))

    for level in range(3):
        x = twice(x, depth, width << level)
        depth = width << level
        skips.append(x)
        x = b.max_pool(x, 2, 2)
    x = twice(x, depth, 2 * depth)
    depth *= 2
    for level in reversed(range(3)):
        mode = "nearest" if level % 2 else "linear"
        how = {"coordinate_transformation_mode": "half_pixel", "mode": mode}
        x = b.node("Resize", x, "", b.floats(1, 1, 2, 2), **how)
        x = b.node("Concat", skips[level], b.conv(x, depth, width << level), axis=1)
        x = twice(x, 2 * (width << level), width << level)
        depth = width << level
    return b.model(b.node("Sigmoid", b.conv(x, depth, 1)))


def transformer_block(
    tokens: int = 32, width: int = 64, heads: int = 4, opset: int = 17
) -> onnx.ModelProto:
    """A pre-norm encoder block (Vaswani et al., 2017), with Relu between the dense layers."""
    b = Builder(4, opset)
    each = width // heads
    x = b.input("tokens", (1, tokens, width))

    def dense(x: str, inner: int, outer: int) -> str:
        product = b.node("MatMul", x, b.node("Transpose", b.weights(outer, inner), perm=[1, 0]))
        bias = b.constant(b.rng.normal(0, 0.1, outer).astype("float32"))
        return b.node("Add", product, bias)

    def norm(x: str) -> str:
        gain, bias = b.floats(*[1.0] * width), b.floats(*[0.0] * width)
        return b.node("LayerNormalization", x, gain, bias, axis=-1)

    def by_head(x: str, order: list[int]) -> str:
        split = b.node("Reshape", x, b.integers(1, tokens, heads, each))
        return b.node("Transpose", split, perm=order)

    y = norm(x)
    queries = by_head(dense(y, width, width), [0, 2, 1, 3])
    keys = by_head(dense(y, width, width), [0, 2, 3, 1])
    values = by_head(dense(y, width, width), [0, 2, 1, 3])
    scores = b.node("Mul", b.node("MatMul", queries, keys), b.floats(each**-0.5))
    mixed = b.node("MatMul", b.node("Softmax", scores, axis=-1), values)
    mixed = b.node("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = b.node("Reshape", mixed, b.integers(1, tokens, width))
    x = b.node("Add", x, dense(mixed, width, width))
    y = dense(b.relu(dense(norm(x), width, 4 * width)), 4 * width, width)
    return b.model(b.node("Add", x, y))
