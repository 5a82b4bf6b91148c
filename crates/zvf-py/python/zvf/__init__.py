"""Zarr Vectors stores: points, lines, streamlines, graphs, skeletons and meshes in spatial chunks.

>>> import numpy as np, tempfile, zvf
>>> at = tempfile.mkdtemp() + "/points.zarrvectors"
>>> ds = zvf.points(at, np.random.default_rng(1).random((1000, 3)), attributes={"mass": np.arange(1000.0)})
>>> a = ds.select(box=([0, 0, 0], [1, 1, 0.5]), where="mass < 100").read()
>>> bool((a["mass"] < 100).all() and (a.positions[:, 2] <= 0.5).all())
True

Results are NumPy arrays that view what Rust holds, and answers speak Arrow (``pa.table(answer)``,
``polars.DataFrame(answer)``). ``zvf.compat`` is a drop-in for the package ``zarr_vectors``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from . import errors
from ._sql import sql
from ._zvf import FEATURES, __version__
from .answers import Answer
from .datasets import Dataset, aopen, open
from .edits import Edit
from .errors import Error, LossWarning
from .history import attach, checkout, diff, divide, gc, join, vacuum
from .queries import Level, Query, max_bytes, max_error, max_vertices
from .sampling import Sampler
from .tensors import Tensor, open_tensor, save_tensor
from .tools import (
    Finding,
    Report,
    convert,
    ingest,
    migrate,
    pack,
    plan_work,
    recompress,
    repair,
    shard,
    tasks,
    unpack,
    unshard,
    validate,
)
from .viewing import Server, View, serve
from .writer import Writer
from .writing import create, graph, lines, mesh, points, polylines, write

__all__ = [
    "Answer",
    "Dataset",
    "Edit",
    "Error",
    "FEATURES",
    "Finding",
    "Level",
    "LossWarning",
    "Query",
    "Report",
    "Sampler",
    "Server",
    "Tensor",
    "View",
    "Writer",
    "__version__",
    "aopen",
    "attach",
    "checkout",
    "convert",
    "create",
    "diff",
    "divide",
    "errors",
    "gc",
    "graph",
    "ingest",
    "join",
    "lines",
    "max_bytes",
    "max_error",
    "max_vertices",
    "mesh",
    "migrate",
    "open",
    "open_tensor",
    "pack",
    "plan_work",
    "points",
    "polylines",
    "recompress",
    "repair",
    "save_tensor",
    "serve",
    "shard",
    "sql",
    "tasks",
    "unpack",
    "unshard",
    "vacuum",
    "validate",
    "write",
]

_LATER = ("compat", "dask", "ray")  # imported where they are asked for, as few programs need them


def __getattr__(name: str) -> ModuleType:
    if name in _LATER:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_LATER]
