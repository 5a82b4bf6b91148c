"""Stores on a cluster of dask: ingest and other work by tasks, and work over chunks. Needs ``pip install zvf[dask]``.

Workers get the address of a store and a query, never its bytes; a task that is lost with its worker runs again
elsewhere, and doing a task twice does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .answers import Answer
from .datasets import Dataset
from .queries import Query
from .tools import Tasks, tasks


def ingest(client: Any, files: Any, at: Any, *, shares: int | None = None, **words: Any) -> Dataset:
    """Create a store from files with the workers of a client of ``distributed``."""
    made: Dataset = run(client, tasks(files, at, shares=shares, **words))
    return made


def run(client: Any, plan: Tasks) -> Any:
    """Do every task of a plan (:func:`zvf.tasks`, :func:`zvf.plan_work`) with the workers of a client, and finish it."""
    for stage in plan.stages():
        client.gather(client.map(plan.run, stage, pure=False))
    return plan.finish()


def map_chunks(query: Query, function: Callable[[Answer], Any]) -> list[Any]:
    """One ``dask.delayed`` value for each chunk of a level that the query meets: ``function`` of what is in it."""
    return _delayed(query.by_chunk(), function)


def map_objects(query: Query, function: Callable[[Answer], Any], objects: int = 1000) -> list[Any]:
    """One ``dask.delayed`` value for so many objects each that the query may find: ``function`` of their lines."""
    return _delayed(query.by_objects(objects), function)


def _delayed(parts: list[Query], function: Callable[[Answer], Any]) -> list[Any]:
    from dask.delayed import delayed

    call = delayed(_call)
    return [call(query, function) for query in parts]


def bag(query: Query) -> Any:
    """A ``dask.bag`` of answers, one for each chunk."""
    import dask.bag

    return dask.bag.from_delayed([part for part in map_chunks(query, _alone)])


def _call(query: Query, function: Callable[[Answer], Any]) -> Any:
    return function(query.read())


def _alone(answer: Answer) -> list[dict[str, Any]]:
    return [{"positions": answer.positions.copy(), **{name: answer[name].copy() for name in answer}}]


__all__ = ["Tasks", "bag", "ingest", "map_chunks", "map_objects", "run"]
