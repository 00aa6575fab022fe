"""Small seeded graphs with branches, of all operators that networks of images have."""

from __future__ import annotations

import onnx

from tests.rig.models.builder import Builder

OPSETS = (13, 15, 17, 19, 21)
STEPS = (
    *("conv", "group", "depthwise", "add", "mul", "concat", "pool", "average", "sigmoid"),
    *("leaky", "resize", "turn", "split", "pad", "fold"),
)


def branching(seed: int) -> onnx.ModelProto:
    """Graph ``seed``: five to nine steps, each on a random earlier value."""
    b = Builder(seed, OPSETS[seed % len(OPSETS)])
    rng = b.rng
    pixels, depth = int(rng.integers(6, 13)), 4 * int(rng.integers(1, 4))
    image = b.input("image", (1, depth, pixels, pixels))
    values = [b.conv(image, depth, depth, size=3)]
    for _ in range(int(rng.integers(5, 10))):
        x = values[int(rng.integers(len(values)))]
        match str(rng.choice(STEPS)):
            case "conv":
                y = b.relu(b.conv(x, depth, depth, size=int(rng.choice([1, 3, 5]))))
            case "group":
                y = b.conv(x, depth, depth, size=3, group=2, dilation=2)
            case "depthwise":
                y = b.relu6(b.conv(x, depth, depth, size=3, group=depth))
            case "add":
                y = b.node("Add", x, values[int(rng.integers(len(values)))])
            case "mul":
                y = b.node("Mul", x, b.node("Sigmoid", values[int(rng.integers(len(values)))]))
            case "concat":
                other = values[int(rng.integers(len(values)))]
                y = b.conv(b.node("Concat", x, other, axis=1), 2 * depth, depth)
            case "pool":
                y = b.max_pool(x, 3, 1, 1)
            case "average":
                y = b.node(
                    "AveragePool",
                    x,
                    kernel_shape=[3, 3],
                    pads=[1] * 4,
                    count_include_pad=int(rng.integers(2)),
                )
            case "sigmoid":
                y = b.node("Sigmoid", x)
            case "leaky":
                y = b.node("LeakyRelu", x, alpha=0.1)
            case "resize":
                up = b.node(
                    "Resize",
                    x,
                    "",
                    b.floats(1, 1, 2, 2),
                    mode="nearest",
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                )
                y = b.conv(up, depth, depth, size=3, stride=2)
            case "turn":
                y = b.node("Transpose", x, perm=[0, 1, 3, 2])
            case "split":
                half = b.integers(depth // 2, depth // 2)
                first, second = b.split(x, half)
                y = b.node("Concat", second, first, axis=1)
            case "pad":
                widths = b.integers(0, 0, 1, 0, 0, 0, 1, 2)
                mode = str(rng.choice(["constant", "reflect"]))
                padded = b.node("Pad", x, widths, mode=mode)
                start, end = b.integers(0, 1), b.integers(pixels, pixels + 1)
                y = b.node("Slice", padded, start, end, b.integers(2, 3))
            case _:
                whole = b.node("Reshape", x, b.integers(1, depth, pixels * pixels))
                y = b.node("Reshape", whole, b.integers(1, depth, pixels, pixels))
        values.append(y)
    total = b.node("Add", values[-1], values[-2])
    pooled = b.node("Flatten", b.node("GlobalAveragePool", total))
    return b.model(b.dense(pooled, depth, 5), values[-1])
