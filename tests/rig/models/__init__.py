"""Models as people have them: published layer tables, seeded weights, onnxruntime's quantizer."""
