"""Runs jobs: takes them up by lease, fairly, and continues those whose conductor is gone."""
