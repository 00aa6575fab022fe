"""Conformance suites: what every implementation of an extension point must pass.

Each is a class of pytest tests that a test class of one's own inherits, in this project and in
packages that add a kernel or a sampler by an entry point. pytest is needed to run them, and not by
anything else here.
"""
