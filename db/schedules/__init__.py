"""Schedules: stored, sealed, ordered, quarantined, and looked up."""
