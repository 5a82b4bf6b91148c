"""The same in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .group import Group
from .store import open_store


async def open_store_async(source: Any, mode: str = "r", **words: Any) -> Group:
    """Open a store without blocking the loop."""
    return await asyncio.to_thread(open_store, source, mode, **words)


async def read_async(reader: Callable[..., Any], source: Any, **words: Any) -> Any:
    """Run a reader without blocking the loop."""
    return await asyncio.to_thread(reader, source, **words)
