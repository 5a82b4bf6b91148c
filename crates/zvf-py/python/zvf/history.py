"""Work on commits and on several stores: earlier states, differences, joining, dividing, new columns from a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arrays import indices
from ._columns import column, flagged
from ._jobs import address_of, command, storage_pairs
from ._words import corners, count_of, options, text_of
from .datasets import Dataset, _commit_number
from .errors import ArgumentError, UnknownNameError, shown, wrong_type, wrong_value


def _of(store: Any, storage_options: Any) -> tuple[str, list[tuple[str, str]]]:
    address, own = address_of(store)
    return address, [*own, *storage_pairs(storage_options)]


def checkout(store: Any, commit: int | str, out: Any, *, storage_options: Any = None) -> Dataset:
    """Create a store with the state of another one at an earlier commit.

    Args:
        store: the store, which stays as it is.
        commit: ``head`` or ``txid`` of :meth:`zvf.Dataset.log`; 0 is the store before the first commit.
        out: the path of the new store.

    Returns:
        The new store.

    Raises:
        NotFoundError: there is no such commit, or the journal does not have its bytes any more.
        ExistsError: there is something at `out`.

    >>> import numpy as np, tempfile, zvf
    >>> folder = tempfile.mkdtemp()
    >>> ds = zvf.points(folder + "/a.zarrvectors", np.eye(3)).append(np.ones((2, 3)))
    >>> zvf.checkout(ds, 0, folder + "/old.zarrvectors").count(), ds.count()
    (3, 5)
    """
    address, storage = _of(store, storage_options)
    target = address_of(out)[0]
    command("history", "checkout", address, _commit_number(address, storage, commit), target, storage=storage)
    return Dataset(target, storage)


def diff(store: Any, other: Any, last: int | str | None = None, *, storage_options: Any = None) -> dict[str, Any]:
    """Which objects, vertices, links, columns and groups differ between two stores, or between two commits of one.

    Args:
        store: a store.
        other: another store; or a commit of this one, its ``head`` as a number.
        last: another commit of this store [default: the last one].

    Returns:
        What differs, by ``objects``, ``vertices``, ``links``, ``columns``, ``groups`` and ``bounds``; ``same`` is whether nothing does.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3)).append(np.ones((2, 3)))
    >>> zvf.diff(ds, 0)["vertices"]["added"]
    2
    """
    address, storage = _of(store, storage_options)
    if isinstance(other, (int, np.integer)):
        ends = [str(_commit_number(address, storage, commit)) for commit in (int(other), last) if commit is not None]
    elif last is not None:
        raise ArgumentError("diff: two commits of one store, or two stores")
    else:
        there, own = address_of(other)
        ends, storage = [there], [*storage, *own]
    said: dict[str, Any] = command("history", "diff", address, *ends, storage=storage)[0]
    return said


def gc(store: Any, *, keep: int | None = None, grace: str | None = None, dry_run: bool = False, storage_options: Any = None) -> dict[str, Any]:
    """Remove files that the journal does not need: commits before the last `keep` can then not be undone.

    Args:
        keep: how many commits can still be undone [default: 10].
        grace: keep files that are younger, such as ``"24h"``, ``"30m"`` or ``"0s"`` [default: 24h].
        dry_run: remove nothing, and say what would be removed.

    Returns:
        What was done; ``removed`` has the numbers of files and bytes.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3)).append(np.ones((2, 3)))
    >>> zvf.gc(ds, dry_run=True)["removed"]["files"]
    0
    """
    address, storage = _of(store, storage_options)
    words = {"keep": None if keep is None else count_of("keep", keep), "grace": grace, "dry_run": dry_run}
    said: dict[str, Any] = command("history", "gc", address, *options(words), storage=storage)[0]
    return said


def vacuum(store: Any, *, dry_run: bool = False, storage_options: Any = None, progress: Any = None) -> dict[str, Any]:
    """Rewrite a store without rows that no object has, in one commit; returns what was done.

    >>> import numpy as np, tempfile, zvf
    >>> zvf.vacuum(zvf.points(tempfile.mkdtemp() + "/a.zarrvectors", np.eye(3)))["changed"]
    False
    """
    address, storage = _of(store, storage_options)
    said: dict[str, Any] = command("vacuum", address, *options({"dry_run": dry_run}), storage=storage, progress=progress)[0]
    return said


def join(
    into: Any,
    *stores: Any,
    ids: str = "shift",
    bounds: str = "grow",
    group_by_source: bool = False,
    refresh: str = "none",
    message: str | None = None,
    storage_options: Any = None,
    progress: Any = None,
) -> Dataset:
    """Add the objects, points, links and groups of other stores to one, in one commit.

    Args:
        into: the store that is extended.
        stores: those that are added, which have the same columns.
        ids: ``shift``: to the next free id; ``keep``: as they are; ``new``: one after the other.
        bounds: what becomes of vertices outside the bounds of `into`: ``grow`` or ``refuse``.
        group_by_source: whether the objects of each store become a group of its name.
        refresh: coarser levels: ``none`` leaves them behind, ``stale`` and ``all`` build them again.
        message: what the log says of it.

    Returns:
        The store that was extended.

    >>> import numpy as np, tempfile, zvf
    >>> folder = tempfile.mkdtemp()
    >>> left, right = (zvf.polylines(f"{folder}/{name}.zarrvectors", [np.ones((2, 3))]) for name in ("left", "right"))
    >>> zvf.join(left, right).object_ids().tolist()
    [0, 1]
    """
    if not stores:
        raise wrong_value("stores", "at least one to add", "none")
    address, storage = _of(into, storage_options)
    others = [address_of(store) for store in stores]
    words = {"ids": ids, "bounds": bounds, "group_by_source": group_by_source, "refresh": refresh, "message": message}
    storage = [*storage, *(pair for _, own in others for pair in own)]
    command("join", address, *(there for there, _ in others), *options(words), storage=storage, progress=progress)
    return Dataset(address, storage)


def divide(
    store: Any,
    folder: Any,
    *,
    by: str,
    boxes: Sequence[Any] = (),
    half_open: bool = False,
    storage_options: Any = None,
    progress: Any = None,
) -> dict[str, Dataset]:
    """Create a store for each group, object, value or box of one, which stays as it is.

    Args:
        folder: where the new stores are; it must not exist.
        by: ``group``, ``object``, ``attribute:NAME`` or ``box``.
        boxes: of ``box`` the lowest and the highest corner of each.
        half_open: whether what lies on the upper faces of boxes is left out.

    Returns:
        The new stores by their names.

    >>> import numpy as np, tempfile, zvf
    >>> at = tempfile.mkdtemp()
    >>> ds = zvf.polylines(at + "/a.zarrvectors", [np.zeros((2, 3)), np.ones((3, 3))], groups={"left": [0], "right": [1]})
    >>> {name: part.count() for name, part in zvf.divide(ds, at + "/parts", by="group").items()}
    {'left': 2, 'right': 3}
    """
    address, storage = _of(store, storage_options)
    args = [f"--by={text_of('by', by)}", *options({"half_open": half_open})]
    for box in boxes:
        args.append("--bbox=" + ":".join(",".join(map(repr, corner)) for corner in corners("boxes", box)))
    said, _ = command("divide", address, address_of(folder)[0], *args, storage=storage, progress=progress)
    return {part["name"]: Dataset(part["store"], storage) for part in said["stores"]}


def attach(
    store: Any,
    table: Any,
    *,
    key: str,
    on: str | None = None,
    columns: Sequence[str] | None = None,
    prefix: str = "",
    replace: bool = False,
    unmatched: str = "ignore",
    message: str | None = None,
    storage_options: Any = None,
) -> Dataset:
    """Add columns of a table to the objects of a store, in one commit.

    Args:
        table: a CSV or TSV file; or a mapping of names to columns, a frame of pandas or polars, a table of Arrow.
        key: the column of the table that says of which object a row is.
        on: the column of objects with the same values, such as ``object.code`` [default: their ids].
        columns: the columns to add [default: all but `key`].
        prefix: what the names of new columns begin with.
        replace: whether columns of the same name are replaced.
        unmatched: what becomes of rows without an object: ``ignore`` or ``error``.
        message: what the log says of it.

    Returns:
        The store. Objects without a row have no value.

    Raises:
        UnknownNameError: the table has no such column.

    >>> import numpy as np, tempfile, zvf
    >>> ds = zvf.polylines(tempfile.mkdtemp() + "/a.zarrvectors", [np.zeros((2, 3)), np.ones((3, 3))])
    >>> zvf.attach(ds, {"id": [1, 0], "kind": ["long", "short"]}, key="id").object_table()["object.kind"].tolist()
    ['short', 'long']
    """
    address, storage = _of(store, storage_options)
    dataset = Dataset(address, storage)
    if isinstance(table, (str, os.PathLike)):
        words = {"key": key, "on": on, "columns": columns, "prefix": prefix or None, "replace": replace, "unmatched": unmatched, "message": message}
        command("attach", address, os.fsdecode(os.fspath(table)), *options(words), storage=storage)
        return dataset
    if unmatched not in ("ignore", "error"):
        raise wrong_value("unmatched", "ignore or error", shown(unmatched))
    given = _columns_of(table)
    wanted = [name for name in given if name != key] if columns is None else list(columns)
    if lacking := [name for name in (key, *wanted) if name not in given]:
        raise UnknownNameError(f"the table has no column {lacking[0]!r}: it has {', '.join(given)}", op="write")
    own = dataset.object_table()
    if on is not None and on not in own:
        raise UnknownNameError(f"there is no column {on!r}: there is {', '.join(n for n in own if n.startswith('object.'))}", op="write")
    place = {value: int(number) for value, number in zip(own[on or "object"].tolist(), own["object"]) if value is not None}
    keys = given[key] if on is not None else indices(np.array(given[key]), key).tolist()
    rows = [row for row, value in enumerate(keys) if value in place]
    if unmatched == "error" and len(rows) < len(keys):
        lone = next(value for value in keys if value not in place)
        raise ArgumentError(f"no object has {on or 'the id'} {lone!r}", op="write")
    with dataset.edit(message) as edit:
        objects = own["object"].tolist()
        at = {number: row for row, number in enumerate(objects)}
        stored = {entry["name"] for entry in dataset.info()["levels"][0]["attributes"] if entry["scope"] == "object"}
        for name in wanted:
            values: list[Any] = [None] * len(objects)
            for row in rows:
                values[at[place[keys[row]]]] = given[name][row]
            for entry in flagged(column(prefix + name, values, len(objects))):
                if entry["name"] in stored:
                    if not replace:
                        raise ArgumentError(f"there is a column object.{entry['name']} already; give a prefix, or replace=True", op="write")
                    edit.apply("column.drop", scope="object", name=entry["name"])
                _add_column(edit, entry, objects)
    return dataset


def _add_column(edit: Any, entry: dict[str, Any], objects: list[int]) -> None:
    """Adds a column of objects with a value for each."""
    raw, dtype, width = entry["array"]
    stored = raw.view(dtype)
    if entry["categories"] is not None:
        stored = np.array(entry["categories"])[stored]
        dtype = stored.dtype.str if stored.dtype.kind == "U" else stored.dtype.name
    name, told = entry["name"], {key: entry[key] for key in ("unit", "description")}
    fill = False if dtype == "bool" else None
    edit.apply("column.add", scope="object", name=name, dtype=dtype, fill=fill, width=width if width > 1 else None, **told)
    edit.apply("object.set", objects=objects, each={name: stored.reshape(len(objects), -1) if width > 1 else stored})


def _columns_of(table: Any) -> dict[str, list[Any]]:
    """The columns of a table as values of Python."""
    names = list(table) if isinstance(table, Mapping) else getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is None:
        raise wrong_type("table", "a file, a mapping, a frame or a table of Arrow", shown(table))
    found = {}
    for name in names:
        column = table[name]
        listed = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist() if hasattr(column, "tolist") else list(column)
        found[str(name)] = listed
    return found

