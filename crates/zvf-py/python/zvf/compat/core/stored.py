"""Arrays of Zarr in folders of this machine: documents, chunks and shards, read and written chunk by chunk.

Every file is written beside its place, brought to the disk and renamed. Who changes an object first locks the folder of
its array, where the file system has locks, and looks before the rename whether the object is still the one that was read:
what another writer stored meanwhile is never overwritten.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from zvf import _zvf

from ..exceptions import ArrayError, ConcurrentEditError, MissingArrayError, StoreError, translating
from .group import Group

try:
    import fcntl
except ImportError:  # Windows: only the look before the rename remains
    fcntl = None  # type: ignore[assignment]

Index = tuple[int, ...]
Change = tuple[Path, "bytes | None", "tuple[int, ...] | None"]  # a file, its new bytes, and what it was

_MAX_CHUNK_BYTES = 1 << 32  # lengths of variable-length items have 32 bits
_MOST_ROWS = 1 << 28  # of one answer
_ABSENT = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
_held = threading.local()


def writable(group: Group) -> None:
    """Fails where cells cannot be written: handles for reading, stores elsewhere, and stores with a journal."""
    group._shared.check_writable()
    address = group._shared.address
    if not group.is_local or not Path(address).is_dir():
        raise StoreError(f"{address}: cells and rows are written to a folder of this machine; write the store there, then copy it")
    journal = Path(os.path.normpath(address) + ".zvf")
    if journal.exists():
        raise StoreError(
            f"{address} has a journal, {journal}, that would not know of these writes: change the store by ds.edit(), or write cells "
            f"before the first edit"
        )


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lets one writer of this machine at a time change what is in a folder, as far as the file system has locks."""
    held = _held.__dict__.setdefault("folders", set())
    if fcntl is None or folder in held:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have none
            fcntl.flock(handle, fcntl.LOCK_EX)
        held.add(folder)
        yield
    finally:
        held.discard(folder)
        os.close(handle)


def identity(path: Path) -> tuple[int, ...] | None:
    """What tells a file from the one that replaces it; ``None`` where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def publish(changes: Iterable[Callable[[], Change]], *, threads: int = 1) -> list[Path]:
    """Write files beside their places, then rename each, and remove those that have no bytes; returns what changed."""
    parts: list[Path] = []

    def prepare(make: Callable[[], Change]) -> tuple[Path, Path | None, Any]:
        path, data, before = make()
        if data is None:
            return path, None, before
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
        parts.append(part)
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return path, part, before

    done = []
    try:
        with ThreadPoolExecutor(threads) if threads > 1 else contextlib.nullcontext() as pool:
            prepared = list((pool.map if pool else map)(prepare, changes))
        for path, part, before in prepared:
            if identity(path) != before:
                raise ConcurrentEditError(f"{path}: another writer changed it meanwhile; it stays as it is now. Write it again")
            if part is not None:
                os.replace(part, path)
            elif before is not None:
                path.unlink()
            done.append(path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)  # those that were renamed are gone
    for folder in {path.parent for path in done} if fcntl is not None else ():
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return done


def change_document(group: Group, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the document of a node; one that ``change`` leaves as it is is not written."""
    node = group[name] if name else group
    with exclusive(node.path):
        path = node.path / "zarr.json"
        before, document = identity(path), node._document()
        document["attributes"] = document.get("attributes") or {}
        old = json.dumps(document)
        change(document)
        new = json.dumps(document)
        if new != old:
            publish([lambda: (path, new.encode(), before)])
            group._shared.changed()


def set_attributes(group: Group, name: str, values: Mapping[str, Any]) -> None:
    """Set attributes of a node, and keep the others."""
    change_document(group, name, lambda document: document["attributes"].update(values))


def make_groups(group: Group, name: str, attributes: Mapping[str, Any] | None = None) -> None:
    """Make the groups on the way to a node, where they are not there; the last one gets these attributes."""
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        group.require_group("/".join(parts[:depth]))
    set_attributes(group, name, attributes or {})


