"""Dense arrays in ``.tet``, B2ND and Caterva files and Zarr arrays, indexed as NumPy does."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import numpy as np

from . import _zvf
from ._arrays import as_array
from ._html import escaped, table_html
from ._jobs import address_of, command, storage_pairs
from ._words import options, text_of
from .errors import ArgumentError, ArgumentTypeError, RangeError, shown, wrong_type


class Tensor:
    """A dense array that is read by boxes: it takes the indexes of NumPy, and reads the box around the selected items.

    >>> import numpy as np, tempfile, zvf
    >>> at = tempfile.mkdtemp() + "/a.b2nd"
    >>> t = zvf.save_tensor(at, np.arange(24).reshape(4, 6))
    >>> t[1:3, ::2].tolist(), int(t[-1, -1])
    ([[6, 8, 10], [12, 14, 16]], 23)
    """

    def __init__(self, address: str, dataset: str | None, storage: list[tuple[str, str]]) -> None:
        self.address = address
        self.dataset = dataset
        self._storage = storage
        self._native = _zvf.open_tensor(address, storage, dataset).wait()
        info = self._native.info()
        self.shape: tuple[int, ...] = tuple(info["shape"])
        self.chunk_shape: tuple[int, ...] = tuple(info["chunk_shape"])
        self.block_shape = None if info["block_shape"] is None else tuple(info["block_shape"])
        code = info["dtype"] or f"V{info['item_size']}"
        try:
            self.dtype = np.dtype(code)
        except TypeError:
            import ast

            self.dtype = np.dtype(ast.literal_eval(code))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of items."""
        return int(np.prod(self.shape, dtype=object))

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("an array without axes has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        key = tuple(part for k in (key if isinstance(key, tuple) else (key,)) for part in _without_masks(k))
        if sum(k is Ellipsis for k in key) > 1:
            raise RangeError("an index has at most one ellipsis")
        named = sum(k is not None and k is not Ellipsis for k in key)
        if named > self.ndim:
            raise RangeError(f"too many indices: the array has {self.ndim} axes, {named} were given")
        if Ellipsis not in [k for k in key if k is None or k is Ellipsis]:
            key = (*key, Ellipsis)
        start: list[int] = []
        stop: list[int] = []
        local: list[Any] = []
        axis = 0
        for k in key:
            if isinstance(k, _Mask):
                k = k.rows(self.shape, axis)
            if k is Ellipsis:
                for extent in self.shape[axis : axis + self.ndim - named]:
                    start.append(0)
                    stop.append(extent)
                local.append(Ellipsis)  # of no axis it still stands between lists of numbers
                axis += self.ndim - named
                continue
            if k is None:
                local.append(None)
                continue
            low, high, rest = _axis(k, self.shape[axis], axis)
            start.append(low)
            stop.append(high)
            local.append(rest)
            axis += 1
        extents = [b - a for a, b in zip(start, stop)]
        if self.shape and 0 not in extents:
            raw = np.asarray(self._native.read(start, stop).wait())
            box = raw.view(self.dtype).reshape(extents)
        elif not self.shape:
            box = np.asarray(self._native.read([], []).wait()).view(self.dtype).reshape(())
        else:
            box = np.empty(extents, dtype=self.dtype)
        return box[tuple(local)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ArgumentError("an array of a file is read, and cannot be had without a copy")
        found = self[...]
        return found if dtype is None else found.astype(dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor, (self.address, self.dataset, self._storage)

    def _repr_html_(self) -> str:
        rows = [("shape", self.shape), ("type", self.dtype), ("chunks", self.chunk_shape), ("blocks", self.block_shape or "none")]
        return f"<div><b>zvf.Tensor</b> {escaped(self.address)}{table_html(rows)}</div>"

    def __repr__(self) -> str:
        return f"<zvf.Tensor {self.address!r}: {self.shape}, {self.dtype}, chunks {self.chunk_shape}>"


class _Mask:
    """One axis of truth values over several."""

    def __init__(self, mask: np.ndarray, number: int) -> None:
        self.mask, self.number = mask, number

    def rows(self, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """Where they are true, on the axis ``axis`` of the array."""
        wanted = shape[axis - self.number : axis - self.number + self.mask.ndim]
        if self.mask.shape != wanted:
            raise RangeError(f"axis {axis}: expected truth values of the shape {wanted}, found {self.mask.shape}")
        return self.mask.nonzero()[self.number]


def _without_masks(key: Any) -> list[Any]:
    """An index as one for each axis: truth values over several axes are lists of numbers of each, as NumPy has it."""
    if key is None or key is Ellipsis or isinstance(key, (slice, int, np.generic)):
        return [key]
    array = np.asarray(key)
    if array.dtype.kind != "b" or array.ndim < 2:
        return [key]
    return [_Mask(array, number) for number in range(array.ndim)]


def _axis(key: Any, extent: int, axis: int) -> tuple[int, int, Any]:
    """The box that an index of one axis needs, and the index inside of it."""
    if isinstance(key, (bool, np.bool_)):
        raise RangeError("a single truth value is no index here")
    if isinstance(key, (int, np.integer)):
        at = int(key) + (extent if key < 0 else 0)
        if not 0 <= at < extent:
            raise RangeError(f"index {int(key)} is out of bounds for axis {axis} with {extent} items")
        return at, at + 1, 0
    if isinstance(key, slice):
        wanted = range(*key.indices(extent))
        if not len(wanted):
            return 0, 0, slice(None)
        low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
        step = wanted.step
        return low, high + 1, slice(None, None, step) if step != 1 else slice(None)
    array = np.asarray(key)
    if array.dtype.kind == "b":
        if array.shape != (extent,):
            raise RangeError(f"axis {axis}: expected {extent} truth values, found the shape {array.shape}")
        array = np.flatnonzero(array)
    if array.dtype.kind not in "iu" and array.size:
        raise RangeError(f"axis {axis}: expected a number, a slice, or numbers of rows, found {shown(key)}")
    if not array.size:
        return 0, 0, array.astype(np.int64)
    array = np.where(array < 0, array + extent, array)
    if (array < 0).any() or (array >= extent).any():
        raise RangeError(f"axis {axis}: an index is out of bounds of {extent} items")
    low = int(array.min())
    return low, int(array.max()) + 1, array - low


def open_tensor(source: Any, dataset: str | None = None, *, storage_options: Any = None) -> Tensor:
    """Open a dense array; ``dataset`` names one of a ``.tet`` file with several."""
    address, own = address_of(source)
    return Tensor(address, None if dataset is None else text_of("dataset", dataset), [*own, *storage_pairs(storage_options)])


def save_tensor(at: Any, array: Any, *, overwrite: bool = False, **words: Any) -> Tensor:
    """Write an array to a ``.tet`` or B2ND file, by its extension; keyword arguments are options of ``zvf tensor convert``."""
    target, _ = address_of(at)
    values = np.asarray(as_array(array, "array"), order="C")  # without axes it stays so
    if values.dtype.kind not in "biuf":
        raise wrong_type("array", "numbers", str(values.dtype))
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "array.zarr")
        _write_zarr(source, values)
        command("tensor", "convert", source, target, *(["--overwrite"] if overwrite else []), *options(words))
    return Tensor(target, None, [])


def _write_zarr(folder: str, array: np.ndarray) -> None:
    """An array as a Zarr v3 array of one chunk."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(n, 1) for n in array.shape]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": False if array.dtype.kind == "b" else 0.0 if array.dtype.kind == "f" else 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    }
    cell = os.path.join(folder, "c", *["0"] * array.ndim)
    os.makedirs(os.path.dirname(cell), exist_ok=True)
    with open(os.path.join(folder, "zarr.json"), "w") as file:
        json.dump(document, file)
    array.astype(array.dtype.newbyteorder("<")).tofile(cell)
