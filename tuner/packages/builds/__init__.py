"""Ways to an object: one module each, and one line in :data:`BUILDS`."""

from __future__ import annotations

from importlib import import_module

from tuner.packages.builds.build import Build, FunctionBuild, Making

BUILDS = {
    "c": "tuner.packages.builds.c_sources:CBuild",
    "asm": "tuner.packages.builds.assembly:AsmBuild",
    "object": "tuner.packages.builds.ready:ObjectBuild",
    "command": "tuner.packages.builds.command:CommandBuild",
    "generator": "tuner.packages.builds.generator:GeneratorBuild",
    "python": "tuner.packages.builds.python_source:PythonBuild",
}
"""By the ``kind`` of ``[build]``."""


def find_build(kind: str) -> Build:
    """The build called ``kind``; the manifest knows no others."""
    module, _, name = BUILDS[kind].partition(":")
    made: Build = getattr(import_module(module), name)()
    return made


__all__ = ["BUILDS", "Build", "FunctionBuild", "Making", "find_build"]