def codec_steps(compressor: Any) -> list[dict[str, Any]]:
    """The codecs that follow that of items, as documents have them, for what writers are given as ``compressor``."""
    named = {
        "zstd": {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        "blosc": {"name": "blosc", "configuration": {"typesize": 4, "cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}},
    }
    given = [] if compressor in (None, "none", "raw") else list(compressor) if isinstance(compressor, (list, tuple)) else [compressor]
    steps = [named.get(step) if isinstance(step, str) else step.to_dict() if hasattr(step, "to_dict") else step for step in given]
    if not all(isinstance(step, Mapping) and "name" in step for step in steps):
        raise ArrayError(f"compressor: expected None, zstd, blosc or codecs as documents have them, found {compressor!r}")
    return [dict(step) for step in steps if step is not None]


def create_array(
    group: Group, name: str, shape: Sequence[int], chunk: Sequence[int], dtype: np.dtype[Any] | None, fill: Any,
    steps: list[dict[str, Any]], shard: Sequence[int] | None = None, attributes: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Create an array, of variable-length bytes where there is no ``dtype``; nothing of it is stored yet. One that is there stays."""
    parent, _, leaf = name.rpartition("/")
    if leaf in ("", ".", "..") or "\0" in name:
        raise ArrayError(f"an array needs a name, found {name!r}")
    if parent:
        make_groups(group, parent)
    first = {"name": "vlen-bytes", "configuration": {}} if dtype is None else _LITTLE if dtype.itemsize > 1 else {"name": "bytes"}
    codecs: list[dict[str, Any]] = [first, *steps]
    if shard is not None:
        settings = {"chunk_shape": list(chunk), "codecs": codecs, "index_codecs": [_LITTLE, {"name": "crc32c"}], "index_location": "end"}
        codecs = [{"name": "sharding_indexed", "configuration": settings}]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "variable_length_bytes" if dtype is None else dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk if shard is None else shard)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": dict(attributes or {}),
        "storage_transformers": [],
    }
    path = group.path / name / "zarr.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(path.parent):
        if not path.exists():  # who comes second finds what the first one made
            publish([lambda: (path, json.dumps(document).encode(), None)])
    group._shared.changed()


class StoredArray:
    """An array, as its document describes it. Only those are taken that this module writes: keys such as ``c/0/1``, little-endian values."""

    def __init__(self, group: Group, name: str) -> None:
        if name not in group:
            raise MissingArrayError(f"{group.url} has no array {name!r}: a coordinator creates it, by the create function of its family, before cells are written")
        self.group, self.name, self.folder = group, name, group[name].path
        document = group[name]._document()
        self.attributes: dict[str, Any] = document.get("attributes") or {}
        try:
            self.shape = tuple(document["shape"])
            outer, chain = tuple(document["chunk_grid"]["configuration"]["chunk_shape"]), document["codecs"]
            self.chunk, self.shard, self._crc = outer, None, False
            if chain[0]["name"] == "sharding_indexed":
                settings = chain[0]["configuration"]
                self.shard, self.chunk, chain = outer, tuple(settings["chunk_shape"]), settings["codecs"]
                indexed = [codec["name"] for codec in settings["index_codecs"]]
                self._crc = indexed == ["bytes", "crc32c"]
                usable = (self._crc or indexed == ["bytes"]) and settings.get("index_location", "end") == "end"
            else:
                usable = True
            self.is_vlen, big = chain[0]["name"] == "vlen-bytes", (chain[0].get("configuration") or {}).get("endian") == "big"
            keys, sizes = document["chunk_key_encoding"], [*self.shape, *outer, *self.chunk]
            usable &= chain[0]["name"] in ("vlen-bytes", "bytes") and not big and keys["name"] == "default" and bool(self.shape)
            usable &= (keys.get("configuration") or {}).get("separator", "/") == "/" and len(sizes) == 3 * len(self.shape)
            usable &= all(type(size) is int and 0 <= size < 1 << 48 for size in sizes) and all(outer) and all(self.chunk)
            usable &= not any(whole % part for whole, part in zip(outer, self.chunk)) and document["node_type"] == "array"
            self.per = tuple(whole // part for whole, part in zip(outer, self.chunk))  # chunks of an object
            self.dtype = np.dtype(object if self.is_vlen else document["data_type"])
            usable &= self.dtype.kind in ("O" if self.is_vlen else "iufb") and math.prod(self.per) <= 1 << 26
            fill, named = document["fill_value"], {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
            self.fill = base64.b64decode(fill, validate=True) if self.is_vlen else np.array(named.get(str(fill), fill)).astype(self.dtype).item()
            self._steps = json.dumps(chain[1:]) if chain[1:] else ""
            self.origin: Index = tuple(self.attributes.get("chunk_grid_origin") or (0,) * len(self.shape))
            usable &= len(self.origin) == len(self.shape) and all(type(at) is int for at in self.origin)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, ZeroDivisionError) as error:
            raise ArrayError(f"{self.folder}/zarr.json: expected an array of Zarr 3, found one whose parts are missing or wrong: {error}") from error
        if not usable:
            raise ArrayError(f"{self.folder}/zarr.json: expected an array as writers of cells make it; this one only level.read() and ds.edit() take")

    def index_of(self, coords: Sequence[int]) -> Index:
        """The index of a cell; one outside the grid is refused."""
        found = tuple(int(c) - o for c, o in zip(coords, self.origin))
        if len(coords) != len(self.shape) or any(not 0 <= i < n for i, n in zip(found, self.shape)):
            raise ArrayError(f"{self.name}: {tuple(coords)} is no cell of a grid of {self.shape} that begins at {self.origin}")
        return found

    def object_of(self, index: Index) -> Path:
        """The file that holds a chunk."""
        return self.folder.joinpath("c", *(str(i // n) for i, n in zip(index, self.per)))

    def _position(self, index: Index) -> int:
        return int(np.ravel_multi_index(tuple(i % n for i, n in zip(index, self.per)), self.per))

    def _encoded(self, path: Path) -> dict[int, bytes]:
        """The chunks of an object as they are stored, by their number in it."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        if self.shard is None:
            return {0: data}
        count = math.prod(self.per)
        index = data[-16 * count - 4 * self._crc :]
        if len(index) != 16 * count + 4 * self._crc:
            raise ArrayError(f"{path}: expected an index of {16 * count + 4 * self._crc} bytes, found {len(data)} bytes")
        if self._crc and _zvf.crc32c(index[:-4]) != int.from_bytes(index[-4:], "little"):
            raise ArrayError(f"{path}: the checksum of its index is wrong")
        table = np.frombuffer(index, dtype="<u8", count=2 * count).reshape(-1, 2)
        found = {}
        for number in np.flatnonzero((table != _ABSENT).any(axis=1)).tolist():
            start, length = int(table[number, 0]), int(table[number, 1])
            if start + length > len(data):
                raise ArrayError(f"{path}: chunk {number} ends at byte {start + length} of {len(data)}")
            found[number] = data[start : start + length]
        return found

    def _joined(self, chunks: Mapping[int, bytes]) -> bytes | None:
        """An object of chunks as they are stored; ``None`` where there are none."""
        if not chunks or self.shard is None:
            return chunks.get(0)
        table, at = np.full((math.prod(self.per), 2), _ABSENT, dtype="<u8"), 0
        for number in sorted(chunks):
            table[number] = at, len(chunks[number])
            at += len(chunks[number])
        index = table.tobytes()
        return b"".join([*(chunks[number] for number in sorted(chunks)), index, _zvf.crc32c(index).to_bytes(4, "little") if self._crc else b""])

    def read_chunks(self, indices: Iterable[Index]) -> dict[Index, bytes]:
        """The bytes of chunks, decoded; those that are not stored are left out. Each object is read once."""
        found, path, chunks = {}, None, {}
        for index in sorted(indices, key=lambda index: (tuple(i // n for i, n in zip(index, self.per)), index)):
            if (own := self.object_of(index)) != path:
                path, chunks = own, self._encoded(own)
            if (stored := chunks.get(self._position(index))) is not None:
                with translating(ArrayError):
                    found[index] = _zvf.unpack_chunk(self._steps, stored, _MAX_CHUNK_BYTES) if self._steps else stored
        return found

    def changes(self, chunks: Mapping[Index, bytes | None], before: Mapping[Path, Any] | None = None, alone: bool = False) -> list[Callable[[], Change]]:
        """What stores these chunks, an object each; those without bytes are removed. ``alone`` drops what else an object held."""
        objects: dict[Path, dict[int, bytes | None]] = {}
        for index, data in chunks.items():
            objects.setdefault(self.object_of(index), {})[self._position(index)] = data

        def change(path: Path) -> Change:
            was = before[path] if before is not None else identity(path)
            kept = {} if alone or self.shard is None else self._encoded(path)
            for number, data in objects[path].items():
                kept.pop(number, None)
                if data is not None:
                    with translating(ArrayError):
                        kept[number] = _zvf.pack_chunk(self._steps, data) if self._steps else data
            return path, self._joined(kept), was

        return [lambda path=path: change(path) for path in objects]  # type: ignore[misc]

    def write_chunks(self, chunks: Mapping[Index, bytes | None]) -> None:
        """Store chunks; those without bytes are removed."""
        with exclusive(self.folder):
            publish(self.changes(chunks))

    def stored(self) -> list[Index]:
        """The indices of the chunks that are stored, in order; what the grid has no place for is left out."""
        base, found = self.folder / "c", []
        for path in base.rglob("*") if base.is_dir() else ():
            words = path.relative_to(base).parts
            if len(words) != len(self.shape) or not all(word.isascii() and word.isdigit() for word in words) or not path.is_file():
                continue
            for number in self._encoded(path) if self.shard else (0,):
                index = tuple(int(word) * n + int(i) for word, n, i in zip(words, self.per, np.unravel_index(number, self.per)))
                if all(i * c < n for i, c, n in zip(index, self.chunk, self.shape)):
                    found.append(index)
        return sorted(found)

    def cells(self) -> list[Index]:
        """The coordinates of the cells that are stored."""
        return [tuple(i + o for i, o in zip(index, self.origin)) for index in self.stored()]


def frame(items: Sequence[bytes]) -> bytes:
    """Variable-length items as one chunk."""
    return b"".join([len(items).to_bytes(4, "little"), *(part for item in items for part in (len(item).to_bytes(4, "little"), item))])


class RowArray(StoredArray):
    """An array whose chunks divide its rows, the first axis: numbers, or bytes of any length."""

    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        if any(part < whole for part, whole in zip(self.chunk[1:], self.shape[1:])):
            raise ArrayError(f"{self.name}: expected chunks of whole rows, found {self.chunk} of {self.shape}")
        self.rows, self.object_rows = self.shape[0], (self.shard or self.chunk)[0]

    def _at(self, number: int) -> Index:
        return (number, *(0 for _ in self.shape[1:]))

    def _rows_of(self, data: bytes | None, number: int) -> np.ndarray[Any, Any]:
        """The rows of a chunk, the whole of it; where it is not stored, the fill."""
        if data is None:
            return np.full(self.chunk, self.fill, dtype=self.dtype)
        if not self.is_vlen:
            if len(data) != math.prod(self.chunk) * self.dtype.itemsize:
                raise ArrayError(f"{self.name}: chunk {number}: expected {self.chunk} items of {self.dtype}, found {len(data)} bytes")
            return np.frombuffer(data, dtype=self.dtype.newbyteorder("<")).reshape(self.chunk).astype(self.dtype)
        found, at = np.empty(self.chunk, dtype=object), 4
        for row in range(self.chunk[0]):
            end = at + 4 + int.from_bytes(data[at : at + 4], "little")
            if at + 4 > len(data) or end > len(data):
                raise ArrayError(f"{self.name}: chunk {number}: row {row} ends behind its {len(data)} bytes")
            found[row], at = data[at + 4 : end], end
        return found

    def read(self, start: int = 0, stop: int | None = None) -> Any:
        """Rows, as an array; bytes as one of objects."""
        stop = self.rows if stop is None else min(stop, self.rows)
        if stop - start > _MOST_ROWS:
            raise ArrayError(f"{self.name}: {stop - start} rows were asked for; at most {_MOST_ROWS} are read at once")
        step = self.chunk[0]
        numbers = range(start // step, -(-stop // step)) if stop > start else range(0)
        chunks = self.read_chunks(map(self._at, numbers))
        parts = [self._rows_of(chunks.get(self._at(n)), n)[max(start - n * step, 0) : stop - n * step] for n in numbers]
        cut = (slice(None), *(slice(0, whole) for whole in self.shape[1:]))
        return np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *(part[cut] for part in parts)])

    def write(self, start: int, rows: Any) -> None:
        """Write rows that are there; the others of the chunks they are in stay."""
        stop, step = start + len(rows), self.chunk[0]
        if start < 0 or stop > self.rows:
            raise ArrayError(f"{self.name} has {self.rows} rows, and rows {start} to {stop} were given: reserve_object_rows for the full count first")
        cut = tuple(slice(0, whole) for whole in self.shape[1:])
        with exclusive(self.folder):
            new: dict[Index, bytes | None] = {}
            for number in range(start // step, -(-stop // step)) if len(rows) else ():
                index, low, high = self._at(number), max(start, number * step), min(stop, (number + 1) * step)
                whole = (low, high) == (number * step, min(self.rows, (number + 1) * step))
                held = None if whole else self.read_chunks([index]).get(index)
                chunk = self._rows_of(held, number)
                if self.is_vlen and held is None:
                    chunk[:] = b""  # rows of a chunk that nobody wrote have no bytes
                own = (slice(low - number * step, high - number * step), *cut)
                chunk[own] = rows[low - start : high - start]
                new[index] = frame(chunk.tolist()) if self.is_vlen else chunk.astype(self.dtype.newbyteorder("<")).tobytes()
            publish(self.changes(new))
        self.group._shared.changed()

    def resize(self, rows: int) -> None:
        """Grow to so many rows, or drop those behind."""
        if rows < self.rows:
            step, stored = self.chunk[0], [index[0] for index in self.stored()]
            if rows % step and rows // step in stored:
                self.write(rows, np.full((min(self.rows, -(-rows // step) * step) - rows, *self.shape[1:]), b"" if self.is_vlen else self.fill, self.dtype))
            self.write_chunks({self._at(number): None for number in stored if number * step >= rows})

        def change(document: dict[str, Any]) -> None:
            document["shape"] = [rows, *self.shape[1:]]
            if "shape" in document["attributes"]:
                document["attributes"]["shape"] = document["shape"]

        change_document(self.group, self.name, change)
        self.shape, self.rows = (rows, *self.shape[1:]), rows
