"""The rule at the door: what cannot be stored as it is raises, or is told with :class:`zvf.LossWarning`, from any library."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from typing import Any

from .errors import ArgumentError, LossWarning


class door:
    """One call by which data come in: what it loses is told once, when it ends; ``strict`` makes it an error."""

    _open: ContextVar[door | None] = ContextVar("door", default=None)

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.losses: dict[str, None] = {}

    def __enter__(self) -> door:
        outer = door._open.get()
        self._token = None if outer is not None else door._open.set(self)  # one that is inside of another is a part of it
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._token is not None:
            door._open.reset(self._token)
        if kind is None:
            for loss in self.losses:
                warn(loss)


def lose(loss: str) -> None:
    """Tell that something cannot be stored as it is."""
    through = door._open.get()
    if through is None:
        warn(loss)
    elif through.strict:
        raise ArgumentError(f"{loss}; strict=True refuses it", op="write")
    else:
        through.losses[loss] = None


def warn(message: str, category: type[Warning] = LossWarning) -> None:
    """Warns with the line that called the package."""
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "zvf":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
