"""What to cut by, and which bin each object is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass
class RechunkSpec:
    """Cut by ``group``, ``object_id``, or an attribute of objects, ``attribute:length``, with the limits of its bins.

    Attributes:
        by: ``group``, ``object_id``, ``attribute:NAME``, or ``spatial`` for other chunks alone.
        bins: where bins begin; a number for so many of one width.
        spatial_chunk_shape: other chunks than those of the store.
        prefix_dim_name: what the axis of bins is called.
        categorical: a bin for every value, however many there are.
    """

    by: str = "group"
    bins: Sequence[float] | int | None = None
    spatial_chunk_shape: tuple[float, ...] | None = None
    prefix_dim_name: str | None = None
    categorical: bool = False

    def __post_init__(self) -> None:
        if self.by not in ("group", "object_id", "spatial") and not self.by.startswith("attribute:"):
            raise ValueError(f"by: expected group, object_id, spatial or attribute:NAME, found {self.by!r}")

    @property
    def dimension_name(self) -> str:
        """What the axis of bins is called."""
        return self.prefix_dim_name or self.by.split(":")[0]


class DimensionMapper:
    """Puts objects into bins."""

    def __init__(self, spec: RechunkSpec) -> None:
        self.spec = spec

    @property
    def n_bins(self) -> int | None:
        """How many bins there are, where the specification says so."""
        bins = self.spec.bins
        return bins if isinstance(bins, int) else len(bins) if bins is not None else None

    def map_objects(
        self,
        *,
        n_objects: int,
        groupings: Sequence[Sequence[int]] | None = None,
        object_attributes: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> dict[int, int]:
        """The bin of each object; those in no group are in -1."""
        if not 0 <= n_objects < 2**31:
            raise ValueError(f"n_objects: expected a number from 0 to 2**31 - 1, found {n_objects}")
        by = self.spec.by
        if by == "spatial" or (by == "group" and groupings is None):
            return dict.fromkeys(range(n_objects), 0)
        if by == "group":
            found = dict.fromkeys(range(n_objects), -1)
            for number, members in enumerate(groupings or []):
                found.update({int(i): number for i in members})
            return found
        if by == "object_id":
            ids = np.arange(n_objects)
            return dict(enumerate((ids if self.spec.bins is None else self._numbers(ids)).tolist()))
        name = by.partition(":")[2]
        if object_attributes is None or name not in object_attributes:
            raise ValueError(f"Attribute {name!r} not found in object attributes")
        return dict(enumerate(self.numbers(np.asarray(object_attributes[name])).tolist()))

    def numbers(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The bin of each value: of its own, a quarter of all where there are many, or between the limits given."""
        if self.spec.bins is not None:
            return self._numbers(values)
        distinct, numbers = np.unique(values, return_inverse=True)
        if self.spec.categorical or len(distinct) <= 10:
            return numbers.reshape(-1)
        edges = np.unique(np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0]))
        return np.clip(np.searchsorted(edges[1:], values, side="right"), 0, max(len(edges) - 2, 0))

    def _numbers(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        bins = self.spec.bins
        if isinstance(bins, int):
            edges = np.linspace(values.min(), values.max(), bins + 1)[:-1]
        else:
            edges = np.array(sorted(bins or []), dtype=np.float64)
        return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 1, 0))
