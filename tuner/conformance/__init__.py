"""Conformance suites: what every implementation of an extension point must pass.

Each is a class of pytest tests that another test class inherits, in this project and in packages
that add a kernel, a sampler or a code generator by an entry point
(``examples/hvxtune-extras`` is one). Nothing else here needs pytest;
``plugin`` tells it the marks of the suites.
"""
