"""Stores on a cluster of ray: ingest and other work by tasks, and work over chunks. Needs ``pip install zvf[ray]``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .answers import Answer
from .datasets import Dataset
from .queries import Query
from .tools import Tasks, tasks


def ingest(files: Any, at: Any, *, shares: int | None = None, **words: Any) -> Dataset:
    """Create a store from files with the workers of the cluster; tasks of a lost worker run again."""
    made: Dataset = run(tasks(files, at, shares=shares, **words))
    return made


def run(plan: Tasks) -> Any:
    """Do every task of a plan (:func:`zvf.tasks`, :func:`zvf.plan_work`) with the workers of the cluster, and finish it."""
    ray: Any = import_module("ray")

    one = ray.remote(max_retries=3)(lambda task: plan.run(task))
    for stage in plan.stages():
        ray.get([one.remote(task) for task in stage])
    return plan.finish()


def map_chunks(query: Query, function: Callable[[Answer], Any]) -> list[Any]:
    """What ``function`` makes of each chunk that the query meets, in the order of the chunks."""
    return _mapped(query.by_chunk(), function)


def map_objects(query: Query, function: Callable[[Answer], Any], objects: int = 1000) -> list[Any]:
    """What ``function`` makes of so many objects each, in the order of the objects."""
    return _mapped(query.by_objects(objects), function)


def _mapped(parts: list[Query], function: Callable[[Answer], Any]) -> list[Any]:
    ray: Any = import_module("ray")

    @ray.remote(max_retries=3)
    def call(query: Query) -> Any:
        return function(query.read())

    return list(ray.get([call.remote(query) for query in parts]))


__all__ = ["ingest", "map_chunks", "map_objects", "run"]
