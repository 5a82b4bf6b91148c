"""The objects of a level as rows: manifests, ids and columns, appended by one writer or placed by several into reserved rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..constants import OBJECT_ATTRIBUTES, OBJECT_INDEX
from ..exceptions import ArrayError
from .fragments import Ints, decode_object_manifests_csr, encode_object_manifests_csr, host_array, host_device, manifest_csr, offsets_of, spread
from .group import Group
from .store import read_root_metadata, update_root_metadata
from .stored import RowArray, codec_steps, create_array, exclusive, make_groups, set_attributes, writable

OBJECT_INDEX_LAYOUT_V1, OBJECT_INDEX_LAYOUT_V2 = "vlen_manifests_v1", "vlen_manifests_v2"
OBJECT_INDEX_LAYOUT_DENSE = "dense_manifests_v1"
OBJECT_INDEX_MANIFEST_BUCKET = 16_384  # rows of a chunk of manifests, ids, spans and blocks
COLUMN_BUCKET = 65_536  # rows of a chunk of a column
OBJECT_SHARD_ROW_MULTIPLE = 65_536
FLUSH_ROWS = 1 << 17  # that a writer of manifests holds
MANIFESTS, IDS, SPANS, BLOCKS = (f"{OBJECT_INDEX}/{name}" for name in ("manifests", "object_ids", "manifest_spans", "manifest_blocks"))
_EMPTY = bytes(4)  # a manifest without fragments
_UNWRITTEN = -1
_WHOLE = np.dtype(np.int64)


def object_layer_arrays(level: Group) -> list[str]:
    """The arrays of the objects of a level."""
    columns = level[OBJECT_ATTRIBUTES].children() if OBJECT_ATTRIBUTES in level else []
    return [path for path in (MANIFESTS, IDS, SPANS, BLOCKS) if path in level] + [f"{OBJECT_ATTRIBUTES}/{name}" for name in columns]


def object_shard_rows(level_group: Group) -> int | None:
    """How many rows a shard of the objects holds; ``None`` where they are not sharded."""
    for name in object_layer_arrays(level_group):
        array = RowArray(level_group, name)
        return array.shard[0] if array.shard else None
    return None


def is_dense_index(level_group: Group) -> bool:
    """Whether manifests are stored as arrays of whole numbers: as the index says, else as its arrays are."""
    if OBJECT_INDEX not in level_group:
        return False
    return level_group.read_array_meta(OBJECT_INDEX).get("layout") == OBJECT_INDEX_LAYOUT_DENSE or (MANIFESTS not in level_group and SPANS in level_group)


class _Index:
    """How the object index of a level is stored."""

    def __init__(self, level: Group) -> None:
        if SPANS not in level and MANIFESTS not in level:
            raise ArrayError(f"level {level.level} has no object index: write_object_manifests or reserve_object_rows makes it")
        self.level, self.meta, self.dense = level, level.read_array_meta(OBJECT_INDEX), is_dense_index(level)
        self.stores_ids = IDS in level and (self.dense or self.meta.get("layout") == OBJECT_INDEX_LAYOUT_V2)
        self.rank, self.committed = self.meta.get("sid_ndim", 3), self.meta.get("num_objects", 0)
        if type(self.rank) is not int or not 1 <= self.rank <= 16 or type(self.committed) is not int or self.committed < 0:
            raise ArrayError(f"{OBJECT_INDEX}: expected sid_ndim and num_objects as whole numbers, found {self.rank!r} and {self.committed!r}")

    @property
    def table(self) -> RowArray:
        """The array whose rows are the objects."""
        return RowArray(self.level, SPANS if self.dense else MANIFESTS)

    def counts_from_zero(self, rows: int) -> bool:
        """Whether the ids of the first rows are the numbers of the rows."""
        ids = RowArray(self.level, IDS)
        return not rows or bool(self.meta.get("object_ids_sorted")) and ids.read(0, 1)[0] == 0 and ids.read(rows - 1, rows)[0] == rows - 1

    def ids_for(self, start: int, number: int, ids: Any, counts: bool) -> Ints | None:
        """The ids of rows that are written; ``None`` where the index has no table of them."""
        rows = np.arange(start, start + number, dtype=np.int64)
        own = rows if ids is None else host_array(ids, "ids", np.int64).reshape(-1)
        if len(own) != number:
            raise ArrayError(f"{len(own)} ids for {number} manifests")
        if not self.stores_ids:
            if not np.array_equal(own, rows):
                raise ArrayError("this object index stores ids positionally: row i is object i, so ids= must be the rows that are written")
            return None
        if ids is None and not counts:
            raise ArrayError("this object index stores its ids, and they are not simply the rows; pass ids= for the objects that are written")
        if len(own) and own.min() < 0:
            raise ArrayError(f"ids must be >= 0, found {own.min()}")
        return own

    def put(self, start: int, manifests: tuple[Ints, Ints, Ints], ids: Ints | None, block_at: int) -> None:
        """Write rows that are there: what they name first."""
        offsets, coords, frags = manifests
        if self.dense:
            RowArray(self.level, BLOCKS).write(block_at, np.column_stack([coords, frags]))
        if ids is not None:
            RowArray(self.level, IDS).write(start, ids)
        if self.dense:
            self.table.write(start, np.column_stack([block_at + offsets[:-1], np.diff(offsets)]))
        else:
            self.table.write(start, encode_object_manifests_csr(coords, frags, offsets, sid_ndim=self.rank))


def _make_array(level: Group, name: str, rows: int, tail: Sequence[int], dtype: Any, fill: Any, bucket: int, shard: int | None, attributes: Any = None) -> None:
    whole = None if shard is None else (shard, *tail)
    create_array(level, name, (rows, *tail), (bucket, *tail), dtype, fill, codec_steps("zstd"), whole, attributes)


def _make_index(level: Group, layout: str | None, sid_ndim: int | None, shard: int | None) -> _Index:
    """The index of a level, made without rows where there is none."""
    block = Group(level._shared).attrs.get("zarr_vectors") or {}
    chosen = layout or block.get("manifest_layout") or "vlen"
    if chosen not in ("vlen", "dense"):
        raise ArrayError(f"layout: expected vlen or dense, found {chosen!r}")
    if SPANS in level or MANIFESTS in level:
        return _Index(level)
    binned = bool((level.attrs.get("zarr_vectors_level") or {}).get("chunk_attribute_name"))
    rank = int(sid_ndim or len(read_root_metadata(level).chunk_shape) + binned)
    stated = {"zv_array": "object_index", "num_objects": 0, "num_present": 0, "sid_ndim": rank}
    make_groups(level, OBJECT_INDEX, {**stated, **({"layout": OBJECT_INDEX_LAYOUT_V1} if chosen == "vlen" else {"layout": OBJECT_INDEX_LAYOUT_DENSE, "object_ids_sorted": True})})
    if chosen == "vlen":
        _make_array(level, MANIFESTS, 0, (), None, "AAAAAA==", OBJECT_INDEX_MANIFEST_BUCKET, shard)
    else:
        for name, tail, fill in ((BLOCKS, (rank + 1,), 0), (IDS, (), _UNWRITTEN), (SPANS, (2,), 0)):
            _make_array(level, name, 0, tail, _WHOLE, fill, OBJECT_INDEX_MANIFEST_BUCKET, shard)
        if "dense_manifests" not in (block.get("format_capabilities") or []):
            update_root_metadata(Group(level._shared), add_capabilities=["dense_manifests"])
    return _Index(level)


def _check_mode(level: Group, mode: str, at: int | None) -> None:
    writable(level)
    if mode not in ("replace", "append", "place") or (mode == "replace" and at is not None) or (mode == "place" and at is None) or int(at or 0) < 0:
        raise ArrayError(f'mode: expected replace, append or place; mode="place" needs at=, replace has none; found {mode!r} with at={at}')


def write_object_manifests(
    level_group: Group, manifest_blobs: Any = None, *, chunk_coords: Any = None, fragment_idx: Any = None, manifest_offsets: Any = None,
    ids: Any = None, mode: str = "replace", at: int | None = None, layout: str | None = None, block_at: int | None = None,
) -> tuple[int, int]:  # fmt: skip
    """Write the manifests of objects, which are given as arrays; returns the first row and how many there are.

    ``append`` adds them behind row ``at``, whose residue of a failed writer is dropped; ``place`` writes reserved rows, which
    several writers may do at once. :func:`commit_object_index` then says how many count.
    """
    _check_mode(level_group, mode, at)
    index = _Index(level_group) if mode == "place" else _make_index(level_group, layout, None, object_shard_rows(level_group))
    given = manifest_csr(chunk_coords, fragment_idx, manifest_offsets, index.rank, manifest_blobs)
    number, blocks_needed = len(given[0]) - 1, len(given[2])
    if mode == "place":
        start, block = int(at or 0), int(block_at or 0)
        if index.dense and block_at is None and blocks_needed:
            raise ArrayError("placing into a dense index needs block_at, the first reserved block of these fragments")
        if index.table.rows < start + number:
            raise ArrayError(f"{index.table.name} has {index.table.rows} rows, {start + number} are needed: reserve_object_rows for the full count first")
        index.put(start, given, index.ids_for(start, number, ids, True), block)
        return start, number
    with exclusive(level_group[OBJECT_INDEX].path):
        index = _Index(level_group)  # as it is now that no other writer is at it
        if mode == "replace":
            set_attributes(level_group, OBJECT_INDEX, {"num_objects": 0, "num_present": 0, "object_ids_sorted": True})
            index, at = _Index(level_group), 0
        rows = index.table.rows
        start = rows if at is None else int(at)
        if start < index.committed:
            raise ArrayError(f"at={start}: {index.committed} objects are committed, and stay; ds.edit() removes objects")
        counts = index.stores_ids and index.counts_from_zero(min(start, rows))
        if start > rows and index.stores_ids and not counts:
            raise ArrayError(f"at={start}: an index of {rows} rows that stores its ids cannot pad rows without ids")
        new, block = index.ids_for(start, number, ids, counts), 0
        if index.dense:
            blocks, spans = RowArray(level_group, BLOCKS), index.table.read(0, start) if start < rows else None
            block = blocks.rows if spans is None else min(blocks.rows, int((spans.sum(axis=1) * (spans[:, 1] > 0)).max(initial=0)))
            blocks.resize(block)
            blocks.resize(block + blocks_needed)
        for name in [index.table.name, *([IDS] if index.stores_ids else [])]:
            array = RowArray(level_group, name)
            array.resize(min(start, rows))
            array.resize(start + number)
            if start > rows:
                gap = np.zeros((start - rows, 2), np.int64) if name == SPANS else np.arange(rows, start) if name == IDS else [_EMPTY] * (start - rows)
                array.write(rows, gap)
        index.put(start, given, new, block)
        if new is not None and len(new):
            last = RowArray(level_group, IDS).read(start - 1, start) if start else new[:0]
            in_order = bool(index.meta.get("object_ids_sorted", start == 0)) and bool((np.diff(np.concatenate([last, new])) > 0).all())
            set_attributes(level_group, OBJECT_INDEX, {"object_ids_sorted": in_order})
    return start, number


def commit_object_index(
    level_group: Group, num_objects: int, *, sid_ndim: int | None = None, num_present: int | None = None, object_ids_sorted: bool | None = None
) -> dict[str, Any]:
    """Say how many rows of the index are objects; rows that were reserved and never written are refused. Returns what the index says of itself."""
    writable(level_group)
    index, count = _Index(level_group), int(num_objects)
    table = index.table
    if not 0 <= count <= table.rows:
        raise ArrayError(f"num_objects={count} exceeds the {table.rows} manifest rows of the index")
    stated: dict[str, Any] = {"zv_array": "object_index", "num_objects": count, "sid_ndim": int(sid_ndim or index.rank)}
    stated["layout"] = OBJECT_INDEX_LAYOUT_DENSE if index.dense else OBJECT_INDEX_LAYOUT_V2 if index.stores_ids else OBJECT_INDEX_LAYOUT_V1
    if index.stores_ids:
        ids = RowArray(level_group, IDS).read(0, count)
        if missing := count - len(ids) + int((ids < 0).sum()):
            raise ArrayError(f"{missing} of the {count} rows have no object id: they were reserved and never written")
        stated["object_ids_sorted"] = bool((np.diff(ids) > 0).all())
        if not stated["object_ids_sorted"] and len(np.unique(ids)) != count:
            raise ArrayError(f"{count - len(np.unique(ids))} of the {count} rows have the id of another row")
    present = missing = 0
    for start in range(0, count if num_present is None else 0, 1 << 20):
        rows = table.read(start, min(start + (1 << 20), count))
        present += int((rows[:, 1] > 0).sum()) if index.dense else sum(row not in (_EMPTY, b"") for row in rows)
        missing += 0 if index.dense else sum(not row for row in rows)
    if missing:
        raise ArrayError(f"{missing} of the {count} rows hold no manifest: they were reserved and never written; an object without fragments has an empty one")
    if not 0 <= int(num_present or 0) <= count:
        raise ArrayError(f"num_present={num_present} is outside 0 to {count}")
    set_attributes(level_group, OBJECT_INDEX, {**stated, "num_present": present if num_present is None else int(num_present)})
    return level_group.read_array_meta(OBJECT_INDEX)


class ObjectManifestWriter:
    """Writes manifests as a stream: what is given is held, and written in whole objects of the arrays."""

    def __init__(self, level_group: Group, at: int | None, layout: str | None, commit: bool) -> None:
        self._level, self._at, self._layout, self._commit = level_group, at, layout, commit
        self._held: list[tuple[Ints, Ints, Ints, Ints | None]] = []
        self._index: _Index | None = None
        self._counts, self._closed, self._next = True, False, 0
        self.first_row: int | None = None
        self.end = self.flushes = 0

    def __enter__(self) -> ObjectManifestWriter:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        self._closed, self._held = True, []  # after an exception nothing more is written

    def write(
        self, manifest_blobs: Any = None, *, chunk_coords: Any = None, fragment_idx: Any = None, manifest_offsets: Any = None, ids: Any = None
    ) -> tuple[int, int]:
        """Take the next objects, as :func:`write_object_manifests` does; returns their first row and number."""
        if self._closed:
            raise ArrayError("this manifest writer is closed")
        if self._index is None:
            arrays: dict[str, Any] = {"chunk_coords": chunk_coords, "fragment_idx": fragment_idx, "manifest_offsets": manifest_offsets}
            first, number = write_object_manifests(self._level, manifest_blobs, **arrays, ids=ids, mode="append", at=self._at, layout=self._layout)
            self._index, self.first_row = _Index(self._level), first
            self._next = self.end = first + number
            self._counts = self._index.stores_ids and self._index.counts_from_zero(self.end)
            return first, number
        offsets, coords, frags = manifest_csr(chunk_coords, fragment_idx, manifest_offsets, self._index.rank, manifest_blobs)
        number = len(offsets) - 1
        new = self._index.ids_for(self.end, number, ids, self._counts)
        self._counts = self._counts and new is not None and np.array_equal(new, np.arange(self.end, self.end + number))
        self._held.append((np.diff(offsets), coords, frags, new))
        self.end += number
        if self.end - self._next >= FLUSH_ROWS:
            whole = self._index.table.object_rows
            self._write(self.end // whole * whole - self._next)
        return self.end - number, number

    def _write(self, rows: int) -> None:
        """Write the first rows that are held."""
        if rows <= 0:
            return
        counts, coords, frags = (np.concatenate([one[k] for one in self._held]) for k in range(3))
        ids = np.concatenate([one[3] for one in self._held if one[3] is not None]) if self._held[0][3] is not None else None
        cut, head = int(counts[:rows].sum()), None if ids is None else ids[:rows]
        arrays: dict[str, Any] = {"chunk_coords": coords[:cut], "fragment_idx": frags[:cut], "manifest_offsets": offsets_of(counts[:rows])}
        write_object_manifests(self._level, **arrays, ids=head, mode="append", at=self._next)
        self._held = [(counts[rows:], coords[cut:], frags[cut:], None if ids is None else ids[rows:])]
        self._next += rows
        self.flushes += 1

    def flush(self) -> None:
        """Write what is held."""
        if not self._closed:
            self._write(self.end - self._next)

    def close(self) -> tuple[int, int] | None:
        """Write what is held, and commit it where that was asked; returns the first row and their number."""
        if not self._closed and self.first_row is not None:
            self.flush()
            if self._commit:
                commit_object_index(self._level, self.end)
        self._closed = True
        return None if self.first_row is None else (self.first_row, self.end - self.first_row)


def object_manifest_writer(level_group: Group, at: int | None = None, *, layout: str | None = None, commit: bool = False) -> ObjectManifestWriter:
    """A context that takes manifests as a stream, the first at row ``at``."""
    return ObjectManifestWriter(level_group, at, layout, commit)


def concurrency_contract(level_group: Group | None = None) -> dict[str, Any]:
    """What several processes may write at once, and at which multiples their ranges of rows must begin and end."""
    rows = object_shard_rows(level_group) if level_group is not None else None
    requires = ["reserve_object_rows", "mode='place'", "commit_object_index"]
    alignment = {"at_alignment": rows or COLUMN_BUCKET, "block_alignment": rows or OBJECT_INDEX_MANIFEST_BUCKET}
    return {"shard_is_unit": True, "concurrent_at_ranges": True, **alignment, "requires": requires}


def aligned_regions(counts: Any, alignment: int) -> Ints:
    """Where the region of each writer begins, for regions that are aligned; the last number is what to reserve."""
    own = host_array(counts, "counts", np.int64).reshape(-1)
    if own.size and own.min() < 0:
        raise ArrayError("counts must not be negative")
    return offsets_of(-(-own // alignment) * alignment)


def reserve_object_rows(
    level_group: Group, n_objects: int, *, sid_ndim: int | None = None, layout: str | None = None, n_blocks: int | None = None,
    columns: Mapping[str, Any] | None = None, shard_rows: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Make or grow the arrays of the objects to so many rows, once, before workers place theirs; nothing is committed."""
    writable(level_group)
    existing, shard = object_shard_rows(level_group), shard_rows or object_shard_rows(level_group)
    if int(n_objects) < 0 or (shard_rows is not None and (shard_rows <= 0 or shard_rows % OBJECT_SHARD_ROW_MULTIPLE)):
        raise ArrayError(f"n_objects={n_objects} is negative, or shard_rows={shard_rows} is no multiple of {OBJECT_SHARD_ROW_MULTIPLE}")
    if object_layer_arrays(level_group) and existing != shard:
        raise ArrayError(f"the objects are laid out with shard_rows={existing}; new rows cannot be laid out with {shard_rows}")
    index = _make_index(level_group, layout, sid_ndim, shard)
    sizes = {index.table.name: int(n_objects)} | ({BLOCKS: int(n_blocks or 0)} if index.dense else {}) | ({IDS: int(n_objects)} if index.stores_ids else {})
    for name, spec in (columns or {}).items():
        dtype, tail, fill = (*(spec if isinstance(spec, tuple) else (spec,)), None, None)[:3]
        array = _make_column(level_group, name, np.dtype(dtype), tuple(tail or ()), fill, shard)
        if array.dtype != np.dtype(dtype) or array.shape[1:] != tuple(tail or ()):
            raise ArrayError(f"{array.name} has rows of {array.shape[1:]} {array.dtype}, and is reserved as {tail or ()} {dtype}")
        sizes[array.name] = int(n_objects)
    touched = []
    for name, rows in sizes.items():
        array = RowArray(level_group, name)
        before, absent = array.rows, {MANIFESTS: _EMPTY, IDS: _UNWRITTEN}.get(name, array.fill)
        if before < rows:
            array.resize(rows)
            touched.append(name)
            if array.fill != absent and array.fill == array.fill:  # an index that was made without reservation has another fill
                array.write(before, np.full(rows - before, absent, array.dtype))
    contract = concurrency_contract(level_group)
    said = {"rows": int(n_objects), "layout": "dense" if index.dense else "vlen", "arrays": touched}
    return {**said, **{key: contract[key] for key in ("at_alignment", "block_alignment")}}


