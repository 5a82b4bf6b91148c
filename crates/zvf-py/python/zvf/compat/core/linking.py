"""Writing links as arrays: each record goes to the cell of one of its chunks, in the array of the way to the others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..constants import LINK_ATTRIBUTES, LINK_FRAGMENTS, LINKS
from ..exceptions import ArrayError
from .fragments import ChunkFragmentIndex, Ints, as_type, decode_fragment_index, decode_ragged, encode_ragged, host_array, offsets_of
from .group import Group
from .metadata import chunk_scale_from_root
from .store import read_level_metadata, read_root_metadata
from .stored import Index, make_groups, set_attributes, writable
from .writing import coords_of, create_cell_array, key_of, read_cell_bytes, stamped_dtype, write_cells


@dataclass
class LinkPartition:
    """Where records went: for each array and cell, their numbers in the input."""

    cell_indices: dict[tuple[str, Index], Any]
    num_links: int
    num_physical_records: int = 0
    first_new: int = 0


def links_group_path(delta: int = 0) -> str:
    """The group of the links to a level that is so many coarser."""
    return f"{LINKS}/{int(delta):+d}" if delta else f"{LINKS}/0"


def offsets_segment(offsets: Sequence[Sequence[int]]) -> str:
    """The name of the array of links that lead this way."""
    return "_".join(".".join(f"{int(c):+d}" if c else "0" for c in one) for one in offsets) or "self"


def parse_offsets(segment: str, *, sid_ndim: int, link_width: int) -> tuple[Index, ...]:
    """The way that an array of links leads, from its name."""
    parts = [] if segment == "self" else segment.split("_")
    if len(parts) != link_width - 1 or not all(re.fullmatch(r"(0|[+-]\d+)(\.(0|[+-]\d+))*", part) and part.count(".") == sid_ndim - 1 for part in parts):
        raise ArrayError(f"links: expected {link_width - 1} offsets of {sid_ndim} axes, found {segment!r}")
    return tuple(tuple(int(word) for word in part.split(".")) for part in parts)


def intra_offsets(sid_ndim: int, link_width: int) -> tuple[Index, ...]:
    """The offsets of links that stay in their chunk."""
    return ((0,) * sid_ndim,) * (link_width - 1)


def links_path(delta: int, offsets: Sequence[Sequence[int]]) -> str:
    """The array of the links that lead this way."""
    return f"{links_group_path(delta)}/{offsets_segment(offsets)}"


def links_has_perm(offsets: Sequence[Sequence[int]], *, delta: int, directed: bool, store: str) -> bool:
    """Whether rows say in which order their ends were given."""
    return any(map(any, offsets)) and delta == 0 and (store == "duplicate" or not directed)


def link_family_policy(level_group: Group, delta: int = 0) -> tuple[int, int, bool, str] | None:
    """What the links of a family agree on: ends, axes, whether they have a direction, and how they are stored."""
    if links_group_path(delta) not in level_group:
        return None
    meta = level_group.read_array_meta(links_group_path(delta))
    width, sid = meta.get("link_width"), meta.get("sid_ndim")
    if type(width) is not int or not 1 <= width <= 20 or type(sid) is not int or not 1 <= sid <= 16:
        raise ArrayError(f"{links_group_path(delta)}: expected link_width and sid_ndim, found {width!r} and {sid!r}")
    return width, sid, bool(meta.get("directed", False)), str(meta.get("store", "canonical"))


def create_links_family(level_group: Group, *, delta: int = 0, link_width: int = 2, sid_ndim: int | None = None, directed: bool = False, store: str = "canonical") -> None:
    """State what the links of a family agree on; one that states something else already is refused."""
    writable(level_group)
    if store not in ("canonical", "duplicate"):
        raise ArrayError(f"store: expected canonical or duplicate, found {store!r}")
    wanted = (int(link_width), int(sid_ndim or len(read_root_metadata(level_group).chunk_shape)), bool(directed), store)
    path, stated = links_group_path(delta), link_family_policy(level_group, delta)
    if stated is not None and stated != wanted:
        raise ArrayError(f"{path}: link_width, sid_ndim, directed and store are {stated} for the whole family, not {wanted}")
    if stated is None:
        names = dict(zip(("link_width", "sid_ndim", "directed", "store"), wanted))
        make_groups(level_group, path, {"zv_array": "links_family", "level_delta": int(delta), **names})


def create_links_array(
    level_group: Group,
    link_width: int,
    dtype: Any = "int64",
    *,
    delta: int = 0,
    sid_ndim: int | None = None,
    offsets: Sequence[Sequence[int]] | None = None,
    directed: bool = False,
    store: str = "canonical",
    exist_ok: bool = True,
) -> None:
    """Create the array of the links that lead one way; ``link_fragments`` too where they stay in their chunk."""
    create_links_family(level_group, delta=delta, link_width=link_width, sid_ndim=sid_ndim or (len(offsets[0]) if offsets else None), directed=directed, store=store)
    policy = link_family_policy(level_group, delta)
    assert policy is not None, "the family was made just now"
    way = intra_offsets(policy[1], link_width) if offsets is None else offsets
    perm = links_has_perm(way, delta=delta, directed=directed, store=store)
    stated = {"zv_array": "links", "dtype": np.dtype(dtype).name, "offsets": [list(map(int, one)) for one in way], "has_perm": perm}
    create_cell_array(level_group, links_path(delta, way), {**stated, "link_width": int(link_width), "level_delta": int(delta)}, exist_ok)
    if delta == 0 and not any(map(any, way)):
        create_cell_array(level_group, LINK_FRAGMENTS, {"zv_array": LINK_FRAGMENTS, "encoding": "fragment_index_v1"})


def create_link_attributes_array(
    level_group: Group,
    name: str,
    dtype: Any = "float32",
    *,
    delta: int = 0,
    sid_ndim: int | None = None,
    link_width: int = 2,
    offsets: Sequence[Sequence[int]] | None = None,
    exist_ok: bool = True,
    row_shape: Sequence[int] = (),
) -> None:
    """Create the array of an attribute of the links that lead one way."""
    way = intra_offsets(sid_ndim or len(read_root_metadata(level_group).chunk_shape), link_width) if offsets is None else offsets
    family = f"{LINK_ATTRIBUTES}/{name}/{links_group_path(delta).partition('/')[2]}"
    make_groups(level_group, family, {"zv_array": "link_attribute_family", "name": name, "level_delta": int(delta)})
    stated = {"zv_array": "link_attribute", "name": name, "dtype": np.dtype(dtype).name, "row_shape": list(row_shape)}
    own = {"offsets": [list(map(int, one)) for one in way], "level_delta": int(delta)}
    create_cell_array(level_group, f"{family}/{offsets_segment(way)}", {**stated, **own}, exist_ok)


def _placements(chunks: Ints, vids: Ints, delta: int, directed: bool, store: str) -> Iterator[tuple[Ints, Ints]]:
    """The records, and the order in which the ends of each are stored; ``duplicate`` stores one more than once."""
    number, width = vids.shape
    identity = np.tile(np.arange(width), (number, 1))
    if delta or (store == "canonical" and directed):
        yield np.arange(number), identity
        return
    same = (chunks[:, :, None] == chunks[:, None]).all(axis=3)  # whether two ends are in one chunk
    intra = same.all(axis=(1, 2))
    order = identity
    for keys in (vids, *np.moveaxis(chunks, 2, 0)[::-1]):
        order = np.take_along_axis(order, np.argsort(np.take_along_axis(keys, order, axis=1), axis=1, kind="stable"), axis=1)
    if store == "canonical":
        yield np.arange(number), np.where(intra[:, None], identity, order)
        return
    rank = np.argsort(order, axis=1)
    for lead in range(width):
        first = ~(same[:, lead] & (rank < rank[:, lead : lead + 1])).any(axis=1)  # the first end in its chunk leads
        rows = np.flatnonzero(np.where(intra, lead == 0, first))
        yield rows, np.tile([lead, *(k for k in range(width) if k != lead)], (len(rows), 1))


def _codes(sigma: Ints) -> Ints:
    """The number of each permutation."""
    width = sigma.shape[1]
    found = np.zeros(len(sigma), dtype=np.int64)
    for place in range(width):
        found += (sigma[:, place + 1 :] < sigma[:, place : place + 1]).sum(axis=1) * math.factorial(width - 1 - place)
    return found


def _scales(level: Group, delta: int, rank: int) -> tuple[Ints, Ints]:
    """How many chunks of the root one of this level is, and one of the level that links lead to."""
    root = read_root_metadata(level)
    found = []
    for number in (level.level, level.level + delta):
        scale = chunk_scale_from_root(root, read_level_metadata(level, number)) if delta else (1,) * rank
        found.append(np.array([1] * (rank - len(scale)) + list(scale), dtype=np.int64))
    return found[0], found[1]


def partition_links(level: Group, chunks: Ints, vids: Ints, delta: int, directed: bool, store: str) -> dict[tuple[str, Index], tuple[Ints, Ints]]:
    """For each array and cell, the rows that go there, and the numbers of their records."""
    width, rank = chunks.shape[1:]
    own, other = _scales(level, delta, rank)
    parts = []
    for records, sigma in _placements(chunks, vids, delta, directed, store):
        placed = np.take_along_axis(chunks[records], sigma[:, :, None], axis=1)
        way = (placed[:, 1:] - (placed[:, :1] * own) // other).reshape(len(records), -1)
        rows = np.column_stack([_codes(sigma), np.take_along_axis(vids[records], sigma, axis=1)])
        parts.append((np.column_stack([way, placed[:, 0]]), rows, records))
    places, rows, records = (np.concatenate(group) for group in zip(*parts))
    keys, inverse = np.unique(places, axis=0, return_inverse=True)
    order = np.lexsort((records, inverse.reshape(-1)))
    bounds = offsets_of(np.bincount(inverse.reshape(-1), minlength=len(keys)))
    found = {}
    for number, key in enumerate(keys.tolist()):
        offsets = [key[rank * k : rank * (k + 1)] for k in range(width - 1)]
        picked = order[bounds[number] : bounds[number + 1]]
        skip = 0 if links_has_perm(offsets, delta=delta, directed=directed, store=store) else 1
        found[offsets_segment(offsets), tuple(key[-rank:])] = (rows[picked][:, skip:], records[picked])
    return found


def _records(links: Sequence[Any]) -> tuple[Any, Any]:
    """Chunks and rows of records that are given as lists of pairs."""
    try:
        records = [[(tuple(chunk), int(row)) for chunk, row in record] for record in links]
        return np.array([[chunk for chunk, _ in record] for record in records]), np.array([[row for _, row in record] for record in records])
    except (TypeError, ValueError) as error:
        raise ArrayError(f"links: expected records that are lists of pairs of a chunk and a row, of one length: {error}") from error


def write_link_cells(
    level_group: Group,
    links: Sequence[Any] | None = None,
    sid_ndim: int | None = None,
    *,
    chunks: Any = None,
    vids: Any = None,
    attributes: Mapping[str, Any] | None = None,
    delta: int = 0,
    link_width: int | None = None,
    dtype: Any = np.int64,
    directed: bool = False,
    store: str = "canonical",
    allocate: bool = True,
) -> LinkPartition:
    """Add records to the cells they belong to: as lists, or as arrays of chunks ``(M, L, D)`` and rows ``(M, L)``, with their attributes.

    Presence and counts are left to :func:`finalize_links`, which a coordinator calls once. Writers of one cell must take turns.
    """
    if (links is None) == (chunks is None) or (chunks is None) != (vids is None) or (links is not None and attributes):
        raise ArrayError("give links, or chunks= and vids= (with attributes=), not both")
    if links is not None:
        chunks, vids = _records(links)
    at, rows = host_array(chunks, "chunks", np.int64), host_array(vids, "vids", np.int64)
    if not rows.size:
        return LinkPartition({}, 0)
    if at.ndim != 3 or at.shape[:2] != rows.shape or sid_ndim not in (None, at.shape[2]) or link_width not in (None, rows.shape[1]) or rows.shape[1] > 20:
        raise ArrayError(f"links: expected chunks (M, L, sid_ndim) and vids (M, L), found the shapes {at.shape} and {rows.shape}")
    if rows.min() < 0:
        raise ArrayError(f"vids must be >= 0, found {rows.min()}")
    columns = {name: host_array(values, name) for name, values in (attributes or {}).items()}
    if any(len(values) != len(rows) or values.ndim > 2 for values in columns.values()):
        raise ArrayError(f"attributes: expected {len(rows)} rows in each, found the shapes {[values.shape for values in columns.values()]}")
    create_links_family(level_group, delta=delta, link_width=rows.shape[1], sid_ndim=at.shape[2], directed=directed, store=store)
    buckets = partition_links(level_group, at, rows, delta, directed, store)
    for segment in dict.fromkeys(segment for segment, _ in buckets):
        name = f"{links_group_path(delta)}/{segment}"
        offsets = parse_offsets(segment, sid_ndim=at.shape[2], link_width=rows.shape[1])
        if not allocate and name not in level_group:
            raise ArrayError(f"allocate=False: there is no array {name!r}; a coordinator creates it by create_links_array")
        create_links_array(level_group, rows.shape[1], dtype, delta=delta, offsets=offsets, sid_ndim=at.shape[2], directed=directed, store=store)
        own = {cell: found[0] for (seg, cell), found in buckets.items() if seg == segment}
        held = _link_groups(level_group, name, own)
        cells, cuts = {}, {}
        for cell, added in own.items():
            added = as_type(added, stamped_dtype(level_group, name), name)
            groups = [*held[cell], added]
            cells[cell] = encode_ragged(groups, added.dtype)
            if _is_flat(name):
                cells[cell] = b"".join(np.ascontiguousarray(group).tobytes() for group in groups)
                bounds = offsets_of([len(group) for group in groups])
                cuts[cell] = ChunkFragmentIndex(bounds[:-1], np.diff(bounds), np.ones(len(groups), bool), np.empty(0, np.int64)).encode()
        write_cells(level_group, name, cells, False)
        if cuts:
            write_cells(level_group, LINK_FRAGMENTS, cuts, False)
    partition = LinkPartition({place: found[1] for place, found in buckets.items()}, len(rows), sum(len(found[0]) for found in buckets.values()))
    for name, values in columns.items():
        write_link_attribute_cells(level_group, name, values, partition=partition, delta=delta, allocate=allocate)
    return partition


def write_link_attribute_cells(level_group: Group, attr_name: str, attr_data: Any, *, partition: LinkPartition, delta: int = 0, allocate: bool = True) -> None:
    """Add the rows of an attribute to the cells that the records of a partition went to."""
    values, policy = host_array(attr_data, attr_name), link_family_policy(level_group, delta)
    if policy is None or len(values) != partition.num_links:
        raise ArrayError(f"{attr_name}: expected a value for each of {partition.num_links} links of {links_group_path(delta)}, found {len(values)}")
    family = f"{LINK_ATTRIBUTES}/{attr_name}/{links_group_path(delta).partition('/')[2]}"
    for segment in dict.fromkeys(segment for segment, _ in partition.cell_indices):
        name = f"{family}/{segment}"
        if not allocate and name not in level_group:
            raise ArrayError(f"allocate=False: there is no array {name!r}; a coordinator creates it by create_link_attributes_array")
        offsets = parse_offsets(segment, sid_ndim=policy[1], link_width=policy[0])
        create_link_attributes_array(level_group, attr_name, values.dtype, delta=delta, offsets=offsets, row_shape=values.shape[1:])
        if list(values.shape[1:]) != list(level_group.read_array_meta(name).get("row_shape") or []):
            raise ArrayError(f"{name}: rows of the shape {values.shape[1:]} do not fit those that are there")
        own = {cell: numbers for (seg, cell), numbers in partition.cell_indices.items() if seg == segment}
        new = as_type(values, stamped_dtype(level_group, name), name)
        held = read_cell_bytes(level_group, name, own)
        write_cells(level_group, name, {cell: held[cell] + np.ascontiguousarray(new[numbers]).tobytes() for cell, numbers in own.items()}, False)


def _is_flat(name: str) -> bool:
    """Whether an array of links has plain rows: those that stay in their chunk."""
    return name.startswith(f"{LINKS}/0/") and not any(word.strip("0") for word in re.split(r"[._]", name.split("/")[2]) if word != "self")


def link_columns(level: Group, name: str) -> int:
    """How many columns the rows of an array of links have."""
    segment, delta = name.split("/")[2], int(name.split("/")[1])
    policy = link_family_policy(level, delta)
    if policy is None:
        raise ArrayError(f"{name}: its family states no policy")
    offsets = parse_offsets(segment, sid_ndim=policy[1], link_width=policy[0])
    perm = level.read_array_meta(name).get("has_perm")
    return policy[0] + int(links_has_perm(offsets, delta=delta, directed=policy[2], store=policy[3]) if perm is None else bool(perm))


def _link_groups(level: Group, name: str, cells: Any) -> dict[Index, list[npt.NDArray[Any]]]:
    """The groups of rows of cells of links."""
    width, dtype = link_columns(level, name), stamped_dtype(level, name)
    blobs = read_cell_bytes(level, name, cells)
    if not _is_flat(name):
        return {cell: decode_ragged(blob, dtype, width) for cell, blob in blobs.items()}
    cuts = read_cell_bytes(level, LINK_FRAGMENTS, cells)
    found = {}
    for cell, blob in blobs.items():
        rows = flat_links(blob, dtype, width, name)
        index = decode_fragment_index(cuts[cell]).ranges() if cuts[cell] else np.array([[0, len(rows)]][: len(rows)]).reshape(-1, 2)
        bounds = offsets_of(index[:, 1]) if index is not None else np.zeros(1, np.int64)
        if index is None or bounds[-1] != len(rows) or (index[:, 0] != bounds[:-1]).any():
            raise ArrayError(f"{name}: chunk {key_of(cell)}: its groups of links do not follow each other; nothing can be added to them")
        found[cell] = [rows[a:b] for a, b in zip(bounds, bounds[1:])]
    return found


def flat_links(blob: bytes, dtype: np.dtype[Any], width: int, name: str) -> npt.NDArray[Any]:
    """The rows of a cell of links that stay in their chunk."""
    if len(blob) % (width * dtype.itemsize):
        raise ArrayError(f"{name}: {len(blob)} bytes are not divisible by rows of {width * dtype.itemsize}")
    return np.frombuffer(blob, dtype).reshape(-1, width)


def finalize_links(level_group: Group, *, delta: int = 0) -> LinkPartition:
    """Record the presence of the arrays of links and their attributes, unless it is deferred, and count the links of a family."""
    writable(level_group)
    policy, family = link_family_policy(level_group, delta), links_group_path(delta)
    if policy is None:
        return LinkPartition({}, 0)
    segments = sorted(level_group[family].children())
    if not level_group.presence_deferred():
        columns = [f"{LINK_ATTRIBUTES}/{name}/{family.partition('/')[2]}" for name in (level_group[LINK_ATTRIBUTES].children() if LINK_ATTRIBUTES in level_group else ())]
        arrays = [f"{path}/{segment}" for path in (family, *(c for c in columns if c in level_group)) for segment in level_group[path].children()]
        for name in [*arrays, *([LINK_FRAGMENTS] if LINK_FRAGMENTS in level_group and delta == 0 else [])]:
            level_group.derive_nonempty_chunks(name, on_sharded="derive")
    cells, physical, logical = {}, 0, 0
    for segment in segments:
        name = f"{family}/{segment}"
        offsets = np.array(parse_offsets(segment, sid_ndim=policy[1], link_width=policy[0]), dtype=np.int64).reshape(policy[0] - 1, policy[1])
        keys = [coords_of(key) for key in level_group.list_chunks(name)]
        for cell, groups in _link_groups(level_group, name, keys).items():
            number = sum(map(len, groups))
            cells[segment, cell] = np.arange(physical, physical + number)
            physical += number
            ends = np.vstack([np.zeros((1, policy[1]), np.int64), offsets]) + cell if policy[3] == "duplicate" and policy[0] > 1 and delta == 0 else None
            # Of the copies of a record, the one in the cell of its lowest chunk counts.
            logical += number if ends is None or tuple(min(ends.tolist())) == cell else 0
    set_attributes(level_group, family, {"num_links": logical, "num_physical_records": physical})
    return LinkPartition(cells, logical, physical)
