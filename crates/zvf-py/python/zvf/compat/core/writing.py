"""Writing the cells of a level: arrays are created, cells are written one by one or together, and presence is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..constants import FRAGMENT_ATTRIBUTES, GROUP_ATTRIBUTES, GROUPS, LINK_FRAGMENTS, LINKS, OBJECT_ATTRIBUTES, OBJECT_INDEX, VERTEX_ATTRIBUTES, VERTEX_FRAGMENTS, VERTICES
from ..exceptions import ArrayError, ConcurrentEditError, ShardOwnershipError, StoreError
from .fragments import ChunkFragmentIndex, Ints, decode_fragment_index, fragments_from, fragments_of, host_array, offsets_of, ranges_of
from .group import DEFERRED, PRESENCE, Group
from .metadata import get_level_chunk_shape
from .store import read_level_metadata, read_root_metadata, update_level_metadata
from .stored import Index, StoredArray, change_document, codec_steps, create_array, exclusive, frame, identity, publish, set_attributes, writable

_NONEMPTY = "nonempty_chunks"


def key_of(coords: Iterable[int]) -> str:
    """A cell as text."""
    return ".".join(str(int(c)) for c in coords)


def coords_of(key: Any) -> Index:
    """A cell from text, or from its coordinates."""
    try:
        return tuple(int(word) for word in key.split(".")) if isinstance(key, str) else tuple(int(c) for c in key)
    except (ValueError, TypeError):
        raise ArrayError(f"a cell: expected coordinates, or text such as 3.0.-1, found {key!r}") from None


def cell_arrays(level_group: Group) -> list[str]:
    """The arrays of a level that have a cell for each chunk, those of links included."""
    found: list[str] = []

    def walk(group: Group, prefix: str) -> None:
        for name in group.children():
            node, path = group[name], f"{prefix}{name}"
            if node._document().get("node_type") != "array":
                walk(node, f"{path}/")
            elif path.split("/")[0] not in (OBJECT_INDEX, OBJECT_ATTRIBUTES, GROUPS, GROUP_ATTRIBUTES):
                found.append(path)

    walk(level_group, "")
    return sorted(found)


# --- cells, stored at once or held


class Staging:
    """Cells of a level that are held, and published together."""

    def __init__(self, level: Group) -> None:
        self.level, self.rank = level, len(read_root_metadata(level).chunk_shape)
        self.arrays: dict[str, StoredArray] = {}  # as they were when they were first used
        self.cells: dict[str, dict[Index, bytes]] = {}
        self.unstamped: dict[str, set[Index]] = {}
        self.seen: dict[str, dict[Index, int]] = {}  # what was read of the store, hashed

    def put(self, name: str, cells: Mapping[Index, bytes], record: bool) -> None:
        """Hold cells."""
        framed(open_array(self.level, name), cells)
        self.cells.setdefault(name, {}).update(cells)
        if not record:
            self.unstamped.setdefault(name, set()).update(cells)

    def get(self, name: str, coords: Index) -> bytes | None:
        """A cell that is held."""
        return self.cells.get(name, {}).get(coords)

    def publish(self) -> None:
        """Store what is held, and record presence, once for each array; a cell that was read and has changed since is refused."""
        withdraw_claims(self.level, self.cells)
        with contextlib.ExitStack() as locks:
            for name, own in sorted(self.cells.items()):
                array, seen = StoredArray(self.level, name), self.seen.get(name, {})
                locks.enter_context(exclusive(array.folder))
                for coords, data in stored_cells(array, [coords for coords in own if coords in seen]).items():
                    if hash(data) != seen[coords]:
                        raise ConcurrentEditError(f"{name}: another writer changed the cell {key_of(coords)} meanwhile; nothing is written")
            for name, own in self.cells.items():
                store_cells(self.level, name, own, {coords for coords in own if coords not in self.unstamped.get(name, ())})


def open_array(level: Group, name: str) -> StoredArray:
    """An array of a level; a session opens each once."""
    if level._staging is None:
        return StoredArray(level, name)
    if name not in level._staging.arrays:
        level._staging.arrays[name] = StoredArray(level, name)
    return level._staging.arrays[name]


def framed(array: StoredArray, cells: Mapping[Index, bytes]) -> dict[Index, bytes | None]:
    """Cells as chunks of their array; those without bytes are removed."""
    if not array.is_vlen or any(n != 1 for n in array.chunk):
        raise ArrayError(f"{array.name} has no cells: expected variable-length bytes, one cell a chunk")
    return {array.index_of(at): frame([data]) if data else None for at, data in cells.items()}


def store_cells(level: Group, name: str, cells: Mapping[Index, bytes], stamped: Iterable[Index]) -> None:
    """Store cells, and record the presence of some of them."""
    array = StoredArray(level, name)
    withdraw_claims(level, [name])
    array.write_chunks(framed(array, cells))
    stamp(level, name, {coords: bool(cells[coords]) for coords in stamped})
    level._shared.changed()


def stamp(level: Group, name: str, changed: Mapping[Index, bool]) -> None:
    """Record which cells of an array hold something, where it has a list of them."""
    if not changed:
        return

    def change(document: dict[str, Any]) -> None:
        listed = document["attributes"].get(_NONEMPTY)
        if listed is not None:
            keys = {str(key) for key in listed} | {key_of(at) for at, full in changed.items() if full}
            document["attributes"][_NONEMPTY] = sorted(keys - {key_of(at) for at, full in changed.items() if not full})

    change_document(level, name, change)


def is_flat(name: str) -> bool:
    """Whether an array of links has plain rows: those that stay in their chunk."""
    return name.startswith(f"{LINKS}/0/") and not name[len(LINKS) + 3 :].strip("0._") or name == f"{LINKS}/0/self"


def withdraw_claims(level: Group, names: Iterable[str]) -> None:
    """Take back what a level states of fragments and link groups that a write to these arrays may break."""
    words = {"fragments_tile" for name in names if name in (VERTICES, VERTEX_FRAGMENTS)}
    words |= {"fragment_link_groups" for name in names if name in (VERTEX_FRAGMENTS, LINK_FRAGMENTS) or is_flat(name)}
    block = level.attrs.get("zarr_vectors_level")
    stated = words.intersection(block if isinstance(block, dict) else ())
    if stated:
        change_document(level, "", lambda document: [document["attributes"]["zarr_vectors_level"].pop(word) for word in stated])
    for name in cell_arrays(level) if "fragment_link_groups" in stated else ():
        if is_flat(name):
            change_document(level, name, lambda document: document["attributes"].pop("link_groups", None))


def write_cells(level: Group, name: str, cells: Mapping[Index, bytes], record: bool = True) -> None:
    """Write cells of an array: at once, or with the session that is open."""
    writable(level)
    if level._staging is not None:
        level._staging.put(name, cells, record)
    else:
        store_cells(level, name, cells, cells if record else ())


def stored_cells(array: StoredArray, cells: Iterable[Index]) -> dict[Index, bytes]:
    """What cells hold in the store; one that holds nothing, or is outside the grid, has no bytes."""
    found, wanted = dict.fromkeys(cells, b""), {}
    for coords in found:
        with contextlib.suppress(ArrayError):
            wanted[array.index_of(coords)] = coords
    for index, data in array.read_chunks(wanted).items():
        if len(data) < 8 or data[:4] != b"\1\0\0\0" or int.from_bytes(data[4:8], "little") != len(data) - 8:
            raise ArrayError(f"{array.name}: cell {key_of(wanted[index])}: expected one item of {len(data) - 8} bytes")
        found[wanted[index]] = data[8:]
    return found


def read_cell_bytes(level: Group, name: str, cells: Iterable[Index]) -> dict[Index, bytes]:
    """What cells hold, those of an open session included."""
    array, staging, wanted = open_array(level, name), level._staging, list(cells)
    if staging is None:
        return stored_cells(array, wanted)
    held = {coords: data for coords in wanted if (data := staging.get(name, coords)) is not None}
    found = stored_cells(array, [coords for coords in wanted if coords not in held])
    staging.seen.setdefault(name, {}).update((coords, hash(data)) for coords, data in found.items())
    return {**found, **held}


@contextlib.contextmanager
def in_turn(level: Group, *names: str) -> Iterator[None]:
    """Lets no other writer at arrays while cells of them are read and written again, or held."""
    if level._staging is None:
        withdraw_claims(level, names)
    with contextlib.ExitStack() as locks:
        for name in sorted({name for name in names if name in level}):  # in one order, so that nobody waits for somebody who waits
            locks.enter_context(exclusive(level[name].path))
        yield


@contextlib.contextmanager
def staged(level: Group, staging: Staging, plan: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Holds the cells that are written to a level until the block ends; one that fails stores nothing."""
    writable(level)
    if level._staging is not None:
        raise StoreError("there is an open session or transaction on this level; end it first")
    level._staging, level._plan = staging, plan
    try:
        yield staging
        level._staging = None
        staging.publish()
    finally:
        level._staging = level._plan = None


