"""Which names this drop-in has, as the reference counts them."""

from __future__ import annotations

from collections.abc import Iterable

__api_version__ = (1, 3)

FEATURES: frozenset[str] = frozenset(
    {
        "surfaces",
        "presence-rebuild",
        "sharded-presence-guard",
        "selection-level-optional",
        "vertex-attributes-on-read",
        "query-cells",
        "coarsen-strategy-options",
        "runtime-capabilities",
        "read-cells",
        "read-cells-fragments",
        "csr-fragments",
        "fragment-gather",
        "array-manifests",
        "object-manifest-writer",
        "object-attribute-columns",
        "array-link-cells",
        "dense-manifests",
        "supplied-presence",
        "commit-object-index",
        "durable-writes",
        "store-layout",
        "concurrency-contract",
        "shard-transaction",
        "shard-transaction-io-threads",
        "transaction-sweep",
        "object-count-unbounded",
    }
)

_OPERATORS = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


def parse_version(text: str) -> tuple[int, ...]:
    """A version as numbers; what is no digit is left out.

    >>> parse_version("0.2.1.dev66")
    (0, 2, 1, 66)
    """
    numbers = ("".join(c for c in part if c.isdigit()) for part in str(text).strip().split("."))
    return tuple(int(n) if n else 0 for n in numbers) or (0,)


def satisfies(found: tuple[int, ...], spec: str) -> str | None:
    """The first clause of ``spec`` that ``found`` breaks, or ``None``."""
    for clause in filter(None, (c.strip() for c in spec.split(","))):
        operator = next((o for o in _OPERATORS if clause.startswith(o)), None)
        if operator is None:
            raise ValueError(
                f"cannot parse version clause {clause!r} in {spec!r}; expected one of >=, >, <=, <, == and a version"
            )
        want = parse_version(clause[len(operator) :])
        width = max(len(found), len(want))
        pad = lambda v: tuple(v) + (0,) * (width - len(v))
        if not _OPERATORS[operator](pad(found), pad(want)):
            return clause
    return None


def require_api(spec: str = "", *, features: Iterable[str] | str = ()) -> None:
    """Raise ``ImportError`` unless the interface is of a version and has features."""
    wanted = {features} if isinstance(features, str) else set(features)
    version = ".".join(map(str, __api_version__))
    missing = sorted(wanted - FEATURES)
    if missing:
        raise ImportError(
            f"zarr-vectors {version} does not provide: {', '.join(missing)}. Known features: {', '.join(sorted(FEATURES))}."
        )
    if spec and satisfies(__api_version__, spec) is not None:
        raise ImportError(f"zarr-vectors API surface is {version}, which does not satisfy {spec!r}")