def _make_column(level: Group, name: str, dtype: np.dtype[Any], tail: tuple[int, ...], fill: Any, shard: int | None) -> RowArray:
    """A column of the objects, made without rows where there is none."""
    path = f"{OBJECT_ATTRIBUTES}/{name}"
    if path not in level:
        if dtype.kind not in "iuf" and (dtype.kind != "b" or fill is None):
            raise ArrayError(f"{path}: expected numbers, or bool with fill_value=, found {dtype}: text is written by write_points and its kin, or by ds.edit()")
        limits = None if dtype.kind in "fb" else np.iinfo(dtype)
        value: Any = (np.nan if limits is None else limits.min if dtype.kind == "i" else limits.max) if fill is None else np.array(fill).astype(dtype).item()
        if isinstance(value, float) and not np.isfinite(value):
            value = "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        stated = {"zv_array": "object_attribute", "name": name, "dtype": dtype.name, "shape": [0, *tail], "fill_sentinel_meaning": "absent"}
        _make_array(level, path, 0, tail, dtype, value, COLUMN_BUCKET, shard, stated)
    return RowArray(level, path)


def write_object_attributes(
    level_group: Group, attr_name: str, data: Any, *, present_mask: Any = None, fill_value: Any = None, mode: str = "replace", at: int | None = None
) -> None:
    """Write a column of the objects: all of it, rows behind row ``at`` (``append``), or reserved rows (``place``)."""
    _check_mode(level_group, mode, at)
    rows, path = host_array(data, attr_name), f"{OBJECT_ATTRIBUTES}/{attr_name}"
    if mode == "place" and path not in level_group:
        raise ArrayError(f"{path} is not reserved; call reserve_object_rows first")
    if mode == "replace" and path in level_group:
        shutil.rmtree(level_group[path].path)
    array = _make_column(level_group, attr_name, rows.dtype, rows.shape[1:], fill_value, object_shard_rows(level_group))
    if array.shape[1:] != rows.shape[1:] or array.is_vlen:
        raise ArrayError(f"{path}: rows of the shape {rows.shape[1:]} for ones of {array.shape[1:]}: tail dimensions must match")
    with exclusive(array.folder):
        array = RowArray(level_group, path)
        start = array.rows if at is None else int(at)
        if mode != "place":
            array.resize(min(start, array.rows))
            array.resize(start + len(rows))  # rows between are the fill
        rows = host_array(rows, path, array.dtype)
        if present_mask is not None:
            rows = np.where(host_array(present_mask, "present_mask").astype(bool).reshape(-1, *[1] * (rows.ndim - 1)), rows, array.fill).astype(array.dtype)
        array.write(start, rows)


