"""The same in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .group import Group
from .store import open_store


async def open_store_async(path: Any, *, mode: str = "r", **kwargs: Any) -> Group:
    """Open a store without blocking the loop."""
    return await asyncio.to_thread(open_store, path, mode=mode, **kwargs)


async def read_async(reader: Callable[..., Any], source: Any, /, **kwargs: Any) -> Any:
    """Run a reader without blocking the loop."""
    return await asyncio.to_thread(reader, source, **kwargs)
