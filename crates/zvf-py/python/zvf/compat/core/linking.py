"""Writing links as arrays: each record goes to the cell of one of its chunks, in the array of the way to the others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..constants import LINK_ATTRIBUTES, LINK_FRAGMENTS, LINKS
from ..exceptions import ArrayError
from .fragments import Ints, decode_fragment_index, decode_ragged, encode_ragged, host_array, offsets_of, ranges_of
from .group import Group
from .metadata import chunk_scale_from_root
from .store import read_level_metadata, read_root_metadata
from .stored import Index, make_groups, set_attributes, writable
from .writing import column_width, coords_of, create_cell_array, in_turn, is_flat, key_of, read_cell_bytes, stamped_dtype, write_cells


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


MAX_AXES, MAX_WIDTH = 16, 1 << 16


def intra_offsets(sid_ndim: int, link_width: int) -> tuple[Index, ...]:
    """The offsets of links that stay in their chunk."""
    if not 0 < sid_ndim <= MAX_AXES or not 0 < link_width <= MAX_WIDTH:
        raise ArrayError(f"expected 1 to {MAX_AXES} axes and links of 1 to {MAX_WIDTH} ends, found {sid_ndim} and {link_width}")
    return ((0,) * sid_ndim,) * (link_width - 1)


def links_path(delta: int, offsets: Sequence[Sequence[int]]) -> str:
    """The array of the links that lead this way."""
    return f"{links_group_path(delta)}/{offsets_segment(offsets)}"


def links_has_perm(offsets: Sequence[Sequence[int]], *, delta: int, directed: bool, store: str = "canonical") -> bool:
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
    if store != "canonical":
        raise ArrayError(f"store: expected canonical, found {store!r}: links that are stored more than once are read, not written")
    wanted = (int(link_width), int(sid_ndim or len(read_root_metadata(level_group).chunk_shape)), bool(directed), store)
    path, stated = links_group_path(delta), link_family_policy(level_group, delta)
    if stated is not None and stated != wanted:
        raise ArrayError(f"{path}: link_width, sid_ndim, directed and store are {stated} for the whole family, not {wanted}")
    if stated is None:
        names = dict(zip(("link_width", "sid_ndim", "directed", "store"), wanted))
        make_groups(level_group, path, {"zv_array": "links_family", "level_delta": int(delta), **names})


def create_links_array(
    level_group: Group, link_width: int, dtype: Any = "int64", *, delta: int = 0, sid_ndim: int | None = None,
    offsets: Sequence[Sequence[int]] | None = None, directed: bool = False, store: str = "canonical", exist_ok: bool = True,
) -> None:  # fmt: skip
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


def link_attributes_group_path(name: str, delta: int = 0) -> str:
    """The group of an attribute of links."""
    return f"{LINK_ATTRIBUTES}/{name}/{links_group_path(delta).partition('/')[2]}"


def create_link_attributes_array(
    level_group: Group, name: str, dtype: Any = "float32", *, delta: int = 0, sid_ndim: int | None = None, link_width: int = 2,
    offsets: Sequence[Sequence[int]] | None = None, exist_ok: bool = True, row_shape: Sequence[int] = (),
) -> None:  # fmt: skip
    """Create the array of an attribute of the links that lead one way."""
    way = intra_offsets(sid_ndim or len(read_root_metadata(level_group).chunk_shape), link_width) if offsets is None else offsets
    family = link_attributes_group_path(name, delta)
    make_groups(level_group, family, {"zv_array": "link_attribute_family", "name": name, "level_delta": int(delta)})
    stated = {"zv_array": "link_attribute", "name": name, "dtype": np.dtype(dtype).name, "row_shape": list(row_shape)}
    own = {"offsets": [list(map(int, one)) for one in way], "level_delta": int(delta)}
    create_cell_array(level_group, f"{family}/{offsets_segment(way)}", {**stated, **own}, exist_ok)


def _order(chunks: Ints, vids: Ints) -> Ints:
    """The order in which the ends of each record are stored: by chunk and row; as given where all are in one chunk."""
    order = np.tile(np.arange(vids.shape[1]), (len(vids), 1))
    intra = (chunks == chunks[:, :1]).all(axis=(1, 2))
    for keys in (vids, *np.moveaxis(chunks, 2, 0)[::-1]):
        order = np.take_along_axis(order, np.argsort(np.take_along_axis(keys, order, axis=1), axis=1, kind="stable"), axis=1)
    return np.where(intra[:, None], np.arange(vids.shape[1]), order)


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


def partition_links(level: Group, chunks: Ints, vids: Ints, delta: int, directed: bool) -> dict[tuple[str, Index], tuple[Ints, Ints]]:
    """For each array and cell, the rows that go there, and the numbers of their records."""
    width, rank = chunks.shape[1:]
    own, other = _scales(level, delta, rank)
    sigma = np.tile(np.arange(width), (len(vids), 1)) if delta or directed else _order(chunks, vids)
    placed = np.take_along_axis(chunks, sigma[:, :, None], axis=1)
    way = (placed[:, 1:] - (placed[:, :1] * own) // other).reshape(len(vids), -1)
    rows = np.column_stack([_codes(sigma), np.take_along_axis(vids, sigma, axis=1)])
    keys, inverse = np.unique(np.column_stack([way, placed[:, 0]]), axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    bounds = offsets_of(np.bincount(inverse.reshape(-1), minlength=len(keys)))
    found = {}
    for number, key in enumerate(keys.tolist()):
        offsets = [key[rank * k : rank * (k + 1)] for k in range(width - 1)]
        picked = order[bounds[number] : bounds[number + 1]]
        skip = 0 if links_has_perm(offsets, delta=delta, directed=directed) else 1
        found[offsets_segment(offsets), tuple(key[-rank:])] = (rows[picked][:, skip:], picked)
    return found


def _records(links: Sequence[Any]) -> tuple[Any, Any]:
    """Chunks and rows of records that are given as lists of pairs."""
    try:
        records = [[(tuple(chunk), int(row)) for chunk, row in record] for record in links]
        return np.array([[chunk for chunk, _ in record] for record in records]), np.array([[row for _, row in record] for record in records])
    except (TypeError, ValueError) as error:
        raise ArrayError(f"links: expected records that are lists of pairs of a chunk and a row, of one length: {error}") from error


def write_link_cells(
    level_group: Group, links: Sequence[Any] | None = None, sid_ndim: int | None = None, *, chunks: Any = None, vids: Any = None,
    attributes: Mapping[str, Any] | None = None, delta: int = 0, link_width: int | None = None, dtype: Any = np.int64,
    directed: bool = False, store: str = "canonical", allocate: bool = True,
) -> LinkPartition:  # fmt: skip
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
    buckets = partition_links(level_group, at, rows, delta, directed)
    partition = LinkPartition({place: found[1] for place, found in buckets.items()}, len(rows), len(rows))
    arrays = _by_array(links_group_path(delta), buckets, allocate, level_group)
    for name in arrays:
        offsets = parse_offsets(name.split("/")[-1], sid_ndim=at.shape[2], link_width=rows.shape[1])
        create_links_array(level_group, rows.shape[1], dtype, delta=delta, sid_ndim=at.shape[2], offsets=offsets, directed=directed, store=store)
    for attr_name, values in columns.items():
        _create_columns(level_group, attr_name, values, delta, partition, allocate)
    paths = [f"{link_attributes_group_path(name, delta)}/{array.split('/')[-1]}" for name in columns for array in arrays]
    with in_turn(level_group, LINK_FRAGMENTS, *arrays, *paths):
        groups = {name: link_groups(level_group, name, own) for name, own in arrays.items()}
        for attr_name in columns:  # all is checked before anything is written
            _check_aligned(level_group, attr_name, delta, groups)
        for name, own in arrays.items():
            stored = stamped_dtype(level_group, name)
            cells = {cell: [*held, host_array(own[cell][0], name, stored)] for cell, held in groups[name].items()}
            body = (lambda parts: np.concatenate(parts).tobytes()) if is_flat(name) else encode_ragged
            write_cells(level_group, name, {cell: body(parts) for cell, parts in cells.items()}, False)
            if is_flat(name):
                write_cells(level_group, LINK_FRAGMENTS, {cell: ranges_of([len(part) for part in parts]).encode() for cell, parts in cells.items()}, False)
        for attr_name, values in columns.items():
            write_link_attribute_cells(level_group, attr_name, values, partition=partition, delta=delta, allocate=allocate)
    return partition


def _check_aligned(level: Group, attr_name: str, delta: int, groups: Mapping[str, Mapping[Index, Any]], added: Mapping[str, Mapping[Index, Any]] | None = None) -> None:
    """Fails where cells have links without values of an attribute: further values would be those of other links."""
    for name, cells in groups.items():
        path = f"{link_attributes_group_path(attr_name, delta)}/{name.split('/')[-1]}"
        held = read_cell_bytes(level, path, cells) if path in level else {}
        row = column_width(level, path) * stamped_dtype(level, path).itemsize if path in level else 1
        for cell, own in cells.items():
            links, values = sum(map(len, own)), len(held.get(cell, b"")) // row + (len(added[path][cell]) if added is not None else 0)
            if links != values:
                raise ArrayError(f"{path}: the cell {key_of(cell)} has {links} links and {values} values: values are written with their links")


def write_link_attribute_cells(level_group: Group, attr_name: str, attr_data: Any, *, partition: LinkPartition, delta: int = 0, allocate: bool = True) -> None:
    """Add the rows of an attribute to the cells that the records of a partition went to."""
    values, policy = host_array(attr_data, attr_name), link_family_policy(level_group, delta)
    if policy is None or len(values) != partition.num_links:
        raise ArrayError(f"{attr_name}: expected a value for each of {partition.num_links} links of {links_group_path(delta)}, found {len(values)}")
    arrays = _create_columns(level_group, attr_name, values, delta, partition, allocate)
    links = {f"{links_group_path(delta)}/{name.split('/')[-1]}": own for name, own in arrays.items()}
    with in_turn(level_group, *arrays):
        _check_aligned(level_group, attr_name, delta, {name: link_groups(level_group, name, own) for name, own in links.items()}, arrays)
        for name, own in arrays.items():
            new, held = host_array(values, name, stamped_dtype(level_group, name)), read_cell_bytes(level_group, name, own)
            write_cells(level_group, name, {cell: held[cell] + new[numbers].tobytes() for cell, numbers in own.items()}, False)


def _create_columns(level: Group, attr_name: str, values: Any, delta: int, partition: LinkPartition, allocate: bool) -> dict[str, dict[Index, Any]]:
    """The arrays of an attribute for the links of a partition, and the links of each cell."""
    policy = link_family_policy(level, delta)
    assert policy is not None, "the links are there"
    arrays = _by_array(link_attributes_group_path(attr_name, delta), partition.cell_indices, allocate, level)
    for name in arrays:
        offsets = parse_offsets(name.split("/")[-1], sid_ndim=policy[1], link_width=policy[0])
        create_link_attributes_array(level, attr_name, values.dtype, delta=delta, offsets=offsets, row_shape=values.shape[1:])
        if list(values.shape[1:]) != list(level.read_array_meta(name).get("row_shape") or []):
            raise ArrayError(f"{name}: rows of the shape {values.shape[1:]} do not fit those that are there")
    return arrays


def _by_array(group: str, cells: Mapping[tuple[str, Index], Any], allocate: bool, level: Group) -> dict[str, dict[Index, Any]]:
    """What goes to each array of a group, by cell."""
    found: dict[str, dict[Index, Any]] = {}
    for (segment, cell), value in cells.items():
        found.setdefault(f"{group}/{segment}", {})[cell] = value
    missing = [] if allocate else [name for name in found if name not in level]
    if missing:
        raise ArrayError(f"allocate=False: there is no array {missing[0]!r}; a coordinator creates it by create_links_array or create_link_attributes_array")
    return found


def link_columns(level: Group, name: str) -> int:
    """How many columns the rows of an array of links have."""
    segment, delta = name.split("/")[2], int(name.split("/")[1])
    policy = link_family_policy(level, delta)
    if policy is None:
        raise ArrayError(f"{name}: its family states no policy")
    offsets = parse_offsets(segment, sid_ndim=policy[1], link_width=policy[0])
    perm = level.read_array_meta(name).get("has_perm")
    return policy[0] + int(links_has_perm(offsets, delta=delta, directed=policy[2], store=policy[3]) if perm is None else bool(perm))


def link_groups(level: Group, name: str, cells: Iterable[Index]) -> dict[Index, list[npt.NDArray[Any]]]:
    """The groups of rows of cells of links, as they were written one after the other."""
    width, dtype = link_columns(level, name), stamped_dtype(level, name)
    blobs = read_cell_bytes(level, name, cells)
    if not is_flat(name):
        return {cell: decode_ragged(blob, dtype, width) if blob else [] for cell, blob in blobs.items()}
    cuts = read_cell_bytes(level, LINK_FRAGMENTS, blobs)
    found = {}
    for cell, blob in blobs.items():
        rows = flat_links(blob, dtype, width, name)
        index = decode_fragment_index(cuts[cell]) if cuts[cell] else ranges_of([len(rows)][: len(rows)])
        if not np.array_equal(index.rows, np.arange(len(rows))):
            raise ArrayError(f"{name}: chunk {key_of(cell)}: its groups of links do not follow each other; nothing can be added to them")
        found[cell] = [rows[a:b] for a, b in zip(index.offsets, index.offsets[1:])]
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
    if policy[3] != "canonical":
        raise ArrayError(f"{family}: its links are stored more than once; zvf repair counts them")
    names = level_group[LINK_ATTRIBUTES].children() if LINK_ATTRIBUTES in level_group else []
    groups = [family, *(path for path in (link_attributes_group_path(name, delta) for name in names) if path in level_group)]
    arrays = [f"{path}/{segment}" for path in groups for segment in level_group[path].children()]
    for name in [] if level_group.presence_deferred() else [*arrays, *([LINK_FRAGMENTS] if LINK_FRAGMENTS in level_group else [])]:
        level_group.derive_nonempty_chunks(name, on_sharded="derive")
    cells, total = {}, 0
    for segment in level_group[family].children():
        for cell, rows in link_groups(level_group, f"{family}/{segment}", map(coords_of, level_group.list_chunks(f"{family}/{segment}"))).items():
            cells[segment, cell] = np.arange(total, total + sum(map(len, rows)))
            total += len(cells[segment, cell])
    set_attributes(level_group, family, {"num_links": total, "num_physical_records": total})
    return LinkPartition(cells, total, total)
