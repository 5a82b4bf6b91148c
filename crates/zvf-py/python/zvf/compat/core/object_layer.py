"""The objects of a level as rows: manifests, ids and columns, appended by one writer or placed by several into reserved rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..constants import OBJECT_ATTRIBUTES, OBJECT_INDEX
from ..exceptions import ArrayError
from .fragments import (
    Ints,
    as_type,
    decode_object_manifests_csr,
    encode_object_manifests_csr,
    host_array,
    host_device,
    manifest_csr,
    offsets_of,
    spread,
)
from .group import Group
from .store import read_root_metadata, update_root_metadata
from .stored import RowArray, change_document, codec_steps, create_array, exclusive, make_groups, set_attributes, writable

LAYOUT_V1, LAYOUT_V2, LAYOUT_DENSE = "vlen_manifests_v1", "vlen_manifests_v2", "dense_manifests_v1"
MANIFEST_BUCKET = 16_384  # rows of a chunk of manifests, ids, spans and blocks
COLUMN_BUCKET = 65_536  # rows of a chunk of a column
SHARD_ROW_MULTIPLE = 65_536
FLUSH_ROWS = 1 << 17  # that a writer of manifests holds
MANIFESTS, IDS, SPANS, BLOCKS = (f"{OBJECT_INDEX}/{name}" for name in ("manifests", "object_ids", "manifest_spans", "manifest_blocks"))
_EMPTY = bytes(4)  # a manifest without fragments
_UNWRITTEN = -1


def object_layer_arrays(level: Group) -> list[str]:
    """The arrays of the objects of a level."""
    names = [path for path in (MANIFESTS, IDS, SPANS, BLOCKS) if path in level]
    return names + ([f"{OBJECT_ATTRIBUTES}/{name}" for name in level[OBJECT_ATTRIBUTES].children()] if OBJECT_ATTRIBUTES in level else [])


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
    return level_group.read_array_meta(OBJECT_INDEX).get("layout") == LAYOUT_DENSE or (MANIFESTS not in level_group and SPANS in level_group)


def _count(meta: Mapping[str, Any], name: str, default: int = 0) -> int:
    found = meta.get(name, default)
    if type(found) is not int or not 0 <= found < 1 << 48:
        raise ArrayError(f"{OBJECT_INDEX}: {name}: expected a whole number of at least 0, found {found!r}")
    return found


def _rank(level: Group, meta: Mapping[str, Any]) -> int:
    found = meta.get("sid_ndim")
    if found is None:
        block = level.attrs.get("zarr_vectors_level") or {}
        found = len(read_root_metadata(level).chunk_shape) + bool(block.get("chunk_attribute_name"))
    if type(found) is not int or not 1 <= found <= 16:
        raise ArrayError(f"{OBJECT_INDEX}: sid_ndim: expected 1 to 16, found {found!r}")
    return found


@dataclass
class _Index:
    """How an object index is stored."""

    level: Group
    dense: bool
    stores_ids: bool
    rank: int
    meta: dict[str, Any]

    @property
    def table(self) -> RowArray:
        """The array whose rows are the objects."""
        return RowArray(self.level, SPANS if self.dense else MANIFESTS)


def _index(level: Group) -> _Index:
    if OBJECT_INDEX not in level or (SPANS not in level and MANIFESTS not in level):
        raise ArrayError(f"level {level.level} has no object index: write_object_manifests or reserve_object_rows makes it")
    meta, dense = level.read_array_meta(OBJECT_INDEX), is_dense_index(level)
    stores_ids = IDS in level and (dense or meta.get("layout") == LAYOUT_V2)
    return _Index(level, dense, stores_ids, _rank(level, meta), meta)


def _make_array(level: Group, name: str, rows: int, tail: Sequence[int], dtype: Any, fill: Any, bucket: int, shard: int | None, attributes: Any = None) -> RowArray:
    chunk, whole = (bucket, *tail), None if shard is None else (shard, *tail)
    steps = codec_steps("zstd")
    return RowArray(level, create_array(level, name, shape=(rows, *tail), chunk=chunk, dtype=dtype, fill=fill, steps=steps, shard=whole, attributes=attributes).name)


def _make_index(level: Group, layout: str | None, sid_ndim: int | None, shard: int | None) -> _Index:
    """The index of a level, made without rows where there is none."""
    root = Group(level._shared)
    chosen = layout or (root.attrs.get("zarr_vectors") or {}).get("manifest_layout") or "vlen"
    if chosen not in ("vlen", "dense"):
        raise ArrayError(f"layout: expected vlen or dense, found {chosen!r}")
    if OBJECT_INDEX in level and (SPANS in level or MANIFESTS in level):
        return _index(level)
    rank = _rank(level, {"sid_ndim": sid_ndim})
    stated = {"zv_array": "object_index", "num_objects": 0, "num_present": 0, "sid_ndim": rank}
    make_groups(level, OBJECT_INDEX, {**stated, "layout": LAYOUT_V1 if chosen == "vlen" else LAYOUT_DENSE})
    whole = np.dtype(np.int64)
    if chosen == "vlen":
        _make_array(level, MANIFESTS, 0, (), None, "AAAAAA==", MANIFEST_BUCKET, shard)
    else:
        _make_array(level, BLOCKS, 0, (rank + 1,), whole, 0, MANIFEST_BUCKET, shard)
        _make_array(level, IDS, 0, (), whole, _UNWRITTEN, MANIFEST_BUCKET, shard)
        _make_array(level, SPANS, 0, (2,), whole, 0, MANIFEST_BUCKET, shard)
        set_attributes(level, OBJECT_INDEX, {"object_ids_sorted": True})
        if "dense_manifests" not in ((root.attrs.get("zarr_vectors") or {}).get("format_capabilities") or []):
            update_root_metadata(root, add_capabilities=["dense_manifests"])
    return _index(level)


def _counts_from_one(index: _Index, rows: int) -> bool:
    """Whether the ids of the first rows are the numbers of the rows."""
    ids = RowArray(index.level, IDS)
    return not rows or bool(index.meta.get("object_ids_sorted")) and ids.read(0, 1)[0] == 0 and ids.read(rows - 1, rows)[0] == rows - 1


def _ids_for(index: _Index, start: int, number: int, ids: Any, counts: bool) -> Ints | None:
    """The ids of rows that are written; ``None`` where the index has no table of them."""
    rows = np.arange(start, start + number, dtype=np.int64)
    own = rows if ids is None else host_array(ids, "ids", np.int64).reshape(-1)
    if len(own) != number:
        raise ArrayError(f"{len(own)} ids for {number} manifests")
    if not index.stores_ids:
        if not np.array_equal(own, rows):
            raise ArrayError("this object index stores ids positionally: row i is object i, so ids= must be the rows that are written")
        return None
    if ids is None and not counts:
        raise ArrayError("this object index stores its ids, and they are not simply the rows; pass ids= for the objects that are written")
    if len(own) and own.min() < 0:
        raise ArrayError(f"ids must be >= 0, found {own.min()}")
    return own


def _given(blobs: Any, coords: Any, frags: Any, offsets: Any, rank: int) -> tuple[Ints, Ints, Ints, Any]:
    """Manifests as arrays, and as blobs where they were given so."""
    as_arrays = coords is not None or frags is not None
    if as_arrays == (blobs is not None) or (as_arrays and (coords is None or frags is None)):
        raise ArrayError("give manifest_blobs, or chunk_coords and fragment_idx (optionally with manifest_offsets), not both")
    if as_arrays:
        return *manifest_csr(coords, frags, offsets, rank), None
    own = [bytes(blob) for blob in blobs]
    return *decode_object_manifests_csr(own, rank), own


def _put(index: _Index, start: int, offsets: Ints, coords: Ints, frags: Ints, blobs: Any, ids: Ints | None, block_at: int) -> None:
    """Write rows that are there: what they name first."""
    if index.dense:
        RowArray(index.level, BLOCKS).write(block_at, np.column_stack([coords, frags]))
    if ids is not None:
        RowArray(index.level, IDS).write(start, ids)
    if index.dense:
        index.table.write(start, np.column_stack([block_at + offsets[:-1], np.diff(offsets)]))
    else:
        index.table.write(start, blobs or list(encode_object_manifests_csr(coords, frags, offsets, sid_ndim=index.rank)))


def write_object_manifests(
    level_group: Group,
    manifest_blobs: Any = None,
    *,
    chunk_coords: Any = None,
    fragment_idx: Any = None,
    manifest_offsets: Any = None,
    ids: Any = None,
    mode: str = "replace",
    at: int | None = None,
    layout: str | None = None,
    block_at: int | None = None,
) -> tuple[int, int]:
    """Write the manifests of objects, as blobs or as arrays; returns the first row and how many there are.

    ``append`` adds them behind row ``at``, whose residue of a failed writer is dropped; ``place`` writes reserved rows, which
    several writers may do at once. :func:`commit_object_index` then says how many count.
    """
    writable(level_group)
    if mode not in ("replace", "append", "place") or (mode == "replace" and at is not None) or (mode == "place" and at is None):
        raise ArrayError(f'mode: expected replace, append or place; mode="place" needs at=, replace has none; found {mode!r} with at={at}')
    if at is not None and int(at) < 0:
        raise ArrayError(f"at must be >= 0, got {at}")
    shard = object_shard_rows(level_group)
    if mode == "replace" and OBJECT_INDEX in level_group:
        index = _index(level_group) if SPANS in level_group or MANIFESTS in level_group else None
        kept = layout or ("dense" if index is not None and index.dense else None)
        given = _given(manifest_blobs, chunk_coords, fragment_idx, manifest_offsets, _rank(level_group, level_group.read_array_meta(OBJECT_INDEX)))
        shutil.rmtree(level_group[OBJECT_INDEX].path)
        index = _make_index(level_group, kept, None, shard)
    else:
        index = _index(level_group) if mode == "place" else _make_index(level_group, layout, None, shard)
        given = _given(manifest_blobs, chunk_coords, fragment_idx, manifest_offsets, index.rank)
    offsets, coords, frags, blobs = given
    number = len(offsets) - 1
    if mode == "place":
        start, blocks = int(at or 0), int(block_at or 0)
        if index.dense and block_at is None and frags.size:
            raise ArrayError("placing into a dense index needs block_at, the first reserved block of these fragments")
        new = _ids_for(index, start, number, ids, True)
        need = [(index.table, start + number), *([(RowArray(level_group, BLOCKS), blocks + frags.size)] if index.dense else [])]
        for array, rows in need:
            if array.rows < rows:
                raise ArrayError(f"{array.name} has {array.rows} rows, {rows} are needed: reserve_object_rows for the full count first")
        _put(index, start, offsets, coords, frags, blobs, new, blocks)
        return start, number
    with exclusive(level_group[OBJECT_INDEX].path):
        index = _index(level_group)  # as it is now that no other writer is at it
        rows, committed = index.table.rows, _count(index.meta, "num_objects")
        start = rows if at is None else int(at)
        if start < committed:
            raise ArrayError(f"at={start}: {committed} objects are committed, and stay; use zvf.edit to remove objects")
        counts = index.stores_ids and _counts_from_one(index, min(start, rows))
        if start > rows and index.stores_ids and not counts:
            raise ArrayError(f"at={start}: an index of {rows} rows that stores its ids cannot pad rows without ids")
        new = _ids_for(index, start, number, ids, counts)
        names = [MANIFESTS] if not index.dense else [SPANS]
        names += [IDS] if index.stores_ids else []
        blocks = 0
        if index.dense:
            whole = RowArray(level_group, BLOCKS)
            blocks = whole.rows
            if start < rows:
                spans = index.table.read(0, start)
                blocks = min(blocks, int((spans.sum(axis=1) * (spans[:, 1] > 0)).max(initial=0)))
                whole.resize(blocks)
            RowArray(level_group, BLOCKS).resize(blocks + frags.size)
        for name in names:
            array = RowArray(level_group, name)
            if start < rows:
                array.resize(start)
            array.resize(start + number)
            if start > rows:
                pad = np.arange(rows, start) if name == IDS else [_EMPTY] * (start - rows) if name == MANIFESTS else np.zeros((start - rows, 2), np.int64)
                array.write(rows, pad)
        _put(index, start, offsets, coords, frags, blobs, new, blocks)
        if new is not None and len(new):
            last = RowArray(level_group, IDS).read(start - 1, start) if start else new[:0]
            in_order = bool(index.meta.get("object_ids_sorted", start == 0)) and bool((np.diff(np.concatenate([last, new])) > 0).all())
            set_attributes(level_group, OBJECT_INDEX, {"object_ids_sorted": in_order})
    return start, number


def write_object_index(level_group: Group, manifests: Mapping[int, Sequence[Any]], sid_ndim: int, *, total_objects: int | None = None, layout: str | None = None) -> None:
    """Write the manifests of objects that are given by id, lists of a chunk and a fragment, in the place of those that are there, and commit them."""
    ids = sorted({*range(total_objects or 0), *map(int, manifests)})
    pairs = [list(manifests.get(one, ())) for one in ids]
    offsets = offsets_of([len(own) for own in pairs])
    coords = np.array([chunk for own in pairs for chunk, _ in own], dtype=np.int64).reshape(-1, sid_ndim)
    frags = np.array([number for own in pairs for _, number in own], dtype=np.int64)
    positional = ids == list(range(len(ids)))
    if OBJECT_INDEX in level_group:
        layout = layout or ("dense" if is_dense_index(level_group) else None)
        shutil.rmtree(level_group[OBJECT_INDEX].path)
    index = _make_index(level_group, layout, sid_ndim, object_shard_rows(level_group))
    if not index.dense and not positional:
        _make_array(level_group, IDS, 0, (), np.dtype(np.int64), _UNWRITTEN, MANIFEST_BUCKET, object_shard_rows(level_group))
        set_attributes(level_group, OBJECT_INDEX, {"layout": LAYOUT_V2, "object_ids_sorted": True})
    write_object_manifests(level_group, chunk_coords=coords, fragment_idx=frags, manifest_offsets=offsets, ids=ids, mode="append", at=0)
    commit_object_index(level_group, len(ids))


def commit_object_index(
    level_group: Group, num_objects: int, *, sid_ndim: int | None = None, num_present: int | None = None, object_ids_sorted: bool | None = None
) -> dict[str, Any]:
    """Say how many rows of the index are objects; rows that were reserved and never written are refused. Returns what the index says of itself."""
    writable(level_group)
    index, count = _index(level_group), int(num_objects)
    table = index.table
    if not 0 <= count <= table.rows:
        raise ArrayError(f"num_objects={count} exceeds the {table.rows} manifest rows of the index")
    stated: dict[str, Any] = {"zv_array": "object_index", "num_objects": count, "sid_ndim": int(sid_ndim or index.rank)}
    stated["layout"] = LAYOUT_DENSE if index.dense else LAYOUT_V2 if index.stores_ids else LAYOUT_V1
    if index.stores_ids:
        ids = RowArray(level_group, IDS).read(0, count)
        if missing := count - len(ids) + int((ids < 0).sum()):
            raise ArrayError(f"{missing} of the {count} rows have no object id: they were reserved and never written")
        ordered = bool((np.diff(ids) > 0).all())
        if not ordered and len(np.unique(ids)) != count:
            raise ArrayError(f"{count - len(np.unique(ids))} of the {count} rows have the id of another row")
        stated["object_ids_sorted"] = ordered
    if num_present is None:
        present = 0
        for start in range(0, count, 1 << 20):
            rows = table.read(start, min(start + (1 << 20), count))
            present += int((rows[:, 1] > 0).sum()) if index.dense else sum(row not in (_EMPTY, b"") for row in rows)
            if not index.dense and (missing := sum(not row for row in rows)):
                raise ArrayError(f"{missing} of the {count} rows hold no manifest: they were reserved and never written; an object without fragments is written as an empty one")
        num_present = present
    if not 0 <= num_present <= count:
        raise ArrayError(f"num_present={num_present} is outside 0 to {count}")
    set_attributes(level_group, OBJECT_INDEX, {**stated, "num_present": int(num_present)})
    return level_group.read_array_meta(OBJECT_INDEX)


class ObjectManifestWriter:
    """Writes manifests as a stream: what is given is held, and written in whole objects of the arrays."""

    def __init__(self, level_group: Group, at: int | None, layout: str | None, commit: bool) -> None:
        if at is not None and int(at) < 0:
            raise ArrayError(f"at must be >= 0, got {at}")
        self._level, self._at, self._layout, self._commit = level_group, at, layout, commit
        self._held: list[tuple[Ints, Ints, Ints, Ints | None]] = []
        self._index: _Index | None = None
        self._counts, self._closed, self._next = True, False, 0
        self.first_row: int | None = None
        self.end = 0
        self.flushes = 0

    def __enter__(self) -> ObjectManifestWriter:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        self._closed, self._held = True, []  # after an exception nothing more is written

    def write(self, manifest_blobs: Any = None, *, chunk_coords: Any = None, fragment_idx: Any = None, manifest_offsets: Any = None, ids: Any = None) -> tuple[int, int]:
        """Take the next objects, as :func:`write_object_manifests` does; returns their first row and number."""
        if self._closed:
            raise ArrayError("this manifest writer is closed")
        if self._index is None:
            words = {"chunk_coords": chunk_coords, "fragment_idx": fragment_idx, "manifest_offsets": manifest_offsets}
            first, number = write_object_manifests(self._level, manifest_blobs, **words, ids=ids, mode="append", at=self._at, layout=self._layout)
            self._index, self.first_row = _index(self._level), first
            self._next = self.end = first + number
            self._counts = self._index.stores_ids and _counts_from_one(self._index, self.end)
            return first, number
        offsets, coords, frags, _ = _given(manifest_blobs, chunk_coords, fragment_idx, manifest_offsets, self._index.rank)
        number = len(offsets) - 1
        new = _ids_for(self._index, self.end, number, ids, self._counts)
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
        cut = int(counts[:rows].sum())
        write_object_manifests(
            self._level, chunk_coords=coords[:cut], fragment_idx=frags[:cut], manifest_offsets=offsets_of(counts[:rows]),
            ids=None if ids is None else ids[:rows], mode="append", at=self._next,
        )  # fmt: skip
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


# --- rows that several writers fill


def concurrency_contract(level_group: Group | None = None) -> dict[str, Any]:
    """What several processes may write at once, and at which multiples their ranges of rows must begin and end."""
    rows = object_shard_rows(level_group) if level_group is not None else None
    requires = ["reserve_object_rows", "mode='place'", "commit_object_index"]
    alignment = {"at_alignment": rows or COLUMN_BUCKET, "block_alignment": rows or MANIFEST_BUCKET}
    return {"shard_is_unit": True, "concurrent_at_ranges": True, **alignment, "requires": requires}


def aligned_regions(counts: Any, alignment: int) -> Ints:
    """Where the region of each writer begins, for regions that are aligned; the last number is what to reserve."""
    own = host_array(counts, "counts", np.int64).reshape(-1)
    if own.size and own.min() < 0:
        raise ArrayError("counts must not be negative")
    return offsets_of(-(-own // alignment) * alignment)


def reserve_object_rows(
    level_group: Group,
    n_objects: int,
    *,
    sid_ndim: int | None = None,
    layout: str | None = None,
    n_blocks: int | None = None,
    columns: Mapping[str, Any] | None = None,
    shard_rows: int | None = None,
) -> dict[str, Any]:
    """Make or grow the arrays of the objects to so many rows, once, before workers place theirs; nothing is committed."""
    writable(level_group)
    if int(n_objects) < 0:
        raise ArrayError(f"n_objects {n_objects} is negative")
    existing = object_shard_rows(level_group)
    if shard_rows is not None and (shard_rows <= 0 or shard_rows % SHARD_ROW_MULTIPLE):
        raise ArrayError(f"shard_rows: expected a multiple of {SHARD_ROW_MULTIPLE}, found {shard_rows}")
    if shard_rows is not None and object_layer_arrays(level_group) and existing != shard_rows:
        raise ArrayError(f"the objects are laid out with shard_rows={existing}; repack it with shard_object_layer before reserving at {shard_rows}")
    shard, touched = shard_rows or existing, []
    index = _make_index(level_group, layout, sid_ndim, shard)
    sizes = {SPANS if index.dense else MANIFESTS: int(n_objects), **({BLOCKS: int(n_blocks or 0)} if index.dense else {}), **({IDS: int(n_objects)} if index.stores_ids else {})}
    for name, spec in (columns or {}).items():
        parts = spec if isinstance(spec, tuple) else (spec,)
        dtype, tail = np.dtype(parts[0]), tuple(parts[1] or ()) if len(parts) > 1 else ()
        array = _make_column(level_group, name, dtype, tail, parts[2] if len(parts) > 2 else None, shard)
        if array.dtype != dtype or array.shape[1:] != tail:
            raise ArrayError(f"{array.name} has rows of {array.shape[1:]} {array.dtype}, and is reserved as {tail} {dtype}")
        sizes[array.name] = int(n_objects)
    for name, rows in sizes.items():
        array = RowArray(level_group, name)
        if array.rows < rows:
            before = array.rows
            array.resize(rows)
            if name == MANIFESTS and array.fill != _EMPTY:
                array.write(before, [_EMPTY] * (rows - before))  # an index that was made without reservation fills with nothing
            if name == IDS and array.fill != _UNWRITTEN:
                array.write(before, np.full(rows - before, _UNWRITTEN))
            touched.append(name)
    contract = concurrency_contract(level_group)
    return {"rows": int(n_objects), "layout": "dense" if index.dense else "vlen", "arrays": touched, **{key: contract[key] for key in ("at_alignment", "block_alignment")}}


def _absent(dtype: np.dtype[Any]) -> Any:
    """What stands for no value."""
    if dtype.kind == "f":
        return "NaN"
    if dtype.kind not in "iu":
        raise ArrayError(f"{dtype}: there is no value that stands for none; pass fill_value=")
    return int(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)


def _make_column(level: Group, name: str, dtype: np.dtype[Any], tail: tuple[int, ...], fill: Any, shard: int | None) -> RowArray:
    path = f"{OBJECT_ATTRIBUTES}/{name}"
    if path in level:
        return RowArray(level, path)
    if dtype.kind not in "iufb":
        raise ArrayError(f"{path}: expected numbers, found {dtype}: text is written by write_points and its kin, or by ds.edit()")
    value: Any = _absent(dtype) if fill is None else np.array(fill).astype(dtype).item()
    if isinstance(value, float) and not np.isfinite(value):
        value = "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    stated = {"zv_array": "object_attribute", "name": name, "dtype": dtype.name, "shape": [0, *tail], "fill_sentinel_meaning": "absent"}
    return _make_array(level, path, 0, tail, dtype, value, COLUMN_BUCKET, shard, stated)


def write_object_attributes(
    level_group: Group, attr_name: str, data: Any, *, present_mask: Any = None, fill_value: Any = None, mode: str = "replace", at: int | None = None
) -> None:
    """Write a column of the objects: all of it, rows behind row ``at`` (``append``), or reserved rows (``place``)."""
    writable(level_group)
    if mode not in ("replace", "append", "place") or (mode == "replace" and at is not None) or (mode == "place" and at is None) or (at or 0) < 0:
        raise ArrayError(f'mode: expected replace, append or place; mode="place" needs at=, replace has none; found {mode!r} with at={at}')
    rows, path = host_array(data, attr_name), f"{OBJECT_ATTRIBUTES}/{attr_name}"
    if mode == "place" and path not in level_group:
        raise ArrayError(f"{path} is not reserved; call reserve_object_rows first")
    if mode == "replace" and path in level_group:
        shutil.rmtree(level_group[path].path)
    array = _make_column(level_group, attr_name, rows.dtype, rows.shape[1:], fill_value, object_shard_rows(level_group))
    if array.dtype is None or array.shape[1:] != rows.shape[1:]:
        raise ArrayError(f"{path}: rows of the shape {rows.shape[1:]} for ones of {array.shape[1:]}: tail dimensions must match")
    rows = as_type(rows, array.dtype.newbyteorder("="), path)
    if present_mask is not None:
        mask = host_array(present_mask, "present_mask").astype(bool)
        if mask.shape != rows.shape[:1]:
            raise ArrayError(f"present_mask has the shape {mask.shape}, the data {rows.shape}")
        rows = np.where(mask.reshape(-1, *[1] * (rows.ndim - 1)), rows, array.fill).astype(rows.dtype)
    with exclusive(array.folder):
        array = RowArray(level_group, path)
        start = array.rows if at is None else int(at)
        if mode != "place":
            if start < array.rows:
                array.resize(start)
            array.resize(start + len(rows))  # rows between are the fill
        array.write(start, rows)


def write_object_attribute_columns(level_group: Group, columns: Mapping[str, Any], *, at: int | None = None, mode: str = "append", fill_values: Mapping[str, Any] | None = None) -> None:
    """Write several columns of the objects, as :func:`write_object_attributes` does one."""
    for name, data in columns.items():
        write_object_attributes(level_group, name, data, fill_value=(fill_values or {}).get(name), mode=mode, at=at)


def shard_object_layer(level_group: Group, rows: int | None) -> None:
    """Store the arrays of the objects in shards of so many rows, a multiple of 65 536; ``None`` for none. Only one writer may do this."""
    writable(level_group)
    if rows is not None and (rows <= 0 or rows % SHARD_ROW_MULTIPLE):
        raise ArrayError(f"rows: expected a multiple of {SHARD_ROW_MULTIPLE}, found {rows}")
    for name in object_layer_arrays(level_group):
        old = RowArray(level_group, name)
        if (old.shard[0] if old.shard else None) == rows:
            continue
        document = level_group[name]._document()
        bucket = COLUMN_BUCKET if name.startswith(OBJECT_ATTRIBUTES) else MANIFEST_BUCKET
        new_name = f"{name}.zvf-sharded"
        new = _make_array(level_group, new_name, old.rows, old.shape[1:], old.dtype, document.get("fill_value"), bucket, rows, old.attributes)
        for start in range(0, old.rows, rows or 16 * bucket):
            new.write(start, old.read(start, start + (rows or 16 * bucket)))
        old.folder.rename(level_group[OBJECT_INDEX].path.parent / f"{name}.zvf-old")
        new.folder.rename(old.folder)
        shutil.rmtree(level_group[OBJECT_INDEX].path.parent / f"{name}.zvf-old")
        level_group._shared.changed()


# --- reading manifests as arrays


@dataclass(frozen=True)
class ManifestCSR:
    """Manifests as arrays: object ``o`` has the fragments ``offsets[o]`` to ``offsets[o + 1]``."""

    offsets: Ints
    chunk_coords: Ints
    fragment_idx: Ints
    object_ids: Ints | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.offsets, self.chunk_coords, self.fragment_idx))


def _csr_of(index: _Index, spans_or_blobs: Any) -> tuple[Ints, Ints, Ints]:
    if not index.dense:
        return decode_object_manifests_csr(spans_or_blobs, index.rank)
    spans, blocks = spans_or_blobs, RowArray(index.level, BLOCKS)
    counts = spans[:, 1]
    full = spans[counts > 0]
    if (counts < 0).any() or (counts > blocks.rows).any() or (full[:, 0] < 0).any() or (full[:, 0] > blocks.rows - full[:, 1]).any():
        raise ArrayError(f"{SPANS}: a span lies outside the {blocks.rows} rows of {BLOCKS}")
    numbers = spread(full[:, 0], full[:, 1])
    low, high = (int(numbers.min()), int(numbers.max()) + 1) if numbers.size else (0, 0)
    found = blocks.read(low, high)[numbers - low]
    return offsets_of(counts), found[:, :-1], found[:, -1]


def read_all_object_manifests_csr(level_group: Group, *, device: str | None = None) -> ManifestCSR:
    """The manifests of all objects that are committed, as arrays."""
    host_device(device)
    index = _index(level_group)
    count = min(_count(index.meta, "num_objects"), index.table.rows)
    ids = RowArray(level_group, IDS).read(0, count) if index.stores_ids else None
    return ManifestCSR(*_csr_of(index, index.table.read(0, count)), object_ids=ids)


def read_object_manifests_csr(level_group: Group, ids: Any, *, device: str | None = None) -> ManifestCSR:
    """The manifests of some objects, in the order they are asked for, as arrays."""
    host_device(device)
    index, own = _index(level_group), host_array(ids, "ids", np.int64).reshape(-1)
    count = min(_count(index.meta, "num_objects"), index.table.rows)
    rows = own
    if index.stores_ids:
        table = RowArray(level_group, IDS).read(0, count)
        order = np.argsort(table, kind="stable")
        place = np.minimum(np.searchsorted(table[order], own), max(count - 1, 0))
        rows = order[place] if count else np.full(len(own), -1)
        rows = np.where(table[rows] == own, rows, -1) if count else rows
    if len(rows) and not 0 <= rows.min() <= rows.max() < count:
        raise ArrayError(f"there is no object {own[(rows < 0) | (rows >= count)][0]}")
    low, high = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
    held = index.table.read(low, high)
    picked = held[rows - low] if index.dense else [held[row - low] for row in rows]
    return ManifestCSR(*_csr_of(index, picked), object_ids=own)
