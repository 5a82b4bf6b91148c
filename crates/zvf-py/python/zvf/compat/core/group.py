"""A node of a store, as the facade hands it out: attributes, children, arrays' metadata."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

import zvf
from zvf._jobs import address_of, is_in_memory

from ..exceptions import MissingStoreError, ReadOnlyError, ShardedPresenceError, StoreError, translating


PRESENCE = "zarr_vectors_presence"  # the attribute of a level that several writers fill
DEFERRED = "deferred"


class Shared:
    """What the nodes of one store share: its address, how it may be used, and the reader."""

    def __init__(self, address: str, mode: str, storage: list[tuple[str, str]], memory: Any = None) -> None:
        self.address = address
        self.mode = mode
        self.storage = storage
        self.memory = memory  # a store of zarr in memory, that the folder stands for
        self.reader: zvf.Dataset | None = None

    def dataset(self) -> zvf.Dataset:
        """The reader, opened once."""
        if self.reader is None:
            with translating(StoreError):
                self.reader = zvf.Dataset(self.address, self.storage)
        return self.reader

    def changed(self) -> None:
        """The store was written to: what was read of it is forgotten."""
        self.reader = None
        if self.memory is not None:
            _to_foreign(self.memory, Path(self.address))

    def check_writable(self) -> None:
        """Fails on a handle for reading."""
        if self.mode == "r":
            raise ReadOnlyError(f"{self.address} was opened read-only; open it with mode='r+'")


class Attrs(Mapping[str, Any]):
    """The attributes of a node; setting one writes its document."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def to_dict(self) -> dict[str, Any]:
        """All of them."""
        return dict(self._group._document().get("attributes") or {})

    asdict = to_dict

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        document = self._group._document()
        document["attributes"].pop(key)
        self._group._write_document(document)

    def update(self, other: Mapping[str, Any]) -> None:
        """Set several at once."""
        document = self._group._document()
        document["attributes"] = {**(document.get("attributes") or {}), **_plain(other)}
        self._group._write_document(document)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


