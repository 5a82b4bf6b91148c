"""The facade: datasets, levels, queries, results."""

from __future__ import annotations

from .dataset import Dataset, FormatError, aopen, create, open, open_or_create, require_format
from .edit import EditPlan
from .grid import CellRef, CellSet, Grid, GridCapacity
from .level import Level
from .objects import ObjectCatalog
from .result import Attributes, ReadError, ReadResult
from .schema import AttributeSpec, Axis, Layout, Schema, SchemaConflict, SizeHints, StorageOptions
from .select import Query, Selection

open_dataset = open
create_dataset = create


def coarsen_methods() -> tuple[str, ...]:
    """The methods that ``build_pyramid`` takes."""
    from ..multiresolution.registry import registered_coarsen_strategies

    return tuple(sorted({"per_object", *registered_coarsen_strategies()}))


__all__ = [
    "AttributeSpec",
    "Attributes",
    "Axis",
    "CellRef",
    "CellSet",
    "Dataset",
    "EditPlan",
    "FormatError",
    "Grid",
    "GridCapacity",
    "Layout",
    "Level",
    "ObjectCatalog",
    "Query",
    "ReadError",
    "ReadResult",
    "Schema",
    "SchemaConflict",
    "Selection",
    "SizeHints",
    "StorageOptions",
    "aopen",
    "coarsen_methods",
    "create",
    "create_dataset",
    "open",
    "open_dataset",
    "open_or_create",
    "require_format",
]
