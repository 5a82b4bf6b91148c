"""Names of types, as the reference has them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Vertices = npt.NDArray[np.floating]
Faces = npt.NDArray[np.integer]
Edges = npt.NDArray[np.integer]
ParentArray = npt.NDArray[np.integer]
ChunkCoords = tuple[int, ...]
ChunkShape = tuple[float, ...]
BinCoords = tuple[int, ...]
BinShape = tuple[float, ...]
BinRatio = tuple[int, ...]
BoundingBox = tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]
FragmentIndex = int
FragmentRef = tuple[ChunkCoords, FragmentIndex]
ObjectManifest = list[FragmentRef]
ObjectID = int
GroupID = int
CrossChunkLink = tuple[tuple[ChunkCoords, int], tuple[ChunkCoords, int]]
LinksConvention = Literal["explicit", "implicit_sequential", "implicit_sequential_with_branches"]
ObjectIndexConvention = Literal["standard", "identity"]
CrossChunkStrategy = Literal["boundary_deduplication", "explicit_links", "both"]
GeometryType = Literal["point_cloud", "line", "polyline", "streamline", "graph", "skeleton", "mesh"]
AggregationMethod = Literal["mean", "sum", "mode", "count", "min", "max"]
AttributeAggregation = dict[str, Any]
