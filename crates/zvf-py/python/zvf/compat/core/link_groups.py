"""Groups of links that follow the fragments of their chunk: one object's links are then one range of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..constants import LINK_ATTRIBUTES, LINK_FRAGMENTS, VERTEX_FRAGMENTS
from ..exceptions import ArrayError
from .fragments import ChunkFragmentIndex, decode_fragment_index, offsets_of
from .group import Group
from .linking import flat_links, intra_offsets, link_columns, link_family_policy, links_path
from .store import get_resolution_level, list_resolution_levels, open_store, update_root_metadata
from .stored import Index, change_document, set_attributes
from .writing import coords_of, key_of, read_cell_bytes, stamped_dtype, write_cells

_GROUPED = "fragment_link_groups"


def index_fragment_link_groups(store_path: Any, levels: Sequence[int] | None = None, *, dry_run: bool = False, verify: bool = False) -> list[dict[str, Any]]:
    """Sort the links of each chunk by fragment, a group for each, and state it where every chunk allows it; what was done on each level."""
    root = open_store(store_path, mode="r" if dry_run else "r+")
    reports = []
    for number in list_resolution_levels(root) if levels is None else levels:
        level = get_resolution_level(root, int(number))
        report: dict[str, Any] = {"level": int(number), "chunks": 0, "regrouped": 0, "reordered": 0}
        reports.append(report)
        policy = link_family_policy(level, 0)
        name = links_path(0, intra_offsets(policy[1], policy[0])) if policy else ""
        if not policy or name not in level:
            report["skipped"] = "no intra-chunk links"
            continue
        stated = bool((level.attrs.get("zarr_vectors_level") or {}).get(_GROUPED))
        if stated and not verify:
            report["skipped"] = "already stamped"
            continue
        try:
            new = _grouped(level, name, policy[0], report)
        except ArrayError as error:
            report["skipped"] = str(error)
            if stated:
                report["would_withdraw" if dry_run else "withdrawn"] = True
            if stated and not dry_run:
                change_document(level, "", lambda document: document["attributes"]["zarr_vectors_level"].pop(_GROUPED, None))
            continue
        if dry_run:
            report["would_stamp"] = True
            continue
        for array, cells in new.items():
            write_cells(level, array, cells)
        change_document(level, "", lambda document: document["attributes"]["zarr_vectors_level"].update({_GROUPED: True}))
        set_attributes(level, name, {"link_groups": "per_vertex_fragment"})
        update_root_metadata(Group(root._shared), add_capabilities=[_GROUPED])
        report["stamped"] = True
    return reports


def _grouped(level: Group, name: str, width: int, report: dict[str, Any]) -> dict[str, dict[Index, bytes]]:
    """The cells that have to be written so that group k of a chunk is the links among the rows of its fragment k."""
    dtype, segment = stamped_dtype(level, name), name.split("/")[2]
    attributes = level[LINK_ATTRIBUTES].children() if LINK_ATTRIBUTES in level else []
    has_columns = any(f"{LINK_ATTRIBUTES}/{one}/0/{segment}" in level for one in attributes)
    new: dict[str, dict[Index, bytes]] = {name: {}, LINK_FRAGMENTS: {}}
    keys = [coords_of(key) for key in level.list_chunks(VERTEX_FRAGMENTS)]
    links, cuts, pieces = (read_cell_bytes(level, array, keys) for array in (name, LINK_FRAGMENTS, VERTEX_FRAGMENTS))
    for cell in keys:
        where = f"chunk {key_of(cell)}"
        rows, fragments = flat_links(links[cell], dtype, link_columns(level, name), name)[:, -width:], decode_fragment_index(pieces[cell])
        owned, counts = fragments.gather(np.arange(len(fragments)))
        owner = np.full(int(owned.max(initial=-1)) + 1, -1, dtype=np.int64)
        owner[owned] = np.repeat(np.arange(len(fragments)), counts)
        if len(np.unique(owned)) != len(owned):
            raise ArrayError(f"{where}: its vertex fragments overlap")
        if rows.size and not 0 <= rows.min() <= rows.max() < len(owner):
            raise ArrayError(f"{where}: a link endpoint lies in no vertex fragment")
        ends = owner[rows]
        if (ends < 0).any() or (ends != ends[:, :1]).any():
            raise ArrayError(f"{where}: a link joins two vertex fragments")
        report["chunks"] += bool(len(rows))
        sizes = np.bincount(ends[:, 0], minlength=len(fragments))
        index = ChunkFragmentIndex(offsets_of(sizes)[:-1], sizes, np.ones(len(sizes), bool), np.empty(0, np.int64)).encode()
        order = np.argsort(ends[:, 0], kind="stable")
        if (np.diff(order) != 1).any():
            if has_columns:
                raise ArrayError(f"{where}: links must be reordered, but the level has row-aligned attributes of links")
            report["reordered"] += 1
            new[name][cell] = np.ascontiguousarray(rows[order]).tobytes()
        elif index != cuts[cell]:
            report["regrouped"] += 1
        if index != cuts[cell]:
            new[LINK_FRAGMENTS][cell] = index
    return new
