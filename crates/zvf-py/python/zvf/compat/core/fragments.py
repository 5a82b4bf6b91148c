"""The bytes of fragments, manifests and groups of rows, from arrays and to arrays; and which arrays are refused."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..exceptions import ArrayError

Ints = npt.NDArray[np.int64]

_MAGIC = 0x5A56_4647
_MOST_ITEMS = 1 << 28  # that a range of a manifest or of fragments may stand for
_CPU = 1  # kDLCPU of DLPack


def host_array(value: Any, what: str, dtype: Any = None) -> npt.NDArray[Any]:
    """An array in the memory of this machine; one on a device is refused, and so are numbers that the type cannot hold."""
    device = None
    if hasattr(value, "__cuda_array_interface__"):
        device = "a CUDA device"
    elif hasattr(value, "__dlpack_device__") and not isinstance(value, np.ndarray) and int(value.__dlpack_device__()[0]) != _CPU:
        device = "the device {} of DLPack, number {}".format(*(int(part) for part in value.__dlpack_device__()))
    if device is not None:
        raise ArrayError(
            f"{what}: expected an array in the memory of this machine, found one on {device}: this package has no code for devices. "
            f"Copy it first, by .get() of cupy or .cpu() of torch"
        )
    found = np.asarray(value)
    return found if dtype is None else as_type(found, np.dtype(dtype), what)


def as_type(values: npt.NDArray[Any], dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Values of another type; integers must survive it."""
    if values.dtype == dtype:
        return values
    if values.dtype.kind not in "iufb":
        raise ArrayError(f"{what}: expected numbers, found {values.dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(dtype)
    if dtype.kind in "iub" and values.size and not np.array_equal(cast, values):
        raise ArrayError(f"{what}: expected values that {dtype} holds, found {values.dtype} with others")
    return cast


def host_device(device: Any, decode: str = "auto", io: str = "auto") -> str:
    """Fails on a device that is not the CPU."""
    if device not in (None, "cpu") or decode not in ("auto", "host") or io not in ("auto", "host"):
        named = device if device not in (None, "cpu") else decode if decode not in ("auto", "host") else io
        raise ArrayError(f"device: expected cpu, found {named!r}: cells are decoded by the CPU. Read them, then copy the arrays to the device")
    return "cpu"


def offsets_of(counts: Any) -> Ints:
    """The offsets of parts that have these lengths."""
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def checked_offsets(offsets: Any, total: int, what: str) -> Ints:
    """Offsets of parts: they start at 0, end at the total, and do not decrease."""
    found = host_array(offsets, what, np.int64).reshape(-1)
    if not found.size or found[0] != 0 or found[-1] != total or (np.diff(found) < 0).any():
        raise ArrayError(f"{what} must start at 0, be non-decreasing, and end at {total}")
    return found


def spread(starts: Ints, counts: Ints) -> Ints:
    """The numbers of ranges, one range after the other."""
    total = int(counts.sum())
    if total > _MOST_ITEMS:
        raise ArrayError(f"ranges stand for {total} rows; at most {_MOST_ITEMS} are read at once")
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(total, dtype=np.int64)


class ChunkFragmentIndex:
    """The fragments of a chunk: each is a range of rows, or lists them."""

    def __init__(self, starts: Ints, counts: Ints, is_range: npt.NDArray[np.bool_], listed: Ints) -> None:
        self.starts, self.counts, self._is_range, self.listed = starts, counts, is_range, listed  # starts of lists are places in `listed`

    @property
    def num_fragments(self) -> int:
        """How many there are."""
        return len(self.counts)

    __len__ = num_fragments.fget  # type: ignore[assignment]

    def _checked(self, number: int) -> int:
        if not 0 <= int(number) < self.num_fragments:
            raise IndexError(f"fragment {number} of {self.num_fragments}")
        return int(number)

    def is_range(self, f: int) -> bool:
        """Whether a fragment is a range."""
        return bool(self._is_range[self._checked(f)])

    def range(self, f: int) -> tuple[int, int]:
        """The first row of a fragment that is a range, and their number."""
        if not self.is_range(f):
            raise ArrayError(f"fragment {f} lists its rows, and is no range")
        return int(self.starts[f]), int(self.counts[f])

    def indices(self, f: int) -> Ints:
        """The rows of a fragment."""
        return self.gather([self._checked(f)])[0]

    def ranges(self) -> Ints | None:
        """Starts and counts; ``None`` where a fragment lists its rows."""
        return np.stack([self.starts, self.counts], axis=1) if self._is_range.all() else None

    def flat(self) -> tuple[Ints, Ints]:
        """The rows of all fragments, and the offsets of each."""
        rows, counts = self.gather(np.arange(self.num_fragments))
        return rows, offsets_of(counts)

    def gather(self, frags: Any) -> tuple[Ints, Ints]:
        """The rows of several fragments, one after the other, and how many each has."""
        own = host_array(frags, "frags", np.int64).reshape(-1)
        if own.size and not 0 <= own.min() <= own.max() < self.num_fragments:
            raise IndexError(f"fragments {own.min()} to {own.max()} of {self.num_fragments}")
        counts, listed = self.counts[own], ~self._is_range[own]
        rows = spread(self.starts[own], counts)
        place = np.repeat(listed, counts)
        rows[place] = self.listed[rows[place]]
        return rows, counts

    def encode(self) -> bytes:
        """As a cell of ``vertex_fragments`` or ``link_fragments`` has it."""
        number, is_range = self.num_fragments, self._is_range
        head = struct.pack("<IHHII", _MAGIC, 1, 0, number, int(is_range.sum()))
        if not number:
            return head
        bitmap = np.packbits(is_range, bitorder="little").tobytes()
        table = np.stack([self.starts, self.counts], axis=1)[is_range].astype("<i8").tobytes()
        csr = offsets_of(self.counts[~is_range])
        if csr[-1] >= 1 << 32:
            raise ArrayError(f"fragments list {csr[-1]} rows; a chunk has place for {1 << 32}")
        rows = self.listed[spread(self.starts[~is_range], self.counts[~is_range])]
        return b"".join([head, bitmap, bytes(-len(bitmap) % 8), table, csr.astype("<u4").tobytes(), rows.astype("<i8").tobytes()])


def fragments_of(indices: Any, offsets: Any, *, force_explicit: bool = False) -> ChunkFragmentIndex:
    """Fragments from their rows; those that are consecutive become ranges."""
    rows = host_array(indices, "indices")
    if rows.size and rows.dtype.kind not in "iu":
        raise ArrayError(f"indices must be integers, found {rows.dtype}")
    rows = as_type(rows, np.dtype(np.int64), "indices").reshape(-1)
    if rows.size and rows.min() < 0:
        raise ArrayError(f"indices must be non-negative, found {rows.min()}")
    bounds = checked_offsets(offsets, rows.size, "offsets")
    starts, counts = bounds[:-1].copy(), np.diff(bounds)
    breaks = offsets_of(np.diff(rows, prepend=rows[:1] - 1) != 1) if rows.size else np.zeros(1, dtype=np.int64)
    inside = breaks[np.maximum(bounds[1:], starts)] - breaks[np.minimum(starts + 1, bounds[1:])]  # steps other than one
    is_range = (counts > 0) & (inside == 0) & (not force_explicit)
    starts[is_range] = rows[starts[is_range]]
    return ChunkFragmentIndex(starts, counts, is_range, rows)


def fragments_from(new_fragments: Iterable[Any], *, force_explicit: bool = False) -> ChunkFragmentIndex:
    """Fragments from pairs of a start and a count, which stay ranges, and lists of rows."""
    found: ChunkFragmentIndex | None = None
    given = list(new_fragments)
    lists = [np.empty(0, np.int64) if isinstance(one, tuple) else host_array(one, "a fragment").reshape(-1) for one in given]
    found = fragments_of(np.concatenate([np.empty(0, np.int64), *lists]) if any(map(len, lists)) else [], offsets_of([len(one) for one in lists]), force_explicit=force_explicit)
    for number, one in enumerate(given):
        if isinstance(one, tuple):
            if len(one) != 2 or int(one[1]) < 0:
                raise ArrayError(f"fragment {number}: expected a start and a count, found {one}")
            found.starts[number], found.counts[number], found._is_range[number] = int(one[0]), int(one[1]), True
    return found


def joined(first: ChunkFragmentIndex, second: ChunkFragmentIndex) -> ChunkFragmentIndex:
    """The fragments of one index, then those of another."""
    moved = np.where(second._is_range, second.starts, second.starts + len(first.listed))
    both = [np.concatenate(pair) for pair in zip((first.starts, first.counts, first._is_range, first.listed), (moved, second.counts, second._is_range, second.listed))]
    return ChunkFragmentIndex(*both)


def decode_fragment_index(blob: bytes) -> ChunkFragmentIndex:
    """Decode a cell of ``vertex_fragments`` or ``link_fragments``."""
    if len(blob) < 16:
        raise ArrayError(f"Fragment-index blob too short: {len(blob)} < 16")
    magic, version, flags, number, ranges = struct.unpack_from("<IHHII", blob)
    if magic != _MAGIC or version != 1 or flags != 0:
        raise ArrayError(f"Bad fragment-index magic, version or flags: {magic:#x}, {version}, {flags}")
    at = 16 + -(-number // 64) * 8
    csr_at = at + 16 * ranges
    end = csr_at + 4 * (number - ranges + 1 if number else 0)
    if ranges > number or end > len(blob):
        raise ArrayError(f"Fragment index of {number} fragments, {ranges} of them ranges, is truncated at {len(blob)} bytes")
    is_range = np.unpackbits(np.frombuffer(blob, np.uint8, at - 16, 16), bitorder="little", count=number).astype(bool)
    if int(is_range.sum()) != ranges:
        raise ArrayError(f"Fragment index: {ranges} ranges are stated, {int(is_range.sum())} are marked")
    table = np.frombuffer(blob, "<i8", 2 * ranges, at).reshape(-1, 2)
    csr = np.frombuffer(blob, "<u4", number - ranges + 1 if number else 0, csr_at).astype(np.int64)
    total = int(csr[-1]) if csr.size else 0
    if csr.size and (csr[0] != 0 or (np.diff(csr) < 0).any()) or end + 8 * total > len(blob):
        raise ArrayError("Fragment index: its lists are out of order, or truncated")
    listed = np.frombuffer(blob, "<i8", total, end).astype(np.int64)
    if (table < 0).any() or (listed < 0).any() or (table > 1 << 34).any():
        raise ArrayError("Fragment index: a row is negative, or beyond any chunk")
    starts, counts = np.empty(number, np.int64), np.empty(number, np.int64)
    starts[is_range], counts[is_range] = table[:, 0], table[:, 1]
    starts[~is_range], counts[~is_range] = csr[:-1], np.diff(csr)
    return ChunkFragmentIndex(starts, counts, is_range, listed)


# --- manifests


def manifest_csr(chunk_coords: Any, fragment_idx: Any, manifest_offsets: Any, sid_ndim: int | None) -> tuple[Ints, Ints, Ints]:
    """Offsets, chunks and fragments of manifests that are given as arrays, checked."""
    frags = host_array(fragment_idx, "fragment_idx", np.int64).reshape(-1)
    coords = host_array(chunk_coords, "chunk_coords", np.int64)
    if coords.ndim != 2 and not coords.size:
        coords = coords.reshape(0, sid_ndim or 3)
    if coords.ndim != 2 or sid_ndim not in (None, coords.shape[1]):
        raise ArrayError(f"chunk_coords: expected the rank {sid_ndim or 'of the chunks'} for each block, found the shape {coords.shape}")
    if len(coords) != frags.size:
        raise ArrayError(f"{frags.size} fragments and {len(coords)} rows of chunk_coords disagree")
    if frags.size and frags.min() < 0:
        raise ArrayError(f"fragment_idx must be >= 0, found {frags.min()}")
    offsets = np.arange(frags.size + 1, dtype=np.int64) if manifest_offsets is None else checked_offsets(manifest_offsets, frags.size, "manifest_offsets")
    return offsets, coords, frags


def encode_object_manifests_csr(chunk_coords: Any, fragment_idx: Any, manifest_offsets: Any = None, *, sid_ndim: int | None = None) -> npt.NDArray[Any]:
    """Manifests given as arrays, as blobs: one block for each fragment."""
    offsets, coords, frags = manifest_csr(chunk_coords, fragment_idx, manifest_offsets, sid_ndim)
    rank = coords.shape[1]
    blocks = np.zeros((len(frags), 8 * rank + 9), dtype=np.uint8)
    blocks[:, : 8 * rank] = np.ascontiguousarray(coords.astype("<i8")).view(np.uint8).reshape(len(frags), 8 * rank)
    blocks[:, 8 * rank + 1 :] = frags.astype("<i8").view(np.uint8).reshape(-1, 8)
    body, width, bounds = blocks.tobytes(), blocks.shape[1], offsets.tolist()
    found = np.empty(len(bounds) - 1, dtype=object)
    found[:] = [(b - a).to_bytes(4, "little") + body[a * width : b * width] for a, b in zip(bounds, bounds[1:])]
    return found


def encode_object_manifest_blocks(blocks: Sequence[Any], sid_ndim: int) -> bytes:
    """A manifest: pairs of a chunk and a fragment, a range of them (a start and a count), or an array of them."""
    parts = [struct.pack("<I", len(blocks))]
    for chunk, fragments in blocks:
        if len(chunk) != sid_ndim:
            raise ArrayError(f"chunk {tuple(chunk)}: expected the rank {sid_ndim}")
        parts.append(struct.pack(f"<{sid_ndim}q", *(int(c) for c in chunk)))
        if isinstance(fragments, (int, np.integer)):
            parts.append(struct.pack("<Bq", 0, int(fragments)))
        elif isinstance(fragments, tuple):
            parts.append(struct.pack("<Bqq", 1, int(fragments[0]), int(fragments[1])))
        else:
            listed = host_array(fragments, "fragments", np.int64)
            parts.append(struct.pack("<BI", 2, len(listed)) + listed.astype("<i8").tobytes())
    return b"".join(parts)


def decode_object_manifest_blocks(blob: bytes, sid_ndim: int) -> list[tuple[tuple[int, ...], Any]]:
    """The blocks of a manifest: a chunk, and a fragment, a start and a count, or an array."""
    if not 1 <= int(sid_ndim) <= 16:
        raise ArrayError(f"sid_ndim: expected 1 to 16, found {sid_ndim}")
    try:
        (number,), at, found = struct.unpack_from("<I", blob), 4, []
        for _ in range(number):
            chunk = struct.unpack_from(f"<{sid_ndim}q", blob, at)
            mode = blob[at + 8 * sid_ndim]
            at += 8 * sid_ndim + 1
            if mode == 0:
                found.append((chunk, struct.unpack_from("<q", blob, at)[0]))
                at += 8
            elif mode == 1:
                found.append((chunk, struct.unpack_from("<qq", blob, at)))
                at += 16
            elif mode == 2:
                (length,) = struct.unpack_from("<I", blob, at)
                found.append((chunk, np.frombuffer(blob, "<i8", length, at + 4).astype(np.int64)))
                at += 4 + 8 * length
            else:
                raise ArrayError(f"Unknown manifest block mode {mode}")
    except (struct.error, IndexError, ValueError) as error:
        raise ArrayError(f"Manifest blob truncated in its header or a block, at {len(blob)} bytes") from error
    if at != len(blob):
        raise ArrayError(f"Manifest blob has {len(blob) - at} trailing bytes after {number} blocks")
    return found


def decode_object_manifests_csr(blobs: Sequence[bytes], sid_ndim: int) -> tuple[Ints, Ints, Ints]:
    """Manifests as arrays: offsets of the fragments of each, their chunks, and their numbers. A row without bytes has none."""
    width = 8 * sid_ndim + 9
    numbers = [int.from_bytes(blob[:4], "little") for blob in blobs]
    if all(len(blob) == 4 + number * width or not blob for blob, number in zip(blobs, numbers)):
        blocks = np.frombuffer(b"".join(blob[4:] for blob in blobs), np.uint8).reshape(-1, width)
        if not blocks[:, 8 * sid_ndim].any():  # one fragment in each block, as writers of this kind have it
            coords = np.ascontiguousarray(blocks[:, : 8 * sid_ndim]).view("<i8").reshape(-1, sid_ndim).astype(np.int64)
            frags = np.ascontiguousarray(blocks[:, 8 * sid_ndim + 1 :]).view("<i8").reshape(-1).astype(np.int64)
            return offsets_of(numbers), coords, frags
    counts, chunks, found = [], [], []
    for blob in blobs:
        own = []
        for chunk, part in decode_object_manifest_blocks(blob, sid_ndim) if blob else ():
            if isinstance(part, tuple):
                if part[1] < 0:
                    raise ArrayError(f"Manifest: a range of {part[1]} fragments")
                part = spread(np.array([part[0]]), np.array([part[1]]))
            part = np.atleast_1d(np.asarray(part, dtype=np.int64))
            own.append(part)
            chunks.append(np.tile(np.asarray(chunk, dtype=np.int64), (len(part), 1)))
        counts.append(sum(map(len, own)))
        found += own
    return offsets_of(counts), np.concatenate([np.empty((0, sid_ndim), np.int64), *chunks]), np.concatenate([np.empty(0, np.int64), *found])


# --- groups of rows with a header


def encode_ragged(groups: Sequence[npt.NDArray[Any]], dtype: np.dtype[Any]) -> bytes:
    """Groups of rows with a header that has the place of each."""
    data = [np.ascontiguousarray(group, dtype=dtype).tobytes() for group in groups]
    return b"".join([np.array([len(data), *offsets_of([len(one) for one in data])[:-1]], dtype="<i8").tobytes(), *data])


def decode_ragged(blob: bytes, dtype: np.dtype[Any], width: int) -> list[npt.NDArray[Any]]:
    """The groups of rows of a cell that has such a header."""
    if not blob:
        return []
    number = int.from_bytes(blob[:8], "little", signed=True)
    head = 8 + 8 * number
    if len(blob) < 8 or number < 0 or len(blob) < head:
        raise ArrayError(f"a cell of groups: {number} groups in {len(blob)} bytes")
    bounds = [*np.frombuffer(blob, "<i8", number, 8).tolist(), len(blob) - head]
    row = width * dtype.itemsize
    if any(not 0 <= a <= b <= len(blob) - head or (b - a) % row for a, b in zip(bounds, bounds[1:])):
        raise ArrayError(f"a cell of groups: Invalid offset range, or one not divisible by rows of {row} bytes")
    return [np.frombuffer(blob, dtype, (b - a) // dtype.itemsize, head + a).reshape(-1, width) for a, b in zip(bounds, bounds[1:])]
