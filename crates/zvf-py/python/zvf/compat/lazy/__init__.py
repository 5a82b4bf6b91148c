"""Stores whose arrays are read when they are computed."""

from __future__ import annotations

from .store import LazyPolylines as ZVPolylineCollection
from .store import LazyStore as ZVStore
from .store import LazyView as ZVView
from .store import open_zv

__all__ = ["ZVPolylineCollection", "ZVStore", "ZVView", "open_zv"]
