"""Runs jobs: claims them by lease, fairly, and continues those whose conductor is gone.

``hvxtune cluster conductor`` starts a process of it; several may work
on one database at once. ``conductor`` holds the jobs it runs, ``troubles`` what is done about jobs
that cannot run, ``process`` the signals.
"""
