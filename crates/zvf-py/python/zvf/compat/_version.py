"""The version of the reference that this stands for."""

from __future__ import annotations

__version__ = version = "0.9.2"
__version_tuple__ = version_tuple = (0, 9, 2)

__all__ = ["__version__", "__version_tuple__", "version", "version_tuple"]
