"""Filters written by hand in HVX intrinsics, and what the tuner finds for the same jobs.

Each ``NAME.c`` defines ``filter``, after ``rows.h``; ``python -m benchmarks.hand`` runs them.
"""
