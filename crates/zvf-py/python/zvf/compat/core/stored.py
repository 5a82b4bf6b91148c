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

_MAX_CHUNK_BYTES = 1 << 32  # lengths of variable-length items have 32 bits
_ABSENT = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
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
            f"{address} has a journal, {journal}, that would not know of these writes: change the store by ds.edit(), or write cells before the first edit"
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


def identity(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from the one that replaces it; ``None`` where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


Change = tuple[Path, "bytes | None", "tuple[int, int, int] | None"]  # a file, its new bytes, and what it was


def publish(changes: Iterable[Callable[[], Change]], *, durable: bool = True, threads: int = 1) -> list[Path]:
    """Write files beside their places, then rename each, and remove those that have no bytes; returns what changed."""
    written: list[tuple[Path, Path | None, Any]] = []

    def prepare(make: Callable[[], Change]) -> tuple[Path, Path | None, Any]:
        path, data, before = make()
        if data is None:
            return path, None, before
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
        written.append((path, part, before))
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        return path, part, before

    folders, done = set(), []
    try:
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                prepared = list(pool.map(prepare, changes))
        else:
            prepared = [prepare(make) for make in changes]
        for path, part, before in prepared:
            if identity(path) != before:
                raise ConcurrentEditError(f"{path}: another writer changed it meanwhile; it stays as it is now. Write it again")
            if part is not None:
                os.replace(part, path)
            elif before is not None:
                path.unlink()
            folders.add(path.parent)
            done.append(path)
    finally:
        for _, part, _ in written:
            if part is not None:
                part.unlink(missing_ok=True)  # those that were renamed are gone
    if durable and fcntl is not None:
        for folder in folders:
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    return done


def change_document(group: Group, name: str, change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Change the document of a node; one that ``change`` leaves as it is is not written. Returns its attributes."""
    node = group[name] if name else group
    with exclusive(node.path):
        path = node.path / "zarr.json"
        before = identity(path)
        document = node._document()
        document["attributes"] = document.get("attributes") or {}
        old = json.dumps(document)
        change(document)
        new = json.dumps(document)
        if new != old:
            publish([lambda: (path, new.encode(), before)])
            group._shared.changed()
    return document["attributes"]


def set_attributes(group: Group, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Set attributes of a node, and keep the others."""
    return change_document(group, name, lambda document: document["attributes"].update(values))


def make_groups(group: Group, name: str, attributes: Mapping[str, Any] | None = None) -> None:
    """Make the groups on the way to a node, where they are not there; the last one gets these attributes."""
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        group.require_group("/".join(parts[:depth]))
    if attributes:
        set_attributes(group, name, attributes)


def codec_steps(compressor: Any) -> list[dict[str, Any]]:
    """The codecs that follow that of items, as documents have them, for what writers are given as ``compressor``."""
    if compressor in (None, "none", "raw"):
        return []
    if compressor == "zstd":
        return [{"name": "zstd", "configuration": {"level": 0, "checksum": False}}]
    if compressor == "blosc":
        settings = {"typesize": 4, "cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}
        return [{"name": "blosc", "configuration": settings}]
    found = [compressor] if isinstance(compressor, Mapping) or not isinstance(compressor, (list, tuple)) else list(compressor)
    steps = [step.to_dict() if hasattr(step, "to_dict") else step for step in found]
    if not all(isinstance(step, Mapping) and "name" in step for step in steps):
        raise ArrayError(f"compressor: expected None, zstd, blosc or codecs as documents have them, found {compressor!r}")
    return [dict(step) for step in steps]


def create_array(
    group: Group,
    name: str,
    *,
    shape: Sequence[int],
    chunk: Sequence[int],
    dtype: np.dtype[Any] | None,
    fill: Any,
    steps: list[dict[str, Any]],
    shard: Sequence[int] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> StoredArray:
    """Create an array, of variable-length bytes where there is no ``dtype``; nothing of it is stored yet."""
    parent, _, leaf = name.rpartition("/")
    if leaf in ("", ".", "..") or "\0" in name:
        raise ArrayError(f"an array needs a name, found {name!r}")
    if parent:
        make_groups(group, parent)
    if dtype is None:
        first: dict[str, Any] = {"name": "vlen-bytes", "configuration": {}}
    else:
        first = {"name": "bytes"} if dtype.itemsize == 1 else {"name": "bytes", "configuration": {"endian": "little"}}
    codecs, outer = [first, *steps], list(chunk)
    if shard is not None:
        index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        settings = {"chunk_shape": outer, "codecs": codecs, "index_codecs": index, "index_location": "end"}
        codecs, outer = [{"name": "sharding_indexed", "configuration": settings}], list(shard)
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "variable_length_bytes" if dtype is None else dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": outer}},
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
    return StoredArray(group, name)


def frame(items: Sequence[bytes]) -> bytes:
    """Variable-length items as one chunk."""
    parts = [len(items).to_bytes(4, "little")]
    for item in items:
        parts += (len(item).to_bytes(4, "little"), item)
    return b"".join(parts)


def unframe(data: bytes, count: int, where: str) -> list[bytes]:
    """The items of a chunk of variable-length items."""
    if len(data) < 4 or int.from_bytes(data[:4], "little") != count:
        raise ArrayError(f"{where}: expected a chunk of {count} items, found {len(data)} bytes that begin with {data[:4].hex() or 'nothing'}")
    at, items = 4, []
    for number in range(count):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if at + 4 > len(data) or end > len(data):
            raise ArrayError(f"{where}: item {number} of {count} ends behind the chunk, which has {len(data)} bytes")
        items.append(data[at + 4 : end])
        at = end
    return items


class StoredArray:
    """An array, as its document describes it."""

    def __init__(self, group: Group, name: str) -> None:
        if name not in group:
            raise MissingArrayError(f"{group.url} has no array {name!r}")
        self.group, self.name = group, name
        self.folder = group[name].path
        document = group[name]._document()
        self.attributes: dict[str, Any] = document.get("attributes") or {}
        if document.get("node_type") != "array":
            raise StoreError(f"{self.folder} is no array of Zarr 3")
        self.shape = self._sizes(document.get("shape"), "shape", 0)
        outer = self._sizes(self._at(document, "chunk_grid", "configuration", "chunk_shape"), "chunk_shape", 1, len(self.shape))
        self.chunk, chain, self.shard = outer, document.get("codecs"), None
        self._crc = self._index_first = False
        if isinstance(chain, list) and len(chain) == 1 and self._at(chain[0], "name") == "sharding_indexed":
            settings = self._at(chain[0], "configuration") or {}
            self.shard, self.chunk = outer, self._sizes(settings.get("chunk_shape"), "chunk_shape of a shard", 1, len(outer))
            if any(whole % part for whole, part in zip(outer, self.chunk)):
                raise self._wrong("chunk_shape of a shard", f"a divisor of {outer}", self.chunk)
            codecs = [self._at(codec, "name") for codec in settings.get("index_codecs") or []]
            if codecs not in (["bytes"], ["bytes", "crc32c"]):
                raise self._wrong("index_codecs", "bytes, or bytes and crc32c", codecs)
            self._crc, self._index_first = len(codecs) == 2, settings.get("index_location") == "start"
            chain = settings.get("codecs")
        self.per = tuple(whole // part for whole, part in zip(outer, self.chunk))  # chunks of an object
        if math.prod(self.per) > 1 << 26:
            raise self._wrong("chunks of a shard", "at most 67108864", math.prod(self.per))
        if not isinstance(chain, list) or not chain or self._at(chain[0], "name") not in ("bytes", "vlen-bytes"):
            raise self._wrong("codecs", "a chain that begins with bytes or vlen-bytes", chain)
        self._steps = json.dumps(chain[1:]) if chain[1:] else ""
        self.is_vlen = chain[0]["name"] == "vlen-bytes"
        kind = document.get("data_type")
        self.dtype: np.dtype[Any] | None = None
        if not self.is_vlen:
            try:
                self.dtype = np.dtype(kind).newbyteorder(">" if self._at(chain[0], "configuration", "endian") == "big" else "<")
            except TypeError:
                raise self._wrong("data_type", "numbers", kind) from None
            if self.dtype.kind not in "iufb":
                raise self._wrong("data_type", "numbers", kind)
        self.fill = self._fill(document.get("fill_value"))
        keys = document.get("chunk_key_encoding")
        default = self._at(keys, "name") != "v2"
        self._separator = self._at(keys, "configuration", "separator") or ("/" if default else ".")
        self._prefix = ["c"] if default else []

    def _wrong(self, what: str, expected: str, found: Any) -> ArrayError:
        return ArrayError(f"{self.folder / 'zarr.json'}: {what}: expected {expected}, found {found!r}")

    @staticmethod
    def _at(value: Any, *keys: str) -> Any:
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def _sizes(self, value: Any, what: str, least: int, rank: int | None = None) -> Index:
        numbers = isinstance(value, list) and all(type(one) is int and least <= one < 1 << 62 for one in value)
        if not numbers or not value or rank not in (None, len(value)):
            raise self._wrong(what, f"{rank or 'some'} whole numbers of at least {least}", value)
        return tuple(value)

    def _fill(self, value: Any) -> Any:
        try:
            if self.dtype is None:
                return base64.b64decode(value or "", validate=True)
            named = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
            return np.array(named.get(value, value) if isinstance(value, str) else value or 0).astype(self.dtype)[()]
        except (ValueError, TypeError, OverflowError):
            raise self._wrong("fill_value", "a value of the type", value) from None

    @property
    def origin(self) -> Index:
        """The coordinates of the first cell."""
        found = self.attributes.get("chunk_grid_origin")
        if found is None:
            return (0,) * len(self.shape)
        if not isinstance(found, list) or len(found) != len(self.shape) or not all(type(one) is int for one in found):
            raise self._wrong("chunk_grid_origin", f"{len(self.shape)} whole numbers", found)
        return tuple(found)

    def index_of(self, coords: Sequence[int]) -> Index:
        """The index of a cell; one outside the grid is refused."""
        found = tuple(int(c) - o for c, o in zip(coords, self.origin))
        if len(coords) != len(self.shape) or any(not 0 <= i < n for i, n in zip(found, self.shape)):
            raise ArrayError(f"{self.name}: {tuple(coords)} is no cell of a grid of {self.shape} that begins at {self.origin}")
        return found

    def object_of(self, index: Index) -> Path:
        """The file that holds a chunk."""
        return self.object_at(tuple(i // n for i, n in zip(index, self.per)))

    def object_at(self, outer: Index) -> Path:
        """The file of an object, by its place in the grid of objects."""
        return self.folder / self._separator.join([*self._prefix, *map(str, outer)])

    def _position(self, index: Index) -> int:
        return int(np.ravel_multi_index(tuple(i % n for i, n in zip(index, self.per)), self.per))

    def _encoded(self, path: Path, *, index_only: bool = False) -> dict[int, bytes]:
        """The chunks of an object as they are stored, by their number in it."""
        if self.shard is None:
            with contextlib.suppress(FileNotFoundError):
                return {0: path.read_bytes()}
            return {}
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        count = math.prod(self.per)
        size = 16 * count + 4 * self._crc
        index = data[:size] if self._index_first else data[-size:]
        if len(index) < size:
            raise ArrayError(f"{path}: expected an index of {size} bytes, found {len(data)} bytes")
        if self._crc and _zvf.crc32c(index[:-4]) != int.from_bytes(index[-4:], "little"):
            raise ArrayError(f"{path}: the checksum of its index is wrong")
        table = np.frombuffer(index, dtype="<u8", count=2 * count).reshape(-1, 2)
        found = {}
        for number in np.flatnonzero((table != _ABSENT).any(axis=1)).tolist():
            start, length = int(table[number, 0]), int(table[number, 1])
            if start + length > len(data):
                raise ArrayError(f"{path}: chunk {number} ends at byte {start + length} of {len(data)}")
            found[number] = b"" if index_only else data[start : start + length]
        return found

    def _joined(self, chunks: Mapping[int, bytes]) -> bytes | None:
        """An object of chunks as they are stored; ``None`` where there are none."""
        if not chunks:
            return None
        if self.shard is None:
            return chunks[0]
        table = np.full((math.prod(self.per), 2), _ABSENT, dtype="<u8")
        at = 16 * len(table) + 4 * self._crc if self._index_first else 0
        for number in sorted(chunks):
            table[number] = at, len(chunks[number])
            at += len(chunks[number])
        index = table.tobytes()
        index += _zvf.crc32c(index).to_bytes(4, "little") if self._crc else b""
        body = b"".join(chunks[number] for number in sorted(chunks))
        return index + body if self._index_first else body + index

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

    def changes(
        self, chunks: Mapping[Index, bytes | None], *, alone: bool = False, before: Mapping[Path, Any] | None = None
    ) -> list[Callable[[], Change]]:
        """What stores these chunks, an object each; those without bytes are removed. ``alone`` drops what else an object held."""
        objects: dict[Path, dict[int, bytes | None]] = {}
        for index, data in chunks.items():
            objects.setdefault(self.object_of(index), {})[self._position(index)] = data

        def change(path: Path, new: dict[int, bytes | None]) -> Change:
            was = before[path] if before is not None and path in before else identity(path)
            kept = {} if alone or self.shard is None else self._encoded(path)
            for number, data in new.items():
                if data is None:
                    kept.pop(number, None)
                else:
                    with translating(ArrayError):
                        kept[number] = _zvf.pack_chunk(self._steps, data) if self._steps else data
            return path, self._joined(kept), was

        return [lambda path=path, new=new: change(path, new) for path, new in objects.items()]  # type: ignore[misc]

    def write_chunks(self, chunks: Mapping[Index, bytes | None]) -> None:
        """Store chunks; those without bytes are removed."""
        with exclusive(self.folder):
            publish(self.changes(chunks))

    def stored(self) -> list[Index]:
        """The indices of the chunks that are stored, in order; what the grid has no place for is left out."""
        base, found = self.folder.joinpath(*self._prefix), []
        grid = [-(-n // c) for n, c in zip(self.shape, self.chunk)]
        for path in base.rglob("*") if base.is_dir() else ():
            words = str(path.relative_to(base)).replace(os.sep, "/").split("/" if self._separator == "/" else self._separator)
            if len(words) != len(self.shape) or not all(word.isascii() and word.isdigit() for word in words) or not path.is_file():
                continue
            for number in self._encoded(path, index_only=True) if self.shard else (0,):
                within = np.unravel_index(number, self.per)
                index = tuple(int(w) * n + int(i) for w, n, i in zip(words, self.per, within))
                if all(i < n for i, n in zip(index, grid)):
                    found.append(index)
        return sorted(found)

    def cells(self) -> list[Index]:
        """The coordinates of the cells that are stored."""
        return [tuple(i + o for i, o in zip(index, self.origin)) for index in self.stored()]


class RowArray(StoredArray):
    """An array whose chunks divide its rows, the first axis: numbers, or bytes of any length."""

    MOST_ROWS = 1 << 28  # of one answer

    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        if any(part < whole for part, whole in zip(self.chunk[1:], self.shape[1:])):
            raise self._wrong("chunk_shape", "chunks of whole rows", self.chunk)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.shape[0]

    @property
    def object_rows(self) -> int:
        """How many rows an object holds."""
        return (self.shard or self.chunk)[0]

    def _decoded(self, data: bytes | None, index: Index) -> Any:
        """The rows of a chunk, the whole of it; where it is not stored, the fill."""
        if self.is_vlen:
            return [self.fill] * self.chunk[0] if data is None else unframe(data, self.chunk[0], f"{self.name}: chunk {index[0]}")
        if data is None:
            return np.full(self.chunk, self.fill, dtype=self.dtype)
        assert self.dtype is not None, "an array of numbers has a type"
        if len(data) != math.prod(self.chunk) * self.dtype.itemsize:
            raise ArrayError(f"{self.name}: chunk {index[0]}: expected {math.prod(self.chunk)} items of {self.dtype}, found {len(data)} bytes")
        return np.frombuffer(data, dtype=self.dtype).reshape(self.chunk).copy()

    def read(self, start: int = 0, stop: int | None = None) -> Any:
        """Rows: an array, or a list of bytes."""
        stop = self.rows if stop is None else min(stop, self.rows)
        start = min(max(start, 0), stop)
        if stop - start > self.MOST_ROWS:
            raise ArrayError(f"{self.name}: {stop - start} rows were asked for; at most {self.MOST_ROWS} are read at once")
        step, tail = self.chunk[0], (0,) * (len(self.shape) - 1)
        numbers = range(start // step, -(-stop // step) if stop > start else start // step)
        chunks = self.read_chunks([(number, *tail) for number in numbers])
        slices = [(number, slice(max(start - number * step, 0), min(stop - number * step, step))) for number in numbers]
        if self.is_vlen:
            return [row for number, part in slices for row in self._decoded(chunks.get((number, *tail)), (number,))[part]]
        cut = tuple(slice(0, whole) for whole in self.shape[1:])
        found = [self._decoded(chunks.get((number, *tail)), (number,))[(part, *cut)] for number, part in slices]
        empty = np.empty((0, *self.shape[1:]), dtype=self.dtype)
        native = empty.dtype.newbyteorder("=")
        return np.concatenate([empty, *found]).astype(native, copy=False)

    def write(self, start: int, rows: Any) -> None:
        """Write rows that are there; the others of the chunks they are in stay."""
        stop, step, tail = start + len(rows), self.chunk[0], (0,) * (len(self.shape) - 1)
        if start < 0 or stop > self.rows:
            raise ArrayError(f"{self.name}: rows {start} to {stop} of {self.rows}: reserve_object_rows for the full count first")
        if not len(rows):
            return
        with exclusive(self.folder):
            numbers = range(start // step, -(-stop // step))
            edges = {number for number in (numbers[0], numbers[-1]) if number * step < start or min((number + 1) * step, self.rows) > stop}
            held = self.read_chunks([(number, *tail) for number in edges])
            new: dict[Index, bytes | None] = {}
            for number in numbers:
                index = (number, *tail)
                if self.is_vlen and index not in held:
                    chunk: Any = [b""] * step  # rows of a chunk that nobody wrote have no bytes
                else:
                    chunk = self._decoded(held.get(index), index)
                low, high = max(start, number * step), min(stop, (number + 1) * step)
                part = slice(low - number * step, high - number * step)
                if self.is_vlen:
                    chunk[part] = rows[low - start : high - start]
                    new[index] = frame(chunk)
                else:
                    chunk[(part, *(slice(0, whole) for whole in self.shape[1:]))] = rows[low - start : high - start]
                    new[index] = chunk.tobytes()
            publish(self.changes(new))
        self.group._shared.changed()

    def resize(self, rows: int) -> None:
        """Grow to so many rows, or drop those behind."""
        if rows < self.rows:
            step, tail = self.chunk[0], (0,) * (len(self.shape) - 1)
            stored = [index[0] for index in self.stored()]
            gone: dict[Index, bytes | None] = {(number, *tail): None for number in stored if number * step >= rows}
            if rows % step and rows // step in stored:
                empty = [b""] * (min(step, self.rows - rows // step * step) - rows % step)
                self.write(rows, empty if self.is_vlen else np.full((len(empty), *self.shape[1:]), self.fill, dtype=self.dtype))
            self.write_chunks(gone)

        def change(document: dict[str, Any]) -> None:
            document["shape"] = [rows, *self.shape[1:]]
            if "shape" in document["attributes"]:
                document["attributes"]["shape"] = document["shape"]

        self.attributes = change_document(self.group, self.name, change)
        self.shape = (rows, *self.shape[1:])