@contextlib.contextmanager
def open_write_session(
    level_group: Group, *, compressor: Any = None, shard_shape: Any = None, bounds: Any = None, chunk_shape: Any = None, bin_count: int | None = None, durable: bool = True
) -> Iterator[None]:
    """Arrays that are created inside get this grid; cells that are written inside are stored at its end, as durably as all are."""
    from ..spatial.chunking import grid_layout

    if bounds is None or chunk_shape is None:
        raise ArrayError("open_write_session needs bounds and chunk_shape: they are the grid of the arrays")
    origin, shape = grid_layout(bounds, chunk_shape)
    if bin_count is not None:
        origin, shape = (0, *origin), (int(bin_count), *shape)
    plan: dict[str, Any] = {"origin": origin, "shape": shape, "steps": codec_steps(compressor)}
    if shard_shape is not None:
        plan["shard"] = shard_shape
    with staged(level_group, Staging(level_group), plan):
        yield


class ShardTransaction(Staging):
    """One shard of the arrays of a level, written in memory and published together."""

    def __init__(self, level: Group, shard_coords: Sequence[int], arrays: Iterable[str] | None, mode: str, io_threads: int | None) -> None:
        super().__init__(level)
        if mode not in ("replace", "merge") or (io_threads is not None and (type(io_threads) is not int or io_threads < 1)):
            raise ArrayError(f"expected the mode replace or merge, and io_threads of at least 1, found {mode!r} and {io_threads!r}")
        if not level.presence_deferred():
            raise StoreError("shard_transaction: several writers share the list of presence of an array: call defer_presence(level) first")
        self.shard_coords, self.mode = tuple(int(s) for s in shard_coords), mode
        self.threads = min(io_threads or 1, 16)
        self.written: dict[str, list[str]] = {}
        self.published: list[str] = []
        self._owned = {name: StoredArray(level, name) for name in (cell_arrays(level) if arrays is None else arrays)}
        self.arrays = dict(self._owned)
        for name, array in self._owned.items():
            if array.shard is None:
                raise ArrayError(f"shard_transaction: {name} is not sharded; whole shards are published")
            first = [s * n for s, n in zip(self.shard_coords, array.shard)]
            if len(self.shard_coords) != len(array.shape) or any(not 0 <= i < n for i, n in zip(first, array.shape)):
                raise ArrayError(f"shard_transaction: {self.shard_coords} is no shard of {name}, which has {array.shape} cells")
        self._before = {path: identity(path) for path in map(self._object, self._owned.values())}

    def _object(self, array: StoredArray) -> Path:
        return array.folder.joinpath("c", *map(str, self.shard_coords))

    def owns(self, array_name: str, chunk_key: Any) -> bool:
        """Whether a cell lies in the shard."""
        array = self._owned.get(array_name)
        with contextlib.suppress(ArrayError):
            return array is not None and array.object_of(array.index_of(coords_of(chunk_key))) == self._object(array)
        return False

    def put(self, name: str, cells: Mapping[Index, bytes], record: bool) -> None:
        """Hold cells; each must lie in the shard."""
        for coords in cells:
            if not self.owns(name, coords):
                raise ShardOwnershipError(f"{name}: cell {key_of(coords)} is outside the shard {self.shard_coords} of the arrays of this transaction")
        self.cells.setdefault(name, {}).update(cells)

    def write_cells(self, array_name: str, cells: Iterable[tuple[Any, bytes]]) -> int:
        """Hold cells that are given as they are stored; returns how many."""
        own = {coords_of(key): bytes(data) for key, data in cells}
        self.put(array_name, own, False)
        return len(own)

    def get(self, name: str, coords: Index) -> bytes | None:
        """A cell as the transaction has it: under ``replace``, one that is not written has no bytes."""
        held = super().get(name, coords)
        return b"" if held is None and self.mode == "replace" and self.owns(name, coords) else held

    def sweep(self) -> None:
        """Remove what failed attempts left beside the shards."""
        for path in self._before:
            for stale in path.parent.glob(f"{path.name}.*.partial") if path.parent.is_dir() else ():
                stale.unlink(missing_ok=True)

    def publish(self) -> None:
        """Store the shards; one that another writer changed since the transaction began is refused."""
        withdraw_claims(self.level, self.cells)
        changes: list[Callable[[], Any]] = []
        with contextlib.ExitStack() as locks:
            for name, array in sorted(self._owned.items()):
                locks.enter_context(exclusive(array.folder))
                cells, path = self.cells.get(name, {}), self._object(array)
                if cells:
                    changes += array.changes(framed(array, cells), self._before, self.mode == "replace")
                    self.written[name] = sorted(key_of(at) for at, data in cells.items() if data)
                elif self.mode == "replace" and self._before[path] is not None:
                    changes.append(lambda path=path: (path, None, self._before[path]))  # type: ignore[misc]
            done = publish(changes, threads=self.threads)
        root = Path(self.level._shared.address)
        self.published = sorted(path.relative_to(root).as_posix() for path in done)
        self.level._shared.changed()