class Group:
    """A store, or a node of one."""

    def __init__(self, shared: Shared, below: str = "") -> None:
        self._shared = shared
        self._below = below
        self._staging: Any = None  # cells that are held until a session or a transaction ends
        self._plan: Any = None  # the grid of arrays that a session creates

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return "://" not in self._shared.address

    @property
    def path(self) -> Path:
        """The folder."""
        if not self.is_local:
            raise StoreError(f"{self._shared.address} is no folder of this machine")
        return Path(self._shared.address, self._below)

    @property
    def url(self) -> str:
        """Where it is."""
        base = Path(self._shared.address).absolute().as_uri() if self.is_local else self._shared.address
        return f"{base}/{self._below}".rstrip("/")

    @property
    def mode(self) -> str:
        """``r`` or ``r+``."""
        return self._shared.mode

    @property
    def read_only(self) -> bool:
        """Whether it may not be written to."""
        return self._shared.mode == "r"

    @property
    def attrs(self) -> Attrs:
        """The attributes."""
        return Attrs(self)

    def _document(self) -> dict[str, Any]:
        if not self.is_local:
            if self._below:
                raise StoreError("documents of levels of remote stores are not handed out")
            return json.loads(self._shared.dataset()._native.root_json())
        try:
            found = json.loads((self.path / "zarr.json").read_text())
        except FileNotFoundError as error:
            raise MissingStoreError(f"nothing at {self.path}: no zarr.json") from error
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{self.path}/zarr.json is no JSON: {error}") from error
        if not isinstance(found, dict) or not isinstance(found.get("attributes") or {}, dict):
            raise StoreError(f"{self.path}/zarr.json: expected an object with attributes, found {str(found)[:80]}")
        return found

    def _write_document(self, document: dict[str, Any]) -> None:
        self._shared.check_writable()
        write_json(self.path / "zarr.json", document)
        self._shared.changed()

    def __contains__(self, name: object) -> bool:
        parts = str(name).split("/")
        if not self.is_local or any(part in ("", ".", "..") or "\0" in part for part in parts):
            return False  # a node is below this one
        return self.path.joinpath(*parts, "zarr.json").is_file()

    def __getitem__(self, name: str) -> Group:
        if name not in self:
            raise KeyError(f"{self.url} has no {name!r}")
        return Group(self._shared, f"{self._below}/{name}".strip("/"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.children())

    def children(self) -> list[str]:
        """The names of the nodes below."""
        if not self.is_local:
            return []
        return sorted(p.name for p in self.path.iterdir() if (p / "zarr.json").is_file())

    def require_group(self, name: str) -> Group:
        """The group below, made where it is not there."""
        if name not in self:
            self._shared.check_writable()
            if any(part in ("", ".", "..") or "\0" in part for part in str(name).split("/")):
                raise StoreError(f"a group needs a name below {self.url}, found {name!r}")
            (self.path / name).mkdir(parents=True, exist_ok=True)
            write_json(self.path / name / "zarr.json", {"attributes": {}, "zarr_format": 3, "node_type": "group"})
        return self[name]

    def delete_subtree(self, name: str) -> None:
        """Remove a node and what is below it."""
        self._shared.check_writable()
        if name not in self:
            raise KeyError(f"{self.url} has no {name!r}")
        shutil.rmtree(self.path / name)
        self._shared.changed()

    def array_exists(self, array_name: str) -> bool:
        """Whether there is such an array."""
        return array_name in self

    def standalone_array_exists(self, path: str) -> bool:
        """Whether there is such an array."""
        return self.array_exists(path)

    def read_array_meta(self, array_name: str) -> dict[str, Any]:
        """What an array says of itself."""
        attributes = self[array_name].attrs.to_dict()
        merged = {k: v for k, v in attributes.items() if k != "zv_array"}
        block = attributes.get("zv_array")
        if isinstance(block, Mapping):
            merged.update(block)
        return merged

    def write_array_meta(self, array_name: str, meta: Mapping[str, Any]) -> None:
        """Add to what an array says of itself."""
        node = self[array_name]
        attributes = node.attrs.to_dict()
        if isinstance(attributes.get("zv_array"), Mapping):
            node.attrs.update({"zv_array": {**attributes["zv_array"], **meta}})
        else:
            node.attrs.update(meta)

    def read_array_attrs(self, path: str) -> dict[str, Any]:
        """The attributes of an array."""
        return self[path].attrs.to_dict()

    def read_array(self, path: str) -> np.ndarray:
        """The values of an array that is not cut by chunks of space."""
        return np.asarray(self._zarr(path)[...])

    def read_vlen_element(self, path: str, index: int) -> bytes:
        """One row of an array of bytes."""
        return self.read_vlen_elements(path, [index])[0]

    def read_vlen_elements(self, path: str, indices: Any) -> list[bytes]:
        """Rows of an array of bytes, in the order asked."""
        array = self._zarr(path)
        return [bytes(np.asarray(array[int(i)]).item()) for i in indices]

    def _zarr(self, name: str) -> Any:
        """An array by the package zarr, which decodes what has no meaning of its own here."""
        if name not in self:
            raise StoreError(f"{self.url} has no array {name!r}")
        try:
            import zarr
        except ImportError as error:
            raise StoreError("raw arrays are read by the package zarr: pip install zarr") from error
        return zarr.open_array(str(self[name].path), mode="r")

    @property
    def _is_sharded(self) -> bool:
        """Whether this is an array whose cells are in shards."""
        codecs = self._document().get("codecs") or []
        return any(isinstance(codec, dict) and codec.get("name") == "sharding_indexed" for codec in codecs)

    def presence_deferred(self) -> bool:
        """Whether several writers fill this level, whose arrays then have no lists of presence."""
        return self.is_local and self.attrs.get(PRESENCE) == DEFERRED

    def list_chunks(self, array_name: str) -> list[str]:
        """The keys of the chunks of an array that have a cell: as it lists them; where it lists none, those that are stored."""
        listed = self.read_array_meta(array_name).get("nonempty_chunks")
        if listed is not None:
            return sorted(str(key) for key in listed)
        if self.is_local and self[array_name]._document().get("node_type") == "array":
            from .stored import StoredArray

            return sorted(".".join(map(str, cell)) for cell in StoredArray(self, array_name).cells())
        keys = self._shared.dataset()._native.chunks(self.level).wait()
        return sorted(".".join(str(c) for c in key) for key in keys)

    def chunk_exists(self, array_name: str, chunk_key: Any) -> bool:
        """Whether an array has a cell for a chunk."""
        text = chunk_key if isinstance(chunk_key, str) else ".".join(str(int(c)) for c in chunk_key)
        return array_name in self and text in self.list_chunks(array_name)

    def derive_nonempty_chunks(self, array_name: str, *, on_sharded: str = "raise") -> list[str]:
        """Write the list of the chunks that have a cell, by what is stored; in shards only with ``on_sharded="derive"``."""
        from .stored import StoredArray, set_attributes

        if self[array_name]._is_sharded and on_sharded != "derive":
            if on_sharded == "skip":
                return self.list_chunks(array_name)
            raise ShardedPresenceError(f"{array_name}: cells are in shards, which a listing of files does not show: on_sharded='derive' reads them")
        self._shared.check_writable()
        found = sorted(".".join(map(str, cell)) for cell in StoredArray(self, array_name).cells())
        set_attributes(self, array_name, {"nonempty_chunks": found})
        return found

    def read_bytes(self, array_name: str, chunk_key: Any) -> bytes:
        """A cell as it is stored; one that holds nothing has no bytes."""
        from .writing import coords_of, read_cell_bytes

        cell = coords_of(chunk_key)
        return read_cell_bytes(self, array_name, [cell])[cell]

    def write_bytes(self, array_name: str, chunk_key: Any, data: bytes, *, record_presence: bool = True) -> None:
        """Write a cell as it is stored."""
        self.write_cells(array_name, [(chunk_key, data)], record_presence=record_presence)

    def write_cells(self, array_name: str, cells: Any, *, record_presence: bool = True) -> None:
        """Write cells as they are stored: pairs of a chunk and its bytes."""
        from .writing import coords_of, write_cells

        write_cells(self, array_name, {coords_of(key): bytes(data) for key, data in cells}, record_presence)

    @contextlib.contextmanager
    def batched_writes(self, compressor: Any = None, *, durable: bool = True) -> Iterator[None]:
        """Cells that are written inside are stored together at the end."""
        from .writing import Staging, staged

        with staged(self, Staging(self)):
            yield

    def chunk_grid_bounds(self, array_name: str) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
        """The first chunk of an array, and how many there are on each axis."""
        document = self[array_name]._document()
        attributes = document.get("attributes") or {}
        origin = self.read_array_meta(array_name).get("chunk_grid_origin") or attributes.get("chunk_grid_origin")
        return (tuple(origin) if origin else None), tuple(document.get("shape") or ())

    @property
    def level(self) -> int:
        """The number of the level that this is a node of."""
        found = re.match(r"(?:resolution_)?(\d+)", self._below)
        return int(found.group(1)) if found else 0

    def __reduce__(self) -> tuple[Any, ...]:
        if self._shared.memory is not None or is_in_memory(self._shared.address):
            raise TypeError("a store in memory cannot be pickled: its bytes are in this process alone")
        return _again, (self._shared.address, self._shared.mode, self._shared.storage, self._below)

    def __repr__(self) -> str:
        return f"Group({self.url!r})"


def _again(address: str, mode: str, storage: list[tuple[str, str]], below: str) -> Group:
    return Group(Shared(address, mode, storage), below)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document in one step."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".zarr.json.")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(document, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


_MEMORY: dict[int, tuple[Any, Any]] = {}


def shared_for(source: Any, mode: str, storage: Any = None) -> Shared:
    """What to open: a path, a URL, a handle, a store of zarr."""
    if isinstance(source, Group):
        return source._shared
    inner = getattr(source, "_group", None)
    if isinstance(inner, Group):
        return inner._shared
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    pairs = [(str(k), str(v)) for k, v in dict(storage or {}).items()]
    if kind.startswith("zarr.") and hasattr(source, "_store"):  # one that wraps another
        return shared_for(source._store, mode, storage)
    if kind.startswith("zarr.storage") and _is_foreign(source):
        if id(source) not in _MEMORY:
            folder = tempfile.TemporaryDirectory(prefix="zvf-memory-")
            _MEMORY[id(source)] = (folder, source)
            _from_foreign(source, Path(folder.name, "store"))
        return Shared(str(Path(_MEMORY[id(source)][0].name, "store")), mode, pairs, source)
    with translating(StoreError):
        address, own = address_of(source)
    if address.startswith("file:"):
        address = unquote(urlsplit(address).path)
    return Shared(address, mode, [*own, *pairs])


def _is_foreign(store: Any) -> bool:
    """Whether only the package zarr knows where the bytes of a store of it are: in memory, in an archive, behind fsspec."""
    try:
        address_of(store)
    except TypeError:
        return hasattr(store, "list") and hasattr(store, "set")
    return False


def _from_foreign(store: Any, folder: Path) -> None:
    """The objects of a store of zarr as files."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    async def read() -> dict[str, bytes]:
        if not getattr(store, "_is_open", True):
            await store._open()
        prototype, found = default_buffer_prototype(), {}
        async for key in store.list():
            value = await store.get(key, prototype)
            if value is not None:
                found[key] = value.to_bytes()
        return found

    for key, value in sync(read()).items():
        parts = key.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise StoreError(f"a key of a store: expected a path below it, found {key!r}")
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)


def _to_foreign(store: Any, folder: Path) -> None:
    """Files as the objects of a store of zarr: what changed is set, what is gone is deleted, documents of the root last."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".zvf")]
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}

    async def write() -> None:
        prototype = default_buffer_prototype()
        for key in sorted(found, key=lambda key: (key == "zarr.json", key)):
            held = await store.get(key, prototype)
            if held is None or held.to_bytes() != found[key]:
                await store.set(key, prototype.buffer.from_bytes(found[key]))
        for key in [key async for key in store.list() if key not in found]:
            await store.delete(key)

    sync(write())
