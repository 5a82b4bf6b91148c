"""The reading engine of the reference are internal to it; here, the native half does their work, and any name is refused with what to use."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith(("_", "pytest", "setup", "setUp", "teardown", "tearDown")):  # what is asked of every module
        raise AttributeError(name)
    from .._install import absent

    raise absent("zarr_vectors._engine")
