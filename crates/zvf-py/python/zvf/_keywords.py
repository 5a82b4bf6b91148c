"""Keyword arguments that several calls share: their names and types, for mypy and for who completes names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar


class QueryWords(TypedDict, total=False):
    """What a query can say: see :meth:`zvf.Dataset.select`."""

    box: Any
    half_open_box: Any
    ball: Any
    half_spaces: Any
    prism: Any
    mode: str | None
    objects: Any
    groups: Any
    where: str | None
    attributes: Any
    order: str | None
    limit: int | None
    level: Any
    kind: str | None
    unknown_objects: str | None
    allow_missing: bool | None
    object_ids: bool | None
    increment_only: bool | None
    uncached: bool | None
    places: bool | None


class StoreWords(TypedDict, total=False):
    """What can be said of a new store: see :func:`zvf.create`."""

    chunk: Any
    bins: Any
    bounds: Any
    axes: Sequence[Any] | None
    unit: str | None
    shard: Sequence[int] | None
    codec: Any
    outside: str
    overwrite: bool
    memory: int | str | None
    scratch: Any
    compat: bool
    explicit: bool
    directed: bool
    name: str | None
    crs: Any
    metadata: Mapping[str, Any] | None
    declared: Mapping[str, Mapping[str, Any]] | None
    binned_by: tuple[str, Sequence[Any]] | None
    storage_options: Any
    strict: bool


class FileWords(TypedDict, total=False):
    """Options of ``zvf create``, for :func:`zvf.ingest` and :func:`zvf.tasks`."""

    anchor: Any
    apply_affine: bool
    attributes: Any
    bin_shape: Any
    blosc_block_size: Any
    blosc_compressor: Any
    blosc_shuffle: Any
    blosc_typesize: Any
    checksum: bool
    chunk_shape: Any
    codec: Any
    comment: Any
    compat: bool
    compute_endpoints: bool
    compute_length: bool
    counts: Any
    draco: Any
    drop_interior_below: Any
    dry_run: bool
    dtype: Any
    format: Any
    frags_dir: Any
    keep_ids: bool
    kind: Any
    lod: Any
    manifests: Any
    missing: Any
    no_header: bool
    no_weld: bool
    nodes: Any
    object: Any
    object_attr: Any
    overwrite: bool
    per_chunk: Any
    plain: bool
    positions: Any
    rings: bool
    scratch_dir: Any
    segment_id: Any
    separator: Any
    shard: Any
    skip_bad_rows: bool
    space: str
    triangles: bool
    type: Any


class ConvertWords(TypedDict, total=False):
    """Options of ``zvf convert``, for :func:`zvf.convert`; ``box`` is ``bbox`` in the form of a query."""

    box: Any
    allow_missing: bool
    anchor: Any
    apply_affine: bool
    attributes: Any
    ball: Any
    bbox: Any
    bin_shape: Any
    blosc_block_size: Any
    blosc_compressor: Any
    blosc_shuffle: Any
    blosc_typesize: Any
    checksum: bool
    chunk_shape: Any
    codec: Any
    comment: Any
    compat: bool
    compute_endpoints: bool
    compute_length: bool
    counts: Any
    draco: Any
    drop_interior_below: Any
    dry_run: bool
    dtype: Any
    format: Any
    format_option: Any
    frags_dir: Any
    groups: Any
    half_open: bool
    half_space: Any
    increment_only: bool
    keep_ids: bool
    kind: Any
    level: Any
    limit: Any
    lod: Any
    manifests: Any
    missing: Any
    mode: str
    no_header: bool
    no_weld: bool
    nodes: Any
    object: Any
    object_attr: Any
    objects: Any
    order: str
    per_chunk: Any
    plain: bool
    positions: Any
    prism: Any
    prism_axes: Any
    reference: Any
    rings: bool
    scratch_dir: Any
    segment_id: Any
    separator: Any
    shard: Any
    skip_bad_rows: bool
    space: str
    strict: bool
    to: Any
    triangles: bool
    type: Any
    unknown_objects: str
    where: Any


class PyramidWords(TypedDict, total=False):
    """Options of ``zvf pyramid``, for :meth:`zvf.Dataset.build_pyramid`."""

    additive: bool
    aggregate: Any
    cell_size: Any
    tolerance: Any
    chunk_scale: Any
    cross_level_depth: Any
    cross_level_storage: Any
    dry_run: bool
    full: bool
    growth: Any
    max_bytes: Any
    max_vertices: Any
    method: Any
    overwrite: bool
    prune: Any
    ratio: Any
    reference: Any
    refresh: bool
    renumber: bool
    seed: Any
    sparsity: Any
    sparsity_strategy: Any


class ValidateWords(TypedDict, total=False):
    """Options of ``zvf validate``, for :func:`zvf.validate`."""

    journal: bool
    rules: str
    sample: Any
    sarif: Any
    strict: bool


class RewriteWords(TypedDict, total=False):
    """Options of ``zvf rewrite``, for :func:`zvf.shard`, :func:`zvf.recompress` and :func:`zvf.migrate`."""

    bin_shape: Any
    blosc_block_size: Any
    blosc_compressor: str
    blosc_shuffle: Any
    blosc_typesize: Any
    checksum: bool
    chunk_shape: Any
    codec: Any
    format_version: str
    manifests: str
    overwrite: bool
    shard: Any


class PackWords(TypedDict, total=False):
    """Options of ``zvf pack``, for :func:`zvf.pack`."""

    codec: Any
    overwrite: bool


class UnpackWords(TypedDict, total=False):
    """Options of ``zvf unpack``, for :func:`zvf.unpack`."""

    overwrite: bool


_Call = TypeVar("_Call", bound=Callable[..., Any])


def keywords(words: Any) -> Callable[[_Call], _Call]:
    """Gives a call that ends in ``**words`` the signature with all of them, which shells complete."""

    def made(call: _Call) -> _Call:
        own = inspect.signature(call)
        known = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        names = {p.name for p in known}
        more = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=t) for n, t in words.__annotations__.items() if n not in names]
        call.__signature__ = own.replace(parameters=[*known, *more])  # type: ignore[attr-defined]
        return call

    return made
