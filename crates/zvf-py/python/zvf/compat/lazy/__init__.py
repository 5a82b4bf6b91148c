"""Stores whose arrays are read when they are computed."""

from __future__ import annotations

from .store import open_zv

__all__ = ["open_zv"]
