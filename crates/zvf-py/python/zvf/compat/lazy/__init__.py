"""Stores whose arrays are read when they are computed."""

from __future__ import annotations

from .store import LazyStore as ZVStore
from .store import open_zv
from .views import LazyPolylines as ZVPolylineCollection
from .views import LazyView as ZVView

__all__ = ["ZVPolylineCollection", "ZVStore", "ZVView", "open_zv"]
