"""Groups of links that follow the fragments of their chunk: one object's links are then one range of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zvf._jobs import command

from ..exceptions import StoreError, translating
from .store import get_resolution_level, list_resolution_levels, open_store


def index_fragment_link_groups(store_path: Any, levels: Sequence[int] | None = None, *, dry_run: bool = False, verify: bool = False) -> list[dict[str, Any]]:
    """Sort the links of each chunk by fragment, a group for each, and state it where every chunk allows it; says of each level whether it does.

    The store is repaired as a whole, as ``zvf repair --index-faces`` does it, which its journal records: cells are written before.
    """
    root = open_store(store_path, mode="r+")
    numbers = list_resolution_levels(root)
    if dry_run or (levels is not None and set(levels) != set(numbers)):
        raise StoreError(f"levels: expected all of {numbers} and no dry run: what a level allows is found out by doing it, in one commit")
    with translating(StoreError):
        command("repair", "--in-place", "--index-faces", root._shared.address, storage=root._shared.storage)
    root._shared.changed()
    blocks = {number: get_resolution_level(root, number).attrs.get("zarr_vectors_level") or {} for number in numbers}
    return [{"level": number, "stamped": bool(block.get("fragment_link_groups"))} for number, block in blocks.items()]
