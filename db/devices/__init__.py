"""Devices of the farm."""
