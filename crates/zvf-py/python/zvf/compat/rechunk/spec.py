"""What to cut by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RechunkSpec:
    """Cut by ``group``, or by an attribute of objects: ``attribute:length``, with the limits of its bins."""

    by: str = "group"
    bins: Sequence[float] | int | None = None

    def __post_init__(self) -> None:
        if self.by != "group" and not self.by.startswith("attribute:"):
            raise ValueError(f"by: expected group or attribute:NAME, found {self.by!r}")
