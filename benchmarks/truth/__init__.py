"""Public figures of real chips beside what the model gives for the same loops.

``figures`` reads them with their sources, ``programs`` compiles and simulates, ``families`` says
what is compared with what. ``python -m benchmarks.truth`` prints the table of docs/truth.md.
"""
