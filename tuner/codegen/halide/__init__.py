"""The Halide code generator: pipelines and directives in, Hexagon objects out.

``generator`` keeps a pool of compile servers; ``server`` is the process that forks one child per
candidate; ``compilation`` is what the child does; ``schedule`` applies directives and prints them
as C++; ``promises`` tells Halide what the alignment contract says.
"""
