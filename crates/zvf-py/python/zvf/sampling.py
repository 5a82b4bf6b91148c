"""Random orders for training: a query read piece by piece, mixed in a buffer of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ._words import byte_count, count_of, whole_of
from .answers import Answer
from .errors import wrong_value

if TYPE_CHECKING:
    from .queries import Query

_CHAINS = ("line", "polyline", "streamline")
_OBJECTS = 64  # that are read at once


class Sampler:
    """What a query finds in a random order that a seed determines; each pass has another order.

    Points come as dictionaries with ``positions`` and the columns of `rows` points; lines as one dictionary for each object, with
    ``object``, ``positions``, ``offsets`` of its parts, and its columns. Chunks, or groups of objects, are read in a random order
    into a buffer, out of which items are drawn: the larger it is, the better are distant places mixed. It is an iterable of
    arrays, as loaders of training data take it, and needs no library of theirs.

    Args:
        query: points in a box or without a region, or lines, polylines and streamlines.
        seed: a whole number from 0 on; the same seed and pass give the same order.
        rows: how many points an item has; the last one may have fewer.
        memory: the bytes that the buffer holds, such as ``"64MiB"``; one chunk or group of objects is held at least.
        share: the number of this reader and how many there are, which divide chunks or objects among them.

    Raises:
        ArgumentError: the query cannot be divided by chunks or objects.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.random.default_rng(0).random((100, 3)), attributes={"n": np.arange(100)})
    >>> order = np.concatenate([item["n"] for item in zvf.Sampler(ds.select(), 7, rows=32)]).tolist()
    >>> sorted(order) == list(range(100)) and order != sorted(order)
    True
    """

    def __init__(self, query: Query, seed: int, *, rows: int = 1024, memory: int | str = "64MiB", share: tuple[int, int] = (0, 1)) -> None:
        self.query = query
        self.seed, self.rows, self.memory = count_of("seed", seed), count_of("rows", rows), byte_count("memory", memory) or 0
        self.share = (whole_of("share", share[0]), whole_of("share", share[1]))
        if self.rows < 1:
            raise wrong_value("rows", "at least 1", str(rows))
        if not 0 <= self.share[0] < self.share[1]:
            raise wrong_value("share", "the number of a reader and how many there are, such as (0, 4)", str(share))
        self.passes = 0  # how many have begun: each has its own order
        kinds = query.dataset.kinds
        self._of_objects = query.words.get("kind", kinds[0] if kinds else None) in _CHAINS
        self._parts = query.by_objects(_OBJECTS) if self._of_objects else query.by_chunk()

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        random = np.random.default_rng([self.seed, self.passes])
        self.passes += 1
        parts = self._parts
        if self._of_objects:  # neighbours in the index are often neighbours in space
            ids = random.permutation([number for part in parts for number in part.words["objects"]]).tolist()
            parts = [self.query.select(objects=ids[at : at + _OBJECTS]) for at in range(0, len(ids), _OBJECTS)]
        waiting = iter(random.permutation(len(parts))[self.share[0] :: self.share[1]].tolist())
        held: list[tuple[Answer, np.ndarray]] = []  # answers, and the items of each that are left
        is_all_read = False
        while held or not is_all_read:
            if not is_all_read and (not held or sum(answer.nbytes for answer, _ in held) < self.memory):
                at = next(waiting, None)
                is_all_read = at is None
                if at is not None:
                    answer = parts[at].read()
                    items = np.unique(answer.part_ids) if self._of_objects else np.arange(len(answer))
                    held += [(answer, random.permutation(items))] if len(items) else []
                continue
            left = np.array([len(items) for _, items in held])
            counts = random.multivariate_hypergeometric(left, min(1 if self._of_objects else self.rows, int(left.sum())))
            drawn = [(answer, items[:count]) for (answer, items), count in zip(held, counts) if count]
            held = [(answer, items[count:]) for (answer, items), count in zip(held, counts) if len(items) > count]
            yield _object(*drawn[0]) if self._of_objects else _rows(drawn, random)

    def __repr__(self) -> str:
        return f"<zvf.Sampler of {self.query.dataset.address!r}: {len(self._parts)} pieces, seed {self.seed}, pass {self.passes}>"


def _rows(drawn: list[tuple[Answer, np.ndarray]], random: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows of several answers as one, in a random order."""
    order = random.permutation(sum(len(rows) for _, rows in drawn))
    found = {"positions": np.concatenate([answer.positions[rows] for answer, rows in drawn])[order]}
    for name in drawn[0][0]:
        pieces = [answer[name][rows] for answer, rows in drawn]
        join = np.ma.concatenate if any(isinstance(piece, np.ma.MaskedArray) for piece in pieces) else np.concatenate
        found[name] = join(pieces)[order]
    return found


def _object(answer: Answer, item: np.ndarray) -> dict[str, np.ndarray]:
    """Every part of one object."""
    own = np.flatnonzero(answer.part_ids == item[0])
    runs = [np.arange(int(answer.offsets[part]), int(answer.offsets[part + 1])) for part in own]
    rows = np.concatenate(runs)
    found = {"object": item[0], "positions": answer.positions[rows], "offsets": np.cumsum([0, *map(len, runs)])}
    return {**found, **{name: answer[name][rows] for name in answer}}
