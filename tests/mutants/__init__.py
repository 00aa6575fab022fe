"""Fifty breakages of the product that the tests must notice: ``python -m tests.mutants``."""
