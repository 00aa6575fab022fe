"""The limits of a model of any format: model files are untrusted."""

from __future__ import annotations

LARGEST_FILE_BYTES = 1 << 30
"""Of the model, and of the external data of one constant: protobuf itself reads less than 2 GiB."""
MOST_NODES = 100_000
MOST_FOLDED_ELEMENTS = 1 << 26
"""Of the results of all computations on constants together."""
