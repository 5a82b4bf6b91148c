"""The one switch of the drop-in: where the reference is known wrong, what ours does.

>>> from zvf.compat import config
>>> with config(limits="reference"):
...     config.limits
'reference'
>>> config.limits
'off'
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zvf.errors import ArgumentError, shown, wrong_value

_DEFAULTS = {"touch": "exact", "limits": "off", "unknown": "raise", "edits": "keep", "pyramid": "full"}


class Config:
    """Keys and their values; ``reference`` is for programs that depend on what the reference does."""

    touch: str
    limits: str
    unknown: str
    edits: str
    pyramid: str

    def __init__(self) -> None:
        self.__dict__.update(_DEFAULTS)
        for pair in os.environ.get("ZVF_COMPAT", "").split(","):
            key, _, value = pair.partition("=")
            if key.strip() in ("reference", "all"):
                self.set(**dict.fromkeys(_DEFAULTS, "reference"))
            elif key.strip():
                self.set(**{key.strip(): value.strip()})

    def set(self, **values: str) -> None:
        """Set keys for the whole process."""
        for key, value in values.items():
            if key not in _DEFAULTS:
                raise ArgumentError(f"zvf.compat has no switch {key!r}; it has {', '.join(_DEFAULTS)}")
            if value not in ("reference", _DEFAULTS[key]):
                raise wrong_value(key, f"{_DEFAULTS[key]} or reference", shown(value))
            self.__dict__[key] = value

    @contextmanager
    def __call__(self, **values: str) -> Iterator[Config]:
        """Set keys inside a ``with`` block."""
        before = dict(self.__dict__)
        self.set(**values)
        try:
            yield self
        finally:
            self.__dict__.update(before)

    def __repr__(self) -> str:
        return f"zvf.compat.config({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


config = Config()
