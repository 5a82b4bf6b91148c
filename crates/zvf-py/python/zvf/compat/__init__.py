"""A drop-in for the package ``zarr_vectors`` 0.9.2: the same names, the same results, and other speed.

``import zvf.compat as zarr_vectors``, or :func:`install` once and ``import zarr_vectors`` as before. Where the
reference is known wrong, the default is right; :data:`config` switches back.
"""

from __future__ import annotations

from . import building, exceptions
from ._api_version import FEATURES, __api_version__, require_api
from ._config import config
from ._install import install
from ._stability import stability
from .api import (
    Attributes,
    AttributeSpec,
    Axis,
    CellRef,
    CellSet,
    Dataset,
    EditPlan,
    FormatError,
    Grid,
    GridCapacity,
    Layout,
    Level,
    ObjectCatalog,
    Query,
    ReadError,
    ReadResult,
    Schema,
    SchemaConflict,
    Selection,
    SizeHints,
    StorageOptions,
    aopen,
    coarsen_methods,
    create,
    create_dataset,
    open,
    open_dataset,
    open_or_create,
    require_format,
)
from .core.backends import detect_scheme
from .core.group import Group
from .core.object_layer import concurrency_contract
from .core.store import FsGroup, create_store, open_store, rebind
from .rechunk import RechunkSpec, rechunk, rechunk_by_attribute

__version__ = "0.9.2"


def runtime_capabilities(probe_device: bool = False) -> dict[str, bool]:
    """What this package can do; nothing of it is on a device, whether there is one or not."""
    here = ("read_cells", "read_neighbourhood", "csr_fragments", "array_manifests", "manifests_csr_read", "dense_manifests")
    here += ("object_attribute_columns", "array_link_cells", "defer_presence", "append_safe_sharding", "concurrency_contract")
    absent = ("device_arrays", "device_decode", "gpu_codecs", "gpu_io", "gpu_encode", "batched_link_reads", "gds")
    return {**dict.fromkeys(here, True), **dict.fromkeys(absent, False)}


__all__ = [
    "open",
    "open_dataset",
    "create",
    "create_dataset",
    "open_or_create",
    "aopen",
    "require_format",
    "Dataset",
    "EditPlan",
    "Level",
    "Grid",
    "GridCapacity",
    "CellRef",
    "CellSet",
    "ObjectCatalog",
    "Query",
    "Selection",
    "ReadResult",
    "ReadError",
    "Attributes",
    "Schema",
    "Layout",
    "StorageOptions",
    "AttributeSpec",
    "SizeHints",
    "Axis",
    "SchemaConflict",
    "FormatError",
    "coarsen_methods",
    "concurrency_contract",
    "runtime_capabilities",
    "__version__",
    "__api_version__",
    "FEATURES",
    "require_api",
    "building",
    "stability",
]
