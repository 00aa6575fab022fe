"""Artifact -> verified measurement: measurers and the cases they verify against."""
