"""Conformance suites: what every implementation of an extension point must pass.

Each is a class of pytest tests that a test class of one's own inherits, in this project and in
packages that add an implementation by an entry point (``examples/hvxtune-extras`` is one). They
need pytest, which nothing else here does; ``tests`` of this project is not needed.
"""
