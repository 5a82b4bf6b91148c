"""Which chunk a value of an attribute leads to."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exceptions import ArrayError


def assign_attribute_bins(values: Any) -> tuple[np.ndarray, list[Any]]:
    """The number of each value among the distinct ones, and these."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ArrayError(f"values of the attribute must be 1D, found the shape {array.shape}")
    if array.dtype.kind == "f":
        raise ArrayError(f"chunk_by_attribute is categorical-only: expected whole numbers or text, found {array.dtype}")
    distinct, numbers = np.unique(array, return_inverse=True)
    return numbers.reshape(array.shape).astype(np.int64), [v.item() if isinstance(v, np.generic) else v for v in distinct]
