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
_MOST_ROWS = 1 << 28  # that ranges stand for
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
    wanted = found.dtype if dtype is None else np.dtype(dtype)
    if found.dtype == wanted:
        return found
    if found.dtype.kind not in "iufb":
        raise ArrayError(f"{what}: expected numbers, found {found.dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        cast = found.astype(wanted)
    if wanted.kind in "iub" and not np.array_equal(cast, found):
        raise ArrayError(f"{what}: expected values that {wanted} holds, found {found.dtype} with others")
    return cast


def host_device(device: Any, *places: str) -> None:
    """Fails on a device that is not the CPU, and where decoding on a device is asked for."""
    asked = [word for word in (device, *places) if word not in (None, "cpu", "auto", "host")]
    if asked:
        raise ArrayError(f"device: expected cpu, found {asked[0]!r}: cells are decoded by the CPU. Read them, then copy the arrays to the device")


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
    if total > _MOST_ROWS:
        raise ArrayError(f"ranges stand for {total} rows; at most {_MOST_ROWS} are read at once")
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(total, dtype=np.int64)


class ChunkFragmentIndex:
    """The fragments of a chunk: the rows of all, one fragment after the other, and where each begins."""

    def __init__(self, rows: Ints, offsets: Ints) -> None:
        self.rows, self.offsets = rows, offsets
        self.num_fragments = len(offsets) - 1
        breaks = offsets_of(np.diff(rows, prepend=rows[:1] - 1) != 1)  # steps other than one, before each place
        self._is_range = breaks[offsets[1:]] == breaks[np.minimum(offsets[:-1] + 1, offsets[1:])]

    def __len__(self) -> int:
        return self.num_fragments

    def is_range(self, f: int) -> bool:
        """Whether the rows of a fragment follow each other."""
        return bool(self._is_range[f])

    def range(self, f: int) -> tuple[int, int]:
        """The first row of a fragment whose rows follow each other, and their number."""
        rows = self.indices(f)
        if not self.is_range(f):
            raise ArrayError(f"fragment {f} lists its rows, and is no range")
        return int(rows[0]) if len(rows) else 0, len(rows)

    def indices(self, f: int) -> Ints:
        """The rows of a fragment."""
        return self.gather([f])[0]

    def flat(self) -> tuple[Ints, Ints]:
        """The rows of all fragments, and the offsets of each."""
        return self.rows, self.offsets

    def gather(self, frags: Any) -> tuple[Ints, Ints]:
        """The rows of several fragments, one after the other, and how many each has."""
        own = host_array(frags, "frags", np.int64).reshape(-1)
        if own.size and not 0 <= own.min() <= own.max() < self.num_fragments:
            raise IndexError(f"fragments {own.min()} to {own.max()} of {self.num_fragments}")
        counts = np.diff(self.offsets)[own]
        return self.rows[spread(self.offsets[own], counts)], counts

    def encode(self) -> bytes:
        """As a cell of ``vertex_fragments`` or ``link_fragments`` has it; one without rows is a range where the one before it ends."""
        counts, is_range = np.diff(self.offsets), self._is_range
        head = struct.pack("<IHHII", _MAGIC, 1, 0, self.num_fragments, int(is_range.sum()))
        if not self.num_fragments:
            return head
        ends = np.concatenate([[0], self.rows + 1])[self.offsets[:-1]]
        starts = np.where(counts > 0, np.concatenate([self.rows, [0]])[self.offsets[:-1]], ends)
        table = np.stack([starts, counts], axis=1)[is_range].astype("<i8").tobytes()
        bitmap = np.packbits(is_range, bitorder="little").tobytes()
        csr = offsets_of(counts[~is_range]).astype("<u4").tobytes()
        listed = self.rows[np.repeat(~is_range, counts)].astype("<i8").tobytes()
        return b"".join([head, bitmap, bytes(-len(bitmap) % 8), table, csr, listed])


def ranges_of(counts: Any) -> ChunkFragmentIndex:
    """Fragments that follow each other and have these lengths."""
    offsets = offsets_of(counts)
    if not 0 <= offsets[-1] <= _MOST_ROWS:
        raise ArrayError(f"expected at most {_MOST_ROWS} rows of a chunk, found {offsets[-1]}")
    return ChunkFragmentIndex(np.arange(offsets[-1]), offsets)


def fragments_of(indices: Any, offsets: Any) -> ChunkFragmentIndex:
    """Fragments from their rows and the offsets of each."""
    rows = host_array(indices, "indices")
    if rows.size and rows.dtype.kind not in "iu":
        raise ArrayError(f"indices must be integers, found {rows.dtype}")
    rows = rows.astype(np.int64).reshape(-1)
    if rows.size and rows.min() < 0:
        raise ArrayError(f"indices must be non-negative, found {rows.min()}")
    return ChunkFragmentIndex(rows, checked_offsets(offsets, rows.size, "offsets"))


def fragments_from(new_fragments: Iterable[Any]) -> ChunkFragmentIndex:
    """Fragments from pairs of a start and a count, and lists of rows."""
    parts = [np.arange(one[0], one[0] + one[1]) if isinstance(one, tuple) else host_array(one, "a fragment").reshape(-1) for one in new_fragments]
    return fragments_of(np.concatenate(kept) if (kept := [part for part in parts if len(part)]) else [], offsets_of([len(part) for part in parts]))


def decode_fragment_index(blob: bytes) -> ChunkFragmentIndex:
    """Decode a cell of ``vertex_fragments`` or ``link_fragments``."""
    if len(blob) < 16:
        raise ArrayError(f"Fragment-index blob too short: {len(blob)} < 16")
    magic, version, flags, number, ranges = struct.unpack_from("<IHHII", blob)
    csr_at = 16 + -(-number // 64) * 8 + 16 * ranges
    end = csr_at + 4 * (number - ranges + 1)
    if (magic, version, flags) != (_MAGIC, 1, 0) or ranges > number or (number and end > len(blob)):
        raise ArrayError(f"Bad fragment-index magic, version, flags or size: {magic:#x}, {version}, {flags}, {ranges} of {number} in {len(blob)} bytes")
    if not number:
        return ranges_of([])
    is_range = np.unpackbits(np.frombuffer(blob, np.uint8, (csr_at - 16 * ranges) - 16, 16), bitorder="little", count=number).astype(bool)
    table = np.frombuffer(blob, "<i8", 2 * ranges, csr_at - 16 * ranges).reshape(-1, 2)
    csr = np.frombuffer(blob, "<u4", number - ranges + 1, csr_at).astype(np.int64)
    if int(is_range.sum()) != ranges or csr[0] != 0 or (np.diff(csr) < 0).any() or end + 8 * int(csr[-1]) > len(blob):
        raise ArrayError(f"Fragment index: its {ranges} ranges or its lists are not those that are marked, or it is truncated")
    listed = np.frombuffer(blob, "<i8", int(csr[-1]), end).astype(np.int64)
    if (table < 0).any() or (listed < 0).any() or (table > 1 << 34).any():
        raise ArrayError("Fragment index: a row is negative, or beyond any chunk")
    counts = np.empty(number, dtype=np.int64)
    counts[is_range], counts[~is_range] = table[:, 1], np.diff(csr)
    place = np.repeat(is_range, counts) if int(counts.sum()) <= _MOST_ROWS else np.empty(0, bool)
    own = spread(table[:, 0], table[:, 1])
    rows = np.empty(len(place), dtype=np.int64)
    rows[place], rows[~place] = own, listed
    return ChunkFragmentIndex(rows, offsets_of(counts))


def manifest_csr(chunk_coords: Any, fragment_idx: Any, manifest_offsets: Any, sid_ndim: int, blobs: Any = None) -> tuple[Ints, Ints, Ints]:
    """Offsets, chunks and fragments of manifests that are given as arrays, checked."""
    if chunk_coords is None or fragment_idx is None or blobs is not None:
        raise ArrayError("manifests are given as arrays, not encoded: chunk_coords= and fragment_idx=, with manifest_offsets= unless each has one fragment")
    frags = host_array(fragment_idx, "fragment_idx", np.int64).reshape(-1)
    coords = host_array(chunk_coords, "chunk_coords", np.int64)
    coords = coords if coords.size else coords.reshape(0, sid_ndim)
    if coords.shape != (frags.size, sid_ndim):
        raise ArrayError(f"chunk_coords: expected {frags.size} chunks of the rank {sid_ndim}, one for each fragment, found the shape {coords.shape}")
    if frags.size and frags.min() < 0:
        raise ArrayError(f"fragment_idx must be >= 0, found {frags.min()}")
    offsets = np.arange(frags.size + 1, dtype=np.int64) if manifest_offsets is None else checked_offsets(manifest_offsets, frags.size, "manifest_offsets")
    return offsets, coords, frags


def encode_object_manifests_csr(chunk_coords: Any, fragment_idx: Any, manifest_offsets: Any = None, *, sid_ndim: int = 3) -> list[bytes]:
    """Manifests given as arrays, as blobs: one block for each fragment."""
    offsets, coords, frags = manifest_csr(chunk_coords, fragment_idx, manifest_offsets, sid_ndim)
    modes = np.zeros((len(frags), 1), dtype=np.uint8)  # one fragment in each block
    parts = [np.ascontiguousarray(part, dtype="<i8").view(np.uint8).reshape(len(frags), -1) for part in (coords, frags)]
    body, width, bounds = np.hstack([parts[0], modes, parts[1]]).tobytes(), 8 * sid_ndim + 9, offsets.tolist()
    return [(b - a).to_bytes(4, "little") + body[a * width : b * width] for a, b in zip(bounds, bounds[1:])]


def decode_object_manifests_csr(blobs: Sequence[bytes], sid_ndim: int) -> tuple[Ints, Ints, Ints]:
    """Manifests as arrays: offsets of the fragments of each, their chunks, and their numbers. A row without bytes has none."""
    width, numbers = 8 * sid_ndim + 9, [int.from_bytes(blob[:4], "little") for blob in blobs]
    if all(len(blob) == 4 + number * width or not blob for blob, number in zip(blobs, numbers)):
        blocks = np.frombuffer(b"".join(blob[4:] for blob in blobs), np.uint8).reshape(-1, width)
        if not blocks[:, width - 9].any():  # each block has one fragment
            parts = [np.ascontiguousarray(part).view("<i8").astype(np.int64) for part in (blocks[:, : width - 9], blocks[:, width - 8 :])]
            return offsets_of(numbers), parts[0].reshape(-1, sid_ndim), parts[1].reshape(-1)
    counts, chunks, frags = [], [np.empty((0, sid_ndim), np.int64)], [np.empty(0, np.int64)]
    for blob, number in zip(blobs, numbers):
        at, count = min(4, len(blob)), 0
        try:
            for _ in range(number):
                chunk, mode, at = struct.unpack_from(f"<{sid_ndim}q", blob, at), blob[at + width - 9], at + width - 8
                first, length = struct.unpack_from("<q", blob, at)[0] if mode < 2 else 0, 1
                if mode == 1:
                    length = struct.unpack_from("<q", blob, at + 8)[0]
                elif mode:
                    length = struct.unpack_from("<I", blob, at)[0]
                if mode > 2 or length < 0:
                    raise ArrayError(f"Manifest: a block of the mode {mode} and the length {length}")
                frags.append(np.frombuffer(blob, "<i8", length, at + 4).astype(np.int64) if mode == 2 else spread(np.array([first]), np.array([length])))
                chunks.append(np.tile(np.asarray(chunk, dtype=np.int64), (length, 1)))
                at, count = at + (8, 16, 4 + 8 * length)[mode], count + length
        except (struct.error, IndexError, ValueError) as error:
            raise error if isinstance(error, ArrayError) else ArrayError(f"Manifest blob truncated at {len(blob)} bytes") from error
        if at != len(blob) or 0 < at < 4:
            raise ArrayError(f"Manifest blob has {len(blob) - at} trailing bytes after {number} blocks")
        counts.append(count)
    return offsets_of(counts), np.concatenate(chunks), np.concatenate(frags)


def encode_ragged(groups: Sequence[npt.NDArray[Any]]) -> bytes:
    """Groups of rows with a header that has the place of each."""
    data = [group.tobytes() for group in groups]
    return b"".join([np.array([len(data), *offsets_of([len(one) for one in data])[:-1]], dtype="<i8").tobytes(), *data])


def decode_ragged(blob: bytes, dtype: np.dtype[Any], width: int) -> list[npt.NDArray[Any]]:
    """The groups of rows of a cell that has such a header."""
    number = int.from_bytes(blob[:8], "little", signed=True)
    head, row = 8 + 8 * number, width * dtype.itemsize
    if len(blob) < 8 or number < 0 or len(blob) < head:
        raise ArrayError(f"a cell of groups: {number} groups in {len(blob)} bytes")
    bounds = [*np.frombuffer(blob, "<i8", number, 8).tolist(), len(blob) - head]
    if any(not 0 <= a <= b <= len(blob) - head or (b - a) % row for a, b in zip(bounds, bounds[1:])):
        raise ArrayError(f"a cell of groups: an offset is out of range, or not divisible by rows of {row} bytes")
    return [np.frombuffer(blob, dtype, (b - a) // dtype.itemsize, head + a).reshape(-1, width) for a, b in zip(bounds, bounds[1:])]