def write_object_attribute_columns(
    level_group: Group, columns: Mapping[str, Any], *, at: int | None = None, mode: str = "append", fill_values: Mapping[str, Any] | None = None
) -> None:
    """Write several columns of the objects, as :func:`write_object_attributes` does one."""
    for name, data in columns.items():
        write_object_attributes(level_group, name, data, fill_value=(fill_values or {}).get(name), mode=mode, at=at)


@dataclass(frozen=True)
class ManifestCSR:
    """Manifests as arrays: object ``o`` has the fragments ``offsets[o]`` to ``offsets[o + 1]``."""

    offsets: Ints
    chunk_coords: Ints
    fragment_idx: Ints
    object_ids: Ints | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.offsets, self.chunk_coords, self.fragment_idx))


def read_object_manifests_csr(level_group: Group, ids: Any = None, *, device: str | None = None) -> ManifestCSR:
    """The manifests of objects that are committed, in the order they are asked for, as arrays."""
    host_device(device)
    index = _Index(level_group)
    count = min(index.committed, index.table.rows)
    table = RowArray(level_group, IDS).read(0, count) if index.stores_ids else None
    rows = own = np.arange(count) if ids is None else host_array(ids, "ids", np.int64).reshape(-1)
    if table is not None and ids is not None:
        order = np.argsort(table, kind="stable")
        found = np.searchsorted(table[order], own)
        rows = np.append(order, -1)[found]
        rows = np.where(np.append(table, -1)[rows] == own, rows, -1)
    if len(rows) and not 0 <= rows.min() <= rows.max() < count:
        raise ArrayError(f"there is no object {own[(rows < 0) | (rows >= count)][0]}")
    low, high = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
    held = index.table.read(low, high)[rows - low]
    named = table if ids is None else own
    if not index.dense:
        return ManifestCSR(*decode_object_manifests_csr(held.tolist(), index.rank), named)
    blocks, full = RowArray(level_group, BLOCKS), held[held[:, 1] > 0]
    if (held[:, 1] < 0).any() or (full[:, 0] < 0).any() or (full[:, 1] > blocks.rows).any() or (full[:, 0] > blocks.rows - full[:, 1]).any():
        raise ArrayError(f"{SPANS}: a span lies outside the {blocks.rows} rows of {BLOCKS}")
    numbers = spread(full[:, 0], full[:, 1])
    low, high = (int(numbers.min()), int(numbers.max()) + 1) if len(numbers) else (0, 0)
    found = blocks.read(low, high)[numbers - low]
    return ManifestCSR(offsets_of(held[:, 1]), found[:, :-1], found[:, -1], named)


def read_all_object_manifests_csr(level_group: Group, *, device: str | None = None) -> ManifestCSR:
    """The manifests of all objects that are committed, by row, as arrays."""
    return read_object_manifests_csr(level_group, device=device)
