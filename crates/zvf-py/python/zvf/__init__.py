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
from typing import TYPE_CHECKING, Any

from . import errors
from ._zvf import FEATURES, __version__
from .answers import Answer
from .datasets import Dataset, aopen, open
from .errors import Error, LossWarning
from .queries import Level, Query, max_bytes, max_error, max_vertices

if TYPE_CHECKING:
    from ._sql import sql
    from .edits import Edit
    from .history import attach, checkout, diff, divide, gc, join, vacuum
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

# Imported where they are asked for: few programs need all of them, and each takes time.
_LATER = {
    "_sql": "sql",
    "compat": "",
    "dask": "",
    "edits": "Edit",
    "history": "attach checkout diff divide gc join vacuum",
    "ray": "",
    "sampling": "Sampler",
    "tensors": "Tensor open_tensor save_tensor",
    "tools": "Finding Report convert ingest migrate pack plan_work recompress repair shard tasks unpack unshard validate",
    "viewing": "Server View serve",
    "writer": "Writer",
    "writing": "create graph lines mesh points polylines write",
}
_MODULES = {name: module for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return [*__all__, *(name for name in _LATER if name[0] != "_")]
