"""Which modules are supported, as the reference says of its own."""

from __future__ import annotations

from typing import Literal

Tier = Literal["supported", "internal", "undecided"]

SUPPORTED = tuple(f"zarr_vectors.{m}" for m in ("api", "building", "constants", "exceptions", "typing", "headers"))
INTERNAL = tuple(
    f"zarr_vectors.{m}"
    for m in (
        "_api_version",
        "_stability",
        "_config",
        "_install",
        "_version",
        "core",
        "encoding",
        "spatial",
        "lazy",
        "ops",
        "sharding",
        "multiresolution",
        "_engine",
        "rechunk",
    )
)
UNDECIDED = {
    "zarr_vectors.types": "The readers are superseded by Level.read().",
    "zarr_vectors.validate": "Its results have no promise yet.",
    "zarr_vectors.composite": "Where a store keeps several geometries is not settled.",
}


def stability(module: str) -> Tier:
    """Which tier a module is in; ``KeyError`` for one that is in none."""
    tiers: list[tuple[str, Tier]] = [(m, "supported") for m in SUPPORTED]
    tiers += [(m, "internal") for m in INTERNAL]
    tiers += [(m, "undecided") for m in UNDECIDED]
    found = [(len(name), tier) for name, tier in tiers if module == name or module.startswith(name + ".")]
    if not found:
        raise KeyError(f"{module!r} is not in the stability manifest")
    return max(found)[1]


def is_internal(module: str) -> bool:
    """Whether a module is not one that is supported."""
    return stability(module) != "supported"
