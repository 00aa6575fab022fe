"""C++ Halide Generators: compiled against the pinned Halide wheel, listed, and run.

``compiler`` makes programs of sources, ``listing`` asks a program for its Generators and their
GeneratorParams, ``emission`` has one make an object or an unscheduled pipeline. Sources and
programs are untrusted: all of it happens in compile servers.
"""

from tuner.packages.generators.compiler import INTEGERS, CppSources, ready_program
from tuner.packages.generators.emission import Emission, emitted
from tuner.packages.generators.listing import Argument, Generator, GeneratorParam, listed

__all__ = [
    "INTEGERS",
    "Argument",
    "CppSources",
    "Emission",
    "Generator",
    "GeneratorParam",
    "emitted",
    "listed",
    "ready_program",
]
