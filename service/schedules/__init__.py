"""Hands out stored schedules: what was asked, which one answers it, and that it is valid."""

from __future__ import annotations
