"""Model files as graphs: ``onnx_file`` opens one within limits, ``onnx_reader`` makes the graph."""
