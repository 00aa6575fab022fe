"""The Halide code generator: pipelines and directives in, Hexagon objects out.

``generator`` makes requests of candidates; ``servers`` keeps a pool of compile servers; ``server``
is the process that forks one child per candidate, for which ``children`` waits; ``compilation`` is
done in the child, where ``schedule`` applies directives and prints them as C++.
"""

LOWERED = "lowered"
"""The kind of file that names what is to be compiled (:mod:`tuner.codegen.halide.lowered`)."""