@contextlib.contextmanager
def shard_transaction(
    level_group: Group, shard_coords: Iterable[int], *, arrays: Iterable[str] | None = None, mode: str = "replace",
    durable: bool = True, io_threads: int | None = None, sweep: bool = True,
) -> Iterator[ShardTransaction]:  # fmt: skip
    """Write one shard of a level, and publish it when the block ends; one that fails publishes nothing."""
    transaction = ShardTransaction(level_group, tuple(shard_coords), arrays, mode, io_threads)
    with staged(level_group, transaction):
        if sweep:
            transaction.sweep()
        yield transaction


def shard_of(level_group: Group, chunk_coords: Iterable[int], array_name: str = VERTICES) -> Index:
    """The shard that a cell of an array lies in."""
    array = StoredArray(level_group, array_name)
    if array.shard is None:
        raise ArrayError(f"shard_of: {array_name} is not sharded")
    return tuple(i // n for i, n in zip(array.index_of(tuple(chunk_coords)), array.shard))


def cell_objects(level_group: Group, array_name: str, chunk_coords: Iterable[Any]) -> list[str]:
    """The object that holds each of these cells, by its key in the store."""
    array, root = StoredArray(level_group, array_name), Path(level_group._shared.address)
    return [array.object_of(array.index_of(coords_of(cell))).relative_to(root).as_posix() for cell in chunk_coords]


# --- creating arrays


def create_cell_array(level: Group, name: str, attributes: Mapping[str, Any], exist_ok: bool = True) -> None:
    """Create an array with a cell for each chunk, on the grid of the session or of the level."""
    from ..spatial.chunking import grid_layout

    writable(level)
    if name in level:
        if not exist_ok:
            raise ArrayError(f"there is an array {name!r} already")
        return
    root, meta = read_root_metadata(level), read_level_metadata(level, level.level)
    plan: dict[str, Any] = dict(level._plan or {})
    if not plan:
        origin, shape = grid_layout(root.bounds, get_level_chunk_shape(root, meta))
        if meta.chunk_attribute_values:
            origin, shape = (0, *origin), (len(meta.chunk_attribute_values), *shape)
        plan = {"origin": origin, "shape": shape, "steps": codec_steps(getattr(level._shared, "codec", None))}
    own: dict[str, Any] = {} if level.presence_deferred() else {_NONEMPTY: []}
    if any(plan["origin"]):
        own["chunk_grid_origin"] = list(plan["origin"])
    rank = len(plan["shape"])
    shard = plan.get("shard", (Group(level._shared).attrs.get("zarr_vectors") or {}).get("shard_shape"))
    if shard is not None:
        shard = [shard] * rank if isinstance(shard, int) else [1] * (rank - len(shard)) + list(shard)
        if len(shard) != rank or any(type(n) is not int or n < 1 for n in shard):
            raise ArrayError(f"shard_shape: expected a whole number above 0 for each of {rank} axes, found {shard}")
    create_array(level, name, plan["shape"], [1] * rank, None, "", plan["steps"], shard, {**own, **attributes})


def create_vertices_array(level_group: Group, dtype: Any = "float32", encoding: str = "raw", *, exist_ok: bool = True) -> None:
    """Create ``vertices`` and ``vertex_fragments``."""
    if encoding != "raw":
        raise ArrayError(f"encoding: expected raw, found {encoding!r}: Draco is read, not written")
    create_cell_array(level_group, VERTICES, {"zv_array": "vertices", "dtype": np.dtype(dtype).name, "encoding": "raw"}, exist_ok)
    create_cell_array(level_group, VERTEX_FRAGMENTS, {"zv_array": VERTEX_FRAGMENTS, "encoding": "fragment_index_v1"})


def _column(family: str, tag: str) -> Callable[..., None]:
    def create(
        level_group: Group, name: str, dtype: Any = "float32", channel_names: Sequence[str] | None = None, ncols: int | None = None,
        extra_meta: Mapping[str, Any] | None = None, *, exist_ok: bool = True, register_family: bool = False,
    ) -> None:  # fmt: skip
        """Create a column, of one value a row or of several channels."""
        width = len(channel_names) if channel_names else int(ncols or 1)
        if not 1 <= width <= 1 << 16:
            raise ArrayError(f"ncols: expected 1 to {1 << 16}, found {width}")
        if channel_names and ncols not in (None, width):
            raise ArrayError(f"channel_names has {width} names, ncols is {ncols}")
        attributes: dict[str, Any] = {"zv_array": tag, "name": name, "dtype": np.dtype(dtype).name, "row_shape": [] if width == 1 else [width]}
        if width > 1:
            attributes["channel_names"] = list(channel_names or (f"ch{i}" for i in range(width)))  # which readers count
        if clash := sorted({"zv_array", "name", "dtype", "channel_names"}.intersection(extra_meta or {})):
            raise ArrayError(f"extra_meta cannot state {', '.join(clash)}")
        create_cell_array(level_group, f"{family}/{name}", {**attributes, **(extra_meta or {})}, exist_ok)
        if register_family:
            update_level_metadata(level_group, add_arrays_present=family)

    return create


create_attribute_array = _column(VERTEX_ATTRIBUTES, "attribute")
create_fragment_attribute_array = _column(FRAGMENT_ATTRIBUTES, "fragment_attribute")


# --- writing single cells


def stamped_dtype(level: Group, name: str) -> np.dtype[Any]:
    """The type of the values of an array, as it says."""
    found = open_array(level, name).attributes.get("dtype")
    try:
        return np.dtype(found if isinstance(found, str) else "int64")
    except TypeError:
        raise ArrayError(f"{name}: dtype: expected the name of a type, found {found!r}") from None


def _rows_of(level: Group, name: str, groups: Iterable[Any], width: int | None = None) -> tuple[bytes, list[int]]:
    """Groups of rows as one cell, and how many rows each has."""
    dtype = stamped_dtype(level, name)
    width = width or column_width(level, name)
    parts = [host_array(group, name, dtype) for group in groups]
    parts = [part.reshape(-1, width) if part.ndim == 1 and width == 1 or not part.size else part for part in parts]
    if any(part.ndim != 2 or part.shape[1] != width for part in parts):
        raise ArrayError(f"{name}: expected rows of {width} values, found arrays of the shapes {[part.shape for part in parts][:9]}")
    return b"".join(part.tobytes() for part in parts), [len(part) for part in parts]


def column_width(level: Group, name: str) -> int:
    """How many values a row of a column has."""
    meta = open_array(level, name).attributes
    row = meta.get("row_shape")
    return len(meta.get("channel_names") or ()) or (int(row[0]) if isinstance(row, list) and row and type(row[0]) is int and row[0] > 0 else 1)


def write_chunk_vertices(level_group: Group, chunk_coords: Any, groups: Sequence[Any], dtype: Any = np.float32, *, record_presence: bool = True) -> Ints:
    """Write the vertices of a chunk, a fragment for each group; returns the byte each group begins at."""
    if VERTICES not in level_group:
        create_vertices_array(level_group, dtype)
    cell = coords_of(chunk_coords)
    rank = level_group._staging.rank if level_group._staging is not None else len(read_root_metadata(level_group).chunk_shape)
    data, counts = _rows_of(level_group, VERTICES, groups, rank)
    write_cells(level_group, VERTICES, {cell: data}, record_presence)
    write_cells(level_group, VERTEX_FRAGMENTS, {cell: ranges_of(counts).encode()}, record_presence)
    return offsets_of(counts)[:-1] * rank * stamped_dtype(level_group, VERTICES).itemsize


def write_chunk_attributes(
    level_group: Group, attr_name: str, chunk_coords: Any, attr_groups: Sequence[Any], dtype: Any = np.float32, *, record_presence: bool = True
) -> None:
    """Write a column of the vertices of a chunk, a group for each fragment."""
    name = f"{VERTEX_ATTRIBUTES}/{attr_name}"
    write_cells(level_group, name, {coords_of(chunk_coords): _rows_of(level_group, name, attr_groups)[0]}, record_presence)


def write_chunk_fragment_attributes(
    level_group: Group, attr_name: str, chunk_coords: Any, data: Any, dtype: Any = np.float32, *, record_presence: bool = True
) -> None:
    """Write a column of the fragments of a chunk, a row for each."""
    name = f"{FRAGMENT_ATTRIBUTES}/{attr_name}"
    write_cells(level_group, name, {coords_of(chunk_coords): _rows_of(level_group, name, [data])[0]}, record_presence)


def write_chunk_fragments(
    level_group: Group, chunk_coords: Any, new_fragments: Iterable[Any] | None = None, *, csr: tuple[Any, Any] | None = None,
    target: str = "vertex", mode: str = "replace", record_presence: bool = True,
) -> Any:  # fmt: skip
    """Write the fragments of a chunk, or add some: as a list, whose numbers come back, or as ``csr``, rows and offsets, whose first number and count do."""
    if (new_fragments is None) == (csr is None):
        raise ArrayError("give exactly one of new_fragments and csr=(indices, offsets)")
    if target not in ("vertex", "link") or mode not in ("replace", "append"):
        raise ArrayError(f"expected the target vertex or link and the mode replace or append, found {target!r} and {mode!r}")
    name, cell = (VERTEX_FRAGMENTS if target == "vertex" else LINK_FRAGMENTS), coords_of(chunk_coords)
    new = fragments_of(*csr) if csr is not None else fragments_from(new_fragments or ())
    start, whole = 0, new
    with in_turn(level_group, name):
        if mode == "append" and (held := read_cell_bytes(level_group, name, [cell])[cell]):
            old = decode_fragment_index(held)
            if target == "vertex":
                _check_fragment_columns(level_group, cell, len(old) + len(new))
            start, whole = len(old), ChunkFragmentIndex(np.concatenate([old.rows, new.rows]), np.concatenate([old.offsets, old.offsets[-1] + new.offsets[1:]]))
        if len(new) or mode == "replace":
            write_cells(level_group, name, {cell: whole.encode()}, record_presence)
    return (start, len(new)) if csr is not None else list(range(start, start + len(new)))


def _check_fragment_columns(level: Group, cell: Index, total: int) -> None:
    """Fails where a column of fragments has other rows than fragments: each has one."""
    for name in level[FRAGMENT_ATTRIBUTES].children() if FRAGMENT_ATTRIBUTES in level else ():
        path = f"{FRAGMENT_ATTRIBUTES}/{name}"
        rows = len(read_cell_bytes(level, path, [cell])[cell]) // (stamped_dtype(level, path).itemsize * column_width(level, path))
        if rows not in (0, total):
            raise ArrayError(f"{path}: chunk {key_of(cell)} has {rows} rows: first write those of all {total} fragments, by write_chunk_fragment_attributes")


def read_vertex_fragment_index(level_group: Group, chunk_coords: Any) -> ChunkFragmentIndex:
    """The fragments of a chunk."""
    cell = coords_of(chunk_coords)
    blob = read_cell_bytes(level_group, VERTEX_FRAGMENTS, [cell])[cell]
    if not blob:
        raise ArrayError(f"{VERTEX_FRAGMENTS}: chunk {key_of(cell)} has no cell")
    return decode_fragment_index(blob)


# --- presence


def defer_presence(level_group: Group) -> list[str]:
    """Declare that several writers fill the level: its arrays keep no lists of presence until that ends. Returns the arrays."""
    writable(level_group)
    set_attributes(level_group, "", {PRESENCE: DEFERRED})
    names = cell_arrays(level_group)
    for name in names:
        change_document(level_group, name, lambda document: document["attributes"].pop(_NONEMPTY, None))
    return names


def set_presence(level_group: Group, cells: Mapping[str, Iterable[Any]], *, end_deferral: bool = False) -> list[str]:
    """Record the presence of each named array as exactly these cells; all are checked before any is recorded."""
    writable(level_group)
    known, keys = set(cell_arrays(level_group)), {}
    for name in sorted(cells):
        if name not in known:
            raise StoreError(f"set_presence: {name!r} has no cells: there is {', '.join(sorted(known)) or 'no such array'}")
        array, own = StoredArray(level_group, name), [coords_of(key) for key in cells[name]]
        for cell in own:
            array.index_of(cell)
        keys[name] = sorted({key_of(cell) for cell in own})
    for name, own_keys in keys.items():
        set_attributes(level_group, name, {_NONEMPTY: own_keys})
    if end_deferral:
        end_presence_deferral(level_group)
    return list(keys)


def end_presence_deferral(level_group: Group, *, missing: str = "raise") -> list[str]:
    """End what :func:`defer_presence` declared; arrays without a list are refused, or their lists derived from what is stored."""
    writable(level_group)
    if missing not in ("raise", "derive"):
        raise ArrayError(f"missing: expected raise or derive, found {missing!r}")
    lacking = [name for name in cell_arrays(level_group) if level_group.read_array_meta(name).get(_NONEMPTY) is None]
    if lacking and missing == "raise":
        raise StoreError(f"these arrays have no list of presence: {', '.join(lacking)}. Record them by set_presence, or pass missing='derive'")
    for name in lacking:
        level_group.derive_nonempty_chunks(name, on_sharded="derive")
    change_document(level_group, "", lambda document: document["attributes"].pop(PRESENCE, None))
    return lacking
