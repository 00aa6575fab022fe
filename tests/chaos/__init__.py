"""Chaos: a whole lab of real processes, and a seeded program that breaks it while jobs run.

``python -m tests.chaos --seeds 20`` (``make chaos SEEDS=20``) prints a line per seed. ``lab`` makes
hosts of namespaces, ``cluster`` starts PostgreSQL, the service, conductors and workers on them,
``faults`` decides what breaks when, ``verdict`` holds what the database itself recorded against
what was promised.
"""
