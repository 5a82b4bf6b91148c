"""The exceptions of zvf: one hierarchy, whose members are also the builtin that a Python program expects.

Every fault has fields, so that a program need not read messages:

>>> import zvf
>>> try:
...     zvf.open("/nowhere/at/all")
... except FileNotFoundError as error:
...     print(type(error).__name__, error.class_name, error.hint)
NotFoundError NotFound give the folder of the store, which contains zarr.json
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "Error",
    "NotFoundError",
    "ExistsError",
    "DeniedError",
    "ArgumentError",
    "ArgumentTypeError",
    "RangeError",
    "UnknownNameError",
    "UnsupportedError",
    "CorruptError",
    "BackendError",
    "TimedOutError",
    "ConflictError",
    "SpaceError",
]


class Error(Exception):
    """An error of zvf.

    Attributes:
        class_name: the kind of fault, by its stable name (``NotFound``, ``Truncated``, ...).
        op: what was being done: ``open``, ``read``, ``query``, ``write``, ...
        key: the object or array, below the root of the store.
        span: the bytes of the object that are meant, first and one past the last.
        expected: what must be there.
        found: what is there instead.
        hint: what to do about it.
        retryable: whether the same call may succeed later without anything being changed.
    """

    class_name: str = "Io"
    op: str = ""
    key: str | None = None
    span: tuple[int, int] | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None
    retryable: bool = False

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        for name, value in fields.items():
            setattr(self, name, value)

    def _reword(self, message: str, hint: str | None) -> None:
        """Say the same in other words."""
        self.message, self.hint = message, hint
        self.args = (message,)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {k: v for k, v in self.__dict__.items() if k != "message"}
        return _restore, (type(self), self.message, fields)


class LossWarning(UserWarning):
    """A conversion drops or changes something that the format cannot hold; ``strict=True`` refuses it."""


def _restore(cls: type[Error], message: str, fields: dict[str, Any]) -> Error:
    return cls(message, **fields)


class NotFoundError(Error, FileNotFoundError):
    """The store, object or group does not exist."""

    class_name = "NotFound"


class ExistsError(Error, FileExistsError):
    """The target already exists."""

    class_name = "AlreadyExists"


class DeniedError(Error, PermissionError):
    """Access is denied."""

    class_name = "PermissionDenied"


class ArgumentError(Error, ValueError):
    """The request is invalid, or does not fit this store."""

    class_name = "InvalidArgument"


class ArgumentTypeError(Error, TypeError):
    """The argument does not accept values of this type."""

    class_name = "InvalidArgument"


class RangeError(Error, IndexError):
    """A level, row or axis is out of range."""

    class_name = "InvalidArgument"


class UnknownNameError(Error, KeyError):
    """There is no column, group or dataset with this name."""

    class_name = "InvalidArgument"


class UnsupportedError(Error, NotImplementedError):
    """This build or version does not support the operation."""

    class_name = "Unsupported"


class CorruptError(Error, ValueError):
    """Stored bytes are not valid."""


class BackendError(Error, OSError):
    """A disk or a service failed."""


class TimedOutError(Error, TimeoutError):
    """A service did not answer in time."""

    class_name = "Timeout"


class ConflictError(Error, OSError):
    """Another writer changed or locked the target."""


class SpaceError(Error, OSError):
    """A disk is full, or the memory limit is too small."""


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Puts before the message of a fault what was being done, and to which store."""
    try:
        yield
    except Error as error:
        error._reword(f"{what}: {error.message}", error.hint)
        raise


def wrong_value(argument: str, expected: str, found: str, op: str = "argument") -> ArgumentError:
    """The exception for a value that an argument does not take."""
    return ArgumentError(f"{argument}: expected {expected}, found {found}", op=op, expected=expected, found=found)


def wrong_type(argument: str, expected: str, found: str, op: str = "argument") -> ArgumentTypeError:
    """The exception for a value of a type that an argument does not take."""
    return ArgumentTypeError(f"{argument}: expected {expected}, found {found}", op=op, expected=expected, found=found)


def unknown_word(subject: str, word: str, known: Iterable[str]) -> ArgumentTypeError:
    """The exception for a keyword that there is not, with the one that was meant."""
    import difflib

    names = list(known)
    near = _MEANT.get(word) or next(iter(difflib.get_close_matches(word, names, 1)), None)
    hint = f"did you mean {near!r}?" if near in names else None
    return ArgumentTypeError(f"{subject} has no {word!r}{f'; {hint}' if hint else ''}; it has {', '.join(names)}", op="argument", hint=hint)


#: How the reference and other libraries call words of a query.
_MEANT = {"bbox": "box", "bounds": "box", "near": "ball", "sphere": "ball", "filter": "where", "columns": "attributes", "ids": "objects", "object": "objects"}

_LONGEST = 100  # characters of a value in a message


def shown(value: Any) -> str:
    """A value as a message names it: what it is, in one line."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", False):
        return f"an array of {value.dtype} of the shape {value.shape}"
    try:
        text = repr(value)
    except Exception:  # a class of the caller, whose text fails
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({type(value).__name__})"


_CLASSES: dict[str, type[Error]] = {
    "NotFound": NotFoundError,
    "AlreadyExists": ExistsError,
    "PermissionDenied": DeniedError,
    "Unauthenticated": DeniedError,
    "InvalidArgument": ArgumentError,
    "InvalidKey": ArgumentError,
    "ExpectationFailed": ArgumentError,
    "Unsupported": UnsupportedError,
    "UnsupportedVersion": UnsupportedError,
    "UnsupportedFlags": UnsupportedError,
    "Timeout": TimedOutError,
    "Throttled": BackendError,
    "Unavailable": BackendError,
    "Io": BackendError,
    "FileChanged": BackendError,
    "Conflict": ConflictError,
    "WriterFenced": ConflictError,
    "CommitUnknown": ConflictError,
    "Poisoned": ConflictError,
    "NoSpace": SpaceError,
    "LimitExceeded": SpaceError,
}


def _make(
    class_name: str,
    op: str,
    key: str | None,
    span: tuple[int, int] | None,
    expected: str | None,
    found: str | None,
    hint: str | None,
    message: str,
    retryable: bool | None,
) -> Error:
    """Make the exception for a fault; called by the native half."""
    cls = _CLASSES.get(class_name, CorruptError)
    if cls is ArgumentError and op == "query" and "attribute" in message and "there is no" in message:
        cls = UnknownNameError
    return cls(
        message,
        class_name=class_name,
        op=op,
        key=key,
        span=span,
        expected=expected,
        found=found,
        hint=hint,
        retryable=bool(retryable),
    )
